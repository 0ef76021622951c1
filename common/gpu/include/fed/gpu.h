/* A GPU, or another device with memory of its own, by OpenCL or CUDA: kernels, streams, copies. */
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
 * Errors   A call that fails stores a sentence in the fed_gpu: which card, which call, what to do.
 *          fed_gpu_explain returns the sentence. Kernels run later than their launch, so a
 *          failure may show in a later call. After FED_EIO the GPU may be lost: close it.
 */
typedef struct fed_gpu fed_gpu;
typedef struct fed_gpu_module fed_gpu_module;
typedef struct fed_gpu_stream fed_gpu_stream;
typedef struct fed_gpu_graph fed_gpu_graph;

/* -- Devices -- */

enum { FED_GPU_NAME = 24, FED_GPU_GROUP = 256 };

/** A device of this machine. */
typedef struct fed_gpu_info {
    char name[FED_GPU_NAME]; /* as fed_gpu_open takes it: "opencl:0" */
    char card[100];          /* the maker's name of the card, and the driver */
    uint64_t memory;         /* bytes of the device's memory */
    uint32_t units;          /* compute units (OpenCL) or multiprocessors (CUDA) */
    char lacks[200];         /* a sentence why the device can't be used; "" if it can */
} fed_gpu_info;

/** Describe the k-th device of this machine, with all kinds in the order of devices.def.
 * FED_ENOTFOUND: there are no more. */
fed_status fed_gpu_list(size_t k, fed_gpu_info *info) FED_CHECKED;

/** Return the name of the k-th kind of device, such as "opencl". missing->text says why this
 * machine has no device of that kind, and which package to install; it is "" if there is a
 * device. FED_ENOTFOUND: there are no more kinds. */
fed_status fed_gpu_kind(size_t k, const char **kind, fed_error *missing) FED_CHECKED;

/** Could this be the name of a device, such as "opencl", "cuda:1" or "gpu"? The device need not
 * exist. */
bool fed_gpu_is_name(const char *name);

/**
 * Open a device.
 *
 * name    "opencl:0", "cuda:1"; "opencl", "cuda": the first usable one of the kind; "gpu": the
 *         first usable one
 * cache   folder for compiled kernels, which is made if it is missing; NULL: compile anew
 * Errors  FED_EINVAL no such name; FED_ENOTFOUND no such device, or its driver is not installed;
 *         FED_ESTATE a device that lacks what kernels need, such as binary64; FED_ENOMEM; FED_EIO
 */
fed_status fed_gpu_open(const char *name, const char *cache, fed_gpu **gpu,
                        fed_error *err) FED_CHECKED;

/**
 * Open the device of the program's own queue, in the queue's context, so that the GPU uses the
 * program's memory and streams.
 *
 * kind    "opencl": queue is a cl_command_queue. "cuda": queue is a CUstream, or NULL for the
 *         stream 0 of the thread's current context. The program keeps the queue
 * cache   as for fed_gpu_open
 * Errors  as fed_gpu_open; FED_EINVAL if queue is not such a queue
 */
fed_status fed_gpu_open_native(const char *kind, void *queue, const char *cache, fed_gpu **gpu,
                               fed_error *err) FED_CHECKED;

/** Close a GPU. All that was made with it must be freed before, except modules. NULL is allowed. */
void fed_gpu_close(fed_gpu *gpu);

const fed_gpu_info *fed_gpu_info_of(const fed_gpu *gpu);

/** Put the sentence of this GPU's last failure into *err, and return status. If status is FED_OK
 * it only returns FED_OK. */
fed_status fed_gpu_explain(const fed_gpu *gpu, fed_status status, fed_error *err) FED_CHECKED;

/* -- Memory -- */

/** Allocate size bytes on the device, at a multiple of 128; their content is arbitrary. For 0 bytes
 * *at is some value that fed_gpu_free accepts. Before fed_gpu_free, all work that uses the memory
 * must be done: call fed_gpu_sync. Errors: FED_ENOMEM, FED_EIO. */
fed_status fed_gpu_alloc(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
void fed_gpu_free(fed_gpu *gpu, void *at);

/** Allocate size bytes of host memory for copies. With CUDA it is pinned, which makes them faster.
 * Errors: FED_ENOMEM, FED_EIO. */
fed_status fed_gpu_alloc_host(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
void fed_gpu_free_host(fed_gpu *gpu, void *at);

/** Return an address for the program's own memory, after fed_gpu_open_native. native is a cl_mem,
 * or a CUdeviceptr, which is an address already. Copies ACROSS stay within such memory, or within
 * memory of fed_gpu_alloc. fed_gpu_release gives the address back and leaves the memory to the
 * program. Errors, with OpenCL only: FED_EINVAL the memory belongs to another context; FED_ESTATE
 * the GPU was opened by fed_gpu_open; FED_ENOMEM; FED_EIO, such as for what is no memory. */
fed_status fed_gpu_adopt(fed_gpu *gpu, void *native, void **at) FED_CHECKED;
void fed_gpu_release(fed_gpu *gpu, void *at);

/* -- Kernels -- */

/** Compile kernels. The text of common/gpu/dialect.h is placed before source. Errors: FED_EIO with
 * the compiler's message; FED_ENOMEM. Modules are freed with the GPU. */
fed_status fed_gpu_build(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                         fed_error *err) FED_CHECKED;

/** An argument of a kernel: an address on the device, which may be NULL, or a value. */
typedef struct fed_gpu_arg {
    const void *at;
    size_t size; /* bytes of a value; 0: at is a device address */
} fed_gpu_arg;

#define FED_GPU_AT(address) ((fed_gpu_arg){(address), 0})
#define FED_GPU_VALUE(name) ((fed_gpu_arg){&(name), sizeof(name)})

/* -- Streams: work in order -- */

/** Make a stream. native is the caller's CUstream or cl_command_queue, which runs in order and
 * belongs to the same context; NULL makes a new one. Errors: FED_EINVAL, FED_ENOMEM, FED_EIO. */
fed_status fed_gpu_stream_new(fed_gpu *gpu, void *native, fed_gpu_stream **stream) FED_CHECKED;
void fed_gpu_stream_free(fed_gpu_stream *stream);

/** Copy size bytes: UP from the host to the device, DOWN from the device to the host, or ACROSS
 * within the device. Until the next fed_gpu_sync, host memory that is read must stay unchanged, and
 * host memory that is written must not be read. */
typedef enum fed_gpu_way { FED_GPU_UP, FED_GPU_DOWN, FED_GPU_ACROSS } fed_gpu_way;
fed_status fed_gpu_copy(fed_gpu_stream *stream, void *to, const void *from, size_t size,
                        fed_gpu_way way) FED_CHECKED;

/** Set size bytes to a value. */
fed_status fed_gpu_fill(fed_gpu_stream *stream, void *to, uint8_t value, size_t size) FED_CHECKED;

/** Run a kernel in `groups` work-groups of FED_GPU_GROUP work-items each; 0 groups do nothing. The
 * arguments' values are copied. */
fed_status fed_gpu_launch(fed_gpu_stream *stream, const fed_gpu_module *module, const char *kernel,
                          uint32_t groups, const fed_gpu_arg *args, size_t count) FED_CHECKED;

/** Make later work of a stream wait for the present work of the stream other. Both belong to one
 * GPU. */
fed_status fed_gpu_after(fed_gpu_stream *stream, fed_gpu_stream *other) FED_CHECKED;

/** Wait until all work of the stream is done. */
fed_status fed_gpu_sync(fed_gpu_stream *stream) FED_CHECKED;

/** Set *done to whether all work of the stream is done. The call does not wait, and may report the
 * end a moment late. An error of the work itself is returned. */
fed_status fed_gpu_done(fed_gpu_stream *stream, bool *done) FED_CHECKED;

/** Let another library enqueue work in the stream. fed_gpu_call runs call(user, native) in this
 * thread before it returns; native is the stream's CUstream or cl_command_queue. A CUDA device's
 * context is current during the call. Returns what call returns. FED_ESTATE: the stream is
 * recording a graph. */
fed_status fed_gpu_call(fed_gpu_stream *stream, fed_status (*call)(void *user, void *native),
                        void *user) FED_CHECKED;

/* -- Graphs: the same work again, at the cost of one call -- */

/** Record a graph. From fed_gpu_keep to fed_gpu_kept, copies, fills and launches of the stream are
 * recorded and not run. Copies from the host read its memory each time the graph runs. All other
 * calls with this stream return FED_ESTATE until then. */
fed_status fed_gpu_keep(fed_gpu_stream *stream) FED_CHECKED;
fed_status fed_gpu_kept(fed_gpu_stream *stream, fed_gpu_graph **graph) FED_CHECKED;
/** Run a graph in any stream of its GPU, any number of times. The memory that it uses must still
 * exist. Free a graph only when none of its runs is under way. */
fed_status fed_gpu_replay(fed_gpu_stream *stream, fed_gpu_graph *graph) FED_CHECKED;
void fed_gpu_graph_free(fed_gpu_graph *graph);

FED_API_END

#endif
