/* Build, search and compare the layouts of tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/model.h"

#include <stdlib.h>
#include <string.h>

#include "fed/small.h"

/* The most values of a model. On a 32-bit machine a size_t must hold their bytes. */
static const size_t LAYOUT_SIZE_MAX = (size_t)1 << (sizeof(size_t) == 8 ? 40 : 28);

void fed_layout_init(fed_layout *layout) {
    *layout = (fed_layout){0};
}

void fed_layout_free(fed_layout *layout) {
    free(layout->tensors);
    fed_layout_init(layout);
}

static fed_status tensor_size(uint32_t rank, const uint32_t *dims, size_t *size) {
    size_t product = 1;
    for (uint32_t i = 0; i < rank; i++) {
        FED_REQUIRE(dims[i] > 0 && dims[i] <= LAYOUT_SIZE_MAX / product, FED_ERANGE);
        product *= dims[i];
    }
    *size = product;
    return FED_OK;
}

/* Return for how many tensors there is memory once there are `count`: no more where they are few,
 * above that the next power of two, so that a long layout is not copied for each tensor. */
static size_t room_for(size_t count) {
    enum { FEW = 64 };
    size_t room = count;
    if (!FED_SMALL && count > FEW) {
        room = FEW;
        while (room < count) {
            room *= 2;
        }
    }
    return room;
}

static fed_status make_room(fed_layout *layout) {
    const size_t room = room_for(layout->count + 1);
    if (!FED_SMALL && layout->count > 0 && room == room_for(layout->count)) {
        return FED_OK;
    }
    fed_tensor *tensors = realloc(layout->tensors, room * sizeof *tensors);
    FED_REQUIRE(tensors != NULL, FED_ENOMEM);
    layout->tensors = tensors;
    return FED_OK;
}

fed_status fed_layout_append(fed_layout *layout, const char *name, uint32_t rank,
                             const uint32_t *dims) {
    size_t size = 0;
    const size_t name_len = strlen(name);
    FED_REQUIRE(name_len > 0 && name_len < FED_TENSOR_NAME, FED_EINVAL);
    FED_REQUIRE(rank <= FED_TENSOR_RANK, FED_EINVAL);
    FED_TRY(tensor_size(rank, dims, &size));
    FED_REQUIRE(size <= LAYOUT_SIZE_MAX - layout->size, FED_ERANGE);
    FED_TRY(make_room(layout));
    fed_tensor *tensor = &layout->tensors[layout->count++];
    memset(tensor, 0, sizeof *tensor);
    memcpy(tensor->name, name, name_len);
    for (uint32_t k = 0; k < rank; k++) { /* a scalar's dims may be NULL */
        tensor->dims[k] = dims[k];
    }
    tensor->rank = rank;
    tensor->offset = layout->size;
    tensor->size = size;
    layout->size += size;
    return FED_OK;
}

fed_status fed_layout_add(fed_layout *layout, const char *name, uint32_t rank,
                          const uint32_t *dims) {
    FED_REQUIRE(fed_layout_find(layout, name) == NULL, FED_EINVAL);
    return fed_layout_append(layout, name, rank, dims);
}

const fed_tensor *fed_layout_find(const fed_layout *layout, const char *name) {
    for (size_t i = 0; i < layout->count; i++) {
        if (strcmp(layout->tensors[i].name, name) == 0) {
            return &layout->tensors[i];
        }
    }
    return NULL;
}

static fed_status tensor_match(size_t index, const fed_tensor *a, const fed_tensor *b,
                               fed_error *err) {
    if (strcmp(a->name, b->name) != 0) {
        return fed_fail(err, FED_EINVAL,
                        "tensor %zu is \"%s\" in one model and \"%s\" in the other", index, a->name,
                        b->name);
    }
    if (a->rank != b->rank) {
        return fed_fail(err, FED_EINVAL,
                        "tensor \"%s\" has %u dimensions in one model and %u in the "
                        "other",
                        a->name, a->rank, b->rank);
    }
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i] != b->dims[i]) {
            return fed_fail(err, FED_EINVAL,
                            "dimension %u of tensor \"%s\" is %u in one model and %u in the other",
                            i, a->name, a->dims[i], b->dims[i]);
        }
    }
    return FED_OK;
}

fed_status fed_layout_match(const fed_layout *a, const fed_layout *b, fed_error *err) {
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        FED_TRY(tensor_match(i, &a->tensors[i], &b->tensors[i], err));
    }
    if (a->count != b->count) {
        return fed_fail(err, FED_EINVAL, "one model has %zu tensors and the other %zu", a->count,
                        b->count);
    }
    return FED_OK;
}

void fed_model_free(fed_model *model) {
    fed_layout_free(&model->layout);
    free(model->values);
    model->values = NULL;
}

/* NaN and infinity are the values whose exponent bits are all ones. */
static int is_nonfinite(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}

size_t fed_first_nonfinite(const float *x, size_t n) {
    enum { BLOCK = 256 };
    size_t i = 0;
    /* Test whole blocks without a branch, so that the compiler can vectorise the loop. Then search
     * the block for the value. */
    for (; n - i >= BLOCK; i += BLOCK) {
        int any = 0;
        for (size_t k = 0; k < BLOCK; k++) {
            any |= is_nonfinite(x[i + k]);
        }
        if (any) {
            break;
        }
    }
    while (i < n && !is_nonfinite(x[i])) {
        i++;
    }
    return i;
}
