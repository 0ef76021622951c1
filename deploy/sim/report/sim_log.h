/* The log of a run: its rounds and its clients. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_SIM_LOG_H
#define FEDSIM_SIM_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/error.h"

/*
 * Bytes are HTTP requests and answers with their heads, after enrolment; TLS adds its own. When a
 * client's step ends, its bytes are charged to its update's round, or else to the newest round.
 */

#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"

/** One round. A stopped run saves the struct byte for byte, so it has only numbers, and no
 * padding. */
typedef struct sim_round {
    double virtual_s; /* the commit's time since the first check-in; over HTTPS real time */
    double wall_s;    /* real time from the first check-in to the commit */
    uint32_t round;   /* from 1; also the version of the model that the round made */
    uint32_t counted;
    uint32_t refused;  /* updates that were not counted, and stay in their clients' residuals;
                        * trainings that left NaN or infinity */
    uint32_t broken;   /* uploads that broke */
    uint64_t up_bytes; /* bytes that all clients sent */
    uint64_t down_bytes;
    uint64_t update_bytes; /* envelopes of the counted updates alone */
    uint64_t delta_bytes;  /* the envelope of the new model's delta */
    double train_loss;     /* mean over the counted updates */
    double test_loss;      /* NAN: this model was not measured */
    /* Fraction of samples classified correctly, or of a text's next symbols predicted correctly.
     * NAN: this model was not measured, or has only a loss. */
    double accuracy;
    double clip; /* of a task that promises an epsilon; else 0 */
    /* Mean accuracy of the tenth of the clients whom this model serves worst, on what they hold
     * back. NAN: this model was not measured on clients. */
    double worst_tenth;
} sim_round;

#pragma GCC diagnostic pop

typedef struct sim_account {
    uint64_t up_bytes, down_bytes;
    uint32_t counted, refused, broken;
    uint32_t samples; /* samples of the client's shard */
    double busy_s;    /* time spent training: virtual time, or over HTTPS CPU time */
    uint64_t held;    /* samples held back for personal models; 0: none is measured */
    double shared;    /* accuracy on them: of the last shared model */
    double personal;  /* of the client's own model; NAN: it has none */
    bool present;     /* took part to the end */
    bool identical;   /* is present, and holds the coordinator's model bit for bit */
} sim_account;

typedef struct sim_log {
    sim_round *rounds;
    size_t round_count;
    sim_account *clients;
    size_t client_count;
    uint8_t *attended; /* [round_count] rows of sim_log_row bytes: a bit for each counted client */
    size_t parameters;
    uint64_t steps;  /* local steps in counted updates, all clients together */
    uint64_t digest; /* digest of the coordinator's final model */
    uint32_t kills;
    bool finished; /* false: stopped before the task's last round; --resume goes on */
    double wall_s, train_cpu_s, evaluate_cpu_s,
        helper_cpu_s, /* of the helper of private sums; of a resumed run: since it was resumed */
        total_cpu_s;  /* of a resumed run: with the CPU time of its earlier processes */
} sim_log;

size_t sim_log_row(size_t clients);
/** Add a round. *round becomes its row, all 0, except that what was not measured is NAN. */
fed_status sim_log_add(sim_log *log, sim_round **round) FED_CHECKED;
void sim_log_attend(sim_log *log, size_t round_index, size_t client);
bool sim_log_attended(const sim_log *log, size_t round_index, size_t client);
/** Return the last measured accuracy; NAN: no model was measured, or the model has only a loss. */
double sim_log_accuracy(const sim_log *log);

/** Return the test loss of the last model that was measured; NAN: no model was. */
double sim_log_test_loss(const sim_log *log);

/** Sort accuracies of clients, and return their mean; *worst: the mean of the smallest tenth, of
 * one at least. n > 0. */
double sim_mean_of(double *accuracy, size_t n, double *worst);

/** How good models are for each client: on the samples that it held back. */
typedef struct sim_personal {
    size_t clients;                  /* clients with such samples; 0: the rest is 0 */
    double shared, shared_worst;     /* the last shared model: mean, and mean of the worst tenth */
    double shared_variance;          /* of the clients' accuracies, over their number */
    double personal, personal_worst; /* each client's own model, NAN: none; its own worst tenth */
} sim_personal;

fed_status sim_log_personal(const sim_log *log, sim_personal *p) FED_CHECKED;
void sim_log_free(sim_log *log);

#endif
