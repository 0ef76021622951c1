/* What a kind of device provides: OpenCL, CUDA. Callers need fed/gpu.h alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GPU_DEVICE_VTABLE_H
#define FED_GPU_DEVICE_VTABLE_H

#include "fed/gpu.h"

/*
 * A kind is a folder devices/NAME/ that defines `fed_gpu_device_NAME`, and a line of devices.def.
 * devices/no_opencl/ stands for opencl in a build without CL/cl.h.
 * Members are as the functions of fed/gpu.h of the same name; gpu_calls.c checks arguments and
 * sizes of 0 before. What fails keeps a sentence by fed_gpu_fail.
 */

/** What all kinds share; a kind's struct begins with it. */
struct fed_gpu {
    const struct fed_gpu_device *device; /* gpu_calls.c sets it */
    fed_gpu_info info;
    char *cache;     /* NULL: none */
    fed_error error; /* of the last failure */
};

/** As fed_gpu. */
struct fed_gpu_stream {
    fed_gpu *gpu;
    bool keeping; /* between fed_gpu_keep and fed_gpu_kept; the caller of the vtable sets it */
};

typedef struct fed_gpu_device {
    const char *name; /* of the kind: its devices are NAME:0, NAME:1 */

    /** The ordinal-th device; opens nothing. FED_ENOTFOUND: there are no more; *err says which,
     * or what this machine lacks to have any. */
    fed_status (*look)(uint32_t ordinal, fed_gpu_info *info, fed_error *err) FED_CHECKED;
    /** Refuses what look says that it lacks. */
    fed_status (*open)(uint32_t ordinal, fed_gpu **gpu, fed_error *err) FED_CHECKED;
    /** On the context of the program's queue. NULL: FED_ENOTFOUND. */
    fed_status (*open_native)(void *queue, fed_gpu **gpu, fed_error *err) FED_CHECKED;
    void (*close)(fed_gpu *gpu);

    fed_status (*alloc)(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
    void (*free)(fed_gpu *gpu, void *at);
    fed_status (*alloc_host)(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
    void (*free_host)(fed_gpu *gpu, void *at);
    /** NULL: native memory is an address already, and releasing it does nothing. `free` releases
     * what adopt gave. */
    fed_status (*adopt)(fed_gpu *gpu, void *native, void **at) FED_CHECKED;

    fed_status (*build)(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                        fed_error *err) FED_CHECKED;

    fed_status (*stream_new)(fed_gpu *gpu, void *native, fed_gpu_stream **stream) FED_CHECKED;
    void (*stream_free)(fed_gpu_stream *stream);
    fed_status (*copy)(fed_gpu_stream *stream, void *to, const void *from, size_t size,
                       fed_gpu_way way) FED_CHECKED;
    fed_status (*fill)(fed_gpu_stream *stream, void *to, uint8_t value, size_t size) FED_CHECKED;
    fed_status (*launch)(fed_gpu_stream *stream, const fed_gpu_module *module, const char *kernel,
                         uint32_t groups, const fed_gpu_arg *args, size_t count) FED_CHECKED;
    fed_status (*after)(fed_gpu_stream *stream, fed_gpu_stream *other) FED_CHECKED;
    fed_status (*sync)(fed_gpu_stream *stream) FED_CHECKED;
    fed_status (*done)(fed_gpu_stream *stream, bool *done) FED_CHECKED;
    fed_status (*call)(fed_gpu_stream *stream, fed_status (*call)(void *user, void *native),
                       void *user) FED_CHECKED;

    /** Never while another is kept; copy, fill and launch are the only calls until kept. */
    fed_status (*keep)(fed_gpu_stream *stream) FED_CHECKED;
    fed_status (*kept)(fed_gpu_stream *stream, fed_gpu_graph **graph) FED_CHECKED;
    fed_status (*replay)(fed_gpu_stream *stream, fed_gpu_graph *graph) FED_CHECKED;
    void (*graph_free)(fed_gpu_graph *graph);
} fed_gpu_device;

/** Keep the sentence, which begins with the device's name and card, and return status. */
fed_status fed_gpu_fail(fed_gpu *gpu, fed_status status, const char *format, ...) FED_PRINTF(3, 4);

/** dialect.h, which stands before each kernel's text. */
extern const char fed_gpu_dialect[];

#endif
