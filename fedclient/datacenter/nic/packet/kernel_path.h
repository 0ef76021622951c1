/* What the kernel does with the line's frames beside the NIC: nothing, or forward the unmarked. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDNIC_KERNEL_PATH_H
#define FEDNIC_KERNEL_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * Two eBPF programs of some forty instructions. They are attached by links (TCX, Linux 6.6), which
 * end with the process that holds them: after a crash nothing is left behind.
 *
 * On what comes from the line, after the packet socket has its copy: the host's own stack sees
 * nothing of it, or it would answer ARP a second time. With `bypass`, what has none of the NIC's
 * marks and is no SYN goes to the TAP at once; and of what the host sends, likewise to the line.
 */
typedef struct fednic_kernel_path {
    int links[2]; /* -1: none */
} fednic_kernel_path;

/** tap, line: indices of the interfaces. Errors: FED_EVERSION this kernel is too old, or has no
 * eBPF; FED_EAUTH. */
fed_status fednic_kernel_path_open(uint32_t tap, uint32_t line, bool bypass,
                                   fednic_kernel_path *path, fed_error *err) FED_CHECKED;
void fednic_kernel_path_close(fednic_kernel_path *path);

#endif
