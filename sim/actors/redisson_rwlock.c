/* SPDX-License-Identifier: Apache-2.0
 *
 * redisson_rwlock.c - Redisson's ReadWriteLock, as it is on the wire.
 *
 * A hash with `mode` = read or write, and a field per holder: `owner` = count for readers, `owner:write` for the writer. Each hold of a
 * reader has a key of its own, `{name}:owner:rwlock_timeout:n`, that expires; when a reader leaves, the hash is given the longest time of
 * those that are left. The last reader's release says `0` on the channel, the writer's `1`.
 */
#include "redisson.h"

#include <stdio.h>
#include <string.h>

static struct redisson *of(struct actor *actor) {
    return (struct redisson *)actor;
}

/* KEYS: lock, channel. ARGV: owner, lease, what the keys of holds begin with. */
#define HEAD                                                                                                                       \
    "local lock, channel, owner, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2] "                                                      \
    "local writer, mode = owner .. ':write', redis.call('hget', lock, 'mode') "                                                    \
    "local function hold_of(who, n) return ARGV[3] .. who .. ':rwlock_timeout:' .. n end "

static enum script_answer run(struct redisson *redisson, const char *script, int64_t *ret) {
    const char *name = redisson->actor.place->name;
    char holds[ACTOR_NAME];

    redisson_suffixed(name, "", holds);
    return redis_answer(redis_line_ask(&redisson->line, (const char *const[]){"EVAL", script, "2", name, redisson->channel,
                                                                              redisson->owner, redisson->lease, holds, NULL}),
                        ret);
}

static const char read_script[] = HEAD "if mode and mode ~= 'read' and redis.call('hexists', lock, writer) == 0 then "
                                       "  return redis.call('pttl', lock) "
                                       "end "
                                       "if not mode then redis.call('hset', lock, 'mode', 'read') end "
                                       "local key = hold_of(owner, redis.call('hincrby', lock, owner, 1)) "
                                       "redis.call('set', key, 1) redis.call('pexpire', key, lease) "
                                       "redis.call('pexpire', lock, math.max(redis.call('pttl', lock), lease)) return nil";

static const char write_script[] = HEAD
    "if not mode then "
    "  redis.call('hset', lock, 'mode', 'write') redis.call('hset', lock, writer, 1) "
    "  redis.call('pexpire', lock, lease) return nil "
    "end "
    "local left = redis.call('pttl', lock) "
    "if mode ~= 'write' or redis.call('hexists', lock, writer) == 0 then return left end "
    "redis.call('hincrby', lock, writer, 1) redis.call('pexpire', lock, left + lease) return nil";

static const char read_unlock_script[] = HEAD "if not mode then redis.call('publish', channel, '0') return nil end "
                                              "if redis.call('hexists', lock, owner) == 0 then return nil end "
                                              "local count = redis.call('hincrby', lock, owner, -1) "
                                              "if count == 0 then redis.call('hdel', lock, owner) end "
                                              "redis.call('del', hold_of(owner, count + 1)) "
                                              "if redis.call('hlen', lock) > 1 then "
                                              "  local longest = -3 "
                                              "  for _, who in ipairs(redis.call('hkeys', lock)) do "
                                              "    for n = tonumber(redis.call('hget', lock, who)) or 0, 1, -1 do "
                                              "      longest = math.max(longest, redis.call('pttl', hold_of(who, n))) "
                                              "    end "
                                              "  end "
                                              "  if longest > 0 then redis.call('pexpire', lock, longest) return 1 end "
                                              "  if mode == 'write' then return 1 end "
                                              "end "
                                              "redis.call('del', lock) redis.call('publish', channel, '0') return 1";

static const char write_unlock_script[] = HEAD
    "if not mode then redis.call('publish', channel, '1') return nil end "
    "if mode ~= 'write' or redis.call('hexists', lock, writer) == 0 then return nil end "
    "if redis.call('hincrby', lock, writer, -1) > 0 then redis.call('pexpire', lock, lease) return 0 end "
    "redis.call('hdel', lock, writer) "
    "if redis.call('hlen', lock) == 1 then "
    "  redis.call('del', lock) redis.call('publish', channel, '1') "
    "else "
    "  redis.call('hset', lock, 'mode', 'read') "
    "end "
    "return 1";

/* A reader renews its own key and the hash, also where others have set the end of the hash. */
static const char read_renew_script[] = HEAD "local count = tonumber(redis.call('hget', lock, owner)) or 0 "
                                             "if count == 0 then return 0 end "
                                             "for n = count, 1, -1 do redis.call('pexpire', hold_of(owner, n), lease) end "
                                             "return redis.call('pexpire', lock, lease)";

static const char write_renew_script[] = HEAD "if redis.call('hexists', lock, writer) == 0 then return 0 end "
                                              "return redis.call('pexpire', lock, lease)";

static enum script_answer rw_try(struct redisson *redisson, int64_t *ret_ms) {
    return run(redisson, redisson->actor.mode == 's' ? read_script : write_script, ret_ms);
}

static int rw_renew(struct actor *actor) {
    int64_t number = 0, sent_at = actor_now();
    enum script_answer answer = run(of(actor), actor->mode == 's' ? read_renew_script : write_renew_script, &number);

    if (answer == ANSWER_NONE)
        return PAWL_ECONNLOST;
    if (answer != ANSWER_NUMBER || number != 1)
        return PAWL_ELOST;
    actor->sent_at = sent_at;
    return 0;
}

static int rw_drop(struct actor *actor) {
    int64_t number = 0;
    enum script_answer answer = run(of(actor), actor->mode == 's' ? read_unlock_script : write_unlock_script, &number);

    if (answer == ANSWER_NUMBER && number == 1)
        return 0;
    redisson_be_another(of(actor));
    return answer == ANSWER_NONE ? PAWL_ECONNLOST : PAWL_ELOST;
}

int actor_redisson_rwlock(const struct actor_place *place) {
    static const struct actor_ops ops = {redisson_open, redisson_close, redisson_take, rw_renew, rw_drop, NULL};
    struct redisson redisson;

    redisson_init(&redisson, place, &ops, "redisson_rwlock");
    redisson.try = rw_try;
    return actor_run(&redisson.actor, &(struct actor_style){.mode = 'x', .shared = 60, .renew_part = 3});
}
