/* Copies samples into a net's buffers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/gather.h"

fed_status fedtrain_check_batch(const struct fedtrain_net *net, size_t batch, fed_error *err) {
    if (batch == 0 || batch > net->max_batch) {
        return fed_fail(err, FED_EINVAL, "a batch of %zu: this net was made for 1 to %zu", batch,
                        net->max_batch);
    }
    return FED_OK;
}

void fedtrain_gather(struct fedtrain_net *net, const fedtrain_dataset *set, size_t n) {
    fedtrain_dataset_gather(set, net->index, n, net->x, net->label);
    if (fedtrain_has_targets(set)) {
        fedtrain_dataset_gather_targets(set, net->index, n, net->target);
    }
}
