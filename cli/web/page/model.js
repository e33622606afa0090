/* model.js - what the server has told: first the whole (/api/state), then what differs, look by look (/api/stream). The page shows
   this, and asks nobody else.

   The key comes with the address, behind the #: it is in no log and no Referer. It is taken out of the address at once, and kept for
   this tab alone. */

const model = {
    look: 0,
    server: {},
    places: new Map(),
    cycles: [],
    events: [],
    rates: [], /* of all locks, one number a look */
    live: 'connecting',
    why: '',
    heard: 0,
    paused: false,
    offset: Date.now() - performance.now(),
    /* The server's clock: this page may be on another computer, by way of ssh -L. */
    now() {
        return performance.now() + this.offset;
    },
};
let changed = () => {};

/* ---- one lock ---- */
const RANK = {
    stopped: 0,
    suspect: 1,
    broken: 2,
    foreign: 3,
    held: 4,
    free: 5
};
const CELLS = 24;
const first = entries => entries.reduce((least, p) => p.since_ms && p.since_ms < least ? p.since_ms : least, Infinity);
/* What the views sort and filter by. Moments, not durations: they stay right while time passes. */
function derive(lock, place, seen_ms) {
    const before = place.locks.get(lock.name);
    lock.place = place;
    lock.seen_ms = seen_ms;
    lock.key = place.url + ' ' + lock.name;
    lock.heldSince = first(lock.holders);
    lock.waitsSince = first(lock.waiters);
    lock.cells = before ? before.cells : [];
    place.locks.set(lock.name, lock);
}
const allLocks = () => [...model.places.values()].flatMap(place => [...place.locks.values()]);

/* ---- what comes from the server ---- */
/* Rates of the locks that change hands; those of all others are 0. */
function takeRates(place, rates) {
    place.rate = 0;
    for (const lock of place.locks.values()) {
        const rate = Object.hasOwn(rates, lock.name) ? rates[lock.name] : 0;
        lock.rate = rate;
        place.rate += rate;
        if (rate || lock.cells.length)
            lock.cells = [...lock.cells, rate].slice(-CELLS);
        if (lock.cells.length && !lock.cells.some(cell => cell))
            lock.cells = [];
    }
}
function takeCommon(data) {
    model.look = data.look;
    model.offset = data.time_ms - performance.now();
    model.heard = performance.now();
    model.cycles = data.deadlocks.map(deadlock => deadlock.steps);
    model.events = [...data.events, ...model.events].slice(0, 1000);
    if (data.findings)
        for (const place of model.places.values())
            place.findings = data.findings.filter(finding => finding.url === place.url);
    model.rates = [...model.rates, [...model.places.values()].reduce((sum, place) => sum + place.rate, 0)].slice(-CELLS);
}
function takeWhole(data) {
    model.server = data.server;
    model.places.clear();
    model.events = [];
    for (const place of data.places) {
        const locks = place.locks;
        model.places.set(place.url, Object.assign(place, {locks: new Map()}));
        for (const lock of locks)
            derive(lock, place, data.time_ms);
        takeRates(place, Object.fromEntries(locks.filter(lock => lock.rate).map(lock => [lock.name, lock.rate])));
    }
    takeCommon(data);
}
/* Renewed, and else as they were: what is left to each holder. */
function takeLeases(place, leases, seen_ms) {
    for (const [name, left] of Object.entries(leases)) {
        const lock = place.locks.get(name);
        lock.seen_ms = seen_ms;
        lock.holders.forEach((p, i) => {
            p.remaining_ms = left[i];
        });
    }
}
function takeDifference(data) {
    for (const part of data.places) {
        const place = model.places.get(part.url);
        if (!place)
            throw new Error('anew');
        place.took_ms = part.took_ms;
        place.error = part.error;
        if (part.whole)
            place.locks.clear();
        for (const name of part.gone)
            place.locks.delete(name);
        for (const lock of part.changed)
            derive(lock, place, data.time_ms);
        takeLeases(place, part.leases, data.time_ms);
        takeRates(place, part.rates);
    }
    takeCommon(data);
}

/* ---- the connection ---- */
let key = sessionStorage.getItem('pawl-key') || '', stream = null;
function takeKey() {
    const found = /^#([0-9a-f]{32})(.*)$/.exec(location.hash);
    if (!found)
        return;
    key = found[1];
    sessionStorage.setItem('pawl-key', key);
    history.replaceState(null, '', location.pathname + location.search + (found[2].startsWith('/') ? '#' + found[2] : '#/'));
}
async function ask(path, options = {}) {
    const answer = await fetch(
        path, {...options, headers: {Authorization: 'Bearer ' + key, ...options.headers}, cache: 'no-store', credentials: 'omit'});
    if (answer.status === 401) {
        key = '';
        sessionStorage.removeItem('pawl-key');
    }
    return answer;
}
function setLive(live, why = '') {
    model.live = live;
    model.why = why;
    changed();
}

/* One event of the stream. The server says `anew` where it has not kept what lies between. */
function takeEvent(text) {
    const fields = {event: '', data: ''};
    for (const line of text.split('\n')) {
        const at = line.indexOf(': ');
        if (at > 0)
            fields[line.slice(0, at)] = line.slice(at + 2);
    }
    model.heard = performance.now();
    if (fields.event === 'anew')
        throw new Error('anew');
    if (fields.event !== 'state')
        return;
    takeDifference(JSON.parse(fields.data));
    if (!model.paused)
        changed();
}
async function follow(signal) {
    const answer = await ask('/api/stream?after=' + model.look, {signal});
    if (!answer.ok)
        throw new Error(await answer.text());
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    setLive('live');
    let rest = '';
    try {
        for (;;) {
            const {value, done} = await reader.read();
            if (done)
                throw new Error('the stream has ended');
            const parts = (rest + value).split('\n\n');
            rest = parts.pop();
            parts.forEach(takeEvent);
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}
/* Until the tab is hidden. If anything fails, the whole is asked for again, after a while that grows. */
async function connect() {
    if (stream || !key || document.hidden)
        return;
    stream = new AbortController();
    const {signal} = stream;
    for (let wait = 500; !signal.aborted && key; wait = Math.min(8000, wait * 2)) {
        try {
            const answer = await ask('/api/state', {signal});
            if (!answer.ok)
                throw new Error(await answer.text());
            takeWhole(await answer.json());
            wait = 500;
            await follow(signal);
        } catch (error) {
            if (signal.aborted)
                return;
            if (error.message !== 'anew')
                setLive(key ? 'not connected' : 'no key', error.message);
        }
        await new Promise(resolve => setTimeout(resolve, wait));
    }
    if (stream?.signal === signal)
        stream = null;
    changed();
}
function disconnect() {
    if (stream)
        stream.abort();
    stream = null;
}
