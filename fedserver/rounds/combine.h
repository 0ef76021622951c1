/* One change of the model from all updates of a round whose values are plain. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_COMBINE_H
#define FEDSERVER_COMBINE_H

#include "fedserver/rounds/rounds.h"

/** As fedserver_intake.combine. */
fed_status fedserver_combine(fedserver_rounds *rounds, fedserver_training *training,
                             fedserver_weights *weights, float *change, fed_error *err) FED_CHECKED;

#endif
