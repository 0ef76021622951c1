/* The heat map of a grid: two keys that differ, accuracy as colours. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/report/curves.h"
#include "deploy/sim/report/run_table.h"

static const char *value_of(const sim_result *run, sim_key_id id) {
    return run->scenario.value[id] != NULL ? run->scenario.value[id] : "";
}

static size_t list_values(const sim_result *runs, size_t count, sim_key_id id,
                          const char **values) {
    size_t found = 0;
    for (size_t k = 0; k < count; k++) {
        const char *value = value_of(&runs[k], id);
        bool known = false;
        for (size_t v = 0; v < found; v++) {
            known = known || strcmp(values[v], value) == 0;
        }
        if (!known) {
            values[found++] = value;
        }
    }
    return found;
}

/** Return whether both texts are numbers, and a is larger. Other texts stay in their order. */
static bool comes_after(const char *a, const char *b) {
    char *a_end = NULL, *b_end = NULL;
    const double x = strtod(a, &a_end), y = strtod(b, &b_end);
    return *a_end == '\0' && *b_end == '\0' && x > y;
}

static void sort_values(const char **values, size_t count) {
    for (size_t k = 1; k < count; k++) {
        for (size_t at = k; at > 0 && comes_after(values[at - 1], values[at]); at--) {
            const char *swap = values[at];
            values[at] = values[at - 1];
            values[at - 1] = swap;
        }
    }
}

static double mean_of(const sim_result *runs, size_t count, const sim_key_id keys[2], const char *x,
                      const char *y) {
    double sum = 0;
    size_t n = 0;
    for (size_t k = 0; k < count; k++) {
        const double accuracy = sim_log_accuracy(&runs[k].log);
        if (strcmp(value_of(&runs[k], keys[0]), y) == 0 &&
            strcmp(value_of(&runs[k], keys[1]), x) == 0 && isfinite(accuracy)) {
            sum += accuracy;
            n++;
        }
    }
    return n > 0 ? sum / (double)n : (double)NAN;
}

static bool two_keys(const sim_result *runs, size_t count, sim_key_id pair[2]) {
    sim_key_id keys[SIM_KEYS];
    const size_t differ = sim_runs_differ(runs, count, keys);
    size_t found = 0;
    for (size_t k = 0; k < differ; k++) {
        if (keys[k] != SIM_SEED && keys[k] != SIM_NAME && keys[k] != SIM_EVALUATE_EVERY) {
            if (found == 2) {
                return false;
            }
            pair[found++] = keys[k];
        }
    }
    return found == 2;
}

static void draw_table(const sim_result *runs, size_t count, const sim_key_id keys[2],
                       const char **x, size_t columns, const char **y, size_t rows, double *value,
                       fed_writer *w) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            value[r * columns + c] = mean_of(runs, count, keys, x[c], y[r]);
        }
    }
    const sim_heat heat = {.title = "Final test accuracy (%)",
                           .x_name = sim_keys[keys[1]].name,
                           .y_name = sim_keys[keys[0]].name,
                           .x_label = x,
                           .y_label = y,
                           .value = value,
                           .columns = columns,
                           .rows = rows};
    sim_heat_draw(&heat, w);
}

fed_status sim_grid_draw(const sim_result *runs, size_t count, fed_writer *w) {
    sim_key_id keys[2];
    if (!two_keys(runs, count, keys)) {
        return FED_OK;
    }
    const char **x = calloc(count, sizeof *x), **y = calloc(count, sizeof *y);
    double *value = calloc(count * count, sizeof *value);
    fed_status status = x != NULL && y != NULL && value != NULL ? FED_OK : FED_ENOMEM;
    if (status == FED_OK) {
        const size_t rows = list_values(runs, count, keys[0], y);
        const size_t columns = list_values(runs, count, keys[1], x);
        sort_values(y, rows);
        sort_values(x, columns);
        if (2 * count > rows * columns) {
            draw_table(runs, count, keys, x, columns, y, rows, value, w);
        }
    }
    free(value);
    free(x);
    free(y);
    return status;
}
