/* The second stage "zstd": bytes come back exactly, and a frame must say its size. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include "codecs/stage.h"

enum { LEN = 1000, CAP = 2000 };

static const fedcodec_stage *zstd(void) {
    return fedcodec_stage_by_id(2);
}

static size_t pack(uint8_t *packed) {
    uint8_t plain[LEN];
    for (size_t i = 0; i < LEN; i++) {
        plain[i] = (uint8_t)(i % 7 * (i % 11));
    }
    size_t len = zstd()->pack(plain, LEN, packed, CAP);
    assert_in_range(len, 1, LEN / 2);
    uint8_t back[LEN];
    assert_fed_ok(zstd()->unpack(packed, len, back, LEN));
    assert_memory_equal(back, plain, LEN);
    return len;
}

static fed_status unpack(const uint8_t *packed, size_t len, size_t plain_len) {
    uint8_t *copy = malloc(len + (len == 0)), *dst = malloc(plain_len + (plain_len == 0));
    assert_true(copy != NULL && dst != NULL);
    memcpy(copy, packed, len);
    fed_status status = zstd()->unpack(copy, len, dst, plain_len);
    free(copy);
    free(dst);
    return status;
}

FED_TEST(bytes_come_back) {
    uint8_t packed[CAP];
    pack(packed);
}

FED_TEST(what_does_not_fit_is_not_packed) {
    uint8_t packed[CAP];
    size_t len = pack(packed);
    assert_int_equal(zstd()->pack(packed, len, packed + len, 10), 0);
}

FED_TEST(another_size_than_promised_is_refused) {
    uint8_t packed[CAP];
    size_t len = pack(packed);
    assert_fed_status(unpack(packed, len, LEN - 1), FED_EFORMAT);
    assert_fed_status(unpack(packed, len, LEN + 1), FED_EFORMAT);
    assert_fed_status(unpack(packed, len, 1), FED_EFORMAT);
}

FED_TEST(a_cut_frame_or_a_second_one_is_refused) {
    uint8_t packed[CAP];
    size_t len = pack(packed);
    for (size_t cut = 0; cut < len; cut++) {
        assert_fed_status(unpack(packed, cut, LEN), FED_EFORMAT);
    }
    memcpy(packed + len, packed, len);
    assert_fed_status(unpack(packed, 2 * len, LEN), FED_EFORMAT);
    assert_fed_status(unpack(packed, 2 * len, 2 * LEN), FED_EFORMAT);
    assert_fed_status(unpack((const uint8_t *)"\x50\x2a\x4d\x18\x00\x00\x00\x00", 8, LEN),
                      FED_EFORMAT); /* a skippable frame */
}

/* A frame of 200 zeros in the format of zstd 0.7, which is older than RFC 8878. */
FED_TEST(a_frame_from_before_the_standard_is_refused) {
    static const uint8_t frame[] = {0x27, 0xb5, 0x2f, 0xfd, 0x20, 0xc8, 0x80,
                                    0x00, 0xc8, 0x00, 0xc0, 0x00, 0x00};
    assert_fed_status(unpack(frame, sizeof frame, 200), FED_EFORMAT);
}

FED_TEST(a_flipped_bit_does_no_harm) {
    uint8_t packed[CAP];
    size_t len = pack(packed);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        fed_status status = unpack(packed, len, LEN);
        assert_true(status == FED_OK || status == FED_EFORMAT);
        packed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

int main(void) {
    if (zstd() == NULL) {
        return 77; /* this build is without libzstd */
    }
    return fed_cases_run(NULL, NULL);
}
