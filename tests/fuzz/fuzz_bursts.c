/* Fuzz the codec of network cards (fedcodec/bursts.h) with every vector unit of this machine. An
 * input: a byte for e, one for the number of values, one for the bytes that the output lacks; the
 * rest is decoded, and encoded as values. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "codecs/registry.h"
#include "fedcodec/bursts.h"

enum { HEAD = 3, MOST = 255, CAP = MOST * 5 };

static const fedcodec_burst_coder *on_unit(size_t k) {
    const fedcodec_unit *unit = fedcodec_unit_at(k);
    return unit == NULL ? NULL : unit->codecs[FEDCODEC_INDEX_inceptionn]->bursts;
}

/* Every vector unit must encode to the same bytes. Rounding the values must give what decoding
 * gives, and rounding them again must not change them. */
static void take_values(int e, const uint32_t *x, size_t n, size_t missing) {
    uint8_t first[CAP];
    size_t most = 0, first_len = 0;
    require(fedcodec_bursts_encode(e, x, n, first, sizeof first, &most) == n);
    const size_t cap = missing < most ? most - missing : 0;
    const size_t taken = fedcodec_bursts_encode(e, x, n, first, cap, &first_len);
    require(first_len <= cap && (taken == n || (taken < n && taken % 8 == 0)));
    for (size_t k = 0; on_unit(k) != NULL; k++) {
        uint8_t *dst = fuzz_allocate(cap);
        uint32_t *y = fuzz_allocate(4 * taken), *rounded = fuzz_allocate(4 * taken);
        size_t dst_len = 0;
        require(on_unit(k)->encode(e, x, n, dst, cap, &dst_len) == taken);
        require(dst_len == first_len && memcmp(dst, first, dst_len) == 0);
        require(on_unit(k)->decode(dst, dst_len, y, taken) == FED_OK);
        on_unit(k)->round(e, (const float *)x, (float *)rounded, taken);
        require(memcmp(y, rounded, 4 * taken) == 0);
        on_unit(k)->round(e, (const float *)rounded, (float *)rounded, taken);
        require(memcmp(y, rounded, 4 * taken) == 0);
        free(dst);
        free(y);
        free(rounded);
    }
}

static void compare_planes(const uint8_t *src, size_t len, size_t n, const float *y,
                           fed_status status) {
    uint8_t planes[CAP];
    float values[MOST];
    size_t planes_len = 0;
    if (fedcodec_bursts_unpack(src, len, n, planes, sizeof planes, &planes_len) != FED_OK) {
        return;
    }
    require(status == FED_OK);
    const fedcodec_vtable *codec = fedcodec_by_id(FEDCODEC_ID_inceptionn);
    require(fedcodec_decode(codec, planes, planes_len, values, n) == FED_OK);
    for (size_t i = 0; i < n; i++) {
        require(values[i] == y[i]);
    }
}

static void take_bursts(const uint8_t *src, size_t len, size_t n) {
    float first[MOST];
    const fed_status status = fedcodec_bursts_decode(src, len, first, n);
    require(status == FED_OK || status == FED_EFORMAT);
    for (size_t k = 0; on_unit(k) != NULL; k++) {
        uint8_t *copy = fuzz_copy(src, len);
        float *y = fuzz_allocate(4 * n);
        require(on_unit(k)->decode(copy, len, y, n) == status);
        require(status != FED_OK || memcmp(y, first, 4 * n) == 0);
        free(copy);
        free(y);
    }
    compare_planes(src, len, n, first, status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    if (len < HEAD) {
        return 0;
    }
    uint32_t x[MOST];
    const size_t values = (len - HEAD) / 4 < MOST ? (len - HEAD) / 4 : MOST;
    memcpy(x, data + HEAD, 4 * values);
    take_bursts(data + HEAD, len - HEAD, data[1]);
    take_values(1 + data[0] % 15, x, values, data[2]);
    return 0;
}
