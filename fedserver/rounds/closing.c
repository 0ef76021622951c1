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

/* A shorter delta lies in its row: a file of its own would cost more. */
enum { DELTA_IN_ROW = 65536 };

struct fedserver_closing {
    /* What was taken from the training, and what both only read: task, layout, old values. Until
     * the thread has ended, only the thread touches the members up to `made`. */
    fedserver_training t;
    fedserver_rounds rounds; /* store, handle and directory; nothing else */
    bool keeps_old;          /* the old version is to be kept whole */
    bool wanted[2];          /* snapshots, by kind: as values, as a patch */
    fedserver_closed made;
    fedserver_closing *before; /* the closing of the round before, which may still tidy up */
    fedserver_versions old;    /* the version before, to be freed */

    bool apart;   /* a thread makes the version */
    bool started; /* the thread was started, and was not joined yet */
    pthread_t thread;
    int bell; /* the thread rings it when it has ended */
    atomic_bool ended, stop;
    fed_status status;
    fed_error err;
};

static const fed_part_kind kinds[] = {FED_PART_SNAPSHOT, FED_PART_PATCH};

/* -- begin -- */

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
    assert(t->sum.updates == t->round.received); /* S4: the sum holds exactly the stored updates */
    assert(t->versions.version + 1 == t->round.number); /* S5: round k goes on from version k - 1 */
    const fedserver_archive archive = fedserver_rounds_archive(rounds, t);
    bool keeps_old = false;
    FED_TRY(fedserver_old_versions_due(&archive, &t->versions, &keeps_old, err));
    fedserver_closing *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a round that closes");
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
    if (t->round.ahead > 0) { /* after a restart */
        FED_TRY(fedserver_stored_load(rounds, t, fedserver_round_counting(&t->round), err));
    }
    assert(t->sum.updates == t->round.ahead); /* S4, of the next round */
    return FED_OK;
}

bool fedserver_closing_apart(const fedserver_rounds *rounds, const fedserver_training *t) {
    return rounds->apart_values > 0 && t->arch.layout.size >= rounds->apart_values;
}

/* -- make -- */

/* The thread ends early where nobody waits for its result any more. */
static fed_status go_on(const fedserver_closing *c, fed_error *err) {
    return atomic_load(&c->stop) ? fed_fail(err, FED_ESTATE, "the task has ended meanwhile")
                                 : FED_OK;
}

/* The new version is the last one plus what the strategy makes of `change`. */
static fed_status make_version(fedserver_closing *c, float *change, fed_error *err) {
    fedserver_training *t = &c->t;
    fedcodec codec_down;
    uint64_t digest;
    const size_t trained = fedserver_trained(&t->arch.layout);
    const fedserver_phase phase = fedserver_phase_of(&t->task, t->round.number);
    FED_TRY(fedcodec_parse(phase.codec_down, &codec_down, err));
    fedserver_strategy_step(&t->strategy, t->state, change, trained);
    FED_TRY(go_on(c, err));
    FED_TRY(t->given != NULL
                ? fedserver_versions_given(&t->versions, t->given, t->versions.residual,
                                           &c->made.version, err)
                : fedserver_versions_next(&t->versions, &codec_down, t->task.wire.small_tensor,
                                          change, t->versions.residual, &c->made.version, err));
    t->versions.residual = NULL; /* the new version has it */
    (void)fedserver_versions_part(&c->made.version, &c->made.part_len, &digest);
    c->made.state = t->state;
    c->made.state_len = fedserver_strategy_state_size(&t->strategy, trained) * sizeof *t->state;
    assert(c->made.version.version == t->round.number); /* S5: round k makes version k */
    return FED_OK;
}

fed_status fedserver_closing_make(fedserver_rounds *rounds, fedserver_closing *c, fed_error *err) {
    /* D3: a version comes of updates or is given, and is made once */
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
    if (c->t.sum.updates > 0) { /* a version that is given needs none */
        status = c->t.intake->combine(rounds, &c->t, &c->made.weights, change, err);
    }
    if (status == FED_OK && c->apart) {
        fedserver_sum_free(&c->t.sum); /* its memory is as much as two models */
    }
    if (status == FED_OK) {
        status = make_version(c, change, err);
    }
    free(change);
    return status;
}

/* -- keep -- */

/* Put bytes, and say under which digest. */
static fed_status put(const fedserver_closing *c, const void *bytes, size_t len, uint64_t *digest,
                      fed_error *err) {
    assert(c->apart && !c->made.kept); /* S9: files are put before rows name them */
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
    assert(digest == made->version.digest); /* C5: what a device compares names the file, too */
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

/* A snapshot costs as much time as a version. Devices that come without a model would wait for it,
 * and everybody with them. */
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

/* -- the thread -- */

/* A handle of the thread's own. A process that no longer leads gets none. */
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
    fedserver_closing_drop(c->before); /* its files are gone before new ones come */
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
    /* if the bell can't be rung, the next tick looks */
    const ssize_t rung = write(c->bell, &once, sizeof once);
    (void)rung;
    return NULL;
}

void fedserver_closing_start(fedserver_rounds *rounds, fedserver_closing *c) {
    if (c->started || atomic_load(&c->ended)) {
        return;
    }
    assert(!rounds->store->writing(rounds->db)); /* S5: the round's set is stored as settled */
    c->rounds = (fedserver_rounds){.store = rounds->store,
                                   .directory = rounds->directory,
                                   .where = rounds->where,
                                   .term = rounds->term};
    c->bell = rounds->bell;
    c->apart = true;
    c->started = fed_thread_start(&c->thread, run, c);
    if (!c->started) {
        fed_logf(rounds->log, FED_LOG_WARN,
                 "task %llu: the system gives no thread that closes round %u; the next batch asks "
                 "again",
                 (unsigned long long)c->t.task.wire.id, c->t.round.number);
    }
}

bool fedserver_closing_done(fedserver_closing *c, fed_status *status, fed_error *err) {
    if (!c->started || !atomic_load(&c->ended)) {
        return false;
    }
    (void)pthread_join(c->thread, NULL);
    c->started = false;
    assert(c->status != FED_OK || c->made.kept); /* S9: its bytes are committed */
    *status = c->status;
    if (c->status != FED_OK) {
        (void)fed_fail(err, c->status, "%s", c->err.text);
    }
    return true;
}

/* -- end -- */

fedserver_closed *fedserver_closing_result(fedserver_closing *c) {
    return &c->made;
}

/* Memory of many megabytes takes milliseconds to free, and files take longer. Where deleting
 * fails, the next closing does it. */
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
    assert(c->apart); /* S9: only then it has files to delete */
    if (!c->started) {
        c->started = fed_thread_start(&c->thread, tidy, c);
    }
}

void fedserver_closing_take(fedserver_training *t) {
    fedserver_closing *c = t->closing;
    assert(!c->started && c->made.version.version == t->versions.version + 1); /* D5 */
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
    if (t->sum.size == 0) { /* no update has come meanwhile */
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
    free(c->t.versions.residual);
    free(c->t.state);
    fedserver_sum_free(&c->t.sum);
    free(c);
}
