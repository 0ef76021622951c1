/* Convert between inceptionn's two forms: a tag plane and a payload plane in memory, and bursts of
 * eight values for a network card.
 * Format: docs/codec-formats.md#bursts   Paper: INCEPTIONN, section VI-A */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedcodec/bursts.h"

#include <string.h>

#include "codecs/prim/tags.h"
#include "codecs/registry.h"

/* A burst's tags are two bytes of the tag plane; the last burst may need only one byte. */
enum { BURST = FEDCODEC_BURST, TAGS = FEDCODEC_BURST_TAGS, BURST_BYTES = 4 * BURST };

size_t fedcodec_bursts_bound(size_t n) {
    return TAGS * fedcodec_bursts(n) + 4 * n;
}

static fed_status check(const uint8_t *src, size_t len, size_t n) {
    FED_REQUIRE(n <= UINT32_MAX, FED_EFORMAT);
    const fedcodec_vtable *codec = fedcodec_by_id(FEDCODEC_ID_inceptionn);
    FED_REQUIRE(codec != NULL, FED_ENOTFOUND);
    float max_abs;
    return codec->check(src, len, n, &max_abs);
}

/* Copy the bytes of a burst's values. If there is room, copy a fixed number, which is faster. */
static void copy_payload(uint8_t *dst, const uint8_t *src, size_t bytes, bool room) {
    if (room) {
        memcpy(dst, src, BURST_BYTES);
    } else {
        memcpy(dst, src, bytes);
    }
}

fed_status fedcodec_bursts_pack(const uint8_t *src, size_t len, size_t n, uint8_t *dst, size_t cap,
                                size_t *dst_len) {
    FED_TRY(check(src, len, n));
    size_t packed = TAGS * fedcodec_bursts(n) + len - fedcodec_tags_len(n);
    FED_REQUIRE(cap >= packed, FED_ENOSPC);
    const uint8_t *end = dst + packed;
    fedcodec_tags_reader r;
    fedcodec_tags_start(&r, src, len, n);
    for (size_t i = 0; i < n; i += BURST) {
        dst[0] = *r.tags++;
        dst[1] = n - i > FEDCODEC_TAGS ? *r.tags++ : 0;
        size_t bytes = fedcodec_burst_len(dst) - TAGS;
        fedcodec_tags_ahead(&r);
        dst += TAGS;
        copy_payload(dst, r.at, bytes, (size_t)(end - dst) >= BURST_BYTES);
        dst += bytes;
        r.at += bytes;
    }
    *dst_len = packed;
    return FED_OK;
}

static const fedcodec_burst_coder *coder(void) {
    const fedcodec_vtable *codec = fedcodec_by_id(FEDCODEC_ID_inceptionn);
    return codec != NULL ? codec->bursts : NULL;
}

size_t fedcodec_bursts_encode(int e, const void *x, size_t n, uint8_t *dst, size_t cap,
                              size_t *len) {
    *len = 0;
    return coder() != NULL ? coder()->encode(e, x, n, dst, cap, len) : 0;
}

fed_status fedcodec_bursts_decode(const uint8_t *src, size_t len, void *x, size_t n) {
    FED_REQUIRE(coder() != NULL, FED_ENOTFOUND);
    return coder()->decode(src, len, x, n);
}

void fedcodec_bursts_round(int e, const float *x, float *y, size_t n) {
    if (coder() != NULL) {
        coder()->round(e, x, y, n);
    } else if (n > 0) {
        memmove(y, x, n * sizeof *x);
    }
}

fed_status fedcodec_bursts_unpack(const uint8_t *src, size_t len, size_t n, uint8_t *dst,
                                  size_t cap, size_t *dst_len) {
    FED_REQUIRE(len / TAGS >= fedcodec_bursts(n) && len <= fedcodec_bursts_bound(n), FED_EFORMAT);
    size_t planes = len - TAGS * fedcodec_bursts(n) + fedcodec_tags_len(n);
    FED_REQUIRE(cap >= planes, FED_ENOSPC);
    const uint8_t *end = src + len;
    uint8_t *tags = dst, *payload = dst + fedcodec_tags_len(n), *payload_end = dst + planes;
    for (size_t i = 0; i < n; i += BURST) {
        FED_REQUIRE((size_t)(end - src) >= TAGS, FED_EFORMAT);
        size_t values = n - i < BURST ? n - i : BURST;
        /* The last burst may need only one of its two tag bytes. The other byte must then be 0,
         * which is checked below. */
        size_t bytes = fedcodec_burst_len(src) - TAGS, left = (size_t)(end - src) - TAGS;
        size_t room = (size_t)(payload_end - payload);
        FED_REQUIRE(left >= bytes && room >= bytes, FED_EFORMAT);
        FED_REQUIRE(values > FEDCODEC_TAGS || src[1] == 0, FED_EFORMAT);
        tags[0] = src[0];
        if (values > FEDCODEC_TAGS) {
            tags[1] = src[1];
        }
        copy_payload(payload, src + TAGS, bytes, left >= BURST_BYTES && room >= BURST_BYTES);
        tags += TAGS;
        payload += bytes;
        src += TAGS + bytes;
    }
    FED_REQUIRE(src == end, FED_EFORMAT);
    FED_TRY(check(dst, planes, n));
    *dst_len = planes;
    return FED_OK;
}
