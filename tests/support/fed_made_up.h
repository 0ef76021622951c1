/* A run's log that nobody ran, for what reads logs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_MADE_UP_H
#define FED_MADE_UP_H

#include "deploy/sim/report/sim_log.h"

/** Every second model is measured. rate: of bytes and of learning, about 1. sim_log_free it. */
void fed_made_up_log(sim_log *log, size_t clients, size_t rounds, double rate);

#endif
