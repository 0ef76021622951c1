/* Versions before the newest one: what is kept of them, how their values are made again, and
 * what devices get. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include "fed/hash.h"
#include "fed_cases.h"
#include "fedcodec/envelope.h"
#include "fedcodec/patch.h"
#include "fedserver/rounds/closing.h"
#include "fedserver/rounds/training.h"
#include "fedserver/versions/old_versions.h"

enum { PARAMETERS = 40 * 20 + 20, ROUNDS = 120 };

static const char task[] = "{\"model\": \"input 40 | dense 20\", \"codec_up\": \"float32\","
                           " \"codec_down\": \"3lc:s=1\", \"rounds\": 1000, \"cohort\": 1}";

typedef struct world {
    coordinator home;
    test_device device;
    fed_task task;
    float old[ROUNDS + 1][PARAMETERS];
    uint32_t version;
} world;

static const fedserver_versions *versions(const world *w) {
    return &fedserver_rounds_front(&w->home.server->rounds)->versions;
}

static void note(world *w) {
    w->version = versions(w)->version;
    memcpy(w->old[w->version], versions(w)->values, sizeof w->old[0]);
}

static void one_round(world *w) {
    float x[PARAMETERS];
    fed_assignment work = device_ask_work(&w->home, &w->device);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    w->task = work.task;
    for (int i = 0; i < PARAMETERS; i++) {
        x[i] = (float)((i * 7 + (int)work.round * 5) % 23 - 11) / 64;
    }
    assert_int_equal(device_upload(&w->home, &w->device, &work, x, 1, NULL), 200);
    note(w);
}

static void rounds(world *w, uint32_t count) {
    while (count-- > 0) {
        one_round(w);
    }
    coordinator_commit(&w->home);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    coordinator_setup(&w->home);
    w->device = coordinator_enrol(&w->home);
    coordinator_task(&w->home, task);
    note(w);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    coordinator_teardown(&w->home);
    free(w);
    return 0;
}

/* Return the first version whose values can be made again. All versions from there on must have
 * exactly their old values. */
static uint32_t first_that_comes_back(world *w) {
    uint32_t first = UINT32_MAX;
    for (uint32_t v = 0; v < w->version; v++) {
        float *values = NULL;
        fed_error err = {0};
        fedserver_archive archive = fedserver_rounds_archive(
            &w->home.server->rounds, fedserver_rounds_front(&w->home.server->rounds));
        fed_status status = fedserver_old_versions_values(&archive, v, &values, &err);
        if (status != FED_OK) {
            assert_fed_status(status, FED_ENOTFOUND);
            assert_true(first == UINT32_MAX);
            continue;
        }
        first = v < first ? v : first;
        assert_memory_equal(values, w->old[v], sizeof w->old[v]);
        free(values);
    }
    return first;
}

FED_TEST_WITH(versions_come_back_as_far_as_the_chain_reaches_and_further, world *w) {
    uint32_t moved = 0, before = 0;
    for (int k = 0; k < ROUNDS / 10; k++) {
        rounds(w, 10);
        uint32_t first = first_that_comes_back(w);
        assert_true(first <= versions(w)->oldest);
        assert_true(first >= before);
        moved += first > before;
        before = first;
    }
    assert_in_range(moved, 2, 6);
}

FED_TEST_WITH(what_is_kept_is_bounded, world *w) {
    const fedserver *s = w->home.server;
    for (int k = 0; k < ROUNDS; k++) {
        one_round(w);
        fed_error err = {0};
        uint32_t count, keyframes = 0;
        uint64_t bytes;
        assert_fed_ok_err(s->store->delta_sum(s->db, 1, 0, &count, &bytes, &err));
        assert_true(bytes <= 3 * versions(w)->snapshot_limit);
        fedserver_keyframe keyframe = {.version = w->version};
        while (keyframe.version > 0 && s->store->keyframe_find(s->db, 1, keyframe.version - 1,
                                                               &keyframe, NULL, &err) == FED_OK) {
            keyframes++;
        }
        assert_in_range(keyframes, 1, 2);
    }
}

FED_TEST_WITH(restarts_change_nothing_of_it, world *w) {
    for (int k = 0; k < ROUNDS / 20; k++) {
        rounds(w, 20);
        uint32_t first = first_that_comes_back(w), oldest = versions(w)->oldest;
        coordinator_crash(&w->home);
        assert_int_equal(first_that_comes_back(w), first);
        assert_int_equal(versions(w)->oldest, oldest);
        assert_int_equal(versions(w)->parts, w->version - oldest);
    }
}

static answer ask(world *w, const char *have, uint32_t want, const char *more) {
    char query[128];
    w->home.now_ms += 60000;
    snprintf(query, sizeof query, "task=1&have=%s&want=%u%s", have, want, more);
    return coordinator_ask(&w->home, &w->device, "GET", "/v1/model", query, NULL, 0);
}

/* Bring a device from version `have` (< 0: it has none) to `want`. Returns the part's kind if the
 * download has only one part, and 0 if it has several. Without a download, returns the HTTP status
 * times -1. */
static int bring(world *w, int64_t have, uint32_t want, const char *more) {
    float values[PARAMETERS];
    char held[16] = "none";
    if (have >= 0) {
        memcpy(values, w->old[have], sizeof values);
        snprintf(held, sizeof held, "%u", (uint32_t)have);
    }
    answer a = ask(w, held, want, more);
    if (a.status != 200) {
        answer_free(&a);
        return -a.status;
    }
    fed_reader r;
    fed_part part = {0};
    int parts = 0;
    for (fed_reader_init(&r, a.body, a.len); fed_reader_left(&r) > 0; parts++) {
        fed_error err = {0};
        assert_fed_ok(fed_part_read(&r, &part));
        const fed_layout *layout = &fedserver_rounds_front(&w->home.server->rounds)->arch.layout;
        size_t len = (size_t)part.envelope_len;
        if (part.from == part.to) {
            memset(values, 0, sizeof values);
        }
        if (part.kind == FED_PART_PATCH) {
            assert_fed_ok(fedcodec_patch_apply(part.envelope, len, values, PARAMETERS));
        } else {
            assert_fed_ok_err(
                fedcodec_envelope_axpy(part.envelope, len, layout, 1.0f, values, &err));
        }
    }
    assert_memory_equal(values, w->old[want], sizeof values);
    answer_free(&a);
    return parts == 1 ? (int)part.kind : 0;
}

FED_TEST_WITH(each_way_leads_to_the_same_bits, world *w) {
    rounds(w, ROUNDS);
    const uint32_t oldest = versions(w)->oldest, newest = w->version;
    assert_int_equal(bring(w, newest - 1, newest, "&can=2"), FED_PART_DELTA);
    assert_int_equal(bring(w, newest - 4, newest, "&can=2"), 0); /* 0: several parts */
    assert_int_equal(bring(w, oldest, newest, "&can=2"), FED_PART_PATCH);
    assert_int_equal(bring(w, oldest - 1, newest, "&can=3"), FED_PART_PATCH);
    assert_int_equal(bring(w, -1, newest, "&can=2"), FED_PART_PATCH);
    static const char *const others[] = {"", "&can=1", "&can=", "&can=x", "&can=-2"};
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        assert_int_equal(bring(w, oldest, newest, others[k]), 0);
        assert_int_equal(bring(w, oldest - 1, newest, others[k]), FED_PART_SNAPSHOT);
        assert_int_equal(bring(w, -1, newest, others[k]), FED_PART_SNAPSHOT);
    }
}

/* The device has received a part of an answer. Then a new process of the coordinator sends the
 * rest. */
static void expect_the_rest(world *w, const char *have, uint32_t want, const char *more) {
    answer whole = ask(w, have, want, more);
    assert_int_equal(whole.status, 200);
    coordinator_crash(&w->home);
    w->home.range = "bytes=100-";
    w->home.if_range = whole.etag;
    answer rest = ask(w, have, want, more);
    w->home.range = w->home.if_range = NULL;
    assert_int_equal(rest.status, 206);
    assert_int_equal(rest.len, whole.len - 100);
    assert_memory_equal(rest.body, whole.body + 100, rest.len);
    answer_free(&rest);
    answer_free(&whole);
}

FED_TEST_WITH(a_download_goes_on_after_a_restart, world *w) {
    rounds(w, ROUNDS - 2);
    const uint32_t want = w->version;
    char oldest[16];
    snprintf(oldest, sizeof oldest, "%u", versions(w)->oldest);
    for (int newer = 0; newer < 2; newer++) {
        expect_the_rest(w, oldest, want, "&can=2");
        expect_the_rest(w, oldest, want, "");
        expect_the_rest(w, "none", want, "&can=2");
        expect_the_rest(w, "none", want, "");
        rounds(w, 1);
    }
}

FED_TEST_WITH(damaged_old_versions_cost_bytes_only, world *w) {
    fedserver *s = w->home.server;
    rounds(w, ROUNDS);
    const uint32_t oldest = versions(w)->oldest;
    fed_error err = {0};
    float wrong[PARAMETERS] = {0};
    assert_fed_ok_err(s->store->keyframe_prune(s->db, 1, UINT32_MAX, &err));
    const fedserver_keyframe damaged = {
        .version = oldest, .digest = 1, .values = wrong, .size = PARAMETERS};
    assert_fed_ok_err(s->store->keyframe_add(s->db, 1, &damaged, &err));
    assert_int_equal(bring(w, oldest, w->version, "&can=2"), FED_PART_PATCH);
    assert_int_equal(bring(w, -1, w->version - 1, "&can=2"), -404);
    assert_int_equal(bring(w, oldest, w->version - 1, "&can=2"), 0);
}

FED_TEST_WITH(a_version_whose_last_delta_is_missing_does_not_come_back, world *w) {
    fed_error err = {0};
    float *values = NULL;
    rounds(w, 3);
    fedserver_archive archive = fedserver_rounds_archive(
        &w->home.server->rounds, fedserver_rounds_front(&w->home.server->rounds));
    assert_fed_fails(fedserver_old_versions_values(&archive, w->version + 1, &values, &err),
                     FED_ENOTFOUND, "the stored delta to version 4 is missing");
    assert_null(values);
}

/* The older release has stored deltas, but no version whole. */
FED_TEST_WITH(a_database_of_an_older_release_goes_on, world *w) {
    fedserver *s = w->home.server;
    fed_error err = {0};
    rounds(w, 3);
    assert_fed_ok_err(s->store->keyframe_prune(s->db, 1, UINT32_MAX, &err));
    assert_int_equal(first_that_comes_back(w), UINT32_MAX);
    assert_int_equal(bring(w, 0, 3, "&can=2"), 0);
    rounds(w, 1);
    assert_int_equal(first_that_comes_back(w), 3);
    assert_int_equal(bring(w, 0, 4, "&can=2"), 0);
    coordinator_crash(&w->home);
    assert_int_equal(bring(w, 0, 4, ""), 0);
}

FED_TEST_WITH(given_versions_come_back_too, world *w) {
    float given[PARAMETERS];
    for (int k = 0; k < 40; k++) {
        fed_error err = {0};
        for (int i = 0; i < PARAMETERS; i++) {
            given[i] = (float)(i * 7 + k) / 64;
        }
        assert_fed_ok_err(fedserver_training_take(&w->home.server->rounds,
                                                  fedserver_rounds_front(&w->home.server->rounds),
                                                  given, false, w->home.now_ms, &err));
        note(w);
        rounds(w, 1);
    }
    assert_true(first_that_comes_back(w) < w->version - 2);
    coordinator_crash(&w->home);
    assert_true(first_that_comes_back(w) < w->version - 2);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
