/* A list of events, in the order of their arrival. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/held.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 4 };

fed_status feddc_held_add(feddc_held *held, const feddc_event *event, fed_error *err) {
    if (held->count == held->room) {
        size_t room = held->room > 0 ? 2 * held->room : FIRST_ROOM;
        feddc_event *more = realloc(held->event, room * sizeof *more);
        if (more == NULL) {
            return fed_fail(err, FED_ENOMEM, "no memory for %zu messages that came early", room);
        }
        held->event = more;
        held->room = room;
    }
    held->event[held->count++] = *event;
    return FED_OK;
}

bool feddc_held_take(feddc_held *held, uint32_t step, feddc_event *event) {
    size_t k = 0;
    while (k < held->count && held->event[k].head.step != step) {
        k++;
    }
    if (k == held->count) {
        return false;
    }
    *event = held->event[k];
    held->count--;
    memmove(held->event + k, held->event + k + 1, (held->count - k) * sizeof *event);
    return true;
}

void feddc_held_free(feddc_held *held) {
    free(held->event);
    *held = (feddc_held){0};
}
