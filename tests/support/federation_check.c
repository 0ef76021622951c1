/* Sets up a federation, and checks D1 to D5 of docs/durability.md at its end. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/arch.h"
#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/hash.h"
#include "fed/private_terms.h"
#include "fed_drill.h"
#include "fed_test.h"
#include "fedclient/state/record.h"
#include "federation.h"
#include "fedserver/privacy/correlated.h"
#include "fedserver/privacy/grouping.h"
#include "fedserver/private_opening.h"
#include "fedserver/server.h"
#include "fedserver/task/private_task.h"

enum { TOKEN_LIFE_S = 24 * 3600 };

/* Write the task's file, with the helper's key in the place of HELPER. */
static void put_task(federation_setup *setup) {
    static const char mark[] = "HELPER";
    uint8_t key[FED_SEAL_KEY];
    char hex[2 * FED_SEAL_KEY + 1] = "", text[2000];
    fed_error err = {0};
    const char *at = setup->helped ? strstr(setup->task, mark) : NULL;
    if (setup->helped) {
        assert_fed_ok_err(fed_point_new(setup->helper_secret, key, &err));
        fed_hex(key, sizeof key, hex);
    }
    snprintf(text, sizeof text, "%.*s%s%s",
             (int)(at != NULL ? (size_t)(at - setup->task) : strlen(setup->task)), setup->task, hex,
             at != NULL ? at + sizeof mark - 1 : "");
    fed_test_put(setup->directory, "task.json", text, strlen(text));
}

static void make_task(federation_setup *setup, fedserver *server) {
    char path[400];
    uint64_t id = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/zeros.safetensors", setup->directory);
    assert_fed_ok_err(fed_drill_zeros(setup->model, path, &err));
    put_task(setup);
    snprintf(path, sizeof path, "%s/task.json", setup->directory);
    assert_fed_ok_err(fedserver_task_add(server, fed_clock_unix_ms(), path, &id, &err));
    if (setup->job == FEDERATION_QUEUE) {
        assert_fed_ok_err(fedserver_task_add(server, fed_clock_unix_ms(), path, &id, &err));
    }
}

void federation_prepare(federation_setup *setup) {
    char directory[400];
    fed_error err = {0};
    fedserver *server = NULL;
    fed_test_tmpdir(setup->directory, sizeof setup->directory);
    snprintf(directory, sizeof directory, "%s/coordinator", setup->directory);
    assert_fed_ok_err(fedserver_init(directory, NULL, &err));
    assert_fed_ok_err(fedserver_open(directory, NULL, &server, &err));
    for (unsigned k = 0; k < FEDERATION_DEVICES; k++) {
        assert_fed_ok_err(
            fedserver_token_new(server, fed_clock_unix_ms(), TOKEN_LIFE_S, setup->token[k], &err));
    }
    const fedserver_grant helper = {.ttl_s = TOKEN_LIFE_S, .role = FEDSERVER_ROLE_HELPER};
    assert_fed_ok_err(
        fedserver_token_grant(server, fed_clock_unix_ms(), &helper, setup->helper_token, &err));
    make_task(setup, server);
    fedserver_close(server);
    if (setup->enrolled) {
        federation_enrol(setup);
    }
}

static int run_init(const char *parent, const char *directory, fault_plan *plan, bool cut) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fed_error err = {0};
        fault_disk_watch(parent, plan);
        fed_status status = fedserver_init(directory, NULL, &err);
        if (status == FED_OK && cut) {
            fault_disk_cut();
        }
        _exit(status == FED_OK ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return how;
}

static bool serves(const char *directory) {
    fedserver *server = NULL;
    fed_error err = {0};
    fed_status status = fedserver_open(directory, NULL, &server, &err);
    if (status == FED_ENOTFOUND) {
        return false;
    }
    assert_fed_ok_err(status);
    assert_fed_ok_err(fedserver_begin(server, &err));
    fedserver_close(server);
    return true;
}

bool federation_init_dies(fault_kind kind, uint64_t at) {
    char parent[300], directory[400];
    fault_plan *plan = fault_shared_new(sizeof *plan);
    assert_non_null(plan);
    *plan = (fault_plan){.kind = kind, .at = at, .seed = at};
    fed_test_tmpdir(parent, sizeof parent);
    snprintf(directory, sizeof directory, "%s/coordinator", parent);
    bool cuts = kind == FAULT_POWER || kind == FAULT_POWER_TORN;
    int how = run_init(parent, directory, plan, cuts);
    bool fired = plan->fired != 0;
    bool there = serves(directory);
    if (!fired || (WIFEXITED(how) && WEXITSTATUS(how) == 0)) {
        assert_true(there);
    }
    if (!there) {
        *plan = (fault_plan){.kind = FAULT_NONE};
        assert_int_equal(run_init(parent, directory, plan, false), 0);
        assert_true(serves(directory));
    }
    fault_shared_free(plan, sizeof *plan);
    fed_test_rmdir(parent);
    return fired;
}

void federation_clear(federation_setup *setup) {
    fed_test_rmdir(setup->directory);
}

static json_t *read_status(federation *f, fedserver *server) {
    const fedserver_request request = {.listener = FEDSERVER_FRONT,
                                       .method = "GET",
                                       .path = "/v1/status",
                                       .query = "",
                                       .loopback = true};
    fedserver_response response = {0};
    fed_error err = {0};
    fed_status status = fedserver_begin(server, &err);
    if (status == FED_OK) {
        status = fedserver_handle(server, &request, f->now_ms, &response, &err);
    }
    size_t len = 0;
    const uint8_t *text =
        response.body != NULL ? fedserver_blob_data(response.body, &len) : (const uint8_t *)"";
    json_t *json = json_loadb((const char *)text, len, 0, NULL);
    fedserver_blob_free(response.body);
    if (status != FED_OK || json == NULL) {
        federation_break(f, "D6: the coordinator can't be opened: %s", err.text);
    }
    return json;
}

static fed_status add_round(void *user, const fedserver_round_entry *entry, fed_error *err) {
    (void)err;
    json_array_append_new(user, json_pack("{s:I, s:I}", "number", (json_int_t)entry->number,
                                          "updates", (json_int_t)entry->updates));
    return FED_OK;
}

static json_t *read_task(federation *f, fedserver *server) {
    fedserver_task task;
    fed_error err = {0};
    json_t *rounds = json_array();
    uint32_t version = 0;
    assert_fed_ok_err(
        server->store->task_find(server->db, FEDSERVER_PICK_ID, f->task, &task, &err));
    assert_fed_ok_err(fedserver_round_each(server, f->task, UINT32_MAX, add_round, rounds, &err));
    version = (uint32_t)json_array_size(rounds);
    if (task.state != FEDSERVER_TASK_FINISHED || version != task.rules.rounds) {
        federation_break(f, "D6: task %u is %s with %u of %u rounds", (unsigned)f->task,
                         fedserver_task_state_name(task.state), version, task.rules.rounds);
    }
    return json_pack("{s:{s:s, s:I}, s:o}", "task", "codec_down", task.codec_down, "version",
                     (json_int_t)version, "rounds", rounds);
}

static uint64_t number(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

/** D1 and D2 of docs/durability.md: as many updates are counted (`in`) as were acknowledged
 * (`said`). */
static void compare(federation *f, size_t in, size_t said, const char *where, unsigned round) {
    f->result->lost += said > in ? (unsigned)(said - in) : 0;
    f->result->twice += in > said ? (unsigned)(in - said) : 0;
    if (said != in) {
        federation_break(f, "%s: %s %u counted %zu updates, but %zu were acknowledged",
                         said > in ? "D1" : "D2", where, round, in, said);
    }
}

void federation_report_version(federation *f, unsigned device, uint32_t version, uint64_t digest) {
    if (f->history != NULL) {
        fed_history_announced(f->history, device, version, digest);
    }
}

void federation_report_update(federation *f, unsigned device, const uint8_t *update, size_t len) {
    fed_update head = {0};
    fed_reader r;
    fed_reader_init(&r, update, len);
    if (f->history != NULL && fed_update_read(&r, &head) == FED_OK) {
        fed_history_acknowledged(f->history, device, head.lease,
                                 f->setup->counts_any_round ? 0 : head.round,
                                 fed_digest_bytes(update, len));
    }
}

void federation_report_training(federation *f, unsigned device, uint64_t number, uint64_t task) {
    federation_training *grown = realloc(f->trainings, (f->training_count + 1) * sizeof *grown);
    assert_non_null(grown);
    f->trainings = grown;
    grown[f->training_count++] = (federation_training){device, number, task};
}

void federation_forget(federation *f) {
    fed_history_free(f->history);
    fed_ledger_free(&f->ledger);
    free(f->trainings);
    for (size_t k = 0; k < FEDERATION_VERSIONS; k++) {
        free(f->reply[k].bytes);
    }
}

static void check_history(federation *f, const json_t *status) {
    size_t k = 0;
    json_t *row = NULL;
    char why[300] = "";
    if (f->history == NULL || f->setup->sums_of_edges) {
        return;
    }
    json_array_foreach(json_object_get(status, "rounds"), k, row) {
        fed_history_stored(f->history, (uint32_t)number(row, "number"),
                           (uint32_t)number(row, "updates"));
    }
    if (!fed_history_holds(f->history, why, sizeof why)) {
        f->result->history_broken = true;
        federation_break(f, "%s", why);
    }
}

void federation_judge_beginning(federation *f) {
    char why[300] = "";
    const bool holds = f->history == NULL || fed_history_holds(f->history, why, sizeof why);
    const bool of_rounds = strncmp(why, "H2", 2) == 0 || strncmp(why, "H3", 2) == 0;
    f->result->history_broken = !holds && !of_rounds;
}

static void check_counts(federation *f, const json_t *status) {
    size_t k = 0, all = 0;
    json_t *row = NULL;
    f->result->counted = (unsigned)f->ledger.count;
    if (f->setup->sums_of_edges) {
        return;
    }
    json_array_foreach(json_object_get(status, "rounds"), k, row) {
        unsigned round = (unsigned)number(row, "number");
        size_t in = (size_t)number(row, "updates");
        all += in;
        if (!f->setup->counts_any_round) {
            compare(f, in, fed_ledger_round(&f->ledger, round), "round", round);
        }
    }
    if (f->result->lost + f->result->twice == 0) {
        compare(f, all, f->ledger.count, "task", 1);
    }
}

/* Take the mask off an update, with the helper's secret, and add its fields to y. */
static void unmask(const federation *f, const fedcodec_ring *ring, const fed_ledger_entry *e,
                   uint32_t *y) {
    fed_private sealed;
    uint8_t seed[FED_SEED];
    fed_reader r;
    fed_error err = {0};
    const size_t fields = ring->shape.all, width = ring->shape.width;
    uint32_t *mask = calloc(fields, sizeof *mask);
    assert_non_null(mask);
    fed_reader_init(&r, e->body + e->head_len + 1, e->len - e->head_len - 1);
    assert_fed_ok(fed_private_read(&r, &sealed));
    assert_fed_ok_err(
        fed_private_open(&sealed, 0, e->head.lease, f->setup->helper_secret, seed, &err));
    assert_fed_ok(fed_private_mask(seed, (unsigned)width, 0, mask, fields));
    fedcodec_ring_add(ring, e->body + e->len - ring->shape.bytes, y);
    for (size_t i = 0; i < fields; i++) {
        y[i] -= mask[i];
    }
    free(mask);
}

/* Read the noise that the helper keeps of a round, for later rounds. False: it keeps none. */
static bool read_noise(const federation *f, uint32_t round, int64_t *noise, size_t fields) {
    char path[500];
    sqlite3 *db = NULL;
    sqlite3_stmt *row = NULL;
    snprintf(path, sizeof path, "%s/helper/helper.db", f->directory);
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT noise FROM correlated WHERE round = ?", -1, &row, NULL),
        SQLITE_OK);
    sqlite3_bind_int64(row, 1, round);
    const bool found = sqlite3_step(row) == SQLITE_ROW;
    if (found) {
        assert_int_equal(sqlite3_column_bytes(row, 0), fields * FEDSERVER_CORRELATED);
        fedserver_correlated_levels(sqlite3_column_blob(row, 0), noise, fields);
    }
    sqlite3_finalize(row);
    sqlite3_close(db);
    return found;
}

/* The sum of all fields of a round as its helper opened it: with the helper's noise, if that adds
 * some. */
static void open_sum(const federation *f, uint32_t round, uint32_t *sum) {
    const size_t all = f->ring.shape.all;
    uint32_t *masks = calloc(all, sizeof *masks);
    fedserver_reply reply;
    fed_reader r;
    assert_non_null(masks);
    fed_reader_init(&r, f->reply[round].bytes, f->reply[round].len);
    assert_fed_ok(fedserver_reply_read(&r, &reply));
    fed_private_unpack(reply.fields, f->ring.shape.width, 0, masks, all);
    for (size_t k = 0; k < f->ledger.count; k++) {
        const fed_ledger_entry *e = &f->ledger.entries[k];
        if (e->round == round) {
            fedcodec_ring_add(&f->ring, e->body + e->len - f->ring.shape.bytes, sum);
        }
    }
    for (size_t i = 0; i < all; i++) {
        sum[i] -= masks[i];
    }
    fedserver_reply_free(&reply);
    free(masks);
}

/* S19: the noise that the helper's reply has added to y is the noise that later rounds take off.
 * Adds it to y. */
static void add_noise(federation *f, uint32_t round, uint32_t *y) {
    const size_t fields = f->ring.shape.fields, all = f->ring.shape.all;
    const unsigned width = f->ring.shape.width;
    const uint32_t most = width < 32 ? (1U << width) - 1 : UINT32_MAX;
    uint32_t *noisy = calloc(all, sizeof *noisy);
    int64_t *noise = calloc(fields, sizeof *noise);
    assert_true(noisy != NULL && noise != NULL);
    open_sum(f, round, noisy);
    const bool kept = !f->setup->adapts && read_noise(f, round, noise, fields);
    unsigned other = 0, some = 0;
    for (size_t i = 0; i < all; i++) {
        other += kept && ((noisy[i] - y[i] - (uint32_t)noise[i]) & most) != 0;
        some += ((noisy[i] - y[i]) & most) != 0;
        y[i] = noisy[i];
    }
    if (other > 0 || some == 0) {
        federation_break(f,
                         "S19: round %u: %u fields have other noise than the helper keeps, %u "
                         "have some",
                         round, other, some);
    }
    f->noises += kept;
    free(noise);
    free(noisy);
}

/* The clip of a round has decided about its shape. The next one's follows from the count. */
static void begin_clip(federation *f, const fed_layout *layout, uint32_t round) {
    if (round == 1) {
        f->stored->round_clip = f->stored->clip;
    }
    if (f->clip[round] != 0 && f->clip[round] != f->stored->round_clip) {
        federation_break(f, "S19: round %u was told the clip %.9g; %.9g follows from its counts",
                         round, (double)f->clip[round], (double)f->stored->round_clip);
    }
    f->ring.shape = fedserver_private_fields(f->stored, layout);
}

static void move_clip(federation *f, uint32_t round, const uint32_t *sums) {
    const double updates = (double)fed_ledger_round(&f->ledger, round);
    const double count = (double)(int32_t)sums[f->ring.shape.fields];
    const double share = fmin(fmax((count + updates) / (2 * updates), 0), 1);
    f->stored->round_clip = (float)((double)f->stored->round_clip *
                                    exp(-0.2 * (share - (double)f->stored->clip_quantile)));
}

/** Add what the updates of a private round change, each without its mask. */
static fed_status apply_private(federation *f, const fed_layout *layout, uint32_t round,
                                float *values) {
    if (f->setup->adapts) {
        begin_clip(f, layout, round);
    }
    uint32_t *y = calloc(f->ring.shape.all, sizeof *y);
    float *change = calloc(layout->size, sizeof *change);
    assert_true(y != NULL && change != NULL);
    fed_privacy_draw(1, f->setup->noisy && !f->setup->adapts ? 0 : round, f->ring.draw);
    for (size_t k = 0; k < f->ledger.count; k++) {
        if (f->ledger.entries[k].round == round) {
            unmask(f, &f->ring, &f->ledger.entries[k], y);
        }
    }
    if (f->setup->noisy) {
        add_noise(f, round, y);
    }
    (void)fedcodec_ring_sums(&f->ring, y);
    if (f->setup->adapts) {
        move_clip(f, round, y);
    }
    const double divisor = f->setup->noisy ? (double)f->stored->rules.goal
                                           : (double)fed_ledger_round(&f->ledger, round);
    fedcodec_ring_change(&f->ring, y, divisor, change);
    for (size_t i = 0; i < layout->size; i++) {
        values[i] += change[i];
    }
    free(change);
    free(y);
    return FED_OK;
}

/* Deal the devices of a round out to its groups: group[] of each entry of the ledger. Returns the
 * sizes of the groups. */
static void deal(const federation *f, const fed_layout *layout, uint32_t round, const float *values,
                 uint32_t *group, size_t size[]) {
    const size_t count = fed_ledger_round(&f->ledger, round);
    fedserver_grouping which = {.task = 1, .round = round, .groups = f->setup->groups};
    uint8_t(*names)[FED_SHA256_SIZE] = calloc(count + 1, sizeof *names);
    uint32_t *dealt = calloc(count + 1, sizeof *dealt);
    size_t at = 0;
    assert_true(names != NULL && dealt != NULL);
    fed_sha256((const uint8_t *)values, layout->size * sizeof *values, which.model);
    for (size_t k = 0; k < f->ledger.count; k++) {
        const fed_ledger_entry *e = &f->ledger.entries[k];
        fed_private sealed;
        fed_reader r;
        fed_reader_init(&r, e->body + e->head_len + 1, e->len - e->head_len - 1);
        if (e->round == round) {
            assert_fed_ok(fed_private_read(&r, &sealed));
            fed_point_fingerprint(sealed.point, names[at++]);
        }
    }
    assert_fed_ok(fedserver_grouping_deal(&which, names, count, dealt));
    at = 0;
    for (size_t k = 0; k < f->ledger.count; k++) {
        group[k] = f->ledger.entries[k].round == round ? dealt[at++] : UINT32_MAX;
        size[group[k] == UINT32_MAX ? f->setup->groups : group[k]]++;
    }
    free(dealt);
    free(names);
}

/** Add the median of what the groups of a private round change. */
static fed_status apply_groups(federation *f, const fed_layout *layout, uint32_t round,
                               float *values) {
    enum { THREE = 3 }; /* so the median is one of them */
    const size_t n = layout->size;
    uint32_t *group = calloc(f->ledger.count + 1, sizeof *group);
    uint32_t *y = calloc(f->ring.shape.all, sizeof *y);
    float *mean = calloc(THREE * n, sizeof *mean);
    size_t size[THREE + 1] = {0};
    assert_true(group != NULL && y != NULL && mean != NULL && f->setup->groups == THREE);
    deal(f, layout, round, values, group, size);
    fed_privacy_draw(1, round, f->ring.draw);
    for (uint32_t g = 0; g < THREE && size[g] > 0; g++) {
        memset(y, 0, f->ring.shape.all * sizeof *y);
        for (size_t k = 0; k < f->ledger.count; k++) {
            if (group[k] == g) {
                unmask(f, &f->ring, &f->ledger.entries[k], y);
            }
        }
        (void)fedcodec_ring_sums(&f->ring, y);
        fedcodec_ring_change(&f->ring, y, (double)size[g], mean + g * n);
    }
    for (size_t i = 0; i < n; i++) {
        const float a = mean[i], b = mean[n + i], c = mean[2 * n + i];
        values[i] += fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
    }
    free(mean);
    free(y);
    free(group);
    return FED_OK;
}

static fed_status apply(federation *f, const fed_layout *layout, uint32_t round, float *values,
                        fed_error *err) {
    if (f->setup->noisy && f->reply[round].bytes == NULL) {
        return FED_OK; /* nobody but who adds the noise knows it */
    }
    return f->setup->groups > 0 ? apply_groups(f, layout, round, values)
           : f->setup->helped   ? apply_private(f, layout, round, values)
           : f->setup->median   ? fed_ledger_median(&f->ledger, layout, round, values, err)
                                : fed_ledger_apply(&f->ledger, layout, round, values, err);
}

/** D3 and D5 in docs/durability.md: recompute each version in a simple way from the acknowledged
 * updates. */
static void check_models(federation *f, const fed_layout *layout, const fed_model *last,
                         uint32_t versions, bool exact) {
    float *values = calloc(layout->size, sizeof *values);
    assert_non_null(values);
    fed_error err = {0};
    for (uint32_t v = 0; v <= versions; v++) {
        if (v > 0) {
            assert_fed_ok_err(apply(f, layout, v, values, &err));
        }
        uint64_t digest = fed_digest(values, layout->size);
        if (exact && f->digest[v] != 0 && f->digest[v] != digest) {
            federation_break(f, "D3: version %u differs from the model computed from its updates",
                             v);
        }
    }
    f->result->digest = fed_digest(last->values, layout->size);
    if (exact && f->result->digest != fed_digest(values, layout->size)) {
        federation_break(f, "D3: the final model differs from the model computed from its updates");
    }
    if (f->digest[versions] != 0 && f->digest[versions] != f->result->digest) {
        federation_break(f, "D5: the final model is not the one that was announced");
    }
    free(values);
}

void federation_check_leftovers(federation *f, const char *directory, const char *mark) {
    DIR *dir = opendir(directory);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (strstr(e->d_name, mark) != NULL) {
            federation_break(f, "D6: nothing removes the file %s of a killed process", e->d_name);
        }
    }
    closedir(dir);
}

static bool has_later(const federation *f, size_t k) {
    const federation_training *t = f->trainings;
    for (size_t later = k + 1; later < f->training_count; later++) {
        if (t[later].device == t[k].device && t[later].number == t[k].number) {
            return true;
        }
    }
    return false;
}

static void add_trained(const federation *f, unsigned k, uint64_t last, size_t n, double *x) {
    for (uint64_t number = 1; number <= last && !f->setup->shared; number++) {
        fed_drill_add(k, number, n, x);
    }
    for (size_t at = 0; at < f->training_count && f->setup->shared; at++) {
        const federation_training *t = &f->trainings[at];
        if (t->device == k && t->task == f->task && t->number <= last && !has_later(f, at)) {
            fed_drill_add(k, t->number, n, x);
        }
    }
}

/** Check D4 and D5 for one device. exact: compare bits; otherwise allow for rounding. */
static void check_device(federation *f, const fed_layout *layout, unsigned k, bool exact) {
    char directory[500];
    fed_error err = {0};
    fedclient_platform platform = {0};
    fedclient_model_head head;
    fedclient_record model = {0};
    uint64_t seq = 0;
    unsigned slot = 0;
    size_t n = layout->size;
    float *owed = calloc(n, sizeof *owed);
    double *sum = calloc(n, sizeof *sum), *trained = calloc(n, sizeof *trained);
    assert_true(owed != NULL && sum != NULL && trained != NULL);
    snprintf(directory, sizeof directory, "%s/device%u", f->directory, k);
    assert_fed_ok_err(fedclient_platform_posix_open(directory, &platform, &err));
    federation_check_leftovers(f, directory, ".new-");
    const uint64_t task = f->setup->shared ? f->task : 0;
    if (fed_drill_owed(&platform, task, layout, owed, &slot, &seq, &err) != FED_OK ||
        fed_ledger_sum(&f->ledger, layout, k, sum, &err) != FED_OK ||
        (slot < FED_SLOTS &&
         fedclient_model_load(&platform, slot, &head, &model, &err) != FED_OK)) {
        federation_break(f, "D4: device %u: %s", k, err.text);
    }
    add_trained(f, k, seq, n, trained);
    for (size_t i = 0; i < n; i++) {
        double got = sum[i] + (double)owed[i];
        if (fabs(trained[i] - got) > (exact ? 0 : 1e-6)) {
            federation_break(
                f, "D4: device %u, value %zu: trained %g, but %g is acknowledged and %g owed", k, i,
                trained[i], sum[i], (double)owed[i]);
        }
    }
    size_t count = 0;
    const float *values = model.bytes != NULL ? fedclient_record_values(&model, &count) : NULL;
    bool wrong = values == NULL ? slot < FED_SLOTS && seq > 0
                                : fed_digest(values, count) != f->result->digest;
    if (wrong) {
        federation_break(f, "D5: device %u has another model than the coordinator", k);
    }
    fedclient_record_free(&model);
    fedclient_platform_posix_close(&platform);
    free(owed);
    free(sum);
    free(trained);
}

/** Each round was opened. That none has two openings is seen on the way, by federation.c. */
static void check_openings(federation *f, uint32_t rounds) {
    const bool seen = f->process[FEDERATION_HELPER].plan != NULL;
    for (uint32_t round = 1; round <= rounds; round++) {
        if (seen && f->reply[round].digest == 0) {
            federation_break(f, "S20: round %u has committed, and was never opened", round);
        }
    }
}

static void check_all(federation *f, fedserver *server, const json_t *status) {
    char path[500];
    fed_error err = {0};
    fed_arch arch;
    fed_model last = {0};
    snprintf(path, sizeof path, "%s/final.safetensors", f->directory);
    if (fedserver_model_export(server, f->task, path, &err) != FED_OK ||
        fed_checkpoint_load(path, &last, &err) != FED_OK) {
        federation_break(f, "D3: %s", err.text);
        return;
    }
    assert_fed_ok_err(fed_arch_parse(f->setup->model, &arch, &err));
    if (f->setup->variates) {
        fed_arch_code_variates(&arch);
    }
    check_counts(f, status);
    check_history(f, status);
    const json_t *task = json_object_get(status, "task");
    const char *down = json_string_value(json_object_get(task, "codec_down"));
    const bool plain = strcmp(down, "float32") == 0 && !f->setup->variates;
    if (!f->placed) {
        federation_order_place(f, status);
    }
    fedserver_task stored;
    if (f->setup->helped) {
        assert_fed_ok_err(
            server->store->task_find(server->db, FEDSERVER_PICK_ID, 1, &stored, &err));
        f->stored = &stored;
        f->ring.shape = fedserver_private_fields(&stored, &arch.layout);
    }
    const bool opened = f->process[FEDERATION_HELPER].plan != NULL; /* so its replies are known */
    const bool known = plain && (!f->setup->noisy || (f->setup->helped && opened));
    check_models(f, &arch.layout, &last, (uint32_t)number(task, "version"), known);
    if (f->setup->helped) {
        check_openings(f, (uint32_t)number(task, "version"));
    }
    if (f->setup->helped && f->setup->noisy && !f->setup->adapts && f->noises == 0) {
        federation_break(f, "S19: the helper keeps no round's noise");
    }
    const bool apart = f->task != 0 && !f->setup->shared;
    const unsigned tasks = apart ? f->setup->tasks : 1;
    /* Levels are rounded at random: D4 of a private task has tests of a device alone. */
    const unsigned devices = f->setup->helped || f->setup->noisy ? 0 : f->setup->devices;
    for (unsigned k = apart ? (unsigned)f->task - 1 : 0; k < devices; k += tasks) {
        /* With weights or lossy codecs, the values are no multiples of 2^-10, and adding a training
         * in float32 rounds. */
        check_device(f, &arch.layout, k, plain && !f->setup->counts_any_round);
    }
    fed_model_free(&last);
    fed_arch_free(&arch);
}

void federation_check(federation *f) {
    char directory[500];
    fed_error err = {0};
    fedserver *server = NULL;
    snprintf(directory, sizeof directory, "%s/coordinator", f->directory);
    if (fedserver_open(directory, NULL, &server, &err) != FED_OK) {
        federation_break(f, "D6: the coordinator can't be opened: %s", err.text);
        return;
    }
    json_t *status = f->task != 0 ? read_task(f, server) : read_status(f, server);
    if (status != NULL && (f->task != 0 || fedserver_commit(server, &err) == FED_OK)) {
        check_all(f, server, status);
    }
    json_decref(status);
    fedserver_close(server);
}
