/* The interface that a kind of device implements: OpenCL, CUDA. Callers need fed/gpu.h alone. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_GPU_DEVICE_VTABLE_H
#define FED_GPU_DEVICE_VTABLE_H

#include "fed/gpu.h"

/*
 * A kind of device is a folder devices/NAME/ that defines fed_gpu_device_NAME, and a line of
 * devices.def. devices/no_opencl/ replaces opencl in a build without CL/cl.h.
 *
 * The members behave like the functions of fed/gpu.h with the same names. gpu_calls.c checks
 * arguments and handles sizes of 0 before it calls them. A member that fails puts a sentence into
 * *err, or stores it with fed_gpu_fail if the member has no argument err.
 */

/** The common part of all kinds; the struct of a kind begins with it. */
struct fed_gpu {
    const struct fed_gpu_device *device; /* set by gpu_calls.c */
    fed_gpu_info info;
    char *cache;     /* folder of compiled kernels, or NULL */
    fed_error error; /* the last failure */
};

/** The common part of all streams; the struct of a kind begins with it. */
struct fed_gpu_stream {
    fed_gpu *gpu;
    bool keeping; /* between fed_gpu_keep and fed_gpu_kept; set by gpu_calls.c */
};

typedef struct fed_gpu_device {
    const char *name; /* the kind's name; its devices are NAME:0, NAME:1 */

    /** Describe the device with this number, without opening it. FED_ENOTFOUND: there are no more
     * devices. Then *err says which is the last one, or what this machine lacks to have any. */
    fed_status (*look)(uint32_t ordinal, fed_gpu_info *info, fed_error *err) FED_CHECKED;
    /** Open the device with this number. Refuses a device if look has set info->lacks. */
    fed_status (*open)(uint32_t ordinal, fed_gpu **gpu, fed_error *err) FED_CHECKED;
    /** Open a GPU in the context of the program's queue. NULL: fed_gpu_open_native returns
     * FED_ENOTFOUND. */
    fed_status (*open_native)(void *queue, fed_gpu **gpu, fed_error *err) FED_CHECKED;
    void (*close)(fed_gpu *gpu);

    fed_status (*alloc)(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
    void (*free)(fed_gpu *gpu, void *at);
    fed_status (*alloc_host)(fed_gpu *gpu, size_t size, void **at) FED_CHECKED;
    void (*free_host)(fed_gpu *gpu, void *at);
    /** Adopt memory as fed_gpu_adopt does. If adopt is NULL, native is the address, and
     * fed_gpu_release does nothing. Otherwise fed_gpu_release calls the member free. */
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

    /** Start to record a graph. Until kept is called for the stream, only copy, fill and launch are
     * called for it. */
    fed_status (*keep)(fed_gpu_stream *stream) FED_CHECKED;
    fed_status (*kept)(fed_gpu_stream *stream, fed_gpu_graph **graph) FED_CHECKED;
    fed_status (*replay)(fed_gpu_stream *stream, fed_gpu_graph *graph) FED_CHECKED;
    void (*graph_free)(fed_gpu_graph *graph);
} fed_gpu_device;

/** Store the sentence, with the device's name and card in front, and return status. */
fed_status fed_gpu_fail(fed_gpu *gpu, fed_status status, const char *format, ...) FED_PRINTF(3, 4);

/** The text of dialect.h, which is placed before each kernel's source. */
extern const char fed_gpu_dialect[];

#endif
