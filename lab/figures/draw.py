# SPDX-License-Identifier: Apache-2.0
"""Figures as SVG: one file for light and dark, in one language at a time.

Text is a pair (English, Chinese) wherever a reader sees it; what is the same in both is a plain string. A figure is made of parts, one
below the other: Sequence (who said what to whom), Trees (znodes, stage by stage), Chart (a quantity over time), Lanes (who holds when).
Each part tells its story: what it shows, as plain data, without times. The story stands in the file beside the drawing, so that a test
can hold it against the history of another run.
"""

import json
import unicodedata
from xml.sax.saxutils import escape, quoteattr

WIDTH = 880
STYLE = """
text { font: 13px system-ui, "Noto Sans CJK SC", sans-serif; fill: var(--ink); }
.over { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
svg { --ink: #1f2328; --soft: #656d76; --line: #b6bec8; --paper: #ffffff; --box: #f3f5f8; --good: #1a7f4b; --bad: #c4372c;
    --blue: #2563b0; --alarm: #fbe3e0; --hold: #bfe3cd; }
@media (prefers-color-scheme: dark) { svg { --ink: #e4e8ee; --soft: #98a2ae; --line: #56606c; --paper: #14181d; --box: #222830;
    --good: #5fcf92; --bad: #ff8278; --blue: #7fb2f5; --alarm: #4a2320; --hold: #1f5a3b; } }
.paper { fill: var(--paper); } .title { font-size: 17px; font-weight: 600; } .head { font-weight: 600; }
.soft { fill: var(--soft); font-size: 12px; } .mono { font: 12px ui-monospace, "DejaVu Sans Mono", "Noto Sans CJK SC", monospace; }
.middle { text-anchor: middle; } .end { text-anchor: end; } .good { fill: var(--good); } .bad { fill: var(--bad); }
.blue { fill: var(--blue); } .bold { font-weight: 600; } .life { stroke: var(--line); }
.grid { stroke: var(--line); stroke-width: .5; } .paused { stroke: var(--line); stroke-dasharray: 2 5; stroke-width: 2; }
.ask { stroke: var(--ink); stroke-width: 1.3; marker-end: url(#ask); }
.answer { stroke: var(--soft); stroke-dasharray: 4 3; marker-end: url(#answer); }
.watch { stroke: var(--blue); stroke-width: 1.5; fill: none; marker-end: url(#watch); } .tie { stroke: var(--line); fill: none; }
.thin { stroke-width: .8; stroke-dasharray: 3 3; } .box { fill: var(--box); stroke: var(--line); }
.holds { fill: var(--hold); stroke: var(--good); } .believes { fill: var(--paper); stroke: var(--bad); stroke-dasharray: 3 2; }
.ephemeral { stroke-dasharray: 5 3; } .alarm { fill: var(--alarm); } .alarmed { stroke: var(--alarm); }
.gone { fill: none; stroke: var(--bad); stroke-dasharray: 3 3; } .cross { stroke: var(--bad); stroke-width: 2.5; }
.series0 { stroke: var(--bad); fill: none; stroke-width: 2; } .series1 { stroke: var(--blue); fill: none; stroke-width: 2; }
.waits { stroke: var(--line); stroke-width: 2; stroke-dasharray: 2 4; }
"""
MARKERS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    f'<path d="M0 0L8 4L0 8z" style="fill:var(--{colour})"/></marker>'
    for name, colour in (("ask", "ink"), ("answer", "soft"), ("watch", "blue"))
)


def said(text, language):
    return text if isinstance(text, str) else text[language]


def both(text, **values):
    """A pair of texts with the same values in it."""
    return tuple(part.format(**values) for part in text)


class Tokens:
    """What actors said of their holds. Tokens have letters, in the order in which they were given: their numbers differ from run to run."""

    def __init__(self):
        self.given = []

    def said(self, answer):
        """The figure's words for an answer such as 'held 17'; an error stands as it came."""
        verb, *token = answer.split()
        if verb != "held":
            return answer
        letter, ahead, last = chr(ord("A") + len(self.given)), "", self.given[-1:]
        if last:
            ahead = f" {'>' if int(token[0]) > last[0] else '<'} {chr(ord(letter) - 1)}"
        self.given.append(int(token[0]))
        return both(("held, token {letter}{ahead}", "获得锁，令牌 {letter}{ahead}"), letter=letter, ahead=ahead)


def wide(text):
    """How wide a text is, about, in pixels."""
    return sum(13 if unicodedata.east_asian_width(letter) in "WF" else 7.2 for letter in text)


def wrap(text, room):
    """Lines that fit the room; Chinese may be broken anywhere, English at blanks."""
    words, lines = [], [""]
    for letter in text:
        if not words or letter == " " or words[-1][-1] == " " or unicodedata.east_asian_width(letter) in "WF":
            words.append("")
        words[-1] += letter
    for word in words:
        if lines[-1] and wide(lines[-1] + word.rstrip()) > room:
            lines.append("")
        lines[-1] += word if lines[-1] else word.lstrip()
    return [line.rstrip() for line in lines]


def scale(most):
    """Marks of an axis up to `most`, about four, at round numbers."""
    step = next(part * 10**power for power in range(12) for part in (1, 2, 5) if part * 10**power * 5 >= most)
    return [step * index for index in range(int(most // step) + 1)]


class Canvas:
    """Elements of one file, in the order in which they are painted."""

    def __init__(self, language):
        self.language, self.under, self.out, self.y = language, [], [], 0

    def text(self, x, y, text, kind=""):
        self.out.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(said(text, self.language))}</text>')

    def line(self, x1, y1, x2, y2, kind):
        self.out.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>')

    def box(self, x, y, width, height, kind, below=False):
        element = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" class="{kind}"/>'
        (self.under if below else self.out).append(element)

    def path(self, points, kind):
        self.out.append(f'<path d="{points}" class="{kind}"/>')

    def cross(self, x, y):
        self.line(x - 6, y - 6, x + 6, y + 6, "cross")
        self.line(x - 6, y + 6, x + 6, y - 6, "cross")

    def paragraph(self, text, kind="", indent=0):
        for line in wrap(said(text, self.language), WIDTH - 48 - indent):
            self.text(24 + indent, self.y, line, kind)
            self.y += 19


class Sequence:
    """Who said what to whom, from top to bottom. What a lane holds is a bar on its line: filled while it really holds, hollow
    while it only believes so. Where two bars stand side by side, two work at once, and the row is marked."""

    def __init__(self, heading, lanes):
        self.heading, self.lanes, self.rows = heading, lanes, []

    def row(self, *what):
        self.rows.append(what)

    def ask(self, who, to, text, answer=None):
        """`answer`: as it came; a pair where it has words."""
        self.row("ask", who, to, text, answer if answer is None or isinstance(answer, tuple) else str(answer))

    def note(self, who, text, kind=""):
        self.row("note", who, text, kind)

    def hold(self, who, state):
        """`state`: holds, believes, or None; from here on."""
        self.row("hold", who, state)

    def crash(self, who, text):
        self.row("crash", who, text)

    def pause(self, who, text):
        self.row("pause", who, text)

    def resume(self, who, text):
        self.row("resume", who, text)

    def story(self):
        return [self.heading, *self.rows]

    def draw(self, canvas):
        names = [name for name, _ in self.lanes]
        step = (WIDTH - 48) / len(names)
        place = {name: 24 + step * (index + 0.5) for index, name in enumerate(names)}
        canvas.y += 8
        if self.heading:
            canvas.paragraph(self.heading, "head")
        for name, label in self.lanes:
            canvas.box(place[name] - 58, canvas.y - 6, 116, 26, "box")
            canvas.text(place[name], canvas.y + 12, label, "middle bold")
        canvas.y += 20
        self.draw_rows(canvas, place, step)

    def draw_rows(self, canvas, place, step):
        top, life = canvas.y, {name: ("life", canvas.y) for name in place}
        bars, state = [], {}

        def change(name, kind):
            if name in life:
                before, since = life.pop(name)
                canvas.under.append(f'<line x1="{place[name]:.1f}" y1="{since}" x2="{place[name]:.1f}" y2="{canvas.y}" class="{before}"/>')
            if kind:
                life[name] = (kind, canvas.y)

        def hold(name, kind):
            if name in state:
                bars.append((name, *state.pop(name), canvas.y))
            if kind:
                state[name] = (kind, canvas.y)

        canvas.y += 12
        for verb, who, *rest in self.rows:
            if verb == "hold":
                hold(who, rest[0])
                continue
            canvas.y += 18
            if verb == "ask":
                self.draw_ask(canvas, place[who], place[rest[0]], rest[1], rest[2])
            else:
                if verb == "crash":
                    change(who, None)
                    hold(who, None)
                    canvas.cross(place[who], canvas.y)
                elif verb == "pause":
                    change(who, "paused")
                elif verb == "resume":
                    change(who, "life")
                self.draw_note(canvas, place, who, rest[0], rest[1] if len(rest) > 1 else "", step)
                canvas.y += 4
            canvas.y += 8
        canvas.y += 14
        for name in list(life):
            change(name, None)
        for name in list(state):
            hold(name, None)
        self.draw_bars(canvas, place, bars)
        canvas.y += 8  # Chinese letters are higher than Latin ones
        assert canvas.y > top

    @staticmethod
    def draw_ask(canvas, x, to, text, answer):
        side = 1 if to > x else -1
        middle = (x + to) / 2
        canvas.text(middle, canvas.y - 5, text, "middle mono over")
        canvas.line(x + 7 * side, canvas.y, to - 7 * side, canvas.y, "ask")
        if answer is not None:
            canvas.y += 17
            canvas.line(to - 7 * side, canvas.y - 8, x + 7 * side, canvas.y - 8, "answer")
            english = said(answer, 0)
            good = "good" if english in ("OK", "1", "written") or english.startswith("held") else "soft" if english == "queued" else ""
            canvas.text(middle, canvas.y + 5, "→ " + said(answer, canvas.language), f"middle mono over {good}")
            canvas.y += 7

    @staticmethod
    def draw_note(canvas, place, who, text, kind, step):
        x = place[who]
        last = x > WIDTH - 24 - step
        lines = wrap(said(text, canvas.language), (x - 40) if last else WIDTH - x - 36)
        for index, line in enumerate(lines):
            canvas.text(x - 14 if last else x + 14, canvas.y + 4, line, ("end over " if last else "over ") + kind)
            canvas.y += 17 if index + 1 < len(lines) else 0

    @staticmethod
    def draw_bars(canvas, place, bars):
        alarm, first = ("two at once", "同时持有"), min(place.values())
        left = 20 if 20 + wide(said(alarm, canvas.language)) < first - 8 else first + 12
        for name, kind, top, bottom in bars:
            canvas.box(place[name] - 5, top, 10, max(bottom - top, 4), kind, below=True)
        for index, (name, _, top, bottom) in enumerate(bars):
            for other, _, begin, end in bars[:index]:
                if other != name and min(bottom, end) - max(top, begin) > 8:
                    y, height = max(top, begin), min(bottom, end) - max(top, begin)
                    canvas.under.insert(0, f'<rect x="12" y="{y}" width="{WIDTH - 24}" height="{height}" class="alarm"/>')
                    canvas.text(left, y + 14, alarm, "soft bold bad over alarmed")


class Trees:
    """Znodes below their parent, stage by stage from left to right. A node is (name, kind, owner, note): kind has the words persistent or
    ephemeral, and holds or gone; a watch is (client, name of the node, how far ahead that is)."""

    def __init__(self, heading, parent):
        self.heading, self.parent, self.stages = heading, parent, []

    def stage(self, caption, nodes, watches=(), crashed=()):
        self.stages.append((caption, [list(node) for node in nodes], [list(watch) for watch in watches], list(crashed)))

    def story(self):
        return [self.heading, self.parent, *self.stages]

    def draw(self, canvas):
        canvas.y += 8
        if self.heading:
            canvas.paragraph(self.heading, "head")
        step = (WIDTH - 48) / len(self.stages)
        top, most = canvas.y, max(len(stage[1]) for stage in self.stages)
        for index, stage in enumerate(self.stages):
            canvas.y = top
            self.draw_stage(canvas, 24 + step * index, step - 16, *stage)
        canvas.y = top + 96 + most * 46

    def draw_stage(self, canvas, x, width, caption, nodes, watches, crashed):
        for index, line in enumerate(wrap(said(caption, canvas.language), width)):
            canvas.text(x, canvas.y + 4 + 17 * index, line, "soft")
        canvas.y += 44
        canvas.box(x, canvas.y, min(width, 150), 26, "box")
        canvas.text(x + 8, canvas.y + 17, self.parent, "mono")
        trunk, places = x + 12, {}
        for name, kind, owner, note in nodes:
            canvas.y += 46
            self.draw_node(canvas, x + 28, min(width - 30, 196), name, kind, owner, note, owner in crashed)
            canvas.path(f"M{trunk} {canvas.y - (20 if not places else 33)}V{canvas.y + 13}H{x + 28}", "tie")
            places[name], places[owner] = canvas.y + 13, places.get(owner, canvas.y + 13)
        right = x + 28 + min(width - 30, 196)
        for client, name, ahead in watches:
            start, end, bow = places[client] - 3 * ahead + 3, places[name] + 7 - 4 * ahead, 14 + 14 * ahead
            path = f"M{right} {start}C{right + bow} {start} {right + bow} {end} {right + 3} {end}"
            canvas.path(path, "watch" if ahead == 1 else "watch thin")

    @staticmethod
    def draw_node(canvas, x, width, name, kind, owner, note, crashed):
        look = "gone" if "gone" in kind else "holds" if "holds" in kind else "box"
        canvas.box(x, canvas.y, width, 26, look + (" ephemeral" if "ephemeral" in kind else ""))
        canvas.text(x + 8, canvas.y + 17, name, "mono" + (" bad" if "gone" in kind else ""))
        if owner:
            canvas.text(x + 8, canvas.y + 39, (owner, owner.replace("client", "客户端")), "soft")
        if note:
            indent = 62 if owner else 0
            canvas.text(x + 8 + indent, canvas.y + 39, note, "soft bold " + ("good" if "holds" in kind else ""))
        if crashed:
            canvas.cross(x + width - 12, canvas.y + 34)


class Chart:
    """Quantities over time, as steps. The story has what was claimed of them; the figures differ from run to run."""

    def __init__(self, heading, across, up, claims):
        self.heading, self.across, self.up, self.claims, self.series, self.marks = heading, across, up, claims, [], []

    def line(self, label, points, figure=""):
        """`figure`: what was measured, behind the label."""
        self.series.append((label, points, figure))

    def mark(self, at, text):
        self.marks.append((at, text))

    def story(self):
        return [self.heading, [label for label, _, _ in self.series], self.claims]

    def draw(self, canvas):
        canvas.y += 8
        canvas.paragraph(self.heading, "head")
        right = max(point[0] for _, points, _ in self.series for point in points)
        high = max(point[1] for _, points, _ in self.series for point in points) or 1
        left, top, width, height = 76, canvas.y + 12, WIDTH - 130, 190
        for value in scale(high):
            y = top + height * (1 - value / high)
            canvas.line(left, y, left + width, y, "grid")
            canvas.text(left - 8, y + 4, f"{value:,}", "soft end")
        for value in scale(right):
            canvas.text(left + width * value / right, top + height + 18, f"{value:,}", "soft middle")
        canvas.text(left, top - 6, self.up, "soft")
        canvas.text(left + width, top + height + 36, self.across, "soft end")
        for at, text in self.marks:
            x = left + width * at / right
            canvas.line(x, top, x, top + height, "paused")
            canvas.text(x + 5, top + height / 2, text, "soft over")
        for index, (label, points, figure) in enumerate(self.series):
            steps = [f"M{left + width * points[0][0] / right:.1f} {top + height * (1 - points[0][1] / high):.1f}"]
            for x, y in points[1:]:
                steps.append(f"H{left + width * x / right:.1f}V{top + height * (1 - y / high):.1f}")
            canvas.path("".join(steps), f"series{index}")
            text = said(label, canvas.language) + said(figure, canvas.language)
            canvas.text(left + 4, top + height + 36 + 18 * index, text, "bold " + ("bad", "blue")[index])
        canvas.y = top + height + 44 + 18 * len(self.series)


class Lanes:
    """Who waits, and who holds, when: rows (name, asked, held, released, token), in ms."""

    def __init__(self, heading, claims):
        self.heading, self.claims, self.rows = heading, claims, []

    def row(self, *what):
        self.rows.append(what)

    def story(self):
        return [self.heading, len(self.rows), self.claims]

    def draw(self, canvas):
        canvas.y += 8
        canvas.paragraph(self.heading, "head")
        end = max(released for _, _, _, released, _ in self.rows)
        left, width = 110, WIDTH - 150
        for name, asked, held, released, token in self.rows:
            canvas.y += 24
            canvas.text(left - 12, canvas.y + 4, name, "mono end")
            scale = [left + width * moment / end for moment in (asked, held, released)]
            canvas.line(scale[0], canvas.y, scale[1], canvas.y, "waits")
            canvas.box(scale[1], canvas.y - 8, max(scale[2] - scale[1], 3), 16, "holds")
            canvas.text((scale[1] + scale[2]) / 2, canvas.y + 4, str(token), "mono middle")
        canvas.y += 24
        canvas.text(left, canvas.y + 4, "0", "soft")
        canvas.text(left + width, canvas.y + 4, f"{end:.0f} ms", "soft end")
        canvas.y += 12


class Figure:
    def __init__(self, name, title, *parts, under=""):
        self.name, self.title, self.parts, self.under = name, title, parts, under

    def story(self):
        """As it comes back from JSON."""
        return json.loads(json.dumps([self.title, *(part.story() for part in self.parts)], ensure_ascii=False))

    def svg(self, language):
        canvas = Canvas(language)
        canvas.y = 34
        canvas.paragraph(self.title, "title")
        for part in self.parts:
            part.draw(canvas)
            canvas.y += 12
        if self.under:
            canvas.paragraph(self.under, "soft")
        command = f"lab/figures/run {self.name}"
        canvas.paragraph((f"drawn from a run on a real server: {command}", f"据真实服务器上的一次运行绘制：{command}"), "soft")
        height = canvas.y + 4
        story = escape(json.dumps(self.story(), ensure_ascii=False))
        label = quoteattr(said(self.title, language))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" lang="{("en", "zh-CN")[language]}" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
            f"aria-label={label}>\n"
            f"<metadata>{story}</metadata>\n<style>{STYLE}</style>\n<defs>{MARKERS}</defs>\n"
            f'<rect width="{WIDTH}" height="{height:.0f}" class="paper"/>\n' + "\n".join(canvas.under + canvas.out) + "\n</svg>\n"
        )
