/* Reads the updates of an open round from the store again. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_STORED_H
#define FEDSERVER_STORED_H

#include "fedserver/rounds/intake.h"

/** A function called for each stored update, whose values are open during the call. */
typedef fed_status (*fedserver_stored_visit)(void *user, const fedserver_update_row *row,
                                             const fedserver_update *update, fed_error *err);

/** Visit the stored updates that count in the round, in the order of arrival. FED_EFORMAT: an
 * update is damaged, or does not count in that round. */
fed_status fedserver_stored_each(const fedserver_rounds *rounds, const fedserver_training *training,
                                 uint32_t round, fedserver_stored_visit visit, void *user,
                                 fed_error *err) FED_CHECKED;

/** Add the stored updates of `round` to the training's sum, which must be empty. `round` is the
 * open round, or the one after it. */
fed_status fedserver_stored_load(const fedserver_rounds *rounds, fedserver_training *training,
                                 uint32_t round, fed_error *err) FED_CHECKED;

#endif
