/* `fedsim run`: runs a scenario's cells one after the other, each in a directory of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "deploy/sim/clients/clients.h"
#include "deploy/sim/commands.h"
#include "deploy/sim/progress_bar.h"
#include "deploy/sim/report/report.h"
#include "deploy/sim/report/run_table.h"
#include "deploy/sim/run.h"
#include "deploy/sim/scenario/grid.h"
#include "deploy/sim/scenario/task_file.h"
#include "fed/file.h"

typedef struct batch {
    const sim_command *command;
    sim_grid grid;
    char out[1024];
    char fedserver[SIM_PATH];
    sim_bar bar;
    size_t done, failed;
    bool goes_on; /* the last run can be resumed */
} batch;

static bool exists(const char *directory, const char *name) {
    char path[SIM_PATH];
    return access(sim_path(path, directory, name), F_OK) == 0;
}

static void clear(const char *directory, const char *name) {
    char path[SIM_PATH], file[SIM_PATH];
    DIR *dir = opendir(sim_path(path, directory, name));
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        (void)unlink(sim_path(file, path, e->d_name)); /* fails for "." and ".." */
    }
    if (dir != NULL) {
        closedir(dir);
        (void)rmdir(path);
    }
}

/** Name the output directory: results/ and the scenario's file name without folder and ending. */
static void name_output(const char *scenario, char *dst, size_t cap) {
    const char *slash = scenario != NULL ? strrchr(scenario, '/') : NULL;
    const char *name = scenario == NULL ? "run" : slash != NULL ? slash + 1 : scenario;
    const char *dot = strrchr(name, '.');
    snprintf(dst, cap, "results/%.*s", dot != NULL && dot != name ? (int)(dot - name) : 200, name);
}

static void find_fedserver(batch *b) {
    char own[SIM_PATH];
    const ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    own[len > 0 ? len : 0] = '\0';
    const char *slash = strrchr(own, '/');
    snprintf(b->fedserver, sizeof b->fedserver, "%.*sfedserver",
             slash != NULL ? (int)(slash - own + 1) : 0, own);
}

static bool holds_results(const char *directory) {
    return exists(directory, "summary.json") || exists(directory, "state/run");
}

static fed_status check_same(const char *directory, const sim_scenario *s, fed_error *err) {
    char path[SIM_PATH];
    sim_scenario before = {0};
    sim_path(path, directory, "scenario.txt");
    fed_status status = sim_scenario_read(path, &before, err);
    if (status == FED_OK) {
        status = sim_scenario_fill(&before, err);
    }
    const sim_key_id id = status == FED_OK ? sim_scenario_difference(&before, s) : SIM_KEYS;
    if (id != SIM_KEYS) {
        status = fed_fail(err, FED_EINVAL,
                          "%s: key \"%s\" was \"%.80s\" and is \"%.80s\" now; resume with the same "
                          "scenario, or choose another --out",
                          path, sim_keys[id].name, before.value[id] != NULL ? before.value[id] : "",
                          s->value[id]);
    }
    sim_scenario_free(&before);
    return status;
}

static void say_progress(void *user, const sim_progress *progress) {
    batch *b = user;
    sim_bar_show(&b->bar, progress);
}

static void say_listening(void *user, uint16_t front_port, const char *directory) {
    (void)user;
    printf("watch the rounds at https://127.0.0.1:%u/ (CA certificate: %s/ca.pem)\n", front_port,
           directory);
    fflush(stdout);
}

static fed_status write_run(const char *directory, const sim_scenario *s, sim_log *log,
                            fed_error *err) {
    char page[SIM_PATH];
    const char *name = strrchr(directory, '/');
    sim_result run = {.log = *log};
    FED_TRY(sim_result_write(directory, log, err));
    sim_path(page, directory, "report.html");
    snprintf(run.name, sizeof run.name, "%.255s", name != NULL ? name + 1 : directory);
    sim_version_text(run.version, sizeof run.version);
    sim_machine_text(run.machine, sizeof run.machine);
    memcpy(run.scenario.value, s->value, sizeof run.scenario.value); /* *s still owns the texts */
    return sim_report_write(page, NULL, &run, 1, err);
}

/** Can a run of these options be resumed? One over HTTPS can't, nor one with trainers: a step that
 * a trainer has under way could take too long to be waited for. */
static bool can_go_on(const sim_options *o) {
    return !sim_has_trainers(o) && o->transport == SIM_INPROC;
}

/** Don't begin a stopped run again over what it left. */
static fed_status check_can_go_on(const sim_options *o, const char *directory, fed_error *err) {
    if (can_go_on(o) || !exists(directory, "summary.json")) {
        return FED_OK;
    }
    return fed_fail(err, FED_ESTATE,
                    "%s: this run was stopped, and a run over https or with trainers can't go on; "
                    "to begin it again remove the folder, or choose another --out",
                    directory);
}

/** Choose where the run keeps its files. In one process the coordinator gets a temporary directory,
 * and the state for --resume lies in the run's directory. */
static void place_run(sim_options *o, const char *directory, char state[SIM_PATH],
                      char coordinator[SIM_PATH], char model[SIM_PATH]) {
    o->model = sim_path(model, directory, "model.safetensors");
    if (sim_has_trainers(o)) {
        o->state = NULL;
    } else if (o->transport == SIM_INPROC) {
        o->state = sim_path(state, directory, "state");
        o->resume = exists(directory, "state/run");
    } else {
        clear(directory, "coordinator");
        o->directory = sim_path(coordinator, directory, "coordinator");
    }
}

static fed_status run_cell(batch *b, const sim_scenario *s, const char *directory, sim_log *log,
                           fed_error *err) {
    char task[SIM_PATH], coordinator[SIM_PATH], state[SIM_PATH], model[SIM_PATH];
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const sim_watch watch = {
        .user = b, .progress = say_progress, .listening = say_listening, .stop = b->command->stop};
    sim_options o;
    FED_TRY(sim_options_read(s, cores > 0 ? (uint32_t)cores : 1, &o, err));
    FED_TRY(check_can_go_on(&o, directory, err));
    if (sim_options_slow_bfloat16(&o)) {
        fprintf(stderr, "fedsim: warning: device=bfloat16: this processor lacks AVX512_BF16, so "
                        "training is slower than without the key\n");
    }
    b->goes_on = can_go_on(&o);
    FED_TRY(sim_result_begin(directory, s, err));
    sim_path(task, directory, "task.json");
    o.task = task;
    o.fedserver = o.fedserver[0] != '\0' ? o.fedserver : b->fedserver;
    place_run(&o, directory, state, coordinator, model);
    fed_status status = sim_run(&o, &watch, log, err);
    sim_bar_wipe(&b->bar);
    if (status == FED_OK || status == FED_ECANCELED) {
        fed_error own = {0};
        if (write_run(directory, s, log, &own) != FED_OK) {
            return fed_fail(err, own.status, "%s", own.text);
        }
    }
    if (status == FED_OK) {
        clear(directory, "state/coordinator");
        clear(directory, "state");
    }
    return status;
}

static fed_status take_cell(batch *b, const sim_cell *cell, fed_error *err) {
    char directory[SIM_PATH];
    bool finished = false;
    sim_log log = {0};
    snprintf(directory, sizeof directory, "%s%s%s", b->out, cell->name[0] != '\0' ? "/" : "",
             cell->name);
    if (holds_results(directory)) {
        FED_TRY(check_same(directory, &cell->scenario, err));
    }
    if (exists(directory, "summary.json")) {
        FED_TRY(sim_result_finished(directory, &finished, err));
    }
    if (finished) {
        return FED_OK;
    }
    fed_status status = run_cell(b, &cell->scenario, directory, &log, err);
    sim_log_free(&log);
    return status;
}

static fed_status read_scenario(const sim_command *c, sim_scenario *s, fed_error *err) {
    size_t k = 0;
    if (c->word_count > 0 && (strchr(c->words[0], '=') == NULL || access(c->words[0], F_OK) == 0)) {
        FED_TRY(sim_scenario_read(c->words[k++], s, err));
    }
    for (; k < c->word_count; k++) {
        if (strchr(c->words[k], '=') == NULL) {
            return fed_fail(err, FED_EINVAL,
                            "\"%s\" is not key=value; give one scenario file at most, "
                            "before the keys",
                            c->words[k]);
        }
        FED_TRY(sim_scenario_override(s, c->words[k], err));
    }
    return FED_OK;
}

static bool begins_with_any(const char *text, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strncmp(text, *words, strlen(*words)) == 0) {
            return true;
        }
    }
    return false;
}

/** Warn of keys that were measured to hurt together. */
static void warn_of_pairs(const sim_scenario *s) {
    if (s->value[SIM_SERVER][0] != '\0') {
        return; /* the task is the coordinator's */
    }
    static const char *const sparse[] = {"sbc", "stc", "topk", "dgc", "randk", "threshold", NULL};
    static const char *const adaptive[] = {"fedadam", "fedyogi", "fedadagrad", NULL};
    const char *codec = s->value[SIM_CODEC_UP];
    if (begins_with_any(s->value[SIM_STRATEGY], adaptive) && begins_with_any(codec, sparse)) {
        fprintf(stderr,
                "fedsim: warning: strategy=%s scales each value by its history, which codec_up=%s "
                "distorts, as it sends few values a round: compare with strategy=fedavg\n",
                s->value[SIM_STRATEGY], codec);
    }
    const char *variates = s->value[SIM_CODEC_VARIATES];
    if (strstr(s->value[SIM_OPTIMIZER], "scaffold") != NULL && begins_with_any(codec, sparse) &&
        (variates == NULL || variates[0] == '\0')) {
        fprintf(stderr,
                "fedsim: warning: scaffold's control variates travel as float32 both ways beside "
                "the messages of "
                "codec_up=%s: codec_variates=eden takes a 32nd of it\n",
                codec);
    }
}

static fed_status check_cells(batch *b, fed_error *err) {
    for (size_t k = 0; k < b->grid.count; k++) {
        sim_scenario *s = &b->grid.cells[k].scenario;
        sim_options o;
        fed_writer task;
        FED_TRY(sim_scenario_complete(s, err));
        FED_TRY(sim_options_read(s, 1, &o, err));
        if (k == 0 || sim_scenario_difference(s, &b->grid.cells[k - 1].scenario) != SIM_SEED) {
            warn_of_pairs(s);
        }
        if (sim_is_foreign(&o) && b->grid.count > 1) {
            return fed_fail(err, FED_EINVAL,
                            "server: a token enrols once, so run one cell at a time");
        }
        fed_writer_growing(&task);
        fed_status status =
            sim_is_foreign(&o) ? sim_options_check(&o, err) : sim_task_write(s, &task, err);
        fed_writer_free(&task);
        FED_TRY(status);
    }
    return FED_OK;
}

static fed_status open_output(batch *b, const sim_scenario *s, fed_error *err) {
    fed_writer w;
    char path[SIM_PATH];
    const bool grid = b->grid.count > 1;
    if (!b->command->resume && (grid ? exists(b->out, "scenario.txt") : holds_results(b->out))) {
        return fed_fail(err, FED_EINVAL,
                        "%s: there are results already; add --resume to continue "
                        "them, or choose another --out",
                        b->out);
    }
    FED_TRY(fed_dir_make(b->out, 0755, err));
    if (!grid) {
        return FED_OK;
    }
    fed_writer_growing(&w);
    sim_scenario_write(s, &w);
    sim_path(path, b->out, "scenario.txt");
    fed_status status = w.status;
    if (status == FED_OK) {
        status = fed_file_replace(path, w.data, w.len, 0644, err);
    }
    fed_writer_free(&w);
    return status;
}

/** Run all cells. A cell that fails does not keep the others from running. */
static fed_status run_cells(batch *b, fed_error *err) {
    sim_bar_open(&b->bar, b->grid.count);
    for (size_t k = 0; k < b->grid.count; k++) {
        fed_error why = {0};
        sim_bar_next(&b->bar, k);
        fed_status status = take_cell(b, &b->grid.cells[k], &why);
        sim_bar_wipe(&b->bar);
        if (status == FED_ECANCELED && !b->goes_on) {
            return fed_fail(err, status,
                            "stopped (%s); this run can't go on, its results so far are in %s",
                            why.text, b->out);
        }
        if (status == FED_ECANCELED) {
            return fed_fail(err, status,
                            "stopped (%s); continue with: fedsim run %s/scenario.txt "
                            "--out %s --resume",
                            why.text, b->out, b->out);
        }
        if (status != FED_OK && b->grid.count == 1) {
            return fed_fail(err, status, "%s", why.text[0] != '\0' ? why.text : "the run failed");
        }
        if (status != FED_OK) {
            fprintf(stderr, "fedsim: %s: %s: %s\n", b->grid.cells[k].name, fed_status_text(status),
                    why.text);
        }
        b->failed += status != FED_OK;
        b->done += status == FED_OK;
    }
    return FED_OK;
}

static fed_status show_run(const batch *b, fed_error *err) {
    sim_result run = {0};
    fed_writer w;
    fed_writer_growing(&w);
    fed_status status = sim_result_read(b->out, &run, err);
    if (status == FED_OK) {
        sim_summary_text(&run.log, &w);
        status = w.status;
    }
    if (status == FED_OK) {
        printf("\n%.*s\n  plots: %s/report.html%s\n", (int)w.len, (const char *)w.data, b->out,
               exists(b->out, "model.safetensors")
                   ? "; final model: model.safetensors in the same folder"
                   : "");
    }
    fed_writer_free(&w);
    sim_result_free(&run);
    return status;
}

static fed_status show_grid(const batch *b, const sim_scenario *s, fed_error *err) {
    char page[SIM_PATH];
    const char *out = b->out;
    const char *title = s->value[SIM_NAME];
    if (b->done > 0) {
        sim_path(page, b->out, "report.html");
        FED_TRY(sim_report_make(&out, 1, page, title, err));
        printf("\nplots: %s\n", page);
    }
    return b->failed == 0 ? FED_OK
                          : fed_fail(err, FED_ESTATE,
                                     "%zu of %zu runs failed, for the reasons above; "
                                     "--resume tries them again",
                                     b->failed, b->grid.count);
}

static fed_status run_batch(batch *b, sim_scenario *s, fed_error *err) {
    const sim_command *c = b->command;
    FED_TRY(read_scenario(c, s, err));
    FED_TRY(sim_grid_expand(s, &b->grid, err));
    FED_TRY(check_cells(b, err));
    if (c->out != NULL) {
        snprintf(b->out, sizeof b->out, "%s", c->out);
    } else {
        name_output(s->file, b->out, sizeof b->out);
    }
    FED_TRY(open_output(b, s, err));
    find_fedserver(b);
    FED_TRY(run_cells(b, err));
    return b->grid.count == 1 ? show_run(b, err) : show_grid(b, s, err);
}

fed_status sim_command_run(const sim_command *command, fed_error *err) {
    batch b = {.command = command};
    sim_scenario s = {0};
    fed_status status = run_batch(&b, &s, err);
    sim_grid_free(&b.grid);
    sim_scenario_free(&s);
    return status;
}
