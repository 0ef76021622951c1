/* Exchange of gradients: all ranks of a worker group put theirs in, and each takes out the sum. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDDC_EXCHANGE_H
#define FEDDC_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"
#include "fed/gpu.h"
#include "feddc/link.h"
#include "feddc/trace.h"

FED_API_BEGIN

/*
 * To train with the sum of all workers' gradients, float32[n]:
 *
 *     feddc_exchange *x;
 *     feddc_exchange_open(&options, &x, &err);
 *     for (uint32_t step = 0; step < steps; step++) {
 *         ... a gradient of n values ...
 *         feddc_allreduce(x, step, grad, sum, &err);
 *         ... w -= rate / workers * sum ...
 *     }
 *     feddc_exchange_close(x, true);
 *
 * To hide the exchange behind the computation, put each layer's gradient in when it is there, and
 * take the sum of a part when it is needed: feddc_exchange_put and feddc_exchange_take.
 *
 * All ranks get the same bits, also from codecs that lose something: their replicas of a model stay
 * equal without ever being compared.
 */

/** How to exchange. All ranks of a worker group give the same, but for place, trace and device. */
typedef struct feddc_exchange_options {
    const feddc_link_vtable *link;
    feddc_place place;
    const char *collective; /* "owners", "owners:aggregators=1", "ring", "gather", "tree:group=4";
                             * NULL: feddc_collective_preset. feddc_collective_about lists them */
    const char *codec;      /* of pushes, as for fedcodec_parse: "3lc:s=1.75"; NULL: float32 */
    const char *pull;       /* of pulls, the sums on their way back; NULL: float32 */
    const char *nic;        /* NICs that compress (below): "inline", "packet:e=8"; NULL: none */

    /* size_t[tensors]: the values of each tensor. Tensors lie side by side in one vector. */
    const size_t *tensor;
    size_t tensors;
    size_t small;  /* tensors of fewer values travel as float32; 0: 256 */
    size_t bucket; /* bytes of gradient in a message, about; 0: 1 MiB. With aggregators
                    * and no codec: a 64th of the gradient, 32 KiB to 1 MiB */

    uint32_t late; /* owners with aggregators: a sum is complete without the last so many workers;
                     * what these push goes back into their residuals. Needs a codec with one. Plain
                     * steps wait for all */
    struct feddc_trace
        *trace; /* NULL, or what the engine writes its spans to; outlives the exchange */

    /* A GPU on which gradients and sums are (below), and the stream of the thread that puts and
     * takes; both outlive the exchange. NULL: they are in the host's memory */
    fed_gpu *device;
    fed_gpu_stream *stream;
} feddc_exchange_options;

/*
 * With a device, grad of feddc_exchange_put and sum of feddc_exchange_take are device addresses.
 * Residuals are there too, and the engine works in a stream of its own. Only messages cross the
 * bus. They have the bytes of the host's, and sums have the bits of the host's, so ranks with and
 * without a device may be in one worker group if both name the collective.
 *
 *     put   what `stream` holds then may still write grad: the engine waits for it
 *     take  the sum is there; what `use` enqueues in `stream` may read it later: the engine does
 *           not write there before
 *
 * A device takes the codecs that run on GPUs (fedcodec_gpu_has), and no nic.
 */

/*
 * A NIC that compresses (INCEPTIONN, sections V and VI): it rounds float32 values on their
 * way as fedcodec_bursts_round does, with the bound 2^-e; e is 1 to 15, by default 10. This takes
 * any collective, but no codec.
 *
 *     inline   there is no NIC: this process rounds a copy of what it sends. Any link
 *     packet   link tcp marks the connections of floats, and a NIC compresses their packets, such
 *              as fednic's. Where none is on the way, the values arrive as they are
 *
 * Both give the same bits. Each value is rounded at each hop, which changes it at most at the
 * first one. A gradient that its own rank adds is not rounded, nor is a partial sum there. Who has
 * the whole sum (the owner, the star's aggregator, the last of a ring, the top of a tree) rounds it
 * in place before it sends and uses it. With gather each rank rounds its gradient before it sends
 * and adds it. So all replicas have the same bits, and they would have them without a NIC.
 *
 * Plain steps are for no NIC: they travel with the heads, on connections that are not marked.
 */

typedef struct feddc_exchange feddc_exchange;

/**
 * Join the worker group: opens the link, and starts the engine, a thread of its own which codes,
 * sends and sums while the caller computes.
 *
 * options  is not needed after the call, but for what trace points to
 * Errors   FED_EINVAL an option is wrong, or collective and codec do not fit: a codec whose scale
 *          follows the largest value (3lc, stoch3) must not ride the ring, where partial sums are
 *          coded again at each hop; FED_ENOTFOUND a codec that the device has not got;
 *          FED_ENOMEM; those of the link's open
 * Owner    feddc_exchange_close
 */
fed_status feddc_exchange_open(const feddc_exchange_options *options, feddc_exchange **exchange,
                               fed_error *err) FED_CHECKED;

/** Would feddc_exchange_open take these options in a worker group of so many ranks? Meets nobody.
 * Read are link (NULL: any), collective, codec, pull, nic, late, device and stream. Errors:
 * FED_EINVAL, as feddc_exchange_open's; FED_ENOMEM */
fed_status feddc_exchange_check(const feddc_exchange_options *options, uint32_t ranks,
                                fed_error *err) FED_CHECKED;

/** Workers are the ranks below this number; with "aggregators" the others only sum. */
uint32_t feddc_exchange_workers(const feddc_exchange *x);

/** Values of the gradient: the sum of all tensors. */
size_t feddc_exchange_size(const feddc_exchange *x);

/**
 * The gradient of values offset .. offset + n - 1 of this step is ready. Returns at once.
 *
 * Steps begin anywhere, and go up by 1. Each value is put in once a step, in any order; parts that
 * are put in from the end to the beginning, as a backward pass has them, leave soonest. Two steps
 * may be under way: a part of step t + 2 is put in after that part of step t was taken.
 *
 * grad   float32[n]. All parts of one step lie in one vector, each at its offset. Each must lie and
 *        stay as it is until the same part of this step has been taken
 * plain  true: as float32, whatever the codec; the same for all parts and all ranks of a step. The
 *        residuals stay for the next step that is not
 */
void feddc_exchange_put(feddc_exchange *x, uint32_t step, size_t offset, const float *grad,
                        size_t n, bool plain);

/**
 * Wait until the sums of all buckets that overlap values offset .. offset + n - 1 are there, and
 * call `use` once for each piece of them that was not taken yet: the pieces of one step cover each
 * value once. Steps are taken in their order. What `sum` points to is use's to read until it
 * returns.
 *
 * Errors  FED_EIO a rank is gone: the sentence says which; those of the link and the codecs
 *         (FED_ENONFINITE: the gradient of some rank is not finite). After an error the exchange
 *         can only be closed.
 */
fed_status feddc_exchange_take(feddc_exchange *x, uint32_t step, size_t offset, size_t n,
                               void (*use)(void *user, size_t offset, const float *sum, size_t n),
                               void *user, fed_error *err) FED_CHECKED;

/** With backup workers: the sum of this step is complete without this rank, in parts at least, so
 * there is no need to compute its gradient: put zeros in, and take the sum, to catch up. What the
 * others send meanwhile is kept in memory. */
bool feddc_exchange_is_late(feddc_exchange *x, uint32_t step);

/** Put all in, and take all out, as a plain step: an all-reduce in float32 that returns when it is
 * done; with a device when it is done but for a copy in the stream. grad, sum: float32[size]; they
 * may be the same memory */
fed_status feddc_allreduce(feddc_exchange *x, uint32_t step, const float *grad, float *sum,
                           fed_error *err) FED_CHECKED;

/** The same, compressed by the codec or the nic that x was opened with: INCEPTIONN's
 * MPI_collective_communication_comp (section VI-B). Only what such steps send is marked for NICs.
 * Errors also: FED_EINVAL x has neither */
fed_status feddc_allreduce_compressed(feddc_exchange *x, uint32_t step, const float *grad,
                                      float *sum, fed_error *err) FED_CHECKED;

/** What an aggregator's main thread calls: returns when all workers have closed. */
fed_status feddc_exchange_serve(feddc_exchange *x, fed_error *err) FED_CHECKED;

/** Let a take that waits, and those that come, return FED_EIO with this sentence. Any thread. */
void feddc_exchange_abort(feddc_exchange *x, const char *why);

/** What an exchange has done so far. */
typedef struct feddc_exchange_counts {
    uint64_t sent_bytes, received_bytes; /* of messages with their heads; received: by a worker for
                                          * steps whose sums are complete */
    uint64_t messages;                   /* sent */
    double encode_s, decode_s, sum_s;    /* the engine's time */
    double wait_s;                       /* of the caller, in take */
    double exchange_s;      /* from the first part put in to the last sum, of all steps; when two
                             * steps are under way, the time counts once */
    uint64_t zeroed, coded; /* values that a push codec without a residual, or the nic, made 0
                             * while they were not, of how many: of some messages */
} feddc_exchange_counts;

void feddc_exchange_count(feddc_exchange *x, feddc_exchange_counts *counts);

/** What the engine is at, for a watcher: the oldest bucket that is not finished, and the rank that
 * it waits for; bucket UINT32_MAX: it waits for nothing. Any thread. */
typedef struct feddc_exchange_state {
    uint32_t step, bucket, waits_for;
} feddc_exchange_state;

void feddc_exchange_look(feddc_exchange *x, feddc_exchange_state *state);

/** Residuals: what a checkpoint must hold beside the model. float32[state_size] of the host; only
 * while no step is under way. With other ranks or options they do not fit. Errors, with a device:
 * FED_ENOMEM, FED_EIO */
size_t feddc_exchange_state_size(const feddc_exchange *x);
fed_status feddc_exchange_save(const feddc_exchange *x, float *state, fed_error *err) FED_CHECKED;
fed_status feddc_exchange_restore(feddc_exchange *x, const float *state,
                                  fed_error *err) FED_CHECKED;

/** Leave, and free. orderly: helps the others to finish the last step first; false: at once. NULL
 * is allowed. */
void feddc_exchange_close(feddc_exchange *x, bool orderly);

/** The k-th collective: its name, and one line about it; NULL past the last. */
const char *feddc_collective_name(size_t k);
const char *feddc_collective_about(size_t k);

/** The collective where none is named: owners; with a device gather for up to 8 ranks, and for
 * codecs whose messages are sparse (sbc, stc, topk, dgc), if pulls are float32. */
const char *feddc_collective_preset(uint32_t ranks, const char *codec, const char *pull,
                                    bool device);

/** Does the scale of the codec of this name follow the largest value of what comes in, times a
 * factor? Then a ring refuses it. */
bool feddc_codec_expands(const char *name);
/** How many ranks beside the workers a collective wants: "owners:aggregators=1" wants one. Errors:
 * FED_EINVAL the spec */
fed_status feddc_collective_aggregators(const char *spec, uint32_t *aggregators,
                                        fed_error *err) FED_CHECKED;

FED_API_END

#endif
