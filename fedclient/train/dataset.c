/* Reads IDX files, refusing whatever is not exactly one, and copies samples out as floats. */
#include "fedtrain/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"

enum { IMAGES_MAGIC = 0x00000803, LABELS_MAGIC = 0x00000801, IMAGES_HEAD = 16, LABELS_HEAD = 8 };

static const size_t FILE_LIMIT_BYTES = (size_t)1 << 31;

static uint32_t read_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static fed_status check_head(const char *path, const uint8_t *data, size_t len, uint32_t magic,
                             size_t head, fed_error *err) {
    if (len < head) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: the file ends at byte offset %zu, inside its head of %zu bytes: fetch "
                        "it again",
                        path, len, head);
    }
    if (read_be32(data) != magic) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: byte offset 0: magic number 0x%08" PRIx32 ", wanted 0x%08" PRIx32
                        " (an unpacked IDX file of %s)",
                        path, read_be32(data), magic, magic == IMAGES_MAGIC ? "images" : "labels");
    }
    if (read_be32(data + 4) == 0) {
        return fed_fail(err, FED_EFORMAT, "%s: byte offset 4: a count of 0 samples", path);
    }
    return FED_OK;
}

/* The body must be count samples of `size` bytes: neither less nor more. */
static fed_status check_body(const char *path, size_t len, size_t head, uint32_t count, size_t size,
                             fed_error *err) {
    size_t body = len - head;
    if (body / size < count) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: the file ends at byte offset %zu, in sample %zu of the %" PRIu32
                        " that its head promises: fetch it again",
                        path, len, body / size, count);
    }
    if (body != (size_t)count * size) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: byte offset %zu: %zu bytes more than the %" PRIu32
                        " samples that its head promises",
                        path, head + (size_t)count * size, body - (size_t)count * size, count);
    }
    return FED_OK;
}

/* Drop the head, so that what stays can be freed as it is. */
static uint8_t *strip_head(uint8_t *data, size_t len, size_t head) {
    memmove(data, data + head, len - head);
    return data;
}

static fed_status load_images(const char *path, fedtrain_dataset *set, fed_error *err) {
    uint8_t *data;
    size_t len;
    FED_TRY(fed_file_read(path, FILE_LIMIT_BYTES, &data, &len, err));
    fed_status status = check_head(path, data, len, IMAGES_MAGIC, IMAGES_HEAD, err);
    if (status != FED_OK) {
        goto done;
    }
    uint32_t count = read_be32(data + 4), rows = read_be32(data + 8), cols = read_be32(data + 12);
    if (rows == 0 || cols == 0 || rows > UINT16_MAX || cols > UINT16_MAX) {
        status = fed_fail(err, FED_EFORMAT,
                          "%s: byte offset 8: images of %" PRIu32 " x %" PRIu32
                          " pixels, wanted 1 to 65535 each way",
                          path, rows, cols);
        goto done;
    }
    size_t size = (size_t)rows * cols;
    status = check_body(path, len, IMAGES_HEAD, count, size, err);
    if (status == FED_OK) {
        set->count = count;
        set->sample_size = size;
        set->pixel = strip_head(data, len, IMAGES_HEAD);
        return FED_OK;
    }
done:
    free(data);
    return status;
}

static fed_status load_labels(const char *path, const char *images, fedtrain_dataset *set,
                              fed_error *err) {
    uint8_t *data;
    size_t len;
    FED_TRY(fed_file_read(path, FILE_LIMIT_BYTES, &data, &len, err));
    fed_status status = check_head(path, data, len, LABELS_MAGIC, LABELS_HEAD, err);
    if (status == FED_OK) {
        status = check_body(path, len, LABELS_HEAD, read_be32(data + 4), 1, err);
    }
    if (status == FED_OK && read_be32(data + 4) != set->count) {
        status = fed_fail(err, FED_EFORMAT,
                          "%s: byte offset 4: %" PRIu32 " labels, but %s holds %zu images: these "
                          "are not a pair",
                          path, read_be32(data + 4), images, set->count);
    }
    if (status != FED_OK) {
        free(data);
        return status;
    }
    set->label = strip_head(data, len, LABELS_HEAD);
    for (size_t i = 0; i < set->count; i++) {
        if (set->label[i] >= set->classes) {
            set->classes = set->label[i] + 1U;
        }
    }
    return FED_OK;
}

fed_status fedtrain_dataset_load_idx(const char *images, const char *labels, fedtrain_dataset *set,
                                     fed_error *err) {
    fedtrain_dataset loaded = {0};
    FED_TRY(load_images(images, &loaded, err));
    fed_status status = load_labels(labels, images, &loaded, err);
    if (status != FED_OK) {
        fedtrain_dataset_free(&loaded);
        return status;
    }
    *set = loaded;
    return FED_OK;
}

fed_status fedtrain_dataset_load_mnist(const char *directory, const char *part,
                                       fedtrain_dataset *set, fed_error *err) {
    if (strcmp(part, "train") != 0 && strcmp(part, "t10k") != 0) {
        return fed_fail(err, FED_EINVAL, "MNIST has no part \"%s\": write train or t10k", part);
    }
    char images[1024], labels[1024];
    int n = snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte", directory, part);
    snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte", directory, part);
    if (n < 0 || (size_t)n >= sizeof images) {
        return fed_fail(err, FED_EINVAL, "the name of MNIST's directory is too long: %.100s...",
                        directory);
    }
    return fedtrain_dataset_load_idx(images, labels, set, err);
}

void fedtrain_dataset_free(fedtrain_dataset *set) {
    free(set->pixel);
    free(set->label);
    *set = (fedtrain_dataset){0};
}

void fedtrain_dataset_gather(const fedtrain_dataset *set, const uint32_t *index, size_t n, float *x,
                             uint8_t *label) {
    for (size_t b = 0; b < n; b++) {
        const uint8_t *pixel = set->pixel + index[b] * set->sample_size;
        for (size_t i = 0; i < set->sample_size; i++) {
            x[b * set->sample_size + i] = (float)pixel[i] / 255.0F;
        }
        label[b] = set->label[index[b]];
    }
}
