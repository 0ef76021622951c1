/* Combination rules that a small number of hostile updates can't move far. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROBUST_H
#define FEDSERVER_ROBUST_H

#include "fedserver/strategies/rows.h"

/**
 * Set u_j to the mean of all updates' values j without the `cut` smallest and the `cut` largest. 2
 * * cut < rows->count. u: float32[rows->columns]
 */
fed_status fedserver_trimmed_mean(const fedserver_rows *rows, size_t cut, float *u,
                                  fed_error *err) FED_CHECKED;

/** The most rows that krum takes. It keeps the distances of all pairs of rows in memory, at most 8
 * MiB. */
enum { FEDSERVER_KRUM_ROWS = 1024 };

/**
 * Set u to the mean of the m rows with the smallest scores. A row's score is the sum of the
 * squared distances to its rows->count - f - 2 nearest neighbours. Of equal scores the first row
 * wins. 1 <= m <= rows->count <= FEDSERVER_KRUM_ROWS
 */
fed_status fedserver_krum_mean(const fedserver_rows *rows, size_t f, size_t m, float *u,
                               fed_error *err) FED_CHECKED;

#endif
