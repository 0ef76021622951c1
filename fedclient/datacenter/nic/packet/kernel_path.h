/* eBPF programs that keep the line's frames from the host's stack, and may forward unmarked
 * frames. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_KERNEL_PATH_H
#define FEDNIC_KERNEL_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/* Two eBPF programs. Links (TCX, Linux 6.6) attach them, and end with the process. The first gets
 * the line's frames after the packet socket has got its copy. It drops them: otherwise the host's
 * own stack would answer too, for example ARP. With `bypass` it sends unmarked frames without SYN
 * directly to the TAP device. The second, only with `bypass`, sends such frames of the host
 * directly to the line. */
typedef struct fednic_kernel_path {
    int links[2]; /* -1: none */
} fednic_kernel_path;

/** tap, line: indices of the interfaces. Errors: FED_EVERSION the kernel is too old, or has no
 * eBPF; FED_EAUTH. */
fed_status fednic_kernel_path_open(uint32_t tap, uint32_t line, bool bypass,
                                   fednic_kernel_path *path, fed_error *err) FED_CHECKED;
void fednic_kernel_path_close(fednic_kernel_path *path);

#endif
