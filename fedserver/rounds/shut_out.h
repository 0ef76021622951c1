/* Remembers which devices get no slot of the open round, since their update was left out of it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_SHUT_OUT_H
#define FEDSERVER_SHUT_OUT_H

#include "fedserver/rounds/rounds.h"

/** How the stored reason begins when the coordinator declines a task for a device whose update was
 * left out (rounds/left_out.h). The round's number follows. */
#define FEDSERVER_SHUT_OUT "the helper can't open what it sealed in round "

/** Was an update of the device left out of the round that is open? */
bool fedserver_shut_out(const fedserver_training *training, int64_t device);

/** Note that an update of the device is left out of the open round. */
fed_status fedserver_shut_out_note(fedserver_training *training, int64_t device,
                                   fed_error *err) FED_CHECKED;

/** Read the note back from a stored decline, if its reason begins with FEDSERVER_SHUT_OUT. */
fed_status fedserver_shut_out_load(fedserver_training *training, const fedserver_decline *decline,
                                   fed_error *err) FED_CHECKED;

#endif
