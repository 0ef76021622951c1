/* What the machine has that a program runs on. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_MACHINE_H
#define FED_MACHINE_H

#include <stdint.h>

#include "fed/api.h"

FED_API_BEGIN

/** The machine's memory, in bytes; 0: the system does not tell. A container's own limit does not
 * count. */
uint64_t fed_machine_bytes(void);

FED_API_END

#endif
