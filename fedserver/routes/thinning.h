/* Leaves out rounds of a long history, so that a chart of the rest still shows each spike. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_THINNING_H
#define FEDSERVER_THINNING_H

#include "fedserver/operator.h"

/**
 * Choose at most `most` of rounds[count], in place; most is at least 6. All stay if there are no
 * more than that. Else the first and the last one stay and, of each stretch of equal length, the
 * rounds with the least and the greatest loss, and with the worst and the best measurement by
 * evaluators. Returns how many stay; their order stays, too.
 */
size_t fedserver_rounds_thin(fedserver_round_entry *rounds, size_t count, size_t most);

#endif
