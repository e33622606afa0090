/* waits.js - who waits for whom over all locks, drawn; and the likely cycles, step by step. */

const agentOf = p => p.agent || (p.host ? p.host + ':' + p.pid : 'claim ' + (p.claim || p.token));
/* Only what is worth drawing: cycles, and chains of two waits and more; if there are none, the longest queues. */
function waitGraph() {
    const nodes = new Map(), edges = [], node = p => {
        const id = agentOf(p);
        if (!nodes.has(id))
            nodes.set(id, {id, p, out: [], into: []});
        return nodes.get(id);
    };
    const add = (a, b, url, name, kind, cycle) => {
        const edge = {from: node(a), to: node(b), url, name, kind, cycle};
        if (edge.from === edge.to || edge.from.out.some(e => e.to === edge.to && e.name === name))
            return;
        edge.from.out.push(edge);
        edge.to.into.push(edge);
        edges.push(edge);
    };
    for (const step of model.cycles.flat())
        add(step.waiter, step.blocker, step.url, step.lock, step.kind, true);
    for (const lock of allLocks().filter(l => l.waiters.length).sort(SORTS.attention).slice(0, 200)) {
        const all = [...lock.holders, ...lock.waiters].slice(0, 20), n = lock.holders.length;
        for (const [a, b, kind] of edgesOf({...lock, holders: all.slice(0, n), waiters: all.slice(n)}))
            add(all[a], all[b], lock.place.url, lock.name, kind);
    }
    const chained = edges.filter(e => e.cycle || e.to.out.length || e.from.into.length);
    return {all: edges.length, edges: (chained.length ? chained : edges).slice(0, 60)};
}
/* Who belongs together stands together: in columns, by how many waits lie before one who does not wait; a cycle is a ring at the left. */
function layOut(edges) {
    const nodes = [...new Set(edges.flatMap(e => [e.from, e.to]))], W = 132, H = 40, drawn = new Set(edges), seen = new Set();
    const depth = n => n.depth ??= (n.depth = 0, Math.max(0, ...n.out.filter(e => drawn.has(e)).map(e => 1 + depth(e.to))));
    const gather = (n, group) => {
        if (!seen.has(n)) {
            seen.add(n);
            group.push(n);
            n.out.filter(e => drawn.has(e)).forEach(e => gather(e.to, group));
            n.into.filter(e => drawn.has(e)).forEach(e => gather(e.from, group));
        }
        return group;
    };
    let top = 40, width = 0;
    for (const start of nodes) {
        if (seen.has(start))
            continue;
        const group = gather(start, []), ring = group.filter(n => n.out.some(e => e.cycle)),
              radius = ring.length && Math.max(90, ring.length * 34), rows = [];
        ring.forEach((n, i) => {
            const angle = i / ring.length * 2 * Math.PI - Math.PI / 2;
            n.depth = 0;
            n.x = W / 2 + 24 + radius + Math.cos(angle) * radius;
            n.y = top + radius + Math.sin(angle) * radius;
        });
        for (const n of group.filter(g => !ring.includes(g)).sort((a, b) => depth(a) - depth(b))) {
            const column = depth(n);
            rows[column] ??= 0;
            n.x = (radius ? radius * 2 + 40 : -W - 130) + W * 1.5 + 154 + (column - !!radius) * (W + 130);
            n.y = top + rows[column]++ * 56;
        }
        width = Math.max(width, ...group.map(n => n.x));
        top = Math.max(...group.map(n => n.y)) + 72;
    }
    return {nodes, W, H, width: width + W / 2 + 24, height: top - 30};
}
function drawGraph(edges) {
    const {nodes, W, H, width, height} = layOut(edges);
    const border = (n, x, y) => {
        const dx = x - n.x || .01, dy = y - n.y || .01, s = Math.min(Math.abs((W / 2 + 4) / dx), Math.abs((H / 2 + 4) / dy));
        return [n.x + dx * s, n.y + dy * s];
    };
    const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + '…' : text;
    const svg = h('svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': 'who waits for whom'},
              h('defs', arrowHead('g-hard', 'var(--accent)'), arrowHead('g-soft', 'var(--faint)'),
                  arrowHead('g-cyc', 'var(--bad)'))),
          labels = [];
    for (const e of edges) {
        const [x1, y1] = border(e.from, e.to.x, e.to.y), [x2, y2] = border(e.to, e.from.x, e.from.y),
                   name = cut(e.kind === 'nested' ? 'runs' : e.name, 17), w = name.length * 6.4 + 12, x = (x1 + x2) / 2,
                   y = (y1 + y2) / 2, look = e.kind === 'hard' ? 'hard' : 'soft', cls = e.cycle ? 'cyc' : '';
        svg.append(h('path.e', {class: look + ' ' + cls, d: `M${x1} ${y1}L${x2} ${y2}`, 'marker-end': `url(#g-${cls || look})`}));
        if (!labels.some(l => Math.abs(l.x - x) < 70 && Math.abs(l.y - y) < 18))
            labels.push({
                x,
                y,
                el: h('g.lk', {class: cls}, h('rect.lab', {x: x - w / 2, y: y - 9, width: w, height: 18, rx: 5}),
                    h('text', {x, y: y + 3.6, 'text-anchor': 'middle'}, name))
            });
    }
    svg.append(...labels.map(l => l.el));
    for (const n of nodes)
        svg.append(h('g', {class: edges.some(e => e.cycle && e.from === n) && 'cyc'},
            h('rect.node', {x: n.x - W / 2, y: n.y - H / 2, width: W, height: H, rx: 9}),
            h('text.c', {x: n.x, y: n.y - 2, 'text-anchor': 'middle'}, cut(command(n.p), 18)),
            h('text.h', {x: n.x, y: n.y + 12, 'text-anchor': 'middle'}, cut(where(n.p), 22))));
    return svg;
}
/* One step after the other: who waits for what, and who is in the way. To be broken: the hold that lasts for the shortest time. */
function cyclePanel(steps, i) {
    const holds = steps.filter(s => s.kind === 'hard' && s.blocker.token),
          victim = holds.sort((a, b) => b.blocker.since_ms - a.blocker.since_ms)[0];
    const step = s => h('li', h('b.cmdname', command(s.waiter)), ' ', h('span.muted', where(s.waiter)),
        s.kind === 'nested' ? h('small', 'holds on until what it runs has ended') :
                              h('small', 'waits for ', h('a.plain', {href: lockHref({name: s.lock, place: s})}, s.lock), ' · ',
                                  since(s.waiter.since_ms)),
        s.kind === 'hard' && h('small', 'which is held with token ', h('span.mono', s.blocker.token)));
    return panel([h('span.s-stopped', `Likely cycle ${i + 1}`)], h('ol.steps', steps.map(step)),
        h('div.note', h('p', 'Likely, not certain: a process may have other threads, and a wait may have an end.'),
            victim && [h('p', 'To end it:'), commandLine(breakCommand(victim.url, victim.lock, victim.blocker.token, false))]));
}
function viewWaits(main) {
    const body = h('div');
    main.replaceChildren(body);
    return () => {
        const {all, edges} = waitGraph();
        refill(body, JSON.stringify([
            edges.map(e => [e.from.id, e.to.id, e.url, e.name, e.kind, e.cycle]),
            model.cycles.flat().map(s => [s.url, s.lock, s.waiter.claim, s.waiter.since_ms])
        ]),
            () => h('div', {class: model.cycles.length && 'graphcols'},
                h('section.card.panel.graph',
                    h('h2', 'Who waits for whom',
                        h('span.muted',
                            edges.length < all ?
                                `${edges.length} of ${plural(all, 'wait', 'waits')}: those behind somebody who waits, too` :
                                ''),
                        h('span.legend', model.cycles.length > 0 && edgeKey('likely cycle', 'cyc'), edgeKey('hard', 'hard'),
                            edgeKey('soft', 'soft'))),
                    edges.length ? h('div.scroll', {tabindex: 0, role: 'region', 'aria-label': 'graph'}, drawGraph(edges)) :
                                   h('p.empty', 'Nobody waits.')),
                model.cycles.length > 0 && h('div', model.cycles.slice(0, 5).map(cyclePanel))));
    };
}
