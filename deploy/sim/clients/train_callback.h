/* Trains a client on its shard of the data, or measures a model. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_TRAIN_CALLBACK_H
#define FEDSIM_TRAIN_CALLBACK_H

#include "deploy/sim/clients/clients.h"

/** Return a client's options, with a callback that trains or measures with client->worker. */
fedclient_options sim_client_options(sim_client *client);

#endif
