/* The command line of fedworker train. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDWORKER_OPTIONS_H
#define FEDWORKER_OPTIONS_H

#include <stdint.h>

#include "fedclient/apps/fedtrain.h"

/** The command line. The strings are not copies. */
typedef struct fedworker_options {
    app_options app;
    const char *link, *collective, *sync, *codec, *pull, *pull_as, *nic;
    const char *summary, *trace;
    const char *listen, *join, *secret_file, *host, *congestion;
    uint32_t workers, here;          /* here: workers on this machine; 0: not given */
    uint32_t min;                    /* go on while this many workers are left; 0: not given */
    uint32_t small, bucket, late;    /* settings of the exchange; 0: the default */
    uint32_t every;                  /* steps between checkpoints; 0: at each epoch's end */
    uint32_t rate;                   /* --rate: rate of the network lines, Mbit/s; 0: not given */
    float learning_rate, local_rate; /* 0: not given */
} fedworker_options;

#endif
