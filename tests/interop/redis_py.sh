#!/usr/bin/env bash
# redis-py's Lock and pawl with layout=plain exclude each other, both ways.
# shellcheck source=tests/interop/common.sh
. "$(dirname "$0")/common.sh"
/usr/bin/python3 -c 'import redis' 2>/dev/null || skip_all "there is no redis-py (Debian: python3-redis)"
start_servers redis
export PAWL_URL="$PAWL_URL?layout=plain"
check "redis-py and pawl --layout=plain" /usr/bin/python3 "$SOURCE_DIR/tests/interop/redis_py.py"
end
