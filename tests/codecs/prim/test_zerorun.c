/* Zero-run encoding: its bytes, its lengths, and that only one form of a run is accepted. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <stdbool.h>

#include "codecs/prim/zerorun.h"
#include "fed/rng.h"

static size_t pack(const uint8_t *src, size_t len, uint8_t *dst) {
    fedcodec_zerorun z = fedcodec_zerorun_front(dst);
    fedcodec_zerorun_push(&z, src, len);
    return (size_t)(fedcodec_zerorun_end(&z) - dst);
}

/* Pack `zeros` bytes of 121 between two other bytes. */
static size_t pack_run(size_t zeros, uint8_t *dst) {
    uint8_t src[600];
    memset(src, 121, sizeof src);
    src[0] = 5;
    src[zeros + 1] = 6;
    return pack(src, zeros + 2, dst);
}

FED_TEST(runs_take_the_papers_bytes) {
    uint8_t dst[600];
    assert_int_equal(pack_run(0, dst), 2);
    assert_memory_equal(dst, "\x05\x06", 2);
    assert_int_equal(pack_run(1, dst), 3);
    assert_memory_equal(dst, "\x05\x79\x06", 3);
    assert_int_equal(pack_run(2, dst), 3);
    assert_memory_equal(dst, "\x05\xf3\x06", 3);
    assert_int_equal(pack_run(14, dst), 3);
    assert_memory_equal(dst, "\x05\xff\x06", 3);
    assert_int_equal(pack_run(15, dst), 4);
    assert_memory_equal(dst, "\x05\xff\x79\x06", 4);
    assert_int_equal(pack_run(30, dst), 5);
    assert_memory_equal(dst, "\x05\xff\xff\xf3\x06", 5);
    assert_int_equal(pack_run(560, dst), 42);
}

FED_TEST(any_bytes_come_back) {
    fed_rng rng;
    fed_rng_init(&rng, 5, 0, 0);
    for (int round = 0; round < 3000; round++) {
        uint8_t src[700], packed[700], back[700 + FEDCODEC_ZERORUN_ROOM];
        size_t len = fed_rng_below(&rng, 700);
        uint32_t rarity = 1 + fed_rng_below(&rng, 60);
        bool others = false;
        for (size_t i = 0; i < len; i++) {
            src[i] = fed_rng_below(&rng, rarity) == 0 ? (uint8_t)fed_rng_below(&rng, 243) : 121;
            others |= src[i] != 121;
        }
        size_t n = pack(src, len, packed);
        assert_true(n <= len);
        assert_int_equal(fedcodec_zerorun_sum(packed, n), len);
        assert_int_equal(fedcodec_zerorun_unpack(packed, n, back), len);
        assert_memory_equal(back, src, len);
        assert_fed_status(fedcodec_zerorun_check(packed, n, len), others ? FED_OK : FED_EFORMAT);
    }
}

FED_TEST(what_is_not_zero_is_found_where_it_is) {
    fed_rng rng;
    fed_rng_init(&rng, 8, 0, 0);
    for (uint32_t round = 0; round < 3000; round++) {
        uint8_t src[3000] = {0}, packed[3000], found[3000];
        uint32_t at[3000];
        size_t len = fed_rng_below(&rng, sizeof src), next = 0;
        for (size_t i = 0; i < len; i++) {
            bool other = fed_rng_below(&rng, 1 + round % 300) == 0;
            src[i] = other ? (uint8_t)fed_rng_below(&rng, 243) : 121;
        }
        size_t count = fedcodec_zerorun_find(packed, pack(src, len, packed), found, at);
        for (size_t i = 0; i < len; i++) {
            if (src[i] != 121) {
                assert_true(next < count && at[next] == i && found[next] == src[i]);
                next++;
            }
        }
        assert_int_equal(next, count);
    }
}

static void fill(uint8_t *src, size_t len, uint32_t rarity, fed_rng *rng) {
    size_t from = fed_rng_below(rng, 800), to = from + fed_rng_below(rng, 400);
    for (size_t i = 0; i < len; i++) {
        bool other = fed_rng_below(rng, rarity) == 0 && !(i >= from && i < to);
        src[i] = other ? (uint8_t)fed_rng_below(rng, 243) : 121;
    }
}

/* Pack byte by byte, as docs/codec-formats.md says. */
static size_t pack_slowly(const uint8_t *src, size_t len, uint8_t *dst) {
    size_t made = 0, run = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && src[i] == 121) {
            run++;
            continue;
        }
        for (; run > 0; run -= run < 14 ? run : 14) {
            dst[made++] = (uint8_t)(run == 1 ? 121 : run < 14 ? 241 + run : 255);
        }
        if (i < len) {
            dst[made++] = src[i];
        }
    }
    return made;
}

FED_TEST(pushed_in_any_steps_the_bytes_are_the_same) {
    fed_rng rng;
    fed_rng_init(&rng, 6, 0, 0);
    for (uint32_t round = 0; round < 3000; round++) {
        uint8_t src[1000], packed[1000], expected[1000];
        fill(src, sizeof src, 1 + round % 90, &rng);
        size_t n = pack_slowly(src, sizeof src, expected);
        memset(packed + n, 0xa5, sizeof packed - n);
        fedcodec_zerorun z = fedcodec_zerorun_front(packed);
        for (size_t at = 0, step; at < sizeof src; at += step) {
            step = 1 + fed_rng_below(&rng, 1 + round % 300);
            step = step < sizeof src - at ? step : sizeof src - at;
            fedcodec_zerorun_push(&z, src + at, step);
        }
        assert_int_equal(fedcodec_zerorun_end(&z) - packed, n);
        assert_memory_equal(packed, expected, n);
    }
}

FED_TEST(joined_pieces_are_one_message) {
    fed_rng rng;
    fed_rng_init(&rng, 7, 0, 0);
    for (uint32_t round = 0; round < 3000; round++) {
        uint8_t src[1000], packed[1000], expected[1000];
        fill(src, sizeof src, 1 + round % 90, &rng);
        size_t n = pack_slowly(src, sizeof src, expected);
        fedcodec_zerorun front = fedcodec_zerorun_front(packed), piece[8];
        size_t cut[9] = {0, 1, 2, 100, 164, 165, 500, 900, sizeof src};
        cut[3] = 2 + fed_rng_below(&rng, 99);
        cut[6] = 165 + fed_rng_below(&rng, 600);
        for (size_t k = 0; k < 8; k++) {
            piece[k] = fedcodec_zerorun_piece(packed + cut[k]);
            fedcodec_zerorun *z = k == 0 ? &front : &piece[k];
            fedcodec_zerorun_push(z, src + cut[k], cut[k + 1] - cut[k]);
        }
        for (size_t k = 1; k < 8; k++) {
            fedcodec_zerorun_join(&front, &piece[k]);
        }
        assert_int_equal(fedcodec_zerorun_end(&front) - packed, n);
        assert_memory_equal(packed, expected, n);
    }
}

#define assert_refused(text, unpacked)                                                             \
    assert_fed_status(fedcodec_zerorun_check((const uint8_t *)(text), sizeof(text) - 1, unpacked), \
                      FED_EFORMAT)

FED_TEST(other_forms_of_a_run_are_refused) {
    assert_fed_ok(fedcodec_zerorun_check((const uint8_t *)"\x05\xff\x79", 3, 16));
    assert_refused("\x05\x79\x79", 3);  /* two single zeros; the right form is f3 */
    assert_refused("\x05\x79\xff", 16); /* a full run must come first */
    assert_refused("\x05\xf3\xf3", 5);  /* two runs; the right form is f5 */
    assert_refused("\x05\xf3\x79", 4);  /* a run and a single zero; the right form is f4 */
}

FED_TEST(a_wrong_length_is_refused) {
    assert_refused("\x05\xff", 14);
    assert_refused("\x05\xff", 16);
    assert_refused("", 1);
    assert_refused("\x05", 0);
}

FED_TEST(a_long_message_is_summed_in_full) {
    enum { LEN = 20000 };
    uint8_t src[LEN];
    memset(src, 255, sizeof src);
    src[9000] = 0;
    assert_int_equal(fedcodec_zerorun_sum(src, LEN), (LEN - 1) * 14 + 1);
    assert_fed_ok(fedcodec_zerorun_check(src, LEN, (LEN - 1) * 14 + 1));
    src[LEN - 2] = 254;
    assert_fed_status(fedcodec_zerorun_check(src, LEN, (LEN - 1) * 14), FED_EFORMAT);
}

FED_TEST(nothing_but_zeros_is_refused) {
    assert_refused("\xff", 14);
    assert_refused("", 0);
}
