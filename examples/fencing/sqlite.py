#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A table that takes nothing from a holder whose turn was over: a column has the token of the hold that wrote the row.

    pawl run -u redis://host fencing -- sqlite.py DATABASE TEXT

Says that it holds, works until a line comes from standard input, and writes TEXT. Exit status 1: refused, since a later holder has written
meanwhile.
"""

import os
import sqlite3
import sys

TABLE = "CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL, token INTEGER NOT NULL)"
WRITE = """
    INSERT INTO settings (name, value, token) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, token = excluded.token
    WHERE excluded.token >= settings.token
"""

path, text = sys.argv[1:]
token = int(os.environ["PAWL_TOKEN"])
print(f"holds {token}", flush=True)
sys.stdin.readline()  # the work

database = sqlite3.connect(path)
with database:  # a transaction
    database.execute(TABLE)
    refused = database.execute(WRITE, ("color", text, token)).rowcount == 0
print("refused" if refused else "written", flush=True)
sys.exit(refused)
