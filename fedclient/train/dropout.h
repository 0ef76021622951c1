/* Which values dropout keeps: the same ones in every backend. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_DROPOUT_H
#define FEDTRAIN_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

/**
 * Draw for a batch of one layer: keep[i] is 1 where a value stays and 0 where it is dropped, in
 * the order [sample, h, w, c]. The draw for a smaller batch is the beginning of that for a larger
 * one.
 *
 * seed: of the pass. layer: its number in the arch. p: the share that is dropped, which is rounded
 * to 65,536ths.
 * keep uint8[n]
 */
void fedtrain_dropout_draw(uint64_t seed, uint32_t layer, float p, uint8_t *keep, size_t n);

/** How many of 65,536 values are dropped. At most 65,535, so that some stay for any p. */
uint32_t fedtrain_dropout_dropped(float p);

/** The factor of the values that stay: 1 / the share that stays. */
float fedtrain_dropout_scale(float p);

#endif
