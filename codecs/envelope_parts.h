/* Internal to the library: functions that writing and reading an envelope share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCODEC_ENVELOPE_PARTS_H
#define FEDCODEC_ENVELOPE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "fed/model.h"

enum {
    FEDCODEC_MAGIC_0 = 0xfe,
    FEDCODEC_MAGIC_1 = 0xdc,
    FEDCODEC_VERSION = 2,
    FEDCODEC_MORE_STATISTICS = 1, /* is added to the version: the last frame has statistics */
    FEDCODEC_MORE_VARIATES = 2,   /* is added to the version: there are control variates */
    FEDCODEC_VERSION_LAST = 5,
    FEDCODEC_MAGIC_SIZE = 3
};

/* The id of the codec for running statistics: float32. */
enum { FEDCODEC_EXACT = 1 };

/* A frame's first byte: the codec's id in the low bits, the second stage's id above. */
enum { FEDCODEC_STAGE_SHIFT = 6, FEDCODEC_ID_MASK = (1 << FEDCODEC_STAGE_SHIFT) - 1 };

/*
 * Running statistics: the layout's last tensors, in one frame, always as float32.
 */

/** Return the number of tensors that are neither statistics nor control variates. These are the
 * layout's first ones, the first section. */
size_t fedcodec_coded_tensors(const fed_layout *layout);

/** Return the number of sections: 2 with control variates, else 1. The second section has as many
 * tensors as the first, of the same sizes. */
size_t fedcodec_sections(const fed_layout *layout);

/** Return the offset of the statistics in a buffer of the whole layout, and their number of
 * values. */
size_t fedcodec_statistics_offset(const fed_layout *layout);
size_t fedcodec_statistics_size(const fed_layout *layout);

/*
 * The group of a section: its tensors of fewer than `small` values, one after the other in the
 * layout's order, as if they were one tensor. If they have no values there is no group.
 */

size_t fedcodec_group_size(const fed_layout *layout, uint32_t small);

/** Return the limit in an envelope's head: small, or 0 if there is no group. */
uint32_t fedcodec_group_small(const fed_layout *layout, uint32_t small);

/** Return the number of frames of an envelope with this limit, the statistics' frame included. */
size_t fedcodec_group_frames(const fed_layout *layout, uint32_t small);

/** Copy the group's values out of a buffer of the whole layout (gather), or back into it (scatter).
 * section: 0 or 1. width: bytes of one value. */
void fedcodec_group_gather(const fed_layout *layout, size_t section, uint32_t small,
                           const void *all, size_t width, void *group);
void fedcodec_group_scatter(const fed_layout *layout, size_t section, uint32_t small,
                            const void *group, size_t width, void *all);

#endif
