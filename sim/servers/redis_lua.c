/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_lua.c - scripts, run by Lua 5.1 as a real server runs them.
 *
 * There is one Lua for all simulated servers of the process, and a script is compiled once: a world that begins anew costs nothing here.
 * What a server knows of scripts is only a list of hashes, by which it says NOSCRIPT. Scripts leave nothing behind in Lua: what they could
 * change is out of their reach.
 *
 * Their globals are looked up in an empty table, behind which lies what they may use. To assign one, or to read one that
 * is not there, is an error.
 */
#include <lua5.1/lauxlib.h>
#include <lua5.1/lua.h>
#include <lua5.1/lualib.h>
#include <math.h>
#include <stdio.h>

#include "redis_commands.h"

enum { FEW_ARGUMENTS = 24, NUMBER_TEXT = 32, NESTED_MAX = 100 };

static lua_State *lua;
static int globals, compiled, on_error; /* references in its registry */
static struct ctx *running;             /* whose script */
static uint64_t chance;

/* ---- What scripts call ---------------------------------------------------------------------------------------------------- */

static int fail_with(const char *text, bool raise) {
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, "err");
    return raise ? lua_error(lua) : 1;
}

/* Numbers are given to commands with all of their digits. */
static struct text number_text(double number, char *to) {
    int n;

    if (number > -1e15 && number < 1e15 && number == (double)(int64_t)number && (number != 0 || !signbit(number)))
        n = snprintf(to, NUMBER_TEXT, "%lld", (long long)number);
    else
        n = snprintf(to, NUMBER_TEXT, "%.17g", number);
    return (struct text){to, (size_t)n};
}

/* NULL, or why they are none. Strings stay on the stack, and so where they are. */
static const char *take_arguments(int argc, struct text *argv, char (*numbers)[NUMBER_TEXT]) {
    for (int i = 0; i < argc; i++) {
        int type = lua_type(lua, i + 1);

        if (type == LUA_TNUMBER)
            argv[i] = number_text(lua_tonumber(lua, i + 1), numbers[i]);
        else if (type == LUA_TSTRING)
            argv[i].s = lua_tolstring(lua, i + 1, &argv[i].n);
        else
            return "ERR Lua redis lib command arguments must be strings or integers";
    }
    return NULL;
}

static int call_command(bool raise) {
    struct sink sink = {.lua = lua};
    int argc = lua_gettop(lua);
    struct text few[FEW_ARGUMENTS], *argv = few;
    char few_numbers[FEW_ARGUMENTS][NUMBER_TEXT], (*numbers)[NUMBER_TEXT] = few_numbers;
    const char *why;

    if (argc == 0)
        return fail_with("ERR Please specify at least one argument for this redis lib call", raise);
    luaL_checkstack(lua, 32, "too much");
    if (argc > FEW_ARGUMENTS) {
        argv = redis_alloc((size_t)argc * sizeof *argv);
        numbers = redis_alloc((size_t)argc * sizeof *numbers);
    }
    why = take_arguments(argc, argv, numbers);
    if (!why)
        redis__command_call(running, argc, argv, &sink);
    if (argv != few) {
        free(argv);
        free(numbers);
    }
    if (why)
        return fail_with(why, raise);
    return sink.failed && raise ? lua_error(lua) : 1;
}

static int redis_call(lua_State *state) {
    (void)state;
    return call_command(true);
}

static int redis_pcall(lua_State *state) {
    (void)state;
    return call_command(false);
}

static int redis_status_reply(lua_State *state) {
    if (lua_gettop(state) != 1 || lua_type(state, 1) != LUA_TSTRING)
        return fail_with("ERR wrong number or type of arguments", false);
    lua_createtable(state, 0, 1);
    lua_pushvalue(state, 1);
    lua_setfield(state, -2, "ok");
    return 1;
}

/* A text without a code in front gets one. */
static int redis_error_reply(lua_State *state) {
    const char *text;

    if (lua_gettop(state) != 1 || lua_type(state, 1) != LUA_TSTRING)
        return fail_with("ERR wrong number or type of arguments", false);
    text = lua_tostring(state, 1);
    lua_createtable(state, 0, 1);
    if (text[0] == '-')
        lua_pushstring(state, text + 1);
    else if (strchr(text, ' '))
        lua_pushstring(state, text);
    else
        lua_pushfstring(state, "ERR %s", text);
    lua_setfield(state, -2, "err");
    return 1;
}

static int redis_sha1hex(lua_State *state) {
    char hex[SHA + 1];
    const char *text;
    size_t n;

    if (lua_gettop(state) != 1)
        return luaL_error(state, "wrong number of arguments");
    text = lua_tolstring(state, 1, &n);
    redis__sha1_hex(text ? text : "", text ? n : 0, hex);
    lua_pushstring(state, hex);
    return 1;
}

static int redis_nothing(lua_State *state) {
    lua_pushboolean(state, 1);
    return 1;
}

/* Chance is the same in every run of a script, as it is in a real server. */
static int math_random(lua_State *state) {
    double part = (double)(redis_draw(&chance) >> 11) / 9007199254740992.0;

    if (lua_gettop(state) == 0)
        lua_pushnumber(state, part);
    else {
        double low = lua_gettop(state) == 1 ? 1 : luaL_checknumber(state, 1), high = luaL_checknumber(state, lua_gettop(state));

        luaL_argcheck(state, low <= high, lua_gettop(state), "interval is empty");
        lua_pushnumber(state, floor(part * (high - low + 1)) + low);
    }
    return 1;
}

static int math_randomseed(lua_State *state) {
    chance = (uint64_t)(int64_t)luaL_checknumber(state, 1);
    return 0;
}

/* ---- Setting it up -------------------------------------------------------------------------------------------------------- */

static int missing_global(lua_State *state) {
    return luaL_error(state, "Script attempted to access nonexistent global variable '%s'",
                      lua_isstring(state, 2) ? lua_tostring(state, 2) : "?");
}

static int refuse_assignment(lua_State *state) {
    return luaL_error(state, "Attempt to modify a readonly table");
}

/* Where it happened is added to an error; one that is no table becomes one. */
static int note_error(lua_State *state) {
    lua_Debug where;
    bool known = lua_getstack(state, 1, &where) && lua_getinfo(state, "Sl", &where);

    if (known && strcmp(where.what, "C") == 0)
        known = lua_getstack(state, 2, &where) && lua_getinfo(state, "Sl", &where);
    if (!lua_istable(state, 1)) {
        lua_createtable(state, 0, 3);
        lua_pushfstring(state, "ERR %s", lua_isstring(state, 1) ? lua_tostring(state, 1) : luaL_typename(state, 1));
        lua_setfield(state, -2, "err");
        lua_replace(state, 1);
    }
    if (known) {
        lua_pushstring(state, where.source);
        lua_setfield(state, 1, "source");
        lua_pushinteger(state, where.currentline);
        lua_setfield(state, 1, "line");
    }
    lua_settop(state, 1);
    return 1;
}

static void open_library(lua_CFunction open, const char *name) {
    lua_pushcfunction(lua, open);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
}

static void set_functions(void) {
    static const char *const levels[] = {"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"};
    static const luaL_Reg functions[] = {{"call", redis_call},
                                         {"pcall", redis_pcall},
                                         {"status_reply", redis_status_reply},
                                         {"error_reply", redis_error_reply},
                                         {"sha1hex", redis_sha1hex},
                                         {"log", redis_nothing},
                                         {"replicate_commands", redis_nothing},
                                         {"set_repl", redis_nothing},
                                         {"setresp", redis_nothing},
                                         {"breakpoint", redis_nothing},
                                         {"debug", redis_nothing},
                                         {NULL, NULL}};

    luaL_register(lua, "redis", functions);
    for (int i = 0; i < 4; i++) {
        lua_pushinteger(lua, i);
        lua_setfield(lua, -2, levels[i]);
    }
    lua_pop(lua, 1);
    lua_getglobal(lua, "math");
    lua_pushcfunction(lua, math_random);
    lua_setfield(lua, -2, "random");
    lua_pushcfunction(lua, math_randomseed);
    lua_setfield(lua, -2, "randomseed");
    lua_pop(lua, 1);
    for (const char *const *name = (const char *const[]){"dofile", "loadfile", "print", "module", "require", "newproxy", NULL};
         *name; name++) {
        lua_pushnil(lua);
        lua_setglobal(lua, *name);
    }
}

/* The table of globals that scripts see, on the stack. */
static void push_environment(void) {
    lua_newtable(lua);
    lua_createtable(lua, 0, 2);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, globals);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, refuse_assignment);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, -2);
}

static void set_up(void) {
    lua = luaL_newstate();
    if (!lua)
        abort();
    open_library(luaopen_base, "");
    open_library(luaopen_table, LUA_TABLIBNAME);
    open_library(luaopen_string, LUA_STRLIBNAME);
    open_library(luaopen_math, LUA_MATHLIBNAME);
    set_functions();
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    globals = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_newtable(lua);
    compiled = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_pushcfunction(lua, note_error);
    on_error = luaL_ref(lua, LUA_REGISTRYINDEX);
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    push_environment();
    lua_setfield(lua, -2, "_G");
    lua_createtable(lua, 0, 1);
    lua_pushcfunction(lua, missing_global);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, -2);
    lua_pop(lua, 1);
}

/* ---- Compiling ------------------------------------------------------------------------------------------------------------ */

static bool push_compiled(const unsigned char hash[20]) {
    lua_rawgeti(lua, LUA_REGISTRYINDEX, compiled);
    lua_pushlstring(lua, (const char *)hash, 20);
    lua_rawget(lua, -2);
    lua_remove(lua, -2);
    if (lua_isfunction(lua, -1))
        return true;
    lua_pop(lua, 1);
    return false;
}

/* False: it does not compile, and why is on the stack. */
static bool compile(struct text body, const unsigned char hash[20]) {
    if (luaL_loadbuffer(lua, body.s, body.n, "@user_script") != 0)
        return false;
    push_environment();
    lua_setfenv(lua, -2);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, compiled);
    lua_pushlstring(lua, (const char *)hash, 20);
    lua_pushvalue(lua, -3);
    lua_rawset(lua, -3);
    lua_pop(lua, 2);
    return true;
}

/* Compiled, and known to this server. False: an error was replied. */
static bool learn(struct ctx *ctx, struct text body, const unsigned char hash[20]) {
    if (push_compiled(hash)) {
        lua_pop(lua, 1);
    } else if (!compile(body, hash)) {
        redis__reply_error(ctx, "ERR Error compiling script (new function): %s", lua_tostring(lua, -1));
        lua_pop(lua, 1);
        return false;
    }
    redis__script_knows(ctx->redis, hash, true);
    return true;
}

/* ---- What scripts answer -------------------------------------------------------------------------------------------------- */

static int64_t cut_to_int(double number) {
    return number >= -9223372036854775808.0 && number < 9223372036854775808.0 ? (int64_t)number : INT64_MIN;
}

static const char *field(const char *name) {
    const char *text;

    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    text = lua_type(lua, -1) == LUA_TSTRING ? lua_tostring(lua, -1) : NULL;
    lua_pop(lua, 1);
    return text;
}

static void reply_value(struct ctx *ctx, int depth);

static void reply_table(struct ctx *ctx, int depth) {
    const char *text;
    int count = 0;

    if ((text = field("err"))) {
        redis__reply_error(ctx, "%s", text);
    } else if ((text = field("ok"))) {
        redis__reply_status(ctx, text);
    } else {
        for (;; count++) {
            lua_rawgeti(lua, -1, count + 1);
            bool end = lua_isnil(lua, -1);

            lua_pop(lua, 1);
            if (end)
                break;
        }
        redis__reply_array(ctx, count);
        for (int i = 1; i <= count; i++) {
            lua_rawgeti(lua, -1, i);
            reply_value(ctx, depth + 1);
            lua_pop(lua, 1);
        }
    }
}

static void reply_value(struct ctx *ctx, int depth) {
    struct text text;

    if (depth > NESTED_MAX || !lua_checkstack(lua, 4)) {
        redis__reply_error(ctx, "ERR reached lua stack limit");
        return;
    }
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        text.s = lua_tolstring(lua, -1, &text.n);
        redis__reply_bulk(ctx, text);
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1))
            redis__reply_int(ctx, 1);
        else
            redis__reply_nil(ctx);
        break;
    case LUA_TNUMBER:
        redis__reply_int(ctx, cut_to_int(lua_tonumber(lua, -1)));
        break;
    case LUA_TTABLE:
        reply_table(ctx, depth);
        break;
    default:
        redis__reply_nil(ctx);
    }
}

static void reply_failure(struct ctx *ctx, const char *sha) {
    const char *text, *source;
    int line;

    if (!lua_istable(lua, -1)) {
        redis__reply_error(ctx, "ERR %s script: %s", lua_tostring(lua, -1), sha);
        return;
    }
    text = field("err");
    source = field("source");
    lua_getfield(lua, -1, "line");
    line = (int)lua_tointeger(lua, -1);
    lua_pop(lua, 1);
    if (source)
        redis__reply_error(ctx, "%s script: %s, on %s:%d.", text ? text : "ERR unknown error", sha, source, line);
    else
        redis__reply_error(ctx, "%s script: %s", text ? text : "ERR unknown error", sha);
}

/* ---- Running -------------------------------------------------------------------------------------------------------------- */

static void set_list(const char *name, const struct text *list, int count) {
    lua_rawgeti(lua, LUA_REGISTRYINDEX, globals);
    lua_pushstring(lua, name);
    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushlstring(lua, list[i].s, list[i].n);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_rawset(lua, -3);
    lua_pop(lua, 1);
}

static void run(struct ctx *ctx, const unsigned char hash[20], const char *sha, int keys) {
    struct redis *redis = ctx->redis;
    unsigned db = ctx->session->db;
    int rc;

    set_list("KEYS", ctx->argv + 3, keys);
    set_list("ARGV", ctx->argv + 3 + keys, ctx->argc - 3 - keys);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, on_error);
    if (!push_compiled(hash))
        abort();
    running = ctx;
    redis->in_script = true;
    redis->dirty_before = redis->dirty;
    redis->counts.scripts++;
    chance = 0;
    rc = lua_pcall(lua, 0, 1, -2);
    redis->in_script = false;
    running = NULL;
    ctx->session->db = db;
    if (rc != 0)
        reply_failure(ctx, sha);
    else
        reply_value(ctx, 0);
    lua_settop(lua, 0);
}

static bool count_keys(struct ctx *ctx, int64_t *ret) {
    if (!redis__arg_int(ctx, 2, ret))
        return false;
    if (*ret > ctx->argc - 3)
        redis__reply_error(ctx, "ERR Number of keys can't be greater than number of args");
    else if (*ret < 0)
        redis__reply_error(ctx, "ERR Number of keys can't be negative");
    else
        return true;
    return false;
}

void redis__command_eval(struct ctx *ctx) {
    unsigned char hash[20];
    char hex[SHA + 1];
    int64_t keys;

    if (!lua)
        set_up();
    if (!count_keys(ctx, &keys))
        return;
    redis__sha1(ctx->argv[1].s, ctx->argv[1].n, hash);
    if (!learn(ctx, ctx->argv[1], hash))
        return;
    redis__sha1_text(hash, hex);
    run(ctx, hash, hex, (int)keys);
}

static bool parse_sha(struct text text, unsigned char ret[20]) {
    if (text.n != SHA)
        return false;
    for (int i = 0; i < 20; i++) {
        char pair[3] = {text.s[2 * i], text.s[2 * i + 1], 0}, *end;

        ret[i] = (unsigned char)strtoul(pair, &end, 16);
        if (end != pair + 2)
            return false;
    }
    return true;
}

void redis__command_evalsha(struct ctx *ctx) {
    unsigned char hash[20];
    char hex[SHA + 1];
    int64_t keys;

    if (!lua)
        set_up();
    if (!parse_sha(ctx->argv[1], hash)) {
        redis__reply_error(ctx, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    if (!count_keys(ctx, &keys))
        return;
    if (!redis__script_knows(ctx->redis, hash, false)) {
        redis__reply_error(ctx, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    redis__sha1_text(hash, hex);
    run(ctx, hash, hex, (int)keys);
}

/* ---- SCRIPT --------------------------------------------------------------------------------------------------------------- */

bool redis__script_knows(struct redis *redis, const unsigned char sha[20], bool add) {
    for (size_t i = 0; i < redis->script_count; i++)
        if (memcmp(redis->scripts[i], sha, 20) == 0)
            return true;
    if (!add)
        return false;
    if (redis->script_count == redis->script_room) {
        redis->script_room = redis->script_room * 2 + 16;
        redis->scripts = redis_grow(redis->scripts, redis->script_room * sizeof *redis->scripts);
    }
    memcpy(redis->scripts[redis->script_count++], sha, 20);
    return false;
}

void redis__scripts_forget(struct redis *redis) {
    redis->script_count = 0;
}

static void load_script(struct ctx *ctx) {
    unsigned char hash[20];
    char hex[SHA + 1];

    redis__sha1(ctx->argv[2].s, ctx->argv[2].n, hash);
    if (!learn(ctx, ctx->argv[2], hash))
        return;
    redis__sha1_text(hash, hex);
    redis__reply_string(ctx, hex);
}

void redis__command_script(struct ctx *ctx) {
    struct text word = ctx->argv[1];
    unsigned char hash[20];

    if (!lua)
        set_up();
    if (redis__text_is(word, "LOAD") && ctx->argc == 3) {
        load_script(ctx);
    } else if (redis__text_is(word, "EXISTS") && ctx->argc > 2) {
        redis__reply_array(ctx, ctx->argc - 2);
        for (int i = 2; i < ctx->argc; i++)
            redis__reply_int(ctx, parse_sha(ctx->argv[i], hash) && redis__script_knows(ctx->redis, hash, false));
    } else if (redis__text_is(word, "FLUSH")) {
        if (ctx->argc > 3 || (ctx->argc == 3 && !redis__text_is(ctx->argv[2], "SYNC") && !redis__text_is(ctx->argv[2], "ASYNC"))) {
            redis__reply_error(ctx, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
            return;
        }
        redis__scripts_forget(ctx->redis);
        redis__reply_status(ctx, "OK");
    } else if (redis__text_is(word, "KILL") && ctx->argc == 2) {
        redis__reply_error(ctx, "NOTBUSY No scripts in execution right now.");
    } else {
        redis__reply_unknown_subcommand(ctx);
    }
}
