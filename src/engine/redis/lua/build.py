#!/usr/bin/python3
"""Put the scripts together from the parts in lua/, and write a C file with all of them: lua/build.py redis|redlock OUTPUT FILE.lua...

The parts are constants of that file, without comments and indents, which would go over the wire at every EVAL. A script is a list of
parts, with its length and its SHA-1, by which EVALSHA names it. In a cluster a message goes to a channel of its own slot, so there each
script stands once more with the commands for that.
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


def read_part(path):
    lines = (re.sub(r"(^|\s)--.*$", "", line.rstrip("\n")).strip() for line in open(path))
    return "".join(line + "\n" for line in lines if line)


def shard(text):
    for word, sharded in SHARDED.items():
        text = text.replace(word, sharded)
    return text


def c_string(text):
    lines = text.replace("\\", "\\\\").replace('"', '\\"').split("\n")
    return "\n".join(f'    "{line}\\n"' for line in lines[:-1])


def write_parts(out, parts, prefix):
    for name, text in parts.items():
        out.write(f"\nstatic const char {prefix}{name}[] =\n{c_string(text)};\n")


def write_table(out, name, scripts, parts, prefix_of):
    out.write(f"\nconst struct pawl__script {name}[SCRIPT_COUNT] = {{\n")
    for script, names in scripts.items():
        body = "".join(parts[part] for part in names)
        digest = hashlib.sha1(body.encode()).hexdigest()
        list_of_parts = ", ".join(prefix_of(part) + part for part in names)
        out.write(f'    [{script}] = {{"{digest}", {len(body.encode())},\n')
        out.write(f"        (const char *const[]){{{list_of_parts}, NULL}}}},\n")
    out.write("};\n")


def write_redis(out, parts):
    sharded = {name: shard(text) for name, text in parts.items()}
    write_parts(out, {name: text for name, text in sharded.items() if text != parts[name]}, "sharded_")
    for layout in ("redisson", "plain"):
        scripts = scripts_of_layout(layout == "plain")
        write_table(out, f"pawl__{layout}_scripts", scripts, parts, lambda part: "lua_")
        write_table(out, f"pawl__{layout}_cluster_scripts", scripts, sharded,
                    lambda part: "lua_" if sharded[part] == parts[part] else "sharded_")


def main():
    parts = {os.path.splitext(os.path.basename(path))[0]: read_part(path) for path in sys.argv[3:]}
    with open(sys.argv[2], "w") as out:
        out.write('/* Made by lua/build.py. */\n#include "engine/redis/wire/wire.h"\n')
        if sys.argv[1] == "redlock":  # its servers are no cluster
            parts["not_recorded"] = GLUE["not_recorded"]
            write_parts(out, parts, "lua_")
            write_table(out, "pawl__redlock_scripts", REDLOCK, parts, lambda part: "lua_")
        else:
            parts |= {name: text for name, text in GLUE.items() if name != "not_recorded"}
            write_parts(out, parts, "lua_")
            write_redis(out, parts)


main()
