#!/usr/bin/python3
"""Put the scripts together from the parts in lua/, and write a C file with all of them: lua/build.py redis|redlock OUTPUT FILE.lua...

Of each part its functions and what is between them are constants of that file, without comments and indents, which would go over the wire
at every EVAL. A script is a list of these, with its length and its SHA-1, by which EVALSHA names it. A function that a script never calls
is not in it: the server makes each one anew whenever the script runs. In a cluster a message goes to a channel of its own slot, so there
each script stands once more with the commands for that.
"""

import hashlib
import os
import re
import sys

SHARDED = {"'PUBLISH'": "'SPUBLISH'", "'NUMSUB'": "'SHARDNUMSUB'"}

# Parts that are no file: a name and its text.
GLUE = {
    "no_fast_path": "local DROPPED, TURN_DUE = false, false\n",
    "as_kind_0": "local kinds = {}\nkinds['0'] = function(KEYS, ARGV, PROBE)\n",
    "as_kind_1": "end\nkinds['1'] = function(KEYS, ARGV, PROBE)\n",
    "as_kind_2": "end\nkinds['2'] = function(KEYS, ARGV, PROBE)\n",
    "kinds_end": "end\n",
    "mutex_aliens": "local function aliens_wait(rest) return foreigners_wait('redisson_lock__channel' .. rest) end\n",
    "rw_aliens": "local function aliens_wait(rest) return redis.call('PUBSUB', 'NUMSUB', 'redisson_rwlock' .. rest)[2] > 0 end\n",
    "plain_aliens": "local function aliens_wait() return false end\n",
    # Who looks for all locks: is a lock held by a pawl only where its key has a record?
    "recorded": "local RECORDED = true\n",
    "not_recorded": "local RECORDED = false\n",
}


def scripts_of_layout(plain):
    """For the mutexes of Redisson, or of the plain family; the other kinds are the same in both."""
    family = "plain" if plain else "mutex"
    key, look, holder = f"{family}_key", f"{family}_look", f"{family}_holder"
    mutex = ["common", "with_token", look, "mutex"]  # and before it "foreign"
    rw, semaphore = ["common", "holders", "rw"], ["common", "holders", "semaphore"]
    acquire = ["queue", "recover", "probe", "is_broken", "acquire"]
    all_kinds = ["as_kind_0", key, "foreign", *mutex, *acquire, "as_kind_1", *rw, *acquire, "as_kind_2", *semaphore, *acquire, "kinds_end"]
    return {
        "SCRIPT_ACQUIRE": [key, "fast_acquire", holder, "fast_queue", "foreign", *mutex, "queue", "recover", "is_broken", "acquire"],
        "SCRIPT_ACQUIRE + PAWL_RWLOCK": [*rw, "queue", "recover", "is_broken", "acquire"],
        "SCRIPT_ACQUIRE + PAWL_SEMAPHORE": [*semaphore, "queue", "recover", "is_broken", "acquire"],
        "SCRIPT_RELEASE": [key, "foreign", "fast_release", *mutex, "queue", "release"],
        "SCRIPT_RELEASE + PAWL_RWLOCK": ["no_fast_path", *rw, "queue", "release"],
        "SCRIPT_RELEASE + PAWL_SEMAPHORE": ["no_fast_path", *semaphore, "queue", "release"],
        "SCRIPT_RENEW": ["is_broken", "renew_" + family, *([] if plain else ["foreign"]), family + "_aliens", "renew_wanted", "renew"],
        "SCRIPT_RENEW + PAWL_RWLOCK": ["is_broken", "renew_records", "renew_rw", "rw_aliens", "renew_wanted", "renew"],
        "SCRIPT_RENEW + PAWL_SEMAPHORE": ["is_broken", "renew_records", "renew_semaphore", "renew"],
        "SCRIPT_BREAK": [key, "foreign", *mutex, "queue", "break"],
        "SCRIPT_BREAK + PAWL_RWLOCK": [*rw, "queue", "break"],
        "SCRIPT_BREAK + PAWL_SEMAPHORE": [*semaphore, "queue", "break"],
        "SCRIPT_MORE_TOKENS": ["foreign", *([] if plain else ["fast_more_tokens"]), *mutex, "more_tokens"],
        "SCRIPT_MORE_TOKENS + PAWL_RWLOCK": [*rw, "more_tokens"],
        "SCRIPT_DOWNGRADE": [*rw, "queue", "downgrade"],
        "SCRIPT_ACQUIRE_ALL": [*all_kinds, "acquire_all"],
        "SCRIPT_SURVEY": ["survey_head", "recorded", "with_token", "plain_look", "survey"],
        "SCRIPT_WRITE": ["write"],
        "SCRIPT_READ": ["read"],
    }


# Mutexes alone, and short ways through all of it.
REDLOCK = {
    "SCRIPT_ACQUIRE": ["acquire"],
    "SCRIPT_RELEASE": ["release"],
    "SCRIPT_RENEW": ["renew_vote", "renew"],
    "SCRIPT_RAISE": ["raise"],
    "SCRIPT_BREAK": ["common", "look", "break"],
    "SCRIPT_SURVEY": ["survey_head", "not_recorded", "with_token", "look", "survey"],
}


class Piece:
    """Of a part: one of its functions, or what is between two."""

    def __init__(self, name, function, text):
        self.name, self.function, self.text = name, function, text

    def mentions(self, word):
        return re.search(rf"\b{word}\b", self.text)


def read_part(path):
    name, pieces, function = os.path.splitext(os.path.basename(path))[0], [], None
    is_over = True  # the piece before
    for line in (re.sub(r"(^|\s)--.*$", "", line).rstrip() for line in open(path)):
        begins = re.match(r"local function (\w+)", line)
        if begins or line and is_over:
            function = begins and begins[1]
            pieces.append(Piece(f"{name}_{function or len(pieces)}", function, ""))
        if line:
            pieces[-1].text += line.strip() + "\n"
            is_over = function and re.search(r"^end$" if not begins else r"\bend$", line)
    return name, pieces


def without_unused(pieces):
    while True:
        used = [piece for piece in pieces
                if not piece.function or any(other.mentions(piece.function) for other in pieces if other is not piece)]
        if len(used) == len(pieces):
            return used
        pieces = used


def pieces_of(script, parts):
    """Of a list of parts. What stands in a function for each kind is no use to the others."""
    pieces, scope = [], []
    for part in script:
        if part.startswith("as_kind_") or part == "kinds_end":
            pieces, scope = pieces + without_unused(scope), []
        scope = scope + parts[part]
    return pieces + without_unused(scope)


def shard(text):
    for word, sharded in SHARDED.items():
        text = text.replace(word, sharded)
    return text


def c_string(text):
    lines = text.replace("\\", "\\\\").replace('"', '\\"').split("\n")
    return "\n".join(f'    "{line}\\n"' for line in lines[:-1])


def constant(piece):
    return f"\nstatic const char {piece.name}[] =\n{c_string(piece.text)};\n"


def table(name, scripts, parts, ret_used):
    text = f"\nconst struct pawl__script {name}[SCRIPT_COUNT] = {{\n"
    for script, names in scripts.items():
        pieces = pieces_of(names, parts)
        body = "".join(piece.text for piece in pieces).encode()
        text += f'    [{script}] = {{"{hashlib.sha1(body).hexdigest()}", {len(body)},\n'
        text += f"        (const char *const[]){{{', '.join(piece.name for piece in pieces)}, NULL}}}},\n"
        ret_used.update((piece.name, piece) for piece in pieces)
    return text + "};\n"


def sharded_pieces(pieces):
    """The same, and new ones where the text differs."""
    texts = [(piece, shard(piece.text)) for piece in pieces]
    return [piece if text == piece.text else Piece("sharded_" + piece.name, piece.function, text) for piece, text in texts]


def redis_tables(parts, ret_used):
    sharded = {name: sharded_pieces(pieces) for name, pieces in parts.items()}
    for layout in ("redisson", "plain"):
        scripts = scripts_of_layout(layout == "plain")
        yield table(f"pawl__{layout}_scripts", scripts, parts, ret_used)
        yield table(f"pawl__{layout}_cluster_scripts", scripts, sharded, ret_used)


def main():
    parts, used = dict(read_part(path) for path in sys.argv[3:]), {}
    parts |= {name: [Piece(name, None, text)] for name, text in GLUE.items()}
    if sys.argv[1] == "redlock":  # its servers are no cluster
        tables = [table("pawl__redlock_scripts", REDLOCK, parts, used)]
    else:
        tables = list(redis_tables(parts, used))
    with open(sys.argv[2], "w") as out:
        out.write('/* Made by lua/build.py. */\n#include "engine/redis/wire/wire.h"\n')
        out.writelines(constant(piece) for piece in used.values())
        out.writelines(tables)


main()
