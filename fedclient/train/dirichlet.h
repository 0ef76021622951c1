/* The split by a Dirichlet distribution over the classes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_DIRICHLET_H
#define FEDTRAIN_DIRICHLET_H

#include "fed/rng.h"
#include "fed/status.h"
#include "fedclient/train/items.h"

/** Fill in the partition by Dirichlet's rule. FED_ENOMEM. */
fed_status fedtrain_split_dirichlet(const fedtrain_items *items, double alpha, fed_rng *rng,
                                    const fedtrain_partition *partition) FED_CHECKED;

#endif
