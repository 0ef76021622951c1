/* `fedsim report`: reads runs back from their directories and compares them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deploy/sim/commands.h"
#include "deploy/sim/report/report.h"
#include "deploy/sim/report/run_table.h"
#include "deploy/sim/report/seeds.h"

typedef struct runs {
    sim_result *run;
    size_t count;
} runs;

static fed_status add_run(runs *r, const char *directory, fed_error *err) {
    sim_result *more = realloc(r->run, (r->count + 1) * sizeof *more);
    FED_REQUIRE(more != NULL, FED_ENOMEM);
    r->run = more;
    r->run[r->count] = (sim_result){0};
    return sim_result_read(directory, &r->run[r->count++], err);
}

static bool has_summary(const char *directory) {
    char path[SIM_PATH];
    return access(sim_path(path, directory, "summary.json"), F_OK) == 0;
}

static int compare_values(const char *a, const char *b) {
    char *a_end = NULL, *b_end = NULL;
    const double x = strtod(a, &a_end), y = strtod(b, &b_end);
    const bool numbers = a_end != a && b_end != b && *a_end == '\0' && *b_end == '\0';
    return numbers ? (x > y) - (x < y) : strcmp(a, b);
}

static int by_scenario(const void *a, const void *b) {
    const sim_scenario *x = &((const sim_result *)a)->scenario;
    const sim_scenario *y = &((const sim_result *)b)->scenario;
    int order = 0;
    for (sim_key_id id = 0; order == 0 && id < SIM_KEYS; id++) {
        order = compare_values(x->value[id] != NULL ? x->value[id] : "",
                               y->value[id] != NULL ? y->value[id] : "");
    }
    return order;
}

static fed_status add_grid(runs *r, const char *directory, fed_error *err) {
    struct dirent **entry = NULL;
    const int found = scandir(directory, &entry, NULL, alphasort);
    const size_t before = r->count;
    fed_status status = FED_OK;
    for (int k = 0; k < found; k++) {
        char path[SIM_PATH];
        sim_path(path, directory, entry[k]->d_name);
        if (status == FED_OK && entry[k]->d_name[0] != '.' && has_summary(path)) {
            status = add_run(r, path, err);
        }
        free(entry[k]);
    }
    free(entry);
    if (r->count > before) {
        qsort(r->run + before, r->count - before, sizeof *r->run, by_scenario);
    }
    if (status == FED_OK && r->count == before) {
        return fed_fail(err, FED_ENOTFOUND,
                        "%s: holds no results; it should be a directory that "
                        "`fedsim run --out` wrote",
                        directory);
    }
    return status;
}

static bool are_alike(const runs *r) {
    for (size_t k = 1; k < r->count; k++) {
        for (size_t other = 0; other < k; other++) {
            if (strcmp(r->run[k].name, r->run[other].name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/** Does the key `name` tell all runs apart? */
static bool are_named(const runs *r) {
    for (size_t k = 0; k < r->count; k++) {
        const char *name = r->run[k].scenario.value[SIM_NAME];
        for (size_t other = 0; other < k && name != NULL; other++) {
            const char *value = r->run[other].scenario.value[SIM_NAME];
            name = value == NULL || strcmp(value, name) == 0 ? NULL : name;
        }
        if (name == NULL || name[0] == '\0') {
            return false;
        }
    }
    return true;
}

/** If two runs' directories have the same name, name all runs by the keys that differ over the runs
 * shown: by `name`, if that alone tells them apart. */
static void name_apart(runs *r) {
    sim_key_id keys[SIM_KEYS];
    const size_t count = are_alike(r) ? sim_runs_differ(r->run, r->count, keys) : 0;
    const bool named = count > 0 && keys[0] == SIM_NAME;
    for (size_t k = 0; k < r->count && count > 0; k++) {
        char *name = r->run[k].name;
        size_t len = 0;
        for (size_t i = 0; i < count && len < sizeof r->run[k].name; i++) {
            const char *value = r->run[k].scenario.value[keys[i]];
            len += (size_t)snprintf(name + len, sizeof r->run[k].name - len, "%s%s%s%s",
                                    i > 0 ? "," : "", named && i == 0 ? "" : sim_keys[keys[i]].name,
                                    named && i == 0 ? "" : "=", value != NULL ? value : "");
            if (named && i == 0 && are_named(r)) {
                break;
            }
        }
    }
}

static void print_runs(const runs *r, fed_writer *w) {
    if (r->count == 1) {
        sim_summary_text(&r->run[0].log, w);
    } else {
        sim_table_text(r->run, r->count, w);
        sim_seeds_text(r->run, r->count, w);
    }
    if (w->status == FED_OK) {
        printf("\n%.*s", (int)w->len, (const char *)w->data);
    }
}

fed_status sim_report_make(const char *const *directories, size_t count, const char *page,
                           const char *title, fed_error *err) {
    runs r = {0};
    fed_writer w;
    fed_status status = FED_OK;
    for (size_t k = 0; status == FED_OK && k < count; k++) {
        status = has_summary(directories[k]) ? add_run(&r, directories[k], err)
                                             : add_grid(&r, directories[k], err);
    }
    if (status == FED_OK) {
        name_apart(&r);
        fed_writer_growing(&w);
        print_runs(&r, &w);
        status = w.status;
        fed_writer_free(&w);
    }
    if (status == FED_OK && page != NULL) {
        status = sim_report_write(page, title, r.run, r.count, err);
    }
    for (size_t k = 0; k < r.count; k++) {
        sim_result_free(&r.run[k]);
    }
    free(r.run);
    return status;
}

fed_status sim_command_report(const sim_command *command, fed_error *err) {
    char page[SIM_PATH];
    const char *own =
        command->word_count == 1 ? sim_path(page, command->words[0], "report.html") : NULL;
    return sim_report_make(command->words, command->word_count,
                           command->out != NULL ? command->out : own, NULL, err);
}
