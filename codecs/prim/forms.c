/* Read and write the values of a sparse codec as float32, bfloat16 or int8. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/prim/forms.h"

#include "codecs/prim/floats.h"
#include "codecs/prim/rounding.h"

enum { SCALE = 4 }; /* bytes of int8's scale */

const char *const fedcodec_form_names[FEDCODEC_FORM_COUNT + 1] = {"float32", "bfloat16", "int8",
                                                                  NULL};

size_t fedcodec_values_len(fedcodec_form form, size_t k) {
    return form == FEDCODEC_FORM_INT8       ? (k > 0 ? SCALE + k : 0)
           : form == FEDCODEC_FORM_BFLOAT16 ? 2 * k
                                            : 4 * k;
}

static fedcodec_scale scale_of(fedcodec_chosen chosen) {
    return fedcodec_scale_of(
        fedcodec_float((uint32_t)fedcodec_largest(chosen.value, chosen.count)));
}

static bool arrives(fedcodec_form form, float v, fedcodec_scale by) {
    return form == FEDCODEC_FORM_INT8 ? fedcodec_level(v, by.inverse) != 0.0f
                                      : (fedcodec_to_bfloat16(v) & 0x7fff) != 0;
}

void fedcodec_values_keep(fedcodec_form form, fedcodec_chosen *chosen) {
    if (form == FEDCODEC_FORM_FLOAT32) {
        return;
    }
    const fedcodec_scale by = scale_of(*chosen);
    size_t kept = 0;
    for (size_t i = 0; i < chosen->count; i++) {
        const float v = chosen->value[i];
        chosen->index[kept] = chosen->index[i];
        chosen->value[kept] = v;
        kept += arrives(form, v, by);
    }
    chosen->count = kept;
}

static inline void leave(fedcodec_chosen chosen, size_t i, float rest, float *residual) {
    if (residual != NULL) {
        __builtin_prefetch(&residual[fedcodec_soon(chosen.index, i, chosen.count)], 1);
        residual[chosen.index[i]] = rest;
    }
}

static void put_float32(fedcodec_chosen chosen, uint8_t *dst, float *residual) {
    fedcodec_store_values(dst, chosen.value, chosen.count);
    for (size_t i = 0; i < chosen.count; i++) {
        leave(chosen, i, 0.0f, residual);
    }
}

static void put_bfloat16(fedcodec_chosen chosen, uint8_t *dst, float *residual) {
    for (size_t i = 0; i < chosen.count; i++) {
        const uint16_t sent = fedcodec_to_bfloat16(chosen.value[i]);
        fedcodec_store_u16(dst + 2 * i, sent);
        leave(chosen, i, chosen.value[i] - fedcodec_from_bfloat16(sent), residual);
    }
}

static void put_int8(fedcodec_chosen chosen, uint8_t *dst, float *residual) {
    const fedcodec_scale by = scale_of(chosen);
    fedcodec_store_f32(dst, by.scale);
    for (size_t i = 0; i < chosen.count; i++) {
        const float level = fedcodec_level(chosen.value[i], by.inverse);
        dst[SCALE + i] = (uint8_t)(int)level;
        leave(chosen, i, chosen.value[i] - level * by.scale, residual);
    }
}

void fedcodec_values_put(fedcodec_form form, fedcodec_chosen chosen, uint8_t *dst,
                         float *residual) {
    if (chosen.count == 0) {
        return;
    }
    switch (form) {
    case FEDCODEC_FORM_BFLOAT16:
        put_bfloat16(chosen, dst, residual);
        return;
    case FEDCODEC_FORM_INT8:
        put_int8(chosen, dst, residual);
        return;
    default:
        put_float32(chosen, dst, residual);
    }
}

static fed_status check_bfloat16(const uint8_t *src, size_t count, float *max_abs) {
    uint16_t max = 0, min = FEDCODEC_BFLOAT16_INFINITY;
    for (size_t i = 0; i < count; i++) {
        const uint16_t m = fedcodec_load_u16(src + 2 * i) & 0x7fff;
        max = m > max ? m : max;
        min = m < min ? m : min;
    }
    FED_REQUIRE(min > 0 && max < FEDCODEC_BFLOAT16_INFINITY, FED_EFORMAT);
    *max_abs = fedcodec_from_bfloat16(max);
    return FED_OK;
}

/* Check int8 values: a level of 127 or -127 must occur; the levels -128 and 0 are invalid. */
static fed_status check_int8(const uint8_t *src, size_t count, float *max_abs) {
    enum { UNUSED = 0x80, NEGATIVE = 256 - FEDCODEC_LEVELS };
    const float scale = fedcodec_load_f32(src);
    uint8_t bad = 0, full = 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t level = src[SCALE + i];
        bad |= (level == 0) | (level == UNUSED);
        full |= (level == FEDCODEC_LEVELS) | (level == NEGATIVE);
    }
    FED_REQUIRE(fedcodec_scale_valid(scale) && bad == 0 && full != 0, FED_EFORMAT);
    *max_abs = FEDCODEC_LEVELS * scale;
    return FED_OK;
}

fed_status fedcodec_values_check(fedcodec_form form, const uint8_t *src, size_t count,
                                 float *max_abs) {
    if (count == 0) {
        *max_abs = 0.0f;
        return FED_OK;
    }
    return form == FEDCODEC_FORM_INT8       ? check_int8(src, count, max_abs)
           : form == FEDCODEC_FORM_BFLOAT16 ? check_bfloat16(src, count, max_abs)
                                            : fedcodec_check_values(src, count, max_abs);
}

void fedcodec_values_load(fedcodec_form form, const uint8_t *src, size_t first, size_t count,
                          float *value) {
    if (form == FEDCODEC_FORM_FLOAT32) {
        for (size_t i = 0; i < count; i++) {
            value[i] = fedcodec_load_f32(src + 4 * (first + i));
        }
    } else if (form == FEDCODEC_FORM_BFLOAT16) {
        for (size_t i = 0; i < count; i++) {
            value[i] = fedcodec_from_bfloat16(fedcodec_load_u16(src + 2 * (first + i)));
        }
    } else if (count > 0) {
        const float scale = fedcodec_load_f32(src);
        for (size_t i = 0; i < count; i++) {
            value[i] = fedcodec_level_value(src[SCALE + first + i], scale);
        }
    }
}
