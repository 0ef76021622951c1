/* Write and read the payload of compressed segments. The format is in docs/nic-format.md. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/nic/packet/form.h"

#include <string.h>

#include "fedclient/datacenter/nic/packet/headers.h"
#include "fedcodec/bursts.h"

/* A compressed payload's head: u16 length, u8 lead, and 0. A float has 4 bytes. */
enum { HEAD = 4, FLOAT = 4 };

size_t fednic_form_lead(uint32_t at, size_t len) {
    size_t lead = (0u - at) % FLOAT;
    return lead < len ? lead : len;
}

size_t fednic_form_write(int e, const uint8_t *plain, size_t len, size_t lead, size_t limit,
                         uint8_t *dst, size_t *taken) {
    const size_t n = (len - lead) / FLOAT, tail = (len - lead) % FLOAT;
    const size_t around = HEAD + lead + tail;
    if (limit <= around) {
        return 0;
    }
    size_t bytes = 0;
    size_t fitted =
        fedcodec_bursts_encode(e, plain + lead, n, dst + HEAD + lead, limit - around, &bytes);
    *taken = lead + FLOAT * fitted;
    size_t end = HEAD + lead + bytes;
    if (fitted == n) {
        memcpy(dst + end, plain + *taken, tail);
        *taken += tail;
        end += tail;
    }
    fednic_put16(dst, (uint16_t)*taken);
    dst[2] = (uint8_t)lead;
    dst[3] = 0;
    memcpy(dst + HEAD, plain, lead);
    return end;
}

size_t fednic_form_read(const uint8_t *src, size_t len, uint8_t *plain) {
    if (len < HEAD || src[2] >= FLOAT || src[3] != 0) {
        return 0;
    }
    const size_t plain_len = fednic_get16(src), lead = src[2];
    if (plain_len <= len || plain_len < lead) {
        return 0;
    }
    const size_t n = (plain_len - lead) / FLOAT, tail = (plain_len - lead) % FLOAT;
    if (len < HEAD + lead + tail) {
        return 0;
    }
    const size_t bytes = len - HEAD - lead - tail;
    if (fedcodec_bursts_decode(src + HEAD + lead, bytes, plain + lead, n) != FED_OK) {
        return 0;
    }
    memcpy(plain, src + HEAD, lead);
    memcpy(plain + lead + FLOAT * n, src + len - tail, tail);
    return plain_len;
}

bool fednic_form_round(int e, const uint8_t *plain, size_t len, size_t lead, float *floats,
                       uint8_t *dst) {
    const size_t n = (len - lead) / FLOAT;
    memcpy(dst, plain, len);
    memcpy(floats, plain + lead, FLOAT * n);
    fedcodec_bursts_round(e, floats, floats, n);
    memcpy(dst + lead, floats, FLOAT * n);
    return memcmp(dst, plain, len) != 0;
}
