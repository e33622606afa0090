# SPDX-License-Identifier: Apache-2.0
"""Files of PyPI, from the index that pip is set up for, each fetched once."""

import hashlib
import html
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request

PATIENCE_S = 60


def index():
    """pip knows of no other way to say it than its settings, or its own default."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False)
    found = os.environ.get("PIP_INDEX_URL") or said.stdout.strip()
    if found:
        return found
    try:
        from pip._internal.models.index import PyPI
    except ImportError as missing:
        raise OSError("there is no pip (Debian: python3-pip)") from missing
    return PyPI.simple_url


def read(address):
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        return answer.read()


def fetch(name, sha256, directory):
    """The path of the file NAME (kazoo-2.10.0.tar.gz) in DIRECTORY. Raises OSError."""
    path = os.path.join(directory, name)
    if os.path.exists(path):
        return path
    page = f"{index().rstrip('/')}/{name.split('-')[0]}/"
    links = (html.unescape(link) for link in re.findall(r'href="([^"#]*)', read(page).decode()))
    found = next((link for link in links if link.rsplit("/", 1)[-1] == name), None)
    if found is None:
        raise OSError(f"PyPI has no {name}")
    data = read(urllib.parse.urljoin(page, found))
    if hashlib.sha256(data).hexdigest() != sha256:
        raise OSError(f"PyPI sent another file than {name}")
    os.makedirs(directory, exist_ok=True)
    with open(f"{path}.{os.getpid()}", "wb") as file:
        file.write(data)
    os.rename(file.name, path)
    return path
