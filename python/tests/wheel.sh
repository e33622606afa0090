#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What pip makes of the sources: the package and nothing else, with the library inside, for all versions of Python from 3.9 on.
# shellcheck source=tests/cli/cli_common.sh
. "$(dirname "$0")/../../tests/cli/cli_common.sh"

python=${PYTHON:-/usr/bin/python3}
if ! "$python" -c 'import mesonpy, pip' 2>/dev/null; then
    echo "1..0 # SKIP there is no meson-python, or no pip (Debian: python3-mesonpy python3-pip)"
    exit 0
fi

# From a copy: meson-python writes into the sources.
mkdir "$scratch/sources"
(cd "$SOURCE_DIR" && tools/sources | tar --null -T - -c) | tar -C "$scratch/sources" -x
# What is tested here does not get better by optimization.
said=$("$python" -m pip wheel --no-build-isolation --no-deps --config-settings=setup-args=-Doptimization=0 \
    -w "$scratch/wheel" "$scratch/sources" 2>&1) && status=0 || status=$?
equal "pip makes a wheel" 0 "$status"
[ "$status" -eq 0 ] || echo "# ${said//$'\n'/$'\n# '}"
wheel=$(echo "$scratch"/wheel/pawl-*.whl)
matches "... for this and later versions" "*-abi3-*" "$wheel"
files=$("$python" -m zipfile -l "$wheel" | awk 'NR > 1 { print $1 }')
equal "... with the package and nothing else" "" "$(grep -v -e '^pawl/' -e '^pawl-[0-9.]*\.dist-info/' <<<"$files")"
equal "... with everything of it" "$(cd "$SOURCE_DIR/python" && find pawl -name '*.py' -o -name '*.pyi' -o -name py.typed | sort)" \
    "$(grep -E '\.pyi?$|py\.typed$' <<<"$files" | sort)"

"$python" -m pip install -q --no-deps --no-index --target "$scratch/site" "$wheel" >/dev/null 2>&1
equal "... and the library inside" "" "$(ldd "$scratch/site/pawl/_pawl.abi3.so" | grep libpawl)"
sum=$(sha256sum <"$scratch/site/pawl/_pawl.abi3.so")
cat >"$scratch/try.py" <<'END'
import pawl
with pawl.Lock("x") as lock:
    print("token", lock.token > 0, *pawl.engines())
END
# All that can be found: the one file serves each of them.
tried=0
for other in "$python" "$HOME"/.pyenv/versions/3.*/bin/python3; do
    "$other" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
    version=$("$other" -c 'import platform; print(platform.python_version())')
    equal "it runs with Python $version" "token True local" \
        "$(cd "$scratch" && PAWL_URL=local:$scratch/locks PYTHONPATH=$scratch/site "$other" -W error try.py 2>&1 | cut -d ' ' -f 1-3)"
    tried=$((tried + 1))
done
echo "# $tried versions, one file: ${sum%% *}"
done_testing
