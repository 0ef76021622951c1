/* Remembers which devices get no slot of the open round, since their update was left out of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/rounds/shut_out.h"

#include <stdlib.h>
#include <string.h>

bool fedserver_shut_out(const fedserver_training *t, int64_t device) {
    return t->shut_out.count > 0 &&
           fedserver_marks_get(&t->shut_out, device, 0) == (int64_t)t->round.number;
}

fed_status fedserver_shut_out_note(fedserver_training *t, int64_t device, fed_error *err) {
    return fedserver_marks_set(&t->shut_out, device, t->round.number, err);
}

fed_status fedserver_shut_out_load(fedserver_training *t, const fedserver_decline *decline,
                                   fed_error *err) {
    const size_t begins = strlen(FEDSERVER_SHUT_OUT);
    return strncmp(decline->reason, FEDSERVER_SHUT_OUT, begins) == 0
               ? fedserver_marks_set(&t->shut_out, decline->device,
                                     strtoll(decline->reason + begins, NULL, 10), err)
               : FED_OK;
}
