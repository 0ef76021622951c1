/* PyTorch as a process of its own (torch_worker.py), which trains on request. */
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

/** Start a worker on the caller's processor. `unit` "avx512" or "avx2" limits it to that vector
 * unit; any other text sets no limit. Python is $FED_TORCH_PYTHON, else the first with PyTorch of
 * build/python-venv (deploy/setup.sh --python), python3 and /usr/bin/python3. Returns false if none
 * has PyTorch. The caller ends the worker with torch_peer_stop. */
bool torch_peer_start(torch_peer *peer, const char *unit);
void torch_peer_stop(torch_peer *peer); /* safe on a zeroed peer */

/** From now on the worker trains this net of tests/parity/torch_models.py, by "sgd" or "adam". */
void torch_peer_case(torch_peer *peer, const char *net, size_t batch, const char *optimizer);

/** Train for so many seconds, in a way that torch_worker.py lists. Returns samples per second of
 * CPU time; 0: this PyTorch lacks the way. */
double torch_peer_slice(torch_peer *peer, const char *way, double seconds);

#endif
