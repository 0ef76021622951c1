/* Models as safetensors files. */
#include "fed/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "common/safetensors.h"
#include "fed/bytes.h"
#include "fed/file.h"

/* A file is read whole, so there must be a limit: 2^32 parameters, fewer on a 32-bit machine. */
static const size_t FILE_BYTES_MAX = (size_t)1 << (sizeof(size_t) == 8 ? 34 : 30);

static fed_status check_finite(const char *name, const fed_layout *layout, const float *values,
                               fed_error *err) {
    size_t bad = fed_first_nonfinite(values, layout->size);
    for (size_t i = 0; bad < layout->size && i < layout->count; i++) {
        const fed_tensor *tensor = &layout->tensors[i];
        if (bad - tensor->offset < tensor->size) {
            return fed_fail(err, FED_ENONFINITE,
                            "%s: value %zu of tensor \"%s\" is not a finite number", name,
                            bad - tensor->offset, tensor->name);
        }
    }
    return FED_OK;
}

/* Loops of byte moves, which compilers turn into a plain copy where memory is little-endian. */
static void write_values(fed_writer *w, const float *values, size_t n) {
    uint8_t *at = fed_writer_reserve(w, n * sizeof *values);
    for (size_t i = 0; at != NULL && i < n; i++, at += 4) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        at[0] = (uint8_t)bits;
        at[1] = (uint8_t)(bits >> 8);
        at[2] = (uint8_t)(bits >> 16);
        at[3] = (uint8_t)(bits >> 24);
    }
    fed_writer_advance(w, n * sizeof *values);
}

static void read_values(const uint8_t *at, float *values, size_t n) {
    for (size_t i = 0; i < n; i++, at += 4) {
        uint32_t bits =
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

/* Header length, header, values. */
static void write_file(fed_writer *w, const fed_layout *layout, const float *values,
                       const char *const *metadata) {
    fed_writer header;
    fed_writer_growing(&header);
    fed_safetensors_header_write(&header, layout, metadata);
    if (header.status != FED_OK) {
        w->status = header.status;
    }
    fed_write_u64(w, header.len);
    fed_write_bytes(w, header.data, header.len);
    fed_writer_free(&header);
    write_values(w, values, layout->size);
}

fed_status fed_checkpoint_save(const char *path, const fed_layout *layout, const float *values,
                               const char *const *metadata, fed_error *err) {
    FED_TRY(check_finite(path, layout, values, err));
    fed_writer file;
    fed_writer_growing(&file);
    write_file(&file, layout, values, metadata);
    fed_status status = file.status;
    if (status != FED_OK) {
        status = fed_fail(err, status, "%s: out of memory", path);
    } else {
        status = fed_file_replace(path, file.data, file.len, 0644, err);
    }
    fed_writer_free(&file);
    return status;
}

/* The values behind the header, which says that there are as many as the layout has. */
static fed_status take_values(fed_reader *r, const char *name, fed_model *model, fed_error *err) {
    size_t n = model->layout.size;
    model->values = malloc((n > 0 ? n : 1) * sizeof *model->values);
    if (model->values == NULL) {
        return fed_fail(err, FED_ENOMEM, "%s: out of memory", name);
    }
    read_values(fed_read_bytes(r, n * sizeof *model->values), model->values, n);
    return check_finite(name, &model->layout, model->values, err);
}

fed_status fed_checkpoint_parse(const char *name, const uint8_t *data, size_t len, fed_model *model,
                                fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, data, len);
    uint64_t header_len = fed_read_u64(&r);
    if (r.status != FED_OK || header_len > fed_reader_left(&r) ||
        header_len > FED_SAFETENSORS_HEADER) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: not a safetensors file: no header of the length that its first 8 "
                        "bytes tell",
                        name);
    }
    fed_model parsed = {0};
    const uint8_t *header = fed_read_bytes(&r, (size_t)header_len);
    FED_TRY(fed_safetensors_header_parse(name, header, (size_t)header_len, fed_reader_left(&r),
                                         &parsed.layout, err));
    fed_status status = take_values(&r, name, &parsed, err);
    if (status != FED_OK) {
        fed_model_free(&parsed);
        return status;
    }
    *model = parsed;
    return FED_OK;
}

fed_status fed_checkpoint_load(const char *path, fed_model *model, fed_error *err) {
    uint8_t *data = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read(path, FILE_BYTES_MAX, &data, &len, err));
    fed_status status = fed_checkpoint_parse(path, data, len, model, err);
    free(data);
    return status;
}
