/* A run's streams of random numbers, kept apart by the last argument of fed_rng_init. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_STREAMS_H
#define FEDSIM_STREAMS_H

enum {
    SIM_STREAM_AWAY = 0x61776179,  /* third argument of fed_rng_init: the round */
    SIM_STREAM_BREAK = 0x62726b00, /* third argument: the client; add the upload's number */
    SIM_STREAM_LINK = 0x6c696e65,  /* third argument, here and below: the client */
    SIM_STREAM_SPEED = 0x73706564,
    SIM_STREAM_PRESENCE = 0x70726573, /* add the condition's index */
    SIM_STREAM_CHANCE = 0x43000000,   /* add the step's number */
    SIM_STREAM_BACKOFF = 0x42000000   /* add the step's number */
};

#endif
