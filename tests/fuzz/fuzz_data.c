/* Fuzz data files: each accepted file must give a valid data set. The first byte of an input
 * chooses the reader. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>

#include "fedclient/train/data/input.h"
#include "fedtrain/dataset.h"
#include "fedtrain/text.h"

enum { LIMIT = 1 << 20 };

static void check_set(const fedtrain_dataset *set, size_t most) {
    size_t size = (size_t)set->shape.c * set->shape.h * set->shape.w;
    require(set->count > 0 && size > 0 && set->count <= most && size <= most);
    float *x = fuzz_allocate(size * sizeof *x);
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t label = 0;
        fedtrain_dataset_gather(set, &i, 1, x, &label);
        require(set->target != NULL ? isfinite(set->target[i]) : label < set->classes);
        require(isfinite(x[0]) && isfinite(x[size - 1]));
    }
    free(x);
}

static void check_text(const fedtrain_text *text) {
    size_t words = fedtrain_vocabulary_size(text->words);
    require(text->units > 0 && text->unit[0] == 0 && text->unit[text->units] == text->count);
    for (size_t u = 0; u < text->units; u++) {
        require(text->unit[u] <= text->unit[u + 1]);
        require(text->group == NULL || text->group[u] < text->groups);
    }
    for (size_t i = 0; i < text->count; i++) {
        require(text->token[i] < words);
    }
}

static fedtrain_input input_of(const uint8_t *data, size_t size) {
    return (fedtrain_input){.path = "fuzz", .bytes = {FEDTRAIN_BORROWED, data, size}};
}

/* Read a pair of files with labels and images. The first byte is where the images begin. */
static fed_status parse_pair(const uint8_t *data, size_t size, fedtrain_dataset *set) {
    size_t cut = size > 0 && data[0] < size ? data[0] : 0;
    fedtrain_input labels = input_of(data + (size > 0), cut > 0 ? cut - 1 : 0);
    fedtrain_input images = input_of(data + cut, size - cut);
    return fedtrain_idx_parse(&images, &labels, set, NULL);
}

static fed_status parse_set(unsigned kind, const uint8_t *data, size_t size,
                            fedtrain_dataset *set) {
    fedtrain_input in = input_of(data, size);
    switch (kind) {
    case 0:
        return parse_pair(data, size, set);
    case 1:
        return fedtrain_cifar_parse(&in, 1, 10, set, NULL);
    case 2:
        if (size % 2 == 1) {
            return fedtrain_csv_parse_targets(&in, "first", set, NULL);
        }
        return fedtrain_csv_parse(&in, "last", NULL, set, NULL);
    default:
        return fedtrain_csv_parse(&in, "y", &in, set, NULL);
    }
}

static void parse_text(unsigned kind, const uint8_t *data, size_t size) {
    const fedtrain_text_kind how = {
        .characters = kind == 4, .vocabulary = kind == 5 ? 10 : 100000, .from = 0, .end = 10};
    fedtrain_input in = input_of(data, size);
    fedtrain_text text;
    if (fedtrain_text_parse(&in, &how, NULL, &text, NULL) == FED_OK) {
        check_text(&text);
        fedtrain_text_free(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    unsigned kind = data[0] % 8;
    data++;
    size--;
    if (kind < 4) {
        fedtrain_dataset set = {0};
        if (parse_set(kind, data, size, &set) == FED_OK) {
            check_set(&set, size);
        }
        fedtrain_dataset_free(&set);
    } else if (kind < 7) {
        parse_text(kind, data, size);
    } else {
        fedtrain_bytes bytes = {0};
        if (fedtrain_gunzip("fuzz", data, size, LIMIT, &bytes, NULL) == FED_OK) {
            require(bytes.len <= LIMIT);
        }
        fedtrain_bytes_release(&bytes);
    }
    return 0;
}
