/* Which devices are again and again in the worst group of a private round. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_OUTLIERS_H
#define FEDSERVER_OUTLIERS_H

#include "fedserver/rounds/rounds.h"

/*
 * A round with groups has a worst one (rounds/grouped.h). Each round deals its devices out anew, so
 * a device that does no harm is in it by chance: as often as that group's share of the devices. A
 * device that spoils each of its groups is in it each time. So the store counts for each device its
 * rounds, those in the worst group, and what chance would make of them, which is the sum of the
 * shares.
 *
 * A device is named where chance alone would put it there so often with a probability below 10^-6.
 * That is the bound of Hoeffding (1963, theorem 1): with a = worst / rounds above p = expected /
 * rounds,
 *
 *     P <= exp(-rounds (a ln(a / p) + (1 - a) ln((1 - a) / (1 - p))))
 *
 * A device that is always in the worst of 5 groups is named after 9 rounds, of 3 groups after 13.
 * Data unlike all others' may do it, too: the log asks whether one trusts the device, no more.
 *
 * A round in which every group is left out says nothing of a device, and does not count.
 */

/** Is a device in the worst group more often than by chance? */
bool fedserver_outlier_stands_out(const fedserver_outlier_row *row);

/** No device with fewer rounds in the worst group stands out. */
enum { FEDSERVER_OUTLIER_LEAST = 3 };

/** In the transaction that commits a round, before its updates are deleted: count the round for its
 * devices, and name those in the log that stand out since this round. Does nothing to a round
 * without a worst group. */
fed_status fedserver_outliers_take(fedserver_rounds *rounds, const fedserver_training *training,
                                   uint32_t updates, const fedserver_weights *weights,
                                   fed_error *err) FED_CHECKED;

#endif
