/* Rules that no small number of hostile updates can move far: what several strategies share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_ROBUST_H
#define FEDSERVER_ROBUST_H

#include "fedserver/strategies/rows.h"

/** u_j = mean of the values j without the `cut` smallest and largest, 2 cut < rows->count.   u
 * float32[rows->columns] */
fed_status fedserver_trimmed_mean(const fedserver_rows *rows, size_t cut, float *u,
                                  fed_error *err) FED_CHECKED;

/** Most rows that krum takes: it holds the distance of each from each, 8 MiB. */
enum { FEDSERVER_KRUM_ROWS = 1024 };

/**
 * u = mean of the m rows with the smallest scores; a row's score is the sum of its squared
 * distances from its count - f - 2 nearest neighbours. Of equal scores the first row wins.
 * 1 <= m <= rows->count <= FEDSERVER_KRUM_ROWS
 */
fed_status fedserver_krum_mean(const fedserver_rows *rows, size_t f, size_t m, float *u,
                               fed_error *err) FED_CHECKED;

#endif
