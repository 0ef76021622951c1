/* Zero-run encoding: find the bytes that are not 121 first, then write each with the run before it.
 */
#include "codecs/prim/zerorun.h"

#include <stdbool.h>
#include <string.h>

enum { ZERO = 121, BLOCK = 256 };

/* The bytes that stand for a run of 0 to 14; a run of 0 is none at all. */
static uint8_t run_byte(size_t run) {
    return (uint8_t)(run == 1 ? ZERO : 241 + run);
}

static uint8_t *put_run(uint8_t *out, size_t run) {
    for (; run >= FEDCODEC_ZERORUN_MAX; run -= FEDCODEC_ZERORUN_MAX) {
        *out++ = run_byte(FEDCODEC_ZERORUN_MAX);
    }
    *out = run_byte(run);
    return out + (run > 0);
}

/* Where the bytes other than ZERO are in src[len], len <= BLOCK: no branch depends on them, but for
 * skipping eight zeros at once. */
static size_t find_others(const uint8_t *src, size_t len, uint8_t *where) {
    static const uint8_t zeros[8] = {ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO, ZERO};
    size_t count = 0, i = 0;
    for (; i + 8 <= len; i += 8) {
        if (memcmp(src + i, zeros, 8) == 0) {
            continue;
        }
        for (size_t j = i; j < i + 8; j++) {
            where[count] = (uint8_t)j;
            count += src[j] != ZERO;
        }
    }
    for (; i < len; i++) {
        where[count] = (uint8_t)i;
        count += src[i] != ZERO;
    }
    return count;
}

size_t fedcodec_zerorun_pack(const uint8_t *src, size_t len, uint8_t *dst) {
    uint8_t where[BLOCK + 1];
    uint8_t *out = dst;
    size_t next = 0; /* everything before it is written */
    for (size_t start = 0; start < len; start += BLOCK) {
        size_t count = find_others(src + start, len - start < BLOCK ? len - start : BLOCK, where);
        for (size_t k = 0; k < count; k++) {
            size_t at = start + where[k];
            uint8_t byte = src[at]; /* read first: dst may be src, and `out` may be `at` */
            out = put_run(out, at - next);
            *out++ = byte;
            next = at + 1;
        }
    }
    if (next < len) {
        out = put_run(out, len - next);
    }
    return (size_t)(out - dst);
}

fed_status fedcodec_zerorun_check(const uint8_t *src, size_t len, size_t unpacked) {
    size_t made = 0;
    bool others = false;
    bool open = true; /* may a run come next? not behind one of less than the maximum */
    for (size_t i = 0; i < len; i++) {
        unsigned run = fedcodec_zerorun_len(src[i]);
        FED_REQUIRE(open || run == 0, FED_EFORMAT);
        open = run == 0 || run == FEDCODEC_ZERORUN_MAX;
        others |= run == 0;
        made += run > 0 ? run : 1;
    }
    FED_REQUIRE(made == unpacked && others, FED_EFORMAT);
    return FED_OK;
}
