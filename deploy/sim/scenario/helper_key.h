/* The key of a simulation's helper of private sums. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_HELPER_KEY_H
#define FEDSIM_HELPER_KEY_H

#include <stdint.h>

#include "fed/error.h"
#include "fed/point.h"
#include "fed/privacy.h"

enum { SIM_HELPER_HEX = 2 * FED_SEAL_KEY + 1 };

/** A simulation's helper has a key that follows from the seed, so that the task's text does. It
 * protects nobody: one process, or one machine, has the coordinator, the helper and all clients. */
fed_status sim_helper_key(uint64_t seed, uint8_t secret[FED_POINT_SECRET],
                          uint8_t key[FED_SEAL_KEY], fed_error *err) FED_CHECKED;
/** Write the key as a task names it. */
fed_status sim_helper_hex(uint64_t seed, char hex[SIM_HELPER_HEX], fed_error *err) FED_CHECKED;

#endif
