/* SPDX-License-Identifier: Apache-2.0
 *
 * recall.pml - a process that keeps its claim while nobody in it holds, and two others that want the same lock.
 *
 * What each step stands for:
 *
 *     enter            core/: an acquire. It enters a kept claim, takes an open one, or waits for one that is pending or used
 *     release          core/: the last release keeps the claim, leaves it open to the threads that wait, hands it on, or gives it back
 *     look             core/: the first waiter was woken since the claim is open. It takes it, or sleeps until its slice is over
 *     impatient        core/: its slice is over: the next release hands the claim to it
 *     told             core/: WANTED. A kept claim goes back at once; the first waiter of an open one is woken; and all who have it from
 *                      now on, by its turn or by passing, count towards the bound, at which it goes back
 *     lose             core/: the claim's time is over, or the server does not know it: those who wait ask anew
 *     acquire_script, release_script, renew_script, hand_on
 *                      engine/redis/lua/: first come, first served. Who becomes the first in the queue tells the keeper; a grant and
 *                      a renewal say whether others wait
 *     take_answer, take_push
 *                      engine/redis/lock/: the two connections, between which there is no order
 *     cut_inbox        the inbox is lost with all that was in it. The new one renews the claim
 *     lose_server      the server begins anew with nothing; all connections are lost
 *
 * With LOCAL defined the engine is the table in memory: rest() and resume() change the keeper's node by compare-and-swap, without the
 * guard; who queues directly behind it marks it as wanted, and takes it away if it is kept.
 *
 * Every step that the code makes with cohort->mutex held is one atomic step here, and so is a script. The two other processes are their
 * scripts alone. Time is one number, as in redis_handoff.pml: `era` is how often time has passed by the keeper, and what is of the present
 * one is assured, for both sides. Tokens are given on after a loss of the server, since the floor is its time. A kept claim is never given
 * back because it was idle: that would hide a recall that was forgotten. Who comes while the claim is wanted and its bound is reached
 * asks when it has been given back.
 *
 * Checked
 *     exclusion        who begins to hold finds nobody inside who is assured. A server that forgot who was inside is no answer for a hold
 *                      that began before; for one that begins afterwards, on a claim that was kept, it must be
 *     tokens           each claim's are above those of all claims before it, and each hold's are the claim's own, and rise
 *     no lost recall   when nothing can move any more the others have had their turns, and all threads theirs: a claim that is
 *                      only kept is always given to who waits
 *     somebody awake   a claim that is open to waiters has one that looks at it, now or when its slice is over
 *     progress         there is no endless cycle in which nobody holds (run with -DNP)
 *
 * Broken variants, each of which must be refuted:
 *     BROKEN_EARLY     a recall that comes before the grant is known is forgotten
 *     BROKEN_GRANT     a grant does not say that others wait
 *     BROKEN_RENEW     a renewal does not say so
 *     BROKEN_MARK      (LOCAL) the keeper's node is marked as wanted only if it is held
 *     BROKEN_RESERVE   a claim is entered without a token in reserve
 *     BROKEN_DEADLINE  a kept claim is entered though its time is over
 *     BROKEN_DEAF      a kept claim is entered though a recall could have been missed
 *     BROKEN_AWAKE     who hands on to the first waiter forgets that it counted as awake
 */
#ifndef ROUNDS
#define ROUNDS 2 /* acquisitions of each thread */
#endif
#ifndef OTHERS
#define OTHERS 2
#endif
#ifndef TURNS
#define TURNS 1 /* of each other process */
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 0
#endif
#ifndef HANDOFFS
#define HANDOFFS 1 /* while it is wanted */
#endif
#ifndef STOCK
#define STOCK 2 /* tokens of a claim */
#endif

#define THREADS 2
#define NONE 0
#define CLAIMS (THREADS * (ROUNDS + 1) * 2 + 4) /* more than are ever made */
/* Who is in the engine: the keeper's claims by their numbers, the others above them. */
#define other(n) (CLAIMS + 1 + (n))
#define is_other(who) ((who) > CLAIMS)

mtype = { ACQUIRE, RENEW, RELEASE };               /* asked */
mtype = { GRANTED, QUEUED, RENEWED, GONE, LEFT };  /* answered */
mtype = { GRANT, WANTED };                         /* pushed */
mtype = { FREE, PENDING, USED, OPEN, KEPT };       /* the claim */
mtype = { OUT, WAITS, HOLDS, LOST };               /* a thread */
mtype = { UNLINKED, LISTED, CHOSEN, TAKEN, RESTS }; /* the keeper's node, in LOCAL: RESTS is KEPT there, CHOSEN is GRANTED */

/* The engine. */
byte holder, queue[OTHERS + 3], queued;
byte tokens;  /* the last that was given */
byte key_era; /* the era to which the keeper's entry lives */
byte era, stops, cuts, losses, give_ups;

/* The keeper: one claim at a time; those before it may still have to leave. */
mtype claim = FREE;
byte number, claim_era, claim_link, next_token, last_token, reserved, handed;
bool wanted;
bool forgiven;    /* the server was lost while it was in use, and it was not kept since */
bool head_awake;  /* the first waiter looks, or will when its slice is over */
bool impatient;   /* its slice is over */
byte waiter[THREADS], waiting; /* threads + 1, in order */
mtype state[THREADS] = OUT;
bool sleeping[THREADS], slice[THREADS];
byte rounds[THREADS];

/* The others. */
bool inside[OTHERS], in_queue[OTHERS], spared[OTHERS];
byte turns[OTHERS];

#ifdef LOCAL
mtype node = UNLINKED;
bool mark;
byte node_token;
#define heard true
#define assured true
#define is_wanted (wanted || mark)
#else
chan commands = [16] of { mtype, byte, byte, byte };          /* what, number, era, link */
chan answers = [16] of { mtype, byte, byte, byte, byte, bool }; /* what, number, era, link, first token, wanted */
chan inbox = [16] of { mtype, byte, byte, byte, bool };       /* what, number, era, first token, wanted */
byte link = 1; /* changes whenever a connection is lost */
bool up = true, inbox_up = true, leaving[CLAIMS + 1];
byte key_token;
#define heard (inbox_up && up && claim_link == link)
#define assured (claim_era == era)
#define is_wanted wanted
#endif

#define held (claim == USED || claim == OPEN || claim == KEPT)
#define stocked (next_token + reserved <= last_token)

/* ---- The queue --------------------------------------------------------------------------------------------------------------- */

/* A thread of the keeper's is inside, and relies on it. */
#define keeper_inside ((state[0] == HOLDS || state[1] == HOLDS) && assured && !forgiven)

inline begin_other(n) {
    in_queue[n] = false;
    inside[n] = true;
    spared[n] = false;
    tokens++;
    assert(!keeper_inside)
}

inline add(who) { assert(queued < OTHERS + 3); queue[queued] = who; queued++ }

inline remove(who) {
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
        queue[queued] = NONE
    :: else
    fi;
    q = 0
}

#define others_wait (queued > 0)
#ifdef BROKEN_GRANT
#define grant_says false
#else
#define grant_says others_wait
#endif
#ifdef BROKEN_RENEW
#define renewal_says false
#else
#define renewal_says others_wait
#endif

#ifndef LOCAL
inline push(what, who, first, says) {
    if
    :: inbox_up -> assert(nfull(inbox)); inbox!what, who, era, first, says
    :: else /* lost */
    fi
}

/* Who is first in the queue tells the keeper in its way. */
inline recall() {
    if
    :: queued > 0 && holder != NONE && !is_other(holder) -> push(WANTED, holder, 0, false)
    :: else
    fi
}

inline give_tokens() { key_token = tokens + 1; tokens = tokens + STOCK }

/* The lock is free: the first in the queue that hears gets it. */
inline hand_on() {
    do
    :: holder != NONE || queued == 0 -> break
    :: holder == NONE && queued > 0 ->
        holder = queue[0];
        remove(holder);
        if
        :: is_other(holder) -> begin_other(holder - other(0))
        :: !is_other(holder) && inbox_up -> give_tokens(); key_era = era; push(GRANT, holder, key_token, grant_says)
        :: else -> holder = NONE
        fi
    od
}

inline acquire_script(who, e) {
    said = QUEUED;
    if
    :: holder == who -> key_era = (e > key_era -> e : key_era); said = GRANTED
    :: holder == NONE && queued > 0 && queue[0] != who -> hand_on()
    :: else
    fi;
    if
    :: holder == NONE -> remove(who); holder = who; key_era = e; give_tokens(); said = GRANTED
    :: else
    fi;
    if
    :: said == QUEUED ->
        remove(who);
        add(who);
        if
        :: queued == 1 -> recall()
        :: else
        fi
    :: else
    fi
}

inline release_script(who) {
    if
    :: holder == who -> holder = NONE; hand_on()
    :: else ->
        if
        :: queued > 0 && queue[0] == who -> remove(who); recall()
        :: else -> remove(who)
        fi
    fi;
    said = LEFT
}

inline renew_script(who, e) {
    if
    :: holder == who -> key_era = (e > key_era -> e : key_era); said = RENEWED
    :: else -> said = GONE
    fi
}

#else
/* The lock is free, with the guard held: the first in the list gets it. */
inline hand_on() {
    if
    :: holder == NONE && queued > 0 ->
        holder = queue[0];
        remove(holder);
        if
        :: is_other(holder) -> begin_other(holder - other(0))
        :: else -> node = CHOSEN; node_token = tokens + 1; tokens = tokens + STOCK
        fi
    :: else
    fi
}
#endif

/* ---- What the core asks of the engine ---------------------------------------------------------------------------------------- */

#ifndef LOCAL
inline ask(what_) {
    if
    :: up -> assert(nfull(commands)); commands!what_, number, era, (inbox_up -> link : 0)
    :: else /* when the connection is back */
    fi
}

inline engine_submit() { ask(ACQUIRE) }

inline engine_withdraw() { leaving[number] = true; ask(RELEASE) }
#else
inline engine_submit() {
    mark = false;
    if
    :: holder == NONE -> holder = number; node = CHOSEN; node_token = tokens + 1; tokens = tokens + STOCK
    :: else -> node = LISTED; add(number)
    fi
}

inline engine_withdraw() {
    node = UNLINKED;
    mark = false;
    if
    :: holder == number -> holder = NONE; hand_on()
    :: else -> remove(number)
    fi
}
#endif

/* ---- The core ---------------------------------------------------------------------------------------------------------------- */

inline forget_claim() {
    claim = FREE; wanted = false; forgiven = false; next_token = 0; last_token = 0; reserved = 0; handed = 0; claim_era = 0; claim_link = 0;
    head_awake = false; impatient = false;
    slice[0] = false; slice[1] = false
}

inline submit() {
    number++;
    assert(number <= CLAIMS);
    claim = PENDING;
    engine_submit()
}

/* Give the claim back. Those who wait ask anew. */
inline leave() {
    engine_withdraw();
    forget_claim();
    if
    :: waiting > 0 -> submit()
    :: else
    fi
}

inline detach_first() {
    waiter[0] = waiter[1];
    waiter[1] = NONE;
    waiting--
}

inline begin_to_hold(t) {
    state[t] = HOLDS;
    sleeping[t] = false;
    slice[t] = false;
    claim = USED;
    assert(state[1 - t] != HOLDS);
    o = 0;
    do
    :: o < OTHERS -> assert(!inside[o] || spared[o] || forgiven); o++
    :: else -> break
    od;
    o = 0;
    reserved++;
#ifndef BROKEN_RESERVE
    assert(next_token + reserved <= last_token + 1)
#endif
}

/* The claim is handed to the first waiter. */
inline hand_to_first() {
    w = waiter[0] - 1;
    detach_first();
#ifndef BROKEN_AWAKE
    head_awake = false;
#endif
    impatient = false;
    begin_to_hold(w);
    w = 0
}

#ifdef BROKEN_RESERVE
#define may_go_on (assured)
#else
#define may_go_on (assured && stocked)
#endif

#ifdef BROKEN_DEADLINE
#define in_time true
#else
#define in_time assured
#endif
#ifdef BROKEN_DEAF
#define hears_all true
#else
#define hears_all heard
#endif
#ifdef BROKEN_RESERVE
#define has_token true
#else
#define has_token stocked
#endif

/* rest() and resume(); on a server both are a look at what the client knows. */
inline rest() {
#ifdef LOCAL
    if
    :: node == TAKEN && !mark -> node = RESTS; claim = KEPT
    :: else -> leave()
    fi
#else
    claim = KEPT;
    forgiven = false
#endif
}

#ifdef LOCAL
#define resumes (node == RESTS && !mark)
#else
#define resumes (in_time && hears_all)
#endif

inline wait_for_it(t) {
    state[t] = WAITS;
    waiter[waiting] = t + 1;
    waiting++;
    sleeping[t] = true
}

/* While it is wanted each who waits has one of the hand-ons that are left. */
#define within_bound (!is_wanted || handed < HANDOFFS)
#define may_pass (!impatient && assured && (!is_wanted || handed + waiting < HANDOFFS))

inline count_if_wanted() {
    if
    :: is_wanted -> handed++
    :: else
    fi
}

inline enter(t) {
    if
    :: claim == FREE -> wait_for_it(t); submit()
    :: claim == PENDING || claim == USED -> wait_for_it(t)
    :: claim == OPEN && may_pass -> count_if_wanted(); begin_to_hold(t)
    :: claim == OPEN && !may_pass -> wait_for_it(t)
    :: claim == KEPT && resumes && has_token ->
#ifdef LOCAL
        node = TAKEN;
#endif
        begin_to_hold(t)
    :: claim == KEPT && !(resumes && has_token) ->
#ifdef LOCAL
        /* Taken away already: the node goes back to its shelf. */
        if
        :: node == RESTS -> leave()
        :: else -> forget_claim()
        fi;
#else
        leave();
#endif
        wait_for_it(t);
        submit()
    fi
}

/* The hold's token, numbered when it is asked for, or never. */
inline draw() {
    if
    :: next_token++; assert(next_token - 1 <= last_token)
    :: skip
    fi;
    reserved--
}

/* Nobody holds any more, and the claim is still ours. */
inline pass_on() {
    if
    :: !(may_go_on && within_bound) && waiting > 0 -> leave()
    :: may_go_on && within_bound && waiting > 0 && impatient -> count_if_wanted(); hand_to_first()
    :: may_go_on && within_bound && waiting > 0 && !impatient ->
        claim = OPEN;
        if
        :: !head_awake -> head_awake = true; sleeping[waiter[0] - 1] = false
        :: else
        fi
    :: waiting == 0 && !is_wanted -> rest()
    :: waiting == 0 && is_wanted -> leave()
    fi
}

inline release(t) {
    rounds[t]++;
    if
    :: state[t] == LOST -> state[t] = OUT
    :: else -> state[t] = OUT; draw(); pass_on()
    fi
}

/* Woken as the first. */
inline look(t) {
    if
    :: claim == OPEN && waiter[0] == t + 1 && may_go_on && within_bound -> count_if_wanted(); hand_to_first(); head_awake = false
    :: claim == OPEN && waiter[0] == t + 1 && !(may_go_on && within_bound) -> leave(); sleeping[t] = true
    :: claim == USED && waiter[0] == t + 1 -> slice[t] = true; sleeping[t] = true
    :: else -> sleeping[t] = true
    fi
}

inline end_slice(t) {
    slice[t] = false;
    if
    :: claim == OPEN && waiter[0] == t + 1 -> sleeping[t] = false
    :: claim == USED && waiter[0] == t + 1 -> impatient = true
    :: else
    fi
}

inline give_up(t) {
    state[t] = OUT;
    rounds[t]++;
    slice[t] = false;
    if
    :: waiter[0] == t + 1 ->
        detach_first();
        impatient = false;
        head_awake = false;
        if
        :: claim == OPEN && waiting > 0 -> head_awake = true; sleeping[waiter[0] - 1] = false
        :: claim == OPEN && waiting == 0 -> pass_on()
        :: claim == PENDING && waiting == 0 -> leave()
        :: else
        fi
    :: else -> waiter[1] = NONE; waiting--
    fi
}

/* The claim is not ours any more, or not surely. Those who hold are told; who waits asks anew. */
inline lose() {
    if
    :: state[0] == HOLDS -> state[0] = LOST
    :: state[1] == HOLDS -> state[1] = LOST
    :: else
    fi;
    leave()
}

inline told() {
    if
    :: claim == PENDING ->
#ifndef BROKEN_EARLY
        wanted = true
#else
        skip
#endif
    :: claim == USED -> wanted = true
    :: claim == OPEN -> wanted = true; head_awake = true; sleeping[waiter[0] - 1] = false
    :: claim == KEPT -> leave()
    fi
}

inline granted(e, l, first, says) {
    claim_era = e;
    claim_link = l;
    next_token = first;
    last_token = first + STOCK - 1;
    wanted = wanted || says;
    if
    :: assured -> hand_to_first()
    :: else -> leave()
    fi
}

#ifndef LOCAL
/* A new connection, or one that is heard again, asks for all that is not known. */
inline ask_again() {
    c = 1;
    do
    :: c <= number ->
        if
        :: leaving[c] -> assert(nfull(commands)); commands!RELEASE, c, era, link
        :: else
        fi;
        c++
    :: else -> break
    od;
    c = 0;
    if
    :: claim == PENDING -> ask(ACQUIRE)
    :: held -> ask(RENEW)
    :: else
    fi
}

inline take_answer() {
    answers?what, who, e, l, first, says;
    if
    :: what == LEFT -> leaving[who] = false
    :: what == GRANTED && who == number && claim == PENDING ->
        granted(e, l, first, says);
        /* Asked before the inbox was lost, or without one. */
        if
        :: held && who == number && claim_link != link && inbox_up -> ask(RENEW)
        :: else
        fi
    /* To be granted is to be renewed, for who asked twice. */
    :: (what == RENEWED || what == GRANTED) && who == number && held ->
        claim_era = (e > claim_era -> e : claim_era);
        claim_link = (l > claim_link -> l : claim_link);
        if
        :: says -> told()
        :: else
        fi
    :: what == GONE && who == number && held -> lose()
    :: else
    fi;
    what = 0; who = 0; e = 0; l = 0; first = 0; says = false
}

inline take_push() {
    inbox?what, who, e, first, says;
    if
    :: what == GRANT && who == number && claim == PENDING -> granted(e, link, first, says)
    :: what == WANTED && who == number && claim != FREE -> told()
    :: else
    fi;
    what = 0; who = 0; e = 0; first = 0; says = false
}

inline drain() {
    do
    :: nempty(inbox) -> inbox?_, _, _, _, _
    :: empty(inbox) -> break
    od
}

#endif

/* ---- The others -------------------------------------------------------------------------------------------------------------- */

#ifndef LOCAL
inline other_asks(n) {
    in_queue[n] = true;
    if
    :: holder == NONE && queued > 0 -> hand_on()
    :: else
    fi;
    if
    :: holder == NONE -> holder = other(n); begin_other(n)
    :: else ->
        add(other(n));
        if
        :: queued == 1 -> recall()
        :: else
        fi
    fi
}
#else
#ifdef BROKEN_MARK
#define markable (node == TAKEN)
#else
#define markable true
#endif

/* With the guard held. The node before it is the list's last, or the one that holds. */
inline other_asks(n) {
    in_queue[n] = true;
    if
    :: holder == number && node == RESTS -> node = UNLINKED; holder = other(n); begin_other(n)
    :: holder == NONE -> holder = other(n); begin_other(n)
    :: else ->
        if
        :: (queued == 0 && holder == number || queued > 0 && queue[queued - 1] == number) && markable -> mark = true
        :: else
        fi;
        add(other(n))
    fi
}
#endif

/* ---- Who runs ---------------------------------------------------------------------------------------------------------------- */

active [THREADS] proctype thread() {
    byte o, q, w;

end:
    do
    :: atomic { state[_pid] == OUT && rounds[_pid] < ROUNDS -> enter(_pid) }
    :: state[_pid] == HOLDS || state[_pid] == LOST ->
progress:
        atomic { release(_pid) }
    :: atomic { state[_pid] == WAITS && !sleeping[_pid] -> look(_pid) }
    :: atomic { state[_pid] == WAITS && slice[_pid] -> end_slice(_pid) }
    :: atomic { state[_pid] == WAITS && give_ups < GIVE_UPS -> give_ups++; give_up(_pid) }
    od
}

active [OTHERS] proctype another() {
    byte n = _pid - THREADS, q;

end:
    do
    :: atomic { turns[n] < TURNS && !in_queue[n] && !inside[n] -> other_asks(n) }
    :: inside[n] ->
progress:
        atomic {
            inside[n] = false;
            spared[n] = false;
            turns[n]++;
            if
            :: holder == other(n) -> holder = NONE; hand_on()
            :: else
            fi }
    od
}

#ifndef LOCAL
active proctype server() {
    byte who, e, l, q;
    mtype what, said;

end:
    do
    :: atomic { commands?what, who, e, l ->
        if
        :: what == ACQUIRE -> acquire_script(who, e)
        :: what == RELEASE -> release_script(who)
        :: what == RENEW -> renew_script(who, e)
        fi;
        assert(nfull(answers));
        answers!said, who, e, l, key_token, (said == GRANTED && grant_says) || (said == RENEWED && renewal_says);
        what = 0; said = 0; who = 0; e = 0; l = 0 }
    /* The keeper's entry has not been renewed in time. */
    :: atomic { holder != NONE && !is_other(holder) && key_era != era -> holder = NONE; hand_on() }
    od
}
active proctype service() {
    byte who, e, l, first, o, q, w, c;
    mtype what;
    bool says;

end:
    do
    :: atomic { nempty(answers) && up -> take_answer() }
    :: atomic { nempty(inbox) && inbox_up -> take_push() }
    :: atomic { held && !assured -> lose() }
    :: atomic { !up -> up = true; inbox_up = true; ask_again() }
    :: atomic { up && !inbox_up -> inbox_up = true; ask_again() }
    od
}

active proctype faults() {
    byte o, q;

end:
    do
    :: atomic { cuts < CUTS && inbox_up -> cuts++; inbox_up = false; link++; drain() }
    /* The keeper is stopped, for longer than its claim lives. */
    :: atomic { stops < STOPS -> stops++; era++ }
    :: atomic { losses < LOSSES && up ->
        losses++;
        holder = NONE;
        do
        :: queued > 0 -> queued--; queue[queued] = NONE
        :: else -> break
        od;
        up = false;
        inbox_up = false;
        link++;
        drain();
        do
        :: nempty(commands) -> commands?_, _, _, _
        :: nempty(answers) -> answers?_, _, _, _, _, _
        :: empty(commands) && empty(answers) -> break
        od;
        if
        :: claim == USED || claim == OPEN -> forgiven = true
        :: else
        fi;
        do
        :: o < OTHERS ->
            in_queue[o] = false; /* it asks again */
            if
            :: inside[o] -> spared[o] = true
            :: else
            fi;
            o++
        :: else -> break
        od;
        o = 0 }
    od
}
#else
/* The thread that is parked sees that the claim is its own. */
active proctype parked() {
    byte o, q, w;

end:
    do
    :: atomic { claim == PENDING && node == CHOSEN -> node = TAKEN; granted(0, 0, node_token, mark) }
    od
}
#endif

/* ---- What must be ------------------------------------------------------------------------------------------------------------ */

active proctype judge() {
    byte n;

end:
    do
    :: atomic { claim == OPEN && waiting > 0 && sleeping[waiter[0] - 1] && !slice[waiter[0] - 1] -> assert(!(claim == OPEN)) }
    :: timeout ->
        assert(rounds[0] == ROUNDS && rounds[1] == ROUNDS);
        n = 0;
        do
        :: n < OTHERS -> assert(turns[n] == TURNS); n++
        :: else -> break
        od;
        assert(queued == 0 && waiting == 0 && claim != OPEN && claim != USED && claim != PENDING);
        break
    od
}
