/* Choose the values that dropout keeps: the same ones in every backend. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_DROPOUT_H
#define FEDTRAIN_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

/** Draw for a batch of one layer: keep[i], uint8[n], is 1 where a value stays and 0 where it is
 * dropped, in the order [sample, h, w, c]. A smaller batch's draw is the beginning of a larger
 * one's. seed: the pass's seed. layer: the layer's number in the arch. p: the share to drop,
 * rounded to 65,536ths. */
void fedtrain_dropout_draw(uint64_t seed, uint32_t layer, float p, uint8_t *keep, size_t n);

/** Return how many of every 65,536 values are dropped on average; at most 65,535. */
uint32_t fedtrain_dropout_dropped(float p);

/** The factor of the values that stay: 1 / the share that stays. */
float fedtrain_dropout_scale(float p);

#endif
