/* Maps as SVG: which clients took part in which rounds, and a grid's results as colours. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "deploy/sim/report/chart.h"

enum { WIDTH = 440, LEVELS = 8 };
enum { MAP_LEFT = 44, MAP_TOP = 38, MAP_WIDTH = 382, MAP_HEIGHT = 208 };

static void open_svg(fed_writer *w, double height, const char *title) {
    fed_write_printf(w,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
                     "role=\"img\" aria-label=\"",
                     WIDTH, height);
    sim_write_escaped(w, title);
    fed_write_printf(w, "\"><text class=\"title\" x=\"4\" y=\"16\">");
    sim_write_escaped(w, title);
    fed_write_printf(w, "</text>");
}

static void put_text(fed_writer *w, const char *kind, double x, double y, const char *anchor,
                     const char *text) {
    fed_write_printf(w, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", kind, x, y,
                     anchor);
    sim_write_escaped(w, text);
    fed_write_printf(w, "</text>");
}

/* --- Who took part --- */

static unsigned level_of(double share) {
    return share <= 0 ? 0 : (unsigned)fmin(LEVELS, ceil(share * LEVELS));
}

/** Draw all cells of one level as one path. Neighbouring cells of a row are one rectangle. */
static void draw_level(const sim_map *map, unsigned level, fed_writer *w) {
    const double cell_x = (double)MAP_WIDTH / (double)map->columns;
    const double cell_y = (double)MAP_HEIGHT / (double)map->rows;
    fed_write_printf(w, "<path class=\"cell\" fill-opacity=\"%.3f\" d=\"", (double)level / LEVELS);
    for (size_t r = 0; r < map->rows; r++) {
        const double *row = map->share + r * map->columns;
        for (size_t k = 0; k < map->columns;) {
            const size_t start = k;
            while (k < map->columns && level_of(row[k]) == level) {
                k++;
            }
            if (k > start) {
                fed_write_printf(w, "M%.1f %.1fh%.1fv%.1fh-%.1fz",
                                 MAP_LEFT + cell_x * (double)start, MAP_TOP + cell_y * (double)r,
                                 cell_x * (double)(k - start), cell_y,
                                 cell_x * (double)(k - start));
            }
            k += k == start;
        }
    }
    fed_write_printf(w, "\"/>");
}

void sim_map_draw(const sim_map *map, fed_writer *w) {
    char text[32];
    open_svg(w, 290, map->title);
    for (unsigned level = 1; level <= LEVELS; level++) {
        draw_level(map, level, w);
    }
    fed_write_printf(w, "<path class=\"axis\" fill=\"none\" d=\"M%d %dh%dv%dh-%dz\"/>", MAP_LEFT,
                     MAP_TOP, MAP_WIDTH, MAP_HEIGHT, MAP_WIDTH);
    put_text(w, "tick", MAP_LEFT - 6, MAP_TOP + 10, "end", "1");
    snprintf(text, sizeof text, "%.0f", map->rows_to);
    put_text(w, "tick", MAP_LEFT - 6, MAP_TOP + MAP_HEIGHT, "end", text);
    put_text(w, "tick", MAP_LEFT, MAP_TOP + MAP_HEIGHT + 16, "start", "1");
    snprintf(text, sizeof text, "%.0f", map->columns_to);
    put_text(w, "tick", MAP_LEFT + MAP_WIDTH, MAP_TOP + MAP_HEIGHT + 16, "end", text);
    put_text(w, "name", MAP_LEFT + MAP_WIDTH / 2.0, MAP_TOP + MAP_HEIGHT + 36, "middle",
             map->x_name);
    put_text(w, "name", 4, MAP_TOP - 8, "start", map->y_name);
    fed_write_printf(w, "</svg>\n");
}

/* --- A grid's results --- */

typedef struct heat_frame {
    double left, top, cell_x, cell_y, low, high; /* low, high: range of strength_of */
} heat_frame;

/** Return the strength of an accuracy's colour: it grows with the logarithm of 1 / (1 - accuracy).
 */
static double strength_of(double value) {
    return isnan(value) ? value : -log10(fmax(1 - value, 1e-4));
}

static heat_frame frame_of(const sim_heat *h) {
    heat_frame f = {.top = 58, .cell_y = 30, .low = (double)NAN, .high = (double)NAN};
    size_t letters = 4;
    for (size_t r = 0; r < h->rows; r++) {
        const size_t len = strlen(h->y_label[r]);
        letters = len > letters ? len : letters;
    }
    f.left = fmin(14 + 6.4 * (double)letters, 160);
    f.cell_x = (WIDTH - 6 - f.left) / (double)h->columns;
    for (size_t k = 0; k < h->rows * h->columns; k++) {
        f.low = fmin(f.low, strength_of(h->value[k]));
        f.high = fmax(f.high, strength_of(h->value[k]));
    }
    return f;
}

static void draw_heat_cell(const sim_heat *h, const heat_frame *f, size_t r, size_t k,
                           fed_writer *w) {
    const double value = h->value[r * h->columns + k];
    const double range = f->high - f->low;
    const double share = range > 0 ? (strength_of(value) - f->low) / range : 1;
    const double x = f->left + f->cell_x * (double)k, y = f->top + f->cell_y * (double)r;
    char text[32];
    if (isnan(value)) {
        put_text(w, "tick", x + f->cell_x / 2, y + f->cell_y / 2 + 4, "middle", "-");
        return;
    }
    fed_write_printf(w,
                     "<rect class=\"cell\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                     "fill-opacity=\"%.3f\"/>",
                     x + 1, y + 1, f->cell_x - 2, f->cell_y - 2, 0.06 + 0.94 * share);
    snprintf(text, sizeof text, h->columns > 8 ? "%.0f" : "%.2f", 100 * value);
    put_text(w, share > 0.62 ? "heat on" : "heat", x + f->cell_x / 2, y + f->cell_y / 2 + 4,
             "middle", text);
}

void sim_heat_draw(const sim_heat *h, fed_writer *w) {
    const heat_frame f = frame_of(h);
    open_svg(w, f.top + f.cell_y * (double)h->rows + 12, h->title);
    put_text(w, "name", 4, f.top - 8, "start", h->y_name);
    put_text(w, "name", (f.left + WIDTH - 6) / 2, 34, "middle", h->x_name);
    for (size_t k = 0; k < h->columns; k++) {
        put_text(w, "tick", f.left + f.cell_x * ((double)k + 0.5), f.top - 8, "middle",
                 h->x_label[k]);
    }
    for (size_t r = 0; r < h->rows; r++) {
        put_text(w, "tick", f.left - 8, f.top + f.cell_y * ((double)r + 0.5) + 4, "end",
                 h->y_label[r]);
        for (size_t k = 0; k < h->columns; k++) {
            draw_heat_cell(h, &f, r, k, w);
        }
    }
    fed_write_printf(w, "</svg>\n");
}
