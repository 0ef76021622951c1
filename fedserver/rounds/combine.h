/* Combines a round's updates into one change of the model. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COMBINE_H
#define FEDSERVER_COMBINE_H

#include "fedserver/rounds/rounds.h"

/** The function `combine` of fedserver_intake (intake.h). */
fed_status fedserver_combine(fedserver_rounds *rounds, fedserver_training *training,
                             fedserver_weights *weights, float *change, fed_error *err) FED_CHECKED;

#endif
