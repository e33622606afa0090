/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_acl.c - users, passwords and rights, as far as locks need them.
 *
 * A user has a bit for each command, a list of subcommands that are allowed where the command as a whole is not (client|id), and
 * patterns of keys and channels. Passwords are kept as they are.
 */
#include <stdio.h>

#include "redis_commands.h"

struct texts {
    size_t count;
    struct text *list;
};

struct acl_user {
    struct acl_user *next;
    char name[64];
    bool on, nopass, all_keys, all_channels;
    struct texts passwords, keys, channels, subcommands;
    bool *commands;
};

struct acl_entry {
    TAILQ_ENTRY(acl_entry) entry;
    const char *reason;
    bool script;
    char object[128], user[64];
    int64_t when;
};

static void texts_add(struct texts *texts, struct text text) {
    texts->list = redis_grow(texts->list, (texts->count + 1) * sizeof *texts->list);
    texts->list[texts->count++] = redis__text_copy(text);
}

static void texts_clear(struct texts *texts) {
    for (size_t i = 0; i < texts->count; i++)
        text_free(texts->list[i]);
    free(texts->list);
    *texts = (struct texts){0};
}

static bool texts_have(const struct texts *texts, struct text text) {
    for (size_t i = 0; i < texts->count; i++)
        if (text_equal(texts->list[i], text))
            return true;
    return false;
}

static bool texts_match(const struct texts *patterns, struct text text) {
    for (size_t i = 0; i < patterns->count; i++)
        if (redis__text_matches(text, patterns->list[i]))
            return true;
    return false;
}

/* ---- Users ---------------------------------------------------------------------------------------------------------------- */

static struct acl_user *find_user(struct redis *redis, struct text name) {
    struct acl_user *user;

    for (user = redis->users; user; user = user->next)
        if (strlen(user->name) == name.n && memcmp(user->name, name.s, name.n) == 0)
            return user;
    return NULL;
}

static struct acl_user *make_user(struct redis *redis, struct text name) {
    struct acl_user *user = redis_alloc(sizeof *user), **end = &redis->users;

    snprintf(user->name, sizeof user->name, "%.*s", (int)name.n, name.s);
    user->commands = redis_alloc(redis__command_count() * sizeof *user->commands);
    while (*end)
        end = &(*end)->next;
    *end = user;
    return user;
}

static void free_user(struct acl_user *user) {
    texts_clear(&user->passwords);
    texts_clear(&user->keys);
    texts_clear(&user->channels);
    texts_clear(&user->subcommands);
    free(user->commands);
    free(user);
}

static void set_commands(struct acl_user *user, bool may) {
    memset(user->commands, may, redis__command_count() * sizeof *user->commands);
    texts_clear(&user->subcommands);
}

void redis__acl_init(struct redis *redis) {
    struct acl_user *user = make_user(redis, TEXT("default"));

    TAILQ_INIT(&redis->acl_log);
    user->on = user->nopass = user->all_keys = user->all_channels = true;
    set_commands(user, true);
}

static void clear_log(struct redis *redis) {
    struct acl_entry *entry;

    while ((entry = TAILQ_FIRST(&redis->acl_log))) {
        TAILQ_REMOVE(&redis->acl_log, entry, entry);
        free(entry);
    }
}

void redis__acl_free(struct redis *redis) {
    struct acl_user *user;

    clear_log(redis);
    while ((user = redis->users)) {
        redis->users = user->next;
        free_user(user);
    }
}

struct acl_user *redis__acl_default(struct redis *redis) {
    return redis->users;
}

bool redis__acl_default_open(const struct redis *redis) {
    return redis->users->on && redis->users->nopass;
}

const char *redis__acl_user_name(const struct acl_user *user) {
    return user->name;
}

void redis__acl_require(struct redis *redis, const char *password) {
    struct acl_user *user = redis__acl_default(redis);

    texts_clear(&user->passwords);
    user->nopass = !password[0];
    if (password[0])
        texts_add(&user->passwords, (struct text){password, strlen(password)});
}

/* ---- Rights --------------------------------------------------------------------------------------------------------------- */

static bool may_command(const struct acl_user *user, const struct command *command, int argc, const struct text *argv) {
    char name[128];

    if (user->commands[redis__command_number(command)])
        return true;
    if (!user->subcommands.count || !redis__has_subcommands(command))
        return false;
    redis__acl_command_name(command, argc, argv, name, sizeof name);
    return texts_have(&user->subcommands, (struct text){name, strlen(name)});
}

static bool may_channels(const struct acl_user *user, const struct command *command, int argc, const struct text *argv,
                         int *ret_index) {
    int last = strstr(command->name, "publish") ? 1 : argc - 1;
    bool pattern = command->name[0] == 'p' && command->name[1] == 's';

    if (user->all_channels || strstr(command->name, "unsub") || strcmp(command->name, "pubsub") == 0)
        return true;
    for (int i = 1; i <= last; i++)
        if (pattern ? !texts_have(&user->channels, argv[i]) : !texts_match(&user->channels, argv[i])) {
            *ret_index = i;
            return false;
        }
    return true;
}

enum acl_denied redis__acl_check(struct redis *redis, const struct acl_user *user, const struct command *command, int argc,
                                 const struct text *argv, int *ret_index) {
    struct text keys[64];
    int count;

    (void)redis;
    if (user->all_keys && user->all_channels && user->commands[redis__command_number(command)])
        return ACL_OK;
    if (!may_command(user, command, argc, argv))
        return ACL_COMMAND;
    if (command->flags & CMD_PUBSUB_RIGHTS)
        return may_channels(user, command, argc, argv, ret_index) ? ACL_OK : ACL_CHANNEL;
    if (user->all_keys)
        return ACL_OK;
    count = redis__command_keys_of(command, argc, argv, keys, 64);
    for (int i = 0; i < count && i < 64; i++)
        if (!texts_match(&user->keys, keys[i])) {
            for (*ret_index = 1; argv[*ret_index].s != keys[i].s;)
                ++*ret_index;
            return ACL_KEY;
        }
    return ACL_OK;
}

static void note(struct redis *redis, const char *reason, bool script, struct text object, struct text user) {
    struct acl_entry *entry = redis_alloc(sizeof *entry);

    entry->reason = reason;
    entry->script = script;
    entry->when = redis->now;
    snprintf(entry->object, sizeof entry->object, "%.*s", (int)object.n, object.s);
    snprintf(entry->user, sizeof entry->user, "%.*s", (int)user.n, user.s);
    TAILQ_INSERT_HEAD(&redis->acl_log, entry, entry);
}

void redis__acl_note(struct ctx *ctx, enum acl_denied why, int index) {
    static const char *const reasons[] = {"", "command", "key", "channel"};
    const char *user = ctx->session->user->name;
    char name[128];

    redis__acl_command_name(ctx->command, ctx->argc, ctx->argv, name, sizeof name);
    note(ctx->redis, reasons[why], ctx->script, why == ACL_COMMAND ? (struct text){name, strlen(name)} : ctx->argv[index],
         (struct text){user, strlen(user)});
}

/* ---- AUTH ----------------------------------------------------------------------------------------------------------------- */

void redis__command_auth(struct ctx *ctx) {
    struct text name = ctx->argc == 3 ? ctx->argv[1] : TEXT("default"), password = ctx->argv[ctx->argc - 1];
    struct acl_user *user = find_user(ctx->redis, name);

    if (ctx->argc > 3) {
        redis__reply_syntax(ctx);
        return;
    }
    if (ctx->argc == 2 && redis__acl_default_open(ctx->redis)) {
        redis__reply_error(ctx,
                           "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
                           "configuration is correct?");
        return;
    }
    if (user && user->on && (user->nopass || texts_have(&user->passwords, password))) {
        ctx->session->user = user;
        redis__reply_status(ctx, "OK");
        return;
    }
    note(ctx->redis, "auth", false, TEXT("AUTH"), name);
    redis__reply_error(ctx, "WRONGPASS invalid username-password pair or user is disabled.");
}

/* ---- ACL ------------------------------------------------------------------------------------------------------------------ */

/* Which commands are of a category; -1: there is no such one. */
static int in_category(const struct command *command, struct text name) {
    static const struct {
        const char *name;
        unsigned flags;
    } categories[] = {{"write", CMD_WRITE},         {"read", CMD_READ},
                      {"admin", CMD_ADMIN},         {"fast", CMD_FAST},
                      {"dangerous", CMD_DANGEROUS}, {"pubsub", CMD_PUBSUB_RIGHTS},
                      {"scripting", CMD_SCRIPTING}, {"connection", CMD_CONNECTION}};

    if (redis__text_is(name, "all"))
        return 1;
    if (redis__text_is(name, "slow"))
        return !(command->flags & CMD_FAST);
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++)
        if (redis__text_is(name, categories[i].name))
            return (command->flags & categories[i].flags) != 0;
    return -1;
}

static bool set_category(struct acl_user *user, struct text name, bool may) {
    if (in_category(redis__command_at(0), name) < 0)
        return false;
    if (redis__text_is(name, "all")) {
        set_commands(user, may);
        return true;
    }
    for (size_t i = 0; i < redis__command_count(); i++)
        if (in_category(redis__command_at(i), name))
            user->commands[i] = may;
    return true;
}

static bool set_command(struct acl_user *user, struct text name, bool may) {
    const char *bar = memchr(name.s, '|', name.n);
    const struct command *command = redis__command_find((struct text){name.s, bar ? (size_t)(bar - name.s) : name.n});

    if (!command || (bar && !redis__has_subcommands(command)))
        return false;
    if (bar && !redis__subcommand_known(command, 2, (struct text[]){name, {bar + 1, name.n - (size_t)(bar + 1 - name.s)}}))
        return false;
    if (bar && may)
        texts_add(&user->subcommands, name);
    else if (!bar)
        user->commands[redis__command_number(command)] = may;
    return true;
}

static void reset_user(struct acl_user *user) {
    user->on = user->nopass = user->all_keys = user->all_channels = false;
    texts_clear(&user->passwords);
    texts_clear(&user->keys);
    texts_clear(&user->channels);
    set_commands(user, false);
}

/* A rule that is a word. */
static bool set_word(struct acl_user *user, struct text rule) {
    if (redis__text_is(rule, "on"))
        user->on = true;
    else if (redis__text_is(rule, "off"))
        user->on = false;
    else if (redis__text_is(rule, "nopass"))
        user->nopass = true;
    else if (redis__text_is(rule, "resetpass"))
        texts_clear(&user->passwords);
    else if (redis__text_is(rule, "allkeys"))
        user->all_keys = true;
    else if (redis__text_is(rule, "allchannels"))
        user->all_channels = true;
    else if (redis__text_is(rule, "allcommands"))
        set_commands(user, true);
    else if (redis__text_is(rule, "nocommands"))
        set_commands(user, false);
    else if (redis__text_is(rule, "reset"))
        reset_user(user);
    else if (redis__text_is(rule, "resetkeys")) {
        user->all_keys = false;
        texts_clear(&user->keys);
    } else if (redis__text_is(rule, "resetchannels")) {
        user->all_channels = false;
        texts_clear(&user->channels);
    } else
        return false;
    return true;
}

static bool set_rule(struct acl_user *user, struct text rule) {
    struct text rest = {rule.s + 1, rule.n ? rule.n - 1 : 0};
    char first = rule.n ? rule.s[0] : '\0';

    if ((first == '+' || first == '-') && rest.n && rest.s[0] == '@')
        return set_category(user, (struct text){rest.s + 1, rest.n - 1}, first == '+');
    if (first == '+' || first == '-')
        return set_command(user, rest, first == '+');
    if (first == '>') {
        user->nopass = false;
        if (!texts_have(&user->passwords, rest))
            texts_add(&user->passwords, rest);
    } else if (first == '~') {
        user->all_keys |= redis__text_is(rest, "*");
        texts_add(&user->keys, rest);
    } else if (first == '&') {
        user->all_channels |= redis__text_is(rest, "*");
        texts_add(&user->channels, rest);
    } else {
        return set_word(user, rule);
    }
    return true;
}

static void acl_setuser(struct ctx *ctx) {
    struct acl_user *user = find_user(ctx->redis, ctx->argv[2]);

    if (!user)
        user = make_user(ctx->redis, ctx->argv[2]);
    for (int i = 3; i < ctx->argc; i++)
        if (!set_rule(user, ctx->argv[i])) {
            redis__reply_error(ctx, "ERR Error in ACL SETUSER modifier '%.*s': Unknown command or category name in ACL",
                               (int)ctx->argv[i].n, ctx->argv[i].s);
            return;
        }
    redis__reply_status(ctx, "OK");
}

static void acl_deluser(struct ctx *ctx) {
    int count = 0;

    for (int i = 2; i < ctx->argc; i++) {
        struct acl_user *user = find_user(ctx->redis, ctx->argv[i]), **link = &ctx->redis->users;
        struct session *session;

        if (!user || user == redis__acl_default(ctx->redis))
            continue;
        TAILQ_FOREACH(session, &ctx->redis->sessions, entry) {
            if (session->user == user) {
                session->user = NULL;
                redis__session_close_soon(session);
            }
        }
        while (*link != user)
            link = &(*link)->next;
        *link = user->next;
        free_user(user);
        count++;
    }
    redis__reply_int(ctx, count);
}

static void reply_entry(struct ctx *ctx, const struct acl_entry *entry) {
    char age[32];

    redis__reply_array(ctx, 14);
    redis__reply_string(ctx, "count");
    redis__reply_int(ctx, 1);
    redis__reply_string(ctx, "reason");
    redis__reply_string(ctx, entry->reason);
    redis__reply_string(ctx, "context");
    redis__reply_string(ctx, entry->script ? "lua" : "toplevel");
    redis__reply_string(ctx, "object");
    redis__reply_string(ctx, entry->object);
    redis__reply_string(ctx, "username");
    redis__reply_string(ctx, entry->user);
    redis__reply_string(ctx, "age-seconds");
    snprintf(age, sizeof age, "%.3f", (double)(ctx->redis->now - entry->when) / 1e9);
    redis__reply_string(ctx, age);
    redis__reply_string(ctx, "client-info");
    redis__reply_string(ctx, "");
}

static void acl_log(struct ctx *ctx) {
    struct acl_entry *entry;
    int64_t most = 10, count = 0;

    if (ctx->argc == 3 && redis__text_is(ctx->argv[2], "RESET")) {
        clear_log(ctx->redis);
        redis__reply_status(ctx, "OK");
        return;
    }
    if (ctx->argc == 3 && !redis__arg_int(ctx, 2, &most))
        return;
    TAILQ_FOREACH(entry, &ctx->redis->acl_log, entry)
    count += count < most;
    redis__reply_array(ctx, count);
    TAILQ_FOREACH(entry, &ctx->redis->acl_log, entry) {
        if (count-- > 0)
            reply_entry(ctx, entry);
    }
}

void redis__command_acl(struct ctx *ctx) {
    struct acl_user *user;
    int64_t count = 0;

    if (redis__text_is(ctx->argv[1], "SETUSER") && ctx->argc >= 3)
        acl_setuser(ctx);
    else if (redis__text_is(ctx->argv[1], "DELUSER") && ctx->argc >= 3)
        acl_deluser(ctx);
    else if (redis__text_is(ctx->argv[1], "LOG"))
        acl_log(ctx);
    else if (redis__text_is(ctx->argv[1], "WHOAMI"))
        redis__reply_string(ctx, ctx->session->user ? ctx->session->user->name : "default");
    else if (redis__text_is(ctx->argv[1], "USERS")) {
        for (user = ctx->redis->users; user; user = user->next)
            count++;
        redis__reply_array(ctx, count);
        for (user = ctx->redis->users; user; user = user->next)
            redis__reply_string(ctx, user->name);
    } else
        redis__reply_unknown_subcommand(ctx);
}
