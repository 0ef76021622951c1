/* The streams of random numbers of a run, for the fourth argument of fed_rng_init. Comments below
 * name the third argument, and what is added to the constant. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_STREAMS_H
#define FEDSIM_STREAMS_H

enum {
    SIM_STREAM_AWAY = 0x61776179,     /* the round */
    SIM_STREAM_BREAK = 0x62726b00,    /* the client; plus the upload's number */
    SIM_STREAM_LINK = 0x6c696e65,     /* the client */
    SIM_STREAM_SPEED = 0x73706564,    /* the client */
    SIM_STREAM_PRESENCE = 0x70726573, /* the client; plus the condition's index */
    SIM_STREAM_CHANCE = 0x43000000,   /* the client; plus the step's number */
    SIM_STREAM_BACKOFF = 0x42000000   /* the client; plus the step's number */
};

#endif
