/* Programs that train and measure in the place of the simulator's own trainer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_TRAINERS_H
#define FEDSIM_TRAINERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "fed/error.h"
#include "fedclient/fedclient.h"

/*
 * Each trainer is a process of its own, at the other end of a socket pair (AF_UNIX,
 * SOCK_SEQPACKET). It handles one request at a time. The model's values do not travel: they lie in
 * memory that both processes map. docs/fedsim.md#trainers-of-your-own has the messages.
 */

enum { SIM_TRAINERS_MOST = 1024 }; /* at most */

typedef struct sim_trainer {
    int socket;
    float *values; /* float32[room]: the shared memory */
    size_t room;
    uint32_t asked; /* the number of the newest request */
    bool owes;      /* its answer has not come yet */
    uint32_t last;  /* 1 + the client of the newest request that was sent; 0: none was */
} sim_trainer;

/** What a trainer is told beside the round. */
typedef struct sim_training {
    uint32_t client;
    uint32_t again; /* earlier trainings of this client in this round */
} sim_training;

/** What a trainer has answered. */
typedef struct sim_trained {
    uint32_t samples;
    uint32_t correct; /* SIM_NO_CORRECT: the trainer does not count them */
    float loss;       /* NaN: none */
    uint64_t cpu_us;
} sim_trained;

#define SIM_NO_CORRECT UINT32_MAX

/** Read "5,6,7": the numbers of open sockets. socket: int[SIM_TRAINERS_MOST]. FED_EINVAL: *err says
 * which is none. */
fed_status sim_trainers_read(const char *text, int *sockets, uint32_t *count,
                             fed_error *err) FED_CHECKED;

/** Let the trainer train round->values in place, or (round->round is 0) measure them. Waits for it;
 * while it waits, *stop may become non-zero.
 * Errors: FED_ECANCELED *stop is not 0; FED_EIO the trainer's process has ended; FED_ESTATE the
 * trainer failed, and *err has its reason. */
fed_status sim_trainer_ask(sim_trainer *trainer, const sim_training *training,
                           const fedclient_round *round, const atomic_int *stop,
                           sim_trained *trained, fed_error *err) FED_CHECKED;

/** Unmap the memory. The socket stays open: the next run of a grid uses it too. */
void sim_trainer_close(sim_trainer *trainer);

#endif
