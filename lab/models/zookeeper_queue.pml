/* SPDX-License-Identifier: Apache-2.0
 *
 * zookeeper_queue.pml - the queue of ephemeral sequential nodes, with sessions that expire and replies that are lost.
 *
 * What each step stands for (src/engine/zookeeper/):
 *
 *     start            begin, create in claim.c: a new GUID; create and list are sent together
 *     rejoin           pawl__zk_queue_behind: create and a watch on the last one that was seen behind the hold before, instead of the list
 *     find             pawl__zk_znode_seek: the reply to create was lost, so the znode is looked for by its GUID
 *     look             list_again: a new number, a new list
 *     judge            judge, behind, pawl__zk_watch_ahead in list.c; pawl__zk_look_ahead, watch_further, judge in shortcut.c
 *     on_deleted       on_ahead_event (list.c), on_further_event (shortcut.c), on_own_event (renew.c)
 *     hold             ZK_FIRST, hold; with an old proof PROVING and a heartbeat, ZK_CHECKED
 *     cut, mend        a connection is lost (ZK_ON_CUT, ZK_STALLED), and made again (ZK_NEWS_UP, ZK_RESUME); those who wait set their
 *                      watches again
 *     expire, renew    the session dies at the server; the client hears of it and begins anew (renew_session, ZK_SESSION_LOST)
 *     leave, sweep     finish, pawl__zk_sweep_claim, sweep.c
 *
 * A client's requests are worked on in order; its replies and events arrive in order. A cut lets the server work on any part of
 * what was on its way, and loses all answers. Time is one bit per thing: `proved` means that the session was proved recently
 * enough for a hold to be assured. age() may turn it off at any moment; the clock being the client's own, a hold is lost in the
 * same instant. The server lets a session expire only when nothing that the client sent recently has reached it: that is the
 * bound of session/proof.c, taken as given.
 *
 * Checked
 *     exclusion        who begins to hold finds nobody whose hold is assured
 *     tokens           who begins to hold has a higher number than all before
 *     no lost wake-up  when nothing can move any more every client is done, after any history, without any time-out having
 *                      helped
 *     nothing left     then no node is left either
 *     progress         there is no endless cycle in which nobody acquires (run with -DNP)
 *
 * Broken variants, each of which must be refuted:
 *     BROKEN_WATCH     the one ahead was gone when it was to be watched, and is waited for all the same
 *     BROKEN_FIND      after a lost reply the node is made again without looking for the first
 *     BROKEN_LEASE     a hold is assured until the server says that the session is gone
 *     BROKEN_PROOF     a proof counts from its reply, not from when it was sent
 *     BROKEN_OWN       being let in without a list, and without a watch on the own node
 *     BROKEN_REJOIN    a client that is in line again is let in when the one that it remembered goes, without a list
 *     BROKEN_RESUME    a reconnect forgets to go on with what was lost
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* acquisitions of each client */
#endif
#ifndef OTHERS
#define OTHERS ROUNDS /* of each but the first */
#endif
#ifndef CUTS
#define CUTS 1
#endif
#ifndef EXPIRIES
#define EXPIRIES 1
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 1
#endif
#ifndef REMOVALS
#define REMOVALS 0 /* nodes of waiters that an operator deletes */
#endif
#define NODES (ROUNDS + (CLIENTS - 1) * OTHERS + CUTS + EXPIRIES + REMOVALS)
#define NONE 0
#define WANTED(k) ((k) == 0 -> ROUNDS : OTHERS)

mtype = { CREATE, LIST, WATCH, FAR, OWN, AHEAD_LIST, SEEK, BEAT, DELETE, DELETED, SWEEP };
mtype = { IDLE, CREATING, FINDING, QUEUED, PROVING, HELD, DONE };

/* The server. Bit n of `nodes`: node n is there. */
byte nodes, made, maker[NODES + 1], guid_of[NODES + 1];
byte watched[CLIENTS], far_watched[CLIENTS]; /* by whom: which node, or NONE */
bool own_watched[CLIENTS];
bool alive[CLIENTS];

/* The connection: what, a node or a set of them, the round. Replies have NONE as the node where there is none. */
chan request[CLIENTS] = [8] of { mtype, byte, byte };
chan reply[CLIENTS] = [12] of { mtype, byte, byte };
bool connected[CLIENTS];

/* The client. */
mtype state[CLIENTS] = IDLE;
byte round[CLIENTS], guid[CLIENTS], node[CLIENTS], ahead[CLIENTS], far_ahead[CLIENTS], rounds[CLIENTS];
bool armed[CLIENTS], far_armed[CLIENTS], own_set[CLIENTS], own_armed[CLIENTS], next_in_line[CLIENTS], gone_already[CLIENTS];
bool stalled[CLIENTS], lost[CLIENTS];
#if ROUNDS > 1
byte last[CLIENTS]; /* who stood last behind it, by the latest list */
#endif
#ifdef BROKEN_REJOIN
bool rejoined[CLIENTS];
#endif
byte doomed[CLIENTS];      /* a set of nodes */
byte doomed_guid[CLIENTS]; /* a set of GUIDs */
bool sweeping[CLIENTS];

/* Time. */
bool proved[CLIENTS], sent_lately[CLIENTS], heard_lately[CLIENTS];

byte cuts, expiries, give_ups, removals, last_token, acquired;

#define bit(n) (1 << (n))
#define has(set, n) (((set) >> (n)) & 1)
#define next_number(n) (((n) + 1) % 4)

/* A request that left recently has come through: the session lived then. */
#ifdef BROKEN_PROOF
#define PROOF(k) true
#else
#define PROOF(k) (sent_lately[k] && heard_lately[k])
#endif

/* ---- The server -------------------------------------------------------------------------------------------------------------- */

inline tell(k, what, n, r) {
    if
    :: connected[k] -> assert(nfull(reply[k])); reply[k]!what, n, r
    :: else
    fi
}

inline remove(n) {
    if
    :: has(nodes, n) ->
        nodes = nodes & ~bit(n);
        w = 0;
        do
        :: w < CLIENTS ->
            if
            :: own_watched[w] && node_of_own[w] == n -> own_watched[w] = false; tell(w, DELETED, n, 2)
            :: else
            fi;
            if
            :: watched[w] == n -> watched[w] = NONE; tell(w, DELETED, n, 0)
            :: else
            fi;
            if
            :: far_watched[w] == n -> far_watched[w] = NONE; tell(w, DELETED, n, 1)
            :: else
            fi;
            w++
        :: else -> break
        od;
        w = 0
    :: else
    fi
}
byte node_of_own[CLIENTS]; /* whose deletion the server tells the client as that of its own */

/* Work on one request; `answer`: the reply leaves. */
inline serve(k, answer) {
    request[k]?what, n, r;
    if
    :: what == CREATE ->
        made++;
        assert(made <= NODES);
        nodes = nodes | bit(made);
        maker[made] = k;
        guid_of[made] = n;
        if
        :: sent_lately[k] -> heard_lately[k] = true
        :: else
        fi;
        if
        :: answer -> reply[k]!CREATE, made, r
        :: else
        fi
    :: what == SWEEP ->
        if
        :: answer -> reply[k]!SWEEP, nodes, n
        :: else
        fi
    :: what == LIST || what == AHEAD_LIST || what == SEEK ->
        if
        :: answer -> reply[k]!what, nodes, r
        :: else
        fi
    :: what == WATCH ->
        if
        :: has(nodes, n) && answer -> watched[k] = n; reply[k]!WATCH, n, r
        :: !has(nodes, n) && answer -> reply[k]!WATCH, NONE, r
        :: !answer
        fi
    :: what == FAR ->
        if
        :: has(nodes, n) && answer -> far_watched[k] = n; reply[k]!FAR, n, r
        :: !has(nodes, n) && answer -> reply[k]!FAR, NONE, r
        :: !answer
        fi
    :: what == OWN ->
        if
        :: has(nodes, n) && answer -> own_watched[k] = true; node_of_own[k] = n; reply[k]!OWN, n, n
        :: !has(nodes, n) && answer -> reply[k]!OWN, NONE, n
        :: !answer
        fi
    :: what == BEAT ->
        if
        :: has(nodes, n) && sent_lately[k] -> heard_lately[k] = true
        :: else
        fi;
        if
        :: answer && has(nodes, n) -> reply[k]!BEAT, n, r
        :: answer && !has(nodes, n) -> reply[k]!BEAT, NONE, r
        :: !answer
        fi
    :: what == DELETE ->
        remove(n);
        if
        :: answer -> reply[k]!DELETE, n, r
        :: else
        fi
    fi;
    what = 0; n = 0; r = 0
}

/* ---- The client -------------------------------------------------------------------------------------------------------------- */

inline send(k, what_, n_, r_) {
    assert(nfull(request[k]));
    sent_lately[k] = true;
    request[k]!what_, n_, r_
}

inline new_round(k) {
    round[k] = next_number(round[k]);
    stalled[k] = false;
    next_in_line[k] = false;
    gone_already[k] = false;
#ifdef BROKEN_REJOIN
    rejoined[k] = false;
#endif
    /* The watches are dropped; the server forgets them too: a request that is of no further interest. */
    armed[k] = false; watched[k] = NONE; ahead[k] = NONE;
    far_armed[k] = false; far_watched[k] = NONE; far_ahead[k] = NONE
}

inline forget_own(k) {
    own_set[k] = false; own_armed[k] = false; own_watched[k] = false; node_of_own[k] = NONE
}

/* What must go when the claim ends or begins anew. */
inline doom_claim(k) {
    if
    :: node[k] != NONE -> doomed[k] = doomed[k] | bit(node[k])
    :: node[k] == NONE && (state[k] == FINDING || state[k] == CREATING) -> doomed_guid[k] = doomed_guid[k] | bit(guid[k])
    :: else
    fi;
    node[k] = NONE
}

/* The list n tells who stands last behind node[k]. */
inline remember(k) {
#if ROUNDS > 1
    last[k] = NONE;
    i = node[k] + 1;
    do
    :: i <= NODES ->
        if
        :: has(n, i) -> last[k] = i
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
#else
    skip
#endif
}

/* Whether the memory is fresh enough is the clock's affair: either may be. */
inline rejoin(k) {
#if ROUNDS > 1
    if
    :: last[k] != NONE ->
#ifdef BROKEN_REJOIN
        rejoined[k] = true;
#endif
        ahead[k] = last[k];
        send(k, WATCH, last[k], round[k])
    :: send(k, LIST, NONE, round[k])
    fi;
    last[k] = NONE
#else
    send(k, LIST, NONE, round[k])
#endif
}

inline start(k) {
    doom_claim(k);
    new_round(k);
    forget_own(k);
    state[k] = CREATING;
    guid[k] = next_number(guid[k]);
    if
    :: connected[k] ->
        send(k, CREATE, guid[k], round[k]);
        rejoin(k)
    :: else -> stalled[k] = true; state[k] = IDLE /* OFFLINE: nothing was asked for yet */
    fi
}

inline look(k) {
    new_round(k);
    send(k, LIST, NONE, round[k])
}

inline hold(k) {
    new_round(k);
    state[k] = HELD;
    o = 0;
    do
    :: o < CLIENTS -> assert(o == k || state[o] != HELD || lost[o]); o++
    :: else -> break
    od;
    o = 0;
    assert(node[k] > last_token);
    last_token = node[k];
    acquired++
}

inline grant(k) {
    if
    :: proved[k] -> hold(k)
    :: else -> state[k] = PROVING; send(k, BEAT, node[k], round[k])
    fi
}

inline watch_own(k) {
    if
    :: !own_set[k] -> own_set[k] = true; send(k, OWN, node[k], round[k])
    :: else
    fi
}

/* The nearest ahead of node[k] in the set n: o; how many: w; the second: r. */
inline rank(k) {
    o = NONE; r = NONE; w = 0; what = 0;
    i = 1;
    do
    :: i < node[k] ->
        if
        :: has(n, i) -> r = o; o = i; w++
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline judge(k) {
    if
    :: !has(n, node[k]) -> start(k) /* absent: deleted by somebody else */
    :: else ->
        remember(k);
        rank(k);
        if
        :: o == NONE -> w = 0; r = 0; grant(k)
        :: else ->
            ahead[k] = o;
            send(k, WATCH, o, round[k]);
#ifndef BROKEN_OWN
            watch_own(k);
#endif
            if
            :: w > 1 -> far_ahead[k] = r; send(k, FAR, r, round[k])
            :: else -> next_in_line[k] = true
            fi
        fi;
        o = 0; w = 0; r = 0
    fi
}

/* The list that lookahead.c asks for when the second ahead has gone. */
inline judge_ahead(k) {
    if
    :: has(n, node[k]) ->
        remember(k);
        rank(k);
        if
        :: o == ahead[k] && w == 1 -> next_in_line[k] = true
        :: o == ahead[k] && w > 1 -> far_ahead[k] = r; send(k, FAR, r, round[k])
        :: else /* it is gone as well: its event is on its way */
        fi;
        o = 0; w = 0; r = 0
    :: else
    fi
}

#ifdef BROKEN_OWN
#define is_next(k) next_in_line[k]
#define is_nearly_next(k) false
#else
#define is_next(k) (next_in_line[k] && own_armed[k])
#define is_nearly_next(k) (next_in_line[k] && own_set[k] && !own_armed[k])
#endif

/* The nearest one ahead is gone, or was before it could be watched. */
inline ahead_gone(k) {
    if
    :: is_next(k) -> grant(k)
#ifdef BROKEN_REJOIN
    :: !is_next(k) && rejoined[k] -> grant(k)
    :: !is_next(k) && !rejoined[k] -> look(k)
#else
    :: else -> look(k)
#endif
    fi
}

inline take(k) {
    reply[k]?what, n, r;
    if
    :: what == CREATE && r == round[k] && state[k] == CREATING ->
        proved[k] = proved[k] || PROOF(k);
        node[k] = n;
        state[k] = QUEUED
    :: what == CREATE && !(r == round[k] && state[k] == CREATING) -> doomed[k] = doomed[k] | bit(n)
    :: what == LIST && r == round[k] && state[k] == QUEUED -> judge(k)
    :: what == LIST && r == round[k] && state[k] == FINDING -> skip
    :: what == SEEK && r == round[k] && state[k] == FINDING ->
        o = NONE;
        i = 1;
        do
        :: i <= NODES ->
            if
            :: has(n, i) && maker[i] == k && guid_of[i] == guid[k] -> o = i
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0;
        if
        :: o == NONE -> start(k)
        :: else -> node[k] = o; o = 0; state[k] = QUEUED; look(k)
        fi;
        o = 0
    :: what == WATCH && r == round[k] && state[k] == QUEUED ->
        if
        :: n != NONE -> armed[k] = true
#ifdef BROKEN_WATCH
        :: n == NONE -> armed[k] = true /* as `exists` would have it */
#else
        :: n == NONE && is_nearly_next(k) -> gone_already[k] = true
        :: n == NONE && !is_nearly_next(k) -> ahead_gone(k)
#endif
        fi
    :: what == FAR && r == round[k] && state[k] == QUEUED ->
        if
        :: n != NONE -> far_armed[k] = true
        :: else -> send(k, AHEAD_LIST, NONE, round[k])
        fi
    :: what == AHEAD_LIST && r == round[k] && state[k] == QUEUED && ahead[k] != NONE -> judge_ahead(k)
    :: what == OWN && own_set[k] && r == node[k] -> /* of any round: it is about the node */
        if
        :: n == node[k] ->
            own_armed[k] = true;
            if
            :: state[k] == QUEUED && gone_already[k] && next_in_line[k] -> grant(k)
            :: state[k] == QUEUED && gone_already[k] && !next_in_line[k] -> look(k) /* after a moment */
            :: else
            fi
        :: n == NONE && state[k] == QUEUED -> forget_own(k); look(k)
        :: else -> forget_own(k)
        fi
    :: what == DELETED && r == 0 && armed[k] && n == ahead[k] && state[k] == QUEUED -> ahead_gone(k)
    :: what == DELETED && r == 1 && far_armed[k] && n == far_ahead[k] && state[k] == QUEUED ->
        far_armed[k] = false;
        send(k, AHEAD_LIST, NONE, round[k])
    :: what == DELETED && r == 2 && own_set[k] && n == node[k] ->
        forget_own(k);
        if
        :: state[k] == QUEUED -> look(k)
        :: else
        fi
    :: what == BEAT && r == round[k] && state[k] == PROVING ->
        if
        :: n == NONE -> start(k)
        :: else ->
            proved[k] = PROOF(k);
            if
            :: proved[k] -> hold(k)
            :: else -> send(k, BEAT, node[k], round[k])
            fi
        fi
    :: what == DELETE -> doomed[k] = doomed[k] & ~bit(n); sweeping[k] = false
    :: what == SWEEP ->
        sweeping[k] = false;
        i = 1;
        do
        :: i <= NODES ->
            if
            :: has(n, i) && maker[i] == k && has(r, guid_of[i]) && i != node[k] -> doomed[k] = doomed[k] | bit(i)
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0;
        doomed_guid[k] = doomed_guid[k] & ~r
    :: else /* an answer to an earlier round */
    fi;
    what = 0; n = 0; r = 0
}

/* Withdraw: a release, a hold that was lost, or an acquire that is given up. */
inline leave(k) {
    doom_claim(k);
    new_round(k);
    forget_own(k);
    lost[k] = false;
    rounds[k]++;
#if ROUNDS > 1
    if
    :: state[k] != HELD || rounds[k] == WANTED(k) -> last[k] = NONE
    :: else
    fi;
#endif
    if
    :: rounds[k] == WANTED(k) -> state[k] = DONE
    :: else -> state[k] = IDLE
    fi
}

inline sweep(k) {
    sweeping[k] = true;
    if
    :: doomed[k] ->
        i = 1;
        do
        :: !has(doomed[k], i) -> i++
        :: else -> break
        od;
        send(k, DELETE, i, 0);
        i = 0
    :: !doomed[k] -> send(k, SWEEP, doomed_guid[k], 0)
    fi
}

/* Something of the present round was on its way. */
inline cut(k) {
    do
    :: nempty(request[k]) -> serve(k, false)
    :: nempty(request[k]) -> /* the rest was lost */
        do
        :: nempty(request[k]) -> request[k]?what, n, r
        :: empty(request[k]) -> break
        od
    :: empty(request[k]) -> break
    od;
    do
    :: nempty(reply[k]) ->
        reply[k]?what, n, r
    :: empty(reply[k]) -> break
    od;
    what = 0; n = 0; r = 0;
    connected[k] = false;
    watched[k] = NONE; far_watched[k] = NONE; own_watched[k] = false;
    next_in_line[k] = false;
    sweeping[k] = false;
    if
    :: !own_armed[k] -> own_set[k] = false
    :: else
    fi;
    if
    :: state[k] == CREATING || state[k] == FINDING || state[k] == PROVING || (state[k] == QUEUED && (!armed[k] || gone_already[k])) ->
        stalled[k] = true
    :: else
    fi
}

/* Connected again: the library sets the watches that it had, and events that were missed are told. */
inline mend(k) {
    connected[k] = true;
    if
    :: armed[k] && has(nodes, ahead[k]) -> watched[k] = ahead[k]
    :: armed[k] && !has(nodes, ahead[k]) -> reply[k]!DELETED, ahead[k], 0
    :: else
    fi;
    if
    :: far_armed[k] && has(nodes, far_ahead[k]) -> far_watched[k] = far_ahead[k]
    :: far_armed[k] && !has(nodes, far_ahead[k]) -> reply[k]!DELETED, far_ahead[k], 1
    :: else
    fi;
    if
    :: own_armed[k] && has(nodes, node_of_own[k]) -> own_watched[k] = true
    :: own_armed[k] && !has(nodes, node_of_own[k]) -> reply[k]!DELETED, node_of_own[k], 2
    :: else
    fi;
#ifndef BROKEN_RESUME
    if
    :: stalled[k] ->
        stalled[k] = false;
        if
        :: state[k] == IDLE -> start(k)
#ifdef BROKEN_FIND
        :: state[k] == CREATING || state[k] == FINDING -> state[k] = IDLE; start(k)
#else
        :: state[k] == CREATING || state[k] == FINDING -> new_round(k); state[k] = FINDING; send(k, SEEK, NONE, round[k])
#endif
        :: state[k] == QUEUED -> look(k)
        :: state[k] == PROVING -> send(k, BEAT, node[k], round[k])
        :: else
        fi
    :: else
    fi
#else
    skip
#endif
}

/* A new session: what the old one had is gone with it. */
inline renew(k) {
    alive[k] = true;
    connected[k] = true;
    doomed[k] = 0;
    doomed_guid[k] = 0;
    proved[k] = false;
    if
    :: state[k] == HELD -> node[k] = NONE; lost[k] = true; new_round(k); forget_own(k)
    :: state[k] == DONE || (state[k] == IDLE && !stalled[k]) -> skip
    :: else -> node[k] = NONE; state[k] = IDLE; start(k)
    fi
}

/* Time passes for the client k: what was recent is not any more. */
inline age(k) {
    proved[k] = false;
    sent_lately[k] = false;
    heard_lately[k] = false;
#ifndef BROKEN_LEASE
    if
    :: state[k] == HELD -> lost[k] = true
    :: else
    fi
#endif
}

active [CLIENTS] proctype client() {
    byte n, r, o, w, i;
    mtype what;

    atomic { alive[_pid] = true; connected[_pid] = true }
end:
    do
    :: atomic { state[_pid] == IDLE && !stalled[_pid] && alive[_pid] && connected[_pid] -> start(_pid) }
    :: atomic { connected[_pid] && alive[_pid] && nempty(request[_pid]) -> serve(_pid, true) }
    :: atomic { connected[_pid] && nempty(reply[_pid]) -> take(_pid) }
    :: state[_pid] == HELD ->
progress:
        atomic { leave(_pid) }
    :: atomic { connected[_pid] && alive[_pid] && (doomed[_pid] || doomed_guid[_pid]) && !sweeping[_pid] -> sweep(_pid) }
    /* Given up: the deadline of the acquire has passed. */
    :: atomic { give_ups < GIVE_UPS && (state[_pid] == CREATING || state[_pid] == FINDING || state[_pid] == QUEUED) ->
        give_ups++;
        leave(_pid) }
    :: atomic { cuts < CUTS && connected[_pid] -> cuts++; cut(_pid) }
    :: atomic { !connected[_pid] && alive[_pid] -> mend(_pid) }
    :: atomic { (proved[_pid] || sent_lately[_pid] || heard_lately[_pid]) && expiries < EXPIRIES -> age(_pid) }
    /* The session expires at the server, which hangs up. */
    :: atomic { expiries < EXPIRIES && alive[_pid] && !heard_lately[_pid] ->
        expiries++;
        alive[_pid] = false;
        i = 1;
        do
        :: i <= NODES -> if :: has(nodes, i) && maker[i] == _pid -> n = i; remove(n); n = 0 :: else fi; i++
        :: else -> break
        od;
        i = 0;
        if
        :: connected[_pid] ->
            do
            :: nempty(request[_pid]) -> request[_pid]?what, n, r
            :: empty(request[_pid]) -> break
            od;
            cut(_pid)
        :: else
        fi }
    :: atomic { !alive[_pid] && !connected[_pid] -> renew(_pid) }
    od
}

/* An operator deletes nodes, but not that of the first in line: that would be a break of a hold, which is not exclusive. */
#if REMOVALS > 0
active proctype operator() {
    byte n, w, i;

    do
    :: atomic { removals < REMOVALS && nodes ->
        removals++;
        i = 1;
        do
        :: !has(nodes, i) -> i++
        :: else -> break
        od;
        i++;
        do
        :: i <= NODES && has(nodes, i) -> n = i; remove(n); n = 0; i = 0; break
        :: i < NODES -> i++
        :: i >= NODES -> i = 0; break
        od }
    :: break
    od
}
#endif

active proctype judge_the_end() {
    byte k;

    timeout ->
    do
    :: k < CLIENTS -> assert(state[k] == DONE); assert(doomed[k] == 0); k++
    :: else -> break
    od;
    assert(nodes == 0)
}
