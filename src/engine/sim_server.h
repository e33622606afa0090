/* SPDX-License-Identifier: Apache-2.0
 *
 * sim_server.h - the simulated server and the messages to and from it.
 *
 * One mutex, the server's, guards all of it and its clients; the functions here want it held unless said otherwise.
 */
#ifndef PAWL_SIM_SERVER_H
#define PAWL_SIM_SERVER_H

#include "engine/sim.h"

#define SIM_MS INT64_C(1000000)

enum { SIM_TOKENS = 128, SIM_TOGETHER = 8 };

enum message_kind {
    SUBMIT,
    SUBMIT_ALL,
    RENEW,
    DOWNGRADE,
    WITHDRAW,
    GRANTED,
    QUEUED,
    OFFER,
    RENEWED,
    DOWNGRADED,
    REFUSED,
    GONE,
    LOST
};

/* What a claim asks for, as it was when it was submitted: the claim itself is the core's to change. */
struct wish {
    char name[256];
    enum pawl_kind kind;
    enum pawl_mode mode;
    uint32_t permits, limit;
    bool try_only;
};

struct message {
    TAILQ_ENTRY(message) link; /* server->messages, by arrival */
    int64_t arrives;
    struct sim_engine *client; /* from or to */
    enum message_kind kind;
    uint64_t id;
    int64_t asked_at;    /* when the request left that this is, or answers */
    int code;            /* REFUSED; LOST: 1 if broken */
    struct wish request; /* SUBMIT: what it asks for; REFUSED: what can't be had */
    size_t count;        /* SUBMIT_ALL: so many, all or none */
    struct {
        uint64_t id;
        struct wish wish;
    } all[SIM_TOGETHER];
    uint64_t token;
};

struct sim_entry {
    TAILQ_ENTRY(sim_entry) link;
    struct sim_engine *client;
    struct pawl__identity identity;
    uint64_t id;
    struct wish wish;
    bool held, broken;
    uint64_t token;
    int64_t lease_ns, expires;
};

TAILQ_HEAD(message_list, message);

struct sim_server {
    TAILQ_ENTRY(sim_server) link;
    char name[64];
    bool virtual_clock;
    int64_t clock;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct message_list messages;
    TAILQ_HEAD(, sim_entry) entries;
    uint64_t token;
};

struct sim_engine {
    struct pawl__engine base;
    struct sim_server *server;
    char url[96];
    struct pawl__identity identity;
    int64_t lease_ns, delay_ns;
    bool is_cut, duplicates, woken;
    unsigned drops, requests;
    TAILQ_HEAD(, sim_claim) claims; /* sim.c */
};

/* The server of this name, or NULL. No mutex held. */
struct sim_server *pawl__sim_server_find(const char *name);
int64_t pawl__sim_now(const struct pawl__engine *engine);
/* Send, in either direction, through whatever is wrong with the client's connection. */
void pawl__sim_transmit(struct sim_engine *sim, struct message *message);
/* A request has arrived. */
void pawl__sim_receive(struct sim_engine *sim, const struct message *message, int64_t now);
/* Leases that have run out are over. */
void pawl__sim_expire(struct sim_server *server, int64_t now);
/* Forget all entries of the client, and all messages to and from it. */
void pawl__sim_forget_client(struct sim_engine *sim);
/* For operators; no mutex held. */
pawl__survey_fn pawl__sim_survey;
pawl__break_fn pawl__sim_break;

#endif
