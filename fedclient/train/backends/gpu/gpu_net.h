/* A net on a GPU: its memory, and the functions that its files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDTRAIN_GPU_NET_H
#define FEDTRAIN_GPU_NET_H

#include "fedclient/train/backends/gpu/gpu_op.h"

enum { FEDTRAIN_GPU_SLOTS = 2, FEDTRAIN_GPU_ALIGN = 128, FEDTRAIN_GPU_NORM_PARTS = 256 };

/** The result of a pass. step.cl has the same struct and describes its members. */
typedef struct fedtrain_gpu_result {
    double loss;
    float scale;
    uint32_t failed;
} fedtrain_gpu_result;

/** A pass that was started: its batch in pinned memory of the host, and its result. */
typedef struct fedtrain_gpu_slot {
    uint8_t *batch; /* seed, samples, labels or targets, as on the device */
    fedtrain_gpu_result *result;
    fed_gpu_stream *reader; /* waiting for it waits for this pass, and not for the next one */
    uint32_t size;          /* samples */
} fedtrain_gpu_slot;

/** Launches that were recorded, to be run again for batches of the same size. */
typedef struct fedtrain_gpu_record {
    fed_gpu_graph *graph; /* NULL: nothing is recorded yet */
    size_t size;
} fedtrain_gpu_record;

typedef struct fedtrain_gpu_net {
    const fed_arch *arch;
    size_t max_batch;
    fed_gpu *gpu;
    fed_gpu_stream *stream;
    const fed_gpu_module *step;
    const fed_gpu_module **module; /* [layer_count]: the kernels of each layer */

    /* One allocation on the device, and its slices. Only the arrays of pointers, and `depends`, are
     * on the host. */
    uint8_t *memory;
    size_t memory_size, activations, gradients;
    float *params; /* float32[layout.size] */
    float *grad;   /* float32[trained] */
    uint8_t *batch;
    float **value;      /* [layer_count + 1]; the first is in batch */
    float **value_grad; /* [layer_count + 1]; NULL: not needed */
    bool *depends;      /* [layer_count + 1]: does the value depend on parameters? */
    void **kept;        /* [layer_count]: what each layer keeps between calls */
    void *work;
    double *losses; /* float64: a loss for each position, or for each number */
    double *norm;   /* float64[FEDTRAIN_GPU_NORM_PARTS] */
    fedtrain_gpu_result *result;
    float *state; /* float32[state_room], the optimizer's; allocated alone */
    size_t state_room;

    /* Used from begin to end. */
    bool resident;
    const float *host_params, *host_state;
    size_t moments; /* number of moments that updates have changed, 0 to 2 */

    fedtrain_gpu_record whole, statistics; /* for training passes; for updates of statistics */

    fedtrain_gpu_slot slot[FEDTRAIN_GPU_SLOTS];
    size_t next;   /* the slot of the next pass */
    size_t open;   /* passes that were started and not waited for */
    size_t waited; /* the slot of the last pass that was waited for */
    size_t last_size;
    float *host; /* float32[host_room]: values on their way from or to the device */
    size_t host_room;
} fedtrain_gpu_net;

/** Allocate the memory of the passes. FED_EINVAL: more values than the kernels can count. */
fed_status fedtrain_gpu_plan(fedtrain_gpu_net *net, fed_error *err) FED_CHECKED;

/** Return where the labels or targets begin in the bytes of a batch of this size. */
size_t fedtrain_gpu_labels_at(const fedtrain_gpu_net *net, size_t batch);

/** The number of bytes of a batch of this size: seed, samples, labels or targets. */
size_t fedtrain_gpu_batch_bytes(const fedtrain_gpu_net *net, size_t batch);

fedtrain_gpu_op fedtrain_gpu_op_of(const fedtrain_gpu_net *net, size_t layer, size_t batch,
                                   bool training);

/* The next five functions are in gpu_pass.c. They put work into the stream, and do not wait for
 * it. */

/** Copy samples, and labels if any, to the device by way of the next slot, which is then taken. */
fed_status fedtrain_gpu_bring(fedtrain_gpu_net *net, const fedtrain_pass *pass,
                              const fedtrain_labels *labels) FED_CHECKED;

fed_status fedtrain_gpu_forward(fedtrain_gpu_net *net, size_t batch, bool training) FED_CHECKED;

/** Compute the loss, and the gradient of the loss by the last value. */
fed_status fedtrain_gpu_loss(fedtrain_gpu_net *net, size_t batch) FED_CHECKED;

fed_status fedtrain_gpu_backward(fedtrain_gpu_net *net, size_t layer, size_t batch) FED_CHECKED;

fed_status fedtrain_gpu_keep_statistics(fedtrain_gpu_net *net) FED_CHECKED;

extern const fedtrain_device_vtable fedtrain_gpu_device;

/** Do what fedtrain_gpu_keep_statistics does, by recorded launches. */
fed_status fedtrain_gpu_follow_statistics(fedtrain_gpu_net *net) FED_CHECKED;

#endif
