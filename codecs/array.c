/* Compress one array into one message, an envelope of one tensor. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedcodec/array.h"

#include <stdlib.h>
#include <string.h>

#include "codecs/prim/matrix.h"
#include "fedcodec/envelope.h"

size_t fedcodec_array_rows(size_t n) {
    return fedcodec_square_rows(n);
}

/* Make a layout of one matrix with n values. The message stores neither the tensor's name nor its
 * shape. The matrix is as square as possible, which suits codecs that factor matrices. */
static fed_status layout_of(size_t n, fed_layout *layout, fed_error *err) {
    fed_layout_init(layout);
    if (n == 0 || n > UINT32_MAX) {
        return fed_fail(err, FED_EINVAL, "an array of %zu values: 1 to 2^32 - 1 are allowed", n);
    }
    const uint32_t rows = (uint32_t)fedcodec_square_rows(n);
    const fed_status status =
        fed_layout_add(layout, "x", 2, (uint32_t[]){rows, (uint32_t)n / rows});
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", fed_status_text(status));
}

static fed_status encode_failed(fed_status status, size_t n, fed_error *err) {
    if (status == FED_ENONFINITE) {
        return fed_fail(err, status, "the array or its residual has a NaN or an infinity");
    }
    return fed_fail(err, status, "the array of %zu values can't be encoded: %s", n,
                    fed_status_text(status));
}

static fed_status encode(const fedcodec *codec, const fed_layout *layout, const float *x,
                         float *residual, fed_writer *out) {
    void *work = malloc(fedcodec_envelope_work_size(codec, layout, 0) + 1);
    FED_REQUIRE(work != NULL, FED_ENOMEM);
    const fed_status status = fedcodec_envelope_encode(codec, layout, 0, residual, x, work, out);
    free(work);
    return status;
}

/* Encode x with a codec that needs a residual. A copy of x serves as the residual: adding x to
 * zeros would turn -0 into +0. */
static fed_status encode_copy(const fedcodec *codec, const fed_layout *layout, const float *x,
                              fed_writer *out) {
    float *copy = malloc(layout->size * sizeof *copy);
    FED_REQUIRE(copy != NULL, FED_ENOMEM);
    memcpy(copy, x, layout->size * sizeof *copy);
    const fed_status status = encode(codec, layout, NULL, copy, out);
    free(copy);
    return status;
}

fed_status fedcodec_array_encode(const char *spec, const float *x, size_t n, float *residual,
                                 fed_writer *out, fed_error *err) {
    fedcodec codec;
    fed_layout layout;
    FED_TRY(fedcodec_parse(spec, &codec, err));
    FED_TRY(layout_of(n, &layout, err));
    const fed_status status = residual == NULL && fedcodec_needs_residual(codec.vtable)
                                  ? encode_copy(&codec, &layout, x, out)
                                  : encode(&codec, &layout, x, residual, out);
    fed_layout_free(&layout);
    return status == FED_OK ? FED_OK : encode_failed(status, n, err);
}

fed_status fedcodec_array_count(const uint8_t *message, size_t len, size_t *n, fed_error *err) {
    fed_error why = {0};
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    uint64_t values = 0;
    fed_status status = fedcodec_envelope_open(&envelope, message, len, &why);
    while (status == FED_OK) {
        status = fedcodec_envelope_next(&envelope, &frame, &why);
        values += status == FED_OK ? frame.n : 0;
    }
    if (status != FED_ENOTFOUND) { /* FED_ENOTFOUND after the last frame */
        return fed_fail(err, status, "%s", why.text);
    }
    *n = (size_t)values;
    return FED_OK;
}

fed_status fedcodec_array_decode(const uint8_t *message, size_t len, float *y, size_t n,
                                 fed_error *err) {
    fed_layout layout;
    FED_TRY(layout_of(n, &layout, err));
    const fed_status status = fedcodec_envelope_decode(message, len, &layout, y, err);
    fed_layout_free(&layout);
    return status;
}

fed_status fedcodec_array_add(const uint8_t *message, size_t len, float weight, float *y, size_t n,
                              fed_error *err) {
    fed_layout layout;
    FED_TRY(layout_of(n, &layout, err));
    const fed_status status = fedcodec_envelope_axpy(message, len, &layout, weight, y, err);
    fed_layout_free(&layout);
    return status;
}
