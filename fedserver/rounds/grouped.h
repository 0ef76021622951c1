/* The form `grouped`: private rounds of several sums, and a robust strategy over them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_GROUPED_H
#define FEDSERVER_GROUPED_H

#include "fedserver/rounds/intake.h"

/*
 * With the task key `groups` the set of a round falls into that many sums (privacy/grouping.h). The
 * strategy, median or trimmed, combines the groups' means as it combines updates elsewhere. All of
 * it follows from the set, so it has the same bits after a restart, and with a helper and without.
 *
 * A group whose sum is longer than that of its devices can be (rounds/masked.h) is left out, and
 * its updates are lost. The worst group is the one that was left out, or else the one whose mean is
 * furthest from what the strategy made of all. An honest device is in the worst group about as
 * often as in any other.
 */
extern const fedserver_intake fedserver_intake_grouped;

#endif
