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
 * What a rule wants at one step. All rules are rows of this:
 *
 *   ssgd          exchange, plain                 float32, each step
 *   bitsgd        exchange                        the codec, each step
 *   local:n=2     exchange at every n-th step     the sum of n steps' gradients (3LC, section 5.1)
 *   odsgd         exchange, plain, local, behind  one step delayed, local weights meanwhile
 *   cdsgd:n=5,k=2 ssgd for n steps, then as odsgd, but plain only at every k-th step
 *                                                 (CD-SGD, Algorithm 1; k=0: never plain)
 *
 * With `behind` 1, W(t) being the weights with all sums up to that of step t - 1 in, step t + 1
 * runs on W(t) less the own gradient of step t: equation 11 wants the sum of t - 1 in when the
 * backward pass of t ends, and not before.
 */
typedef struct feddc_act {
    bool exchange;   /* this step's gradient is exchanged; false: it is added to the next one's */
    bool plain;      /* as float32, whatever the codec */
    bool local;      /* forward and backward run on local weights: those of the last sum that is in,
                      * less the own gradient since, at the local rate */
    uint32_t behind; /* before step t + 1 begins, the sum of step t - behind must be in: 0 or 1 */
} feddc_act;

typedef struct feddc_sync {
    uint8_t id; /* permanent; syncs.def */
    double param[2];
} feddc_sync;

/** "ssgd", "local:n=2", "cdsgd:n=5,k=2". FED_EINVAL: the sentence names the wrong word and what
 * would be right. */
fed_status feddc_sync_parse(const char *spec, feddc_sync *sync, fed_error *err) FED_CHECKED;

/** What the rule wants at step t, from 0. */
feddc_act feddc_sync_act(const feddc_sync *sync, uint32_t t);

/** Is this codec, or nic, of use to the rule? FED_EINVAL: no, as the rule always exchanges float32;
 * the sentence names the rule that has a use for it. NULL and "float32" fit all rules. */
fed_status feddc_sync_takes(const feddc_sync *sync, const char *codec, fed_error *err) FED_CHECKED;

/** The k-th rule's name, and one line about it; NULL past the last. */
const char *feddc_sync_name(size_t k);
const char *feddc_sync_about(size_t k);

FED_API_END

#endif
