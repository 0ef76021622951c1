/* A bad line: frames that go through it are lost, doubled, late, cut anew or damaged, by chance. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAD_LINE_H
#define BAD_LINE_H

#include <stdatomic.h>

#include "bad_frames.h"
#include "fed/error.h"

typedef enum bad_luck {
    BAD_CUT,
    BAD_DROP,
    BAD_BLEACH,  /* the frame's DSCP becomes that of `tos` */
    BAD_CONGEST, /* ECN becomes CE (congestion experienced) */
    BAD_FLIP,
    BAD_TRUNCATE,
    BAD_PAD, /* up to 4 bytes are appended */
    BAD_DUPLICATE,
    BAD_REORDER, /* held until up to hold_frames more frames came in, or for hold_ms */
    BAD_DELAY,
    BAD_KINDS
} bad_luck;

enum { BAD_SIDES = 2, BAD_HELD = 256, BAD_SURE = 1000000 };

/** How often each fault happens. Other threads may change these rates while the line runs. */
typedef struct bad_rates {
    atomic_uint chance[BAD_KINDS]; /* probability in units of 1 / BAD_SURE */
    atomic_uint hold_frames, hold_ms, delay_ms;
    atomic_uint least, most; /* payload bytes of a cut piece; most = 0: gso_size */
    atomic_uint tos;
    atomic_uint quiet;   /* number of first frames of each direction without faults */
    atomic_bool packets; /* true: cut segments and complete checksums, as a network card does */
} bad_rates;

typedef struct bad_counts {
    _Atomic uint64_t in, in_bytes;
    uint64_t out, out_bytes;
    uint64_t untaken; /* frames that the receiving interface refused */
    uint64_t of[BAD_KINDS];
} bad_counts;

typedef struct bad_held {
    bad_frame frame;
    uint64_t until_frame;
    int64_t until_ms;
} bad_held;

typedef struct bad_way {
    fed_rng rng;
    bad_counts counts;
    bad_held held[BAD_HELD];
    size_t held_count;
} bad_way;

/** Called with each frame that leaves the line. from: the side at which the frame came in. */
typedef void bad_emit(void *user, int from, const bad_frame *frame);

typedef struct bad_line {
    bad_rates *rates;
    bad_way way[BAD_SIDES];
    bad_frame piece, packet, altered;
    bad_emit *emit;
    void *user;
    int from;
    int64_t now_ms;
} bad_line;

const char *bad_luck_name(bad_luck luck);

/** Set up a line between two sides. Errors: FED_ENOMEM */
fed_status bad_line_open(bad_line *line, bad_rates *rates, uint64_t seed, bad_emit *emit,
                         void *user, fed_error *err) FED_CHECKED;
void bad_line_close(bad_line *line);

/** Take a frame that came in at side `from` (0 or 1). Its bytes may be changed. */
void bad_line_take(bad_line *line, int from, bad_frame *frame, int64_t now_ms);

/** Send the delayed frames whose time has come. Returns how long the next one waits, at most 1000
 * ms. */
int bad_line_poll(bad_line *line, int64_t now_ms);

/** Read and send frames between two network interfaces until *stop is true. bad_line_socket makes a
 * packet socket for an interface. */
int bad_line_socket(const char *interface, fed_error *err); /* < 0: failed; err says why */
bool bad_line_read(int fd, bad_frame *frame);               /* false: no frame has arrived */
void bad_line_run(bad_line *line, const int sockets[BAD_SIDES], const atomic_bool *stop);

/** Write one line of text for each direction. */
size_t bad_line_report(const bad_line *line, char *dst, size_t cap);

#endif
