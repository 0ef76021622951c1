/* Downloads: the shortest way to a version is sent, all ways lead to the same bits, and the
 * work of making them is bounded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/hash.h"
#include "fed/rng.h"
#include "fedcodec/envelope.h"
#include "fedcodec/patch.h"
#include "fedserver/versions/downloads.h"

enum { SIZE = 3000, VERSIONS = 90 };

typedef struct fixture {
    fed_layout layout;
    fedserver_versions versions;
    fedserver_downloads downloads;
    fedcodec codec;
    float old[VERSIONS + 1][SIZE];
    uint32_t first; /* the values of this version and of all later ones can be made again */
    unsigned brought_back;
    bool no_stages; /* devices read no second stage of a codec */
} fixture;

static fed_status bring_back(void *user, uint32_t version, float **values, fed_error *err) {
    fixture *f = user;
    if (version < f->first) {
        return fed_fail(err, FED_ENOTFOUND, "the test's store no longer has version %u", version);
    }
    f->brought_back++;
    *values = malloc(sizeof f->old[0]);
    assert_non_null(*values);
    memcpy(*values, f->old[version], sizeof f->old[0]);
    return FED_OK;
}

static void advance(fixture *f) {
    fed_error err = {0};
    fed_rng rng;
    float mean[SIZE];
    fedserver_versions next;
    fed_rng_init(&rng, 1, f->versions.version, 0);
    for (int i = 0; i < SIZE; i++) {
        mean[i] = 0.01f * (fed_rng_float(&rng) - 0.5f);
    }
    assert_fed_ok_err(fedserver_versions_next(&f->versions, &f->codec, 0, mean,
                                              f->versions.residual, &next, &err));
    f->versions.residual = NULL;
    fedserver_versions_free(&f->versions);
    f->versions = next;
    memcpy(f->old[f->versions.version], f->versions.values, sizeof f->old[0]);
}

static void advance_to(fixture *f, uint32_t version) {
    while (f->versions.version < version) {
        advance(f);
    }
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    fed_error err = {0};
    fed_rng rng;
    fed_layout_init(&f->layout);
    assert_fed_ok(fed_layout_add(&f->layout, "w", 1, (uint32_t[]){SIZE}));
    float *values = calloc(SIZE, sizeof *values);
    assert_non_null(values);
    fed_rng_init(&rng, 2, 0, 0);
    for (int i = 0; i < SIZE; i++) {
        values[i] = fed_rng_float(&rng) - 0.5f;
    }
    memcpy(f->old[0], values, sizeof f->old[0]);
    assert_fed_ok(fedserver_versions_init(&f->versions, &f->layout, 0, values, NULL));
    assert_fed_ok_err(fedcodec_parse("3lc:s=1", &f->codec, &err));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    fedserver_downloads_free(&f->downloads);
    for (size_t k = 0; k < FEDSERVER_PATCHES; k++) {
        assert_null(f->downloads.patches[k].blob);
    }
    fedserver_versions_free(&f->versions);
    fed_layout_free(&f->layout);
    free(f);
    return 0;
}

/* A download: the first part's kind and versions, the number of parts, their bytes, and the tag. */
typedef struct came {
    fed_status status;
    fed_part first;
    int parts;
    size_t len;
    uint64_t tag;
} came;

/* Ask for a download, apply it and compare with the wanted values. If have < 0, the device has no
 * model. */
static came ask(fixture *f, int64_t have, uint32_t want, bool patches, int64_t now_ms) {
    const fedserver_old_versions old = {.values = bring_back, .user = f};
    const fedserver_download_request request = {.any = have < 0,
                                                .have = (uint32_t)have,
                                                .want = want,
                                                .patches = patches,
                                                .stages = !f->no_stages};
    fed_error err = {0};
    fedserver_blob *blob;
    came c = {0};
    c.status = fedserver_downloads_get(&f->downloads, &f->versions, &old, &request, now_ms, &blob,
                                       &c.tag, &err);
    if (c.status != FED_OK) {
        assert_fed_status(c.status, FED_ENOTFOUND);
        return c;
    }
    float values[SIZE];
    memset(values, 0xff, sizeof values);
    if (have >= 0 && have <= VERSIONS) {
        memcpy(values, f->old[have], sizeof values);
    }
    fed_reader r;
    const uint8_t *data = fedserver_blob_data(blob, &c.len);
    fed_reader_init(&r, data, c.len);
    for (; fed_reader_left(&r) > 0; c.parts++) {
        fed_part part;
        assert_fed_ok(fed_part_read(&r, &part));
        assert_true(part.kind != FED_PART_PATCH || patches);
        c.first = c.parts == 0 ? part : c.first;
        if (part.from == part.to) {
            memset(values, 0, sizeof values);
        }
        size_t len = (size_t)part.envelope_len;
        if (part.kind == FED_PART_PATCH) {
            assert_fed_ok(fedcodec_patch_apply(part.envelope, len, values, SIZE));
        } else {
            assert_true(!f->no_stages || fedcodec_envelope_plain_len(part.envelope, len) == len);
            assert_fed_ok_err(
                fedcodec_envelope_axpy(part.envelope, len, &f->layout, 1.0f, values, &err));
        }
    }
    assert_memory_equal(values, f->old[want], sizeof values);
    fedserver_blob_free(blob);
    return c;
}

static size_t patch_len(const float *from, const float *to) {
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok(fedcodec_patch_write(from, to, SIZE, &w));
    size_t len = w.len + 9 + fed_varint_size(w.len); /* the head of the part */
    fed_writer_free(&w);
    return len;
}

FED_TEST_WITH(a_device_gets_the_shortest_way, fixture *f) {
    advance_to(f, VERSIONS);
    const fedserver_versions *v = &f->versions;
    int ways[4] = {0};
    for (uint32_t have = 0; have < VERSIONS; have++) {
        came c = ask(f, have, VERSIONS, true, have * FEDSERVER_PATCH_MS);
        size_t chain = fedserver_versions_leads(v, have, VERSIONS, true)
                           ? fedserver_versions_chain_len(v, have, VERSIONS)
                           : SIZE_MAX;
        size_t patch = patch_len(f->old[have], v->values), whole = patch_len(NULL, v->values);
        size_t least = patch < whole ? patch : whole;
        ways[c.first.kind]++;
        if (chain <= v->snapshot_limit / 4) {
            assert_int_equal(c.len, chain);
        } else {
            assert_int_equal(c.len, chain < least ? chain : least);
        }
    }
    assert_true(ways[FED_PART_DELTA] > 0 && ways[FED_PART_PATCH] > 0);
    came none = ask(f, -1, VERSIONS, true, 0);
    assert_int_equal(none.first.kind, FED_PART_PATCH);
    assert_int_equal(none.first.from, VERSIONS);
    assert_true(none.len < v->snapshot_limit);
    assert_int_equal(ask(f, VERSIONS, VERSIONS, true, 0).parts, 0);
    assert_int_equal(ask(f, VERSIONS + 1, VERSIONS, true, 0).first.from, VERSIONS);
}

static uint32_t oldest(fixture *f) {
    advance_to(f, VERSIONS);
    return f->versions.oldest;
}

static size_t ask_runs(fixture *f, int64_t have, uint32_t want, bool patches, fed_writer *parts) {
    const fedserver_old_versions old = {.values = bring_back, .user = f};
    const fedserver_download_request request = {
        .any = have < 0, .have = (uint32_t)have, .want = want, .patches = patches};
    fedserver_run runs[FED_ADDRESSES];
    fed_error err = {0};
    size_t count = 0;
    assert_fed_ok_err(fedserver_downloads_runs(&f->downloads, &f->versions, &old, &request, 0, runs,
                                               &count, &err));
    for (size_t k = 0; k < count; k++) {
        size_t len = 0;
        const uint8_t *data = fedserver_blob_data(runs[k].blob, &len);
        fed_write_bytes(parts, data, len);
        fedserver_blob_free(runs[k].blob);
    }
    return count;
}

FED_TEST_WITH(runs_are_the_download_cut_in_pieces, fixture *f) {
    const fedserver_old_versions old = {.values = bring_back, .user = f};
    advance_to(f, VERSIONS);
    for (int64_t have = -1; have <= VERSIONS; have++) {
        const fedserver_download_request request = {
            .any = have < 0, .have = (uint32_t)have, .want = VERSIONS};
        fed_error err = {0};
        fedserver_blob *blob;
        uint64_t tag;
        size_t len = 0;
        fed_writer parts;
        fed_writer_growing(&parts);
        const size_t count = ask_runs(f, have, VERSIONS, false, &parts);
        assert_fed_ok_err(fedserver_downloads_get(&f->downloads, &f->versions, &old, &request, 0,
                                                  &blob, &tag, &err));
        const uint8_t *data = fedserver_blob_data(blob, &len);
        assert_int_equal(parts.len, len);
        assert_memory_equal(parts.data, data, len);
        assert_true(count <= 12);
        fedserver_blob_free(blob);
        fed_writer_free(&parts);
    }
}

FED_TEST_WITH(what_cannot_be_had_has_no_runs, fixture *f) {
    const fedserver_old_versions old = {.values = bring_back, .user = f};
    const fedserver_download_request request = {.any = true, .want = 1};
    fedserver_run runs[FED_ADDRESSES];
    fed_error err = {0};
    size_t count = 7;
    assert_fed_status(fedserver_downloads_runs(&f->downloads, &f->versions, &old, &request, 0, runs,
                                               &count, &err),
                      FED_ENOTFOUND);
    assert_int_equal(count, 0);
}

/* All devices together need fewer than two different runs for each version. */
FED_TEST_WITH(devices_share_runs, fixture *f) {
    const uint32_t have = oldest(f);
    uint64_t tags[4 * VERSIONS];
    size_t count = 0, asked = 0;
    for (uint32_t from = have; from < VERSIONS; from++) {
        const fedserver_old_versions old = {.values = bring_back, .user = f};
        const fedserver_download_request request = {.have = from, .want = VERSIONS};
        fedserver_run runs[FED_ADDRESSES];
        fed_error err = {0};
        size_t n = 0;
        assert_fed_ok_err(fedserver_downloads_runs(&f->downloads, &f->versions, &old, &request, 0,
                                                   runs, &n, &err));
        for (size_t k = 0; k < n; k++) {
            size_t seen = 0;
            while (seen < count && tags[seen] != runs[k].tag) {
                seen++;
            }
            count += seen == count;
            tags[seen] = runs[k].tag;
            asked++;
            fedserver_blob_free(runs[k].blob);
        }
    }
    assert_true(count < 2 * (VERSIONS - have));
    assert_true(asked > count);
}

FED_TEST_WITH(a_device_that_reads_no_patches_gets_deltas_or_values, fixture *f) {
    advance_to(f, VERSIONS);
    const fedserver_versions *v = &f->versions;
    for (uint32_t have = 0; have < VERSIONS; have++) {
        came c = ask(f, have, VERSIONS, false, 0);
        bool leads = fedserver_versions_leads(v, have, VERSIONS, true);
        assert_int_equal(c.first.kind, leads ? FED_PART_DELTA : FED_PART_SNAPSHOT);
        assert_int_equal(c.parts, leads ? VERSIONS - (int)have : 1);
    }
    assert_int_equal(ask(f, -1, VERSIONS, false, 0).first.kind, FED_PART_SNAPSHOT);
    assert_int_equal(f->brought_back, 0);
}

FED_TEST_WITH(without_old_versions_there_is_still_a_way, fixture *f) {
    uint32_t have = oldest(f);
    f->first = VERSIONS;
    came c = ask(f, have, VERSIONS, true, 0);
    assert_int_equal(c.first.from, VERSIONS);
    assert_int_equal(ask(f, 0, VERSIONS, true, 0).first.from, VERSIONS);
    assert_int_equal(ask(f, have, VERSIONS - 1, true, 0).first.kind, FED_PART_DELTA);
    assert_fed_status(ask(f, -1, VERSIONS - 1, true, 0).status, FED_ENOTFOUND);
    assert_fed_status(ask(f, -1, VERSIONS - 1, false, 0).status, FED_ENOTFOUND);
    assert_fed_status(ask(f, -1, VERSIONS + 1, true, 0).status, FED_ENOTFOUND);
}

FED_TEST_WITH(the_same_bytes_come_again_after_a_restart, fixture *f) {
    uint32_t have = oldest(f);
    static const bool reads[] = {true, false};
    for (size_t k = 0; k < 2; k++) {
        uint64_t tags[3], again[3];
        for (int restarts = 0; restarts < 2; restarts++) {
            uint64_t *of = restarts == 0 ? tags : again;
            int64_t now_ms = (int64_t)(2 * k) * FEDSERVER_PATCH_MS;
            of[0] = ask(f, have, VERSIONS, reads[k], now_ms).tag;
            of[1] = ask(f, 3, VERSIONS, reads[k], now_ms + FEDSERVER_PATCH_MS).tag;
            of[2] = ask(f, -1, VERSIONS - 2, reads[k], now_ms + 2 * FEDSERVER_PATCH_MS).tag;
            fedserver_downloads_free(&f->downloads);
            f->downloads = (fedserver_downloads){0};
        }
        assert_memory_equal(tags, again, sizeof tags);
        assert_true(tags[0] != tags[1] && tags[1] != tags[2]);
    }
}

FED_TEST_WITH(what_was_made_is_not_made_again, fixture *f) {
    uint32_t have = oldest(f);
    uint64_t tag = ask(f, have, VERSIONS, true, 0).tag;
    assert_int_equal(f->brought_back, 1);
    assert_true(ask(f, have, VERSIONS, true, 5).tag == tag);
    assert_int_equal(f->brought_back, 1);
}

/* After a patch was made, no other patch is made for a while. A device that asks meanwhile gets a
 * snapshot or the chain of deltas. */
FED_TEST_WITH(making_is_followed_by_rest, fixture *f) {
    uint32_t have = oldest(f);
    const int64_t rest_ms = SIZE / FEDSERVER_MADE_VALUES;
    assert_int_equal(ask(f, have, VERSIONS, true, 0).first.from, have);
    assert_int_equal(ask(f, have + 1, VERSIONS, true, rest_ms - 1).first.from, VERSIONS);
    assert_int_equal(ask(f, have + 1, VERSIONS - 1, true, rest_ms - 1).first.kind, FED_PART_DELTA);
    assert_int_equal(f->brought_back, 1);
    came c = ask(f, have + 1, VERSIONS, true, rest_ms);
    assert_int_equal(c.first.kind, FED_PART_PATCH);
    assert_int_equal(c.first.from, have + 1);
}

FED_TEST_WITH(patches_in_use_are_bounded_and_stay, fixture *f) {
    uint32_t from = oldest(f);
    uint64_t tags[VERSIONS];
    int64_t now_ms = 0;
    uint32_t made = 0;
    size_t bytes = 0;
    for (;; made++, now_ms += SIZE) {
        came c = ask(f, made, VERSIONS, true, now_ms);
        if (c.first.from != made) {
            break;
        }
        tags[made] = c.tag;
        bytes += c.len;
    }
    assert_in_range(made, 2, FEDSERVER_PATCHES);
    assert_true(made < from && bytes <= 2 * f->versions.snapshot_limit);
    for (uint32_t have = 0; have < made; have++) {
        assert_true(ask(f, have, VERSIONS, true, now_ms).tag == tags[have]);
    }
    now_ms += FEDSERVER_PATCH_MS;
    assert_int_equal(ask(f, made, VERSIONS, true, now_ms).first.from, made);
}

FED_TEST_WITH(a_patch_to_an_older_version_makes_room, fixture *f) {
    int64_t now_ms = 0;
    uint32_t have = 0;
    advance_to(f, VERSIONS - 1);
    while (ask(f, have, VERSIONS - 1, true, now_ms).first.from == have) {
        have++;
        now_ms += SIZE;
    }
    advance(f);
    assert_int_equal(ask(f, have, VERSIONS, true, now_ms + SIZE).first.from, have);
}

FED_TEST_WITH(a_snapshot_stays_as_long_as_somebody_asks_for_it, fixture *f) {
    f->first = UINT32_MAX;
    uint64_t first = ask(f, -1, 0, false, 0).tag;
    advance(f);
    assert_true(ask(f, -1, 1, false, 0).tag != first);
    int64_t now_ms = 0;
    for (int k = 0; k < 5; k++) {
        now_ms += FEDSERVER_SNAPSHOT_MS - 1;
        advance(f);
        fedserver_downloads_trim(&f->downloads, f->versions.version, now_ms);
        assert_true(ask(f, -1, 0, false, now_ms).tag == first);
    }
    assert_fed_status(ask(f, -1, 1, false, now_ms).status, FED_ENOTFOUND);
    now_ms += FEDSERVER_SNAPSHOT_MS;
    assert_fed_status(ask(f, -1, 0, false, now_ms).status, FED_ENOTFOUND);
}

FED_TEST_WITH(those_who_began_first_keep_their_snapshot, fixture *f) {
    uint64_t tags[8];
    f->first = UINT32_MAX;
    for (uint32_t v = 0; v < 8; v++) {
        tags[v] = ask(f, -1, v, true, 0).tag;
        assert_true(tags[v] != 0);
        advance(f);
    }
    for (uint32_t v = 0; v < 8; v++) {
        /* The last version asked for is kept, too. */
        bool kept = v < FEDSERVER_SNAPSHOTS - 1 || v == 7;
        assert_true(ask(f, -1, v, true, 0).tag == (kept ? tags[v] : 0));
    }
}

static void use_codec(fixture *f, const char *spec) {
    fed_error err = {0};
    assert_fed_ok_err(fedcodec_parse(spec, &f->codec, &err));
}

/* Deltas of eden are dense, and short: a chain of them is cheaper than a snapshot for long. */
FED_TEST_WITH(chains_of_eden_lead_to_the_same_bits_until_a_snapshot_is_shorter, fixture *f) {
    use_codec(f, "eden:p=0.008");
    advance_to(f, 60);
    came all = ask(f, 0, 60, true, 0);
    assert_int_equal(all.first.kind, FED_PART_DELTA);
    assert_int_equal(all.parts, 60);
    assert_true(all.len < 2 * SIZE);
    use_codec(f, "eden");
    advance_to(f, VERSIONS);
    came few = ask(f, VERSIONS - 5, VERSIONS, true, 0);
    assert_int_equal(few.first.kind, FED_PART_DELTA);
    assert_int_equal(few.parts, 5);
    came far = ask(f, 0, VERSIONS, true, 0);
    assert_int_equal(far.parts, 1);
    assert_true(far.len < 4 * SIZE);
    assert_int_equal(ask(f, 0, VERSIONS, false, 0).first.kind, FED_PART_SNAPSHOT);
}

FED_TEST_WITH(a_device_that_reads_no_stages_gets_the_deltas_unpacked, fixture *f) {
    use_codec(f, "3lc:s=1.75+entropy");
    advance_to(f, 9);
    came packed = ask(f, 4, 9, false, 0);
    assert_int_equal(packed.parts, 5);
    assert_int_equal(packed.len, fedserver_versions_chain_len(&f->versions, 4, 9));
    f->no_stages = true;
    came plain = ask(f, 4, 9, false, 0);
    assert_int_equal(plain.first.kind, FED_PART_DELTA);
    assert_int_equal(plain.parts, 5);
    assert_true(plain.len > packed.len && plain.tag != packed.tag);
    assert_in_range(plain.len - fedserver_versions_plain_len(&f->versions, 4, 9), 0, 5 * 4);
    assert_true(ask(f, 4, 9, true, 0).tag == plain.tag);
    fedserver_downloads_free(&f->downloads);
    f->downloads = (fedserver_downloads){0};
    assert_true(ask(f, 4, 9, false, 0).tag == plain.tag);
}

/* A chain that is made is followed by a pause. So a request for another chain shows whether the
 * first chain was made again or kept. */
FED_TEST_WITH(an_unpacked_chain_stays_as_long_as_somebody_asks_for_it, fixture *f) {
    int64_t now_ms = 0;
    use_codec(f, "3lc:s=1.75+entropy");
    advance_to(f, 9);
    f->no_stages = true;
    const uint64_t tag = ask(f, 4, 9, false, now_ms).tag;
    for (uint32_t other = 5; other < 9; other++) {
        now_ms += FEDSERVER_SNAPSHOT_MS - 1;
        assert_true(ask(f, 4, 9, false, now_ms).tag == tag);
        assert_int_equal(ask(f, other, 9, false, now_ms).first.kind, FED_PART_DELTA);
    }
    now_ms += FEDSERVER_SNAPSHOT_MS;
    assert_true(ask(f, 4, 9, false, now_ms).tag == tag);
    assert_int_equal(ask(f, 3, 9, false, now_ms).first.kind, FED_PART_SNAPSHOT);
}

FED_TEST_WITH(a_patch_stays_as_long_as_somebody_asks_for_it, fixture *f) {
    const uint32_t have = oldest(f);
    int64_t now_ms = 0;
    assert_int_equal(ask(f, have, VERSIONS, true, now_ms).first.from, have);
    const unsigned brought_back = f->brought_back;
    for (int k = 0; k < 4; k++) {
        now_ms += FEDSERVER_SNAPSHOT_MS - 1;
        assert_int_equal(ask(f, have, VERSIONS, true, now_ms).first.from, have);
    }
    assert_int_equal(f->brought_back, brought_back);
    now_ms += FEDSERVER_SNAPSHOT_MS;
    assert_int_equal(ask(f, have, VERSIONS, true, now_ms).first.from, have);
    assert_int_equal(f->brought_back, brought_back + 1);
}

FED_TEST_WITH(another_process_goes_on_with_the_same_answers, fixture *f) {
    const uint32_t have = oldest(f);
    fed_writer w;
    fed_reader r;
    const uint64_t patch = ask(f, have, VERSIONS, true, 7).tag;
    const uint64_t whole = ask(f, -1, VERSIONS, false, 9).tag;
    const fedserver_downloads before = f->downloads;
    fed_writer_growing(&w);
    fedserver_downloads_write(&f->downloads, &w);
    f->downloads = (fedserver_downloads){0};
    fed_reader_init(&r, w.data, w.len);
    assert_fed_ok(fedserver_downloads_read(&f->downloads, &r));
    assert_int_equal(fed_reader_left(&r), 0);
    assert_true(f->downloads.rests_until_ms == before.rests_until_ms && before.rests_until_ms > 7);
    for (size_t k = 0; k < FEDSERVER_PATCHES; k++) {
        const fedserver_made *a = &before.patches[k], *b = &f->downloads.patches[k];
        assert_true((a->blob == NULL) == (b->blob == NULL) && a->tag == b->tag &&
                    a->asked_ms == b->asked_ms && a->from == b->from && a->to == b->to &&
                    a->kind == b->kind);
    }
    for (size_t k = 0; k < FEDSERVER_SNAPSHOTS; k++) {
        const fedserver_made *a = &before.snapshots[k], *b = &f->downloads.snapshots[k];
        assert_true((a->blob == NULL) == (b->blob == NULL) && a->tag == b->tag &&
                    a->asked_ms == b->asked_ms && a->to == b->to && a->kind == b->kind);
    }
    const unsigned brought_back = f->brought_back;
    assert_true(ask(f, have, VERSIONS, true, 10).tag == patch);
    assert_true(ask(f, -1, VERSIONS, false, 10).tag == whole);
    assert_int_equal(f->brought_back, brought_back);
    for (size_t cut = 0; cut < w.len; cut += cut < 64 ? 1 : 997) {
        fedserver_downloads broken = {0};
        uint8_t *exact = malloc(cut + 1);
        assert_non_null(exact);
        memcpy(exact, w.data, cut);
        fed_reader_init(&r, exact, cut);
        assert_true(fedserver_downloads_read(&broken, &r) != FED_OK);
        fedserver_downloads_free(&broken);
        free(exact);
    }
    fed_writer_free(&w);
    fedserver_downloads kept = before;
    fedserver_downloads_free(&kept);
}

FED_TEST_WITH(a_snapshot_is_wanted_that_a_device_has_asked_for, fixture *f) {
    fed_error err = {0};
    fedserver_made made;
    advance_to(f, 3);
    assert_false(fedserver_downloads_wanted(&f->downloads, 3, FED_PART_SNAPSHOT));
    assert_fed_ok_err(fedserver_downloads_make(&f->versions, FED_PART_SNAPSHOT, &made, &err));
    fedserver_downloads_add(&f->downloads, &made);
    assert_null(made.blob);
    assert_false(fedserver_downloads_wanted(&f->downloads, 3, FED_PART_SNAPSHOT));
    (void)ask(f, -1, 3, false, 5);
    assert_true(fedserver_downloads_wanted(&f->downloads, 3, FED_PART_SNAPSHOT));
    assert_false(fedserver_downloads_wanted(&f->downloads, 3, FED_PART_PATCH));
    assert_false(fedserver_downloads_wanted(&f->downloads, 4, FED_PART_SNAPSHOT));
    assert_true(f->downloads.rests_until_ms == 0); /* no pause follows the newest snapshot */
}

FED_TEST_WITH(unpacked_deltas_are_plain_3lc, fixture *f) {
    use_codec(f, "3lc:s=1.75");
    advance_to(f, 2);
    f->no_stages = true;
    const came plain = ask(f, 0, 2, false, 0);
    assert_int_equal(ask(f, 1, 2, false, 0).parts, 1);
    fedserver_versions_free(&f->versions);
    float *values = malloc(sizeof f->old[0]);
    assert_non_null(values);
    memcpy(values, f->old[0], sizeof f->old[0]);
    assert_fed_ok(fedserver_versions_init(&f->versions, &f->layout, 0, values, NULL));
    use_codec(f, "3lc:s=1.75+entropy");
    advance_to(f, 2);
    assert_int_equal(ask(f, 0, 2, false, 0).len, plain.len);
}

FED_TEST_WITH(while_deltas_cannot_be_unpacked_there_is_a_snapshot, fixture *f) {
    const int64_t rest_ms = SIZE / FEDSERVER_MADE_VALUES;
    use_codec(f, "3lc:s=1.75+entropy");
    advance_to(f, 9);
    f->no_stages = true;
    assert_int_equal(ask(f, 8, 9, false, 0).first.kind, FED_PART_DELTA);
    assert_int_equal(ask(f, 7, 9, false, rest_ms - 1).first.kind, FED_PART_SNAPSHOT);
    assert_int_equal(ask(f, 7, 9, false, rest_ms).first.kind, FED_PART_DELTA);
}

/* A device refuses a download that is longer than the values. */
FED_TEST_WITH(a_chain_that_grows_longer_than_a_snapshot_is_not_sent, fixture *f) {
    use_codec(f, "3lc:s=1.9+entropy");
    uint32_t have = oldest(f);
    f->no_stages = true;
    for (int64_t now_ms = 0; have < VERSIONS; have++, now_ms += FEDSERVER_PATCH_MS) {
        assert_true(ask(f, have, VERSIONS, false, now_ms).len <= f->versions.snapshot_limit + 32);
    }
    assert_int_equal(ask(f, f->versions.oldest, VERSIONS, false, 0).first.kind, FED_PART_SNAPSHOT);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
