/* lock.js - one lock: who waits for whom, beside what is stored for each; the last holds; what happened. Asked for every second, by
   itself, since a look at all locks may be rarer (/api/lock). */

const conflicts = (a, b) => !(a.mode === 'shared' && b.mode === 'shared');
/* From each who waits to whom it waits for; only the nearest, the rest follows. Where the engine says who watches whom (ZooKeeper) it
   is that. */
function edgesOf(lock) {
    const all = [...lock.holders, ...lock.waiters], n = lock.holders.length, edges = [];
    const watched = lock.place.engine === 'zk' ? all.map(p => / watches (\S+)$/.exec(p.raw || '')?.[1]) : [];
    for (let me = n; me < all.length; me++) {
        const to = watched[me] ? all.findIndex(p => (p.raw || '').split(' ')[0].endsWith(watched[me])) : -1;
        if (to >= 0 && to !== me) {
            edges.push([me, to, to < n ? 'hard' : 'soft']);
            continue;
        }
        if (lock.kind === 'semaphore') {
            if (me > n)
                edges.push([me, me - 1, 'soft']);
            else
                for (let j = 0; j < n; j++)
                    edges.push([me, j, 'hard']);
            continue;
        }
        let ahead = me - 1;
        while (ahead >= n && !conflicts(all[me], all[ahead]))
            ahead--;
        if (ahead < n) {
            for (let j = 0; j < n; j++)
                if (conflicts(all[me], all[j]))
                    edges.push([me, j, 'hard']);
            continue;
        }
        edges.push([me, ahead, 'soft']);
        if (all[ahead].mode === 'shared')
            while (--ahead >= n && all[ahead].mode === 'shared')
                edges.push([me, ahead, 'soft']);
    }
    return edges;
}

/* What is stored, in two lines: where, and what. */
function stored(lock, p) {
    const raw = p.raw || '', at = raw.indexOf(' session ');
    if (at > 0)
        return [raw.slice(0, at), raw.slice(at + 1)];
    if (lock.place.engine.startsWith('redis'))
        return [p.position ? `pawl:queue:{${lock.name}}` : lock.name, raw];
    return [raw, ''];
}
const ENGINES = {
    zk: ['ZooKeeper', 'Nodes in ZooKeeper'],
    redis: ['Redis', 'Keys in Redis'],
    redlock: ['Redlock', 'Votes in Redis'],
    local: ['This machine', 'Nodes of the table']
};
const MOST = 60;

function link(lock, p, index) {
    const holds = index < lock.holders.length, [k, v] = stored(lock, p), position = index - lock.holders.length + 1;
    const tags = [
        p.label && h('span.tag', p.label),
        lock.kind === 'rwlock' && h('span.tag', {class: p.mode === 'exclusive' && 'hard'}, p.mode),
        p.permits && h('span.tag', plural(p.permits, 'permit', 'permits')), p.keeps && keeps(),
        p.broken && h('span.tag.broken', 'asked to give up'), p.stopped && h('span.tag.bad', 'stopped'),
        p.foreign && h('span.tag', 'not pawl')
    ].filter(Boolean);
    return h('div.link', h('div'),
        h('div.who',
            h('span.pos', {class: holds && 'h', title: holds ? 'holds' : 'place in the queue'},
                holds ? icon(ICON.key) : String(position)),
            h('div.id', h('span.two', h('span.cmdname', command(p)), tags.map(tag => [' ', tag])),
                h('span.two', where(p), holds && p.token && [' · token ', h('span.mono', p.token)])),
            h('div.when', since(p.since_ms), h('span', holds ? 'holds' : 'waits')),
            holds && p.token && model.server.break !== 'no' && h('button.btn', {onclick: () => breakDialog(lock, p)}, 'Break…')),
        h('div.stored.mono', h('div.k', {title: k}, k), v && h('div.v', {title: v}, v)));
}
function chain(lock) {
    const all = [...lock.holders, ...lock.waiters].slice(0, MOST), rest = lock.holders.length + lock.waiters.length - all.length;
    const el = h('div.chain', all.map((p, i) => link(lock, p, i)),
        rest > 0 &&
            h('div.link', h('div'), h('div.who', h('span.pos', '…'), h('span.muted', `${number(rest)} more wait behind`)),
                h('div.stored')),
        !all.length && h('p.empty', 'Free: nobody holds it, and nobody waits.'));
    const draw = () => drawEdges(el, lock, all.length);
    new ResizeObserver(draw).observe(el);
    return el;
}
/* Each edge has a lane of its own where others run beside it; the short ones are nearest. */
function drawEdges(el, lock, count) {
    const rows = [...el.querySelectorAll('.link')].slice(0, count), width = innerWidth <= 720 ? 44 : 58, step = width > 50 ? 7 : 6,
          lanes = [], used = {};
    const y = i => rows[i].querySelector('.who').offsetTop + rows[i].querySelector('.who').offsetHeight / 2;
    const svg = h('svg', {viewBox: `0 0 ${width} ${el.offsetHeight}`, height: el.offsetHeight},
        h('defs', arrowHead('a-hard', 'var(--accent)'), arrowHead('a-soft', 'var(--faint)')));
    for (const [from, to, kind] of edgesOf(lock)
             .filter(([a, b]) => a < count && b < count)
             .sort((a, b) => a[0] - a[1] - (b[0] - b[1]) || a[0] - b[0])) {
        let n = lanes.findIndex(lane => lane.every(([low, high]) => to >= high || from <= low));
        if (n < 0)
            n = lanes.push([]) - 1;
        lanes[n].push([to, from]);
        const lane = width - 16 - Math.min(n, 4) * step, out = used[from] = (used[from] || 0) + 1,
              into = used['t' + to] = (used['t' + to] || 0) + 1;
        const y1 = y(from) - 6 + Math.min(out - 1, 3) * 4, y2 = y(to) + 2 + Math.min(into - 1, 3) * 4, x = width - 5,
              r = Math.min(6, (y1 - y2) / 2);
        svg.append(h('path.e', {
            class: kind,
            d: `M${x} ${y1}H${lane + r}Q${lane} ${y1} ${lane} ${y1 - r}V${y2 + r}Q${lane} ${y2} ${lane + r} ${y2}H${x}`,
            'marker-end': `url(#a-${kind})`
        }));
    }
    el.querySelector(':scope > svg')?.remove();
    el.append(svg);
}
const edgeKey = (text, cls) => h('span', h('em.' + cls), text);

/* ---- the last holds ---- */
const SPAN = 300000;
/* One line for each who held or waits, the latest first. */
function lanesOf(detail, lock) {
    const lanes = new Map(), end = detail.time_ms, begin = end - SPAN, add = (who, part) => {
        if (part.to > begin)
            lanes.set(who, [...(lanes.get(who) || []), part]);
    };
    for (const hold of detail.holds)
        add(hold.who || 'not known', {holds: true, from: hold.from_ms, to: hold.to_ms ?? end, token: hold.token, end: hold.end});
    for (const p of lock.waiters.slice(0, 8))
        if (p.since_ms)
            add(command(p) + ' ' + where(p), {from: p.since_ms, to: end});
    return [...lanes].sort((a, b) => Math.max(...b[1].map(x => x.to)) - Math.max(...a[1].map(x => x.to))).slice(0, 12);
}
function timeline(detail, lock) {
    const end = detail.time_ms, begin = end - SPAN, x = ms => Math.max(0, Math.min(100, (ms - begin) / SPAN * 100)),
          lanes = lanesOf(detail, lock);
    const bar = part => part.holds ?
        h('div.bar-h', {
            class: {lost: 'lost', broken: 'broken'}[part.end] || '',
            title: `token ${part.token}, ${duration(part.to - part.from)}`,
            style: {left: x(part.from) + '%', width: Math.max(.4, x(part.to) - x(part.from)) + '%'}
        },
            x(part.to) - x(part.from) > 7 && shortToken(part.token)) :
        h('div.bar-w', {title: 'waits', style: {left: x(part.from) + '%', width: Math.max(.4, 100 - x(part.from)) + '%'}});
    if (!lanes.length)
        return h('p.empty', 'No hold was seen in the last five minutes.');
    return h('div.gantt', lanes.map(([who, parts]) => {
        const [name, at] = split(who);
        return h('div.lane', h('label', {title: who}, name, ' ', h('span.faint', at)),
            h('div.strip', parts.map(bar),
                parts.filter(p => p.end === 'lost')
                    .map(p => h('span.mark', {style: {left: `calc(${x(p.to)}% + 8px)`}, title: 'lost: its lease ran out'}, '✕'))));
    }),
        h('div.axis', h('i'), h('div', [0, 1, 2, 3, 4,
            5].map(i => h('span', {style: {left: i * 20 + '%'}}, i < 5 ? clock(begin + i * SPAN / 5) : 'now')))));
}
const split = who => {
    const at = who.lastIndexOf(' ');
    return at > 0 ? [who.slice(0, at), who.slice(at + 1)] : [who, ''];
};

/* ---- the view ---- */
function facts(lock, detail) {
    const fact = (name, value) => h('div', h('span', name), h('b', value)), notice = lock.place.notice_ms;
    return [
        fact('Held for', since(isFinite(lock.heldSince) && lock.heldSince, '–')),
        fact('Holders', lock.kind === 'semaphore' ? kindText(lock) + ' permits' : String(lock.holders.length)),
        fact('Waiting', number(lock.waiters.length)),
        fact('Longest wait', since(isFinite(lock.waitsSince) && lock.waitsSince, '–')),
        fact('Hand-offs a second', rateText(detail.rate)),
        fact('After a crash free', notice ? 'within ' + duration(notice) : 'at once')
    ];
}
function lockHead(lock) {
    const text = statusCommand(lock.place.url, lock.name),
          button = h('button.btn', {title: text, onclick: () => copy(text, button)}, 'Copy pawl status');
    return [
        h('div', h('h1', lock.name),
            h('div.sub', stateMark(lock.state), h('span', lock.kind === 'rwlock' ? 'read-write lock' : lock.kind),
                h('span.mono.url', lock.place.url), lock.cycle && h('a.tag.bad', {href: '#/waits'}, 'in a likely cycle'))),
        h('div.acts', model.server.break === 'no' && h('span.badge', 'read-only: start with --allow-break'), button)
    ];
}
function viewLock(main, name, url) {
    const place =
        url ? model.places.get(url) : [...model.places.values()].find(p => p.locks.has(name)) || [...model.places.values()][0];
    const back = h('a.crumb', {href: '#/'}, icon(ICON.back, {width: 13, height: 13}), 'All locks');
    if (!place) {
        main.replaceChildren(back, h('p.empty', model.look ? 'Nothing is looked at there.' : ''));
        return () => {};
    }
    const parts = {head: h('div.head'), facts: h('div.facts.card'), chain: h('div'), time: h('div'), events: h('ul.list')};
    let asking = false, shown = null;
    const ends = h('span.legend', ['holds', 'broken', 'lost', 'waits'].map(word => edgeKey(word, word)));
    main.replaceChildren(back, parts.head, parts.facts,
        panel(
            [
                'Who waits for whom',
                h('span.legend', edgeKey('hard: it holds', 'hard'), edgeKey('soft: it is ahead in the queue', 'soft'))
            ],
            h('div.colhead', h('span'), h('span', 'Holders and queue'),
                h('span', (ENGINES[place.engine] || ['', 'In the server'])[1], ', as stored')),
            parts.chain),
        panel(['Last holds', h('span.muted', 'five minutes, as far as they were seen'), ends], parts.time),
        panel('What happened', parts.events));
    async function look() {
        if (asking || document.hidden || !main.contains(parts.head))
            return;
        asking = true;
        try {
            const answer = await ask('/api/lock?url=' + encodeURIComponent(place.url) + '&name=' + encodeURIComponent(name));
            if (answer.ok) {
                const detail = await answer.json();
                show({...detail, ...detail.seen});
            }
        } catch { /* the next second asks again, and the bar says what is wrong */
        }
        asking = false;
    }
    function show(detail) {
        const lock = detail.locks[0] || {name, kind: '', state: 'free', holders: [], waiters: [], cycle: false};
        Object.assign(lock, {
            place,
            seen_ms: detail.time_ms,
            heldSince: first(lock.holders),
            waitsSince: first(lock.waiters),
            cycle: !!place.locks.get(name)?.cycle
        });
        shown = lock;
        refill(parts.head, JSON.stringify([lock.state, lock.kind, lock.cycle]), () => lockHead(lock));
        refill(parts.facts, JSON.stringify([lock.holders, lock.waiters, detail.rate]), () => facts(lock, detail));
        refill(
            parts.chain, JSON.stringify([...lock.holders, ...lock.waiters].map(p => ({...p, remaining_ms: 0}))), () => chain(lock));
        refill(parts.time, detail.time_ms, () => timeline(detail, lock));
        refill(parts.events, detail.events.map(e => e.number).join() + '.',
            () => detail.events.length ? detail.events.map(e => eventItem(e, false)) : h('p.empty', 'Nothing yet.'));
    }
    const update = () => {
        if (!model.paused)
            look();
    };
    update.onkey = e => {
        if (e.key === 'b' && shown?.holders[0]?.token && model.server.break !== 'no') {
            e.preventDefault();
            breakDialog(shown, shown.holders[0]);
        }
    };
    return update;
}
