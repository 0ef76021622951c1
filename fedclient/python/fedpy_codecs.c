/* The codecs for Python: each message holds one array. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fedclient/python/fedpy.h"
#include "fedcodec/array.h"
#include "fedcodec/codec.h"

const char *fedpy_codec_name(size_t k) {
    const fedcodec_vtable *codec = fedcodec_at(k);
    return codec != NULL ? fedcodec_name(codec) : NULL;
}

void fedpy_free(void *memory) {
    free(memory);
}

int fedpy_encode(const char *spec, const float *x, size_t n, float *residual, uint8_t **message,
                 size_t *len, char *error) {
    fed_error err = {FED_OK, ""};
    fed_writer out;
    fed_writer_growing(&out);
    const fed_status status = fedcodec_array_encode(spec, x, n, residual, &out, &err);
    if (status != FED_OK) {
        fed_writer_free(&out);
        return fedpy_give(status, &err, error);
    }
    *message = out.data;
    *len = out.len;
    return 0;
}

int fedpy_count(const uint8_t *message, size_t len, size_t *n, char *error) {
    fed_error err = {FED_OK, ""};
    return fedpy_give(fedcodec_array_count(message, len, n, &err), &err, error);
}

int fedpy_add(const uint8_t *message, size_t len, float weight, float *y, size_t n, char *error) {
    fed_error err = {FED_OK, ""};
    return fedpy_give(fedcodec_array_add(message, len, weight, y, n, &err), &err, error);
}

int fedpy_decode(const uint8_t *message, size_t len, float *y, size_t n, char *error) {
    fed_error err = {FED_OK, ""};
    return fedpy_give(fedcodec_array_decode(message, len, y, n, &err), &err, error);
}
