/* Asks the system what the machine has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/machine.h"

#include <unistd.h>

uint64_t fed_machine_bytes(void) {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}
