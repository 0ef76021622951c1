/* Mean and standard deviation of runs that differ only in their seed. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/seeds.h"

#include <math.h>
#include <string.h>

#include "deploy/sim/report/chart.h"

static bool differ_by_seed(const sim_result *a, const sim_result *b) {
    if (strcmp(a->version, b->version) != 0) {
        return false;
    }
    for (sim_key_id id = 0; id < SIM_KEYS; id++) {
        const char *x = a->scenario.value[id] != NULL ? a->scenario.value[id] : "";
        const char *y = b->scenario.value[id] != NULL ? b->scenario.value[id] : "";
        const bool idle =
            sim_scenario_idle(&a->scenario, id) && sim_scenario_idle(&b->scenario, id);
        if (id != SIM_SEED && id != SIM_NAME && !sim_keys[id].machine && !idle &&
            strcmp(x, y) != 0) {
            return false;
        }
    }
    return true;
}

static size_t first_of(const sim_result *runs, size_t k) {
    size_t first = 0;
    while (first < k && !differ_by_seed(&runs[first], &runs[k])) {
        first++;
    }
    return first;
}

size_t sim_seeds_group(const sim_result *runs, size_t k) {
    const size_t first = first_of(runs, k);
    size_t group = 0;
    for (size_t before = 0; before < first; before++) {
        group += first_of(runs, before) == before;
    }
    return group;
}

void sim_seeds_groups(const sim_result *runs, size_t count, size_t *group) {
    size_t found = 0;
    for (size_t k = 0; k < count; k++) {
        const size_t first = first_of(runs, k);
        group[k] = first < k ? group[first] : found++;
    }
}

bool sim_seeds_of(const sim_result *runs, size_t count, size_t k, sim_seeds *seeds) {
    double sum = 0, squares = 0;
    size_t n = 0, members = 0;
    for (size_t other = 0; other < count; other++) {
        if (!differ_by_seed(&runs[k], &runs[other])) {
            continue;
        }
        if (other < k) {
            return false;
        }
        const double accuracy = sim_log_accuracy(&runs[other].log);
        members++;
        if (isfinite(accuracy)) {
            sum += accuracy;
            squares += accuracy * accuracy;
            n++;
        }
    }
    const double mean = n > 0 ? sum / (double)n : (double)NAN;
    const double spread = n > 1 ? (squares - sum * mean) / (double)(n - 1) : 0;
    *seeds = (sim_seeds){&runs[k], n, mean, sqrt(fmax(0, spread))};
    return members > 1 && n > 1;
}

static void write_name(const char *name, fed_writer *w) {
    const char *seed = strstr(name, "seed=");
    if (seed == NULL) {
        sim_write_escaped(w, name);
        return;
    }
    const char *rest = seed + strcspn(seed, ",");
    const size_t before = (size_t)(seed - name);
    const size_t len = before > 0 && *rest == '\0' ? before - 1 : before;
    fed_write_printf(w, "%.*s%s", (int)len, name, *rest != '\0' && before == 0 ? rest + 1 : rest);
    if (before == 0 && *rest == '\0') {
        fed_write_printf(w, "all");
    }
}

void sim_seeds_text(const sim_result *runs, size_t count, fed_writer *w) {
    sim_seeds s;
    for (size_t k = 0; k < count; k++) {
        if (sim_seeds_of(runs, count, k, &s)) {
            fed_write_printf(w, "mean of %zu seeds, ", s.count);
            write_name(s.first->name, w);
            fed_write_printf(w, ": accuracy %.2f %% +- %.2f\n", 100 * s.mean, 100 * s.deviation);
        }
    }
}

void sim_seeds_html(const sim_result *runs, size_t count, fed_writer *w) {
    sim_seeds s;
    bool begun = false;
    for (size_t k = 0; k < count; k++) {
        if (!sim_seeds_of(runs, count, k, &s)) {
            continue;
        }
        if (!begun) {
            fed_write_printf(w, "<h2>Over seeds</h2>\n<table class=\"seeds\"><tbody>\n");
            begun = true;
        }
        fed_write_printf(w, "<tr><th>");
        write_name(s.first->name, w);
        fed_write_printf(w, "</th><td class=\"number\">%.2f %% &#177; %.2f, %zu seeds</td></tr>\n",
                         100 * s.mean, 100 * s.deviation, s.count);
    }
    if (begun) {
        fed_write_printf(w,
                         "</tbody></table>\n<p class=\"note\">Mean and standard deviation of the "
                         "final test accuracy, in points. In the plots, too, a line of several "
                         "seeds is their mean, and the band has one standard deviation to each "
                         "side.</p>\n");
    }
}
