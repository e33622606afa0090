/* SPDX-License-Identifier: Apache-2.0
 *
 * svg.c - pawl bench --svg: four panels on one page.
 *
 *     latency of a pair by percentile      latency of a hand-off by percentile
 *     hand-offs a second                   a hand-off in bare round trips
 *
 * Percentiles are drawn as HdrHistogram does it: each step to the right has a tenth of what was left, so that the rare ones, which are
 * what people wait for, have as much room as the others. Latencies are on a scale of powers of ten.
 */
#include <math.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { WIDTH = 1280, HEIGHT = 860 };

/* Told apart by those who don't see all colours, too (Okabe and Ito's). */
static const char *const colours[BENCH_TARGETS] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                   "#E69F00", "#56B4E9", "#000000", "#777777"};

/* A rectangle with a scale of powers of ten (or from 0, for bars of ratios) from bottom to top. */
struct panel {
    double x, y, width, height;
    double low, high; /* log10, or plain */
};

static void print_escaped(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '&')
            fputs("&amp;", out);
        else if (*text == '<')
            fputs("&lt;", out);
        else if ((unsigned char)*text >= ' ')
            fputc(*text, out);
    }
}

static void text_at(FILE *out, double x, double y, const char *class, const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
    print_escaped(out, text);
    fputs("</text>\n", out);
}

static void line_between(FILE *out, double x1, double y1, double x2, double y2, const char *class) {
    fprintf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class);
}

static double height_of(const struct panel *panel, double value) {
    double share = (value - panel->low) / (panel->high - panel->low);

    return panel->y + panel->height * (1 - fmin(fmax(share, 0), 1));
}

/* ---- Percentiles ---------------------------------------------------------------------------------------------------------- */

static const double decades = 4; /* to 99.99 % */

static double place_of(const struct panel *panel, double share) {
    return panel->x + panel->width * fmin(-log10(1 - share) / decades, 1);
}

static void draw_percentile_axes(FILE *out, const struct panel *panel) {
    static const double marks[] = {0, 0.5, 0.9, 0.99, 0.999, 0.9999};
    char text[32];

    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        double x = place_of(panel, marks[i]);

        line_between(out, x, panel->y, x, panel->y + panel->height, "grid");
        snprintf(text, sizeof text, "%.6g %%", marks[i] * 100);
        text_at(out, x, panel->y + panel->height + 18, "tick middle", text);
    }
    for (double power = panel->low; power < panel->high + 0.5; power++) {
        double y = height_of(panel, power);

        line_between(out, panel->x, y, panel->x + panel->width, y, "grid");
        snprintf(text, sizeof text, "%.0f %s", pow(10, power - 3 * floor(power / 3)),
                 power < 3   ? "ns"
                 : power < 6 ? "µs"
                 : power < 9 ? "ms"
                             : "s");
        text_at(out, panel->x - 8, y + 4, "tick end", text);
    }
}

static void draw_percentiles(FILE *out, const struct panel *panel, const struct histogram *histogram, const char *colour,
                             bool dashed) {
    uint64_t total = histogram_total(histogram);

    if (total < 10)
        return;
    fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-linejoin=\"round\"%s points=\"", colour,
            dashed ? "1.5" : "2.5", dashed ? " stroke-dasharray=\"4 4\"" : "");
    for (double step = 0; step <= decades * 16; step++) {
        double share = 1 - pow(10, -step / 16);

        if ((1 - share) * (double)total < 1)
            break;
        fprintf(out, "%.1f,%.1f ", place_of(panel, share), height_of(panel, log10(fmax(histogram_at(histogram, share), 1))));
    }
    fputs("\"/>\n", out);
}

/* So that all of it fits: whole powers of ten. */
static void scale_to(struct panel *panel, const struct bench *bench, enum row row) {
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < bench->count; i++)
        for (int bare = 0; bare < 2; bare++) {
            const struct histogram *histogram = &bench->targets[i].results[bare ? ROW_TRIP : row].latency;

            if (histogram_total(histogram) < 10)
                continue;
            low = fmin(low, log10(fmax(histogram_at(histogram, 0), 1)));
            high = fmax(high, log10(fmax(histogram_at(histogram, 0.9999), 1)));
        }
    panel->low = isinf(low) ? 0 : floor(low);
    panel->high = isinf(high) ? 1 : fmax(ceil(high), panel->low + 1);
}

static void draw_percentile_panel(FILE *out, const struct bench *bench, struct panel panel, enum row row) {
    text_at(out, panel.x, panel.y - 16, "head",
            row == ROW_PAIR ? "Acquire + release, nobody else" : "Release until the next one of 16 holds");
    text_at(out, panel.x + panel.width, panel.y - 16, "note end", "dashed: bare round trip");
    scale_to(&panel, bench, row);
    draw_percentile_axes(out, &panel);
    for (size_t i = 0; i < bench->count; i++) {
        draw_percentiles(out, &panel, &bench->targets[i].results[ROW_TRIP].latency, colours[i], true);
        draw_percentiles(out, &panel, &bench->targets[i].results[row].latency, colours[i], false);
    }
}

/* ---- Bars ----------------------------------------------------------------------------------------------------------------- */

static const struct {
    enum row row;
    const char *name;
} crowds[] = {{ROW_TURNS_2, "2 processes"}, {ROW_TURNS_16, "16 processes"}, {ROW_TURNS_64, "64 processes"}};
enum { CROWDS = sizeof crowds / sizeof crowds[0] };

typedef double value_fn(const struct target *target, enum row row);

static double rate_of(const struct target *target, enum row row) {
    return figure_median(&target->results[row].figures[RATE]);
}

/* A panel with a bar for each crowd and target: of rates, or of ratios. */
struct bars {
    struct panel panel;
    value_fn *value;
    bool rates;
    bool powers;  /* on a scale of powers of ten; else from 0, where all are of one size */
    double width; /* of a bar, with the room beside it */
};

/* Above a bar that is narrower than its label the label stands upright. */
enum { BAR_FOR_LABEL = 40, LABEL_HEIGHT = 20, UPRIGHT_HEIGHT = 46 };

static double bar_height(const struct bars *bars, double value) {
    return height_of(&bars->panel, bars->powers ? log10(value) : value);
}

static void draw_label(FILE *out, const struct bars *bars, double x, double y, double value) {
    char label[32];

    if (bars->rates)
        in_thousands(label, sizeof label, value);
    else
        snprintf(label, sizeof label, value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
    if (bars->width >= BAR_FOR_LABEL) {
        text_at(out, x, y - 5, "value middle", label);
        return;
    }
    fprintf(out, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" class=\"value\">%s</text>\n", x + 4, y - 5, label);
}

/* The bar; of rates a line from the slowest round to the fastest; and above both the figure. */
static void draw_bar(FILE *out, const struct bars *bars, const struct target *target, enum row row, double x, const char *colour) {
    const struct figure *rounds = &target->results[row].figures[RATE];
    double value = bars->value(target, row);

    if (value <= 0)
        return;
    double top = bar_height(bars, value), middle = x + bars->width / 2;
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" rx=\"2\"/>\n", x + 2, top, bars->width - 4,
            bars->panel.y + bars->panel.height - top, colour);
    if (bars->rates && rounds->count > 1 && figure_low(rounds) > 0) {
        top = bar_height(bars, figure_high(rounds));
        line_between(out, middle, bar_height(bars, figure_low(rounds)), middle, top, "whisker");
    }
    draw_label(out, bars, middle, top, value);
}

static void draw_powers(FILE *out, const struct panel *panel) {
    char text[32];

    for (double power = ceil(panel->low); power <= panel->high; power++) {
        double y = height_of(panel, power);

        line_between(out, panel->x, y, panel->x + panel->width, y, "grid");
        snprintf(text, sizeof text, power < 0 ? "%.4g" : "%.0f%s", pow(10, power < 0 ? power : fmod(power, 3)),
                 power < 3   ? ""
                 : power < 6 ? " k"
                             : " M");
        text_at(out, panel->x - 8, y + 4, "tick end", text);
    }
}

/* So that all of them fit, and the label of the highest too. */
static void scale_bars(struct bars *bars, const struct bench *bench) {
    double high = 0, low = INFINITY, room = bars->width < BAR_FOR_LABEL ? UPRIGHT_HEIGHT : LABEL_HEIGHT;

    for (int c = 0; c < CROWDS; c++)
        for (size_t i = 0; i < bench->count; i++) {
            const struct target *target = &bench->targets[i];
            double one = bars->value(target, crowds[c].row);

            low = one > 0 ? fmin(low, one) : low;
            high = fmax(high, bars->rates ? figure_high(&target->results[crowds[c].row].figures[RATE]) : one);
        }
    bars->powers = high > 0 && (bars->rates || high > 20 * low);
    bars->panel.low = bars->powers ? floor(log10(low)) - 0.3 : 0;
    bars->panel.high = high <= 0 ? 1 : bars->powers ? log10(high) : high;
    bars->panel.high += (bars->panel.high - bars->panel.low) * room / (bars->panel.height - room);
}

static void draw_bars(FILE *out, const struct bench *bench, struct panel panel, value_fn *value, bool rates) {
    double group = panel.width / CROWDS;
    struct bars bars = {.panel = panel, .value = value, .rates = rates, .width = fmin((group - 24) / (double)bench->count, 64)};

    scale_bars(&bars, bench);
    if (bars.powers)
        draw_powers(out, &bars.panel);
    if (!rates) /* what one bare round trip takes */
        line_between(out, panel.x, bar_height(&bars, 1), panel.x + panel.width, bar_height(&bars, 1), "one");
    line_between(out, panel.x, panel.y + panel.height, panel.x + panel.width, panel.y + panel.height, "axis");
    for (int c = 0; c < CROWDS; c++) {
        double x = panel.x + group * c + (group - bars.width * (double)bench->count) / 2;

        text_at(out, panel.x + group * (c + 0.5), panel.y + panel.height + 18, "tick middle", crowds[c].name);
        for (size_t i = 0; i < bench->count; i++)
            draw_bar(out, &bars, &bench->targets[i], crowds[c].row, x + bars.width * (double)i, colours[i]);
    }
}

/* ---- The page ------------------------------------------------------------------------------------------------------------- */

/* What it is, for those who don't know the addresses. */
static const char *title_of(const struct target *target, char *out, size_t size) {
    const char *options = strchr(target->shown, '?');

    if (strcmp(target->engine, "local") == 0)
        snprintf(out, size, "one machine");
    else if (strcmp(target->engine, "redlock") == 0)
        snprintf(out, size, "Redlock, %zu servers", target->address.host_count);
    else if (strstr(target->address.scheme, "cluster") != NULL)
        snprintf(out, size, "Redis Cluster");
    else if (strstr(target->address.scheme, "sentinel") != NULL)
        snprintf(out, size, "Redis with Sentinel");
    else
        snprintf(out, size, "%s", target->server[0] != '\0' ? target->server : target->engine);
    if (options != NULL)
        snprintf(out + strlen(out), size - strlen(out), ", %s", options);
    return out;
}

/* As people write it: a picture has all letters. */
static char *time_text(char *out, size_t size, double ns) {
    char plain[24], *unit;

    in_time_units(plain, sizeof plain, ns);
    unit = strstr(plain, " us");
    if (unit != NULL)
        *unit = '\0';
    snprintf(out, size, "%s%s", plain, unit != NULL ? " µs" : "");
    return out;
}

/* The address, without options, which stand in the title. */
static int short_address(char *out, size_t size, const char *url) {
    int length = (int)strcspn(url, "?"), most = 28;

    return snprintf(out, size, "%.*s%s", length > most ? most : length, url, length > most ? "..." : "");
}

/* Half a page for each. */
static void draw_legend(FILE *out, const struct bench *bench) {
    double x = 70, y = 96;

    for (size_t i = 0; i < bench->count; i++) {
        const struct target *target = &bench->targets[i];
        double trip = figure_median(&target->results[ROW_TRIP].figures[P50]);
        char title[128], time[40], where[160];
        int length = short_address(where, sizeof where, target->shown);

        if (trip > 0)
            snprintf(where + length, sizeof where - (size_t)length, ", %s %s", limit_name(target, ROW_TRIP),
                     time_text(time, sizeof time, trip));
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\" rx=\"3\" fill=\"%s\"/>\n", x, y - 12, colours[i]);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"legend\">", x + 22, y);
        print_escaped(out, title_of(target, title, sizeof title));
        fputs("<tspan class=\"where\" dx=\"10\">", out);
        print_escaped(out, where);
        fputs("</tspan></text>\n", out);
        x = i % 2 == 0 ? 700 : 70;
        y += i % 2 == 0 ? 0 : 24;
    }
}

static void draw_title(FILE *out, const struct bench *bench) {
    char text[512], date[32];
    time_t began = (time_t)(bench->began_ms / 1000);
    struct utsname machine;
    struct tm when;

    uname(&machine);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&began, &when));
    snprintf(text, sizeof text, "pawl %s, %s, medians of %d round%s; %s %.40s, %ld processors", pawl_version(), date, bench->rounds,
             bench->rounds > 1 ? "s" : "", machine.sysname, machine.release, sysconf(_SC_NPROCESSORS_ONLN));
    text_at(out, 70, 42, "title", "What a lock costs");
    text_at(out, 70, 66, "note", text);
}

void bench_print_svg(FILE *out, const struct bench *bench) {
    double top = 150 + 24 * (double)((bench->count + 1) / 2 - 1), height = (HEIGHT - top - 150) / 2, below = top + height + 80;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
            "<style>text{font-family:'Helvetica Neue',Helvetica,Arial,'DejaVu "
            "Sans',sans-serif;fill:#222}.title{font-size:26px;font-weight:"
            "bold}.note{font-size:13px;fill:#666}.head{font-size:16px;font-weight:bold}.legend{font-size:14px}.tick{font-size:12px;"
            "fill:#555}"
            ".value{font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}.middle{text-anchor:"
            "middle}.end{text-anchor:end}.grid{stroke:#e4e4e4;stroke-width:1}"
            ".axis{stroke:#888;stroke-width:1}.one{stroke:#888;stroke-width:1.5;stroke-dasharray:4 "
            "4}.whisker{stroke:#222;stroke-width:1.5;stroke-opacity:.6}"
            ".legend{font-weight:bold}.where{font-weight:normal;fill:#666;font-size:13px}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    draw_title(out, bench);
    draw_legend(out, bench);
    draw_percentile_panel(out, bench, (struct panel){.x = 70, .y = top, .width = 530, .height = height}, ROW_PAIR);
    draw_percentile_panel(out, bench, (struct panel){.x = 700, .y = top, .width = 530, .height = height}, ROW_TURNS_16);
    text_at(out, 70, below - 16, "head", "Hand-offs a second");
    draw_bars(out, bench, (struct panel){.x = 70, .y = below, .width = 530, .height = height}, rate_of, true);
    text_at(out, 600, below - 16, "note end", "lines: slowest to fastest round");
    text_at(out, 700, below - 16, "head", "A hand-off, in bare round trips");
    text_at(out, 1230, below - 16, "note end", "dashed: one round trip");
    draw_bars(out, bench, (struct panel){.x = 700, .y = below, .width = 530, .height = height}, ratio_to_limit, false);
    fputs("</svg>\n", out);
}
