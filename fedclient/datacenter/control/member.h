/* What a watch sees of an exchange, and does to it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_MEMBER_H
#define FEDDC_MEMBER_H

#include "feddc/control.h"

/** feddc_exchange_look and feddc_exchange_abort, for tests without an exchange. */
typedef struct feddc_eyes {
    void (*look)(void *user, feddc_exchange_state *state);
    void (*abort)(void *user, const char *why);
    void *user;
} feddc_eyes;

/** NULL: see nothing. Keeps a copy. */
void feddc_watch_see(feddc_watch *watch, const feddc_eyes *eyes);

#endif
