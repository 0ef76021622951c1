/* The group of small tensors: gathered from a buffer of the whole layout, scattered back into it.
 */
#include "codecs/envelope_parts.h"

#include <string.h>

size_t fedcodec_group_size(const fed_layout *layout, uint32_t small) {
    size_t n = 0;
    for (size_t k = 0; k < layout->count; k++) {
        n += layout->tensors[k].size < small ? layout->tensors[k].size : 0;
    }
    return n;
}

uint32_t fedcodec_group_small(const fed_layout *layout, uint32_t small) {
    return fedcodec_group_size(layout, small) > 0 ? small : 0;
}

size_t fedcodec_group_frames(const fed_layout *layout, uint32_t small) {
    size_t frames = small > 0 ? 1 : 0;
    for (size_t k = 0; k < layout->count; k++) {
        frames += layout->tensors[k].size >= small ? 1 : 0;
    }
    return frames;
}

void fedcodec_group_gather(const fed_layout *layout, uint32_t small, const void *all, size_t width,
                           void *group) {
    uint8_t *to = group;
    for (size_t k = 0; k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        if (t->size < small) {
            memcpy(to, (const uint8_t *)all + t->offset * width, t->size * width);
            to += t->size * width;
        }
    }
}

void fedcodec_group_scatter(const fed_layout *layout, uint32_t small, const void *group,
                            size_t width, void *all) {
    const uint8_t *from = group;
    for (size_t k = 0; k < layout->count; k++) {
        const fed_tensor *t = &layout->tensors[k];
        if (t->size < small) {
            memcpy((uint8_t *)all + t->offset * width, from, t->size * width);
            from += t->size * width;
        }
    }
}
