/* Checks a run of the kill matrix: by recomputing the models, and by the history. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos_log.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed_cluster.h"
#include "fed_test.h"
#include "kill_strike.h"

enum { PATH_SIZE = 400, PLACED_SIZE = 1 << 20 };

/* For asynchronous rounds: take each update's round from the table that PostgreSQL's trigger fills
 * (kill_world.c). */
static void place_updates(const kill_world *w, federation *f) {
    char *text = malloc(PLACED_SIZE);
    assert_non_null(text);
    fed_postgres_sql(kill_store_primary(w->setup->store)->where,
                     "SELECT string_agg(lease || ' ' || round, ' ') FROM public.placed", text,
                     PLACED_SIZE);
    size_t placed = 0;
    char *at = text;
    for (char *end = at; *at != '\0'; at = end) {
        const uint64_t lease = (uint64_t)strtoll(at, &end, 10);
        const unsigned long round = strtoul(end, &end, 10);
        if (fed_ledger_place(&f->ledger, lease, (uint32_t)round) != FED_OK) {
            federation_break(f, "D2: an update counted in round %lu that was never acknowledged",
                             round);
        }
        placed++;
    }
    if (placed != f->ledger.count) {
        federation_break(f, "D1: %zu updates were acknowledged, but %zu were stored",
                         f->ledger.count, placed);
    }
    f->placed = true;
    free(text);
}

static void read_logs(const kill_world *w, federation *f) {
    char path[PATH_SIZE];
    for (unsigned k = 0; k < w->setup->coordinators; k++) {
        kill_world_log(w, k, path, sizeof path);
        fed_history_next_log(f->history);
        assert_true(fed_history_read_log(f->history, path));
    }
}

static char *read_text(const char *path) {
    uint8_t *text = NULL;
    size_t len = 0;
    return fed_file_read(path, 1 << 26, &text, &len, NULL) == FED_OK ? (char *)text : NULL;
}

/* A helper refuses a round if it has opened another set of it. */
static void check_helper(const kill_world *w, federation *f) {
    char path[PATH_SIZE];
    kill_world_helper_log(w, path, sizeof path);
    char *text = kill_is_helped(w->setup->mode) ? read_text(path) : NULL;
    const char *at = text != NULL ? strstr(text, "is not opened") : NULL;
    if (at != NULL) {
        federation_break(f, "S20: the helper refused a round: %.100s", at);
    }
    free(text);
}

void kill_world_judge(kill_world *w, federation_result *result) {
    const bool any_round = w->setup->mode == KILL_ASYNCHRONOUS;
    federation_setup setup = {.model = kill_model(w->setup->mode),
                              .devices = KILL_DEVICES,
                              .counts_any_round = any_round,
                              .median = w->setup->mode == KILL_MEDIAN,
                              .helped = kill_is_helped(w->setup->mode),
                              .groups = w->setup->mode == KILL_GROUPS ? 3 : 0,
                              .noisy = w->setup->mode == KILL_CLIP,
                              .adapts = w->setup->mode == KILL_CLIP};
    federation f;
    memcpy(setup.helper_secret, w->helper_secret, sizeof setup.helper_secret);
    kill_world_stop(w);
    chaos_judge(&f, &setup, w->run.directory, result);
    for (unsigned k = 0; k < KILL_DEVICES; k++) {
        chaos_log_read(w->run.directory, k, &f);
    }
    read_logs(w, &f);
    if (any_round) {
        place_updates(w, &f);
    }
    federation_check(&f);
    check_helper(w, &f);
    federation_forget(&f);
}

unsigned kill_world_leader(const kill_world *w) {
    char path[PATH_SIZE];
    unsigned leader = 0;
    uint64_t newest = 0;
    for (unsigned k = 0; k < w->setup->coordinators; k++) {
        kill_world_log(w, k, path, sizeof path);
        const uint64_t led = fed_cluster_led(path);
        leader = led > newest ? k : leader;
        newest = led > newest ? led : newest;
    }
    return leader;
}

unsigned kill_world_refolded(const kill_world *w) {
    static const char mark[] = "goes on with round ";
    char path[PATH_SIZE];
    unsigned all = 0;
    for (unsigned k = 0; k < w->setup->coordinators; k++) {
        kill_world_log(w, k, path, sizeof path);
        char *text = read_text(path);
        for (const char *at = text; at != NULL && (at = strstr(at, mark)) != NULL; at++) {
            unsigned updates = 0;
            all +=
                sscanf(at + strlen(mark), "%*u, attempt %*u: %u of", &updates) == 1 ? updates : 0;
        }
        free(text);
    }
    return all;
}

unsigned kill_world_says(const kill_world *w, unsigned k, const char *words) {
    char path[PATH_SIZE];
    unsigned count = 0;
    kill_world_log(w, k, path, sizeof path);
    char *text = read_text(path);
    for (const char *at = text; at != NULL && (at = strstr(at, words)) != NULL; at++) {
        count++;
    }
    free(text);
    return count;
}

static void print_log(const char *path) {
    char *text = read_text(path);
    printf("---- %s\n%s", path, text != NULL ? text : "");
    free(text);
}

void kill_world_print_logs(const kill_world *w) {
    char path[PATH_SIZE];
    for (unsigned k = 0; k < w->setup->coordinators; k++) {
        kill_world_log(w, k, path, sizeof path);
        print_log(path);
    }
    if (kill_is_helped(w->setup->mode)) {
        kill_world_helper_log(w, path, sizeof path);
        print_log(path);
    }
    if (w->setup->balancer != KILL_NO_BALANCER) {
        kill_balancer_log(w->run.directory, path, sizeof path);
        print_log(path);
    }
    fflush(stdout);
}
