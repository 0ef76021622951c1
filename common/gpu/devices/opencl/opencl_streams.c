/* Streams and graphs of OpenCL devices. A graph is a list of calls, which are made again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/gpu/devices/opencl/opencl_gpu.h"

enum { ALIGN = 16 }; /* alignment of argument values in a graph */

typedef struct step {
    enum { COPY, FILL, LAUNCH } what;
    void *to;
    const void *from;
    size_t size; /* LAUNCH: number of arguments */
    fed_gpu_way way;
    uint8_t value;
    cl_kernel kernel;
    uint32_t groups;
    fed_gpu_arg *args; /* LAUNCH: the arguments, then the values that they point to */
} step;

struct fed_gpu_graph {
    const fed_gpu_device *device;
    const fed_gpu *gpu;
    step *step;
    size_t count, room;
};

typedef struct opencl_stream {
    fed_gpu_stream base;
    cl_command_queue queue;
    fed_gpu_graph *graph; /* the graph being recorded; NULL: work runs at once */
} opencl_stream;

static opencl_gpu *of(fed_gpu_stream *stream) {
    return (opencl_gpu *)stream->gpu;
}

static fed_status take_queue(opencl_gpu *g, cl_command_queue native, cl_command_queue *queue) {
    cl_command_queue_properties properties = 0;
    cl_int code = 0;
    if (native == NULL) {
        *queue = g->cl.clCreateCommandQueue(g->context, g->device, 0, &code);
        return fed_opencl_checked(g, code, "clCreateCommandQueue");
    }
    cl_context context = NULL;
    FED_TRY(fed_opencl_checked(g,
                               g->cl.clGetCommandQueueInfo(native, CL_QUEUE_PROPERTIES,
                                                           sizeof properties, &properties, NULL),
                               "clGetCommandQueueInfo"));
    FED_TRY(fed_opencl_checked(
        g,
        g->cl.clGetCommandQueueInfo(native, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL),
        "clGetCommandQueueInfo"));
    if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0) {
        return fed_gpu_fail(&g->base, FED_EINVAL,
                            "the queue runs out of order; a stream needs one that runs in order");
    }
    if (context != g->context) {
        return fed_gpu_fail(&g->base, FED_EINVAL,
                            "the queue belongs to another context; open the GPU with "
                            "fed_gpu_open_native and this queue");
    }
    *queue = native;
    return fed_opencl_checked(g, g->cl.clRetainCommandQueue(native), "clRetainCommandQueue");
}

fed_status fed_opencl_stream_new(fed_gpu *gpu, void *native, fed_gpu_stream **stream) {
    opencl_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return fed_gpu_fail(gpu, FED_ENOMEM, "out of memory for a stream");
    }
    s->base.gpu = gpu;
    fed_status status = take_queue((opencl_gpu *)gpu, native, &s->queue);
    if (status != FED_OK) {
        free(s);
        return status;
    }
    *stream = &s->base;
    return FED_OK;
}

void fed_opencl_stream_free(fed_gpu_stream *stream) {
    opencl_gpu *g = of(stream);
    opencl_stream *s = (opencl_stream *)stream;
    (void)g->cl.clFinish(s->queue);
    (void)g->cl.clReleaseCommandQueue(s->queue);
    if (s->graph != NULL) {
        fed_opencl_graph_free(s->graph);
    }
    free(s);
}

static fed_status add_step(fed_gpu *gpu, fed_gpu_graph *graph, const step *new_step) {
    if (graph->count == graph->room) {
        const size_t room = graph->room > 0 ? 2 * graph->room : 64;
        step *more = realloc(graph->step, room * sizeof *more);
        if (more == NULL) {
            return fed_gpu_fail(gpu, FED_ENOMEM, "out of memory for a graph");
        }
        graph->step = more;
        graph->room = room;
    }
    graph->step[graph->count++] = *new_step;
    return FED_OK;
}

static size_t round_up(size_t size) {
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static fed_status copy_args(fed_gpu *gpu, const fed_gpu_arg *args, size_t count,
                            fed_gpu_arg **copy) {
    size_t size = round_up(count * sizeof *args);
    for (size_t k = 0; k < count; k++) {
        size += round_up(args[k].size);
    }
    *copy = malloc(size + 1);
    if (*copy == NULL) {
        return fed_gpu_fail(gpu, FED_ENOMEM, "out of memory for a graph");
    }
    char *values = (char *)*copy + round_up(count * sizeof *args);
    for (size_t k = 0; k < count; k++) {
        (*copy)[k] = args[k];
        if (args[k].size > 0) {
            memcpy(values, args[k].at, args[k].size);
            (*copy)[k].at = values;
            values += round_up(args[k].size);
        }
    }
    return FED_OK;
}

fed_status fed_opencl_keep(fed_gpu_stream *stream) {
    opencl_stream *s = (opencl_stream *)stream;
    s->graph = calloc(1, sizeof *s->graph);
    if (s->graph == NULL) {
        return fed_gpu_fail(stream->gpu, FED_ENOMEM, "out of memory for a graph");
    }
    s->graph->device = stream->gpu->device;
    s->graph->gpu = stream->gpu;
    return FED_OK;
}

fed_status fed_opencl_kept(fed_gpu_stream *stream, fed_gpu_graph **graph) {
    opencl_stream *s = (opencl_stream *)stream;
    *graph = s->graph;
    s->graph = NULL;
    return FED_OK;
}

void fed_opencl_graph_free(fed_gpu_graph *graph) {
    for (size_t k = 0; k < graph->count; k++) {
        free(graph->step[k].args);
    }
    free(graph->step);
    free(graph);
}

/* The caller holds the lock. */
static fed_status launch_locked(opencl_gpu *g, cl_command_queue queue, const step *l) {
    const size_t local = FED_GPU_GROUP, global = local * l->groups;
    for (size_t k = 0; k < l->size; k++) {
        const fed_gpu_arg *arg = &l->args[k];
        FED_TRY(arg->size == 0
                    ? fed_opencl_set_address(g, l->kernel, (cl_uint)k, arg->at)
                    : fed_opencl_checked(
                          g, g->cl.clSetKernelArg(l->kernel, (cl_uint)k, arg->size, arg->at),
                          "clSetKernelArg"));
    }
    return fed_opencl_checked(
        g, g->cl.clEnqueueNDRangeKernel(queue, l->kernel, 1, NULL, &global, &local, 0, NULL, NULL),
        "clEnqueueNDRangeKernel");
}

static fed_status run_step(opencl_gpu *g, cl_command_queue queue, const step *s) {
    if (s->what == COPY) {
        return fed_opencl_copy(g, queue, s->to, s->from, s->size, s->way);
    }
    if (s->what == FILL) {
        return fed_opencl_fill(g, queue, s->to, s->value, s->size);
    }
    (void)pthread_mutex_lock(&g->lock);
    fed_status status = launch_locked(g, queue, s);
    (void)pthread_mutex_unlock(&g->lock);
    return status;
}

static fed_status run_or_keep(fed_gpu_stream *stream, const step *s) {
    opencl_stream *o = (opencl_stream *)stream;
    return o->graph == NULL ? run_step(of(stream), o->queue, s)
                            : add_step(stream->gpu, o->graph, s);
}

fed_status fed_opencl_stream_copy(fed_gpu_stream *stream, void *to, const void *from, size_t size,
                                  fed_gpu_way way) {
    const step s = {.what = COPY, .to = to, .from = from, .size = size, .way = way};
    return run_or_keep(stream, &s);
}

fed_status fed_opencl_stream_fill(fed_gpu_stream *stream, void *to, uint8_t value, size_t size) {
    const step s = {.what = FILL, .to = to, .size = size, .value = value};
    return run_or_keep(stream, &s);
}

fed_status fed_opencl_launch(fed_gpu_stream *stream, const fed_gpu_module *module, const char *name,
                             uint32_t groups, const fed_gpu_arg *args, size_t count) {
    opencl_gpu *g = of(stream);
    opencl_stream *o = (opencl_stream *)stream;
    step s = {.what = LAUNCH, .size = count, .groups = groups, .args = (fed_gpu_arg *)args};
    (void)pthread_mutex_lock(&g->lock);
    fed_status status = fed_opencl_kernel(g, (fed_gpu_module *)module, name, &s.kernel);
    if (status == FED_OK && o->graph == NULL) {
        status = launch_locked(g, o->queue, &s);
    }
    (void)pthread_mutex_unlock(&g->lock);
    if (status != FED_OK || o->graph == NULL) {
        return status;
    }
    FED_TRY(copy_args(stream->gpu, args, count, &s.args));
    status = add_step(stream->gpu, o->graph, &s);
    if (status != FED_OK) {
        free(s.args);
    }
    return status; /* NOLINT(clang-analyzer-unix.Malloc): the graph owns s.args */
}

fed_status fed_opencl_replay(fed_gpu_stream *stream, fed_gpu_graph *graph) {
    if (graph->gpu != stream->gpu) {
        return fed_gpu_fail(stream->gpu, FED_EINVAL, "the graph belongs to another GPU");
    }
    for (size_t k = 0; k < graph->count; k++) {
        FED_TRY(run_step(of(stream), ((opencl_stream *)stream)->queue, &graph->step[k]));
    }
    return FED_OK;
}

fed_status fed_opencl_after(fed_gpu_stream *stream, fed_gpu_stream *other) {
    opencl_gpu *g = of(stream);
    cl_event event = NULL;
    cl_command_queue first = ((opencl_stream *)other)->queue;
    FED_TRY(fed_opencl_checked(g, g->cl.clEnqueueMarkerWithWaitList(first, 0, NULL, &event),
                               "clEnqueueMarkerWithWaitList"));
    cl_int code =
        g->cl.clEnqueueBarrierWithWaitList(((opencl_stream *)stream)->queue, 1, &event, NULL);
    (void)g->cl.clReleaseEvent(event);
    (void)g->cl.clFlush(first);
    return fed_opencl_checked(g, code, "clEnqueueBarrierWithWaitList");
}

fed_status fed_opencl_sync(fed_gpu_stream *stream) {
    return fed_opencl_checked(of(stream), of(stream)->cl.clFinish(((opencl_stream *)stream)->queue),
                              "clFinish");
}

/* The queue runs in order, so a marker is complete when all work before it is. */
fed_status fed_opencl_done(fed_gpu_stream *stream, bool *done) {
    opencl_gpu *g = of(stream);
    cl_command_queue queue = ((opencl_stream *)stream)->queue;
    cl_event mark = NULL;
    cl_int state = CL_QUEUED;
    FED_TRY(fed_opencl_checked(g, g->cl.clEnqueueMarkerWithWaitList(queue, 0, NULL, &mark),
                               "clEnqueueMarkerWithWaitList"));
    (void)g->cl.clFlush(queue);
    cl_int code =
        g->cl.clGetEventInfo(mark, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    (void)g->cl.clReleaseEvent(mark);
    *done = state == CL_COMPLETE;
    return fed_opencl_checked(g, state < 0 ? state : code, "clGetEventInfo");
}

fed_status fed_opencl_call(fed_gpu_stream *stream, fed_status (*call)(void *user, void *native),
                           void *user) {
    return call(user, ((opencl_stream *)stream)->queue);
}
