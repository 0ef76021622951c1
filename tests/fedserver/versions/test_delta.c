/* Versions of a model: what a lossy delta leaves out is kept as a residual, and the chain of
 * deltas stays short. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <math.h>

#include "fed/hash.h"
#include "fed/wire.h"
#include "fedcodec/envelope.h"
#include "fedserver/versions/delta.h"

enum { SIZE = 600 };

typedef struct fixture {
    fed_layout layout;
    fedserver_versions versions;
    fedcodec codec;
} fixture;

static void open_with(fixture *f, const char *codec) {
    fed_error err = {0};
    fed_layout_init(&f->layout);
    assert_fed_ok(fed_layout_add(&f->layout, "w", 1, (uint32_t[]){SIZE}));
    float *values = calloc(SIZE, sizeof *values);
    assert_fed_ok(fedserver_versions_init(&f->versions, &f->layout, 0, values, NULL));
    assert_fed_ok_err(fedcodec_parse(codec, &f->codec, &err));
}

static void done(fixture *f) {
    fedserver_versions_free(&f->versions);
    fed_layout_free(&f->layout);
}

static void advance(fixture *f, const float *mean) {
    fed_error err = {0};
    fedserver_versions next;
    assert_fed_ok_err(fedserver_versions_next(&f->versions, &f->codec, 0, mean,
                                              f->versions.residual, &next, &err));
    f->versions.residual = NULL;
    fedserver_versions_free(&f->versions);
    f->versions = next;
}

/* Apply the deltas from version `have` to `want` to values. Returns the number of deltas; -1: no
 * deltas lead there. */
static int apply_to(fixture *f, uint32_t have, uint32_t want, float *values) {
    fed_error err = {0};
    fedserver_blob *blob;
    int parts = 0;
    uint64_t tag;
    if (!fedserver_versions_leads(&f->versions, have, want, true)) {
        return -1;
    }
    assert_fed_ok(fedserver_versions_chain(&f->versions, have, want, &blob, &tag));
    fed_reader r;
    size_t len;
    const uint8_t *data = fedserver_blob_data(blob, &len);
    assert_int_equal(len, fedserver_versions_chain_len(&f->versions, have, want));
    fed_reader_init(&r, data, len);
    for (; fed_reader_left(&r) > 0; parts++) {
        fed_part part;
        assert_fed_ok(fed_part_read(&r, &part));
        assert_int_equal(part.kind, FED_PART_DELTA);
        assert_int_equal(part.to, part.from + 1);
        assert_fed_ok_err(fedcodec_envelope_axpy(part.envelope, (size_t)part.envelope_len,
                                                 &f->layout, 1.0f, values, &err));
    }
    fedserver_blob_free(blob);
    return parts;
}

static int apply(fixture *f, uint32_t have, float *values) {
    return apply_to(f, have, f->versions.version, values);
}

static void what_a_delta_leaves_out_comes_later(void) {
    fixture f;
    open_with(&f, "sbc:p=0.1");
    float mean[SIZE];
    for (int i = 0; i < SIZE; i++) {
        mean[i] = 0.001f * (float)(i + 1);
    }
    float sum[SIZE] = {0};
    for (int round = 0; round < 40; round++) {
        advance(&f, mean);
        for (int i = 0; i < SIZE; i++) {
            sum[i] += mean[i];
        }
    }
    for (int i = 0; i < SIZE; i++) { /* the values plus the residual equal the sum of all means */
        float have = f.versions.values[i] + f.versions.residual[i];
        assert_true(have > sum[i] * 0.999f && have < sum[i] * 1.001f);
    }
    done(&f);
}

static double apart(const fixture *f, const float *sum) {
    double apart = 0, whole = 0;
    for (int i = 0; i < SIZE; i++) {
        const double error = (double)f->versions.values[i] - (double)sum[i];
        apart += error * error;
        whole += (double)sum[i] * (double)sum[i];
    }
    return sqrt(apart / whole);
}

/* Rounds of the same mean, then rounds of nothing. */
static void what_a_lengthening_codec_gets_wrong_is_mended_later(void) {
    static const char *const specs[] = {"eden", "eden:bits=4", "eden:p=0.008", "eden:p=0.05",
                                        "eden:p=0.05,scale=tensor,bucket=256"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fixture f;
        float mean[SIZE], sum[SIZE] = {0};
        open_with(&f, specs[k]);
        for (int i = 0; i < SIZE; i++) {
            mean[i] = 0.001f * (float)((i * 7) % 13 - 6) + (i == 77 ? 0.05f : 0);
        }
        for (int round = 0; round < 20; round++) {
            advance(&f, mean);
            for (int i = 0; i < SIZE; i++) {
                sum[i] += mean[i];
            }
        }
        const double behind = apart(&f, sum);
        memset(mean, 0, sizeof mean);
        for (int round = 0; round < 150; round++) {
            advance(&f, mean);
        }
        if (!(behind < 0.8 && apart(&f, sum) < 0.01)) {
            fail_msg("%s: %g of the sum was missing, and %g is at the end", specs[k], behind,
                     apart(&f, sum));
        }
        done(&f);
    }
}

/* Another thread may send the old version meanwhile, so the old version must not change. */
static void the_next_version_is_made_beside_the_old_one(void) {
    fixture f;
    fed_error err = {0};
    open_with(&f, "3lc:s=1");
    const float mean[SIZE] = {1, 2, 3};
    advance(&f, mean);
    const fedserver_versions before = f.versions;
    float values[SIZE];
    memcpy(values, before.values, sizeof values);
    fedserver_blob *chain = fedserver_blob_share(before.chain);
    fedserver_versions next;
    assert_fed_ok_err(
        fedserver_versions_next(&f.versions, &f.codec, 0, mean, f.versions.residual, &next, &err));
    assert_memory_equal(&f.versions, &before, sizeof before);
    assert_memory_equal(f.versions.values, values, sizeof values);
    assert_int_equal(next.version, 2);
    assert_int_equal(next.digest, fed_digest(next.values, SIZE));
    assert_int_not_equal(next.digest, before.digest);
    assert_true(next.residual == before.residual && next.values != before.values);
    size_t old_len = 0, new_len = 0;
    (void)fedserver_blob_data(chain, &old_len);
    (void)fedserver_blob_data(next.chain, &new_len);
    assert_memory_equal(fedserver_blob_data(next.chain, &new_len),
                        fedserver_blob_data(chain, &old_len), old_len);
    assert_true(new_len > old_len && next.parts == 2);
    f.versions.residual = NULL;
    fedserver_versions_free(&f.versions);
    f.versions = next;
    fedserver_blob_free(chain);
    assert_int_equal(f.versions.version, 2);
    done(&f);
}

static void a_device_behind_is_sent_the_deltas_it_lacks(void) {
    fixture f;
    open_with(&f, "sbc:p=0.01");
    float mean[SIZE] = {0};
    float values[4][SIZE] = {{0}};
    for (uint32_t v = 0; v < 4; v++) {
        memcpy(values[v], f.versions.values, sizeof values[v]);
        mean[v] = 1;
        advance(&f, mean);
    }
    for (uint32_t v = 0; v < 4; v++) {
        assert_int_equal(apply(&f, v, values[v]), 4 - (int)v);
        assert_memory_equal(values[v], f.versions.values, sizeof values[v]);
    }
    assert_int_equal(apply(&f, 4, values[0]), 0);
    assert_int_equal(apply(&f, 5, values[0]), -1);
    done(&f);
}

static void a_chain_is_cut_to_a_snapshots_size_and_still_leads_to_the_same_bits(void) {
    enum { ROUNDS = 60 };
    static float old[ROUNDS][SIZE];
    fixture f;
    open_with(&f, "3lc:s=1");
    float mean[SIZE];
    for (int round = 0; round < ROUNDS; round++) {
        memcpy(old[round], f.versions.values, sizeof old[round]);
        for (int i = 0; i < SIZE; i++) {
            mean[i] = (float)((i * 7 + round) % 5 - 2);
        }
        advance(&f, mean);
        size_t chain;
        (void)fedserver_blob_data(f.versions.chain, &chain);
        assert_true(chain <= f.versions.snapshot_limit);
        assert_int_equal(f.versions.oldest + f.versions.parts, f.versions.version);
    }
    uint32_t oldest = f.versions.oldest;
    assert_in_range(oldest, 1, ROUNDS - 3);
    for (uint32_t v = 0; v < ROUNDS; v++) {
        assert_int_equal(apply(&f, v, old[v]), v < oldest ? -1 : ROUNDS - (int)v);
        if (v >= oldest) {
            assert_memory_equal(old[v], f.versions.values, sizeof old[v]);
        }
    }
    done(&f);
}

static void deltas_as_large_as_a_snapshot_are_not_kept_in_a_row(void) {
    fixture f;
    open_with(&f, "float32");
    float mean[SIZE] = {0};
    float values[SIZE] = {0};
    advance(&f, mean);
    advance(&f, mean);
    assert_int_equal(f.versions.parts, 1);
    assert_int_equal(apply(&f, 1, values), 1);
    assert_int_equal(apply(&f, 0, values), -1);
    done(&f);
}

static void
a_version_that_was_announced_can_be_had_by_deltas_when_a_newer_one_is_there(void **state) {
    (void)state;
    fixture f;
    open_with(&f, "sbc:p=0.01");
    float mean[SIZE] = {0};
    float values[5][SIZE] = {{0}};
    for (uint32_t v = 0; v < 5; v++) {
        memcpy(values[v], f.versions.values, sizeof values[v]);
        mean[v] = 1;
        advance(&f, mean);
    }
    for (uint32_t want = 0; want < 5; want++) {
        for (uint32_t have = 0; have <= want; have++) {
            float at[SIZE];
            memcpy(at, values[have], sizeof at);
            assert_int_equal(apply_to(&f, have, want, at), (int)(want - have));
            assert_memory_equal(at, values[want], sizeof at);
        }
    }
    done(&f);
}

static void a_tag_names_the_bytes_whoever_asks_and_after_a_restart(void) {
    fixture f, g;
    open_with(&f, "3lc:s=1");
    open_with(&g, "3lc:s=1");
    const float mean[SIZE] = {1, 2, 3};
    uint64_t tags[3];
    fedserver_blob *blob;
    advance(&f, mean);
    for (uint32_t v = 2; v < 4; v++) {
        size_t len;
        uint64_t digest;
        advance(&f, mean);
        const uint8_t *part = fedserver_versions_part(&f.versions, &len, &digest);
        assert_int_equal(digest, fed_digest_bytes(part, len));
        assert_fed_ok(fedserver_versions_append(&g.versions, v, part, len));
    }
    g.versions.version = 3;
    const struct {
        fixture *of;
        uint32_t have, want;
    } asked[3] = {{&f, 1, 3}, {&g, 1, 3}, {&f, 1, 2}};
    for (size_t k = 0; k < 3; k++) {
        assert_fed_ok(fedserver_versions_chain(&asked[k].of->versions, asked[k].have, asked[k].want,
                                               &blob, &tags[k]));
        fedserver_blob_free(blob);
    }
    assert_true(tags[0] == tags[1]);
    assert_true(tags[0] != tags[2]);
    done(&f);
    done(&g);
}

static void a_gap_in_the_stored_deltas_is_refused(void) {
    fixture f;
    open_with(&f, "float32");
    const uint8_t bytes[3] = {1, 2, 3};
    assert_fed_ok(fedserver_versions_append(&f.versions, 3, bytes, 3));
    assert_fed_ok(fedserver_versions_append(&f.versions, 4, bytes, 3));
    assert_fed_status(fedserver_versions_append(&f.versions, 6, bytes, 3), FED_EFORMAT);
    assert_int_equal(f.versions.oldest, 2);
    assert_int_equal(f.versions.parts, 2);
    done(&f);
}

static void given_values_become_a_version_to_the_bit(void) {
    fixture f;
    float mean[SIZE], given[SIZE], values[SIZE] = {0};
    fed_error err = {0};
    fedserver_versions next;
    uint64_t digest;
    size_t len;
    open_with(&f, "3lc:s=1");
    for (int i = 0; i < SIZE; i++) {
        mean[i] = (float)(i % 7) / 3;
        given[i] = (float)i / 7;
    }
    advance(&f, mean);
    memcpy(values, f.versions.values, sizeof values);
    assert_fed_ok_err(
        fedserver_versions_given(&f.versions, given, f.versions.residual, &next, &err));
    f.versions.residual = NULL;
    fedserver_versions_free(&f.versions);
    f.versions = next;
    const uint8_t *part = fedserver_versions_part(&f.versions, &len, &digest);
    assert_int_equal(f.versions.version, 2);
    assert_memory_equal(f.versions.values, given, sizeof given);
    assert_int_equal(f.versions.digest, fed_digest(given, SIZE));
    for (int i = 0; i < SIZE; i++) {
        assert_true(f.versions.residual[i] == 0);
    }
    fed_reader r;
    fed_part patch;
    fed_reader_init(&r, part, len);
    assert_fed_ok(fed_part_read(&r, &patch));
    assert_fed_ok_err(fedserver_part_apply(&patch, &f.layout, values, &err));
    assert_memory_equal(values, given, sizeof given);
    assert_true(fedserver_versions_leads(&f.versions, 0, 1, false));
    assert_false(fedserver_versions_leads(&f.versions, 0, 2, false));
    assert_true(fedserver_versions_leads(&f.versions, 0, 2, true));
    done(&f);
}

/* `kept`: the store has the values of this version. */
static void what_the_store_has_of_a_version_it_has_not_of_the_next_one(void) {
    fixture f;
    fed_error err = {0};
    fedserver_versions next, given;
    const float mean[SIZE] = {1, 2, 3};
    open_with(&f, "3lc:s=1");
    advance(&f, mean);
    f.versions.kept = true;
    float *residual = malloc(SIZE * sizeof *residual);
    assert_non_null(residual);
    memcpy(residual, f.versions.residual, SIZE * sizeof *residual);
    assert_fed_ok_err(
        fedserver_versions_next(&f.versions, &f.codec, 0, mean, residual, &next, &err));
    assert_false(next.kept);
    fedserver_versions_free(&next); /* this also frees the residual of `next` */
    residual = calloc(SIZE, sizeof *residual);
    assert_non_null(residual);
    assert_fed_ok_err(fedserver_versions_given(&f.versions, mean, residual, &given, &err));
    assert_false(given.kept);
    fedserver_versions_free(&given);
    assert_true(f.versions.kept);
    done(&f);
}

static void a_damaged_part_is_refused(void) {
    fixture f;
    fed_error err = {0};
    float values[SIZE] = {0};
    const uint8_t noise[] = {255, 255, 255};
    open_with(&f, "float32");
    for (int kind = FED_PART_SNAPSHOT; kind <= FED_PART_PATCH; kind++) {
        const fed_part part = {
            .kind = (fed_part_kind)kind, .to = 1, .envelope = noise, .envelope_len = sizeof noise};
        assert_int_not_equal(fedserver_part_apply(&part, &f.layout, values, &err), FED_OK);
    }
    done(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        fed_unit_test(given_values_become_a_version_to_the_bit),
        fed_unit_test(what_the_store_has_of_a_version_it_has_not_of_the_next_one),
        fed_unit_test(a_damaged_part_is_refused),
        fed_unit_test(what_a_delta_leaves_out_comes_later),
        fed_unit_test(what_a_lengthening_codec_gets_wrong_is_mended_later),
        fed_unit_test(the_next_version_is_made_beside_the_old_one),
        fed_unit_test(a_device_behind_is_sent_the_deltas_it_lacks),
        fed_unit_test(a_chain_is_cut_to_a_snapshots_size_and_still_leads_to_the_same_bits),
        fed_unit_test(deltas_as_large_as_a_snapshot_are_not_kept_in_a_row),
        cmocka_unit_test(
            a_version_that_was_announced_can_be_had_by_deltas_when_a_newer_one_is_there),
        fed_unit_test(a_tag_names_the_bytes_whoever_asks_and_after_a_restart),
        fed_unit_test(a_gap_in_the_stored_deltas_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
