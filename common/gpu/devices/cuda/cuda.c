/* CUDA devices: memory, streams, launches and graphs, by the CUDA driver API. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "common/gpu/devices/cuda/driver.h"

enum { ARGS = 32 };

typedef struct cuda_gpu_stream {
    fed_gpu_stream base;
    cuda_stream stream;
    bool ours;
} cuda_gpu_stream;

struct fed_gpu_graph {
    const fed_gpu_device *device;
    cuda_gpu *gpu;
    cuda_graph_exec exec;
};

static cuda_gpu *of(fed_gpu_stream *stream) {
    return (cuda_gpu *)stream->gpu;
}

static cuda_stream native(fed_gpu_stream *stream) {
    return ((cuda_gpu_stream *)stream)->stream;
}

static cuda_address address(const void *at) {
    return (cuda_address)(uintptr_t)at;
}

/* Call the driver in the GPU's context. result gets the status; the fed_gpu keeps the error's
 * sentence. */
#define CALL(g, result, name, call)                                                                \
    do {                                                                                           \
        const bool entered_ = fed_cuda_enter(g);                                                   \
        (result) = fed_cuda_checked((g), (g)->cuda.call, name);                                    \
        fed_cuda_leave((g), entered_);                                                             \
    } while (0)

static void describe(const cuda_calls *cuda, cuda_device device, uint32_t ordinal,
                     fed_gpu_info *info) {
    char name[60] = "";
    size_t memory = 0;
    int major = 0, minor = 0, units = 0;
    (void)cuda->device_name(name, sizeof name, device);
    (void)cuda->device_memory(&memory, device);
    (void)cuda->device_attribute(&major, CUDA_MAJOR, device);
    (void)cuda->device_attribute(&minor, CUDA_MINOR, device);
    (void)cuda->device_attribute(&units, CUDA_UNITS, device);
    (void)snprintf(info->name, sizeof info->name, "cuda:%u", ordinal);
    (void)snprintf(info->card, sizeof info->card, "%s, sm_%d%d, CUDA %d.%d", name, major, minor,
                   cuda->version / 1000, cuda->version % 1000 / 10);
    info->memory = memory;
    info->units = (uint32_t)units;
    info->lacks[0] = '\0';
}

static void say_lacks(const cuda_calls *cuda, fed_gpu_info *info) {
    nvrtc_calls nvrtc;
    fed_error why = {.text = ""};
    if (fed_nvrtc_load(&nvrtc, cuda->version, &why) != FED_OK) {
        (void)snprintf(info->lacks, sizeof info->lacks, "%.199s", why.text);
        return;
    }
    fed_nvrtc_unload(&nvrtc);
}

static fed_status find(const cuda_calls *cuda, uint32_t ordinal, cuda_device *device,
                       fed_gpu_info *info, fed_error *err) {
    int count = 0;
    if (cuda->device_count(&count) != CUDA_OK || ordinal >= (uint32_t)count) {
        return fed_fail(err, FED_ENOTFOUND, "cuda:%u is not here: this machine has %d CUDA devices",
                        ordinal, count);
    }
    if (cuda->device_get(device, (int)ordinal) != CUDA_OK) {
        return fed_fail(err, FED_EIO, "cuda:%u: cuDeviceGet failed; see whether nvidia-smi works",
                        ordinal);
    }
    describe(cuda, *device, ordinal, info);
    say_lacks(cuda, info);
    return FED_OK;
}

static fed_status cuda_look(uint32_t ordinal, fed_gpu_info *info, fed_error *err) {
    cuda_calls cuda;
    cuda_device device = 0;
    FED_TRY(fed_cuda_load(&cuda, err));
    fed_status status = find(&cuda, ordinal, &device, info, err);
    fed_cuda_unload(&cuda);
    return status;
}

static void cuda_close(fed_gpu *gpu) {
    cuda_gpu *g = (cuda_gpu *)gpu;
    if (g->context != NULL) {
        const bool entered = fed_cuda_enter(g);
        fed_cuda_free_modules(g);
        fed_cuda_leave(g, entered);
    }
    if (g->retained) {
        (void)g->cuda.context_release(g->device);
    }
    fed_nvrtc_unload(&g->nvrtc);
    fed_cuda_unload(&g->cuda);
    (void)pthread_mutex_destroy(&g->lock);
    free(g);
}

extern const fed_gpu_device fed_gpu_device_cuda;

/* Make a cuda_gpu with the driver loaded, but without a device. */
static fed_status make_gpu(cuda_gpu **made, fed_error *err) {
    cuda_gpu *g = calloc(1, sizeof *g);
    FED_REQUIRE(g != NULL, FED_ENOMEM);
    g->base.device = &fed_gpu_device_cuda;
    (void)pthread_mutex_init(&g->lock, NULL);
    fed_status status = fed_cuda_load(&g->cuda, err);
    if (status != FED_OK) {
        cuda_close(&g->base);
        return status;
    }
    *made = g;
    return FED_OK;
}

static fed_status take_device(cuda_gpu *g, uint32_t ordinal, fed_error *err) {
    int major = 0, minor = 0;
    FED_TRY(find(&g->cuda, ordinal, &g->device, &g->base.info, err));
    if (g->base.info.lacks[0] != '\0') {
        return fed_fail(err, FED_ENOTFOUND, "%s (%.60s) can't be used: %s", g->base.info.name,
                        g->base.info.card, g->base.info.lacks);
    }
    (void)g->cuda.device_attribute(&major, CUDA_MAJOR, g->device);
    (void)g->cuda.device_attribute(&minor, CUDA_MINOR, g->device);
    g->capability = 10 * major + minor;
    return FED_OK;
}

static fed_status take_primary(cuda_gpu *g, uint32_t ordinal, fed_error *err) {
    cuda_context context = NULL;
    FED_TRY(take_device(g, ordinal, err));
    const cuda_result result = g->cuda.context_retain(&context, g->device);
    if (result == CUDA_OK) {
        g->context = context;
        g->retained = true;
    }
    return fed_gpu_explain(&g->base, fed_cuda_checked(g, result, "cuDevicePrimaryCtxRetain"), err);
}

/* Use the context of the program's stream, or the current context if stream is NULL. Find the
 * context's device. */
static fed_status take_context(cuda_gpu *g, cuda_stream stream, fed_error *err) {
    cuda_device device = 0, other = 0;
    cuda_context context = NULL;
    const cuda_result result =
        stream == NULL ? g->cuda.context_get(&context) : g->cuda.stream_context(stream, &context);
    if (result != CUDA_OK || context == NULL) {
        return fed_fail(err, FED_EINVAL, "cuda: %s",
                        stream == NULL ? "this thread has no current context"
                                       : "the queue is no CUstream");
    }
    g->context = context;
    const bool entered = fed_cuda_enter(g);
    const bool known = g->cuda.context_device(&device) == CUDA_OK;
    fed_cuda_leave(g, entered);
    uint32_t ordinal = 0;
    while (known && g->cuda.device_get(&other, (int)ordinal) == CUDA_OK && other != device) {
        ordinal++;
    }
    return take_device(g, ordinal, err);
}

static fed_status finish(cuda_gpu *g, fed_status status, fed_gpu **gpu) {
    if (status != FED_OK) {
        cuda_close(&g->base);
        return status;
    }
    *gpu = &g->base;
    return FED_OK;
}

static fed_status cuda_open(uint32_t ordinal, fed_gpu **gpu, fed_error *err) {
    cuda_gpu *g = NULL;
    FED_TRY(make_gpu(&g, err));
    return finish(g, take_primary(g, ordinal, err), gpu);
}

static fed_status cuda_open_native(void *queue, fed_gpu **gpu, fed_error *err) {
    cuda_gpu *g = NULL;
    FED_TRY(make_gpu(&g, err));
    return finish(g, take_context(g, queue, err), gpu);
}

static fed_status cuda_alloc(fed_gpu *gpu, size_t size, void **at) {
    cuda_gpu *g = (cuda_gpu *)gpu;
    cuda_address got = 0;
    fed_status status;
    CALL(g, status, "cuMemAlloc", alloc(&got, size)); /* the driver gives a multiple of 256 */
    if (status == FED_OK) {
        *at = (void *)(uintptr_t)got; /* NOLINT(performance-no-int-to-ptr) */
    }
    return status;
}

static void cuda_free(fed_gpu *gpu, void *at) {
    cuda_gpu *g = (cuda_gpu *)gpu;
    const bool entered = fed_cuda_enter(g);
    (void)g->cuda.free(address(at));
    fed_cuda_leave(g, entered);
}

static fed_status cuda_alloc_host(fed_gpu *gpu, size_t size, void **at) {
    cuda_gpu *g = (cuda_gpu *)gpu;
    fed_status status;
    CALL(g, status, "cuMemHostAlloc", alloc_host(at, size, CUDA_PORTABLE));
    return status;
}

static void cuda_free_host(fed_gpu *gpu, void *at) {
    cuda_gpu *g = (cuda_gpu *)gpu;
    const bool entered = fed_cuda_enter(g);
    (void)g->cuda.free_host(at);
    fed_cuda_leave(g, entered);
}

static fed_status cuda_stream_new(fed_gpu *gpu, void *given, fed_gpu_stream **stream) {
    cuda_gpu *g = (cuda_gpu *)gpu;
    fed_status status = FED_OK;
    cuda_gpu_stream *s = calloc(1, sizeof *s);
    FED_REQUIRE(s != NULL, FED_ENOMEM);
    s->base.gpu = gpu;
    s->stream = given;
    s->ours = given == NULL;
    if (s->ours) {
        CALL(g, status, "cuStreamCreate", stream_create(&s->stream, CUDA_NON_BLOCKING));
    }
    if (status != FED_OK) {
        free(s);
        return status;
    }
    *stream = &s->base;
    return FED_OK;
}

static void cuda_stream_free(fed_gpu_stream *stream) {
    cuda_gpu *g = of(stream);
    cuda_gpu_stream *s = (cuda_gpu_stream *)stream;
    const bool entered = fed_cuda_enter(g);
    (void)g->cuda.stream_sync(s->stream);
    if (s->ours) {
        (void)g->cuda.stream_destroy(s->stream);
    }
    fed_cuda_leave(g, entered);
    free(s);
}

static fed_status cuda_copy(fed_gpu_stream *stream, void *to, const void *from, size_t size,
                            fed_gpu_way way) {
    cuda_gpu *g = of(stream);
    fed_status status = FED_EINVAL;
    switch (way) {
    case FED_GPU_UP:
        CALL(g, status, "cuMemcpyHtoDAsync", copy_up(address(to), from, size, native(stream)));
        break;
    case FED_GPU_DOWN:
        CALL(g, status, "cuMemcpyDtoHAsync", copy_down(to, address(from), size, native(stream)));
        break;
    case FED_GPU_ACROSS:
        CALL(g, status, "cuMemcpyDtoDAsync",
             copy_across(address(to), address(from), size, native(stream)));
        break;
    }
    return status;
}

static fed_status cuda_fill(fed_gpu_stream *stream, void *to, uint8_t value, size_t size) {
    cuda_gpu *g = of(stream);
    fed_status status;
    CALL(g, status, "cuMemsetD8Async", fill(address(to), value, size, native(stream)));
    return status;
}

static fed_status cuda_launch(fed_gpu_stream *stream, const fed_gpu_module *module,
                              const char *name, uint32_t groups, const fed_gpu_arg *args,
                              size_t count) {
    cuda_gpu *g = of(stream);
    cuda_function function = NULL;
    void *values[ARGS];
    if (count > ARGS) {
        return fed_gpu_fail(&g->base, FED_EINVAL, "kernel %s takes %zu arguments, the most is %d",
                            name, count, ARGS);
    }
    for (size_t k = 0; k < count; k++) { /* the driver reads the argument at values[k] */
        values[k] = args[k].size > 0 ? (void *)args[k].at : (void *)&args[k].at;
    }
    const bool entered = fed_cuda_enter(g);
    fed_status status = fed_cuda_function(g, module, name, &function);
    if (status == FED_OK) {
        const cuda_result result = g->cuda.launch(function, groups, 1, 1, FED_GPU_GROUP, 1, 1, 0,
                                                  native(stream), values, NULL);
        status = fed_cuda_checked(g, result, name);
    }
    fed_cuda_leave(g, entered);
    return status;
}

/* Make stream wait for other. The GPU's context is current. */
static fed_status wait_for(cuda_gpu *g, cuda_stream stream, cuda_stream other) {
    cuda_event event = NULL;
    FED_TRY(
        fed_cuda_checked(g, g->cuda.event_create(&event, CUDA_DISABLE_TIMING), "cuEventCreate"));
    fed_status status = fed_cuda_checked(g, g->cuda.event_record(event, other), "cuEventRecord");
    if (status == FED_OK) {
        status = fed_cuda_checked(g, g->cuda.stream_wait(stream, event, 0), "cuStreamWaitEvent");
    }
    (void)g->cuda.event_destroy(event); /* the driver frees the event once it has happened */
    return status;
}

static fed_status cuda_after(fed_gpu_stream *stream, fed_gpu_stream *other) {
    cuda_gpu *g = of(stream);
    const bool entered = fed_cuda_enter(g);
    fed_status status = wait_for(g, native(stream), native(other));
    fed_cuda_leave(g, entered);
    return status;
}

static fed_status cuda_sync(fed_gpu_stream *stream) {
    cuda_gpu *g = of(stream);
    fed_status status;
    CALL(g, status, "cuStreamSynchronize", stream_sync(native(stream)));
    return status;
}

static fed_status cuda_done(fed_gpu_stream *stream, bool *done) {
    cuda_gpu *g = of(stream);
    const bool entered = fed_cuda_enter(g);
    const cuda_result result = g->cuda.stream_query(native(stream));
    fed_cuda_leave(g, entered);
    *done = result == CUDA_OK;
    return result == CUDA_NOT_READY ? FED_OK : fed_cuda_checked(g, result, "cuStreamQuery");
}

static fed_status cuda_call(fed_gpu_stream *stream, fed_status (*call)(void *user, void *native),
                            void *user) {
    cuda_gpu *g = of(stream);
    const bool entered = fed_cuda_enter(g);
    fed_status status = call(user, native(stream));
    fed_cuda_leave(g, entered);
    return status;
}

static fed_status cuda_keep(fed_gpu_stream *stream) {
    cuda_gpu *g = of(stream);
    fed_status status;
    /* In the relaxed mode, this and other threads may allocate memory during the capture. */
    CALL(g, status, "cuStreamBeginCapture", capture_begin(native(stream), CUDA_CAPTURE_RELAXED));
    return status;
}

static fed_status make_graph(cuda_gpu *g, fed_gpu_stream *stream, cuda_graph_exec *exec) {
    cuda_graph kept = NULL;
    FED_TRY(fed_cuda_checked(g, g->cuda.capture_end(native(stream), &kept), "cuStreamEndCapture"));
    fed_status status =
        fed_cuda_checked(g, g->cuda.graph_make(exec, kept, 0), "cuGraphInstantiateWithFlags");
    (void)g->cuda.graph_destroy(kept);
    return status;
}

static fed_status cuda_kept(fed_gpu_stream *stream, fed_gpu_graph **graph) {
    cuda_gpu *g = of(stream);
    fed_gpu_graph *made = calloc(1, sizeof *made);
    FED_REQUIRE(made != NULL, FED_ENOMEM);
    *made = (fed_gpu_graph){.device = &fed_gpu_device_cuda, .gpu = g};
    const bool entered = fed_cuda_enter(g);
    fed_status status = make_graph(g, stream, &made->exec);
    fed_cuda_leave(g, entered);
    if (status != FED_OK) {
        free(made);
        return status;
    }
    *graph = made;
    return FED_OK;
}

static fed_status cuda_replay(fed_gpu_stream *stream, fed_gpu_graph *graph) {
    cuda_gpu *g = of(stream);
    fed_status status;
    if (graph->gpu != g) {
        return fed_gpu_fail(stream->gpu, FED_EINVAL, "the graph belongs to another GPU");
    }
    CALL(g, status, "cuGraphLaunch", graph_launch(graph->exec, native(stream)));
    return status;
}

static void cuda_graph_free(fed_gpu_graph *graph) {
    cuda_gpu *g = graph->gpu;
    const bool entered = fed_cuda_enter(g);
    (void)g->cuda.graph_exec_destroy(graph->exec);
    fed_cuda_leave(g, entered);
    free(graph);
}

const fed_gpu_device fed_gpu_device_cuda = {
    .name = "cuda",
    .look = cuda_look,
    .open = cuda_open,
    .open_native = cuda_open_native,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .build = fed_cuda_build,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .launch = cuda_launch,
    .after = cuda_after,
    .sync = cuda_sync,
    .done = cuda_done,
    .call = cuda_call,
    .keep = cuda_keep,
    .kept = cuda_kept,
    .replay = cuda_replay,
    .graph_free = cuda_graph_free,
};
