/* SPDX-License-Identifier: Apache-2.0
 *
 * redis_handoff.pml - the queue on the Redis server, with hand-off by PUBLISH and claims that expire.
 *
 * What each step stands for (src/engine/redis/, and lua/ there):
 *
 *     acquire_script   acquire.lua: mine() keeps, enter(), enqueue(), and hand_on() for a head that is not the caller
 *     release_script   release.lua: drop() and pass_on(), or leave the queue and hand_on() if that made room
 *     renew_script     only in BROKEN_TOKEN: a renewal that confirms a grant, and does not tell which
 *     hand_on          queue.lua: the first in the queue that hears (PUBLISH > 0) is made the holder for the time of a claim; who
 *                      does not hear is passed over; who is first afterwards is told so, and its timer is set
 *     drive            pawl__rclaim_drive: ask, ask again, leave
 *     take_answer      acquire_answered, release_answered: only the answer to what was asked last counts (`turn`)
 *     take_push        push.c: take_grant (in time: held; too old: asked for again), take_head, take_foreign, look_again
 *     cut, cut_inbox   a connection is lost: what was asked may be carried out, then or later (`limbo`), or not; pushes are lost
 *     timer            wait_more: the first two ask again when the holder's time has ended, and so does who was told that it is
 *                      first
 *     alive            the question that every waiter asks every few seconds: here only when nothing else can happen any more
 *     foreign          a program that is not pawl: takes what is free, lets go of it with a PUBLISH on its own channel, or dies
 *
 * Each client has two connections: commands, answered in order, and the inbox, where pushes come; between the two there is no
 * order. A client that is frozen reads nothing, and the server goes on counting it as a listener. One that is dead is a listener
 * until the server notices. Time is one bit per thing, as in zookeeper_queue.pml: `fresh` of the key that is held, of what a
 * client sent, of a grant that was pushed, and `assured` of a hold. age() turns those of one client off together, in the same
 * instant for both sides; the key may expire when it is not fresh. That stands for lease.h and push.c, which see to it that a
 * hold is never believed for longer than its key lives.
 *
 * Checked
 *     exclusion        who begins to hold finds no other whose hold is assured, nor the foreign program inside
 *     tokens           who begins to hold has a higher token than all others that held before
 *     no lost wake-up  when nothing can move any more all living clients are done. With POLLS 0 and no fault nobody ever has to
 *                      ask again by itself; with faults a few questions in all must do
 *     nothing left     then the lock is free and nobody is queued
 *     progress         there is no endless cycle in which nobody acquires (run with -DNP)
 *
 * Broken variants, each of which must be refuted:
 *     BROKEN_DELETE    release deletes the key without looking whose it is
 *     BROKEN_CLAIM     a pushed grant is believed however old it is
 *     BROKEN_TOKEN     a late grant is confirmed by a renewal, and keeps the token of the message that told of it (pawl did so
 *                      once)
 *     BROKEN_LEAVE     who leaves the queue does not look whether the next one fits now
 *     BROKEN_AGAIN     a foreign release that is heard while an answer is on its way is forgotten (pawl did so once)
 *     BROKEN_ACK       who begins to listen for a foreign release does not look again
 *     BROKEN_WRITE     that a connection is lost is found out by writing to it, and what could not be written counts as asked (pawl
 *                      did so once)
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* acquisitions of each client */
#endif
#ifndef AGES
#define AGES 1 /* how often time passes by a client before its turn */
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef FREEZES
#define FREEZES 0
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 1
#endif
#ifndef FOREIGN_TURNS
#define FOREIGN_TURNS 0
#endif
#ifndef POLLS
#define POLLS 0 /* questions that were asked only because nothing else happened any more */
#endif

#define NONE 0
#define FOREIGN 99
#define WAITERS (CLIENTS * ROUNDS)
/* A claim's owner is used for that claim alone. */
#define owner(c) (1 + (c) + CLIENTS * rounds[c])
#define client_of(who) (((who) - 1) % CLIENTS)

mtype = { ACQUIRE, RENEW, RELEASE };           /* asked */
mtype = { GRANTED, QUEUED, KEPT, GONE, LEFT }; /* answered */
mtype = { GRANT, HEAD, RELEASED };             /* pushed */
mtype = { IDLE, ASKING, WAITING, CONFIRMING, HOLDING, LEAVING, DONE };

/* The server. An era is how often time has passed by a client: what is of the present one is fresh. */
byte holder, key_era, key_token, tokens;
byte last_expired; /* the token of the hold that ended last by its time */
byte queue[WAITERS + 1], queued;
bool subscribed[CLIENTS], listens[CLIENTS];
byte era[CLIENTS];

/* The connections. */
chan commands[CLIENTS] = [5] of { mtype, byte, byte, byte };      /* what, owner, turn, era */
chan answers[CLIENTS] = [5] of { mtype, byte, byte, byte, bool, byte }; /* what, token or position, turn, era, foreign, holder's token */
chan inbox[CLIENTS] = [6] of { mtype, byte, byte, byte };         /* what, owner, token, era */
chan limbo = [2] of { mtype, byte, byte };                        /* what, owner, era */
bool up[CLIENTS], inbox_up[CLIENTS];

/* The clients. */
mtype state[CLIENTS] = IDLE;
byte rounds[CLIENTS], turn[CLIENTS], token[CLIENTS];
byte timer_for[CLIENTS]; /* the token of the hold whose end the timer is set for */
bool asked[CLIENTS], again[CLIENTS], timer[CLIENTS], lost[CLIENTS], wants_channel[CLIENTS];
bool frozen[CLIENTS], dead[CLIENTS];

bool foreign_inside;
byte foreign_turns, ages, cuts, kills, freezes, give_ups, polls, last_token, last_owner;

#define next_turn(n) (((n) + 1) % 4)
#define runs(c) (!frozen[c] && !dead[c])

/* ---- The scripts: each is one step of the server ----------------------------------------------------------------------------- */

inline push(c, verb, who, t) {
    if
    :: dead[c]
    :: else -> assert(nfull(inbox[c])); inbox[c]!verb, who, t, era[c]
    fi
}

inline pop() {
    q = 1;
    do
    :: q < queued -> queue[q - 1] = queue[q]; q++
    :: else -> break
    od;
    queued--;
    queue[queued] = NONE;
    q = 0
}

inline hand_on() {
    do
    :: queued == 0 -> break
    :: queued > 0 && holder != NONE ->
        to = client_of(queue[0]);
        if
        :: subscribed[to] ->
            push(to, HEAD, queue[0], key_token);
            break
        :: else -> pop()
        fi
    :: queued > 0 && holder == NONE ->
        to = client_of(queue[0]);
        tokens++;
        if
        :: subscribed[to] ->
            holder = queue[0];
            key_era = era[to];
            key_token = tokens;
            push(to, GRANT, holder, tokens)
        :: else /* dead: the next one */
        fi;
        pop()
    od;
    to = 0
}

inline enter(who, e) {
    tokens++;
    holder = who;
    key_era = e;
    key_token = tokens
}

/* The holder asks again: its time is set anew. */
inline keep(e) {
    if
    :: e > key_era -> key_era = e
    :: else
    fi
}

/* Where `who` stands in the queue: q; at the end, if it did not. */
inline enqueue(who) {
    q = 0;
    do
    :: q < queued && queue[q] != who -> q++
    :: else -> break
    od;
    if
    :: q == queued -> assert(queued < WAITERS + 1); queue[queued] = who; queued++
    :: else
    fi
}

/* The answer is `said`; its number is `number`. */
inline acquire_script(who, e) {
    if
    :: holder == who -> keep(e); said = GRANTED
    :: holder != who && holder == NONE && (queued == 0 || queue[0] == who) ->
        enter(who, e);
        if
        :: queued > 0 -> pop(); hand_on()
        :: else
        fi;
        said = GRANTED
    :: holder != who && holder == NONE && queued > 0 && queue[0] != who ->
        hand_on();
        if
        :: holder == who -> keep(e); said = GRANTED
        :: holder == NONE && queued == 0 -> enter(who, e); said = GRANTED
        :: else -> said = QUEUED
        fi
    :: holder != who && holder != NONE -> said = QUEUED
    fi;
    if
    :: said == GRANTED -> number = key_token
    :: said == QUEUED -> enqueue(who); number = q; q = 0
    fi
}

inline release_script(who) {
    if
#ifdef BROKEN_DELETE
    :: holder != NONE && holder != FOREIGN -> holder = NONE; hand_on()
#else
    :: holder == who -> holder = NONE; hand_on()
#endif
    :: else ->
        q = 0;
        do
        :: q < queued && queue[q] != who -> q++
        :: else -> break
        od;
        if
        :: q < queued ->
            q++;
            do
            :: q < queued -> queue[q - 1] = queue[q]; q++
            :: else -> break
            od;
            queued--;
            queue[queued] = NONE;
#ifndef BROKEN_LEAVE
            if
            :: holder == NONE -> hand_on()
            :: else
            fi
#endif
        :: else
        fi;
        q = 0
    fi;
    said = LEFT
}

inline renew_script(who, e) {
    if
    :: holder == who -> keep(e); said = KEPT; number = key_token
    :: else -> said = GONE
    fi
}

inline run_script(what_, who_, e_) {
    number = 0;
    if
    :: what_ == ACQUIRE -> acquire_script(who_, e_)
    :: what_ == RELEASE -> release_script(who_)
    :: what_ == RENEW -> renew_script(who_, e_)
    fi
}

/* Work on the next command of a client. */
inline serve(c) {
    commands[c]?what, who, t, e;
    run_script(what, who, e);
    if
    :: dead[c]
    :: else -> answers[c]!said, number, t, e, holder == FOREIGN, key_token
    fi;
    number = 0; what = 0; said = 0; who = 0; t = 0; e = 0
}

/* What a lost connection left is carried out late, or never. */
inline serve_limbo() {
    limbo?what, who, e;
    if
    :: run_script(what, who, e)
    :: skip
    fi;
    number = 0; what = 0; said = 0; who = 0; e = 0
}

inline subscribe(c) {
    wants_channel[c] = false;
    listens[c] = true;
#ifndef BROKEN_ACK
    push(c, RELEASED, 0, 0) /* it may have let go before we listened: look again */
#else
    skip
#endif
}

/* The key is not there any more when its time has ended. */
#define ended (holder != NONE && holder != FOREIGN && key_era != era[client_of(holder)])

active proctype expiry() {
end:
    do
    :: atomic { ended -> holder = NONE; last_expired = key_token }
    od
}

/* ---- The client -------------------------------------------------------------------------------------------------------------- */

inline ask(c, what_) {
    turn[c] = next_turn(turn[c]);
    asked[c] = true;
    assert(nfull(commands[c]));
    commands[c]!what_, owner(c), turn[c], era[c]
}

#define hears(c) inbox_up[c] /* who queues must be able to */

inline drive(c) {
    if
    :: asked[c] || !up[c]
    :: !asked[c] && up[c] && (state[c] == ASKING || state[c] == WAITING) && hears(c) ->
        timer[c] = false;
        ask(c, ACQUIRE)
    :: !asked[c] && up[c] && state[c] == CONFIRMING -> ask(c, RENEW)
    :: !asked[c] && up[c] && state[c] == LEAVING -> ask(c, RELEASE)
#ifdef BROKEN_WRITE
    :: !asked[c] && up[c] && cuts < CUTS && empty(commands[c]) && empty(answers[c]) &&
       (state[c] == ASKING || state[c] == WAITING || state[c] == LEAVING) ->
        cuts++;
        up[c] = false;
        asked[c] = true
#endif
    :: else
    fi
}

inline begin_to_hold(c, t, e) {
    state[c] = HOLDING;
    asked[c] = false;
    token[c] = t;
    listens[c] = false;
    lost[c] = (e != era[c]); /* it came so late that nothing of it is left */
    if
    :: !lost[c] ->
        i = 0;
        do
        :: i < CLIENTS -> assert(i == c || state[i] != HOLDING || lost[i] || dead[i]); i++
        :: else -> break
        od;
        i = 0;
        assert(!foreign_inside);
        assert(t > last_token || (t == last_token && last_owner == owner(c)));
        last_token = t;
        last_owner = owner(c)
    :: else
    fi
}

#define current (t == turn[c])

inline take_answer(c) {
    answers[c]?what, n, t, e, foreign_holds, k;
    if
    :: current && (what == GRANTED || what == QUEUED) && (state[c] == ASKING || state[c] == WAITING) ->
        asked[c] = false;
        if
        :: what == GRANTED -> begin_to_hold(c, n, e)
        :: what == QUEUED ->
            state[c] = WAITING;
            timer[c] = (n < 2 && !foreign_holds); /* the foreign holder's time never ends */
            timer_for[c] = k;
            wants_channel[c] = (foreign_holds && n < 2 && !listens[c]);
            listens[c] = (listens[c] && foreign_holds && n < 2);
            if
            :: again[c] -> again[c] = false; drive(c)
            :: else
            fi
        fi
    :: current && (what == KEPT || what == GONE) && state[c] == CONFIRMING ->
        asked[c] = false;
        if
        :: what == KEPT -> begin_to_hold(c, token[c], e)
        :: what == GONE -> state[c] = ASKING; drive(c)
        fi
    :: current && what == LEFT && state[c] == LEAVING -> finish(c)
    :: else
    fi;
    what = 0; n = 0; t = 0; e = 0; foreign_holds = false; k = 0
}

inline finish(c) {
    asked[c] = false; again[c] = false; lost[c] = false; timer[c] = false; token[c] = 0; listens[c] = false; wants_channel[c] = false;
    rounds[c]++;
    if
    :: rounds[c] == ROUNDS -> state[c] = DONE
    :: else -> state[c] = IDLE
    fi
}

inline take_push(c) {
    inbox[c]?what, who, n, e;
    if
    :: what == GRANT && who == owner(c) && (state[c] == ASKING || state[c] == WAITING) ->
        turn[c] = next_turn(turn[c]); /* what was asked before the grant counts no more */
        asked[c] = false;
        if
#ifdef BROKEN_CLAIM
        :: true -> begin_to_hold(c, n, era[c])
#else
        :: e == era[c] -> begin_to_hold(c, n, e)
#ifdef BROKEN_TOKEN
        :: e != era[c] -> token[c] = n; state[c] = CONFIRMING; drive(c)
#else
        :: e != era[c] -> state[c] = ASKING; drive(c)
#endif
#endif
        fi
    :: what == HEAD && who == owner(c) && state[c] == WAITING -> timer[c] = true; timer_for[c] = n
    :: what == RELEASED && (state[c] == WAITING || state[c] == ASKING) ->
#ifndef BROKEN_AGAIN
        again[c] = asked[c];
#endif
        drive(c)
    :: else
    fi;
    what = 0; who = 0; n = 0; e = 0
}

inline leave(c) {
    state[c] = LEAVING;
    asked[c] = false;
    drive(c)
}

/* Time passes by the client. */
inline age(c) {
    era[c]++;
    if
    :: state[c] == HOLDING -> lost[c] = true
    :: else
    fi
}

inline cut(c) {
    do
    :: nempty(commands[c]) && nfull(limbo) -> commands[c]?what, who, t, e; limbo!what, who, e
    :: nempty(commands[c]) -> commands[c]?what, who, t, e /* never arrived */
    :: empty(commands[c]) -> break
    od;
    do
    :: nempty(answers[c]) -> answers[c]?what, n, t, e, foreign_holds, k
    :: empty(answers[c]) -> break
    od;
    what = 0; who = 0; n = 0; t = 0; e = 0; foreign_holds = false; k = 0;
    up[c] = false;
    asked[c] = false;
    if
    :: state[c] == CONFIRMING -> state[c] = ASKING
    :: else
    fi
}

inline cut_inbox(c) {
    do
    :: nempty(inbox[c]) -> inbox[c]?what, who, n, e
    :: empty(inbox[c]) -> break
    od;
    what = 0; who = 0; n = 0; e = 0;
    inbox_up[c] = false;
    subscribed[c] = false;
    listens[c] = false;
    wants_channel[c] = false
}

proctype client(byte c) {
    byte who, n, t, e, i, k, q, to, number;
    mtype what, said;
    bool foreign_holds;

end:
    do
    :: atomic { nempty(commands[c]) && nfull(answers[c]) -> serve(c) }
    :: atomic { nempty(limbo) -> serve_limbo() }
    :: atomic { wants_channel[c] -> subscribe(c) }
    :: atomic { runs(c) && state[c] == IDLE -> state[c] = ASKING; drive(c) }
    :: atomic { runs(c) && nempty(answers[c]) -> take_answer(c) }
    :: atomic { runs(c) && nempty(inbox[c]) -> take_push(c) }
    :: runs(c) && state[c] == HOLDING ->
progress:
        atomic {
            if
            :: runs(c) && state[c] == HOLDING -> leave(c)
            :: else
            fi
        }
    :: atomic { runs(c) && state[c] == WAITING && timer[c] && last_expired >= timer_for[c] && !asked[c] && up[c] && hears(c) -> drive(c) }
    :: atomic { give_ups < GIVE_UPS && runs(c) && (state[c] == ASKING || state[c] == WAITING || state[c] == CONFIRMING) ->
        give_ups++;
        leave(c) }
    :: atomic { ages < AGES && (state[c] != DONE) -> ages++; age(c) }
    :: atomic { cuts < CUTS && up[c] && !dead[c] -> cuts++; cut(c) }
    :: atomic { cuts < CUTS && inbox_up[c] && !dead[c] -> cuts++; cut_inbox(c) }
    :: atomic { runs(c) && !up[c] -> up[c] = true; drive(c) }
    :: atomic { runs(c) && !inbox_up[c] -> inbox_up[c] = true; subscribed[c] = true; drive(c) }
    :: atomic { freezes < FREEZES && runs(c) && state[c] != DONE -> freezes++; frozen[c] = true }
    :: atomic { frozen[c] && !dead[c] && freezes == FREEZES -> frozen[c] = false }
    :: atomic { kills < KILLS && !dead[c] && state[c] != DONE ->
        kills++;
        cut(c);
        do
        :: nempty(inbox[c]) -> inbox[c]?what, who, n, e
        :: empty(inbox[c]) -> break
        od;
        what = 0; who = 0; n = 0; e = 0;
        wants_channel[c] = false;
        dead[c] = true }
    :: atomic { dead[c] && subscribed[c] -> subscribed[c] = false; listens[c] = false } /* the server notices */
    od
}

/* ---- A program that is not pawl ---------------------------------------------------------------------------------------------- */

#if FOREIGN_TURNS > 0
active proctype foreign() {
    byte i;

    do
    :: atomic { foreign_turns < FOREIGN_TURNS && holder == NONE ->
        foreign_turns++;
        do
        :: i < CLIENTS -> assert(state[i] != HOLDING || lost[i] || dead[i]); i++
        :: else -> break
        od;
        i = 0;
        holder = FOREIGN;
            foreign_inside = true }
    :: atomic { foreign_inside ->
        foreign_inside = false;
        holder = NONE;
        do
        :: i < CLIENTS ->
            if
            :: listens[i] && subscribed[i] -> push(i, RELEASED, 0, 0)
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0 }
    :: !foreign_inside -> break
    od
}
#endif

/* ---- The end: nothing can move any more -------------------------------------------------------------------------------------- */

active proctype judge_the_end() {
    byte c;

    do
    :: timeout -> atomic {
        c = 0;
        if
        /* The client that has the key does not know it, or is dead: its time ends. */
        :: holder != NONE -> assert(holder != FOREIGN); age(client_of(holder))
        :: else ->
            do
            :: c < CLIENTS && runs(c) && state[c] == WAITING -> break
            :: c < CLIENTS && !(runs(c) && state[c] == WAITING) -> c++
            :: c == CLIENTS -> break
            od;
            if
            :: c < CLIENTS -> /* the question of every few seconds */
                assert(polls < POLLS);
                polls++;
                drive(c)
            :: else -> break
            fi
        fi }
    od;
    atomic {
        c = 0;
        do
        :: c < CLIENTS -> assert(dead[c] || state[c] == DONE); c++
        :: else -> break
        od;
        assert(holder == NONE);
        assert(KILLS > 0 || CUTS > 0 || queued == 0)
    }
}

init {
    byte c;

    atomic {
        do
        :: c < CLIENTS -> up[c] = true; inbox_up[c] = true; subscribed[c] = true; run client(c); c++
        :: else -> break
        od
    }
}
