/* Messages that arrived early: they are kept until they can be used. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_PENDING_H
#define FEDDC_PENDING_H

#include <stdbool.h>
#include <stddef.h>

#include "feddc/link.h"

/** All zeros: an empty list. */
typedef struct feddc_pending {
    feddc_event *event;
    size_t count, room;
} feddc_pending;

/** Append an event to the list. Errors: FED_ENOMEM */
fed_status feddc_pending_add(feddc_pending *pending, const feddc_event *event,
                             fed_error *err) FED_CHECKED;

/** Take out the first event of this step. false: there is none. */
bool feddc_pending_take(feddc_pending *pending, uint32_t step, feddc_event *event);

/** Free the list. Its events are not released, because their link is closed. */
void feddc_pending_free(feddc_pending *pending);

#endif
