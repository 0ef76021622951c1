/* Samples in memory: where each sample is, and how its bytes become floats. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fedclient/train/data/input.h"

void fedtrain_bytes_release(fedtrain_bytes *bytes) {
    if (bytes->owner == FEDTRAIN_MAPPED) {
        fed_file_unmap(bytes->data, bytes->len);
    } else if (bytes->owner == FEDTRAIN_HEAP) {
        free((void *)(uintptr_t)bytes->data);
    }
    *bytes = (fedtrain_bytes){0};
}

fed_status fedtrain_dataset_add_labels(fedtrain_dataset *set, const uint8_t *labels, size_t count,
                                       size_t stride) {
    FED_REQUIRE(count <= UINT32_MAX - set->count, FED_ERANGE);
    uint8_t *more = realloc(set->label, set->count + count);
    FED_REQUIRE(more != NULL, FED_ENOMEM);
    set->label = more;
    for (size_t i = 0; i < count; i++) {
        uint8_t label = labels[i * stride];
        more[set->count + i] = label;
        set->classes = label >= set->classes ? label + 1U : set->classes;
    }
    return FED_OK;
}

void fedtrain_dataset_add_block(fedtrain_dataset *set, fedtrain_bytes *bytes, size_t offset,
                                size_t count, size_t stride) {
    set->block[set->block_count++] = (fedtrain_block){
        .bytes = *bytes, .first = bytes->data + offset, .count = count, .stride = stride};
    set->count += count;
    *bytes = (fedtrain_bytes){0};
}

static size_t plane_size(const fedtrain_dataset *set) {
    return (size_t)set->shape.h * set->shape.w;
}

fed_status fedtrain_dataset_wrap(const uint8_t *pixel, const uint8_t *label, size_t count,
                                 fed_shape shape, fedtrain_dataset *set) {
    fedtrain_dataset wrapped = {.shape = shape};
    size_t size = plane_size(&wrapped) * shape.c;
    FED_REQUIRE(count > 0 && size > 0, FED_EINVAL);
    FED_TRY(fedtrain_dataset_add_labels(&wrapped, label, count, 1));
    fedtrain_bytes bytes = {.owner = FEDTRAIN_BORROWED, .data = pixel, .len = count * size};
    fedtrain_dataset_add_block(&wrapped, &bytes, 0, count, size);
    *set = wrapped;
    return FED_OK;
}

void fedtrain_dataset_free(fedtrain_dataset *set) {
    for (size_t i = 0; i < set->block_count; i++) {
        fedtrain_bytes_release(&set->block[i].bytes);
    }
    free(set->label);
    free(set->target);
    free(set->scale);
    free(set->shift);
    *set = (fedtrain_dataset){0};
}

static const uint8_t *sample_at(const fedtrain_dataset *set, size_t i) {
    const fedtrain_block *block = set->block;
    while (i >= block->count) {
        i -= block->count;
        block++;
    }
    return block->first + i * block->stride;
}

/* Read n values of a sample, from value `at` on, without normalisation. */
static void read_values(const fedtrain_dataset *set, const uint8_t *sample, size_t at, size_t n,
                        float *x) {
    if (set->is_float) {
        memcpy(x, sample + at * sizeof *x, n * sizeof *x);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)sample[at + i] / 255.0F;
    }
}

/* Normalise x, float32[c, h, w], in place. */
static void normalise(const fedtrain_dataset *set, float *x) {
    size_t plane = plane_size(set);
    for (size_t c = 0; set->scale != NULL && c < set->shape.c; c++) {
        for (size_t i = 0; i < plane; i++) {
            x[c * plane + i] = x[c * plane + i] * set->scale[c] + set->shift[c];
        }
    }
}

void fedtrain_dataset_gather(const fedtrain_dataset *set, const uint32_t *index, size_t n, float *x,
                             uint32_t *label) {
    size_t size = plane_size(set) * set->shape.c;
    for (size_t b = 0; b < n; b++) {
        read_values(set, sample_at(set, index[b]), 0, size, x + b * size);
        normalise(set, x + b * size);
    }
    for (size_t b = 0; set->label != NULL && b < n; b++) {
        label[b] = set->label[index[b]];
    }
}

void fedtrain_dataset_gather_targets(const fedtrain_dataset *set, const uint32_t *index, size_t n,
                                     float *target) {
    for (size_t b = 0; b < n; b++) {
        target[b] = set->target[index[b]];
    }
}

/* A cut of a picture: output row y is row y + dy of the picture, or black where there is none; dx
 * is the same for columns. */
typedef struct cut {
    ptrdiff_t dy, dx;
    bool flip;
} cut;

static cut draw_cut(const fedtrain_augment *augment, fed_rng *rng) {
    cut drawn = {0};
    if (augment->padding > 0) {
        uint32_t places = 2 * augment->padding + 1;
        drawn.dy = (ptrdiff_t)fed_rng_below(rng, places) - (ptrdiff_t)augment->padding;
        drawn.dx = (ptrdiff_t)fed_rng_below(rng, places) - (ptrdiff_t)augment->padding;
    }
    drawn.flip = augment->flip && fed_rng_below(rng, 2) == 1;
    return drawn;
}

static void read_row(const fedtrain_dataset *set, const uint8_t *sample, size_t row_start, cut how,
                     float *x) {
    size_t w = set->shape.w;
    size_t left = how.dx < 0 ? (size_t)-how.dx : 0, skip = how.dx > 0 ? (size_t)how.dx : 0;
    memset(x, 0, w * sizeof *x);
    if (left + skip < w) {
        read_values(set, sample, row_start + skip, w - left - skip, x + left);
    }
    for (size_t i = 0; how.flip && i < w / 2; i++) {
        float swap = x[i];
        x[i] = x[w - 1 - i];
        x[w - 1 - i] = swap;
    }
}

static void read_cut(const fedtrain_dataset *set, const uint8_t *sample, cut how, float *x) {
    size_t h = set->shape.h, w = set->shape.w;
    for (size_t row = 0; row < set->shape.c * h; row++) {
        ptrdiff_t y = (ptrdiff_t)(row % h) + how.dy;
        if (y >= 0 && y < (ptrdiff_t)h) {
            read_row(set, sample, (row / h * h + (size_t)y) * w, how, x + row * w);
        } else {
            memset(x + row * w, 0, w * sizeof *x);
        }
    }
}

void fedtrain_dataset_gather_augmented(const fedtrain_dataset *set, const fedtrain_augment *augment,
                                       fed_rng *rng, const uint32_t *index, size_t n, float *x,
                                       uint32_t *label) {
    size_t size = plane_size(set) * set->shape.c;
    for (size_t b = 0; b < n; b++) {
        read_cut(set, sample_at(set, index[b]), draw_cut(augment, rng), x + b * size);
        normalise(set, x + b * size);
        label[b] = set->label[index[b]];
    }
}

/* Measure samples index[0 .. count - 1], or without index the first `count` samples. */
static void measure_channel(const fedtrain_dataset *set, const uint32_t *index, size_t count,
                            size_t c, float *mean, float *deviation) {
    size_t plane = plane_size(set);
    double sum = 0, squares = 0, n = (double)count * (double)plane;
    /* Sum differences from the first value, so that columns of large numbers lose less
     * precision. */
    float x, origin;
    read_values(set, sample_at(set, index != NULL ? index[0] : 0), c * plane, 1, &origin);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *sample = sample_at(set, index != NULL ? index[i] : i);
        for (size_t p = 0; p < plane; p++) {
            read_values(set, sample, c * plane + p, 1, &x);
            double v = (double)x - (double)origin;
            sum += v;
            squares += v * v;
        }
    }
    double variance = squares / n - sum / n * (sum / n);
    *mean = (float)((double)origin + sum / n);
    *deviation = variance > 0 && (float)sqrt(variance) > 0 ? (float)sqrt(variance) : 1.0F;
}

void fedtrain_dataset_measure(const fedtrain_dataset *set, float *mean, float *deviation) {
    for (size_t c = 0; c < set->shape.c; c++) {
        measure_channel(set, NULL, set->count, c, &mean[c], &deviation[c]);
    }
}

fed_status fedtrain_dataset_normalise_by(fedtrain_dataset *set, const fedtrain_dataset *by,
                                         const uint32_t *index, size_t n) {
    size_t channels = set->shape.c;
    FED_REQUIRE(n > 0 && channels > 0 && by->shape.c == channels, FED_EINVAL);
    float *mean = malloc(2 * channels * sizeof *mean);
    FED_REQUIRE(mean != NULL, FED_ENOMEM);
    for (size_t c = 0; c < channels; c++) {
        measure_channel(by, index, n, c, &mean[c], &mean[channels + c]);
    }
    fed_status status = fedtrain_dataset_normalise(set, mean, mean + channels);
    free(mean);
    return status;
}

fed_status fedtrain_dataset_normalise(fedtrain_dataset *set, const float *mean,
                                      const float *deviation) {
    size_t channels = set->shape.c;
    FED_REQUIRE(channels > 0, FED_EINVAL);
    for (size_t c = 0; c < channels; c++) {
        FED_REQUIRE(isfinite(mean[c]) && deviation[c] > 0 && isfinite(1.0F / deviation[c]) &&
                        isfinite(mean[c] / deviation[c]),
                    FED_EINVAL);
    }
    float *scale = malloc(channels * sizeof *scale), *shift = malloc(channels * sizeof *shift);
    if (scale == NULL || shift == NULL) {
        free(scale);
        free(shift);
        return FED_ENOMEM;
    }
    for (size_t c = 0; c < channels; c++) {
        scale[c] = 1.0F / deviation[c];
        shift[c] = -mean[c] / deviation[c];
    }
    free(set->scale);
    free(set->shift);
    set->scale = scale;
    set->shift = shift;
    return FED_OK;
}
