/* Choose which tensors of a layout go into which frame, and copy the group of small tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/envelope_parts.h"

#include <string.h>

size_t fedcodec_coded_tensors(const fed_layout *layout) {
    return layout->count - layout->statistics - layout->controls;
}

size_t fedcodec_sections(const fed_layout *layout) {
    return layout->controls > 0 ? 2 : 1;
}

size_t fedcodec_statistics_offset(const fed_layout *layout) {
    return layout->statistics > 0 ? layout->tensors[layout->count - layout->statistics].offset
                                  : layout->size;
}

size_t fedcodec_statistics_size(const fed_layout *layout) {
    return layout->size - fedcodec_statistics_offset(layout);
}

size_t fedcodec_group_size(const fed_layout *layout, uint32_t small) {
    size_t n = 0;
    for (size_t k = 0; k < fedcodec_coded_tensors(layout); k++) {
        n += layout->tensors[k].size < small ? layout->tensors[k].size : 0;
    }
    return n;
}

uint32_t fedcodec_group_small(const fed_layout *layout, uint32_t small) {
    return fedcodec_group_size(layout, small) > 0 ? small : 0;
}

size_t fedcodec_group_frames(const fed_layout *layout, uint32_t small) {
    size_t frames = small > 0 ? 1U : 0U;
    for (size_t k = 0; k < fedcodec_coded_tensors(layout); k++) {
        frames += layout->tensors[k].size >= small ? 1 : 0;
    }
    return frames * fedcodec_sections(layout) + (layout->statistics > 0 ? 1U : 0U);
}

void fedcodec_group_gather(const fed_layout *layout, size_t section, uint32_t small,
                           const void *all, size_t width, void *group) {
    uint8_t *to = group;
    const size_t count = fedcodec_coded_tensors(layout);
    for (size_t k = 0; k < count; k++) {
        const fed_tensor *t = &layout->tensors[section * count + k];
        if (t->size < small) {
            memcpy(to, (const uint8_t *)all + t->offset * width, t->size * width);
            to += t->size * width;
        }
    }
}

void fedcodec_group_scatter(const fed_layout *layout, size_t section, uint32_t small,
                            const void *group, size_t width, void *all) {
    const uint8_t *from = group;
    const size_t count = fedcodec_coded_tensors(layout);
    for (size_t k = 0; k < count; k++) {
        const fed_tensor *t = &layout->tensors[section * count + k];
        if (t->size < small) {
            memcpy((uint8_t *)all + t->offset * width, from, t->size * width);
            from += t->size * width;
        }
    }
}
