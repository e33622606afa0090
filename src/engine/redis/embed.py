#!/usr/bin/python3
"""Make one C file with each Lua file as a string: embed.py OUTPUT FILE.lua... Comments and indents are left out: they would go over
the wire at every EVAL."""

import os
import re
import sys

with open(sys.argv[1], "w") as out:
    out.write("/* Made by embed.py. */\n")
    for path in sys.argv[2:]:
        name = os.path.splitext(os.path.basename(path))[0]
        out.write(f"extern const char pawl__lua_{name}[];\nconst char pawl__lua_{name}[] =\n")
        for line in open(path):
            line = re.sub(r"(^|\s)--.*$", "", line.rstrip("\n")).strip()
            if line:
                out.write('    "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"\n')
        out.write('    "";\n')
