/* Streams of a run's seed: the second free number of fed_rng_init, which keeps them apart. */
#ifndef FEDSIM_STREAMS_H
#define FEDSIM_STREAMS_H

enum {
    SIM_STREAM_AWAY = 0x61776179,  /* first number: the round */
    SIM_STREAM_BREAK = 0x62726b00, /* the client; and + the upload */
    SIM_STREAM_LINE = 0x6c696e65,  /* the client, as for those that follow */
    SIM_STREAM_SPEED = 0x73706564,
    SIM_STREAM_PRESENCE = 0x70726573, /* and + the condition */
    SIM_STREAM_CHANCE = 0x43000000,   /* and + the turn */
    SIM_STREAM_BACKOFF = 0x42000000   /* likewise */
};

#endif
