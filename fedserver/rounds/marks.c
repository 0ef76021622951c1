/* Keeps a number for each of some devices in a sorted list. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/marks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void fedserver_marks_free(fedserver_marks *marks) {
    free(marks->items);
    *marks = (fedserver_marks){0};
}

static size_t lower_bound(const fedserver_marks *marks, int64_t device) {
    size_t low = 0, high = marks->count;
    if (high > 0 && marks->items[high - 1].device < device) {
        return high;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (marks->items[middle].device < device) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

fed_status fedserver_marks_set(fedserver_marks *marks, int64_t device, int64_t value,
                               fed_error *err) {
    const size_t at = lower_bound(marks, device);
    if (at < marks->count && marks->items[at].device == device) {
        marks->items[at].value = value;
        return FED_OK;
    }
    if (marks->count == marks->cap) {
        const size_t cap = marks->cap == 0 ? 16 : 2 * marks->cap;
        fedserver_mark *items = realloc(marks->items, cap * sizeof *items);
        if (items == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for marks of %zu devices", cap);
        }
        marks->items = items;
        marks->cap = cap;
    }
    /* S15 in docs/durability.md: a device has one mark. */
    assert(at == marks->count || device < marks->items[at].device);
    memmove(marks->items + at + 1, marks->items + at, (marks->count - at) * sizeof *marks->items);
    marks->items[at] = (fedserver_mark){device, value};
    marks->count++;
    return FED_OK;
}

int64_t fedserver_marks_get(const fedserver_marks *marks, int64_t device, int64_t none) {
    const size_t at = lower_bound(marks, device);
    return at < marks->count && marks->items[at].device == device ? marks->items[at].value : none;
}
