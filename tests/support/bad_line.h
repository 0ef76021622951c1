/* A bad line: frames that go through it are lost, doubled, late, cut anew or damaged, by chance. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BAD_LINE_H
#define BAD_LINE_H

#include <stdatomic.h>

#include "bad_frames.h"
#include "fed/error.h"

/** What can happen to a frame. */
typedef enum bad_luck {
    BAD_CUT,       /* a TCP segment is cut into smaller ones; each has its own luck after that */
    BAD_DROP,      /* it is lost */
    BAD_BLEACH,    /* its DSCP becomes that of `tos`: 0 as a rule */
    BAD_CONGEST,   /* its ECN says CE, if it is ECN-capable */
    BAD_FLIP,      /* a bit after the Ethernet header is wrong */
    BAD_TRUNCATE,  /* its last bytes are missing */
    BAD_PAD,       /* bytes stand behind it, as Ethernet pads short frames */
    BAD_DUPLICATE, /* it arrives twice */
    BAD_REORDER,   /* up to hold_frames others overtake it, for at most hold_ms */
    BAD_DELAY,     /* it arrives delay_ms later */
    BAD_KINDS
} bad_luck;

enum { BAD_SIDES = 2, BAD_HELD = 256, BAD_SURE = 1000000 };

/** Another thread may change it while the line runs. */
typedef struct bad_rates {
    atomic_uint chance[BAD_KINDS]; /* of BAD_SURE frames */
    atomic_uint hold_frames, hold_ms, delay_ms;
    atomic_uint least, most; /* payload of a piece; most 0: Linux's own size */
    atomic_uint tos;
    atomic_uint quiet;   /* nothing happens to the first frames of each direction */
    atomic_bool packets; /* as on a wire: segments of many are cut, and checksums complete */
} bad_rates;

/** Frames of one direction. */
typedef struct bad_counts {
    _Atomic uint64_t in, in_bytes; /* read while the line runs */
    uint64_t out, out_bytes;
    uint64_t untaken; /* of `out`: the far interface took no more */
    uint64_t of[BAD_KINDS];
} bad_counts;

typedef struct bad_held {
    bad_frame frame;
    uint64_t until_frame; /* number of a later frame of its direction */
    int64_t until_ms;
} bad_held;

typedef struct bad_way {
    fed_rng rng;
    bad_counts counts;
    bad_held held[BAD_HELD];
    size_t held_count;
} bad_way;

/** Called with each frame that leaves. `from`: the side that it came in at. */
typedef void bad_emit(void *user, int from, const bad_frame *frame);

/** Each direction has random numbers of its own. */
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

/** Errors: FED_ENOMEM */
fed_status bad_line_open(bad_line *line, bad_rates *rates, uint64_t seed, bad_emit *emit,
                         void *user, fed_error *err) FED_CHECKED;
void bad_line_close(bad_line *line);

/** A frame came in at side `from`, 0 or 1. Its bytes may be changed. */
void bad_line_take(bad_line *line, int from, bad_frame *frame, int64_t now_ms);

/** Let go of the frames whose time has come. Returns ms to the next such time, at most 1000. */
int bad_line_poll(bad_line *line, int64_t now_ms);

/**
 * Join two network interfaces by the line until *stop. They are packet sockets made by
 * bad_line_socket. A full socket loses frames, as a real line does.
 */
int bad_line_socket(const char *interface, fed_error *err); /* < 0: it failed */
bool bad_line_read(int fd, bad_frame *frame);               /* false: there is no frame now */
void bad_line_run(bad_line *line, const int sockets[BAD_SIDES], const atomic_bool *stop);

/** One line of text for each direction. */
size_t bad_line_report(const bad_line *line, char *dst, size_t cap);

#endif
