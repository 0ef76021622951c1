/* The board's training: it trains the task's model on samples in flash. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "fedclient/examples/baremetal/board.h"
#include "fedtrain/train.h"

typedef struct session {
    fedclient_round *round;
    fed_error over; /* why the round is no longer wanted */
} session;

static bool after_step(void *user, size_t step, float loss) {
    session *s = user;
    (void)step;
    (void)loss;
    board_network_poll(); /* receive and answer the coordinator's bytes during training */
    return fedclient_round_wanted(s->round, &s->over) == FED_OK;
}

static fed_status run(session *s, fedtrain_net *net, const fedtrain_dataset *set,
                      const fedtrain_shard *shard, fed_error *err) {
    fedclient_round *round = s->round;
    fedtrain_job job = {.net = net,
                        .set = set,
                        .shard = shard,
                        .steps = round->task->local_steps,
                        .batch = round->task->batch,
                        .seed = round->task->seed,
                        .round = round->round,
                        .after_step = after_step,
                        .user = s};
    FED_TRY(fed_optimizer_parse(round->task->optimizer, round->task->learning_rate, &job.optimizer,
                                err));
    FED_TRY(fedtrain_run(&job, round->values, NULL, &round->loss, err));
    round->samples = board_sample_count;
    return s->over.status == FED_OK ? FED_OK : fed_fail(err, s->over.status, "%s", s->over.text);
}

/** Train on all samples, in the order in which fedclientd would take them. So a program on a host
 * can check the board's result. */
static fed_status train_on(session *s, fedtrain_net *net, const fedtrain_dataset *set,
                           fed_error *err) {
    fedtrain_partition all;
    FED_TRY(fedtrain_dataset_split(set, FEDTRAIN_SPLIT_IID, 1, s->round->task->seed, &all, err));
    const fedtrain_shard shard = fedtrain_partition_shard(&all, 0);
    const fed_status status = run(s, net, set, &shard, err);
    fedtrain_partition_free(&all);
    return status;
}

/** Make a net for this round only, since its memory is needed for other things between rounds. */
static fed_status train(fedclient_round *round, fed_error *err) {
    session s = {.round = round};
    fedtrain_dataset set = {0};
    fedtrain_net *net = NULL;
    FED_TRY(fedtrain_dataset_wrap(board_sample_pixels, board_sample_labels, board_sample_count,
                                  (fed_shape){1, BOARD_SAMPLE_SIDE, BOARD_SAMPLE_SIDE}, &set));
    fed_status status = fedtrain_dataset_fits(&set, round->arch, err);
    if (status == FED_OK) {
        status = fedtrain_net_new(round->arch, round->task->batch, NULL, &net, err);
    }
    if (status == FED_OK) {
        status = train_on(&s, net, &set, err);
    }
    fedtrain_net_free(net);
    fedtrain_dataset_free(&set);
    return status;
}

fed_status board_train(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    fed_error why = {0};
    const fed_status status = train(round, &why);
    switch (status) {
    case FED_OK:
        return FED_OK;
    case FED_ETIMEOUT:
    case FED_ESTATE:     /* the round is over */
    case FED_ENONFINITE: /* may pass, like the next two */
    case FED_ENOMEM:
    case FED_EBUSY:
        return fed_fail(err, status, "%s", why.text);
    default: /* the task does not fit this board; another one may */
        return fed_fail(err, FED_EDECLINED, "%s",
                        why.text[0] != '\0' ? why.text : fed_status_text(status));
    }
}
