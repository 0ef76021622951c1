/* Exchange of gradients: all workers put their gradients in, and each takes out the sum. */
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
 * To overlap the exchange with the computation, put each layer's gradient in as soon as it is
 * computed, and take the sum of a part when it is needed: feddc_exchange_put and
 * feddc_exchange_take.
 *
 * All ranks get the same bits, also from lossy codecs: their replicas of a model stay equal
 * without being compared.
 */

/*
 * An optimizer at the owners, as the parameter server of 3LC (figure 1) has it. Without it, ranks
 * take sums. With `owner` they take the new values of a model, their replica of it, which all
 * ranks have with the same bits.
 *
 * At a step that is not plain, the owner of some values gives their sum to `step`, which changes
 * the owner's weights. The pull is then the change from replica to weights, by the codec `pull`.
 * What its message leaves out stays as the difference of weights and replica, and is in the next
 * change again: this is the residual of pulls. If the codec has no residual, the owner's weights
 * become the replica. Values that travel as float32 are the new weights themselves, so with
 * float32 codecs a replica has the bits that an optimizer on every rank would give it.
 *
 * The owner's vectors can be asked for and taught: feddc_exchange_ask and feddc_exchange_teach.
 * Before the first step all ranks teach the weights and FEDDC_REPLICA.
 *
 * The functions are called in the engine's thread. An aggregator needs them, too.
 */
typedef struct feddc_owner {
    /* float32[size], in host memory; only the values that this rank owns are read or written */
    float *weights;
    /* Step weights offset .. offset + n - 1 with sum[n], the sum of `added` gradients. Called once
     * for each value that this rank owns and each step; all of a step before any of the next */
    fed_status (*step)(void *user, uint32_t step, size_t offset, const float *sum, size_t n,
                       uint32_t added, fed_error *err);
    /* Write values offset .. offset + n - 1 of vector `what`, or store them. */
    void (*tell)(void *user, uint32_t what, size_t offset, float *values, size_t n);
    void (*learn)(void *user, uint32_t what, size_t offset, const float *values, size_t n);
    void *user; /* the first argument of each */
} feddc_owner;

enum { FEDDC_REPLICA = 7 }; /* the vector that the exchange itself learns; others are 0 to 6 */

/** Options, the same on all ranks of a worker group except place, trace, device and stream. */
typedef struct feddc_exchange_options {
    const feddc_link_vtable *link;
    feddc_place place;
    /* "owners", "owners:aggregators=1", "ring", "gather", "tree:group=4"; NULL:
     * feddc_collective_preset. feddc_collective_name lists all */
    const char *collective;
    const char *codec; /* codec of pushes, as for fedcodec_parse: "3lc:s=1.75"; NULL: float32 */
    const char *pull;  /* codec of pulls, the sums on their way back; NULL: float32 */
    const char *nic;   /* NICs that compress (below): "inline", "packet:e=8"; NULL: none */

    /* size_t[tensors]: the number of values of each tensor. Tensors lie one after the other in one
     * vector. */
    const size_t *tensor;
    size_t tensors;
    size_t small; /* tensors of fewer values travel as float32; 0: 256 */
    /* most bytes of gradient in a bucket, which is exchanged by itself; 0: 1 MiB, but without a
     * codec 384 KiB for owners over link tcp (not with a nic), and with aggregators a 64th of the
     * gradient, from 32 KiB to 1 MiB */
    size_t bucket;

    /* Backup workers, for the collective owners with aggregators. A sum does not wait for the last
     * `late` workers, which keep their pushes in their residuals. Needs a codec with a residual.
     * Plain steps wait for all */
    uint32_t late;
    /* Only with the collective owners, and without nic and device; its memory must outlive the
     * exchange. NULL: ranks take sums */
    const feddc_owner *owner;
    struct feddc_trace
        *trace; /* the engine records its spans here; must outlive the exchange; NULL: no trace */

    /* The GPU where gradients and sums lie (see below), and the stream of the thread that calls put
     * and take. Both must outlive the exchange. NULL: host memory */
    fed_gpu *device;
    fed_gpu_stream *stream;
} feddc_exchange_options;

/*
 * With a device, grad of feddc_exchange_put and sum of feddc_exchange_take are device addresses.
 * Residuals lie on the device too, and the engine works in a stream of its own. Only messages
 * cross the bus. Except with the collective nccl, messages and sums have the same bits as without a
 * device. So ranks with and without one may be in one worker group, if all name the collective.
 *
 *     put   work that is in `stream` at the call may still write grad: the engine waits for it
 *     take  work that `use` enqueues in `stream` may read the sum after take has returned: the
 *           engine does not overwrite the sum before that work is done
 *
 * A device takes the codecs that run on GPUs (fedcodec_gpu_has), and no nic.
 */

/*
 * A NIC that compresses (INCEPTIONN, sections V and VI): it rounds float32 values on their
 * way as fedcodec_bursts_round does, with the bound 2^-e; e is 1 to 15, by default 10. Such a NIC
 * works with any collective, but with no codec.
 *
 *     inline   there is no NIC: this process rounds a copy of what it sends. Any link
 *     packet   link tcp marks its connections for floats, and a NIC such as fednic compresses
 *              their packets. Without a NIC on the way, values arrive unchanged
 *
 * Both give the same bits. A value is rounded at each hop, but only the first rounding can change
 * it. A rank adds its own gradient and its partial sum unrounded. One rank has the whole sum: the
 * owner, the star's aggregator, the last of a ring, or the top of a tree. This rank rounds the sum
 * in place before it sends and uses the sum. With gather each rank rounds its gradient before it
 * sends and adds it. So all replicas have the same bits, also where no NIC is on the way.
 *
 * NICs do not change plain steps, whose messages use unmarked connections.
 */

typedef struct feddc_exchange feddc_exchange;

/**
 * Join the worker group: open the link and start the engine, a thread which encodes, sends and
 * sums while the caller computes.
 *
 * options  is not needed after the call, but what trace, device and stream point to is
 * Errors   FED_EINVAL an option is wrong, or collective and codec do not fit: a codec whose scale
 *          follows the largest value (3lc, stoch3) is refused for ring and tree, where partial sums
 *          are coded again at each hop; FED_ENOTFOUND a codec that the device has not got;
 *          FED_EBUSY no thread; FED_ENOMEM; FED_EIO; those of the link's open
 * Owner    feddc_exchange_close
 */
fed_status feddc_exchange_open(const feddc_exchange_options *options, feddc_exchange **exchange,
                               fed_error *err) FED_CHECKED;

/** Check whether feddc_exchange_open would accept these options for `ranks` ranks, without opening
 * a link. Only link (NULL: any), collective, codec, pull, nic, late, owner, device and stream are
 * read. Errors: as from feddc_exchange_open, without those of the link */
fed_status feddc_exchange_check(const feddc_exchange_options *options, uint32_t ranks,
                                fed_error *err) FED_CHECKED;

/** Workers are the ranks below this number. The other ranks are aggregators. */
uint32_t feddc_exchange_workers(const feddc_exchange *x);

/** The number of values of all tensors. */
size_t feddc_exchange_size(const feddc_exchange *x);

/**
 * The gradient of values offset .. offset + n - 1 of this step is ready. Returns at once.
 *
 * The first step may have any number; later ones go up by 1. Each value is put in once a step, in
 * any order. Parts that are put in from the end to the beginning, as a backward pass makes them,
 * are sent earliest. Two steps may be under way: a part of step t + 2 is put in after that part of
 * step t was taken.
 *
 * grad   float32[n]. All parts of one step lie in one vector, each at its offset. A part must stay
 *        in place, unchanged, until the same part of this step has been taken
 * plain  true: send float32, whatever the codec; the same for all parts and all ranks of a step.
 *        The residuals stay for the next step that is not plain
 */
void feddc_exchange_put(feddc_exchange *x, uint32_t step, size_t offset, const float *grad,
                        size_t n, bool plain);

/**
 * Wait until the sums of all buckets that overlap values offset .. offset + n - 1 are complete,
 * and call `use` once for each part of them that was not taken yet. Over a whole step these parts
 * cover each value once. Steps are taken in their order. `use` may read `sum` until it returns.
 *
 * Errors  FED_EIO a rank is gone: the error's text says which; those of the link and the codecs
 *         (FED_ENONFINITE: a gradient or sum to encode is not finite). After an error the exchange
 *         can only be closed.
 */
fed_status feddc_exchange_take(feddc_exchange *x, uint32_t step, size_t offset, size_t n,
                               void (*use)(void *user, size_t offset, const float *sum, size_t n),
                               void *user, fed_error *err) FED_CHECKED;

/** With backup workers, before this rank puts this step in: return whether the sum of this step, or
 * a part of it, is complete without this rank. This rank may then put in zeros and take the sum, to
 * catch up. */
bool feddc_exchange_is_late(feddc_exchange *x, uint32_t step);

/** All-reduce in float32: put the whole gradient in as a plain step, and take the whole sum. With a
 * device, a copy to sum may still wait in the stream. grad, sum: float32[size]; may be the same */
fed_status feddc_allreduce(feddc_exchange *x, uint32_t step, const float *grad, float *sum,
                           fed_error *err) FED_CHECKED;

/** All-reduce, compressed by x's codec or nic: MPI_collective_communication_comp of INCEPTIONN
 * (section VI-B). Only messages of such steps are marked for NICs. Errors as of feddc_allreduce;
 * also FED_EINVAL x has neither codec nor nic */
fed_status feddc_allreduce_compressed(feddc_exchange *x, uint32_t step, const float *grad,
                                      float *sum, fed_error *err) FED_CHECKED;

/** With an owner, as one step of its own: ask the owners for vector `what`, float32[size]. values
 * is also read, and sent in vain. Errors as of feddc_exchange_take */
fed_status feddc_exchange_ask(feddc_exchange *x, uint32_t step, uint32_t what, float *values,
                              fed_error *err) FED_CHECKED;

/** With an owner, as one step of its own: let the owners learn vector `what`. values,
 * float32[size]: on rank 0 the vector; on return this vector on all ranks. Errors as of
 * feddc_exchange_take */
fed_status feddc_exchange_teach(feddc_exchange *x, uint32_t step, uint32_t what, float *values,
                                fed_error *err) FED_CHECKED;

/** An aggregator's main thread calls this. Returns when all workers have closed. */
fed_status feddc_exchange_serve(feddc_exchange *x, fed_error *err) FED_CHECKED;

/** Make all takes from now on, also a waiting one, fail with FED_EIO and this text. Callable from
 * any thread. */
void feddc_exchange_abort(feddc_exchange *x, const char *why);

/** Of the values that are counted, spread[0] are 1 or more, spread[k] from 2^-k up to 2^(1-k), and
 * the last one has all that are smaller. Signs do not matter. */
enum { FEDDC_SPREAD = 17 };

/** Counts of an exchange since its opening. */
typedef struct feddc_exchange_counts {
    /* bytes of messages and heads; a worker counts received bytes only of complete steps */
    uint64_t sent_bytes, received_bytes;
    uint64_t messages;                /* messages sent */
    double encode_s, decode_s, sum_s; /* seconds of the engine's thread */
    double wait_s;                    /* seconds that the caller waited in take */
    double exchange_s; /* seconds from first put to last sum of a step; overlaps count once */
    /* of `coded` sampled values, `zeroed` became 0 by the nic or by a push codec without a
     * residual */
    uint64_t zeroed, coded;
    uint64_t spread[FEDDC_SPREAD]; /* of these values, before; not counted on a GPU */
} feddc_exchange_counts;

void feddc_exchange_count(feddc_exchange *x, feddc_exchange_counts *counts);

/** The oldest bucket that is not complete, and the rank that this bucket waits for. bucket
 * UINT32_MAX: the exchange waits for nothing. Callable from any thread. */
typedef struct feddc_exchange_state {
    uint32_t step, bucket, waits_for;
} feddc_exchange_state;

void feddc_exchange_look(feddc_exchange *x, feddc_exchange_state *state);

/** The residuals, for a checkpoint: float32[feddc_exchange_state_size] in host memory; with an
 * owner those of pushes only. Only while no step is under way. restore needs the rank, number of
 * ranks and options of save. Errors, with a device: FED_ENOMEM, FED_EIO */
size_t feddc_exchange_state_size(const feddc_exchange *x);
fed_status feddc_exchange_save(const feddc_exchange *x, float *state, fed_error *err) FED_CHECKED;
fed_status feddc_exchange_restore(feddc_exchange *x, const float *state,
                                  fed_error *err) FED_CHECKED;

/** Leave the worker group, and free. orderly: first help the others to finish the last step. NULL
 * is allowed. */
void feddc_exchange_close(feddc_exchange *x, bool orderly);

/** Name of the k-th collective, and its description in one line; NULL past the last. */
const char *feddc_collective_name(size_t k);
const char *feddc_collective_about(size_t k);

/** The default collective is owners. With a device and float32 pulls it is gather, if there are at
 * most 8 ranks or the codec's messages are sparse (sbc, stc, topk, dgc). */
const char *feddc_collective_preset(uint32_t ranks, const char *codec, const char *pull,
                                    bool device);

/** Return whether this codec scales by its input's largest value times a factor, or makes values
 * longer, as eden with one bit or less. Such a codec is refused for ring and tree, where each hop
 * would enlarge the error. */
bool feddc_codec_expands(const char *spec);
/** Set *aggregators to the number of ranks beside the workers: 1 for "owners:aggregators=1".
 * Errors: FED_EINVAL */
fed_status feddc_collective_aggregators(const char *spec, uint32_t *aggregators,
                                        fed_error *err) FED_CHECKED;

FED_API_END

#endif
