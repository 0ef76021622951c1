/* The times that an exchange and a step should take: the cost models of INCEPTIONN and of
 * CD-SGD. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_COST_H
#define FEDDC_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/bytes.h"
#include "feddc/sync.h"

FED_API_BEGIN

/* Pure functions. Times are seconds, sizes are bytes of float32 before compression. An aggregator
 * beside the workers is not counted as a worker. */

/* -- An exchange: INCEPTIONN, section VIII-D -- */

/** Costs of a machine and its network line. */
typedef struct feddc_cost_line {
    double alpha; /* latency of a message, seconds */
    double beta;  /* seconds to transfer a byte, 8 / (bit/s), on a full-duplex line */
    double gamma; /* seconds to add a byte of float32 to a sum */

    /* Not in the paper. message: seconds that each message costs the busiest rank. bucket: bytes of
     * float32 in a bucket, which has messages of its own; 0: one bucket. */
    double message, bucket;
} feddc_cost_line;

/** Ratios and times of a codec. All zeros: plain float32. */
typedef struct feddc_cost_codec {
    double push, pull; /* compression ratios of gradients and of sums */
    double encode;     /* seconds to encode a byte of float32 */
    double decode;     /* seconds to decode a byte of float32 */

    /* Where NICs compress, encode and decode are 0. A NIC compresses while the line carries earlier
     * bytes, so the slower of the two counts. */
    double nic; /* seconds that a NIC takes for a byte of float32 */
} feddc_cost_codec;

/** The patterns of messages in an exchange of n bytes among p workers. */
typedef enum feddc_cost_way {
    FEDDC_COST_STAR = 0, /* INCEPTIONN's worker-aggregator: pushes one after the other into one
                          * machine, then a tree of log2 p broadcasts */
    FEDDC_COST_RING,     /* INCEPTIONN's Algorithm 1 */
    FEDDC_COST_OWNERS,   /* each worker sums 1/p of the values, and sends its sums to all */
    /* one machine beside the workers owns all buckets; it sends sums while pushes still arrive */
    FEDDC_COST_CENTRAL,
    FEDDC_COST_GATHER /* each worker sends its gradient to all others */
} feddc_cost_way;

/** The parts of the time of one exchange, in seconds, if none of them overlap. */
typedef struct feddc_cost {
    double latency, wire, sum; /* INCEPTIONN's section VIII-D */
    double codec;              /* encode and decode on the busiest rank: CD-SGD's delta */
} feddc_cost;

/**
 * The time of one exchange of n bytes among p workers; all 0 for p < 2. codec NULL: float32.
 * For STAR and RING without a codec and with line->message 0, latency + wire + sum are the
 * formulas of section VIII-D; log has base 2:
 *
 *     star   (1 + log p) alpha + (p + log p) n beta + (p - 1) n gamma
 *     ring   2 (p - 1) alpha + 2 (p - 1) / p n beta + (p - 1) / p n gamma
 */
feddc_cost feddc_cost_exchange(feddc_cost_way way, uint32_t p, double n,
                               const feddc_cost_line *line, const feddc_cost_codec *codec);

/** The collective tree: groups of `group` workers sum with owners, then the owners of the same
 * shard in all groups do. below: each worker's line in its group. above: the line that the workers
 * of a group share to other groups. p is a multiple of group. */
feddc_cost feddc_cost_tree(uint32_t p, uint32_t group, double n, const feddc_cost_line *below,
                           const feddc_cost_line *above, const feddc_cost_codec *codec);

/** latency + wire + sum. CD-SGD calls this time phi without a codec, and psi with one. */
double feddc_cost_communication(const feddc_cost *cost);

const char *feddc_cost_way_name(feddc_cost_way way);

/* -- A step: CD-SGD, table 1 and equations 2 to 9 -- */

typedef struct feddc_cost_step {
    double tau;   /* forward and backward pass */
    double phi;   /* exchange of float32 */
    double delta; /* time to encode and decode */
    double psi;   /* exchange of the encoded gradient */
    uint32_t k;   /* every k-th exchange of CD-SGD is float32; 0: none is */
} feddc_cost_step;

/** Equation 2: S-SGD. tau + phi. */
double feddc_cost_ssgd(const feddc_cost_step *s);

/** Equation 4: local update, the rule `odsgd`: the exchange runs beside the next step. max(tau,
 * phi). */
double feddc_cost_odsgd(const feddc_cost_step *s);

/** Equation 5: BIT-SGD. tau + delta + psi. */
double feddc_cost_bitsgd(const feddc_cost_step *s);

/** Equation 6: the time of the exchange of CD-SGD's step i. */
double feddc_cost_cdsgd_exchange(const feddc_cost_step *s, uint64_t i);

/** Equation 7: the time of CD-SGD's step i. */
double feddc_cost_cdsgd_at(const feddc_cost_step *s, uint64_t i);

/** The mean of equation 7 over k steps. For an exchange longer than tau, section 3.3 has ((k - 1)
 * (delta + psi) + phi) / k. */
double feddc_cost_cdsgd(const feddc_cost_step *s);

/** Equations 8 and 9: the time that step i of CD-SGD saves against local update, and against
 * BIT-SGD. */
double feddc_cost_saved_odsgd(const feddc_cost_step *s, uint64_t i);
double feddc_cost_saved_bitsgd(const feddc_cost_step *s, uint64_t i);

/**
 * Not in the paper: how long computation waits for an exchange that begins while the backward pass
 * still runs. Buckets are exchanged one after the other, in the given order. Bucket b can begin at
 * ready[b] and takes wire[b]; the backward pass ends at `end`. ready and end are seconds since the
 * beginning of the step.
 */
double feddc_cost_exposed(const double *ready, const double *wire, size_t buckets, double end);

/** The time of a step whose exchange of `exchange` seconds has `buckets` equal buckets. They are
 * ready at equal distances in the backward pass, which is two thirds of tau. */
double feddc_cost_layered(double tau, double exchange, uint32_t buckets);

/** The time of a step in which a rule acts as `act` says. If act->behind is set, the exchange
 * overlaps the step: max(tau, exchange). Otherwise it overlaps as in feddc_cost_layered, and with
 * buckets 0 not at all. */
double feddc_cost_act(const feddc_cost_step *s, const feddc_act *act, uint32_t buckets);

/** The mean time of a rule's steps 0 .. steps - 1. s->k is not read. */
double feddc_cost_sync(const feddc_cost_step *s, const feddc_sync *sync, uint32_t steps,
                       uint32_t buckets);

/* -- Tables for people -- */

typedef struct feddc_cost_inputs {
    double values;      /* float32 values of a gradient */
    double mbit;        /* rate of each worker's line, 10^6 bit/s in each direction */
    double latency;     /* latency of a message, seconds */
    double message;     /* seconds that each message costs, as in feddc_cost_line */
    double sum_rate;    /* bytes of float32 that a worker adds up in a second */
    const char *codec;  /* the codec's spec, for the headings */
    double push, pull;  /* the codec's compression ratios; 1 for float32 */
    double encode_rate; /* bytes of float32 that the codec encodes in a second */
    double decode_rate; /* bytes of float32 that the codec decodes in a second */
    double nic_rate;    /* bytes/s of a compressing NIC, replacing the two rates above; 0: no NIC */
    bool no_ring;       /* show no ring with the codec, whose error grows at each hop */
    double tau;         /* forward and backward pass of a worker, seconds */
    uint32_t k;         /* CD-SGD's k, at least 1 */
    double bucket;      /* bytes of float32; 0: 1 MiB */
    uint32_t low, high; /* workers: all from low to high, then powers of 2 up to 1,024 */
} feddc_cost_inputs;

/** Append two tables to out, with a line for each number of workers, in milliseconds: an exchange
 * by each way (INCEPTIONN), and a step by the paper's rules with the collective owners (CD-SGD).
 * Errors: out->status. */
void feddc_cost_tables(const feddc_cost_inputs *in, fed_writer *out);

FED_API_END

#endif
