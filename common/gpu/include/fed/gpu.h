/* A GPU, or another device with memory of its own: kernels, streams, copies. OpenCL or CUDA. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GPU_H
#define FED_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fed/api.h"
#include "fed/error.h"

FED_API_BEGIN

/*
 * The drivers' libraries are loaded when the program runs, so one binary runs on machines with and
 * without them. A kernel is a text in the common subset of OpenCL C 1.2 and CUDA C
 * (docs/gpu.md has the rules); it is compiled on the machine where it runs.
 *
 *     fed_gpu *gpu;
 *     fed_gpu_open("opencl:0", NULL, &gpu, &err);
 *     fed_gpu_stream *stream;
 *     fed_gpu_stream_new(gpu, NULL, &stream);
 *     float *x;
 *     fed_gpu_alloc(gpu, n * sizeof *x, (void **)&x);
 *     fed_gpu_copy(stream, x, values, n * sizeof *x, FED_GPU_UP);
 *     const fed_gpu_arg args[] = {FED_GPU_AT(x), FED_GPU_VALUE(n)};
 *     fed_gpu_launch(stream, module, "negate", groups, args, 2);
 *     fed_gpu_copy(stream, values, x, n * sizeof *x, FED_GPU_DOWN);
 *     fed_gpu_sync(stream);
 *
 * A device address is a plain pointer that the host must not follow; arithmetic on it is allowed.
 *
 * Threads  A stream belongs to one thread at a time; other calls may come from any thread.
 * Errors   A call that fails keeps its sentence in the GPU: which card, which call, what to do.
 *          fed_gpu_explain hands it out. Kernels run later than their launch, so a failure may
 *          show in a later call. After FED_EIO the GPU is lost: close it.
 */
typedef struct fed_gpu fed_gpu;
typedef struct fed_gpu_module fed_gpu_module;
typedef struct fed_gpu_stream fed_gpu_stream;
typedef struct fed_gpu_graph fed_gpu_graph;

/* -- Devices -- */

enum { FED_GPU_NAME = 24, FED_GPU_GROUP = 256 };

/** A device of this machine. */
typedef struct fed_gpu_info {
    char name[FED_GPU_NAME]; /* "opencl:0": what fed_gpu_open takes */
    char card[100];          /* the maker's name for it, and the driver */
    uint64_t memory;         /* bytes */
    uint32_t units;          /* compute units, multiprocessors */
    char lacks[200];         /* why it can't be used, a sentence; "": it can */
} fed_gpu_info;

/** The k-th device of this machine, all kinds in the order of devices.def. FED_ENOTFOUND: there are
 * no more. */
fed_status fed_gpu_list(size_t k, fed_gpu_info *info) FED_CHECKED;

/** The k-th kind of device, such as "opencl". missing->text says why this machine has none of that
 * kind, and which package has what is missing; "": it has one. FED_ENOTFOUND: there are no more. */
fed_status fed_gpu_kind(size_t k, const char **kind, fed_error *missing) FED_CHECKED;

/** Is this the name of a device, be it there or not: "opencl", "cuda:1", "gpu"? */
bool fed_gpu_is_name(const char *name);

/**
 * Open a device.
 *
 * name    "opencl:0", "cuda:1"; "opencl", "cuda": the first usable one of the kind; "gpu": the
 *         first usable one
 * cache   folder for compiled kernels, which is made if it is missing; NULL: compile anew
 * Errors  FED_EINVAL no such name; FED_ENOTFOUND no such device, or its driver is not installed;
 *         FED_ESTATE a device that can't be exact (no denormals, no binary64); FED_ENOMEM; FED_EIO
 */
fed_status fed_gpu_open(const char *name, const char *cache, fed_gpu **gpu,
                        fed_error *err) FED_CHECKED;

/**
 * Open the device that a queue of the program's own is on, in the queue's context, so that the GPU
 * uses the program's memory and streams.
 *
 * kind    "opencl": queue is a cl_command_queue; "cuda": queue is a CUstream, or NULL for the
 *         stream 0 of the thread's current context. The queue stays the program's
 * cache   as for fed_gpu_open
 * Errors  as fed_gpu_open; FED_EINVAL no such queue
 */
fed_status fed_gpu_open_native(const char *kind, void *queue, const char *cache, fed_gpu **gpu,
                               fed_error *err) FED_CHECKED;

/** All that was made with it must be freed before, but modules. Safe on NULL. */
void fed_gpu_close(fed_gpu *gpu);

const fed_gpu_info *fed_gpu_info_of(const fed_gpu *gpu);

/** Put the sentence of the last failure of this GPU into *err, and return status; FED_OK stays what
 * it is. */
fed_status fed_gpu_explain(const fed_gpu *gpu, fed_status status, fed_error *err) FED_CHECKED;

/* -- Memory -- */

/** size bytes on the device, at a multiple of 128; content arbitrary. 0 bytes: *at may be anything
 * that fed_gpu_free takes. Before fed_gpu_free all work that uses the memory is done: fed_gpu_sync.
 * FED_ENOMEM, FED_EIO */
fed_status fed_gpu_alloc(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
void fed_gpu_free(fed_gpu *gpu, void *at);

/** size bytes of the host from and to which copies are fastest (pinned). FED_ENOMEM */
fed_status fed_gpu_alloc_host(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
void fed_gpu_free_host(fed_gpu *gpu, void *at);

/** An address for memory of the program's own, after fed_gpu_open_native: a cl_mem, or a
 * CUdeviceptr, which is one already. Copies ACROSS are within such memory, or within what
 * fed_gpu_alloc gave. fed_gpu_release takes the address back and leaves the memory
 * to the program. FED_EINVAL no such memory, or another context's; FED_ESTATE the GPU was opened by
 * fed_gpu_open; FED_ENOMEM */
fed_status fed_gpu_adopt(fed_gpu *gpu, void *native, void **at) FED_CHECKED;
void fed_gpu_release(fed_gpu *gpu, void *at);

/* -- Kernels -- */

/** Compile kernels. source: common/gpu/dialect.h stands before it. Errors: FED_EIO with what the
 * compiler said; FED_ENOMEM. Modules are freed with the GPU. */
fed_status fed_gpu_build(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                         fed_error *err) FED_CHECKED;

/** An argument of a kernel: an address on the device, which may be NULL, or a value. */
typedef struct fed_gpu_arg {
    const void *at;
    size_t size; /* 0: `at` is a device address */
} fed_gpu_arg;

#define FED_GPU_AT(address) ((fed_gpu_arg){(address), 0})
#define FED_GPU_VALUE(name) ((fed_gpu_arg){&(name), sizeof(name)})

/* -- Streams: work in order -- */

/** native: a CUstream or a cl_command_queue of the caller's, which runs in order and is of the same
 * context; NULL: a new one. FED_EINVAL, FED_ENOMEM, FED_EIO */
fed_status fed_gpu_stream_new(fed_gpu *gpu, void *native, fed_gpu_stream **stream) FED_CHECKED;
void fed_gpu_stream_free(fed_gpu_stream *stream);

/** Copy size bytes; either place may be the host's. Memory of the host stays as it is, or is not
 * read, until the next fed_gpu_sync. */
typedef enum fed_gpu_way { FED_GPU_UP, FED_GPU_DOWN, FED_GPU_ACROSS } fed_gpu_way;
fed_status fed_gpu_copy(fed_gpu_stream *stream, void *to, const void *from, size_t size,
                        fed_gpu_way way) FED_CHECKED;

/** size bytes of this value. */
fed_status fed_gpu_fill(fed_gpu_stream *stream, void *to, uint8_t value, size_t size) FED_CHECKED;

/** Run a kernel in `groups` groups of FED_GPU_GROUP work-items; 0 groups do nothing. The arguments'
 * values are copied. */
fed_status fed_gpu_launch(fed_gpu_stream *stream, const fed_gpu_module *module, const char *kernel,
                          uint32_t groups, const fed_gpu_arg *args, size_t count) FED_CHECKED;

/** What comes next in stream waits for what is in `other` now. Both are of one GPU. */
fed_status fed_gpu_after(fed_gpu_stream *stream, fed_gpu_stream *other) FED_CHECKED;

/** Wait until all of the stream is done. */
fed_status fed_gpu_sync(fed_gpu_stream *stream) FED_CHECKED;

/** *done: all of the stream is done. Does not wait, and may see the end a moment late. An error of
 * the work itself is returned. */
fed_status fed_gpu_done(fed_gpu_stream *stream, bool *done) FED_CHECKED;

/** Let another library enqueue work in the stream: call(user, native) runs in this thread before
 * fed_gpu_call returns. native is the stream's CUstream or cl_command_queue; a CUDA device's
 * context is current meanwhile. Returns what call returns; FED_ESTATE: the stream is being kept. */
fed_status fed_gpu_call(fed_gpu_stream *stream, fed_status (*call)(void *user, void *native),
                        void *user) FED_CHECKED;

/* -- Graphs: the same work again, at the cost of one call -- */

/** From here on copies, fills and launches of the stream are kept and not run, until fed_gpu_kept.
 * Copies to and from the host read it when the graph runs. All other calls with this stream are
 * FED_ESTATE till then. */
fed_status fed_gpu_keep(fed_gpu_stream *stream) FED_CHECKED;
fed_status fed_gpu_kept(fed_gpu_stream *stream, fed_gpu_graph **graph) FED_CHECKED;
/** Run it in any stream of the GPU, any number of times. What it reads and writes must exist. Free
 * it when none of its runs is under way. */
fed_status fed_gpu_replay(fed_gpu_stream *stream, fed_gpu_graph *graph) FED_CHECKED;
void fed_gpu_graph_free(fed_gpu_graph *graph);

FED_API_END

#endif
