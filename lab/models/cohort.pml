/* SPDX-License-Identifier: Apache-2.0
 *
 * cohort.pml - the threads of one process behind one claim, beside another process that wants the same lock.
 *
 * What each step stands for (src/core/enter.c, handoff.c, cohort.c):
 *
 *     enter            pawl__cohort_enter: joinable(), join() or start()
 *     submit           pawl__claim_new, pawl__claim_submit: at the end of the engine's queue
 *     wait             pawl__cohort_wait: the first waiter of a pending claim parks in the engine (pawl__claim_wait); all others
 *                      sleep on a futex of their own (sleep_until) until somebody wakes them (pawl__waiter_wake)
 *     parked           park() comes back: granted(), or nothing decided, because of unpark() or its deadline
 *     end_wait         end_late, pawl_cancel, pawl__cohort_end: the last waiter of a pending claim takes it along
 *                      (pawl__cohort_retire), or the next one is nudged to park (pawl__cohort_nudge)
 *     release          pawl__cohort_leave: pawl__handoff_next() within the bound, else move_waiters_on() and pawl__cohort_retire()
 *     lose             lose() in cohort.c: the lease has run out; the waiters find another claim, and this one is withdrawn
 *     pass_on          pass_on() in cohort.c, pawl__handoff_next(): with SLICES a claim is left open for the first thread that comes, and
 *                      its first waiter called; once that is due, after its slice (pawl__handoff_sleep), it is handed to it
 *
 * With SERVED defined nobody parks and the service thread tells of grants (pawl__tell), as on ZooKeeper; without it as on
 * `local:` and Redis. Every step that the code makes with cohort->mutex held is one atomic step here. The engine is a queue of
 * claims, first come first served; one place in it is the other process's. A withdrawal is settled at once: what it may take
 * longer is the engine's affair.
 *
 * Checked
 *     exclusion        no thread begins to hold while another, or the other process, does so
 *     tokens           each hold has a higher token than the one before
 *     the bound        while the other process waits, the threads get the lock at most as often as those claims allow that stand
 *                      ahead of it: 1 + HANDOFFS times each, and once more for each who came over from a claim that was lost
 *     no lost wake-up  when nothing can move any more all threads are done and the other process too
 *     nothing left     then the engine has no claim
 *     progress         there is no endless cycle in which nobody acquires (run with -DNP)
 *
 * Broken variants, each of which must be refuted:
 *     BROKEN_NUDGE     the one who parked gives up, and nobody is told to park in its stead
 *     BROKEN_REHOME    a claim that is withdrawn forgets those who wait for it
 *     BROKEN_BOUND     the bound is only on joining before the claim is held
 *     BROKEN_LOSS      a claim that was lost is handed on
 * and with SLICES
 *     BROKEN_CALL      a claim is left open, and nobody is called
 *     BROKEN_SLICE     who was called and finds it in use sleeps until it is handed to it, and never says that it is due
 *     BROKEN_AWAKE     who was called gives up, and nobody is called in its stead
 *     BROKEN_OPEN      a claim is lost while it is open, and is taken all the same
 */
#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef HANDOFFS
#define HANDOFFS 1
#endif
#ifndef OTHERS
#define OTHERS 1 /* turns of the other process */
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif

#define NONE 0
#define CLAIMS (THREADS + 1)
#define OTHER (CLAIMS + 1) /* the other process's claim, in the engine */

mtype = { FREE, PENDING, HELD, OPEN }; /* a claim */
mtype = { OUT, WAITS, HOLDS, LOST };   /* a thread */
mtype = { LATER, CALLED, DUE };        /* its turn, where a claim is open */

/* The engine: a queue of claims; the first of them holds. */
byte queue[OTHER + 1], queued;
byte tokens;

/* The cohort. Claims are numbered from 1; `order` has those that are pending or held, as they were submitted. */
byte order[CLAIMS + 1], claims;
mtype claim_state[CLAIMS + 1] = FREE;
bool parked[CLAIMS + 1], doomed[CLAIMS + 1], unparked[CLAIMS + 1], lost[CLAIMS + 1];
byte served[CLAIMS + 1], holder[CLAIMS + 1], by[CLAIMS + 1]; /* by: which thread is parked on it, + 1 */
/* The waiters of a claim, in order, as threads + 1. */
byte waiters[(CLAIMS + 1) * THREADS], waiting[CLAIMS + 1];

/* The threads. */
mtype state[THREADS] = OUT;
byte claim_of[THREADS], rounds[THREADS];
bool sleeping[THREADS], in_park[THREADS];
mtype turn[THREADS] = LATER;
bool timed[THREADS], over[THREADS]; /* sleeps until its slice is over; it is */

bool other_waits, other_holds;
byte other_turns, losses, give_ups, last_token, passed, allowed;

#define waiter(c, i) waiters[(c) * THREADS + (i)]
#define first_waiter(c) (waiting[c] > 0 -> waiter(c, 0) : NONE)

/* ---- The engine -------------------------------------------------------------------------------------------------------------- */

inline engine_add(c) { queue[queued] = c; queued++ }

inline engine_remove(c) {
    i = 0;
    do
    :: i < queued && queue[i] != c -> i++
    :: else -> break
    od;
    if
    :: i < queued ->
        i++;
        do
        :: i < queued -> queue[i - 1] = queue[i]; i++
        :: else -> break
        od;
        queued--;
        queue[queued] = NONE
    :: else
    fi;
    i = 0
}

#define engine_grants(c) (queued > 0 && queue[0] == (c))

/* ---- Claims ------------------------------------------------------------------------------------------------------------------ */

inline wake(t) { sleeping[t] = false; timed[t] = false }

/* Its turn counts for one claim. */
inline calm_down(t) { turn[t] = LATER; over[t] = false }

inline attach(c, t) {
    claim_of[t] = c;
    waiter(c, waiting[c]) = t + 1;
    waiting[c]++;
    served[c]++
}

inline detach(c, t) {
    i = 0;
    do
    :: waiter(c, i) != t + 1 -> i++
    :: else -> break
    od;
    i++;
    do
    :: i < waiting[c] -> waiter(c, i - 1) = waiter(c, i); i++
    :: else -> break
    od;
    waiting[c]--;
    waiter(c, waiting[c]) = NONE;
    claim_of[t] = NONE;
    i = 0
}

/* See that somebody waits in the engine for a pending claim. */
inline nudge(c) {
#ifndef SERVED
    if
    :: claim_state[c] == PENDING && parked[c] -> unparked[c] = true
    :: claim_state[c] == PENDING && !parked[c] && waiting[c] > 0 -> wake(waiter(c, 0) - 1)
    :: else
    fi
#else
    skip
#endif
}

/* A claim that is not in use: f. */
inline new_claim() {
    f = 1;
    do
    :: claim_state[f] != FREE || parked[f] -> f++
    :: else -> break
    od;
    assert(f <= CLAIMS)
}

inline submit(c) {
    claim_state[c] = PENDING;
    order[claims] = c;
    claims++;
    engine_add(c);
    nudge(c)
}

inline forget(c) {
    i = 0;
    do
    :: order[i] != c -> i++
    :: else -> break
    od;
    i++;
    do
    :: i < claims -> order[i - 1] = order[i]; i++
    :: else -> break
    od;
    claims--;
    order[claims] = NONE;
    i = 0;
    claim_state[c] = FREE;
    served[c] = 0; doomed[c] = false; unparked[c] = false; lost[c] = false; holder[c] = NONE
}

inline retire(c) {
    assert(waiting[c] == 0 && holder[c] == NONE);
    if
    :: parked[c] -> doomed[c] = true; unparked[c] = true /* the thread that is parked on it withdraws it */
    :: else -> engine_remove(c); forget(c)
    fi
}

inline begin_to_hold(c, t) {
    if
    :: claim_of[t] == c -> detach(c, t)
    :: else
    fi;
    calm_down(t);
    claim_of[t] = c;
    state[t] = HOLDS;
    claim_state[c] = HELD;
    holder[c] = t + 1;
    wake(t);
    i = 0;
    do
    :: i < THREADS -> assert(i == t || state[i] != HOLDS); i++
    :: else -> break
    od;
    i = 0;
    assert(!other_holds);
    tokens++;
    assert(tokens > last_token);
    last_token = tokens;
    if
    :: other_waits -> passed++; assert(passed <= allowed)
    :: else
    fi
}

/* Granted by the engine. */
inline granted(c) {
    claim_state[c] = HELD;
    if
    :: waiting[c] == 0 -> retire(c)
    :: else -> t1 = waiter(c, 0) - 1; begin_to_hold(c, t1); t1 = 0
    fi
}

/* Find the waiters of a claim another one: the next, if it is pending, else a new one. They go to its front. */
inline rehome(c) {
#ifndef BROKEN_REHOME
    if
    :: waiting[c] > 0 ->
        h = NONE;
        i = 0;
        do
        :: order[i] != c -> i++
        :: else -> break
        od;
        if
        :: i + 1 < claims && claim_state[order[i + 1]] == PENDING && !doomed[order[i + 1]] -> h = order[i + 1]; i = 0
        :: else -> i = 0; new_claim(); h = f; f = 0
        fi;
        do
        :: waiting[c] > 0 ->
            /* the last of them to the front of the other */
            waiting[c]--;
            t1 = waiter(c, waiting[c]) - 1;
            waiter(c, waiting[c]) = NONE;
            i = waiting[h];
            do
            :: i > 0 -> waiter(h, i) = waiter(h, i - 1); i--
            :: else -> break
            od;
            waiter(h, 0) = t1 + 1;
            waiting[h]++;
            served[h]++;
            claim_of[t1] = h;
            calm_down(t1);
            t1 = 0
        :: else -> break
        od;
        if
        :: claim_state[h] == FREE -> submit(h)
        :: else -> nudge(h)
        fi;
        h = 0
    :: else
    fi
#else
    do
    :: waiting[c] > 0 -> waiting[c]--; claim_of[waiter(c, waiting[c]) - 1] = NONE; waiter(c, waiting[c]) = NONE
    :: else -> break
    od
#endif
}

#define may_join(c) (!lost[c] && !doomed[c])
#ifdef BROKEN_BOUND
#define within_bound(c) (served[c] <= HANDOFFS || claim_state[c] == HELD)
#else
#define within_bound(c) (served[c] <= HANDOFFS)
#endif

/* ---- Threads ----------------------------------------------------------------------------------------------------------------- */

inline enter(t) {
    state[t] = WAITS;
    calm_down(t);
    if
    :: claims > 0 && may_join(order[claims - 1]) && within_bound(order[claims - 1]) && claim_state[order[claims - 1]] == OPEN ->
        c = order[claims - 1];
        served[c]++;
        begin_to_hold(c, t);
        c = 0
    :: claims > 0 && may_join(order[claims - 1]) && within_bound(order[claims - 1]) && claim_state[order[claims - 1]] != OPEN ->
        attach(order[claims - 1], t);
        if
        :: parked[order[claims - 1]] -> skip /* it has tokens enough */
        :: nudge(order[claims - 1])
        fi
    :: else ->
        new_claim();
        attach(f, t);
        submit(f);
        f = 0
    fi;
    sleeping[t] = false
}

/* What pawl__cohort_wait does next: take what is open, park, or sleep. */
inline go_on(t) {
    if
    :: claim_of[t] != NONE && claim_state[claim_of[t]] == OPEN && first_waiter(claim_of[t]) == t + 1 ->
        c = claim_of[t];
        begin_to_hold(c, t);
        c = 0
#ifndef SERVED
    :: claim_of[t] != NONE && claim_state[claim_of[t]] == PENDING && first_waiter(claim_of[t]) == t + 1 && !parked[claim_of[t]] ->
        parked[claim_of[t]] = true;
        by[claim_of[t]] = t + 1;
        in_park[t] = true
#endif
    :: else ->
        if
        :: turn[t] == CALLED && over[t] -> turn[t] = DUE
#ifndef BROKEN_SLICE
        :: turn[t] == CALLED && !over[t] -> timed[t] = true
#endif
        :: else
        fi;
        sleeping[t] = true
    fi
}

/* Nobody holds c: the next one has it, or is called; or it goes back. */
inline pass_on(c) {
    if
    :: waiting[c] > 0 && !lost[c] ->
        t1 = waiter(c, 0) - 1;
#ifdef SLICES
        if
        :: turn[t1] == DUE -> begin_to_hold(c, t1)
        :: else ->
            claim_state[c] = OPEN;
#ifndef BROKEN_CALL
            if
            :: turn[t1] == LATER -> turn[t1] = CALLED; wake(t1)
            :: else
            fi
#endif
        fi;
#else
        begin_to_hold(c, t1);
#endif
        t1 = 0
    :: else -> rehome(c); retire(c)
    fi
}

/* The claim on which t is parked: c. */
inline come_back(t) {
    c = 1;
    do
    :: by[c] != t + 1 -> c++
    :: else -> break
    od;
    parked[c] = false;
    unparked[c] = false;
    by[c] = NONE;
    in_park[t] = false
}

inline end_wait(t) {
    c = claim_of[t];
    was_first = first_waiter(c) == t + 1;
    detach(c, t);
    calm_down(t);
    timed[t] = false;
    state[t] = OUT;
    rounds[t]++;
    if
#ifndef BROKEN_AWAKE
    :: claim_state[c] == OPEN && was_first -> pass_on(c)
    :: claim_state[c] == OPEN && !was_first
#else
    :: claim_state[c] == OPEN
#endif
    :: claim_state[c] != OPEN && (doomed[c] || claim_state[c] != PENDING)
    :: !doomed[c] && claim_state[c] == PENDING && waiting[c] == 0 -> retire(c)
#ifndef BROKEN_NUDGE
    :: !doomed[c] && claim_state[c] == PENDING && waiting[c] > 0 -> nudge(c)
#else
    :: !doomed[c] && claim_state[c] == PENDING && waiting[c] > 0
#endif
    fi;
    was_first = false;
    c = 0
}

/* Hand on inside the process, or give the claim back. */
inline release(t) {
    c = claim_of[t];
    claim_of[t] = NONE;
    rounds[t]++;
    if
    :: state[t] == LOST -> state[t] = OUT
    :: else ->
        state[t] = OUT;
        holder[c] = NONE;
        pass_on(c)
    fi;
    c = 0
}

/* The lease of what t holds has run out. */
inline lose(t) {
    c = claim_of[t];
    state[t] = LOST;
#ifdef BROKEN_LOSS
    holder[c] = NONE;
    engine_remove(c);
    if
    :: waiting[c] > 0 -> t1 = waiter(c, 0) - 1; begin_to_hold(c, t1); t1 = 0
    :: else -> retire(c)
    fi;
#else
    lost[c] = true;
    rehome(c);
    holder[c] = NONE;
    retire(c);
#endif
    claim_of[t] = NONE;
    c = 0
}

/* The lease of a claim has run out that is open: the service thread, or who wants to take it, sees that. */
inline lose_open() {
    c = order[0];
#ifdef BROKEN_OPEN
    engine_remove(c);
#else
    lost[c] = true;
    rehome(c);
    retire(c);
#endif
    c = 0
}

active [THREADS] proctype thread() {
    byte c, f, h, i, t1;
    bool was_first;

end:
    do
    :: atomic { state[_pid] == OUT && rounds[_pid] < ROUNDS && !in_park[_pid] -> enter(_pid) }
    /* Awake, and what is waited for is not decided. */
    :: atomic { state[_pid] == WAITS && !sleeping[_pid] && !in_park[_pid] -> go_on(_pid) }
    :: state[_pid] == HOLDS || state[_pid] == LOST ->
progress:
        atomic { release(_pid) }
    :: atomic { state[_pid] == HOLDS && losses < LOSSES -> losses++; lose(_pid) }
    :: atomic { timed[_pid] && sleeping[_pid] -> wake(_pid); over[_pid] = true }
    /* The deadline of one that sleeps has passed; or it was cancelled by another thread, and if it is parked it does not know yet. */
    :: atomic { state[_pid] == WAITS && claim_of[_pid] != NONE && give_ups < GIVE_UPS -> give_ups++; end_wait(_pid) }
#ifndef SERVED
    /* park() says that it is granted. The claim may have been emptied meanwhile: then it is given back. */
    :: atomic { in_park[_pid] ->
        c = 1;
        do
        :: by[c] != _pid + 1 -> c++
        :: else -> break
        od;
        if
        :: engine_grants(c) -> come_back(_pid); granted(c)
        :: unparked[c] -> come_back(_pid);
            if
            :: waiting[c] == 0 -> retire(c)
            :: else -> nudge(c)
            fi
        :: give_ups < GIVE_UPS -> give_ups++; come_back(_pid);
            if
            :: waiting[c] == 0 -> retire(c)
            :: else -> nudge(c)
            fi;
            if
            :: state[_pid] == WAITS -> end_wait(_pid)
            :: else
            fi
        fi;
        c = 0 }
#endif
    od
}

#ifdef SLICES
active proctype clock() {
    byte c, f, h, i, t1;

end:
    do
    :: atomic { claims > 0 && claim_state[order[0]] == OPEN && losses < LOSSES -> losses++; lose_open() }
    od
}
#endif

#ifdef SERVED
/* The service thread tells of a grant. */
active proctype service() {
    byte c, f, h, i, t1;

end:
    do
    :: atomic { queued > 0 && queue[0] != OTHER && claim_state[queue[0]] == PENDING -> c = queue[0]; granted(c); c = 0 }
    od
}
#endif

active proctype other() {
    byte i;

    do
    :: atomic { other_turns < OTHERS && !other_waits ->
        other_turns++;
        other_waits = true;
        passed = 0;
        /* Each claim that is ahead may serve one more than the bound; what the one that is held has served is spent. */
        allowed = 0;
        i = 0;
        do
        :: i < claims ->
            allowed = allowed + (served[order[i]] > 1 + HANDOFFS -> served[order[i]] : 1 + HANDOFFS);
            i++
        :: else -> break
        od;
        i = 0;
        engine_add(OTHER) }
    :: atomic { other_waits && !other_holds && engine_grants(OTHER) ->
        i = 0;
        do
        :: i < THREADS -> assert(state[i] != HOLDS); i++
        :: else -> break
        od;
        i = 0;
        other_holds = true }
    :: atomic { other_holds -> other_holds = false; other_waits = false; engine_remove(OTHER) }
    :: atomic { other_turns == OTHERS && !other_waits -> break }
    od
}

active proctype judge_the_end() {
    byte t;

    timeout ->
    do
    :: t < THREADS -> assert(state[t] == OUT && rounds[t] == ROUNDS); t++
    :: else -> break
    od;
    assert(queued == 0 && claims == 0)
}
