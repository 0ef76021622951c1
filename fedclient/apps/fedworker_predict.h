/* fedworker predict: what the cost models say of a model, a codec and a line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_FEDWORKER_PREDICT_H
#define FEDCLIENT_APPS_FEDWORKER_PREDICT_H

#include "fed/bytes.h"
#include "fed/error.h"

/** What --help says of it. */
extern const char fedworker_predict_usage[];

/**
 * Run the command: argv[0] is "predict", its options follow. The tables are appended to *out. What
 * the command line does not give is measured: the time of a forward and backward pass, and what
 * the codec makes of gradients of made-up samples.
 * Errors: FED_EINVAL the command line; those of fed_arch_load, fedtrain_net_new and the codec.
 */
fed_status fedworker_predict(int argc, char **argv, fed_writer *out, fed_error *err) FED_CHECKED;

#endif
