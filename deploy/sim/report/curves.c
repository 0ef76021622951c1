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
    case SIM_ERROR:
        return 1 - r->accuracy;
    case SIM_TEST_LOSS:
        return r->test_loss;
    case SIM_TRAIN_LOSS:
        return r->train_loss;
    case SIM_BITS_UP:
        return 8 * (double)r->update_bytes / (n * r->counted);
    case SIM_BITS_DOWN:
        return 8 * (double)r->delta_bytes / n;
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

fed_status sim_curves_draw(const sim_result *runs, size_t count, sim_measure x,
                           const sim_measure *y, size_t y_count, fed_writer *w) {
    const size_t n = count * y_count;
    sim_series *series = calloc(n, sizeof *series);
    double **values = calloc(2 * n, sizeof *values);
    char(*letters)[24] = calloc(n, sizeof *letters);
    fed_status status = series != NULL && values != NULL && letters != NULL ? FED_OK : FED_ENOMEM;
    for (size_t k = 0; status == FED_OK && k < n; k++) {
        const sim_result *run = &runs[k / y_count];
        const sim_measure what = y[k % y_count];
        status = sim_measure_read(&run->log, x, &values[2 * k], &series[k].count);
        if (status == FED_OK) {
            status = sim_measure_read(&run->log, what, &values[2 * k + 1], &series[k].count);
        }
        series[k].x = values[2 * k];
        series[k].y = values[2 * k + 1];
        series[k].style = count > 1 ? sim_seeds_group(runs, k / y_count) : k;
        series[k].title = count > 1 ? run->name : NULL;
        series[k].label = count > 1     ? sim_run_letter(k / y_count, letters[k])
                          : y_count > 1 ? sim_measure_word[what].word
                                        : NULL;
    }
    if (status == FED_OK) {
        draw(series, n, x, y[0], title_of(y, y_count), w);
    }
    for (size_t k = 0; values != NULL && k < 2 * n; k++) {
        free(values[k]);
    }
    free(values);
    free(series);
    free(letters);
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
