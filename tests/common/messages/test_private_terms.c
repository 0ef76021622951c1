/* Terms have one text and one digest, and a sealed seed opens for its round, device and lease. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/private_terms.h"

enum { LEASE = 77 };

typedef struct world {
    fed_private_terms terms;
    fed_pem key;
    uint8_t secrets[FED_HELPERS][FED_POINT_SECRET];
    uint8_t seeds[FED_HELPERS][FED_SEED];
    fed_private sent;
    fed_error err;
} world;

static world start(unsigned helpers) {
    world w = {.terms = {.task = 3,
                         .round = 9,
                         .codec_up = "ring:b=5",
                         .width = 14,
                         .fields = 128,
                         .sent = 100}};
    w.terms.privacy = (fed_privacy){.clip = 0.5F,
                                    .minimum = 20,
                                    .goal = 30,
                                    .cohort = 39,
                                    .apart = 1,
                                    .helpers = (uint8_t)helpers,
                                    .generation = 5};
    memset(w.terms.model, 1, sizeof w.terms.model);
    memset(w.terms.layout, 2, sizeof w.terms.layout);
    fed_privacy_draw(3, 9, w.terms.draw);
    for (unsigned k = 0; k < helpers; k++) {
        assert_fed_ok(fed_point_new(w.secrets[k], w.terms.privacy.helper_key[k], &w.err));
    }
    assert_fed_ok(fed_key_new(&w.key, &w.err));
    assert_fed_ok(fed_private_seal(&w.terms, LEASE, &w.key, &w.sent, w.seeds, &w.err));
    return w;
}

FED_TEST(terms_come_back) {
    world w = start(2);
    w.terms.privacy.counted = true;
    fed_private_terms got;
    fed_writer text;
    fed_reader r;
    fed_writer_growing(&text);
    fed_private_terms_write(&text, &w.terms);
    fed_reader_init(&r, text.data, text.len);
    assert_fed_ok(fed_private_terms_read(&r, &got));
    assert_fed_ok(fed_reader_end(&r));
    assert_true(got.privacy.counted && got.privacy.helpers == 2);
    assert_int_equal(fed_private_fields(&got), w.terms.fields + 1);
    uint8_t before[FED_SHA256_SIZE], after[FED_SHA256_SIZE];
    fed_private_terms_digest(&w.terms, before);
    fed_private_terms_digest(&got, after);
    assert_memory_equal(before, after, sizeof before);
    for (size_t len = 0; len < text.len; len++) { /* cut anywhere, it is refused */
        fed_reader_init(&r, text.data, len);
        assert_fed_status(fed_private_terms_read(&r, &got), FED_EFORMAT);
    }
    fed_writer_free(&text);
}

/* Each fact of the round is in the digest. */
FED_TEST(other_terms_have_another_digest) {
    const world w = start(1);
    uint8_t digest[FED_SHA256_SIZE], other[FED_SHA256_SIZE];
    fed_private_terms_digest(&w.terms, digest);
    for (unsigned k = 0; k < 19; k++) {
        fed_private_terms t = w.terms;
        fed_privacy *p = &t.privacy;
        t.task += k == 0;
        t.round += k == 1;
        t.model[31] ^= k == 2;
        t.layout[31] ^= k == 3;
        t.codec_up[7] = k == 4 ? '4' : t.codec_up[7];
        t.width += k == 5;
        t.fields += k == 6 ? 64 : 0;
        t.draw[31] ^= k == 7;
        p->clip += k == 8 ? 0.5F : 0;
        p->minimum += k == 9;
        p->goal += k == 10;
        p->cohort += k == 11;
        p->sigma2 += k == 12 ? 1.5 : 0;
        p->epsilon += k == 13 ? 1 : 0;
        p->participations += k == 14;
        p->helper_key[0][64] ^= k == 15;
        p->generation += k == 16;
        t.sent += k == 17;
        p->counted = k == 18;
        fed_private_terms_digest(&t, other);
        assert_memory_not_equal(digest, other, sizeof digest);
    }
}

/* Which values are summed: the model, and which of its layers stay. */
FED_TEST(a_layout_is_the_model_and_the_private_layers) {
    static const char model[] = "input 8 | dense 4 | dense 3";
    uint8_t plain[FED_SHA256_SIZE], head[FED_SHA256_SIZE], first[FED_SHA256_SIZE];
    uint8_t expected[FED_SHA256_SIZE];
    fed_private_terms_layout(model, "", plain);
    fed_private_terms_layout(model, "head", head);
    fed_private_terms_layout(model, "1", first);
    fed_sha256(model, sizeof model - 1, expected);
    assert_memory_equal(plain, expected, sizeof plain);
    fed_sha256("input 8 | dense 4 | dense 3\nhead", sizeof model - 1 + 5, expected);
    assert_memory_equal(head, expected, sizeof head);
    assert_memory_not_equal(head, first, sizeof head);
}

FED_TEST(each_helper_opens_its_own_seed) {
    world w = start(2);
    uint8_t seed[FED_SEED];
    assert_fed_ok(fed_private_check(&w.sent, LEASE, &w.err));
    for (unsigned k = 0; k < 2; k++) {
        assert_fed_ok(fed_private_open(&w.sent, k, LEASE, w.secrets[k], seed, &w.err));
        assert_memory_equal(seed, w.seeds[k], sizeof seed);
        assert_fed_status(fed_private_open(&w.sent, k, LEASE, w.secrets[1 - k], seed, &w.err),
                          FED_EAUTH);
    }
    assert_memory_not_equal(w.seeds[0], w.seeds[1], FED_SEED);
}

FED_TEST(a_seed_is_of_one_lease_device_and_round) {
    world w = start(1), other = start(1);
    uint8_t seed[FED_SEED];
    assert_fed_status(fed_private_check(&w.sent, LEASE + 1, &w.err), FED_EAUTH);
    assert_fed_status(fed_private_open(&w.sent, 0, LEASE + 1, w.secrets[0], seed, &w.err),
                      FED_EAUTH);
    fed_private claimed = w.sent;
    memcpy(claimed.point, other.sent.point, sizeof claimed.point);
    assert_fed_status(fed_private_check(&claimed, LEASE, &w.err), FED_EAUTH);
    assert_fed_status(fed_private_open(&claimed, 0, LEASE, w.secrets[0], seed, &w.err), FED_EAUTH);
    w.sent.terms[0] ^= 1;
    assert_fed_status(fed_private_check(&w.sent, LEASE, &w.err), FED_EAUTH);
    assert_fed_status(fed_private_open(&w.sent, 0, LEASE, w.secrets[0], seed, &w.err), FED_EAUTH);
}

FED_TEST(each_seal_draws_another_seed) {
    world w = start(1);
    uint8_t seeds[FED_HELPERS][FED_SEED];
    assert_fed_ok(fed_private_seal(&w.terms, LEASE, &w.key, &w.sent, seeds, &w.err));
    assert_memory_not_equal(seeds[0], w.seeds[0], FED_SEED);
}

FED_TEST(what_is_sealed_travels_and_other_bytes_are_refused) {
    const world w = start(2);
    uint8_t bytes[512];
    fed_private got;
    fed_writer text;
    fed_reader r;
    fed_writer_fixed(&text, bytes, sizeof bytes);
    fed_private_write(&text, &w.sent);
    assert_int_equal(text.len, fed_private_bytes(2));
    assert_int_equal(fed_private_bytes(1), 275);
    fed_reader_init(&r, bytes, text.len);
    assert_fed_ok(fed_private_read(&r, &got));
    assert_memory_equal(&got, &w.sent, sizeof got);
    for (size_t len = 0; len < text.len; len++) {
        fed_reader_init(&r, bytes, len);
        assert_fed_status(fed_private_read(&r, &got), FED_EFORMAT);
    }
    bytes[0] = 0;
    fed_reader_init(&r, bytes, text.len);
    assert_fed_status(fed_private_read(&r, &got), FED_EFORMAT);
    bytes[0] = FED_HELPERS + 1;
    fed_reader_init(&r, bytes, text.len);
    assert_fed_status(fed_private_read(&r, &got), FED_EFORMAT);
}
