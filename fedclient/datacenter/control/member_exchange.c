/* Connect a watch with a real exchange. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/control/member.h"

static void look(void *user, feddc_exchange_state *state) {
    feddc_exchange_look(user, state);
}

static void abort_exchange(void *user, const char *why) {
    feddc_exchange_abort(user, why);
}

void feddc_watch_exchange(feddc_watch *watch, feddc_exchange *exchange) {
    feddc_eyes eyes = {look, abort_exchange, exchange};
    feddc_watch_see(watch, exchange == NULL ? NULL : &eyes);
}
