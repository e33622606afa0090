/* SPDX-License-Identifier: Apache-2.0
 *
 * differential_scripts.c - scripts as steps: pawl's own, put together by the engine's own code, and ones that try what scripts may do.
 *
 * The clock is taken out of pawl's scripts: where they ask for TIME they read a key instead, which is the same at both servers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "differential.h"
#include "engine/redis/wire/wire.h"

enum { SHA_TEXT = 40 };
void redis__sha1_hex(const void *data, size_t size, char *ret); /* the simulated server's own */

static const char clock_code[] = "local function TIME() local us = redis.call('GET', 'clock') "
                                 "return {string.sub(us, 1, -7), tostring(tonumber(string.sub(us, -6)))} end\n";

/* ---- pawl's --------------------------------------------------------------------------------------------------------------- */

/* One part of a script, with every question for the time turned to ours. */
static void put_part(FILE *out, const char *body) {
    static const char *const asks[] = {"redis.call('TIME')", "call('TIME')"};

    while (*body) {
        size_t i;

        for (i = 0; i < 2 && strncmp(body, asks[i], strlen(asks[i])) != 0; i++)
            continue;
        if (i < 2) {
            fputs("TIME()", out);
            body += strlen(asks[i]);
        } else {
            fputc(*body++, out);
        }
    }
}

extern const struct pawl__script pawl__redisson_scripts[], pawl__plain_scripts[], pawl__redlock_scripts[];
static const struct pawl__script *const tables[] = {pawl__redisson_scripts, pawl__plain_scripts, pawl__redlock_scripts};
enum { LAYOUTS = sizeof tables / sizeof tables[0] };

/* Which token was given last is known to the servers alone. And where several hold, which of them is seen hangs on the order of a hash. */
static const char write_code[] = "if ARGV[2] == 'last' then ARGV[2] = redis.call('GET', KEYS[3]) or '0' end "
                                 "local fields = redis.pcall('HLEN', KEYS[1]) "
                                 "if type(fields) == 'number' and fields > 2 then return 'several' end\n";

static char *make_text(const struct pawl__script *script, int number) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    fputs(clock_code, out);
    if (number == SCRIPT_WRITE)
        fputs(write_code, out);
    for (int i = 0; script->parts[i]; i++)
        put_part(out, script->parts[i]);
    fclose(out);
    return text;
}

/* A script of a layout. NULL: it has none of that kind. */
static const char *text_of(int layout, int number) {
    static char *texts[LAYOUTS][SCRIPT_COUNT];

    if (!tables[layout][number].parts)
        return NULL;
    if (!texts[layout][number])
        texts[layout][number] = make_text(&tables[layout][number], number);
    return texts[layout][number];
}

static uint64_t clock_us;

static const char *const owners[] = {"01234567-89ab-8def-8123-456789abcdef:1", "01234567-89ab-8def-8123-456789abcdef:23",
                                     "76543210-89ab-8def-8123-456789abcdef:5", "99999999-89ab-4def-8123-456789abcdef:7"};
static const char *const names[] = {"a", "b"};
static const char *const records[] = {"host 1 label",
                                      "a-host-with-a-longer-name.example.org 123456 a label that is longer than others"};

/* The acquire before: its lock is likely to be held. */
static struct {
    int layout;
    const char *name;
    char owner[48];
} last;

void begin_scripts(void) {
    last.layout = LAYOUT_REDISSON;
    last.name = names[0];
    snprintf(last.owner, sizeof last.owner, "%s0", owners[0]);
    clock_us = UINT64_C(1767225600000000) + draw(1000000) * 16 + 5;
    say(0, "SET clock %llu", (unsigned long long)clock_us);
}

struct call {
    char lock[32], token[64], queue[64], who[64], channel[64], beside[64], value[64], rest[512], record[512], terms[256],
        number[8][32], owner[48];
    const char *words[WORDS];
    int count, keys;
};

static void add_word(struct call *call, const char *word) {
    call->words[call->count++] = word;
}

static void name_keys(struct call *call, int layout, int kind, const char *name) {
    static const char *const channels[] = {"redisson_lock__channel", "redisson_rwlock", "redisson_sc"};

    snprintf(call->lock, sizeof call->lock, "%s", name);
    snprintf(call->token, sizeof call->token, "%s:{%s}", layout == LAYOUT_OWN ? "pawl:vote" : "redisson_lock_token", name);
    snprintf(call->queue, sizeof call->queue, "%s:{%s}", layout == LAYOUT_OWN ? "pawl:wait" : "pawl:queue", name);
    snprintf(call->who, sizeof call->who, "%s:{%s}", layout == LAYOUT_OWN ? "pawl:vote" : "pawl:who", name);
    snprintf(call->value, sizeof call->value, "pawl:value:{%s}", name);
    snprintf(call->channel, sizeof call->channel, "%s:{%s}", channels[kind], name);
    if (kind == 0 && layout != LAYOUT_REDISSON)
        call->channel[0] = '\0';
    snprintf(call->beside, sizeof call->beside, kind == 1 ? "{%s}:" : kind == 2 ? "{%s}:timeout" : "", name);
}

/* Claims of different kinds are never the same one: which of the two a script would see first hangs on the order of a large hash. */
static const char *draw_owner(struct call *call, int kind) {
    snprintf(call->owner, sizeof call->owner, "%s%d", PICK(owners), kind);
    return call->owner;
}

static void make_terms(struct call *call, int kind) {
    const char *mode = kind == 1 && draw(2) ? "s" : "x";

    snprintf(call->terms, sizeof call->terms, "%s %d %llu %s", mode, kind == 2 ? 1 + (int)draw(2) : 1,
             (unsigned long long)(clock_us / 1000), PICK(records));
}

/* Keys and arguments that scripts about one lock have in common. */
static void begin_call(struct call *call, int kind, const char *extra) {
    static const char *const floors[] = {"1", "9007199254740991", "1767225600000000"};

    snprintf(call->rest, sizeof call->rest, "95000\npawl:inbox:\n%s\n%s\n%s", call->channel, call->beside, extra);
    call->keys = 4;
    add_word(call, call->lock);
    add_word(call, call->token);
    add_word(call, call->queue);
    add_word(call, call->who);
    add_word(call, draw_owner(call, kind));
    add_word(call, call->rest);
    add_word(call, PICK(floors));
}

static void fill_acquire(struct call *call, int kind) {
    static const char *const extras[] = {"0 0", "0 1"}, *const permits[] = {"2 0", "2 1", "3 0"};
    const char *want = draw(4) ? "1" : "5";

    begin_call(call, kind, kind == 2 ? PICK(permits) : PICK(extras));
    snprintf(call->record, sizeof call->record, "0 %s %s", want, call->terms);
    add_word(call, "95000");
    add_word(call, call->record);
    if (strcmp(want, "1") != 0)
        add_word(call, want);
}

static void fill_renew(struct call *call, int layout, int kind) {
    bool beside = kind != 0 || layout == LAYOUT_PLAIN;

    call->keys = beside ? 2 : 1;
    add_word(call, call->lock);
    if (beside)
        add_word(call, call->who);
    add_word(call, draw_owner(call, kind));
    add_word(call, "95000");
    add_word(call, call->beside);
    add_word(call, draw(2) ? "1" : "2");
}

static void fill_voter(struct call *call, int number) {
    const char *owner = draw_owner(call, 0);

    call->keys = 2;
    add_word(call, call->lock);
    add_word(call, number == SCRIPT_RELEASE ? call->queue : call->token);
    add_word(call, owner);
    if (number == SCRIPT_ACQUIRE) {
        static const char *const asks[] = {"0", "1", "2", "3"};
        unsigned long long first = draw(2) ? clock_us + draw(1000) : 0;

        snprintf(call->record, sizeof call->record, "%016llu %016llu 1 %s %s", first, first, owner, call->terms);
        add_word(call, "95000");
        add_word(call, call->record);
        if (draw(2))
            add_word(call, PICK(asks));
    } else if (number == SCRIPT_RELEASE) {
        if (draw(2))
            add_word(call, draw(2) ? call->terms : "");
        if (call->count == 4 && draw(2))
            add_word(call, "1");
    } else { /* SCRIPT_RAISE */
        snprintf(call->number[0], sizeof call->number[0], "%llu", (unsigned long long)(clock_us + draw(1000)));
        add_word(call, "95000");
        add_word(call, call->number[0]);
        add_word(call, "3");
    }
}

/* What lies beside a lock: written for its holder, or for the hold with that token; and with a number that may be an old one. */
static void fill_write(struct call *call) {
    static const char *const tokens[] = {"last", "last", "7"}, *const numbers[] = {"1", "2", "3"};
    static const char *const bytes[] = {"", "some bytes", "more\r\nbytes than before"};
    const char *owner = draw(4) ? last.owner : draw_owner(call, (int)draw(3));
    bool by_token = draw(3) == 0;

    call->keys = by_token ? 4 : 3 + (int)draw(2);
    add_word(call, call->lock);
    add_word(call, call->value);
    add_word(call, call->token);
    if (call->keys > 3)
        add_word(call, call->who);
    add_word(call, by_token ? "" : owner);
    add_word(call, PICK(tokens));
    add_word(call, !by_token ? "" : draw(4) ? "writer/1" : owner);
    add_word(call, PICK(numbers));
    if (draw(4))
        add_word(call, PICK(bytes));
}

static void fill_read(struct call *call) {
    call->keys = 1;
    add_word(call, call->value);
    add_word(call, draw(4) ? "65536" : "12");
}

static void fill_one(struct call *call, int layout, int number, int kind) {
    if (number < SCRIPT_RELEASE) {
        fill_acquire(call, kind);
    } else if (number < SCRIPT_RENEW) {
        begin_call(call, kind, call->terms);
        add_word(call, call->channel);
    } else if (number < SCRIPT_BREAK) {
        fill_renew(call, layout, kind);
    } else if (number < SCRIPT_MORE_TOKENS) {
        begin_call(call, kind, "0 0");
        add_word(call, draw(2) ? "0" : "1");
    } else if (number < SCRIPT_DOWNGRADE) {
        begin_call(call, kind, "0 0");
        snprintf(call->number[0], sizeof call->number[0], "%llu", (unsigned long long)(clock_us + draw(4)));
        add_word(call, "3");
        add_word(call, call->number[0]);
    } else if (number == SCRIPT_SURVEY) {
        /* Its keys are those of all scripts about one lock; as arguments where that was only found. */
        begin_call(call, kind, "0 0");
        call->count = call->keys;
        if (draw(2))
            call->keys = 0;
        else if (draw(3) == 0)
            add_word(call, "holders");
    } else if (number == SCRIPT_WRITE) {
        fill_write(call);
    } else if (number == SCRIPT_READ) {
        fill_read(call);
    } else {
        begin_call(call, kind, "0 0");
        add_word(call, "95000");
    }
}

/* Which kind of lock is a script of that number about? */
static int kind_of(int number) {
    if (number < SCRIPT_MORE_TOKENS)
        return number % 3;
    if (number < SCRIPT_DOWNGRADE)
        return number - SCRIPT_MORE_TOKENS;
    return number == SCRIPT_DOWNGRADE ? 1 : 0;
}

static void fill_all(struct call *call) {
    static const char *const digits[] = {"0", "1", "2"};
    static struct call parts[2];

    for (int i = 0; i < 2; i++) {
        int kind = (int)draw(3);

        memset(&parts[i], 0, sizeof parts[i]);
        name_keys(&parts[i], LAYOUT_REDISSON, kind, PICK(names));
        make_terms(&parts[i], kind);
        fill_acquire(&parts[i], kind);
        if (parts[i].count < 10)
            add_word(&parts[i], "1");
        add_word(&parts[i], digits[kind]);
    }
    call->keys = 8;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            add_word(call, parts[i].words[j]);
    for (int i = 0; i < 2; i++)
        for (int j = 4; j < 11; j++)
            add_word(call, parts[i].words[j]);
}

/* By its body, or by its hash: which a server may not know. */
static void send_script(int connection, const char *body, const struct call *call) {
    const char *words[WORDS];
    char keys[8], sha[SHA_TEXT + 1];

    snprintf(keys, sizeof keys, "%d", call->keys);
    redis__sha1_hex(body, strlen(body), sha);
    words[0] = draw(3) ? "EVAL" : "EVALSHA";
    words[1] = words[0][4] ? sha : body;
    words[2] = keys;
    for (int i = 0; i < call->count; i++)
        words[3 + i] = call->words[i];
    step(connection, 3 + call->count, words, NULL);
}

/* The order of what a survey shows is the server's business where a hash is large. */
static const char *sorted_survey(const char *body) {
    static char *text;

    free(text);
    if (asprintf(&text,
                 "local function survey()\n%s\nend\nlocal r = survey()[1] if r == 0 then return r end "
                 "for _, i in ipairs({3, 5, 8}) do table.sort(r[i] or {}) end return r",
                 body) < 0)
        abort();
    return text;
}

void script_step(int connection) {
    int layout = (int)draw(LAYOUTS), number = (int)draw(SCRIPT_COUNT), kind = kind_of(number);
    bool again = (number == SCRIPT_WRITE || number == SCRIPT_READ) && draw(4);
    const char *name = PICK(names), *body;
    struct call call = {.count = 0};

    if (draw(30) == 0) {
        clock_us += draw(4) ? draw(1000) * 16 : 20000000;
        say(connection, "SET clock %llu", (unsigned long long)clock_us);
        return;
    }
    if (draw(60) == 0) {
        say(connection, "SCRIPT FLUSH");
        return;
    }
    layout = again ? last.layout : layout;
    if (!(body = text_of(layout, number)))
        return;
    name_keys(&call, layout, kind, again ? last.name : name);
    make_terms(&call, kind);
    if (number == SCRIPT_ACQUIRE_ALL)
        fill_all(&call);
    else if (layout == LAYOUT_OWN && (number == SCRIPT_ACQUIRE || number == SCRIPT_RELEASE || number == SCRIPT_RAISE))
        fill_voter(&call, number);
    else
        fill_one(&call, layout, number, kind);
    if (number < SCRIPT_RELEASE && layout != LAYOUT_OWN) {
        last.layout = layout;
        last.name = name;
        snprintf(last.owner, sizeof last.owner, "%s", call.owner);
    }
    send_script(connection, number == SCRIPT_SURVEY ? sorted_survey(body) : body, &call);
}

/* ---- Odd ones ------------------------------------------------------------------------------------------------------------- */

static const char *const odd_scripts[] = {
    "return redis.call('INCR', KEYS[1])",
    "redis.call('SET', KEYS[1], 'x') return redis.call('LPUSH', KEYS[1], 'y')",
    "redis.call('SET', KEYS[1], 'x')\nreturn redis.call('HGET', KEYS[1], 'y')",
    "local r = redis.pcall('HGET', KEYS[1], 'y') if type(r) == 'table' then return r.err end return r",
    "return redis.pcall('INCRBY', KEYS[1], ARGV[1])",
    "return {1, 2.9, -3.9, 'x', true, false, 'y'}",
    "return {1, nil, 3}",
    "return {{1, {2, {3}}}, {}, {ok = 'fine'}, {err = 'bad'}}",
    "return 3.99999",
    "return -0.5",
    "return 1e300",
    "return 0/0",
    "return 9007199254740993",
    "return tostring(1e15) .. ' ' .. tostring(123456789012) .. ' ' .. tostring(0.1)",
    "return string.format('%.17g %d %s %016.0f', 0.1, 3.7, 'x', 12345)",
    "return true",
    "return false",
    "return nil",
    "return",
    "return {}",
    "return {ok = 'fine\\nline'}",
    "return {err = 'My Err'}",
    "return {err = 'WRONG'}",
    "return redis.status_reply('STATUS')",
    "return redis.error_reply('ERROR')",
    "return redis.error_reply('MY error')",
    "return redis.error_reply('-MY error')",
    "return redis.sha1hex('abc') .. redis.sha1hex('')",
    "error('raised')",
    "error({err = 'as a table'})",
    "error('raised', 0)",
    "\n\nlocal x = nil\nreturn x.y",
    "return nothing_there",
    "global = 1 return 1",
    "KEYS = {} return 1",
    "return 1 + 'x'",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call('GET')",
    "return redis.call('NOSUCH', 'x')",
    "return redis.pcall('NOSUCH', 'x')",
    "return redis.call('SUBSCRIBE', 'x')",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.call('SET', KEYS[1], {})",
    "return redis.call('SET', KEYS[1], true)",
    "return redis.pcall('SET', KEYS[1], nil)",
    "redis.call('SET', KEYS[1], 1.5) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 12345678901234567890) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 1/3) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], 100000000000000000000) return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], -0) return redis.call('GET', KEYS[1])",
    "return {redis.call('GET', KEYS[1]), redis.call('TYPE', KEYS[1]).ok}",
    "return redis.call('TYPE', KEYS[1])",
    "return type(redis.call('GET', 'nothing'))",
    "return redis.call('ZADD', KEYS[1], ARGV[1], 'm')",
    "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
    "return {#KEYS, #ARGV, KEYS[1], ARGV[1], KEYS[2], 5}",
    "local ok, e = pcall(redis.call, 'HGET', KEYS[1], 'y') if ok then return e end return type(e) == 'table' and e.err or e",
    "local ok, e = pcall(error, 'text') return e",
    "if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('HSET', KEYS[1], 'f', 1) end return redis.call('GET', KEYS[1])",
    "this is no lua",
    "return 'unfinished",
    "return 1 end",
    "return redis.call('PUBLISH', 'c', 'from a script') + redis.call('PUBSUB', 'NUMSUB', 'c')[2]",
    "redis.call('PUBLISH', 'c', '1') redis.call('PUBLISH', 'd', '2') redis.call('PUBLISH', 'c', '3') return redis.call('INCR', "
    "KEYS[1])",
    "redis.call('SELECT', 3) redis.call('SET', 'x', 1) return redis.call('DBSIZE')",
    "return redis.call('MGET', KEYS[1], 'nothing')",
    "return redis.call('PING')",
    "return redis.call('PEXPIRE', KEYS[1], ARGV[1] == '1' and '-1' or ARGV[1])",
    "local t = {} for i = 1, 300 do t[i] = i end return redis.call('HSET', 'many', unpack(t))",
    "return math.floor(2.7) + math.max(1, 5) + math.fmod(7, 3)",
    "return {string.match('1 22 x', '^(%d+) (%d+) (%a)$')}",
    "return (string.gsub('hello', 'l', function(c) return c .. '!' end))",
    "return redis.call('set', KEYS[1], 'lower')",
    "return {redis.call('HSET', KEYS[1], 'f', 'v'), redis.call('HSET', KEYS[1], 'f')}",
    "local a = redis.call('HGETALL', KEYS[1]) return #a",
    "return _G == nil",
    "return type(redis.log) .. type(redis.LOG_WARNING)",
    "return rawget(_G, 'x') == nil",
    "return #tostring(math.random)"};

void odd_script_step(int connection) {
    static const char *const keys[] = {"a", "b", "{a}c"}, *const values[] = {"1", "x", "95000", "", "1.5", "-1", "inf"};
    struct call call = {.keys = 1};

    add_word(&call, PICK(keys));
    add_word(&call, PICK(values));
    if (draw(30) == 0)
        call.keys = (int)draw(5) - 1;
    send_script(connection, odd_scripts[draw(sizeof odd_scripts / sizeof odd_scripts[0])], &call);
}
