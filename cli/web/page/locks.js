/* locks.js - all locks: figures, filters, and the list, of which only the rows in sight are in the document. */

const ui = {
    sort: 'attention',
    filter: 'all',
    text: '',
    row: ''
};
const by = (...keys) => (a, b) => {
    for (const f of keys) {
        const x = f(a), y = f(b);
        if (x !== y)
            return x < y ? -1 : 1;
    }
    return 0;
};
const SORTS = {
    attention: by(l => l.cycle ? 0 : 1, l => RANK[l.state], l => l.waitsSince, l => l.name),
    name: by(l => l.name, l => l.place.url),
    held: by(l => l.heldSince, l => l.name),
    waiters: by(l => -l.waiters.length, l => l.name),
    longest: by(l => l.waitsSince, l => l.name),
    rate: by(l => -l.rate, l => l.name),
};
const FILTERS = {
    all: ['All', () => true],
    waited: ['Waited for', l => l.waiters.length > 0],
    cycle: ['In a cycle', l => l.cycle, 'bad'],
    stopped: ['Stopped', l => l.state === 'stopped', 'bad'],
    suspect: ['Suspect', l => l.state === 'suspect', 'warn'],
    broken: ['Broken', l => l.state === 'broken'],
    foreign: ['Foreign', l => l.state === 'foreign'],
};
const lockHref = lock => '#/lock/' + encodeURIComponent(lock.name) + '/' + encodeURIComponent(lock.place.url);

/* ---- a row ---- */
const keeps = () => h('span.tag', {title: 'its process keeps it between holds'}, 'keeps');
function kindText(lock) {
    if (lock.kind === 'semaphore')
        return `${lock.holders.reduce((n, p) => n + p.permits, 0)} of ${lock.limit}`;
    if (lock.kind !== 'rwlock')
        return lock.kind;
    return lock.holders.length && lock.holders[0].mode === 'shared' ? `rw, ${lock.holders.length} read` : 'rw, write';
}
function holderCell(lock) {
    const p = lock.holders[0], more = lock.holders.length - 1;
    if (!p)
        return h('span.faint', 'the next one is let in');
    return h('div',
        h('span.two', h('span.cmdname', command(p)), p.label && [' ', h('span.tag', p.label)],
            more > 0 && [' ', h('span.tag', '+' + more)], p.keeps && [' ', keeps()]),
        h('span.two', where(p), p.broken && [' · ', h('span.s-broken', 'asked to give up')]));
}
const queueMark = lock => h('span.queue', lock.waiters.length > 0 && h('span.only-small', since(lock.waitsSince)),
    lock.waiters.slice(0, 8).map(() => h('i', {class: lock.cycle && 'bad'})),
    h('b', {class: lock.waiters.length ? '' : 'faint'}, number(lock.waiters.length)));
function cells(lock) {
    const p = lock.holders[0], longest = isFinite(lock.waitsSince);
    return [
        h('td.c-state', stateMark(lock.state)),
        h('td.c-name',
            h('span.two', h('span.name', {title: lock.name}, lock.name), lock.cycle && [' ', h('span.tag.bad', 'cycle')]),
            h('span.two', {title: lock.place.url}, lock.place.url)),
        h('td.c-kind.muted', kindText(lock)), h('td.c-holder', holderCell(lock)),
        h('td.c-for.r', since(isFinite(lock.heldSince) && lock.heldSince)), h('td.c-lease', leaseBar(lock)),
        h('td.c-token.r.mono.muted', {title: p && p.token}, p && p.token ? shortToken(p.token) : '–'),
        h('td.c-wait.r', queueMark(lock)),
        h('td.c-longest.r', {
            class: longest ? '' : 'faint',
            live: el => el.classList.toggle('s-suspect', longest && model.now() - lock.waitsSince > 600000)
        },
            longest ? since(lock.waitsSince) : '–'),
        h('td.c-rate.r',
            h('span.spark', sparkline(lock.cells.map(v => Math.max(0, v)), 68, 20),
                h('b.num', {class: lock.rate ? '' : 'faint'}, rateText(lock.rate))))
    ];
}
const rowSignature = lock => [lock.seen_ms, lock.cycle, lock.rate, lock.cells].join(' ');
function fillRow(tr, lock, index) {
    tr.lock = lock;
    tr.setAttribute('aria-rowindex', index + 2);
    tr.tabIndex = ui.row === lock.key ? 0 : -1;
    tr.classList.toggle('bad', lock.cycle);
    refill(tr, rowSignature(lock), () => cells(lock));
}
const makeRow = () => h('tr', {
    onclick: e => {
        ui.row = e.currentTarget.lock.key;
        location.hash = lockHref(e.currentTarget.lock);
    },
    onfocus: e => {
        ui.row = e.currentTarget.lock.key;
    }
});

/* ---- the list: rows of one height, and two that stand for all above and below ---- */
const list = {
    shown: [],
    rows: new Map(),
    body: null
};
function rowsInSight() {
    const height = innerWidth <= 720 ? 116 : 45, top = list.body.getBoundingClientRect().top, spare = 8;
    const from = Math.max(0, Math.min(list.shown.length, Math.floor(-top / height) - spare)),
          to = Math.min(list.shown.length, Math.ceil((innerHeight - top) / height) + spare);
    return {height, from, to: Math.max(from, to)};
}
function fillList() {
    if (!list.body || !list.body.isConnected)
        return;
    const {height, from, to} = rowsInSight(), wanted = list.shown.slice(from, to), rows = new Map();
    wanted.forEach((lock, i) => {
        const tr = list.rows.get(lock.key) || makeRow();
        fillRow(tr, lock, from + i);
        rows.set(lock.key, tr);
    });
    list.rows = rows;
    if (wanted.length && !rows.has(ui.row))
        rows.get(wanted[0].key).tabIndex = 0;
    const pad = (el, n) => {
        el.style.height = n * height + 'px';
        return el;
    };
    const children = [pad(list.above, from), ...rows.values(), pad(list.below, list.shown.length - to)];
    if (children.length === list.body.children.length && children.every((el, i) => el === list.body.children[i]))
        return;
    const focused = document.activeElement;
    list.body.replaceChildren(...children);
    if (focused !== document.activeElement && focused.lock && focused.isConnected)
        focused.focus({preventScroll: true});
}
function moveRow(by) {
    const at = list.shown.findIndex(lock => lock.key === ui.row),
          to = Math.max(0, Math.min(list.shown.length - 1, at < 0 ? 0 : at + by)), lock = list.shown[to];
    if (!lock)
        return;
    const {height} = rowsInSight(), y = list.body.getBoundingClientRect().top + to * height;
    if (y < 100)
        scrollBy(0, y - 100);
    else if (y + height > innerHeight)
        scrollBy(0, y + height - innerHeight + 8);
    ui.row = lock.key;
    fillList();
    if (list.rows.get(lock.key))
        list.rows.get(lock.key).focus({preventScroll: true});
}

/* ---- the view ---- */
function figures(locks) {
    const waiters = locks.reduce((n, l) => n + l.waiters.length, 0), queues = locks.filter(FILTERS.waited[1]).length,
          held = locks.filter(l => l.holders.length).length;
    const suspect = locks.filter(FILTERS.suspect[1]).length, longest = Math.min(...locks.map(l => l.waitsSince), Infinity),
          hour = model.now() - 3600000;
    const recent = kind => model.events.filter(e => e.kind === kind && e.time_ms > hour).length,
          stuck = model.cycles.reduce((n, cycle) => n + cycle.length, 0);
    const fig = (label, value, small, cls, extra) =>
        h('div.figure', {class: cls || ''}, h('span', label), h('b', value), small && h('small', small), extra);
    return h('div.figures', fig('Held', number(held), `of ${number(locks.length)} listed`),
        fig('Waiting', number(waiters), waiters ? 'in ' + plural(queues, 'queue', 'queues') : ''),
        fig('Longest wait', isFinite(longest) ? since(longest) : '–', '',
            isFinite(longest) && model.now() - longest > 600000 ? 'warn' : ''),
        fig('Hand-offs a second', rateText(model.rates.at(-1) ?? null), '', 'opt2', sparkline(model.rates, 70, 24)),
        fig('Suspect', number(suspect), suspect ? `of ${number(held)}` : '', suspect ? 'warn' : ''),
        fig('Lost, last hour', number(recent('lost')), recent('broken') ? plural(recent('broken'), 'break', 'breaks') : ''),
        fig('Deadlocked', number(stuck), stuck ? 'in ' + plural(model.cycles.length, 'likely cycle', 'likely cycles') : '',
            stuck ? 'bad' : ''));
}
const places = () => [...model.places.values()].map(
    p => h('span.place', {title: p.error},
        h('span.dot', {class: p.error                          ? 'bad' :
                p.findings.some(f => f.severity === 'warning') ? 'warn' :
                                                                 ''}),
        h('b.mono', p.url), h('span.faint.num', p.error ? 'not reached' : p.took_ms.toFixed(p.took_ms < 10 ? 1 : 0) + ' ms')));
function alarm() {
    const cycle = model.cycles[0], lost = [...model.places.values()].filter(p => p.error);
    return [
        lost.map(p => h('div.alarm', {role: 'alert'}, icon(ICON.warning),
                     h('p', h('b', 'Not reached'), ' ', h('span.mono', p.url), ': ', p.error))),
        cycle &&
            h('div.alarm', {role: 'alert'}, icon(ICON.cycle),
                h('p', h('b', 'Likely deadlock'), ` of ${plural(cycle.length, 'process', 'processes')}: `,
                    h('span.path', cycle.map(edge => [command(edge.waiter), h('span.arrow', '→')]), command(cycle[0].waiter))),
                h('a.btn', {href: '#/waits'}, 'Show the cycle'))
    ];
}
const matches = (lock, text) => (
    lock.hay ??= JSON.stringify([
                         lock.name, lock.place.url,
                         ...[...lock.holders, ...lock.waiters].map(p => [p.host, p.pid, p.command, p.label, p.token])
                     ])
                     .toLowerCase()).includes(text);
const COLUMNS = [
    ['State', 'attention', 'c-state'], ['Lock', 'name', 'c-name'], ['Kind', null, 'c-kind'], ['Holder', null, 'c-holder'],
    ['Held for', 'held', 'r c-for'], ['Lease left', null, 'c-lease'], ['Token', null, 'r c-token'],
    ['Waiters', 'waiters', 'r c-wait'], ['Longest', 'longest', 'r c-longest'], ['Hand-offs/s', 'rate', 'r c-rate']
];
function setSort(key) {
    ui.sort = key;
    changed();
}
function heads() {
    return h('tr',
        COLUMNS.map(([text, key, cls]) => h('th', {
            class: cls,
            scope: 'col',
            'aria-sort': key && key === ui.sort ? (key === 'name' ? 'ascending' : 'descending') : null
        },
                        key ? h('button', {onclick: () => setSort(key)}, text,
                                  key === ui.sort && h('span.dir', {'aria-hidden': 'true'}, key === 'name' ? '↑' : '↓')) :
                              text)));
}
function chips(locks) {
    return Object.entries(FILTERS)
        .map(([key, [text, is, cls]]) => [key, text, cls, locks.filter(is).length])
        .filter(([key, , , n]) => n > 0 || key === 'all' || key === 'waited' || key === ui.filter)
        .map(([key, text, cls, n]) => h('button.chip', {
            'aria-pressed': String(ui.filter === key),
            onclick: () => {
                ui.filter = key;
                changed();
            }
        },
                 cls && h('span.dot', {class: cls}), text, h('span.faint.num', number(n))));
}
function viewLocks(main) {
    const parts = {figures: h('div'), alarm: h('div'), chips: h('div.chips'), head: h('thead'), foot: h('div.foot')};
    const search = h('input', {
        id: 'q',
        type: 'search',
        placeholder: '/ Lock, host, command, label, token',
        value: ui.text,
        'aria-label': 'search',
        autocomplete: 'off',
        oninput: e => {
            ui.text = e.target.value.toLowerCase();
            changed();
        }
    });
    list.above = h('tr.pad', {'aria-hidden': 'true'});
    list.below = h('tr.pad', {'aria-hidden': 'true'});
    list.rows.clear();
    list.body = h('tbody');
    const table = h('table.locks', {'aria-label': 'locks'}, parts.head, list.body);
    main.replaceChildren(parts.figures, parts.alarm, h('div.tools', h('div.search', icon(ICON.search), search), parts.chips),
        h('div.card', table), parts.foot);
    return () => {
        const locks = allLocks();
        list.shown = locks.filter(FILTERS[ui.filter][1]).filter(lock => !ui.text || matches(lock, ui.text)).sort(SORTS[ui.sort]);
        refill(parts.figures, model.look, () => figures(locks));
        refill(parts.alarm, JSON.stringify([model.cycles, [...model.places.values()].map(p => p.error)]), alarm);
        refill(parts.chips, [model.look, ui.filter].join(), () => chips(locks));
        refill(parts.head, ui.sort, heads);
        table.setAttribute('aria-rowcount', list.shown.length + 1);
        refill(parts.foot, [list.shown.length, locks.length].join(),
            () => [h('span', `${number(list.shown.length)} of ${plural(locks.length, 'lock', 'locks')} · free ones are not listed`),
                h('span', '1 to 4 views · / search · ↑ ↓ Enter Esc · s sort · Space pause · b break · t theme')]);
        fillList();
    };
}
