/* Functions by which a watch looks at an exchange and aborts it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MEMBER_H
#define FEDDC_MEMBER_H

#include "feddc/control.h"

/** Pointers to feddc_exchange_look and feddc_exchange_abort, or to a test's functions. */
typedef struct feddc_eyes {
    void (*look)(void *user, feddc_exchange_state *state);
    void (*abort)(void *user, const char *why);
    void *user;
} feddc_eyes;

/** Look at this exchange from now on; eyes NULL: at none. *eyes is copied. */
void feddc_watch_see(feddc_watch *watch, const feddc_eyes *eyes);

#endif
