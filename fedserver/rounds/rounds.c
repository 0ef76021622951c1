/* Adds, finds and frees the tasks in memory, and stores their open rounds. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/rounds.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fedserver/task/private_task.h"

static void training_free(fedserver_training *training) {
    /* first, because the thread of a closing reads the versions and the layout */
    fedserver_closing_drop(training->closing);
    fedserver_closing_drop(training->tidying);
    fedserver_lease_list_free(&training->leases);
    fedserver_marks_free(&training->declined);
    fedserver_marks_free(&training->too_old);
    fedserver_marks_free(&training->unfit);
    fedserver_marks_free(&training->shut_out);
    fedserver_marks_free(&training->rests);
    fedserver_marks_free(&training->measured);
    fedserver_marks_free(&training->ledger.taken);
    fedserver_marks_free(&training->ledger.last);
    fedserver_downloads_free(&training->downloads);
    fedserver_blob_free(training->layout_blob);
    fedserver_versions_free(&training->versions);
    fedserver_sum_free(&training->sum);
    free(training->drawn);
    free(training->state);
    fed_arch_free(&training->arch);
    free(training);
}

void fedserver_rounds_free(fedserver_rounds *rounds) {
    while (rounds->task_count > 0) {
        fedserver_rounds_remove(rounds, rounds->tasks[rounds->task_count - 1]);
    }
    free(rounds->tasks);
    rounds->tasks = NULL;
    free(rounds->wakes.keys);
    rounds->wakes = (fedserver_wakes){.keys = NULL};
    fedserver_object_cache_free(&rounds->object_cache, rounds->directory);
    fedserver_devices_free(&rounds->devices);
}

fed_status fedserver_rounds_append(fedserver_rounds *rounds, fedserver_training **training) {
    const size_t size = (rounds->task_count + 1) * sizeof(fedserver_training *);
    fedserver_training **tasks = realloc(rounds->tasks, size);
    FED_REQUIRE(tasks != NULL, FED_ENOMEM);
    rounds->tasks = tasks;
    fedserver_training *made = calloc(1, sizeof *made);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    tasks[rounds->task_count++] = made;
    *training = made;
    return FED_OK;
}

void fedserver_rounds_remove(fedserver_rounds *rounds, fedserver_training *training) {
    size_t kept = 0;
    for (size_t k = 0; k < rounds->task_count; k++) {
        if (rounds->tasks[k] != training) {
            rounds->tasks[kept++] = rounds->tasks[k];
        }
    }
    /* S14 in docs/durability.md: a task is in memory once. */
    assert(kept + 1 == rounds->task_count);
    rounds->task_count = kept;
    fedserver_object_cache_drop(&rounds->object_cache, rounds->directory, training->task.wire.id);
    training_free(training);
}

fedserver_training *fedserver_rounds_task(const fedserver_rounds *rounds, uint64_t id) {
    for (size_t k = 0; k < rounds->task_count; k++) {
        if (rounds->tasks[k]->task.wire.id == id) {
            return rounds->tasks[k];
        }
    }
    return NULL;
}

bool fedserver_training_runs(const fedserver_training *training) {
    return training->round.phase != FEDSERVER_ROUND_NONE;
}

bool fedserver_rounds_busy(const fedserver_rounds *rounds) {
    const fedserver_training *front = fedserver_rounds_front(rounds);
    return front != NULL && fedserver_training_runs(front);
}

static bool in_front(const fedserver_training *t, const fedserver_training *other) {
    const bool runs = fedserver_training_runs(t);
    if (runs != fedserver_training_runs(other)) {
        return runs;
    }
    if (runs || t->task.finished_ms == other->task.finished_ms) {
        return runs ? t->task.priority > other->task.priority
                    : t->task.wire.id > other->task.wire.id;
    }
    return t->task.finished_ms > other->task.finished_ms;
}

fedserver_training *fedserver_rounds_front(const fedserver_rounds *rounds) {
    fedserver_training *front = NULL;
    for (size_t k = 0; k < rounds->task_count; k++) {
        if (front == NULL || in_front(rounds->tasks[k], front)) {
            front = rounds->tasks[k];
        }
    }
    return front;
}

fedserver_round_row fedserver_round_row_of(const fedserver_training *t) {
    fedserver_round_row row = {.number = t->round.number,
                               .attempts = t->round.attempt,
                               .opened_ms = t->round.opened_ms,
                               .deadline_ms = t->round.deadline_ms,
                               .closing_ms = t->round.closing_ms};
    const fedserver_settled_set *settled = &t->settled;
    row.clip =
        fedserver_task_adapts(&t->task) ? (double)fedserver_task_clip(&t->task) : settled->clip;
    row.sigma2 = settled->sigma2;
    row.rho = settled->rho;
    memcpy(row.set_digest, settled->set_digest, sizeof row.set_digest);
    memcpy(row.noise_key, settled->noise_key, sizeof row.noise_key);
    return row;
}

fed_status fedserver_round_save(fedserver_rounds *rounds, const fedserver_training *t,
                                fed_error *err) {
    /* S5 in docs/durability.md: the open round makes the next version. */
    assert(t->round.number == t->versions.version + 1);
    fedserver_round_row row = fedserver_round_row_of(t);
    return rounds->store->round_put(rounds->db, t->task.wire.id, &row, err);
}
