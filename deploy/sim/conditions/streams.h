/* The streams of random numbers that a run draws from its seed: the last argument of fed_rng_init
 * keeps them apart. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_STREAMS_H
#define FEDSIM_STREAMS_H

enum {
    SIM_STREAM_AWAY = 0x61776179,  /* the argument before it: the round */
    SIM_STREAM_BREAK = 0x62726b00, /* the argument before it: the client; add the upload's number */
    SIM_STREAM_LINK = 0x6c696e65,  /* the argument before it, here and below: the client */
    SIM_STREAM_SPEED = 0x73706564,
    SIM_STREAM_PRESENCE = 0x70726573, /* add the condition's index */
    SIM_STREAM_CHANCE = 0x43000000,   /* add the step's number */
    SIM_STREAM_BACKOFF = 0x42000000   /* add the step's number */
};

#endif
