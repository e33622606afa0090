/* main.js - the bar, the break dialog, keys, and which view is shown. */

/* ---- break ---- */
function breakDialog(lock, p) {
    const box = byId('dialog'), tail = p.token.slice(-4),
          said = h('span.muted', {role: 'status'}, 'fails if the holder has changed');
    let now = false;
    const line = () => breakCommand(lock.place.url, lock.name, p.token, now);
    const go = h('button.btn.solid', {disabled: true, type: 'submit'}, 'Ask it to give up'), shown = h('div');
    const how = (value, title, small) => h('label.opt', h('input', {
        type: 'radio',
        name: 'how',
        checked: value === now,
        disabled: value && model.server.break !== 'now',
        onchange: () => {
            now = value;
            go.textContent = title;
            refill(shown, line(), () => commandLine(line()));
        }
    }),
        h('span', title, h('small', small)));
    async function send(event) {
        event.preventDefault();
        if (go.disabled)
            return;
        go.disabled = true;
        said.textContent = 'asking…';
        try {
            const answer = await ask('/api/break', {
                method: 'POST',
                headers: {'Content-Type': 'application/json'},
                body: JSON.stringify({url: lock.place.url, name: lock.name, token: p.token, now})
            });
            const text = (await answer.text()).trim();
            if (answer.ok)
                box.close();
            else
                said.textContent = text;
        } catch (error) {
            said.textContent = error.message;
        }
    }
    refill(shown, line(), () => commandLine(line()));
    box.replaceChildren(h('form.dlg', {onsubmit: send}, h('h3', 'Break the hold of ', lock.name, '?'),
        h('p', command(p), ', ', where(p), p.label && `, “${p.label}”`, p.since_ms && [', holds it for ', since(p.since_ms)], '. ',
            lock.waiters.length ? plural(lock.waiters.length, 'waits', 'wait') + '.' : 'Nobody waits.'),
        how(false, 'Ask it to give up', 'It is told as of a loss; pawl run ends its command. Free when it lets go.'),
        how(true, 'Free it now',
            model.server.break === 'now' ?
                'The next one is let in at once. The old holder may still be acting: only its token tells.' :
                'Only with pawl web --allow-break=now.'),
        h('div.field', h('label', 'Type the last digits of token ', h('span.mono', p.token.slice(0, -4), h('b', tail)), h('input', {
            id: 'tok',
            autocomplete: 'off',
            inputmode: 'numeric',
            placeholder: '····',
            maxlength: 4,
            oninput: e => {
                go.disabled = e.target.value !== tail;
            }
        }))),
        shown, h('div.row', said, h('button.btn', {onclick: () => box.close()}, 'Cancel'), go)));
    box.showModal();
    byId('tok').focus();
}

/* ---- the bar ---- */
const VIEWS = {
    '': viewLocks,
    waits: viewWaits,
    events: viewEvents,
    health: viewHealth,
    lock: viewLock
};
function bar(view) {
    const troubles = model.events.filter(e => !USUAL.has(e.kind)).length,
          warnings = [...model.places.values()].reduce(
              (n, p) => n + (p.error ? 1 : 0) + (p.findings || []).filter(f => f.severity === 'warning').length, 0);
    const link = (id, text, n, cls) =>
        h('a', {href: '#/' + id, 'aria-current': view === id || (id === '' && view === 'lock') ? 'page' : null}, text,
            n ? h('span.count', {class: cls || ''}, n) : null);
    const armed = {ask: 'break allowed', now: 'break --now allowed'}[model.server.break];
    return [
        h('a.brand', {href: '#/'},
            icon('M2 15.2h3.2V11h3.6V7.4h3.6V3.8H16|M16 8.4 10.6 14|M8.2 15a1.4 1.4 0 1 0 2.8 0a1.4 1.4 0 0 0-2.8 0',
                {viewBox: '0 0 18 18', 'stroke-width': 1.7}),
            'pawl'),
        h('nav', {'aria-label': 'views'}, link('', 'Locks', number(allLocks().length)),
            link('waits', 'Waits', model.cycles.length ? plural(model.cycles.length, 'cycle', 'cycles') : '', 'bad'),
            link('events', 'Events', troubles ? number(troubles) : ''),
            link('health', 'Health', warnings ? number(warnings) : '', 'warn')),
        h('div.grow'), model.look > 0 && h('span.badge', {class: armed && 'armed'}, armed || 'read-only'),
        h('button.live', {
            class: model.paused       ? 'paused' :
                model.live === 'live' ? '' :
                                        'lost',
            title: model.why || 'pause (Space)',
            onclick: pause
        },
            h('i'),
            model.paused ? 'paused' :
                key      ? model.live :
                           'no key',
            h('span.faint.num', {
                live: el => {
                    const ms = performance.now() - model.heard;
                    setText(el, model.heard && ms > 2500 ? duration(ms) + ' ago' : '');
                }
            })),
        h('button.icon', {title: 'light or dark (t)', onclick: turnTheme}, icon(ICON.moon))
    ];
}
function pause() {
    model.paused = !model.paused;
    draw();
}
function setTheme(name) {
    document.documentElement.dataset.theme = name;
}
function turnTheme() {
    setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
    localStorage.setItem('pawl-theme', document.documentElement.dataset.theme);
}

/* ---- views ---- */
let shownView = '', update = () => {};
function viewKey(main) {
    const field = h('input', {id: 'key', autocomplete: 'off', spellcheck: false, maxlength: 32, class: 'mono'});
    main.replaceChildren(h('form.card.ask', {
        onsubmit: e => {
            e.preventDefault();
            key = field.value.trim();
            sessionStorage.setItem('pawl-key', key);
            draw();
            connect();
        }
    },
        h('h1', 'The key, please'), h('p.muted', 'pawl web printed it with the address, behind the #.'),
        h('div.field', h('label', 'Key', field)), h('div.row', h('button.btn', {type: 'submit'}, 'Show the locks'))));
    return () => {};
}
/* Build the view if it is another one, and bring it up to date. */
function draw() {
    const [view = '', ...args] = location.hash.replace(/^#\/?/, '').split('/').map(part => {
        try {
            return decodeURIComponent(part);
        } catch {
            return part;
        }
    });
    const known = Object.hasOwn(VIEWS, view) ? view : '',
          wanted = key ? known + '\n' + args.join('\n') + (known === 'lock' && model.look === 0) : 'key', main = byId('main');
    refill(byId('bar'), [known, model.look, model.live, model.why, model.paused].join('\n'), () => bar(known));
    document.body.classList.toggle('stale', model.look > 0 && model.live !== 'live');
    refill(byId('places'), known === 'lock' ? '' : model.look, () => known !== 'lock' && places());
    if (shownView !== wanted) {
        shownView = wanted;
        update = key ? VIEWS[known](main, ...args) : viewKey(main);
        document.title = known === 'lock' ? args[0] + ' · pawl' : 'pawl' + (model.server.host ? ' · ' + model.server.host : '');
    }
    update();
}
let due = false;
changed = () => {
    if (!due) {
        due = true;
        requestAnimationFrame(() => {
            due = false;
            draw();
        });
    }
};

const KEYS = {
    t: turnTheme,
    ' ': pause,
    '/': () => byId('q')?.focus(),
    j: () => moveRow(1),
    ArrowDown: () => moveRow(1),
    k: () => moveRow(-1),
    ArrowUp: () => moveRow(-1),
    Enter: () => document.activeElement.lock && document.activeElement.click(),
    s: () => {
        const names = Object.keys(SORTS);
        setSort(names[(names.indexOf(ui.sort) + 1) % names.length]);
    },
    Escape: () => {
        if (location.hash.startsWith('#/lock'))
            location.hash = '#/';
    },
};
const ONLY_LOCKS = new Set(['j', 'k', 'ArrowDown', 'ArrowUp', 's', 'Enter']);
function onKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || byId('dialog').open)
        return;
    if (e.target.tagName === 'INPUT') {
        if (e.key === 'Escape')
            e.target.blur();
        return;
    }
    if ((e.key === ' ' || e.key === 'Enter') && ['BUTTON', 'A'].includes(e.target.tagName))
        return;
    const inLocks = shownView.startsWith('\n');
    if ('1234'.includes(e.key))
        location.hash = '#/' + ['', 'waits', 'events', 'health'][e.key - 1];
    if (update.onkey)
        update.onkey(e);
    if (!KEYS[e.key] || (ONLY_LOCKS.has(e.key) && !inLocks))
        return;
    e.preventDefault();
    KEYS[e.key]();
}

setTheme(localStorage.getItem('pawl-theme') || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'));
takeKey();
addEventListener('hashchange', () => {
    const had = key;
    takeKey();
    draw();
    scrollTo(0, 0);
    if (key !== had) {
        disconnect();
        connect();
    }
});
addEventListener('scroll', fillList, {passive: true});
addEventListener('resize', fillList);
addEventListener('keydown', onKey);
document.addEventListener('visibilitychange', () => document.hidden ? disconnect() : connect());
setInterval(() => {
    if (!model.paused)
        tick();
    if (shownView.startsWith('lock'))
        update();
}, 1000);
draw();
connect();
