/* A hash table of a layout's names, with linear probing. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/arch/arch_names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"

fed_status arch_names_open(arch_names *names, size_t most) {
    size_t size = 2;
    while (size / 2 < most) {
        size *= 2;
    }
    uint32_t *places = calloc(size, sizeof *places);
    FED_REQUIRE(places != NULL, FED_ENOMEM);
    *names = (arch_names){.places = places, .size = size};
    return FED_OK;
}

void arch_names_free(arch_names *names) {
    free(names->places);
    *names = (arch_names){0};
}

/* The place of a name: that of its tensor, or the free one where it would be. */
static uint32_t *place_of(const arch_names *names, const fed_layout *layout, const char *name) {
    size_t at = (size_t)fed_digest_bytes(name, strlen(name)) & (names->size - 1);
    while (names->places[at] != 0 &&
           strcmp(layout->tensors[names->places[at] - 1].name, name) != 0) {
        at = (at + 1) & (names->size - 1);
    }
    return &names->places[at];
}

const fed_tensor *arch_names_find(const arch_names *names, const fed_layout *layout,
                                  const char *name) {
    const uint32_t number = names->size > 0 ? *place_of(names, layout, name) : 0;
    return number != 0 ? &layout->tensors[number - 1] : NULL;
}

fed_status arch_names_add(arch_names *names, fed_layout *layout, const char *name, uint32_t rank,
                          const uint32_t *dims) {
    assert(layout->count < names->size / 2); /* so there is a free place, and the search ends */
    uint32_t *place = place_of(names, layout, name);
    FED_REQUIRE(*place == 0, FED_EINVAL);
    FED_TRY(fed_layout_append(layout, name, rank, dims));
    *place = (uint32_t)layout->count;
    return FED_OK;
}

fed_status arch_names_of(const fed_layout *layout, arch_names *names) {
    FED_TRY(arch_names_open(names, layout->count));
    for (size_t i = 0; i < layout->count; i++) {
        *place_of(names, layout, layout->tensors[i].name) = (uint32_t)i + 1;
    }
    return FED_OK;
}
