# SPDX-License-Identifier: Apache-2.0
# Draw and judge what demo/run wrote down. Each line: microseconds, event (ask, in, out, kill), who, token.
#
# -v mode=live draws what has happened until `now`; -v mode=final draws all of it, and then the verdict: exit status 1 if it is bad.

function paint(code, text) {
    return colour ? "\033[" code "m" text "\033[0m" : text
}

function cell_of(time) {
    cell = int(time * width / total)
    return cell < width ? cell : width - 1
}

# Tokens have 64 bits, a number here has 53.
function rose(from, to) {
    return length(to) > length(from) || (length(to) == length(from) && to "" > from "")
}

function fill(who, from, to, what,    i) {
    for (i = cell_of(from); i <= cell_of(to); i++)
        if (what == "held" || drawn[who, i] == "")
            drawn[who, i] = what
}

# The token goes into the middle of its hold, if there is room.
function write_token(who, from, to, token,    i, first, last, start) {
    first = cell_of(from)
    last = cell_of(to)
    start = first + int((last - first + 1 - length(token)) / 2)
    if (length(token) > last - first + 1)
        return
    written++
    for (i = 1; i <= length(token); i++)
        drawn[who, start + i - 1] = "token" substr(token, i, 1)
}

function symbol(what) {
    if (what == "held")
        return paint("32", utf8 ? "\342\226\210" : "#")
    if (what == "waits")
        return paint("33", utf8 ? "\302\267" : ".")
    if (what == "killed")
        return paint("1;31", utf8 ? "\342\234\227" : "X")
    if (what ~ /^token/)
        return paint("30;42", substr(what, 6))
    return " "
}

function draw_axis(    i, line, mark, step) {
    step = total <= 8000000 ? 1 : 5
    for (i = 0; i * 1000000 * step < total; i++) {
        mark = i * step " s"
        while (length(line) < cell_of(i * 1000000 * step))
            line = line " "
        line = line mark
    }
    printf "%-7s%s%s\n", "", line, clear
}

function draw(    i, j, line) {
    for (i = 1; i <= asks; i++)
        fill(asked_by[i], asked_at[i], i in granted_at ? granted_at[i] : now, "waits")
    for (i = 1; i <= holds; i++)
        fill(holder[i], from[i], to[i] == "" ? now : to[i], "held")
    for (i = 1; i <= holds; i++)
        write_token(holder[i], from[i], to[i] == "" ? now : to[i], token[i])
    if (killed)
        drawn[holder[killed], cell_of(to[killed])] = "killed"
    draw_axis()
    for (i = 1; i <= count; i++) {
        line = ""
        for (j = 0; j < width; j++)
            line = line symbol(drawn[name[i], j])
        printf "%-7s%s%s\n", name[i], line, clear
    }
}

function judge(good, text) {
    printf "  %s  %s\n", good ? paint("32", "yes") : paint("1;31", "NO "), text
    if (!good)
        bad = 1
}

# Holds in the order in which they began; there are few.
function sort_holds(    i, j, swap) {
    for (i = 1; i <= holds; i++)
        order[i] = i
    for (i = 2; i <= holds; i++)
        for (j = i; j > 1 && from[order[j - 1]] > from[order[j]]; j--) {
            swap = order[j]
            order[j] = order[j - 1]
            order[j - 1] = swap
        }
}

# How many digits all tokens begin with, where they are long (a server's time) and nobody would read them to their end; else 0.
function alike(    i, n) {
    n = length(token[1]) - 1
    for (i = 2; i <= holds; i++) {
        if (length(token[i]) != length(token[1]))
            return 0
        while (substr(token[i], 1, n) != substr(token[1], 1, n))
            n--
    }
    return n >= 6 ? n : 0
}

function verdict(    i, a, b, overlaps, falls, complete, next_in, tokens, cut) {
    sort_holds()
    complete = 1
    for (i = 1; i <= holds; i++)
        if (to[i] == "")
            complete = 0
    cut = alike()
    tokens = cut ? " (all begin with " substr(token[1], 1, cut) ", left out here): " : ": "
    tokens = tokens substr(token[order[1]], cut + 1)
    for (i = 2; i <= holds; i++) {
        a = order[i - 1]
        b = order[i]
        tokens = tokens " < " substr(token[b], cut + 1)
        if (to[a] == "" || to[a] > from[b])
            overlaps++
        if (!rose(token[a], token[b]))
            falls++
        if (a == killed)
            next_in = from[b] - to[a]
    }
    printf "\n%s holds    %s waits    %s killed%s\n\n", symbol("held"), symbol("waits"), symbol("killed"), \
        written ? "    the number in a hold is its token" : ""
    judge(holds >= 10 && complete, holds " holds, each with a beginning and an end")
    judge(!overlaps, "no two of them overlapped")
    judge(!falls, "the tokens rose" tokens)
    judge(killed && next_in != "", sprintf("%.1f ms after kill -9 the next one was in, its command started", next_in / 1000))
}

$2 == "ask" {
    asked_at[++asks] = $1
    asked_by[asks] = $3
    last_ask[$3] = asks
}
$2 == "in" {
    holder[++holds] = $3
    from[holds] = $1
    to[holds] = ""
    token[holds] = $4
    last_hold[$3] = holds
    granted_at[last_ask[$3]] = $1
}
$2 == "out" { to[last_hold[$3]] = $1 }
$2 == "kill" {
    killed = last_hold[$3]
    to[killed] = $1
}
$1 > latest { latest = $1 }

END {
    count = split(names, name, " ")
    width = columns - 8
    if (mode == "final")
        now = latest
    # Live, the scale is chosen for a scene that takes four seconds, until it takes longer.
    total = now > 4000000 || mode == "final" ? now : 4000000
    if (total < 1)
        total = 1
    clear = colour ? "\033[K" : ""
    draw()
    if (mode == "final")
        verdict()
    exit bad
}
