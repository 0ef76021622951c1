/* Grids: reads the alternatives of values, and makes a cell of each combination. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/scenario/grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct axis {
    char **value;
    size_t count;
} axis;

static fed_status axis_add(axis *a, const char *text, size_t len) {
    char **more = realloc(a->value, (a->count + 1) * sizeof *more);
    FED_REQUIRE(more != NULL, FED_ENOMEM);
    a->value = more;
    more[a->count] = strndup(text, len);
    FED_REQUIRE(more[a->count] != NULL, FED_ENOMEM);
    a->count++;
    return FED_OK;
}

static void axis_free(axis *a) {
    for (size_t k = 0; k < a->count; k++) {
        free(a->value[k]);
    }
    free(a->value);
}

/** Return whether the text is a range such as "1..5"; *low and *high become its ends. */
static bool is_range(const char *text, size_t len, long long *low, long long *high) {
    char *after = NULL, *end = NULL;
    const long long first = strtoll(text, &after, 10);
    if (after == text || strncmp(after, "..", 2) != 0) {
        return false;
    }
    const long long last = strtoll(after + 2, &end, 10);
    *low = first;
    *high = last;
    return end != after + 2 && end == text + len;
}

static fed_status add_range(const sim_scenario *s, sim_key_id id, axis *a, long long low,
                            long long high, fed_error *err) {
    if (high < low || high - low >= SIM_GRID_LIMIT) {
        char why[120];
        snprintf(why, sizeof why,
                 "has the range %lld to %lld; a range must ascend, over at most %d values", low,
                 high, SIM_GRID_LIMIT);
        return sim_scenario_refuse(s, id, why, err);
    }
    for (long long v = low; v <= high; v++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", v);
        FED_TRY(axis_add(a, text, strlen(text)));
    }
    return FED_OK;
}

static fed_status add_alternative(const sim_scenario *s, sim_key_id id, axis *a, const char *text,
                                  size_t len, fed_error *err) {
    static const char blanks[] = " \t";
    long long low = 0, high = 0;
    while (len > 0 && strchr(blanks, *text) != NULL) {
        text++, len--;
    }
    while (len > 0 && strchr(blanks, text[len - 1]) != NULL) {
        len--;
    }
    if (len == 0) {
        return sim_scenario_refuse(s, id, "has an empty alternative; write `a | b`", err);
    }
    return is_range(text, len, &low, &high) ? add_range(s, id, a, low, high, err)
                                            : axis_add(a, text, len);
}

static fed_status read_axis(const sim_scenario *s, sim_key_id id, axis *a, fed_error *err) {
    const char *text = s->value[id];
    const bool description = id == SIM_MODEL && strncmp(text, "input", 5) == 0;
    if (text[0] == '\0' || description) {
        return axis_add(a, text, strlen(text));
    }
    for (bool more = true; more;) {
        const size_t len = strcspn(text, "|");
        FED_TRY(add_alternative(s, id, a, text, len, err));
        more = text[len] == '|';
        text += len + more;
    }
    return FED_OK;
}

/** Append "KEY=VALUE" to a cell's name, which names a directory. Slashes, blanks and other
 * characters unfit for that become '_'. Returns false if the name is too long. */
static bool add_to_name(char *name, size_t cap, const char *key, const char *value) {
    const size_t len = strlen(name);
    const int added = snprintf(name + len, cap - len, "%s%s=%s", len > 0 ? "," : "", key, value);
    for (char *c = name + len; *c != '\0'; c++) {
        *c = *c == '/' || (unsigned char)*c <= ' ' ? '_' : *c;
    }
    return added >= 0 && (size_t)added < cap - len;
}

/** Return the first key of a pair for each of its keys, or the key itself. */
static sim_key_id leader_of(const sim_scenario *s, sim_key_id id) {
    const sim_pair *pair = sim_scenario_pair(s, id);
    sim_key_id first = id;
    for (size_t k = 0; pair != NULL && k < pair->keys; k++) {
        first = pair->key[k] < first ? pair->key[k] : first;
    }
    return first;
}

/** Make cell number n. The digits of n in mixed radix select the cell's alternatives. */
static fed_status fill_cell(const sim_scenario *s, const axis *axes, size_t n, sim_cell *cell,
                            fed_error *err) {
    size_t digit[SIM_KEYS] = {0};
    for (sim_key_id id = SIM_KEYS; id-- > 0;) {
        if (axes[id].count > 1 && leader_of(s, id) == id) {
            digit[id] = n % axes[id].count;
            n /= axes[id].count;
        }
    }
    FED_TRY(sim_scenario_copy(s, &cell->scenario, err));
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        if (axes[id].count == 0) {
            continue;
        }
        const char *value = axes[id].value[digit[leader_of(s, id)]];
        FED_TRY(sim_scenario_set(&cell->scenario, id, value, s->origin[id], err));
        if (axes[id].count > 1 &&
            !add_to_name(cell->name, sizeof cell->name, sim_keys[id].name, value)) {
            return sim_scenario_refuse(s, id,
                                       "makes a directory's name too long; give shorter "
                                       "alternatives, such as @FILE for a model",
                                       err);
        }
    }
    return FED_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static fed_status check_names(const sim_grid *grid, fed_error *err) {
    const char **names = calloc(grid->count, sizeof *names);
    FED_REQUIRE(names != NULL, FED_ENOMEM);
    for (size_t k = 0; k < grid->count; k++) {
        names[k] = grid->cells[k].name;
    }
    qsort(names, grid->count, sizeof *names, by_name);
    fed_status status = FED_OK;
    for (size_t k = 1; status == FED_OK && k < grid->count; k++) {
        if (strcmp(names[k - 1], names[k]) == 0) {
            status = fed_fail(
                err, FED_EINVAL,
                "two cells of the grid are \"%s\": an alternative is given twice; remove one",
                names[k]);
        }
    }
    free(names);
    return status;
}

static fed_status fill_grid(const sim_scenario *s, const axis *axes, sim_grid *grid,
                            fed_error *err) {
    size_t count = 1;
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        const sim_key_id leader = leader_of(s, id);
        if (axes[id].count != axes[leader].count) {
            return sim_scenario_refuse(s, id,
                                       "and the keys beside it have different numbers of values; "
                                       "give no range there",
                                       err);
        }
        if (leader != id) {
            continue;
        }
        count *= axes[id].count > 0 ? axes[id].count : 1;
        if (count > SIM_GRID_LIMIT) {
            return sim_scenario_refuse(s, id, "makes more than 4096 runs; vary less at a time",
                                       err);
        }
    }
    grid->cells = calloc(count, sizeof *grid->cells);
    FED_REQUIRE(grid->cells != NULL, FED_ENOMEM);
    for (grid->count = 0; grid->count < count;) {
        sim_cell *cell = &grid->cells[grid->count++];
        FED_TRY(fill_cell(s, axes, grid->count - 1, cell, err));
    }
    return check_names(grid, err);
}

fed_status sim_grid_expand(const sim_scenario *s, sim_grid *grid, fed_error *err) {
    axis axes[SIM_KEYS] = {0};
    sim_grid made = {0};
    fed_status status = FED_OK;
    for (sim_key_id id = 0; status == FED_OK && id < SIM_KEYS; id++) {
        status = s->value[id] != NULL ? read_axis(s, id, &axes[id], err) : FED_OK;
    }
    if (status == FED_OK) {
        status = fill_grid(s, axes, &made, err);
    }
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        axis_free(&axes[id]);
    }
    if (status != FED_OK) {
        sim_grid_free(&made);
        return status;
    }
    *grid = made;
    return FED_OK;
}

void sim_grid_free(sim_grid *grid) {
    for (size_t k = 0; k < grid->count; k++) {
        sim_scenario_free(&grid->cells[k].scenario);
    }
    free(grid->cells);
    *grid = (sim_grid){0};
}
