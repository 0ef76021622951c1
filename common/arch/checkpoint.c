/* Read and write models as safetensors files. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/checkpoint.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arch/safetensors.h"
#include "fed/bytes.h"
#include "fed/file.h"
#include "fed/params.h"

/* The most bytes of a file, as all its values are in memory: 16 GiB, or 1 GiB on a 32-bit
 * machine. */
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

static fed_status put_header(fed_file *file, const fed_layout *layout, const char *const *metadata,
                             fed_error *err) {
    fed_writer header, start;
    uint8_t length[8];
    fed_writer_growing(&header);
    fed_safetensors_header_write(&header, layout, metadata);
    fed_writer_fixed(&start, length, sizeof length);
    fed_write_u64(&start, header.len);
    fed_status status = header.status;
    if (status != FED_OK) {
        status = fed_fail(err, status, "%s: out of memory", file->path);
    } else {
        status = fed_file_put(file, length, sizeof length, err);
    }
    if (status == FED_OK) {
        status = fed_file_put(file, header.data, header.len, err);
    }
    fed_writer_free(&header);
    return status;
}

fed_status fed_checkpoint_save(const char *path, const fed_layout *layout, const float *values,
                               const char *const *metadata, fed_error *err) {
    return fed_checkpoint_save_as(path, FED_FILE_OUTPUT | 0644, layout, values, metadata, err);
}

fed_status fed_checkpoint_save_as(const char *path, unsigned mode, const fed_layout *layout,
                                  const float *values, const char *const *metadata,
                                  fed_error *err) {
    FED_TRY(check_finite(path, layout, values, err));
    fed_file file;
    FED_TRY(fed_file_create(path, mode, &file, err));
    fed_status status = put_header(&file, layout, metadata, err);
    if (status == FED_OK) {
        status = fed_file_put_floats(&file, values, layout->size, err);
    }
    if (status != FED_OK) {
        fed_file_abandon(&file);
        return status;
    }
    return fed_file_commit(&file, err);
}

struct fed_checkpoint {
    const char *name;
    const uint8_t *bytes;
    size_t len;
    const uint8_t *data;
    fed_safetensors header;
};

static fed_status parse_file(fed_checkpoint *file, fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, file->bytes, file->len);
    uint64_t header_len = fed_read_u64(&r);
    if (r.status != FED_OK || header_len > fed_reader_left(&r) ||
        header_len > FED_SAFETENSORS_HEADER) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: not a safetensors file: its first 8 "
                        "bytes are not the length of a header",
                        file->name);
    }
    const uint8_t *header = fed_read_bytes(&r, (size_t)header_len);
    file->data = file->bytes + r.pos;
    return fed_safetensors_parse(file->name, header, (size_t)header_len, fed_reader_left(&r),
                                 &file->header, err);
}

fed_status fed_checkpoint_open(const char *path, fed_checkpoint **file, fed_error *err) {
    size_t name_len = strlen(path) + 1;
    fed_checkpoint *opened = calloc(1, sizeof *opened + name_len);
    if (opened == NULL) {
        return fed_fail(err, FED_ENOMEM, "%s: out of memory", path);
    }
    opened->name = memcpy(opened + 1, path, name_len);
    fed_status status = fed_file_map(path, FILE_BYTES_MAX, &opened->bytes, &opened->len, err);
    if (status == FED_OK) {
        status = parse_file(opened, err);
    }
    if (status != FED_OK) {
        fed_checkpoint_close(opened);
        return status;
    }
    *file = opened;
    return FED_OK;
}

void fed_checkpoint_close(fed_checkpoint *file) {
    if (file != NULL) {
        fed_file_unmap(file->bytes, file->len);
        fed_safetensors_free(&file->header);
        free(file);
    }
}

const char *fed_checkpoint_note(const fed_checkpoint *file, const char *key) {
    return fed_safetensors_note(&file->header, key);
}

const fed_tensor *fed_checkpoint_find(const fed_checkpoint *file, const char *name) {
    return arch_names_find(&file->header.names, &file->header.layout, name);
}

/* Convert IEEE 754's binary16. Infinity and NaN stay infinity and NaN. */
static float half_float(uint32_t half) {
    uint32_t magnitude = half & 0x7fff, bits = magnitude << 13;
    float value = (float)magnitude * 0x1p-24f; /* the value if it is below 2^-14 */
    if (magnitude >= 0x400) {
        bits += magnitude >= 0x7c00 ? (uint32_t)(255 - 31) << 23 : (uint32_t)(127 - 15) << 23;
        memcpy(&value, &bits, sizeof value);
    }
    return half & 0x8000 ? -value : value;
}

static float bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void convert(fed_safetensors_type type, const uint8_t *at, float *values, size_t n) {
    if (type == FED_SAFETENSORS_F32) {
        for (size_t i = 0; i < n; i++, at += 4) {
            values[i] = bits_float((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                                   (uint32_t)at[3] << 24);
        }
        return;
    }
    for (size_t i = 0; i < n; i++, at += 2) {
        uint32_t bits = (uint32_t)at[0] | (uint32_t)at[1] << 8;
        values[i] = type == FED_SAFETENSORS_F16 ? half_float(bits) : bits_float(bits << 16);
    }
}

static fed_status read_tensor(const fed_checkpoint *file, size_t i, float *values, fed_error *err) {
    const fed_tensor *tensor = &file->header.layout.tensors[i];
    const fed_safetensors_place *place = &file->header.places[i];
    if (place->type == FED_SAFETENSORS_OTHER) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: tensor \"%s\" is of type %s: F32, F16 and BF16 can be read",
                        file->name, tensor->name, place->word);
    }
    convert(place->type, file->data + place->begin, values, tensor->size);
    return FED_OK;
}

static fed_status read_all(const fed_checkpoint *file, float *values, fed_error *err) {
    const fed_layout *layout = &file->header.layout;
    for (size_t i = 0; i < layout->count; i++) {
        FED_TRY(read_tensor(file, i, values + layout->tensors[i].offset, err));
    }
    return check_finite(file->name, layout, values, err);
}

/* Read all tensors of a file; its layout moves into the model. */
static fed_status take_all(fed_checkpoint *file, fed_model *model, fed_error *err) {
    float *values = malloc((file->header.layout.size + 1) * sizeof *values);
    if (values == NULL) {
        return fed_fail(err, FED_ENOMEM, "%s: out of memory", file->name);
    }
    fed_status status = read_all(file, values, err);
    if (status != FED_OK) {
        free(values);
        return status;
    }
    *model = (fed_model){.layout = file->header.layout, .values = values};
    fed_layout_init(&file->header.layout);
    return FED_OK;
}

fed_status fed_checkpoint_parse(const char *name, const uint8_t *data, size_t len, fed_model *model,
                                fed_error *err) {
    fed_checkpoint file = {.name = name, .bytes = data, .len = len};
    FED_TRY(parse_file(&file, err));
    fed_status status = take_all(&file, model, err);
    fed_safetensors_free(&file.header);
    return status;
}

fed_status fed_checkpoint_load(const char *path, fed_model *model, fed_error *err) {
    fed_checkpoint *file = NULL;
    FED_TRY(fed_checkpoint_open(path, &file, err));
    fed_status status = take_all(file, model, err);
    fed_checkpoint_close(file);
    return status;
}

static bool is_weight(const char *name) {
    static const char counter[] = "num_batches_tracked", state[] = "optimizer.";
    size_t len = strlen(name), end = sizeof counter - 1;
    bool counts = len >= end && strcmp(name + len - end, counter) == 0 &&
                  (len == end || name[len - end - 1] == '.');
    return !counts && strncmp(name, state, sizeof state - 1) != 0;
}

/* there: a layout, and the table of its names. */
static fed_names missing(const fed_layout *wanted, const fed_layout *there, const arch_names *names,
                         bool weights_only) {
    enum { SHOWN = 3 };
    fed_names list = {.text = ""};
    size_t count = 0;
    for (size_t i = 0; i < wanted->count; i++) {
        const char *name = wanted->tensors[i].name;
        if (arch_names_find(names, there, name) != NULL || (weights_only && !is_weight(name))) {
            continue;
        }
        if (count++ < SHOWN) {
            fed_names_add(&list, name);
        }
    }
    if (count > SHOWN) {
        size_t used = strlen(list.text);
        snprintf(list.text + used, sizeof list.text - used, " and %zu more", count - SHOWN);
    }
    return list;
}

static fed_status check_names(const fed_checkpoint *file, const fed_layout *layout,
                              fed_error *err) {
    const fed_safetensors *header = &file->header;
    arch_names names;
    if (arch_names_of(layout, &names) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "%s: out of memory", file->name);
    }
    fed_names lacks = missing(layout, &header->layout, &header->names, false);
    fed_names surplus = missing(&header->layout, layout, &names, true);
    arch_names_free(&names);
    if (lacks.text[0] == '\0' && surplus.text[0] == '\0') {
        return FED_OK;
    }
    return fed_fail(err, FED_EFORMAT, "%.100s: not the weights of this model: %s%s%s%s%s",
                    file->name, lacks.text[0] != '\0' ? "it lacks " : "", lacks.text,
                    lacks.text[0] != '\0' && surplus.text[0] != '\0' ? "; " : "",
                    surplus.text[0] != '\0' ? "the model has no " : "", surplus.text);
}

static void write_shape(fed_names *shape, const fed_tensor *tensor) {
    fed_writer w;
    fed_writer_fixed(&w, shape->text, sizeof shape->text);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        fed_write_printf(&w, "%s%u", i > 0 ? "x" : "", tensor->dims[i]);
    }
    if (tensor->rank == 0) {
        fed_write_printf(&w, "a single number");
    }
}

static fed_status check_shape(const fed_checkpoint *file, const fed_tensor *is,
                              const fed_tensor *wanted, fed_error *err) {
    if (is->rank == wanted->rank &&
        memcmp(is->dims, wanted->dims, is->rank * sizeof is->dims[0]) == 0) {
        return FED_OK;
    }
    fed_names a, b;
    write_shape(&a, is);
    write_shape(&b, wanted);
    return fed_fail(err, FED_EFORMAT, "%s: tensor \"%s\" is %s, but %s in the model", file->name,
                    is->name, a.text, b.text);
}

fed_status fed_checkpoint_read(const fed_checkpoint *file, const fed_layout *layout, float *values,
                               fed_error *err) {
    FED_TRY(check_names(file, layout, err));
    for (size_t i = 0; i < layout->count; i++) {
        const fed_tensor *wanted = &layout->tensors[i];
        const fed_tensor *is = fed_checkpoint_find(file, wanted->name);
        FED_TRY(check_shape(file, is, wanted, err));
        size_t k = (size_t)(is - file->header.layout.tensors);
        FED_TRY(read_tensor(file, k, values + wanted->offset, err));
    }
    return check_finite(file->name, layout, values, err);
}
