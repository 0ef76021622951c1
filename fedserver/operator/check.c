/* The command check: do the stored data keep the rules of docs/durability.md? Changes nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fed/crypto.h"
#include "fed/hash.h"
#include "fedcodec/envelope.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/paths.h"
#include "fedserver/rounds/intake.h"
#include "fedserver/rounds/marks.h"
#include "fedserver/rounds/running.h"
#include "fedserver/server.h"
#include "fedserver/stores/stores.h"
#include "fedserver/stores/task_model.h"
#include "fedserver/task/phases.h"
#include "fedserver/versions/old_versions.h"

typedef struct checking {
    fedserver *server;
    fedserver_checker *checker;

    fedserver_task task;
    uint64_t id;
    fed_arch arch;
    uint32_t version;
    uint32_t last; /* version of the last delta, or number of the last round, that was visited */
    size_t deltas, keyframes, rounds, open_rounds;
    bool closing;

    size_t running;
    size_t updates, all_updates; /* stored updates: of this task; of all tasks with open rounds */
    size_t running_updates;
    /* when the running task that started last did so; until when another task may have run */
    int64_t running_started_ms, others_until_ms;
    /* for each device, the lease of its update that was read last: of all tasks; of running ones */
    fedserver_marks leases, running_leases;
} checking;

#define CHECKED(...) fedserver_check_note(c->checker, FEDSERVER_CHECKED, __VA_ARGS__)
#define FOUND(...)   fedserver_check_note(c->checker, FEDSERVER_FOUND, __VA_ARGS__)

static fed_status check_envelope(const checking *c, uint32_t round, const uint8_t *bytes,
                                 size_t len, fed_error *why) {
    const fedserver_phase phase = fedserver_phase_of(&c->task, round);
    fedcodec codec[2];
    FED_TRY(fedcodec_parse_pair(phase.codec_down, c->task.wire.codec_variates, codec, why));
    return fedcodec_envelope_check(bytes, len, &c->arch.layout, codec, c->task.wire.small_tensor,
                                   NULL, why);
}

static fed_status check_delta(void *user, uint32_t version, const uint8_t *bytes, size_t len,
                              fed_error *err) {
    (void)err;
    checking *c = user;
    fed_error why = {0};
    fed_reader r;
    fed_part part = {0};
    fed_reader_init(&r, bytes, len);
    if (fed_part_read(&r, &part) != FED_OK || fed_reader_end(&r) != FED_OK ||
        part.kind == FED_PART_SNAPSHOT || part.from + 1 != version || part.to != version) {
        FOUND("D5: delta %u of task %" PRIu64 " is damaged" FEDSERVER_RESTORE, version, c->id);
    } else if (part.kind == FED_PART_DELTA &&
               check_envelope(c, version, part.envelope, (size_t)part.envelope_len, &why) !=
                   FED_OK) {
        FOUND("D5: delta %u of task %" PRIu64 " does not fit its model: %s" FEDSERVER_RESTORE,
              version, c->id, why.text);
    }
    if (c->deltas > 0 && version != c->last + 1) {
        FOUND("D5: task %" PRIu64 " has no delta between %u and %u" FEDSERVER_RESTORE, c->id,
              c->last, version);
    }
    c->deltas++;
    c->last = version;
    return FED_OK;
}

static fed_status check_deltas(checking *c, fed_error *err) {
    fedserver *s = c->server;
    c->deltas = 0;
    FED_TRY(s->store->delta_each(s->db, c->id, 0, UINT32_MAX, check_delta, c, err));
    if (c->deltas > 0 && c->last != c->version) {
        FOUND("D5: task %" PRIu64
              "'s deltas lead to version %u; its model is version %u" FEDSERVER_RESTORE,
              c->id, c->last, c->version);
    }
    return FED_OK;
}

static fed_status check_keyframe(checking *c, const fedserver_keyframe *keyframe, float *values,
                                 const fedserver_keyframe *next, fed_error *err) {
    fed_error why = {0};
    const fedserver_archive archive = {.store = c->server->store,
                                       .db = c->server->db,
                                       .task = c->id,
                                       .layout = &c->arch.layout,
                                       .log = c->server->log};
    fed_status status =
        fedserver_old_versions_replay(&archive, keyframe, values, next->version, &why);
    if (status == FED_EFORMAT) {
        FOUND("D5: task %" PRIu64 ": %s" FEDSERVER_RESTORE, c->id, why.text);
    } else if (status == FED_OK && fed_digest(values, keyframe->size) != next->digest) {
        FOUND("D5: task %" PRIu64
              "'s deltas after version %u do not lead to version %u" FEDSERVER_RESTORE,
              c->id, keyframe->version, next->version);
    }
    return status == FED_OK || status == FED_EFORMAT ? FED_OK
                                                     : fed_fail(err, status, "%s", why.text);
}

static fed_status check_keyframes(checking *c, uint64_t digest, fed_error *err) {
    const fedserver *s = c->server;
    fedserver_keyframe next = {.version = c->version, .digest = digest}, keyframe;
    fed_status status = FED_OK;
    c->keyframes = 0;
    while (status == FED_OK && next.version > 0) {
        float *values = NULL;
        fed_error absent = {0};
        status =
            s->store->keyframe_find(s->db, c->id, next.version - 1, &keyframe, &values, &absent);
        if (status == FED_ENOTFOUND) {
            return FED_OK;
        }
        status = status == FED_OK ? check_keyframe(c, &keyframe, values, &next, err)
                                  : fed_fail(err, status, "%s", absent.text);
        free(values);
        next = keyframe;
        c->keyframes++;
    }
    return status;
}

static fed_status check_round(void *user, const fedserver_round_row *row, fed_error *err) {
    (void)err;
    checking *c = user;
    bool open = row->committed_ms == 0;
    bool newest = c->rounds == c->open_rounds;
    c->open_rounds += open;
    c->closing = c->closing || (open && row->closing_ms != 0);
    if (c->rounds > 0 && row->number + 1 != c->last) {
        FOUND("S5: task %" PRIu64 " has no round between %u and %u" FEDSERVER_RESTORE, c->id,
              row->number, c->last);
    }
    if (row->number != c->version + (open ? 1 : 0) && (open || newest)) {
        FOUND("S5: round %u of task %" PRIu64 " is %s; its model is version %u" FEDSERVER_RESTORE,
              row->number, c->id, open ? "open" : "committed", c->version);
    }
    c->rounds++;
    c->last = row->number;
    return FED_OK;
}

static fed_status check_rounds(checking *c, fed_error *err) {
    fedserver *s = c->server;
    const fedserver_task_state state = c->task.state;
    const bool runs = state == FEDSERVER_TASK_RUNNING;
    /* a paused or queued task may have an open round already */
    const bool waits = state == FEDSERVER_TASK_QUEUED || state == FEDSERVER_TASK_PAUSED;
    c->rounds = c->open_rounds = 0;
    c->closing = false;
    c->last = 1;
    FED_TRY(s->store->round_each(s->db, c->id, INT32_MAX, check_round, c, err));
    if ((c->open_rounds != (runs ? 1 : 0) && !(waits && c->open_rounds == 1)) || c->last != 1) {
        FOUND("S5: task %" PRIu64
              " is %s; of its rounds, from round %u on, %zu are open" FEDSERVER_RESTORE,
              c->id, fedserver_task_state_name(state), c->last, c->open_rounds);
    }
    return FED_OK;
}

static bool head_fits(const checking *c, const fedserver_update_row *row, const fed_update *head) {
    /* in asynchronous rounds, updates for the next round come while a round is being closed */
    const bool next = c->closing && c->task.rules.staleness > 0 && row->round == c->version + 2;
    return row->task == c->id && (row->round == c->version + 1 || next) &&
           head->task == row->task && head->lease == row->lease && head->round <= row->round &&
           row->round - head->round <= c->task.rules.staleness;
}

static fed_status check_update(void *user, const fedserver_update_row *row, const uint8_t *body,
                               size_t len, fed_error *err) {
    checking *c = user;
    fed_error why = {0};
    fedserver_update update;
    const fedserver_intake *intake = fedserver_intake_of(&c->task);
    c->updates++;
    FED_TRY(fedserver_marks_set(&c->leases, row->device, (int64_t)row->lease, err));
    if (c->task.state == FEDSERVER_TASK_RUNNING) {
        FED_TRY(fedserver_marks_set(&c->running_leases, row->device, (int64_t)row->lease, err));
    }
    if (fedserver_intake_read(body, len, &update, NULL) != FED_OK ||
        !head_fits(c, row, &update.head)) {
        FOUND("S3, S4: the update of lease %016" PRIx64
              " is not of the open round" FEDSERVER_RESTORE,
              row->lease);
    } else if (intake->open(&c->task, &c->arch.layout, &update, &why) != FED_OK) {
        FOUND("S2: the update of lease %016" PRIx64 " does not fit the model: %s" FEDSERVER_RESTORE,
              row->lease, why.text);
    } else {
        intake->drop(&update);
    }
    return FED_OK;
}

/* Check the task's stored updates, if it has an open round. A damaged body is reported by the
 * store's own check. */
static fed_status check_updates(checking *c, fed_error *err) {
    fedserver *s = c->server;
    fed_error why = {0};
    c->updates = 0;
    fed_status status = FED_OK;
    if (c->open_rounds > 0) {
        status = s->store->update_each(s->db, c->id, 0, check_update, c, &why);
    }
    if (status != FED_OK && status != FED_EFORMAT) {
        return fed_fail(err, status, "%s", why.text);
    }
    const int64_t started_ms = c->task.started_ms;
    c->all_updates += c->updates;
    if (c->task.state != FEDSERVER_TASK_RUNNING && started_ms != 0) {
        const int64_t until_ms = c->task.finished_ms != 0 ? c->task.finished_ms : INT64_MAX;
        c->others_until_ms = until_ms > c->others_until_ms ? until_ms : c->others_until_ms;
    }
    if (c->task.state == FEDSERVER_TASK_RUNNING) {
        c->running++;
        c->running_updates += c->updates;
        c->running_started_ms =
            started_ms > c->running_started_ms ? started_ms : c->running_started_ms;
    }
    return FED_OK;
}

static fed_status open_task(checking *c, fed_error *err) {
    c->id = c->task.wire.id;
    for (uint32_t k = 0; k <= c->task.phase_count; k++) {
        const fedserver_phase phase = fedserver_phase_at(&c->task, k);
        fedcodec codec[2];
        FED_TRY(fedcodec_parse(phase.codec_up, codec, err));
        FED_TRY(fedcodec_parse_pair(phase.codec_down, c->task.wire.codec_variates, codec, err));
    }
    return fedserver_task_model(c->server->store, c->server->db, &c->task, &c->arch, err);
}

static fed_status check_rows(checking *c, fed_error *err) {
    fedserver *s = c->server;
    fed_error why = {0};
    fedserver_model_row row;
    fed_status status = s->store->model_find(s->db, c->id, &row, &why);
    if (status == FED_ENOTFOUND && c->task.state == FEDSERVER_TASK_CANCELLED) {
        return FED_OK;
    }
    if (status == FED_ENOTFOUND || status == FED_EFORMAT) {
        /* if the model is damaged, why.text says already what to do */
        FOUND("D5: %s%s", why.text, status == FED_ENOTFOUND ? FEDSERVER_RESTORE : "");
        return FED_OK;
    }
    if (status != FED_OK) {
        return fed_fail(err, status, "%s", why.text);
    }
    c->version = row.version;
    if (row.size != c->arch.layout.size) {
        FOUND("D5: task %" PRIu64 "'s model has %zu values instead of %zu" FEDSERVER_RESTORE, c->id,
              row.size, c->arch.layout.size);
    } else if (fed_digest(row.values, row.size) != row.digest) {
        FOUND("D5: the values of task %" PRIu64 "'s model do not have its digest" FEDSERVER_RESTORE,
              c->id);
    }
    free(row.values);
    free(row.residual);
    free(row.state);
    FED_TRY(check_deltas(c, err));
    FED_TRY(check_keyframes(c, row.digest, err));
    FED_TRY(check_rounds(c, err));
    FED_TRY(check_updates(c, err));
    CHECKED("D5, S5: checked task %" PRIu64
            ": model of version %u, its digest, %zu deltas, %zu older "
            "versions, %zu rounds",
            c->id, c->version, c->deltas, c->keyframes, c->rounds);
    return FED_OK;
}

static fed_status check_task(checking *c, fed_error *err) {
    fed_error why = {0};
    fed_status status = open_task(c, &why);
    if (status == FED_OK) {
        status = check_rows(c, err);
    } else {
        FOUND("this release can't read task %" PRIu64 ": %s" FEDSERVER_RESTORE, c->id, why.text);
        status = FED_OK;
    }
    fed_arch_free(&c->arch);
    return status;
}

static fed_status check_tasks(checking *c, fed_error *err) {
    fedserver *s = c->server;
    fed_status status = FED_OK;
    for (uint64_t id = 1; status == FED_OK; id++) { /* the tasks' numbers have no gap */
        fed_error absent = {0};
        status = s->store->task_find(s->db, FEDSERVER_PICK_ID, id, &c->task, &absent);
        if (status == FED_ENOTFOUND) {
            break;
        }
        if (status == FED_EFORMAT || status == FED_EVERSION) {
            FOUND("this release can't read task %" PRIu64 ": %s" FEDSERVER_RESTORE, id,
                  absent.text);
            status = FED_OK;
            continue;
        }
        status = status == FED_OK ? check_task(c, err) : fed_fail(err, status, "%s", absent.text);
    }
    return status == FED_ENOTFOUND ? FED_OK : status;
}

static fed_status check_leases(checking *c, fed_error *err) {
    /* If another task has run since the running task began, a device may have reported to the
     * other task later, in a round that is committed. */
    const bool alone = c->running == 1 && c->others_until_ms <= c->running_started_ms;
    for (size_t k = 0; k < c->leases.count; k++) {
        const int64_t id = c->leases.items[k].device;
        const uint64_t lease = (uint64_t)fedserver_marks_get(&c->running_leases, id, 0);
        fedserver_device device;
        fed_error absent = {0};
        const fed_status status =
            fedserver_store_device(c->server->store, c->server->db, id, &device, &absent);
        if (status != FED_OK && status != FED_ENOTFOUND) {
            return fed_fail(err, status, "%s", absent.text);
        }
        if (status == FED_ENOTFOUND) {
            FOUND("S2: the update of lease %016" PRIx64 " is of no device" FEDSERVER_RESTORE,
                  (uint64_t)c->leases.items[k].value);
        } else if (lease != 0 && lease != device.counted_lease &&
                   (alone || device.lease == lease || device.counted_lease == 0)) {
            char name[2 * 8 + 1];
            fed_hex(device.fingerprint, 8, name);
            FOUND("D2, S3: device %s has reported with lease %016" PRIx64
                  ", but its row says %016" PRIx64 FEDSERVER_RESTORE,
                  name, lease, device.counted_lease);
        }
    }
    return FED_OK;
}

static fed_status count_update(void *user, const fedserver_update_row *row, const uint8_t *body,
                               size_t len, fed_error *err) {
    (void)row, (void)body, (void)len, (void)err;
    ++*(size_t *)user;
    return FED_OK;
}

static fed_status check_all_updates(checking *c, fed_error *err) {
    fedserver *s = c->server;
    size_t count = 0;
    fed_error why = {0};
    fed_status status = s->store->update_each(s->db, 0, 0, count_update, &count, &why);
    if (status != FED_OK && status != FED_EFORMAT) {
        return fed_fail(err, status, "%s", why.text);
    }
    if (status == FED_OK && count != c->all_updates) {
        FOUND("S3, S4: %zu updates are not of an open round" FEDSERVER_RESTORE,
              count - c->all_updates);
    }
    FED_TRY(check_leases(c, err));
    CHECKED("D1, D2, S2, S3: checked head, lease, device and values of %zu updates of open rounds",
            c->all_updates);
    return FED_OK;
}

static bool may_read(checking *c, const char *path) {
    const bool anothers = access(path, R_OK) != 0 && errno == EACCES;
    if (anothers) {
        fedserver_check_note(c->checker, FEDSERVER_NOTED,
                             "S7: this user may not read %s, so it was not checked", path);
    }
    return !anothers;
}

static bool read_pem(checking *c, const char *name, fed_pem *pem) {
    char path[1024];
    fed_error why = {0};
    fedserver_path(c->server->directory, name, path, sizeof path);
    if (!may_read(c, path)) {
        return false;
    }
    const bool read = fedserver_pem_read(c->server->directory, name, pem, &why) == FED_OK;
    if (!read) {
        FOUND("S7: %s" FEDSERVER_RESTORE, why.text);
    }
    return read;
}

static void check_pair(checking *c, const char *cert_name, const char *key_name, bool bundle) {
    fed_pem cert, key;
    fed_error why = {0};
    uint8_t of_cert[FED_SHA256_SIZE], of_key[FED_SHA256_SIZE];
    const bool has_cert = read_pem(c, cert_name, &cert), has_key = read_pem(c, key_name, &key);
    bool sound = true;
    if (bundle && has_cert && has_key) {
        fed_pem one;
        cert = fedserver_ca_pick(&cert, &key, &one, &why) == FED_OK ? one : cert;
    }
    if (has_cert && fed_cert_key_fingerprint(cert.text, of_cert, &why) != FED_OK) {
        FOUND("S7: %s is no certificate: %s" FEDSERVER_RESTORE, cert_name, why.text);
        sound = false;
    }
    if (has_key && fed_key_fingerprint(&key, of_key, &why) != FED_OK) {
        FOUND("S7: %s is no private key: %s" FEDSERVER_RESTORE, key_name, why.text);
        sound = false;
    }
    if (has_cert && has_key && sound && memcmp(of_cert, of_key, sizeof of_key) != 0) {
        FOUND("S7: %s is not the key of %s" FEDSERVER_RESTORE, key_name, cert_name);
    }
}

/* A key that too many users can read breaks no rule of the data, so it is a note. */
static void note_readers(checking *c, const char *key_name, unsigned too_many) {
    char path[1024];
    struct stat file;
    fedserver_path(c->server->directory, key_name, path, sizeof path);
    if (stat(path, &file) == 0 && (file.st_mode & too_many) != 0) {
        fedserver_check_note(c->checker, FEDSERVER_NOTED,
                             "S7: %s can be read or changed by others (mode %04o): chmod 0600 it, "
                             "and if they may be strangers make new keys",
                             path, (unsigned)file.st_mode & 07777);
    }
}

/* The front may have a certificate of its own, for example a public authority's. */
static void check_front_pair(checking *c) {
    char cert[1024], key[1024];
    fed_error why = {0};
    fedserver_path(c->server->directory, "front.pem", cert, sizeof cert);
    fedserver_path(c->server->directory, "front.key", key, sizeof key);
    if (access(cert, F_OK) != 0 || !may_read(c, key)) {
        return;
    }
    if (fedserver_certificate_fits(cert, key, &why) != FED_OK) {
        FOUND("S7: %s" FEDSERVER_RESTORE, why.text);
    }
    CHECKED("S7: checked the front's own certificate and its key");
}

static void check_keys(checking *c) {
    note_readers(c, "ca.key", 0077);
    /* the group may read server.key, because two services may share the key */
    note_readers(c, "server.key", 0037);
    note_readers(c, "front.key", 0037);
    check_pair(c, "ca.pem", "ca.key", true);
    check_pair(c, "server.pem", "server.key", false);
    CHECKED("S7: checked the CA's and the server's certificate, and their keys");
    check_front_pair(c);
}

static void check_start(checking *c) {
    fedserver *s = c->server;
    size_t received = 0;
    fed_error why = {0};
    if (fedserver_tasks_load(&s->rounds, true, &why) != FED_OK) {
        FOUND("S4: a restart can't go on with all tasks: %s", why.text);
        return;
    }
    for (size_t k = 0; k < s->rounds.task_count; k++) {
        const fedserver_training *t = s->rounds.tasks[k];
        received += t->round.received + t->round.ahead;
        /* An edge aggregator gets its number of slots when its process starts. The task's row may
         * have an older number, so do not compare the two. */
        if (t->round.leased > t->task.rules.cohort && t->task.rules.upstream[0] == '\0') {
            FOUND("S4: round %u of task %" PRIu64 " has %u of %u slots taken" FEDSERVER_RESTORE,
                  t->round.number, t->task.wire.id, t->round.leased, t->task.rules.cohort);
        }
        if (fedserver_training_runs(t)) {
            CHECKED("D3, S4: a restart goes on with round %u of task %" PRIu64
                    ", %u slots taken, %u updates folded again",
                    t->round.number, t->task.wire.id, t->round.leased, t->round.received);
        }
    }
    if (received != c->running_updates) {
        FOUND("S4: a restart counts %zu of %zu updates of open rounds" FEDSERVER_RESTORE, received,
              c->running_updates);
    }
    if (!fedserver_rounds_busy(&s->rounds)) {
        CHECKED("S4: a restart finds no task that runs");
    }
}

fed_status fedserver_check(fedserver *server, fedserver_check_report report, void *user,
                           size_t *findings, fed_error *err) {
    fedserver_checker checker = {.report = report, .user = user};
    checking c = {.server = server, .checker = &checker};
    FED_TRY(server->store->lock(server->db, err));
    check_keys(&c);
    FED_TRY(server->store->check(server->db, &checker, err));
    fed_status status = check_tasks(&c, err);
    status = status == FED_OK ? check_all_updates(&c, err) : status;
    fedserver_marks_free(&c.leases);
    fedserver_marks_free(&c.running_leases);
    FED_TRY(status);
    if (checker.findings == 0) {
        check_start(&c);
    }
    *findings = checker.findings;
    return FED_OK;
}
