/* Messages that GPUs leave to the processor: FED_EVERSION is the right status for them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_PROCESSOR_ONLY_H
#define FED_TEST_PROCESSOR_ONLY_H

#include <string.h>

#include "codecs/eden/few.h"
#include "codecs/prim/bitmap.h"
#include "codecs/prim/forms.h"
#include "fed/bytes.h"
#include "fedcodec/codec_vtable.h"

static inline bool has_param(const fedcodec *codec, const char *key) {
    const fedcodec_param *param = codec->vtable->params;
    while (param->key != NULL && strcmp(param->key, key) != 0) {
        param++;
    }
    return param->key != NULL;
}

static inline bool is_eden(const fedcodec *codec) {
    return strcmp(codec->vtable->name, "eden") == 0;
}

/* Return the message's byte that names the code of its values or positions; 0: none. */
static inline uint8_t said_by(const fedcodec *codec, const uint8_t *src, size_t len, size_t n) {
    enum { NAMES = 0x7fc00000 };
    if (strcmp(codec->vtable->name, "topk") == 0) {
        const size_t map = fedcodec_bitmap_len(n);
        const uint32_t name = len >= map + 4 ? fedcodec_load_u32(src + map) - NAMES : 0;
        return name <= UINT8_MAX ? (uint8_t)name : 0;
    }
    fed_reader r;
    fed_reader_init(&r, src, len);
    return fed_read_varint(&r) > 0 ? fed_read_u8(&r) : 0;
}

/* As said_by. Where the codec's p is 1, any message with fewer values is the processor's. */
static inline uint8_t said_by_eden(const fedcodec *codec, const uint8_t *src, size_t len,
                                   size_t n) {
    enum { RANGE = 64 };
    fedcodec_eden_few r = {0};
    if (len < EDEN_LEAD || (src[0] & EDEN_FEW) == 0 || codec->param[EDEN_PARAM_P] == 1.0) {
        return len >= EDEN_LEAD && (src[0] & EDEN_FEW) != 0 ? RANGE : 0;
    }
    const eden_layout l = eden_layout_of(src[0], src[1] & 15, n);
    const fed_status status = fedcodec_eden_few_open(&r, &l, src + EDEN_LEAD, len - EDEN_LEAD);
    (void)status;
    return r.signs != NULL ? r.signs[fedcodec_bitmap_len(r.sent)] : 0;
}

static inline bool is_processors(const fedcodec *codec, const uint8_t *src, size_t len, size_t n) {
    enum { RANS = 32, RANGE = 64 };
    if (is_eden(codec)) {
        const uint8_t how = said_by_eden(codec, src, len, n);
        return how >= RANS && how <= RANGE;
    }
    const uint8_t said = said_by(codec, src, len, n);
    const bool narrow = has_param(codec, "values") && fedcodec_form_is_byte(said);
    return narrow || (has_param(codec, "pos") && said >= RANS && said <= RANGE);
}

#endif
