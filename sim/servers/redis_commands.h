/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_commands.h - the commands of the simulated Redis, for the table in redis_command.c.
 */
#ifndef PAWL_SIM_REDIS_COMMANDS_H
#define PAWL_SIM_REDIS_COMMANDS_H

#include "redis_internal.h"

typedef void command_fn(struct ctx *ctx);

/* redis_strings.c */
command_fn redis__command_get, redis__command_set, redis__command_setnx, redis__command_setex, redis__command_getset,
    redis__command_getdel, redis__command_mget, redis__command_mset, redis__command_strlen, redis__command_append,
    redis__command_incr, redis__command_decr, redis__command_incrby, redis__command_decrby;
/* redis_hashes.c */
command_fn redis__command_hset, redis__command_hsetnx, redis__command_hget, redis__command_hmget, redis__command_hgetall,
    redis__command_hkeys, redis__command_hvals, redis__command_hlen, redis__command_hexists, redis__command_hstrlen,
    redis__command_hdel, redis__command_hincrby;
/* redis_zsets.c */
command_fn redis__command_zadd, redis__command_zrem, redis__command_zcard, redis__command_zscore, redis__command_zrank,
    redis__command_zrange, redis__command_zrevrange, redis__command_zrangebyscore, redis__command_zrevrangebyscore,
    redis__command_zcount, redis__command_zremrangebyscore, redis__command_zremrangebyrank, redis__command_zpop;
void redis__range_of(int64_t count, int64_t *first, int64_t *last);
/* redis_lists.c */
command_fn redis__command_lpush, redis__command_rpush, redis__command_lpop, redis__command_rpop, redis__command_llen,
    redis__command_lindex, redis__command_lrange, redis__command_lrem;
/* redis_keys.c */
command_fn redis__command_del, redis__command_exists, redis__command_type, redis__command_rename, redis__command_object,
    redis__command_expire, redis__command_persist, redis__command_ttl, redis__command_time, redis__command_keys,
    redis__command_scan, redis__command_dbsize, redis__command_flush;
/* redis_lua.c */
command_fn redis__command_eval, redis__command_evalsha, redis__command_script;
/* redis_pubsub.c */
command_fn redis__command_subscribe, redis__command_unsubscribe, redis__command_psubscribe, redis__command_punsubscribe,
    redis__command_ssubscribe, redis__command_sunsubscribe, redis__command_publish, redis__command_spublish, redis__command_pubsub;
/* redis_client.c, redis_tracking.c */
command_fn redis__command_ping, redis__command_echo, redis__command_select, redis__command_quit, redis__command_reset,
    redis__command_hello, redis__command_client, redis__command_multi, redis__command_exec, redis__command_discard,
    redis__command_wait, redis__command_command;
void redis__client_tracking(struct ctx *ctx);
void redis__client_caching(struct ctx *ctx);
/* redis_info.c, redis_config.c */
command_fn redis__command_info, redis__command_config, redis__command_debug, redis__command_lastsave, redis__command_bgsave;
/* redis_acl.c */
command_fn redis__command_auth, redis__command_acl;
/* redis_replication.c, redis_sentinel.c, redis_slots.c */
command_fn redis__command_role, redis__command_replicaof, redis__command_sentinel, redis__command_cluster, redis__command_asking,
    redis__command_readonly, redis__command_migrate;

#endif
