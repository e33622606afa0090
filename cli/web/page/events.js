/* events.js - what happened, and what the locks stand on. */

/* The colour of each kind; bad where it is not here. */
const EVENTS = {
    took: 'held',
    reached: 'held',
    went: 'foreign',
    suspect: 'suspect',
    'waits long': 'suspect',
    broken: 'broken',
    break: 'broken'
};
const capital = text => text[0].toUpperCase() + text.slice(1);
const AFTER = {
    went: 'held for ',
    lost: 'held for '
};
const USUAL = new Set(['took', 'went']);
function eventItem(e, withLock = true) {
    return h('li', h('time', {datetime: new Date(e.time_ms).toISOString()}, clock(e.time_ms)),
        h('span.g', {style: {background: `var(--${EVENTS[e.kind] || 'bad'})`}}),
        h('p', h('span.cmdname', capital(e.kind)), ' ',
            withLock && e.lock && [h('a.plain', {href: lockHref({name: e.lock, place: {url: e.url}})}, e.lock), ' '],
            h('span.muted', some([
                e.what, e.token && 'token ' + shortToken(e.token), e.ms !== null && AFTER[e.kind] && AFTER[e.kind] + duration(e.ms)
            ]).join(' · '))));
}
function viewEvents(main) {
    const items = h('ul.list'), title = h('span.muted');
    let usual = false;
    const button = h('button.chip', {
        'aria-pressed': 'false',
        onclick: () => {
            usual = !usual;
            button.setAttribute('aria-pressed', String(usual));
            changed();
        }
    },
        'took and went, too');
    main.replaceChildren(panel(['Events', title, h('span.legend', button)], items));
    return () => {
        const shown = model.events.filter(e => usual || !USUAL.has(e.kind)).slice(0, 300);
        refill(title, String(model.server.started_ms), () => 'since ' + clock(model.server.started_ms || 0));
        refill(items, usual + ' ' + shown.length + ' ' + (shown[0]?.number || 0),
            () => shown.length ? shown.map(e => eventItem(e)) : h('p.empty', 'Nothing needs attention.'));
    };
}

const SIGNS = {
    good: 'held',
    unknown: 'foreign',
    warning: 'suspect'
};
function placeCard(place) {
    const mini = (name, value) => h('div', h('span', name), h('b', value));
    return panel([(ENGINES[place.engine] || ['Not reached'])[0], h('span.muted.mono.url', place.url)],
        h('div.mini', mini('a look takes', place.took_ms.toFixed(1) + ' ms'), mini('locks', number(place.locks.size))),
        place.error && h('div.finding', icon(ICON.warning, {class: 's-stopped'}), h('div', h('p', place.error))),
        place.findings.map(
            f => h('div.finding', icon(ICON[f.severity], {class: 's-' + SIGNS[f.severity], role: 'img', 'aria-label': f.severity}),
                h('div', h('p', f.what), f.advice && h('p.advice', '→ ', f.advice)))),
        !place.error && !place.findings.length && h('p.empty', 'Not examined yet.'));
}
function viewHealth(main) {
    const body = h('div.health');
    main.replaceChildren(
        body, h('div.foot', h('span', 'as pawl doctor says it, every 5 minutes'), h('span', 'looking changes nothing')));
    return () => refill(body, model.look, () => [...model.places.values()].map(placeCard));
}
