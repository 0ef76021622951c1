/* Makes one change of the model from all updates of a round, where each update's values can be
 * read. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COMBINE_H
#define FEDSERVER_COMBINE_H

#include "fedserver/rounds/rounds.h"

/** The function `combine` of fedserver_intake (intake.h). */
fed_status fedserver_combine(fedserver_rounds *rounds, fedserver_training *training,
                             fedserver_weights *weights, float *change, fed_error *err) FED_CHECKED;

#endif
