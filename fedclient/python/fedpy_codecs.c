/* The codecs for Python: one array, one message. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/python/fedpy.h"
#include "fedcodec/envelope.h"

static int give(fed_status status, const fed_error *err, char *error) {
    if (status != FED_OK) {
        snprintf(error, FEDPY_ERROR, "%s",
                 err->text[0] != '\0' ? err->text : fed_status_text(status));
    }
    return (int)status;
}

const char *fedpy_codec_name(size_t k) {
    const fedcodec_vtable *codec = fedcodec_at(k);
    return codec != NULL ? fedcodec_name(codec) : NULL;
}

void fedpy_free(void *memory) {
    free(memory);
}

/* A layout of one tensor; its name is in no message. */
static fed_status layout_of(size_t n, fed_layout *layout, fed_error *err) {
    fed_layout_init(layout);
    if (n == 0 || n > UINT32_MAX) {
        return fed_fail(err, FED_EINVAL, "an array of %zu values: 1 to 2^32 - 1 are allowed", n);
    }
    fed_status status = fed_layout_add(layout, "x", 1, &(uint32_t){(uint32_t)n});
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", fed_status_text(status));
}

/* Why an encode failed: the codec itself has no sentence. */
static fed_status encode_failed(fed_status status, fed_error *err) {
    return status == FED_ENONFINITE
               ? fed_fail(err, status, "the array or its residual has a NaN or an infinity")
               : fed_fail(err, status, "the array can't be encoded: %s", fed_status_text(status));
}

static fed_status encode(const char *spec, const float *x, size_t n, float *residual,
                         fed_writer *out, fed_error *err) {
    fedcodec codec;
    fed_layout layout;
    FED_TRY(fedcodec_parse(spec, &codec, err));
    FED_TRY(layout_of(n, &layout, err));
    /* Without a residual of the caller's, a copy of x is encoded as one: 0 + x would lose -0. */
    const bool needs_own = residual == NULL && fedcodec_has_feedback(codec.vtable);
    float *own = needs_own ? malloc(n * sizeof *own) : residual;
    if (needs_own && own != NULL) {
        memcpy(own, x, n * sizeof *own);
        x = NULL;
    }
    void *work = malloc(fedcodec_envelope_work_size(&codec, &layout, 0) + 1);
    fed_status status = work == NULL || (needs_own && own == NULL)
                            ? fed_fail(err, FED_ENOMEM, "no memory to encode %zu values", n)
                            : fedcodec_envelope_encode(&codec, &layout, 0, own, x, work, out);
    if (status != FED_OK && err->text[0] == '\0') {
        status = encode_failed(status, err);
    }
    free(work);
    if (needs_own) {
        free(own);
    }
    fed_layout_free(&layout);
    return status;
}

int fedpy_encode(const char *spec, const float *x, size_t n, float *residual, uint8_t **message,
                 size_t *len, char *error) {
    fed_error err = {FED_OK, ""};
    fed_writer out;
    fed_writer_growing(&out);
    fed_status status = encode(spec, x, n, residual, &out, &err);
    if (status != FED_OK) {
        fed_writer_free(&out);
        return give(status, &err, error);
    }
    *message = out.data;
    *len = out.len;
    return 0;
}

int fedpy_count(const uint8_t *message, size_t len, size_t *n, char *error) {
    fed_error err = {FED_OK, ""};
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    uint64_t values = 0;
    fed_status status = fedcodec_envelope_open(&envelope, message, len, &err);
    while (status == FED_OK) {
        status = fedcodec_envelope_next(&envelope, &frame, &err);
        values += status == FED_OK ? frame.n : 0;
    }
    if (status != FED_ENOTFOUND) {
        return give(status, &err, error);
    }
    *n = (size_t)values;
    return 0;
}

static fed_status read_message(const uint8_t *message, size_t len, float weight, bool add, float *y,
                               size_t n, fed_error *err) {
    fed_layout layout;
    FED_TRY(layout_of(n, &layout, err));
    fed_status status = add ? fedcodec_envelope_axpy(message, len, &layout, weight, y, err)
                            : fedcodec_envelope_decode(message, len, &layout, y, err);
    fed_layout_free(&layout);
    return status;
}

int fedpy_add(const uint8_t *message, size_t len, float weight, float *y, size_t n, char *error) {
    fed_error err = {FED_OK, ""};
    return give(read_message(message, len, weight, true, y, n, &err), &err, error);
}

int fedpy_decode(const uint8_t *message, size_t len, float *y, size_t n, char *error) {
    fed_error err = {FED_OK, ""};
    return give(read_message(message, len, 0, false, y, n, &err), &err, error);
}
