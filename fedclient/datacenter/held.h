/* Messages that arrived before their time: kept until their step begins. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_HELD_H
#define FEDDC_HELD_H

#include <stdbool.h>
#include <stddef.h>

#include "feddc/link.h"

/** Zeroed at first. */
typedef struct feddc_held {
    feddc_event *event;
    size_t count, room;
} feddc_held;

/** Keep an event, behind those that are held. Errors: FED_ENOMEM */
fed_status feddc_held_add(feddc_held *held, const feddc_event *event, fed_error *err) FED_CHECKED;

/** Take out the first event of this step. false: there is none. */
bool feddc_held_take(feddc_held *held, uint32_t step, feddc_event *event);

/** Forget all events: their link is closed. */
void feddc_held_free(feddc_held *held);

#endif
