/* Makes the next version of a model, at once or in a thread of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/closing.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "fed/hash.h"
#include "fed/threads.h"
#include "fedserver/rounds/stored.h"
#include "fedserver/task/phases.h"

/* Unit: bytes. A thread stores larger deltas as blobs. */
enum { DELTA_IN_ROW = 65536 };

struct fedserver_closing {
    /* A copy of the training. The copy owns the sum, state and residual. It shares the layout and
     * the old values with the training, and both only read these. While the thread runs, only the
     * thread may use the members down to `made`. */
    fedserver_training t;
    fedserver_rounds rounds; /* for the thread; has only what is needed to open the store */
    bool keeps_old;
    bool wanted[2]; /* make a snapshot of kinds[k]? */
    fedserver_closed made;
    fedserver_closing *before; /* the previous closing, which may still free a version */
    fedserver_versions old;

    bool apart;
    bool started;
    pthread_t thread;
    int bell; /* wakes the event loop at the thread's end */
    atomic_bool ended, stop;
    fed_status status;
    fed_error err;
};

static const fed_part_kind kinds[] = {FED_PART_SNAPSHOT, FED_PART_PATCH};

fedserver_archive fedserver_rounds_archive(const fedserver_rounds *rounds,
                                           const fedserver_training *t) {
    return (fedserver_archive){.store = rounds->store,
                               .db = rounds->db,
                               .task = t->task.wire.id,
                               .layout = &t->arch.layout,
                               .log = rounds->log};
}

fed_status fedserver_closing_begin(fedserver_rounds *rounds, fedserver_training *t,
                                   fed_error *err) {
    assert(t->closing == NULL && t->round.phase == FEDSERVER_ROUND_CLOSING);
    /* S4 in docs/durability.md: the sum has exactly the stored updates. */
    assert(t->sum.updates == t->round.received);
    /* S5 in docs/durability.md: round k starts from version k - 1. */
    assert(t->versions.version + 1 == t->round.number);
    const fedserver_archive archive = fedserver_rounds_archive(rounds, t);
    bool keeps_old = false;
    FED_TRY(fedserver_old_versions_due(&archive, &t->versions, &keeps_old, err));
    fedserver_closing *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory to close a round");
    }
    c->t = *t;
    c->keeps_old = keeps_old;
    for (size_t k = 0; k < 2; k++) {
        c->wanted[k] = fedserver_downloads_wanted(&t->downloads, t->versions.version, kinds[k]);
    }
    t->closing = c;
    c->before = t->tidying;
    t->tidying = NULL;
    t->sum = (fedserver_sum){0};
    t->own = (fedserver_own_table){.count = 0};
    t->state = NULL;
    t->versions.residual = NULL;
    if (t->round.ahead > 0) { /* after a restart: updates of the next round are in the store */
        FED_TRY(fedserver_stored_load(rounds, t, fedserver_round_counting(&t->round), err));
    }
    /* S4 in docs/durability.md: the new sum has exactly the next round's updates. */
    assert(t->sum.updates == t->round.ahead);
    return FED_OK;
}

bool fedserver_closing_apart(const fedserver_rounds *rounds, const fedserver_training *t) {
    return rounds->apart_values > 0 && (t->arch.layout.size >= rounds->apart_values ||
                                        fedserver_strategy_is_outside(&t->strategy));
}

/* Fail if the closing is to stop, so that the thread ends early. */
static fed_status go_on(const fedserver_closing *c, fed_error *err) {
    return atomic_load(&c->stop)
               ? fed_fail(err, FED_ESTATE, "the task ended while its round closed")
               : FED_OK;
}

/* Make the new version: the last version plus what the strategy makes of `change`. */
static fed_status make_version(fedserver_closing *c, float *change, fed_error *err) {
    fedserver_training *t = &c->t;
    fedcodec codec_down[2];
    uint64_t digest;
    const size_t trained = fedserver_trained(&t->arch.layout);
    const fedserver_phase phase = fedserver_phase_of(&t->task, t->round.number);
    FED_TRY(fedcodec_parse_pair(phase.codec_down, t->task.wire.codec_variates, codec_down, err));
    if (c->made.updates == 0 || c->made.weights.lost < c->made.updates) {
        /* else all sums are too long: the model does not change */
        fedserver_strategy_step(&t->strategy, t->state, change, trained);
    }
    FED_TRY(go_on(c, err));
    FED_TRY(t->given != NULL
                ? fedserver_versions_given(&t->versions, t->given, t->versions.residual,
                                           &c->made.version, err)
                : fedserver_versions_next(&t->versions, codec_down, t->task.wire.small_tensor,
                                          change, t->versions.residual, &c->made.version, err));
    t->versions.residual = NULL;
    (void)fedserver_versions_part(&c->made.version, &c->made.part_len, &digest);
    c->made.state = t->state;
    c->made.state_len = fedserver_strategy_state_size(&t->strategy, trained) * sizeof *t->state;
    /* S5 in docs/durability.md: round k makes version k. */
    assert(c->made.version.version == t->round.number);
    return FED_OK;
}

fed_status fedserver_closing_make(fedserver_rounds *rounds, fedserver_closing *c, fed_error *err) {
    /* D3 in docs/durability.md: a version is made of updates or is given, and is made once. */
    assert((c->t.sum.updates > 0 || c->t.given != NULL) && c->made.version.values == NULL);
    float *change = calloc(c->t.arch.layout.size, sizeof *change);
    if (change == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the change of the model");
    }
    c->made.updates = c->t.sum.updates;
    c->made.samples = c->t.sum.samples;
    c->made.bytes = c->t.sum.bytes;
    c->made.own = c->t.own;
    fed_status status = FED_OK;
    if (c->t.sum.updates > 0) {
        status = c->t.intake->combine(rounds, &c->t, &c->made.weights, change, err);
    }
    if (status == FED_OK && c->apart) {
        fedserver_sum_free(&c->t.sum);
    }
    if (status == FED_OK) {
        status = make_version(c, change, err);
    }
    free(change);
    return status;
}

static fed_status put(const fedserver_closing *c, const void *bytes, size_t len, uint64_t *digest,
                      fed_error *err) {
    /* S9 in docs/durability.md: blobs are stored before rows name them. */
    assert(c->apart && !c->made.kept);
    FED_TRY(go_on(c, err));
    *digest = fed_digest_bytes(bytes, len);
    return c->rounds.store->blob_put(c->rounds.db, c->t.task.wire.id, *digest, bytes, len, err);
}

static fed_status keep(fedserver_closing *c, fed_error *err) {
    fedserver_closed *made = &c->made;
    const size_t bytes = c->t.arch.layout.size * sizeof(float);
    uint64_t digest;
    size_t len;
    if (c->keeps_old && !c->t.versions.kept) {
        FED_TRY(put(c, c->t.versions.values, bytes, &digest, err));
        made->old_kept = true;
    }
    FED_TRY(put(c, made->version.values, bytes, &digest, err));
    /* C5 in docs/durability.md: the digest that devices compare also names the blob. */
    assert(digest == made->version.digest);
    FED_TRY(put(c, made->version.residual, bytes, &made->residual_digest, err));
    if (made->state_len > 0) {
        FED_TRY(put(c, made->state, made->state_len, &made->state_digest, err));
    }
    if (made->part_len > DELTA_IN_ROW) {
        const uint8_t *part = fedserver_versions_part(&made->version, &len, &digest);
        FED_TRY(put(c, part, len, &digest, err));
        made->part_kept = true;
    }
    FED_TRY(c->rounds.store->commit(c->rounds.db, err));
    made->kept = made->version.kept = true;
    return FED_OK;
}

/* Make snapshots in the thread, since in the event loop all devices would have to wait. */
static fed_status make_snapshots(fedserver_closing *c, fed_error *err) {
    for (size_t k = 0; k < 2; k++) {
        FED_TRY(go_on(c, err));
        if (c->wanted[k]) {
            FED_TRY(
                fedserver_downloads_make(&c->made.version, kinds[k], &c->made.snapshots[k], err));
        }
    }
    return FED_OK;
}

/* Open the store. Fails in a process that no longer leads. */
static fed_status open_store(const fedserver_rounds *rounds, void **db, fed_error *err) {
    FED_TRY(rounds->store->open(rounds->directory, rounds->where, db, err));
    const fed_status status =
        rounds->term != 0 ? rounds->store->serve_term(*db, rounds->term, err) : FED_OK;
    if (status != FED_OK) {
        rounds->store->close(*db);
    }
    return status;
}

static fed_status work(fedserver_closing *c, fed_error *err) {
    const fedserver_store *store = c->rounds.store;
    /* waits until old blobs are deleted, before new ones are written */
    fedserver_closing_drop(c->before);
    c->before = NULL;
    FED_TRY(open_store(&c->rounds, &c->rounds.db, err));
    fed_status status = fedserver_closing_make(&c->rounds, c, err);
    if (status == FED_OK) {
        status = keep(c, err);
    }
    if (status == FED_OK) {
        status = make_snapshots(c, err);
    }
    store->close(c->rounds.db);
    return status;
}

static void *run(void *user) {
    fedserver_closing *c = user;
    const uint64_t once = 1;
    c->status = work(c, &c->err);
    atomic_store(&c->ended, true);
    /* if the write fails, the next tick of the event loop finds that the thread has ended */
    const ssize_t rung = write(c->bell, &once, sizeof once);
    (void)rung;
    return NULL;
}

void fedserver_closing_start(fedserver_rounds *rounds, fedserver_closing *c) {
    if (c->started || atomic_load(&c->ended)) {
        return;
    }
    /* S5 in docs/durability.md: the transaction that settled the round is committed. */
    assert(!rounds->store->writing(rounds->db));
    c->rounds = (fedserver_rounds){.store = rounds->store,
                                   .directory = rounds->directory,
                                   .where = rounds->where,
                                   .term = rounds->term,
                                   .opening = rounds->opening,
                                   .stop = &c->stop};
    c->bell = rounds->bell;
    c->apart = true;
    c->started = fed_thread_start(&c->thread, run, c);
    if (!c->started) {
        const fed_log_about about = fedserver_task_about(&c->t.task, c->t.round.number);
        fed_logf_about(
            rounds->log, FED_LOG_WARN, &about,
            "task %llu: can't start the thread that closes round %u; the next batch tries "
            "again (allow more threads: ulimit -u, TasksMax)",
            (unsigned long long)c->t.task.wire.id, c->t.round.number);
    }
}

bool fedserver_closing_done(fedserver_closing *c, fed_status *status, fed_error *err) {
    if (!c->started || !atomic_load(&c->ended)) {
        return false;
    }
    (void)pthread_join(c->thread, NULL);
    c->started = false;
    /* S9 in docs/durability.md: the version's blobs are committed. */
    assert(c->status != FED_OK || c->made.kept);
    *status = c->status;
    if (c->status != FED_OK) {
        (void)fed_fail(err, c->status, "%s", c->err.text);
    }
    return true;
}

fedserver_closed *fedserver_closing_result(fedserver_closing *c) {
    return &c->made;
}

static void *tidy(void *user) {
    fedserver_closing *c = user;
    const fedserver_store *store = c->rounds.store;
    void *db = NULL;
    fedserver_versions_free(&c->old);
    if (c->made.kept && open_store(&c->rounds, &db, NULL) == FED_OK) {
        const fed_status ignored = store->blob_sweep(db, c->t.task.wire.id, NULL);
        (void)ignored;
        store->close(db);
    }
    return NULL;
}

void fedserver_closing_tidy(fedserver_closing *c) {
    assert(c->apart); /* S9 in docs/durability.md: a thread made the version. */
    if (!c->started) {
        c->started = fed_thread_start(&c->thread, tidy, c);
    }
}

void fedserver_closing_take(fedserver_training *t) {
    fedserver_closing *c = t->closing;
    /* D5 in docs/durability.md: the new version follows the old one. */
    assert(!c->started && c->made.version.version == t->versions.version + 1);
    t->state = c->t.state;
    c->t.state = NULL;
    c->old = t->versions;
    t->versions = c->made.version;
    c->made.version = (fedserver_versions){0};
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        if (c->made.snapshots[k].blob != NULL) {
            fedserver_downloads_add(&t->downloads, &c->made.snapshots[k]);
        }
    }
    if (t->sum.size == 0) {
        fedserver_sum_clear(&c->t.sum);
        t->sum = c->t.sum;
        c->t.sum = (fedserver_sum){0};
    }
    t->closing = NULL;
    if (c->apart) {
        t->tidying = c;
    } else {
        fedserver_closing_drop(c);
    }
}

void fedserver_closing_drop(fedserver_closing *c) {
    if (c == NULL) {
        return;
    }
    atomic_store(&c->stop, true);
    if (c->started) {
        (void)pthread_join(c->thread, NULL);
    }
    fedserver_closing_drop(c->before);
    fedserver_versions_free(&c->old);
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        fedserver_blob_free(c->made.snapshots[k].blob);
    }
    fedserver_versions_free(&c->made.version);
    free(c->made.weights.worst);
    free(c->t.versions.residual);
    free(c->t.state);
    fedserver_sum_free(&c->t.sum);
    free(c);
}
