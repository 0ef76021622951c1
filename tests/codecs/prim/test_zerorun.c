/* Zero-run encoding: bytes, lengths, and the one form that is accepted. */
#include "fed_test.h"

#include <stdbool.h>

#include "codecs/prim/zerorun.h"
#include "fed/rng.h"

/* src of `zeros` bytes 121 between two others. */
static size_t pack_run(size_t zeros, uint8_t *dst) {
    uint8_t src[600];
    memset(src, 121, sizeof src);
    src[0] = 5;
    src[zeros + 1] = 6;
    return fedcodec_zerorun_pack(src, zeros + 2, dst);
}

static void runs_take_the_papers_bytes(void **state) {
    (void)state;
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

static size_t unpack(const uint8_t *src, size_t len, uint8_t *dst) {
    size_t made = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned run = fedcodec_zerorun_len(src[i]);
        memset(dst + made, run > 0 ? 121 : src[i], run > 0 ? run : 1);
        made += run > 0 ? run : 1;
    }
    return made;
}

static void any_bytes_come_back_and_in_place_works_too(void **state) {
    (void)state;
    fed_rng rng;
    fed_rng_init(&rng, 5, 0, 0);
    for (int round = 0; round < 3000; round++) {
        uint8_t src[700], packed[700], back[700];
        size_t len = fed_rng_below(&rng, 700);
        uint32_t rarity = 1 + fed_rng_below(&rng, 60);
        bool others = false;
        for (size_t i = 0; i < len; i++) {
            src[i] = fed_rng_below(&rng, rarity) == 0 ? (uint8_t)fed_rng_below(&rng, 243) : 121;
            others |= src[i] != 121;
        }
        size_t n = fedcodec_zerorun_pack(src, len, packed);
        assert_true(n <= len);
        assert_int_equal(unpack(packed, n, back), len);
        assert_memory_equal(back, src, len);
        assert_fed_status(fedcodec_zerorun_check(packed, n, len), others ? FED_OK : FED_EFORMAT);
        assert_int_equal(fedcodec_zerorun_pack(src, len, src), n);
        assert_memory_equal(src, packed, n);
    }
}

#define assert_refused(text, unpacked)                                                             \
    assert_fed_status(fedcodec_zerorun_check((const uint8_t *)(text), sizeof(text) - 1, unpacked), \
                      FED_EFORMAT)

static void other_forms_of_a_run_are_refused(void **state) {
    (void)state;
    assert_fed_ok(fedcodec_zerorun_check((const uint8_t *)"\x05\xff\x79", 3, 16));
    assert_refused("\x05\x79\x79", 3);  /* two single zeros: f3 */
    assert_refused("\x05\x79\xff", 16); /* the full run comes first */
    assert_refused("\x05\xf3\xf3", 5);  /* f5 */
    assert_refused("\x05\xf3\x79", 4);  /* f4 */
}

static void a_wrong_length_is_refused(void **state) {
    (void)state;
    assert_refused("\x05\xff", 14);
    assert_refused("\x05\xff", 16);
    assert_refused("", 1);
    assert_refused("\x05", 0);
}

static void nothing_but_zeros_is_refused(void **state) {
    (void)state;
    assert_refused("\xff", 14);
    assert_refused("", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_take_the_papers_bytes),
        cmocka_unit_test(any_bytes_come_back_and_in_place_works_too),
        cmocka_unit_test(other_forms_of_a_run_are_refused),
        cmocka_unit_test(a_wrong_length_is_refused),
        cmocka_unit_test(nothing_but_zeros_is_refused),
    };
    return cmocka_run_group_tests_name("zero runs", tests, NULL, NULL);
}
