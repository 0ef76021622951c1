/* The log of a run: its rounds and its clients. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SIM_LOG_H
#define FEDSIM_SIM_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * Bytes are HTTP requests and answers with their heads, after enrolment; TLS adds its own. A
 * client's bytes are charged to the round that it took part in, or waited for.
 */

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

/** A round that was committed. A stopped run saves it as it lies in memory: so there are only
 * numbers here, and no padding. */
typedef struct sim_round {
    double virtual_s; /* of its commit, since the first check-in: INPROC virtual, HTTPS real time */
    double wall_s;    /* real time since then */
    uint32_t round;   /* from 1; the model that came of it has this version */
    uint32_t counted; /* updates in it */
    uint32_t refused; /* that came too late, and stayed in their clients' residuals */
    uint32_t broken;  /* uploads that broke and were sent again */
    uint64_t up_bytes; /* of all clients */
    uint64_t down_bytes;
    uint64_t update_bytes; /* envelopes of the counted updates alone */
    uint64_t delta_bytes;  /* the envelope of its delta */
    double train_loss;     /* mean over the counted updates */
    double test_loss;      /* NAN: this model was not measured */
    double accuracy;       /* 0 to 1; of a text: of the next symbol; NAN likewise */
} sim_round;

#pragma GCC diagnostic pop

typedef struct sim_account {
    uint64_t up_bytes, down_bytes;
    uint32_t counted, refused, broken;
    uint32_t samples; /* of its shard */
    double busy_s;    /* time spent training: INPROC virtual, HTTPS CPU time */
    bool present;     /* took part to the end */
    bool identical;   /* is present, and holds the coordinator's model bit for bit */
} sim_account;

typedef struct sim_log {
    sim_round *rounds;
    size_t round_count;
    sim_account *clients;
    size_t client_count;
    uint8_t *attended; /* a bit for each client, row by row of round_count rows, each of
                          sim_log_row bytes: its update was counted in that round */
    size_t parameters; /* trained ones */
    uint64_t steps;    /* local steps in counted updates, all clients together */
    uint64_t digest;   /* of the coordinator's final model */
    uint32_t kills;    /* of the coordinator, survived */
    bool finished;     /* false: stopped before the task's last round; --resume goes on */
    double wall_s, train_cpu_s, evaluate_cpu_s, total_cpu_s; /* with earlier parts of the run */
} sim_log;

/** Bytes of a row of `attended`. */
size_t sim_log_row(size_t clients);
/** Make room for another round; *round is all 0, but for NAN where nothing was measured. */
fed_status sim_log_add(sim_log *log, sim_round **round) FED_CHECKED;
void sim_log_attend(sim_log *log, size_t round_index, size_t client);
bool sim_log_attended(const sim_log *log, size_t round_index, size_t client);
/** The accuracy of the last model that was measured; NAN: none was, or it predicts numbers. */
double sim_log_accuracy(const sim_log *log);

/** The test loss of the last model that was measured; NAN: none was. */
double sim_log_test_loss(const sim_log *log);
void sim_log_free(sim_log *log);

#endif
