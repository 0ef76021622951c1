/* Line plots: axes, a line for each series, and the series' names at the lines' ends. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 456, HEIGHT = 290, LEFT = 60, TOP = 30, BOTTOM = 246, RIGHT_MARGIN = 14 };
enum { MOST_LABELS = 12, MOST_DOTS = 40, DOTTED_SERIES = 4, LABEL_STEP = 12, LABEL_WIDTH = 40 };
static const double letter_width = 7.2;

void sim_write_escaped(fed_writer *w, const char *text) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fed_write_printf(w, "&lt;");
            break;
        case '>':
            fed_write_printf(w, "&gt;");
            break;
        case '&':
            fed_write_printf(w, "&amp;");
            break;
        case '"':
            fed_write_printf(w, "&quot;");
            break;
        default:
            if ((unsigned char)*text >= ' ' || *text == '\n' || *text == '\t') {
                fed_write_bytes(w, text, 1);
            }
        }
    }
}

typedef struct line_end {
    const char *label;
    size_t style;
    double x, y;
} line_end;

typedef struct drawing {
    const sim_chart *chart;
    fed_writer *w;
    sim_axis x, y;
    double right;
    line_end end[MOST_LABELS];
    size_t end_count;
} drawing;

static void stretch(double value, double *least, double *most) {
    *least = isnan(*least) || value < *least ? value : *least;
    *most = isnan(*most) || value > *most ? value : *most;
}

/** A logarithmic axis begins at the lines' least value, not at the foot of a band. */
static void stretch_band(const sim_series *s, size_t k, bool log, double *least, double *most) {
    if (isfinite(s->low[k]) && isfinite(s->high[k])) {
        stretch(log ? s->y[k] : s->low[k], least, most);
        stretch(s->high[k], least, most);
    }
}

static void fit(drawing *d) {
    const sim_chart *c = d->chart;
    double low_x = (double)NAN, high_x = low_x, low_y = low_x, high_y = low_x;
    size_t letters = 0;
    for (size_t s = 0; s < c->count; s++) {
        for (size_t k = 0; k < c->series[s].count; k++) {
            const double x = c->series[s].x[k], y = c->series[s].y[k];
            const bool shown = isfinite(x) && isfinite(y) && (!c->x_log || x > 0);
            if (shown) {
                stretch(x, &low_x, &high_x);
                stretch(y, &low_y, &high_y);
            }
            if (shown && c->series[s].low != NULL) {
                stretch_band(&c->series[s], k, c->y_log, &low_y, &high_y);
            }
        }
        const size_t len = c->series[s].label != NULL ? strlen(c->series[s].label) : 0;
        letters = len > letters ? len : letters;
    }
    sim_axis_fit(&d->x, c->x_unit, low_x, high_x, c->x_log);
    sim_axis_fit(&d->y, c->y_unit, low_y, high_y, c->y_log);
    const bool named = letters > 0 && c->count <= MOST_LABELS;
    d->right = WIDTH - RIGHT_MARGIN - (named ? letter_width * (double)letters : 0);
    d->x.from = LEFT;
    d->x.to = d->right;
    d->y.from = BOTTOM;
    d->y.to = TOP + 8;
}

static void draw_name(const drawing *d, const char *name, const sim_axis *axis) {
    sim_write_escaped(d->w, name);
    if (axis->word[0] != '\0') {
        fed_write_printf(d->w, " (%s)", axis->word);
    }
}

static void draw_title(const drawing *d) {
    draw_name(d, d->chart->title, &d->y);
    fed_write_printf(d->w, " against %s", d->chart->against);
}

static void draw_axes(const drawing *d) {
    fed_writer *w = d->w;
    char text[24];
    for (size_t k = 0; k < d->y.tick_count; k++) {
        const double y = sim_axis_place(&d->y, d->y.tick[k]);
        fed_write_printf(w, "<path class=\"grid\" d=\"M%d %.1fH%.1f\"/>", LEFT, y, d->right);
        fed_write_printf(w,
                         "<text class=\"tick\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>",
                         LEFT - 6, y + 4, sim_axis_text(&d->y, d->y.tick[k], text));
    }
    fed_write_printf(w, "<path class=\"axis\" d=\"M%d %dH%.1f", LEFT, BOTTOM, d->right);
    for (size_t k = 0; k < d->x.tick_count; k++) {
        fed_write_printf(w, "M%.1f %dv4", sim_axis_place(&d->x, d->x.tick[k]), BOTTOM);
    }
    fed_write_printf(w, "\"/>");
    for (size_t k = 0; k < d->x.tick_count; k++) {
        fed_write_printf(
            w, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>",
            sim_axis_place(&d->x, d->x.tick[k]), BOTTOM + 17,
            sim_axis_text(&d->x, d->x.tick[k], text));
    }
    fed_write_printf(w, "<text class=\"name\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                     (LEFT + d->right) / 2, BOTTOM + 36);
    draw_name(d, d->chart->x_name, &d->x);
    fed_write_printf(w, "</text>");
}

/** Points whose x, rounded to half a pixel, is the same. At most four of them are drawn. */
typedef struct column {
    double x, first, least, most, last;
    size_t count;
} column;

static void draw_column(fed_writer *w, const column *c, bool begins) {
    fed_write_printf(w, "%c%.1f %.1f", begins ? 'M' : 'L', c->x, c->first);
    if (c->count > 2) {
        fed_write_printf(w, "V%.1fV%.1f", c->least, c->most);
    }
    if (c->count > 1) {
        fed_write_printf(w, "V%.1f", c->last);
    }
}

/** Draw a path through the points; points in the same column are joined. Returns the number of
 * points. last: set to the position of the last point. */
static size_t draw_line(const drawing *d, const sim_series *s, double last[2]) {
    column c = {0};
    size_t points = 0;
    bool begins = true;
    for (size_t k = 0; k < s->count; k++) {
        if (!sim_axis_takes(&d->x, s->x[k]) || !sim_axis_takes(&d->y, s->y[k])) {
            continue;
        }
        const double x = floor(2 * sim_axis_place(&d->x, s->x[k]) + 0.5) / 2;
        const double y = sim_axis_place(&d->y, s->y[k]);
        if (c.count > 0 && x != c.x) {
            draw_column(d->w, &c, begins);
            begins = false;
            c.count = 0;
        }
        c = c.count == 0 ? (column){x, y, y, y, y, 0}
                         : (column){x, c.first, fmin(c.least, y), fmax(c.most, y), y, c.count};
        c.count++;
        points++;
        last[0] = x;
        last[1] = y;
    }
    if (c.count > 0) {
        draw_column(d->w, &c, begins);
    }
    return points;
}

static bool is_banded(const drawing *d, const sim_series *s, size_t k) {
    return sim_axis_takes(&d->x, s->x[k]) && isfinite(s->low[k]) && isfinite(s->high[k]);
}

static double edge_of(const drawing *d, double value) {
    return sim_axis_place(&d->y, fmin(fmax(value, d->y.low), d->y.high));
}

/** Draw the band: forward along its upper edge, and back along its lower one. Of points in the same
 * half pixel, the last one is drawn. */
static void draw_band(const drawing *d, const sim_series *s, size_t colour) {
    char command = 'M';
    fed_write_printf(d->w, "<path class=\"band c%zu\" d=\"", colour);
    for (size_t step = 0; step < 2 * s->count; step++) {
        const bool back = step >= s->count;
        const size_t k = back ? 2 * s->count - 1 - step : step;
        const size_t next = back ? k - 1 : k + 1;
        if (!is_banded(d, s, k)) {
            continue;
        }
        const double x = floor(2 * sim_axis_place(&d->x, s->x[k]) + 0.5) / 2;
        const bool last = step + 1 == s->count || step + 1 == 2 * s->count;
        if (last || !is_banded(d, s, next) ||
            floor(2 * sim_axis_place(&d->x, s->x[next]) + 0.5) / 2 != x) {
            fed_write_printf(d->w, "%c%.1f %.1f", command, x,
                             edge_of(d, back ? s->low[k] : s->high[k]));
            command = 'L';
        }
    }
    fed_write_printf(d->w, "%s\"/>", command == 'L' ? "Z" : "");
}

static void draw_dots(const drawing *d, const sim_series *s, size_t colour) {
    for (size_t k = 0; k < s->count; k++) {
        if (sim_axis_takes(&d->x, s->x[k]) && sim_axis_takes(&d->y, s->y[k])) {
            fed_write_printf(d->w, "<circle class=\"c%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"1.9\"/>",
                             colour, sim_axis_place(&d->x, s->x[k]),
                             sim_axis_place(&d->y, s->y[k]));
        }
    }
}

static void draw_series(drawing *d, size_t index) {
    const sim_series *s = &d->chart->series[index];
    const size_t colour = s->style % SIM_COLOURS, dash = s->style / SIM_COLOURS % SIM_DASHES;
    double last[2] = {0, 0};
    fed_write_printf(d->w, "<g>");
    if (s->title != NULL) {
        fed_write_printf(d->w, "<title>");
        sim_write_escaped(d->w, s->title);
        fed_write_printf(d->w, "</title>");
    }
    if (s->low != NULL) {
        draw_band(d, s, colour);
    }
    fed_write_printf(d->w, "<path class=\"line c%zu d%zu\" d=\"", colour, dash);
    const size_t points = draw_line(d, s, last);
    fed_write_printf(d->w, "\"/>");
    if (points <= MOST_DOTS && d->chart->count <= DOTTED_SERIES) {
        draw_dots(d, s, colour);
    }
    fed_write_printf(d->w, "</g>");
    if (s->label != NULL && points > 0 && d->chart->count <= MOST_LABELS) {
        d->end[d->end_count++] = (line_end){s->label, s->style, last[0], last[1]};
    }
}

static int by_y(const void *a, const void *b) {
    const line_end *p = a, *q = b;
    return (p->y > q->y) - (p->y < q->y);
}

static bool meet(const line_end *a, const line_end *b) {
    return fabs(a->x - b->x) < LABEL_WIDTH && fabs(a->y - b->y) < LABEL_STEP;
}

/** Write names beside the ends of their lines. A first pass pushes names down that overlap others.
 * A second pass, from the bottom, pushes names up until none lies below the plot. */
static void draw_labels(drawing *d) {
    const size_t n = d->end_count;
    qsort(d->end, n, sizeof d->end[0], by_y);
    for (size_t k = 1; k < n; k++) {
        for (size_t above = 0; above < k; above++) {
            d->end[k].y =
                meet(&d->end[k], &d->end[above]) ? d->end[above].y + LABEL_STEP : d->end[k].y;
        }
    }
    for (size_t k = n; k-- > 0;) {
        d->end[k].y = fmin(d->end[k].y, BOTTOM);
        for (size_t below = n; below-- > k + 1;) {
            d->end[k].y =
                meet(&d->end[k], &d->end[below]) ? d->end[below].y - LABEL_STEP : d->end[k].y;
        }
        fed_write_printf(d->w, "<text class=\"end c%zu\" x=\"%.1f\" y=\"%.1f\">",
                         d->end[k].style % SIM_COLOURS, d->end[k].x + 5, d->end[k].y + 4);
        sim_write_escaped(d->w, d->end[k].label);
        fed_write_printf(d->w, "</text>");
    }
}

static bool has_points(const sim_chart *chart) {
    for (size_t s = 0; s < chart->count; s++) {
        for (size_t k = 0; k < chart->series[s].count; k++) {
            if (isfinite(chart->series[s].x[k]) && isfinite(chart->series[s].y[k])) {
                return true;
            }
        }
    }
    return false;
}

void sim_chart_draw(const sim_chart *chart, fed_writer *w) {
    drawing d = {.chart = chart, .w = w};
    fit(&d);
    fed_write_printf(w,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                     "role=\"img\" aria-label=\"",
                     WIDTH, HEIGHT);
    draw_title(&d);
    fed_write_printf(w, "\"><text class=\"title\" x=\"4\" y=\"16\">");
    draw_title(&d);
    fed_write_printf(w, "</text>");
    draw_axes(&d);
    for (size_t s = 0; s < chart->count; s++) {
        draw_series(&d, s);
    }
    draw_labels(&d);
    if (!has_points(chart)) {
        fed_write_printf(w,
                         "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">nothing "
                         "was measured</text>",
                         WIDTH / 2, HEIGHT / 2);
    }
    fed_write_printf(w, "</svg>\n");
}
