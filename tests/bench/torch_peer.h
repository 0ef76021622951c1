/* PyTorch in a process of its own (torch_worker.py), which trains on request. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TORCH_PEER_H
#define TORCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct torch_peer {
    pid_t pid;
    FILE *to, *from;
    char about[512]; /* PyTorch's version and BLAS */
} torch_peer;

/** Start a worker. unit: "avx512" or "avx2" limits it to that vector unit. Python is
 * $FED_TORCH_PYTHON, or the first of several that has PyTorch. Returns false if none has. The
 * caller ends the worker with torch_peer_stop. */
bool torch_peer_start(torch_peer *peer, const char *unit);
void torch_peer_stop(torch_peer *peer); /* a zeroed peer is allowed */

/** Choose the net (of torch_models.py), the batch and the optimizer ("sgd" or "adam"). */
void torch_peer_case(torch_peer *peer, const char *net, size_t batch, const char *optimizer);

/** Train for so many seconds, in a way of torch_worker.py. Returns samples per second of CPU time;
 * 0: this PyTorch lacks the way. */
double torch_peer_slice(torch_peer *peer, const char *way, double seconds);

#endif
