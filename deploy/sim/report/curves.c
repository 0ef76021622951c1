/* Plots of runs: reads numbers from their logs, and draws them as lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/curves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/report/run_table.h"
#include "deploy/sim/report/seeds.h"

/* Axes of amounts and of losses are logarithmic if the largest value is more than this many times
 * the smallest. */
static const double uneven_amounts = 8, steep_loss = 50;

const sim_measure_words sim_measure_word[SIM_MEASURES] = {
    [SIM_ROUND] = {"round", "rounds", SIM_PLAIN},
    [SIM_UP] = {"sent by all clients", "bytes up", SIM_BYTES},
    [SIM_BOTH] = {"sent and received by all clients", "bytes both ways", SIM_BYTES},
    [SIM_TIME] = {"virtual time", "virtual time", SIM_SECONDS},
    [SIM_ACCURACY] = {"Test accuracy", "", SIM_PERCENT},
    [SIM_WORST] = {"Accuracy of the worst tenth of the clients", "", SIM_PERCENT},
    [SIM_ERROR] = {"Test error", "", SIM_PERCENT},
    [SIM_TEST_LOSS] = {"Test loss", "test", SIM_PLAIN},
    [SIM_TRAIN_LOSS] = {"Training loss", "training", SIM_PLAIN},
    [SIM_BITS_UP] = {"Bits per value, up", "up", SIM_PLAIN},
    [SIM_BITS_DOWN] = {"Bits per value, down", "down", SIM_PLAIN},
    [SIM_CLIENT_UP] = {"Sent by a client", "sent", SIM_BYTES},
    [SIM_CLIENT_DOWN] = {"Received by a client", "received", SIM_BYTES},
    [SIM_RANK] = {"clients, the most first", "clients", SIM_PLAIN},
};

static double of_round(const sim_log *log, size_t k, sim_measure what) {
    const sim_round *r = &log->rounds[k];
    const double n = (double)log->parameters;
    switch (what) {
    case SIM_ROUND:
        return r->round;
    case SIM_UP:
        return (double)r->up_bytes;
    case SIM_BOTH:
        return (double)(r->up_bytes + r->down_bytes);
    case SIM_TIME:
        return r->virtual_s;
    case SIM_ACCURACY:
        return r->accuracy;
    case SIM_WORST:
        return r->worst_tenth;
    case SIM_ERROR:
        return 1 - r->accuracy;
    case SIM_TEST_LOSS:
        return r->test_loss;
    case SIM_TRAIN_LOSS:
        return r->train_loss;
    case SIM_BITS_UP:
        return r->update_bytes > 0 ? 8 * (double)r->update_bytes / (n * r->counted) : (double)NAN;
    case SIM_BITS_DOWN:
        return r->delta_bytes > 0 ? 8 * (double)r->delta_bytes / n : (double)NAN;
    default:
        return (double)NAN;
    }
}

static double of_client(const sim_log *log, size_t k, sim_measure what) {
    return what == SIM_RANK        ? (double)(k + 1)
           : what == SIM_CLIENT_UP ? (double)log->clients[k].up_bytes
                                   : (double)log->clients[k].down_bytes;
}

static int most_first(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

fed_status sim_measure_read(const sim_log *log, sim_measure what, double **values, size_t *count) {
    const bool clients = what >= SIM_CLIENT_UP;
    const size_t n = clients ? log->client_count : log->round_count;
    double *v = calloc(n + 1, sizeof *v);
    FED_REQUIRE(v != NULL, FED_ENOMEM);
    const bool sums = what == SIM_UP || what == SIM_BOTH;
    for (size_t k = 0; k < n; k++) {
        v[k] = clients ? of_client(log, k, what) : of_round(log, k, what);
        v[k] += sums && k > 0 ? v[k - 1] : 0;
    }
    if (what == SIM_CLIENT_UP || what == SIM_CLIENT_DOWN) {
        qsort(v, n, sizeof *v, most_first);
    }
    *values = v;
    *count = n;
    return FED_OK;
}

/** Return whether the largest value is more than `ratio` times the smallest. With x true, the
 * values are the last x of each series, else all y of all series. */
static bool spreads(const sim_series *series, size_t count, bool x, double ratio) {
    double least = (double)NAN, most = (double)NAN;
    for (size_t s = 0; s < count; s++) {
        const size_t n = series[s].count;
        for (size_t k = x && n > 0 ? n - 1 : 0; k < n; k++) {
            const double v = x ? series[s].x[k] : series[s].y[k];
            if (isfinite(v)) {
                least = fmin(least, v);
                most = fmax(most, v);
            }
        }
    }
    return least > 0 && most > ratio * least;
}

static void draw(const sim_series *series, size_t count, sim_measure x, sim_measure y,
                 const char *title, fed_writer *w) {
    const bool amount = x == SIM_UP || x == SIM_BOTH || x == SIM_TIME;
    const bool loss = y == SIM_TEST_LOSS || y == SIM_TRAIN_LOSS;
    const bool bits = y == SIM_BITS_UP || y == SIM_BITS_DOWN;
    const double steep = loss ? steep_loss : uneven_amounts;
    const sim_chart chart = {
        .title = title,
        .against = sim_measure_word[x].word,
        .x_name = sim_measure_word[x].name,
        .x_unit = sim_measure_word[x].unit,
        .y_unit = sim_measure_word[y].unit,
        .x_log = amount && spreads(series, count, true, uneven_amounts),
        .y_log = y == SIM_ERROR || ((loss || bits) && spreads(series, count, false, steep)),
        .series = series,
        .count = count,
    };
    sim_chart_draw(&chart, w);
}

static const char *title_of(const sim_measure *y, size_t y_count) {
    if (y_count == 1) {
        return sim_measure_word[y[0]].name;
    }
    return y[0] == SIM_TEST_LOSS ? "Loss"
           : y[0] == SIM_BITS_UP ? "Bits per value"
                                 : "Bytes per client";
}

/** A line of a plot, with the memory of its points. */
typedef struct line {
    double *x, *y, *low, *high; /* low, high: NULL for a single run */
    char label[64], title[280];
} line;

static void free_lines(line *lines, size_t count) {
    for (size_t k = 0; lines != NULL && k < count; k++) {
        free(lines[k].x);
        free(lines[k].y);
        free(lines[k].low);
        free(lines[k].high);
    }
    free(lines);
}

/** Add a run's values to sums, and their squares to others. *count becomes the least
 * of all runs' numbers of values. */
static fed_status add_values(const sim_log *log, sim_measure what, double *sum, double *squares,
                             size_t *count) {
    double *values = NULL;
    size_t n = 0;
    FED_TRY(sim_measure_read(log, what, &values, &n));
    *count = n < *count ? n : *count;
    for (size_t k = 0; k < *count; k++) {
        sum[k] += values[k];
        squares[k] += values[k] * values[k];
    }
    free(values);
    return FED_OK;
}

/** Runs, and the group of each: runs of a group differ only by their seed. */
typedef struct grouped {
    const sim_result *runs;
    size_t count;
    const size_t *group;
} grouped;

/** Turn sums of `members` values into means, and sums of squares in l->high into the edges of one
 * standard deviation around them. A value that is NAN has edges that are NAN. */
static void end_mean(line *l, size_t points, size_t members) {
    const double n = (double)members;
    for (size_t k = 0; k < points; k++) {
        l->x[k] /= n;
        l->y[k] /= n;
        const double square = (l->high[k] - n * l->y[k] * l->y[k]) / (n - 1);
        const double deviation = square < 0 ? 0 : sqrt(square);
        l->low[k] = l->y[k] - deviation;
        l->high[k] = l->y[k] + deviation;
    }
}

/** Read the mean of the runs in the first one's group, and the edges of its band. It ends with the
 * shortest run. */
static fed_status read_mean(const grouped *g, size_t first, size_t members, sim_measure x,
                            sim_measure y, line *l, size_t *points) {
    const sim_log *log = &g->runs[first].log;
    *points = y >= SIM_CLIENT_UP ? log->client_count : log->round_count;
    size_t in_x = *points;
    l->x = calloc(*points + 1, sizeof *l->x);
    l->y = calloc(*points + 1, sizeof *l->y);
    l->low = calloc(*points + 1, sizeof *l->low);
    l->high = calloc(*points + 1, sizeof *l->high);
    FED_REQUIRE(l->x != NULL && l->y != NULL && l->low != NULL && l->high != NULL, FED_ENOMEM);
    for (size_t k = first; k < g->count; k++) {
        if (g->group[k] == g->group[first]) {
            FED_TRY(add_values(&g->runs[k].log, x, l->x, l->low, &in_x));
            FED_TRY(add_values(&g->runs[k].log, y, l->y, l->high, points));
        }
    }
    end_mean(l, *points, members);
    return FED_OK;
}

/** Return how many runs are in the first one's group, or 0 if an earlier run is in it. */
static size_t members_of(const grouped *g, size_t first) {
    size_t members = 0;
    for (size_t k = 0; k < g->count; k++) {
        if (g->group[k] == g->group[first] && k < first) {
            return 0;
        }
        members += g->group[k] == g->group[first];
    }
    return members;
}

static fed_status read_values(const sim_log *log, sim_measure x, sim_measure y, line *l,
                              size_t *points) {
    FED_TRY(sim_measure_read(log, x, &l->x, points));
    return sim_measure_read(log, y, &l->y, points);
}

/** Read the line of several runs, or of one. */
static fed_status read_line(const grouped *g, size_t first, size_t members, sim_measure x,
                            sim_measure y, line *l, sim_series *series) {
    char letter[24];
    const char *name = g->runs[first].name;
    sim_run_letter(first, letter);
    if (members > 1) {
        FED_TRY(read_mean(g, first, members, x, y, l, &series->count));
        snprintf(l->label, sizeof l->label, "%s x%zu", letter, members);
        snprintf(l->title, sizeof l->title, "mean of %zu seeds, first %.200s", members, name);
    } else {
        FED_TRY(read_values(&g->runs[first].log, x, y, l, &series->count));
        snprintf(l->label, sizeof l->label, "%s", letter);
        snprintf(l->title, sizeof l->title, "%.255s", name);
    }
    series->style = g->group[first];
    series->label = l->label;
    series->title = l->title;
    return FED_OK;
}

/** Read a line for each group, or of a single run one for each y. *found: how many. */
static fed_status read_lines(const grouped *g, sim_measure x, const sim_measure *y, size_t y_count,
                             line *lines, sim_series *series, size_t *found) {
    for (size_t k = 0; k < g->count * y_count; k++) {
        line *l = &lines[*found];
        sim_series *s = &series[*found];
        const size_t members = g->count > 1 ? members_of(g, k) : 1;
        if (members == 0) {
            continue;
        }
        (*found)++;
        if (g->count > 1) {
            FED_TRY(read_line(g, k, members, x, y[0], l, s));
        } else {
            FED_TRY(read_values(&g->runs[0].log, x, y[k], l, &s->count));
            s->style = k;
            s->label = y_count > 1 ? sim_measure_word[y[k]].word : NULL;
        }
        *s = (sim_series){s->label, s->title, s->style, l->x, l->y, l->low, l->high, s->count};
    }
    return FED_OK;
}

fed_status sim_curves_draw(const sim_result *runs, size_t count, sim_measure x,
                           const sim_measure *y, size_t y_count, fed_writer *w) {
    const size_t n = count * y_count;
    size_t found = 0;
    sim_series *series = calloc(n, sizeof *series);
    line *lines = calloc(n, sizeof *lines);
    size_t *group = calloc(n, sizeof *group);
    const grouped g = {runs, count, group};
    const bool room = series != NULL && lines != NULL && group != NULL;
    fed_status status = room ? FED_OK : FED_ENOMEM;
    if (status == FED_OK) {
        sim_seeds_groups(runs, count, group);
        status = read_lines(&g, x, y, y_count, lines, series, &found);
    }
    if (status == FED_OK) {
        draw(series, found, x, y[0], title_of(y, y_count), w);
    }
    free_lines(lines, n);
    free(series);
    free(group);
    return status;
}

enum { MOST_COLUMNS = 120, MOST_ROWS = 104 };

static double share_of(const sim_log *log, size_t from_client, size_t to_client, size_t from_round,
                       size_t to_round) {
    size_t there = 0;
    for (size_t r = from_round; r < to_round; r++) {
        for (size_t k = from_client; k < to_client; k++) {
            there += sim_log_attended(log, r, k);
        }
    }
    return (double)there / (double)((to_client - from_client) * (to_round - from_round));
}

fed_status sim_attendance_draw(const sim_log *log, fed_writer *w) {
    const size_t clients = log->client_count, rounds = log->round_count;
    const size_t rows = clients < MOST_ROWS ? clients : MOST_ROWS;
    const size_t columns = rounds < MOST_COLUMNS ? rounds : MOST_COLUMNS;
    double *share = calloc(rows * columns + 1, sizeof *share);
    FED_REQUIRE(share != NULL, FED_ENOMEM);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            share[r * columns + c] = share_of(log, r * clients / rows, (r + 1) * clients / rows,
                                              c * rounds / columns, (c + 1) * rounds / columns);
        }
    }
    const sim_map map = {.title = "Who took part: updates that counted",
                         .x_name = "round",
                         .y_name = "client",
                         .columns_to = (double)rounds,
                         .rows_to = (double)clients,
                         .share = share,
                         .columns = columns,
                         .rows = rows};
    sim_map_draw(&map, w);
    free(share);
    return FED_OK;
}
