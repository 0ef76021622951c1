/* Rules of synchronization: at which steps workers exchange gradients. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_SYNC_H
#define FEDDC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/**
 * The demands of a rule at one step. The rules differ only in these members:
 *
 *   ssgd          exchange, plain                 float32, each step
 *   bitsgd        exchange                        the codec, each step
 *   local:n=2     exchange at every n-th step     the sum of n steps' gradients (3LC, section 5.1)
 *   odsgd         exchange, plain, local, behind  one step delayed, local weights meanwhile
 *   cdsgd:n=5,k=2 ssgd for n steps, then as odsgd, but plain only at every k-th step
 *                                                 (CD-SGD, Algorithm 1; k=0: never plain)
 *
 * With `local` and `behind` 1, step t + 1 computes with the weights after the sum of step t - 1,
 * less the local rate times this worker's gradient of step t (CD-SGD, equation 11).
 */
typedef struct feddc_act {
    /* this step's gradient is exchanged; false: the gradient is added to the next step's */
    bool exchange;
    bool plain; /* exchanged as float32, whatever the codec */
    /* compute with local weights: the weights after the last sum, less the local rate times this
     * worker's own gradient since that sum */
    bool local;
    uint32_t behind; /* 0 or 1: before step t + 1, weights have the sum of step t - behind */
} feddc_act;

typedef struct feddc_sync {
    uint8_t id; /* permanent; syncs.def */
    double param[2];
} feddc_sync;

/** Parse "ssgd", "local:n=2" or "cdsgd:n=5,k=2". FED_EINVAL: the error's text names the wrong word
 * and what is allowed. */
fed_status feddc_sync_parse(const char *spec, feddc_sync *sync, fed_error *err) FED_CHECKED;

/** Return what the rule demands at step t; steps begin at 0. */
feddc_act feddc_sync_act(const feddc_sync *sync, uint32_t t);

/** FED_EINVAL: the rule never uses this codec or nic, because it always exchanges float32; the
 * error's text names the rule to take. NULL and "float32" fit all rules. */
fed_status feddc_sync_takes(const feddc_sync *sync, const char *codec, fed_error *err) FED_CHECKED;

/** Name of the k-th rule, and its description in one line; NULL past the last. */
const char *feddc_sync_name(size_t k);
const char *feddc_sync_about(size_t k);

FED_API_END

#endif
