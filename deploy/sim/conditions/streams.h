/* The streams of random numbers of a run: values for the fourth argument of fed_rng_init. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_STREAMS_H
#define FEDSIM_STREAMS_H

enum {
    SIM_STREAM_AWAY = 0x61776179,     /* one stream for each round */
    SIM_STREAM_BREAK = 0x62726b00,    /* one stream for each upload of each client */
    SIM_STREAM_LINK = 0x6c696e65,     /* one stream for each client */
    SIM_STREAM_SPEED = 0x73706564,    /* one stream for each client */
    SIM_STREAM_PRESENCE = 0x70726573, /* one stream for each condition of each client */
    SIM_STREAM_CHANCE = 0x43000000,   /* one stream for each step of each client */
    SIM_STREAM_BACKOFF = 0x42000000,  /* one stream for each step of each client */
    SIM_STREAM_ROUNDING = 0x52000000  /* one stream for each round of each client */
};

#endif
