/* FedAvg, McMahan et al. 2017 (Communication-Efficient Learning of Deep Networks from Decentralized
 * Data), algorithm 1: the mean of the updates, weighted by samples, is the change of the model.
 * Departs: rounds/weights.h can lower an update's weight. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/strategies/strategy.h"

extern const fedserver_strategy_vtable fedserver_strategy_fedavg;

/* The coordinator sums updates as they arrive (aggregate.h), so this strategy needs no code. */
const fedserver_strategy_vtable fedserver_strategy_fedavg = {.name = "fedavg"};
