/* What a device does with a round: libfedtrain at work in libfedclient's callback. */
#ifndef FEDCLIENT_APPS_WORKSHOP_H
#define FEDCLIENT_APPS_WORKSHOP_H

#include <stdbool.h>
#include <stdint.h>

#include "fedclient/fedclient.h"
#include "fedtrain/data.h"

typedef struct workshop_settings {
    const char *data, *dataset; /* where the samples are, and what: fedtrain_data_open */
    uint32_t shard, shards;     /* which part of the training set is this device's, of how many */
    fedtrain_split split;
    const char *backend; /* NULL: the first */
    bool evaluate;       /* measure models on the test set, instead of training */
    bool normalise; /* samples, by what this device trains on; to evaluate, by its training set */
} workshop_settings;

typedef struct workshop workshop;

/** Open the data. settings and platform, where the optimizer's state is stored, are lent until
 * workshop_close, which is due after a failure too; the platform may be opened later. */
fed_status workshop_open(const workshop_settings *settings, const fedclient_platform *platform,
                         workshop **made, fed_error *err) FED_CHECKED;
void workshop_close(workshop *w);

/** fedclient_options.train, with a workshop as user: train or measure, as the task says. What
 * belongs to a task stays for its next round. FED_EDECLINED: this device's data, memory or software
 * does not fit the task; other errors are the platform's. */
fed_status workshop_work(void *user, fedclient_round *round, fed_error *err) FED_CHECKED;

#endif
