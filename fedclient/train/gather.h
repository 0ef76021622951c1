/* Samples on their way into a net's buffers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_GATHER_H
#define FEDTRAIN_GATHER_H

#include "fed/small.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/dataset.h"

/** Has the set numbers to predict, instead of classes? Tables may, which a small build lacks. */
static inline bool fedtrain_has_targets(const fedtrain_dataset *set) {
    return !FED_SMALL && set->target != NULL;
}

/** FED_EINVAL: the net was made for smaller batches, or there is nothing in this one. */
fed_status fedtrain_check_batch(const struct fedtrain_net *net, size_t batch,
                                fed_error *err) FED_CHECKED;

/** The samples of net->index[n], as they are, into the net's x, and its label or target. */
void fedtrain_gather(struct fedtrain_net *net, const fedtrain_dataset *set, size_t n);

#endif
