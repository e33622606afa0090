/* What the test of the page asks it; see cli_web_page.py. */

const rowElements = () => [...document.querySelectorAll('.locks tbody tr:not(.pad)')];
const nameOf = tr => tr.querySelector('.name').textContent;
const tokenOf = tr => tr.querySelector('.c-token').title;

function rows() {
    return rowElements().map(tr => ({name: nameOf(tr), token: tokenOf(tr), waiters: tr.querySelector('.queue b').textContent}));
}
function tokenShown(name) {
    const row = rowElements().find(tr => nameOf(tr) === name);
    return row ? tokenOf(row) : '';
}

/* What is cut off on purpose, with an ellipsis or behind a scroll bar, is not too wide. */
function tooWide() {
    const wide = el => el.getBoundingClientRect().right > innerWidth + 1;
    const cut = el => {
        for (let up = el.parentElement; up !== document.body; up = up.parentElement)
            if (getComputedStyle(up).overflowX !== 'visible' && !wide(up))
                return true;
        return false;
    };
    const found = [...document.querySelectorAll('body *')].filter(el => wide(el) && !cut(el));
    const page = document.documentElement.scrollWidth > innerWidth ? ['the page'] : [];
    return [...found.map(el => el.tagName + '.' + el.getAttribute('class')), ...page];
}

function foreignRequests() {
    const names = performance.getEntriesByType('resource').map(entry => entry.name);
    return names.filter(name => !name.startsWith(location.origin + '/') && !name.startsWith('data:'));
}

/* Text with less contrast than 4.5 : 1 against what is behind it, by the formula of WCAG; of what can be seen. */
function faint() {
    const part = v => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b) + .05;
    const colour = text => text.match(/[\d.]+/g).map(Number);
    const behind = el => {
        for (; el; el = el.parentElement) {
            const found = colour(getComputedStyle(el).backgroundColor);
            if (found.length < 4 || found[3] === 1)
                return found;
        }
        return [255, 255, 255];
    };
    const ratio = el => {
        const both = [light(colour(getComputedStyle(el).color)), light(behind(el))];
        return Math.max(...both) / Math.min(...both);
    };
    const hasText = el => [...el.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim());
    const seen = [...document.querySelectorAll('body *')].filter(
        el => !el.disabled && el.getClientRects().length && !el.closest('svg') && hasText(el));
    return seen.filter(el => ratio(el) < 4.5).map(el => `${el.tagName}.${el.className} ${ratio(el)}: ${el.textContent.slice(0, 30)}`);
}

function times() {
    const paint = performance.getEntriesByType('paint').find(entry => entry.name === 'first-contentful-paint');
    const state = performance.getEntriesByType('resource').find(entry => entry.name.endsWith('/api/state'));
    return [paint.startTime, state.responseEnd, performance.now()];
}
