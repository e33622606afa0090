#!/usr/bin/python3
"""Put the page into a C file: page/build.py OUTPUT index.html FILE.css FILE.js...

Scripts become one, in the order given; comments and spaces that only people need are left out. What a browser gets must not be
more than 60 kB.
"""

import hashlib
import re
import sys

MOST = 60000
# A text, a template, a regular expression, a comment: what is inside them stays, or goes, as a whole. After a value / divides.
TOKEN = re.compile(
    r"""
    (?P<comment>/\*.*?\*/)
  | (?P<text>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")
  | (?P<template>`)
  | (?P<regex>(?:(?<=[(,=:\[!&|?{};])|(?<=[(,=:\[!&|?{};]\s))/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*)
  | (?P<space>\s+)
  | (?P<word>[\w$]+)
  | (?P<mark>.)
""",
    re.X | re.S,
)


def template_end(source, start):
    """The place behind the template that begins there; inside ${} there may be others."""
    at, depth = start + 1, 0
    while True:
        if source[at] == "\\":
            at += 2
        elif source[at] == "`" and depth == 0:
            return at + 1
        elif source[at] == "`":
            at = template_end(source, at)
        elif source.startswith("${", at) and depth == 0:
            depth, at = 1, at + 2
        else:
            depth += (source[at] == "{") - (source[at] == "}") if depth else 0
            at += 1


def join(out, piece, space):
    """Add a piece; keep a space only where two would run together. Line ends are spaces: each of our statements has its end. What stands
    before a } needs none."""
    if piece == "}" and out and out[-1] in (";", ","):
        out.pop()
    last = out[-1][-1] if out else ";"
    words = (last.isalnum() or last in "_$") and (piece[0].isalnum() or piece[0] in "_$")
    if space and (words or (last == piece[0] and last in "+-")):
        out.append(" ")
    out.append(piece)


def smaller_script(source):
    out, space, at = [], False, 0
    while at < len(source):
        found = TOKEN.match(source, at)
        piece = found[0]
        at = found.end()
        if found.lastgroup == "template":
            at = template_end(source, found.start())
            piece = source[found.start() : at]
        if found.lastgroup in ("comment", "space"):
            space = True
            continue
        join(out, piece, space)
        space = False
    return "".join(out) + "\n"


def smaller_style(source):
    source = re.sub(r"/\*.*?\*/", "", source, flags=re.S)
    source = re.sub(r"\s+", " ", source)
    return re.sub(r" ?([{};,>]) ?|(?<=[a-z]): ", lambda found: found[1] or ":", source).replace(";}", "}").strip()


def as_c(name, kind, data):
    numbers = ",".join(str(byte) for byte in data)
    tag = hashlib.sha256(data).hexdigest()[:16]
    return f"static const unsigned char {name}[] = {{{numbers}}};\n", f'    {{"{kind}", {name}, sizeof {name}, "\\"{tag}\\""}},\n'


def main():
    output, html, css, *scripts = sys.argv[1:]
    read = lambda path: open(path, encoding="utf-8").read()
    script = smaller_script("\n".join(map(read, scripts)))
    style = smaller_style(read(css))
    page = read(html)
    size = len((page + script + style).encode())
    if size > MOST:
        sys.exit(f"page/build.py: page, script and style are {size} bytes, and may be {MOST}: leave something out")
    parts = [
        as_c("index_html", "text/html; charset=utf-8", page.encode()),
        as_c("app_css", "text/css; charset=utf-8", style.encode()),
        as_c("app_js", "text/javascript; charset=utf-8", script.encode()),
    ]
    with open(output, "w", encoding="utf-8") as file:
        file.write('/* Made by page/build.py. */\n#include "assets.h"\n\n')
        file.writelines(array for array, _ in parts)
        file.write("\nconst struct asset assets[ASSETS] = {\n" + "".join(row for _, row in parts) + "};\n")


if __name__ == "__main__":
    main()
