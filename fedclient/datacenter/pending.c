/* A list of messages that arrived early, in order of arrival. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/pending.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 4 };

fed_status feddc_pending_add(feddc_pending *pending, const feddc_event *event, fed_error *err) {
    if (pending->count == pending->room) {
        size_t room = pending->room > 0 ? 2 * pending->room : FIRST_ROOM;
        feddc_event *more = realloc(pending->event, room * sizeof *more);
        if (more == NULL) {
            return fed_fail(err, FED_ENOMEM, "out of memory for %zu messages that came early",
                            room);
        }
        pending->event = more;
        pending->room = room;
    }
    pending->event[pending->count++] = *event;
    return FED_OK;
}

bool feddc_pending_take(feddc_pending *pending, uint32_t step, feddc_event *event) {
    size_t k = 0;
    while (k < pending->count && pending->event[k].head.step != step) {
        k++;
    }
    if (k == pending->count) {
        return false;
    }
    *event = pending->event[k];
    pending->count--;
    memmove(pending->event + k, pending->event + k + 1, (pending->count - k) * sizeof *event);
    return true;
}

void feddc_pending_free(feddc_pending *pending) {
    free(pending->event);
    *pending = (feddc_pending){0};
}
