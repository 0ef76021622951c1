/* The forms in which a sparse codec sends values: float32, or the narrow ones bfloat16 and int8.
 * Format: docs/codec-formats.md#values */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_PRIM_FORMS_H
#define FEDCODEC_PRIM_FORMS_H

#include "codecs/prim/select.h"
#include "codecs/unit.h"
#include "fedcodec/codec_vtable.h"

/** The values of a codec's parameter "values". */
typedef enum fedcodec_form {
    FEDCODEC_FORM_FLOAT32,
    FEDCODEC_FORM_BFLOAT16,
    FEDCODEC_FORM_INT8,
    FEDCODEC_FORM_COUNT
} fedcodec_form;

extern const char *const fedcodec_form_names[FEDCODEC_FORM_COUNT + 1];

#define FEDCODEC_FORM_PARAM                                                                        \
    {                                                                                              \
        .key = "values", .preset = FEDCODEC_FORM_FLOAT32, .low = 0, .high = FEDCODEC_FORM_INT8,    \
        .help = "how a value is sent", .names = fedcodec_form_names                                \
    }

/** A message with narrow values has a byte that names their form: this number plus the form. */
enum { FEDCODEC_FORM_BYTE = 96 };

/** Does this byte name a narrow form? */
static inline bool fedcodec_form_is_byte(uint8_t byte) {
    return byte > FEDCODEC_FORM_BYTE && byte < FEDCODEC_FORM_BYTE + FEDCODEC_FORM_COUNT;
}

/** Return the bytes of k values, without the byte that names the form. */
size_t fedcodec_values_len(fedcodec_form form, size_t k);

/** Drop the values that would be decoded as 0 from the lists of chosen. */
void fedcodec_values_keep(fedcodec_form form, fedcodec_chosen *chosen);

/** Write the values that fedcodec_values_keep has left. Subtract what will be decoded from the
 * residual, which may be NULL. */
void fedcodec_values_put(fedcodec_form form, fedcodec_chosen chosen, uint8_t *dst, float *residual);

/** Check src, which has the length for count values. FED_EFORMAT: fedcodec_values_put could not
 * have written it. *max_abs becomes the largest magnitude; 0 if count is 0. */
fed_status fedcodec_values_check(fedcodec_form form, const uint8_t *src, size_t count,
                                 float *max_abs) FED_CHECKED;

/** Decode count values, from number first on, into value[]. */
void fedcodec_values_load(fedcodec_form form, const uint8_t *src, size_t first, size_t count,
                          float *value);

#endif
