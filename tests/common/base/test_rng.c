/* The random number generator: published outputs, separate streams, and uniform numbers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "fed/rng.h"

/* The known-answer tests that the authors publish with their reference implementation. */
FED_TEST(test_philox_gives_the_known_answers) {
    static const struct {
        uint32_t counter[4], key[2], block[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        fed_rng rng = {.used = 4};
        memcpy(rng.counter, known[i].counter, sizeof rng.counter);
        memcpy(rng.key, known[i].key, sizeof rng.key);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(fed_rng_u32(&rng), known[i].block[k]);
        }
    }
}

FED_TEST(test_a_stream_is_named_by_seed_a_and_b) {
    fed_rng rng;
    fed_rng_init(&rng, 0x299f31d0a4093822, 0x13198a2e, 0x03707344);
    assert_int_equal(rng.key[0], 0xa4093822);
    assert_int_equal(rng.key[1], 0x299f31d0);
    rng.counter[0] = 0x243f6a88;
    rng.counter[1] = 0x85a308d3;
    assert_int_equal(fed_rng_u32(&rng), 0xd16cfe09);
    assert_true(fed_rng_u64(&rng) == 0x5001e42094fdcceb); /* the first 32 bits are the low half */
}

FED_TEST(test_the_block_counter_carries) {
    fed_rng rng;
    fed_rng_init(&rng, 0, 1, 2);
    rng.counter[0] = UINT32_MAX;
    (void)fed_rng_u32(&rng);
    assert_int_equal(rng.counter[0], 0);
    assert_int_equal(rng.counter[1], 1);
    assert_int_equal(rng.counter[2], 1);
}

FED_TEST(test_streams_do_not_repeat_each_other) {
    enum { STREAMS = 64 };
    uint64_t first[STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++) {
        fed_rng rng;
        fed_rng_init(&rng, i >> 4, i & 3, i >> 2 & 3);
        first[i] = fed_rng_u64(&rng);
        for (uint32_t k = 0; k < i; k++) {
            assert_true(first[k] != first[i]);
        }
    }
}

FED_TEST(test_below_stays_below_and_favours_nobody) {
    enum { SIDES = 6, DRAWS = 60000 };
    fed_rng rng;
    fed_rng_init(&rng, 7, 0, 0);
    int count[SIDES] = {0};
    for (int i = 0; i < DRAWS; i++) {
        uint32_t side = fed_rng_below(&rng, SIDES);
        assert_in_range(side, 0, SIDES - 1);
        count[side]++;
    }
    for (int i = 0; i < SIDES; i++) {
        assert_in_range(count[i], 9500, 10500); /* the seed is fixed */
    }
    assert_int_equal(fed_rng_below(&rng, 1), 0);
    /* A limit just above 2^31: nearly half of all 32-bit numbers are rejected, the worst case. */
    for (int i = 0; i < 1000; i++) {
        assert_in_range(fed_rng_below(&rng, 0x80000001), 0, 0x80000000);
    }
}

FED_TEST(test_floats_are_multiples_of_2_to_the_minus_24_under_one) {
    fed_rng rng;
    fed_rng_init(&rng, 1, 2, 3);
    double sum = 0;
    for (int i = 0; i < 10000; i++) {
        float u = fed_rng_float(&rng);
        assert_true(u >= 0.0f && u < 1.0f);
        double scaled = (double)u * 16777216.0;
        assert_true(scaled == (double)(uint32_t)scaled);
        sum += (double)u;
    }
    assert_true(sum > 4900 && sum < 5100);
}

FED_TEST(test_shuffle_permutes_and_repeats_itself) {
    enum { N = 1000 };
    uint32_t a[N], b[N];
    uint8_t seen[N] = {0};
    for (uint32_t i = 0; i < N; i++) {
        a[i] = b[i] = i;
    }
    fed_rng rng;
    fed_rng_init(&rng, 5, 6, 7);
    fed_rng_shuffle(&rng, a, N);
    fed_rng_init(&rng, 5, 6, 7);
    fed_rng_shuffle(&rng, b, N);
    assert_memory_equal(a, b, sizeof a);
    int moved = 0;
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(seen[a[i]]++, 0);
        moved += a[i] != i;
    }
    assert_true(moved > 900);
    fed_rng_shuffle(&rng, NULL, 0);
}

FED_TEST(many_at_once_are_the_same_numbers) {
    static const size_t lengths[] = {0, 1, 3, 4, 31, 32, 33, 64, 100, 1000};
    for (unsigned first = 0; first < 12; first++) {
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
            uint32_t filled[1000];
            fed_rng one, many;
            fed_rng_init(&one, 5, 6, 7);
            one.counter[0] = first % 2 ? UINT32_MAX - first : 0;
            for (unsigned i = 0; i < first; i++) {
                (void)fed_rng_u32(&one);
            }
            many = one;
            fed_rng_fill(&many, filled, lengths[k]);
            for (size_t i = 0; i < lengths[k]; i++) {
                assert_int_equal(filled[i], fed_rng_u32(&one));
            }
            assert_int_equal(fed_rng_u32(&many), fed_rng_u32(&one));
        }
    }
}
