/* Record what a worker did when, for a trace viewer, and make the table of mean step times. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_TRACE_H
#define FEDDC_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * A rank has one feddc_trace. Its rows are the compute thread, the engine, the buckets under way,
 * and one row for each peer. A row is a ring buffer of the last spans, a peer's row one for each
 * direction; a trace file is made of all rows.
 *
 * Threads: a row has one writer. The compute thread writes the row FEDDC_ROW_COMPUTE, the engine
 * all others. There are no locks. Another thread may read a row while its writer goes on, as long
 * as the ring is not full. It may read a full one only when the writer has ended or is known to
 * wait.
 *
 * Times are nanoseconds of this process's CLOCK_MONOTONIC; the caller reads the clock. The
 * functions accept a NULL trace, and then do nothing. feddc_trace_add allocates no memory.
 */
typedef struct feddc_trace feddc_trace;

/** Kinds of spans. The comment begins with the row where the kind occurs. */
typedef enum feddc_what {
    FEDDC_FORWARD_PASS = 0, /* compute: a forward pass, or a part of it between two waits */
    FEDDC_BACKWARD_PASS,    /* compute: a backward pass, or a part of it */
    FEDDC_UPDATE,           /* compute: the optimizer */
    /* compute: waits for the exchange; engine: waits for the GPU to finish a gradient */
    FEDDC_WAIT,
    FEDDC_ENCODE,   /* engine */
    FEDDC_DECODE,   /* engine */
    FEDDC_SUM,      /* engine */
    FEDDC_EXCHANGE, /* buckets: from the begin of a bucket's exchange until its sum is complete */
    FEDDC_SEND,     /* peer: from handing a message to the link until the link no longer reads it */
    FEDDC_RECEIVE,  /* peer: the arrival of a message */
    FEDDC_COPY,     /* engine: copies float32 values into a message, or out of one */
    FEDDC_WHATS
} feddc_what;

/** The row of a peer is FEDDC_ROW_PEER + its rank. */
enum { FEDDC_ROW_COMPUTE = 0, FEDDC_ROW_ENGINE, FEDDC_ROW_BUCKETS, FEDDC_ROW_PEER };

typedef struct feddc_span {
    uint64_t begin, end; /* ns */
    uint64_t bytes;      /* bytes of the message or the values; 0: left out of the file */
    uint32_t step;
    uint32_t bucket; /* UINT32_MAX: the span belongs to no single bucket */
    feddc_what what;
} feddc_span;

/**
 * Make a trace of one rank in a worker group of `ranks`. Each row has room for `spans` spans, of 40
 * bytes each. When a ring is full, the oldest span goes, and the file says how many are missing.
 * Errors: FED_EINVAL rank >= ranks, spans 0; FED_ENOMEM. Owner: feddc_trace_close, safe on NULL.
 */
fed_status feddc_trace_open(uint32_t rank, uint32_t ranks, size_t spans, feddc_trace **trace,
                            fed_error *err) FED_CHECKED;
void feddc_trace_close(feddc_trace *trace);

/** Record a span that has ended. A row past the last peer's is ignored. */
void feddc_trace_add(feddc_trace *trace, uint32_t row, const feddc_span *span);

/* -- Clocks of other machines -- */

/** A request for another rank's time. sent and received: this rank's clock; remote: the other
 * rank's. */
typedef struct feddc_clock_sample {
    uint64_t sent, remote, received; /* ns */
} feddc_clock_sample;

/**
 * Return what to add to a time of the other clock to get a time of this rank's clock, in ns, from
 * the sample with the shortest round trip. *error (may be NULL) is half of that round trip, which
 * bounds the answer's error. Samples received before they were sent are ignored. Without a valid
 * sample: 0, and *error is UINT64_MAX.
 */
int64_t feddc_trace_offset(const feddc_clock_sample *samples, size_t count, uint64_t *error);

/* -- The file: JSON for chrome://tracing and ui.perfetto.dev -- */

/*
 * A process is a rank (pid), a thread is a row (tid). Times are microseconds from `zero`. Each rank
 * writes its part, then one of them, or the launcher, merges the parts into one file:
 *
 *     zero = a time of rank 0's clock, converted to this rank's clock: on another machine
 *            than rank 0's, that time + feddc_trace_offset(...)
 *     feddc_trace_write(trace, name, zero, "run.json", &err)    writes run.json.RANK
 *     feddc_trace_merge("run.json", ranks, &err)                run.json.* become run.json
 *
 * A peer has two threads, such as "to 2" and "from 2". Messages to a peer leave one after the
 * other, so a send is drawn from the end of the send before. Viewers need a thread's spans to be
 * nested or disjoint. So overlapping spans of a row are drawn in further threads: "buckets",
 * "buckets #2".
 */

/**
 * Append this rank's events to out, each followed by a comma and a line end. name: the process's
 * name in the viewer, such as "worker 2 on host b". Errors: FED_ENOMEM, out->status.
 */
fed_status feddc_trace_events(const feddc_trace *trace, const char *name, uint64_t zero,
                              fed_writer *out) FED_CHECKED;

/** Write this rank's part: PATH.RANK. Errors: FED_ENOMEM; as fed_file_replace. */
fed_status feddc_trace_write(const feddc_trace *trace, const char *name, uint64_t zero,
                             const char *path, fed_error *err) FED_CHECKED;

/**
 * Merge the parts that exist into one file, and remove them. A rank that died has written no part;
 * the file names it. Errors: FED_ENOTFOUND there is no part; as fed_file_read and fed_file_create.
 * After an error the parts are still there.
 */
fed_status feddc_trace_merge(const char *path, uint32_t ranks, fed_error *err) FED_CHECKED;

/* -- The table at the end, with or without a trace -- */

/** Sums over all steps of one rank, in seconds. All members have 64 bits, so machines with the same
 * byte order can exchange the struct. */
typedef struct feddc_times {
    uint64_t steps;
    double step;    /* wall-clock time of all steps */
    double compute; /* forward and backward passes, without the waits inside them */
    double encode, decode, sum;
    double exchange;         /* time from the first part put in to the last sum */
    double exposed;          /* time that the compute thread waited for the exchange */
    uint64_t sent, received; /* bytes of messages */
} feddc_times;

/** Means of a step, in seconds; all 0 without steps. */
typedef struct feddc_means {
    double step;
    double compute; /* CD-SGD's tau */
    double codec;   /* encode and decode: delta */
    double sum;
    double wire;     /* exchange less codec and sum */
    double exchange; /* delta + psi; phi without a codec */
    double exposed;
    double hidden; /* 1 - exposed / exchange, from 0 to 1; 0 if nothing was exchanged */
} feddc_means;

feddc_means feddc_times_means(const feddc_times *times);

/**
 * Append the table to out: a line for each rank 0 .. count - 1, and their mean. If rule is not
 * NULL, the last line compares the mean step with `predicted` seconds, the prediction of the cost
 * model for that rule (feddc/cost.h). Errors: out->status.
 */
void feddc_times_table(const feddc_times *ranks, uint32_t count, const char *rule, double predicted,
                       fed_writer *out);

FED_API_END

#endif
