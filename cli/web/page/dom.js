'use strict';
/* dom.js - elements, and words for numbers. Names, labels and commands are other people's words: they become text nodes and
   attributes, never markup, and no function here takes markup. */

const SVG = new Set(['svg', 'path', 'circle', 'rect', 'g', 'text', 'defs', 'marker']);

/* h('td.r.mono', { title: 'x' }, kids...): an element; kids that are nothing are left out. Attributes: on... are listeners, style is
   an object, live is called now and every second. */
const some = kids => kids.flat(9).filter(kid => kid || kid === 0);
function h(tag, ...kids) {
    const attributes = kids[0]?.constructor === Object ? kids.shift() : {}, [name, ...classes] = tag.split('.');
    const el = SVG.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
    el.append(...some(kids));
    if (name === 'svg' && !attributes.role)
        el.setAttribute('aria-hidden', 'true');
    if (name === 'button')
        el.type = 'button';
    if (attributes.class)
        classes.push(attributes.class);
    if (classes.length)
        el.setAttribute('class', classes.join(' '));
    for (const [key, value] of Object.entries(attributes)) {
        if (key === 'class' || value === null || value === undefined || value === false)
            continue;
        if (key.startsWith('on'))
            el.addEventListener(key.slice(2), value);
        else if (key === 'style')
            Object.assign(el.style, value);
        else if (key === 'live') {
            el.live = value;
            el.dataset.live = '';
            value(el);
        } else
            el.setAttribute(key, value === true ? '' : value);
    }
    return el;
}

/* What counts time by itself is brought up to now; nothing else is built anew for it. */
function tick() {
    for (const el of document.querySelectorAll('[data-live]'))
        el.live(el);
}
const byId = id => document.getElementById(id);
function setText(el, text) {
    if (el.textContent !== text)
        el.textContent = text;
}

/* Replace what an element holds, but only if `signature` says that it differs from what it shows already. */
function refill(el, signature, build) {
    if (el.shows === signature)
        return;
    el.shows = signature;
    el.replaceChildren(...some([build()]));
}

const icon = (d, extra) => h('svg', {
    viewBox: '0 0 16 16',
    fill: 'none',
    stroke: 'currentColor',
    'stroke-width': 1.5,
    'stroke-linecap': 'round',
    'stroke-linejoin': 'round',
    ...extra
},
    d.split('|').map(p => h('path', {d: p})));
const ICON = {
    search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM14 14l-3.4-3.4',
    moon: 'M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z',
    cycle: 'M13 6.5A5.2 5.2 0 0 0 3.4 5.2|M3 2.4v3h3|M3 9.5a5.2 5.2 0 0 0 9.6 1.3|M13 13.6v-3h-3',
    good: 'M3 8.5 6.5 12 13 4.5',
    warning: 'M8 2.5 14.5 13.5h-13Z|M8 6.8v3|M8 11.8v.01',
    unknown: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Z|M6.3 6.3a1.8 1.8 0 1 1 2.4 2c-.5.2-.7.6-.7 1|M8 11.3v.01',
    key: 'M10.5 9A3.5 3.5 0 1 0 7.2 6.7L2.5 11.4v2.1h2.6v-1.7h1.7v-1.7l1-1A3.5 3.5 0 0 0 10.5 9Z',
    back: 'M10 3 5 8l5 5',
};

/* ---- words ---- */
function duration(ms) {
    const s = Math.max(0, ms) / 1000;
    if (s < 1)
        return Math.round(s * 1000) + ' ms';
    if (s < 10)
        return s.toFixed(1) + ' s';
    if (s < 60)
        return Math.floor(s) + ' s';
    if (s < 3600)
        return Math.floor(s / 60) + ' m ' + String(Math.floor(s % 60)).padStart(2, '0') + ' s';
    if (s < 86400)
        return Math.floor(s / 3600) + ' h ' + String(Math.floor(s % 3600 / 60)).padStart(2, '0') + ' m';
    return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}
/* Live: for how long since then; from other hosts' clocks it is about right. */
const since = (ms, none = '?') => h('span.num', ms ? {live: el => setText(el, duration(model.now() - ms))} : none);
const number = n => n.toLocaleString('en');
const rateText = r => r === null ? '–' : r === 0 ? '0' : r >= 100 ? number(Math.round(r)) : r >= 1 ? r.toFixed(1) : r.toFixed(2);
const plural = (n, one, many) => `${number(n)} ${n === 1 ? one : many}`;
const where = p => p.host ? p.host + (p.pid ? ':' + p.pid : '') : 'host not known';
const command = p => p.command || (p.foreign ? 'a program that is not pawl' : 'not known');
const clock = ms => new Date(ms).toLocaleTimeString('en-GB');
const shortToken = token => token.length > 10 ? '…' + token.slice(-9) : token;
/* Commands to paste. Others' names may have anything in them: so they are quoted, behind all options, without control characters. */
const quoted = text => `'${text.replace(/\p{Cc}/gu, '?').replaceAll('\'', '\'\\\'\'')}'`;
const statusCommand = (url, name) => `pawl status -u ${quoted(url)} -- ${quoted(name)}`;
const breakCommand = (url, name, token, now) =>
    `pawl break -u ${quoted(url)} --token ${token}${now ? ' --now' : ''} -- ${quoted(name)}`;

/* ---- pieces that several views share ---- */
const panel = (title, ...kids) => h('section.card.panel', h('h2', title), kids);
const arrowHead = (id, fill) =>
    h('marker', {id, viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 6.5, markerHeight: 6.5, orient: 'auto'},
        h('path', {d: 'M0 .7 7.4 4 0 7.3Z', fill}));
/* A stroke for each look, the newest at the right. */
function sparkline(values, w, height) {
    const max = Math.max(...values, 1e-9), step = w / CELLS, x = i => w - (values.length - i - .5) * step;
    return h('svg', {viewBox: `0 0 ${w} ${height}`, fill: 'none'}, h('path', {d: `M0 ${height - 1}H${w}`, stroke: 'var(--line)'}),
        values.some(v => v > 0) && h('path', {
            d: values.map((v, i) => v > 0 ? `M${x(i).toFixed(1)} ${height - 1}v${(-2 - v / max * (height - 4)).toFixed(1)}` : '')
                   .join(''),
            stroke: 'var(--accent)',
            'stroke-width': step * .6,
            opacity: .75
        }));
}
const stateMark = s => h('span.state', {class: 's-' + s}, h('i'), h('b', s));
/* A line, a command to type, and a button that copies it. */
function commandLine(text) {
    const button = h('button', {onclick: () => copy(text, button)}, 'copy');
    return h('div.cmd', h('code', {title: text}, text), button);
}
async function copy(text, button) {
    const said = button.textContent;
    try {
        await navigator.clipboard.writeText(text);
        button.textContent = 'copied';
    } catch { /* there is none where the page came by plain HTTP from another host */
        button.textContent = 'not allowed';
    }
    setTimeout(() => {
        button.textContent = said;
    }, 1500);
}
function leaseBar(lock) {
    const p = lock.holders[0];
    if (!p || (lock.place.lease_ms === null && p.remaining_ms === null))
        return h('div.lease.none', {title: 'nothing expires here'}, p ? 'no lease' : '–');
    if (p.remaining_ms === null && p.foreign)
        return h('div.lease.none', {title: 'only pawl break --now ends it'}, 'no end');
    if (p.remaining_ms === null)
        return h('div.lease.session', {title: 'a session; others are not told what is left of it'}, h('div.track'),
            h('span.faint', duration(p.lease_ms ?? lock.place.lease_ms)));
    const lease = Math.max(p.lease_ms ?? lock.place.lease_ms ?? p.remaining_ms, 1), end = lock.seen_ms + p.remaining_ms;
    const fill = h('div.fill'), text = h('span');
    return h('div.lease', {
        class: lock.state === 'suspect' && 'suspect',
        live: () => {
            const left = Math.max(0, end - model.now());
            fill.style.width = Math.min(100, left / lease * 100).toFixed(1) + '%';
            setText(text, duration(left));
        }
    },
        h('div.track', fill), text);
}
