/* Reads pairs of IDX files, of images and of labels, as of MNIST. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "fedclient/train/data/input.h"
#include "fedtrain/dataset.h"

enum { IMAGES_MAGIC = 0x00000803, LABELS_MAGIC = 0x00000801, IMAGES_HEAD = 16, LABELS_HEAD = 8 };

static uint32_t read_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static fed_status check_head(const fedtrain_input *in, uint32_t magic, size_t head,
                             fed_error *err) {
    const uint8_t *data = in->bytes.data;
    if (in->bytes.len < head) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: the file ends at byte offset %zu, inside its head of %zu bytes: fetch "
                        "it again",
                        in->path, in->bytes.len, head);
    }
    if (read_be32(data) != magic) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: byte offset 0: magic number 0x%08" PRIx32 ", wanted 0x%08" PRIx32
                        " (an IDX file of %s)",
                        in->path, read_be32(data), magic,
                        magic == IMAGES_MAGIC ? "images" : "labels");
    }
    if (read_be32(data + 4) == 0) {
        return fed_fail(err, FED_EFORMAT, "%s: byte offset 4: a count of 0 samples", in->path);
    }
    return FED_OK;
}

static fed_status check_body(const fedtrain_input *in, size_t head, uint32_t count, size_t size,
                             fed_error *err) {
    size_t body = in->bytes.len - head;
    if (body / size < count) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: the file ends at byte offset %zu, in sample %zu of the %" PRIu32
                        " that its head promises: fetch it again",
                        in->path, in->bytes.len, body / size, count);
    }
    if (body != (size_t)count * size) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: byte offset %zu: %zu bytes more than the %" PRIu32
                        " samples that its head promises",
                        in->path, head + (size_t)count * size, body - (size_t)count * size, count);
    }
    return FED_OK;
}

static fed_status check_images(const fedtrain_input *in, fed_shape *shape, fed_error *err) {
    FED_TRY(check_head(in, IMAGES_MAGIC, IMAGES_HEAD, err));
    const uint8_t *data = in->bytes.data;
    uint32_t rows = read_be32(data + 8), cols = read_be32(data + 12);
    if (rows == 0 || cols == 0 || rows > UINT16_MAX || cols > UINT16_MAX) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: byte offset 8: images of %" PRIu32 " x %" PRIu32
                        " pixels, wanted 1 to 65535 each way",
                        in->path, rows, cols);
    }
    *shape = (fed_shape){1, rows, cols};
    return check_body(in, IMAGES_HEAD, read_be32(data + 4), (size_t)rows * cols, err);
}

static fed_status check_labels(const fedtrain_input *in, const fedtrain_input *images,
                               fed_error *err) {
    FED_TRY(check_head(in, LABELS_MAGIC, LABELS_HEAD, err));
    uint32_t count = read_be32(in->bytes.data + 4);
    FED_TRY(check_body(in, LABELS_HEAD, count, 1, err));
    if (count != read_be32(images->bytes.data + 4)) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: byte offset 4: %" PRIu32 " labels, but %s holds %" PRIu32
                        " images: these are not a pair",
                        in->path, count, images->path, read_be32(images->bytes.data + 4));
    }
    return FED_OK;
}

fed_status fedtrain_idx_parse(fedtrain_input *images, const fedtrain_input *labels,
                              fedtrain_dataset *set, fed_error *err) {
    FED_TRY(check_images(images, &set->shape, err));
    FED_TRY(check_labels(labels, images, err));
    size_t count = labels->bytes.len - LABELS_HEAD;
    if (fedtrain_dataset_add_labels(set, labels->bytes.data + LABELS_HEAD, count, 1) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the %zu labels of %s", count,
                        labels->path);
    }
    fedtrain_dataset_add_block(set, &images->bytes, IMAGES_HEAD, count,
                               (size_t)set->shape.h * set->shape.w);
    return FED_OK;
}
