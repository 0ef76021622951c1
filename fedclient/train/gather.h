/* Copying samples into a net's buffers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_GATHER_H
#define FEDTRAIN_GATHER_H

#include "fed/small.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/dataset.h"

/** Return whether the samples have targets: numbers to predict. Only tables have targets, and a
 * small build reads no tables. */
static inline bool fedtrain_has_targets(const fedtrain_dataset *set) {
    return !FED_SMALL && set->target != NULL;
}

/** FED_EINVAL: the batch is larger than the net was made for, or empty. */
fed_status fedtrain_check_batch(const struct fedtrain_net *net, size_t batch,
                                fed_error *err) FED_CHECKED;

/** Copy the n samples that net->index names into net->x, and their labels or targets into the net's
 * arrays. */
void fedtrain_gather(struct fedtrain_net *net, const fedtrain_dataset *set, size_t n);

#endif
