/* A personal model: a copy of the shared one, trained further on a client's own data. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_PERSONAL_H
#define FEDTRAIN_PERSONAL_H

#include "fed/api.h"
#include "fedtrain/data.h"

FED_API_BEGIN

typedef struct fedtrain_personal {
    float loss;                   /* mean over the steps */
    fedtrain_score before, after; /* on the data held back; samples 0: there are none */
} fedtrain_personal;

/**
 * Take a job's steps on a copy of the shared model, and measure it before and after. A job of 0
 * steps measures it once.
 *
 * The optimizer begins anew, and its state is dropped. SCAFFOLD's control variates are left out,
 * and nothing is masked: both are about what is sent.
 *
 * params  float32[layout.size]. In: the shared model. Out: the personal one
 * held    what fedtrain_share_hold took out of the job's share of data
 * batch   how many samples to measure at a time
 * Errors  those of fedtrain_run and fedtrain_share_score; FED_ENOMEM
 */
fed_status fedtrain_personal_run(const fedtrain_job *job, const fedtrain_data *data,
                                 const fedtrain_share *held, size_t batch, float *params,
                                 fedtrain_personal *result, fed_error *err) FED_CHECKED;

FED_API_END

#endif
