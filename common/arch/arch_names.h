/* Internal to common/arch: find the tensors of a long layout by their names. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_ARCH_NAMES_H
#define COMMON_ARCH_NAMES_H

#include <stdbool.h>

#include "fed/model.h"

/** A hash table of a layout's names. To find a name takes a time that does not grow with their
 * number. A table of zeros has no names, and is free. */
typedef struct arch_names {
    uint32_t *places; /* [size]: the number of a tensor, from 1; 0: none */
    size_t size;      /* a power of two, above the number of names */
} arch_names;

/** Make an empty table for at most `most` names, below 2^32. Free with arch_names_free. */
fed_status arch_names_open(arch_names *names, size_t most) FED_CHECKED;
void arch_names_free(arch_names *names);

/** Find the tensor of this name among those added; NULL: there is none. */
const fed_tensor *arch_names_find(const arch_names *names, const fed_layout *layout,
                                  const char *name);

/** Append a tensor to the layout, and add its name. Errors: those of fed_layout_add. */
fed_status arch_names_add(arch_names *names, fed_layout *layout, const char *name, uint32_t rank,
                          const uint32_t *dims) FED_CHECKED;

/** Make a table of all names of a layout. */
fed_status arch_names_of(const fed_layout *layout, arch_names *names) FED_CHECKED;

#endif
