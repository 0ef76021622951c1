/* A fake libcuda.so.1 on OpenCL, which checks its arguments. */
/* SPDX-License-Identifier: Apache-2.0 */
#define CL_TARGET_OPENCL_VERSION 200
#include "fake_cuda.h"

#include <CL/cl.h>
#include <stdio.h>

/* Copies with wrong addresses fail with CUDA_ERROR_INVALID_VALUE. Threads without a current context
 * get CUDA_ERROR_INVALID_CONTEXT. New memory is filled with 0xcd. */
enum {
    INVALID_VALUE = 1,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED = 900,
    BLOCKS = 8192,
    ARGS = 32,
    ARG_BYTES = 256,
    ALIGN = 256,
    CONTEXTS = 64
};

typedef struct block {
    char *at;
    size_t size;
    bool host;
} block;

struct CUmod_st {
    cl_program program;
    char *text;
    struct CUfunc_st *functions;
};

struct CUfunc_st {
    cl_kernel kernel;
    unsigned args;
    size_t size[ARGS]; /* bytes; 0: an address */
    struct CUfunc_st *next;
};

/* A copy, a fill or a kernel launch. */
typedef struct op {
    cuda_function function; /* NULL: a copy or a fill */
    void *to;
    const void *from; /* NULL: a fill */
    size_t size;
    unsigned char value;
    unsigned groups;
    char arg[ARGS][ARG_BYTES];
    struct op *next;
} op;

struct CUgraph_st {
    op *first, **end;
};

struct CUgraphExec_st {
    op *first;
};

struct CUstream_st {
    cl_command_queue queue;
    cuda_graph capture; /* the graph that records the stream; NULL: none */
    unsigned calling;   /* number of running host functions; protected by fake.lock */
};

struct CUevent_st {
    cl_event event;
};

const int fed_fake_cuda = 1;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    pthread_once_t once;
    cl_context context;
    cl_device_id device;
    struct CUstream_st legacy;
    block block[BLOCKS];
    size_t blocks;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .ended = PTHREAD_COND_INITIALIZER,
          .once = PTHREAD_ONCE_INIT};

static _Thread_local cuda_context current[CONTEXTS];
static _Thread_local int contexts;

static cuda_context the_context(void) {
    return (cuda_context)(void *)&fake;
}

#define NEEDS_CONTEXT()                                                                            \
    do {                                                                                           \
        if (contexts == 0 || current[contexts - 1] != the_context()) {                             \
            return INVALID_CONTEXT;                                                                \
        }                                                                                          \
    } while (0)

static cuda_result result_of(cl_int code) {
    return code == CL_SUCCESS ? CUDA_OK : LAUNCH_FAILED;
}

static void start(void) {
    cl_platform_id platform[8];
    cl_uint platforms = 0, devices = 0;
    (void)clGetPlatformIDs(8, platform, &platforms);
    for (cl_uint p = 0; p < platforms && p < 8 && fake.context == NULL; p++) {
        cl_device_svm_capabilities shared = 0;
        if (clGetDeviceIDs(platform[p], CL_DEVICE_TYPE_ALL, 1, &fake.device, &devices) ==
                CL_SUCCESS &&
            clGetDeviceInfo(fake.device, CL_DEVICE_SVM_CAPABILITIES, sizeof shared, &shared,
                            NULL) == CL_SUCCESS &&
            shared != 0) {
            fake.context = clCreateContext(NULL, 1, &fake.device, NULL, NULL, NULL);
        }
    }
    if (fake.context != NULL) {
        fake.legacy.queue =
            clCreateCommandQueueWithProperties(fake.context, fake.device, NULL, NULL);
    }
}

cuda_result cuInit(unsigned flags) {
    FAKE_CALL(cuInit);
    (void)flags;
    (void)pthread_once(&fake.once, start);
    return fake.context != NULL && fake_number("devices", 1) > 0 ? CUDA_OK : CUDA_NO_DEVICE;
}

cuda_result cuDriverGetVersion(int *version) {
    *version = fake_number("version", 12040);
    return CUDA_OK;
}

cuda_result cuGetErrorName(cuda_result result, const char **name) {
    *name = result == CUDA_NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return CUDA_OK;
}

cuda_result cuGetErrorString(cuda_result result, const char **text) {
    *text = result == CUDA_NO_MEMORY ? "out of memory" : "a fake error";
    return CUDA_OK;
}

cuda_result cuDeviceGetCount(int *count) {
    *count = fake_number("devices", 1);
    return CUDA_OK;
}

cuda_result cuDeviceGet(cuda_device *device, int ordinal) {
    FAKE_CALL(cuDeviceGet);
    *device = ordinal;
    return ordinal < fake_number("devices", 1) ? CUDA_OK : INVALID_DEVICE;
}

cuda_result cuDeviceGetName(char *name, int size, cuda_device device) {
    (void)snprintf(name, (size_t)size, "a fake card %d on OpenCL", device);
    return CUDA_OK;
}

cuda_result cuDeviceGetAttribute(int *value, unsigned attribute, cuda_device device) {
    (void)device;
    *value = attribute == CUDA_MAJOR ? 9 : attribute == CUDA_MINOR ? 0 : 2;
    return CUDA_OK;
}

cuda_result cuDeviceTotalMem_v2(size_t *bytes, cuda_device device) {
    (void)device;
    *bytes = (size_t)1 << 30;
    return CUDA_OK;
}

cuda_result cuDevicePrimaryCtxRetain(cuda_context *context, cuda_device device) {
    FAKE_CALL(cuDevicePrimaryCtxRetain);
    (void)device;
    *context = the_context();
    return CUDA_OK;
}

cuda_result cuDevicePrimaryCtxRelease_v2(cuda_device device) {
    (void)device;
    return CUDA_OK;
}

cuda_result cuCtxGetCurrent(cuda_context *context) {
    *context = contexts > 0 ? current[contexts - 1] : NULL;
    return CUDA_OK;
}

cuda_result cuCtxGetDevice(cuda_device *device) {
    NEEDS_CONTEXT();
    *device = 0;
    return CUDA_OK;
}

cuda_result cuCtxPushCurrent_v2(cuda_context context) {
    if (contexts == CONTEXTS) {
        return INVALID_VALUE;
    }
    current[contexts++] = context;
    return CUDA_OK;
}

cuda_result cuCtxPopCurrent_v2(cuda_context *context) {
    if (contexts == 0) {
        return INVALID_CONTEXT;
    }
    *context = current[--contexts];
    return CUDA_OK;
}

/* Return the block that contains the bytes at[size], or NULL. The caller has the lock. */
static const block *find_block(const void *at, size_t size) {
    const char *p = at;
    for (size_t k = 0; k < fake.blocks; k++) {
        const block *b = &fake.block[k];
        if (p >= b->at && p <= b->at + b->size && size <= (size_t)(b->at + b->size - p)) {
            return b;
        }
    }
    return NULL;
}

static bool is_device(const void *at, size_t size) {
    (void)pthread_mutex_lock(&fake.lock);
    const block *b = find_block(at, size);
    const bool device = b != NULL && !b->host;
    (void)pthread_mutex_unlock(&fake.lock);
    return device;
}

static cuda_result add_block(size_t size, bool host, void **at) {
    cuda_result result = CUDA_NO_MEMORY;
    (void)pthread_mutex_lock(&fake.lock);
    if (fake.blocks < BLOCKS) {
        *at = clSVMAlloc(fake.context, CL_MEM_READ_WRITE, size, ALIGN / 2);
        if (*at != NULL) {
            memset(*at, 0xcd, size);
            fake.block[fake.blocks++] = (block){*at, size, host};
            result = CUDA_OK;
        }
    }
    (void)pthread_mutex_unlock(&fake.lock);
    return result;
}

static cuda_result remove_block(const void *at, bool host) {
    cuda_result result = INVALID_VALUE;
    (void)clFinish(fake.legacy.queue);
    (void)pthread_mutex_lock(&fake.lock);
    for (size_t k = 0; k < fake.blocks; k++) {
        if (fake.block[k].at == at && fake.block[k].host == host) {
            clSVMFree(fake.context, fake.block[k].at);
            fake.block[k] = fake.block[--fake.blocks];
            result = CUDA_OK;
            break;
        }
    }
    (void)pthread_mutex_unlock(&fake.lock);
    return result;
}

static void *pointer(cuda_address at) {
    return (void *)(uintptr_t)at; /* NOLINT(performance-no-int-to-ptr) */
}

cuda_result cuMemAlloc_v2(cuda_address *at, size_t size) {
    void *got = NULL;
    FAKE_CALL(cuMemAlloc_v2);
    NEEDS_CONTEXT();
    const cuda_result result = size > 0 ? add_block(size, false, &got) : INVALID_VALUE;
    *at = (cuda_address)(uintptr_t)got;
    return result;
}

cuda_result cuMemFree_v2(cuda_address at) {
    NEEDS_CONTEXT();
    return remove_block(pointer(at), false);
}

cuda_result cuMemHostAlloc(void **at, size_t size, unsigned flags) {
    FAKE_CALL(cuMemHostAlloc);
    NEEDS_CONTEXT();
    return flags == CUDA_PORTABLE ? add_block(size, true, at) : INVALID_VALUE;
}

cuda_result cuMemFreeHost(void *at) {
    NEEDS_CONTEXT();
    return remove_block(at, true);
}

static cuda_stream stream_of(cuda_stream stream) {
    return (uintptr_t)stream <= 2 ? &fake.legacy : stream; /* 0 to 2: predefined streams */
}

static cuda_result launch(cl_command_queue queue, const op *o) {
    const size_t local = FED_GPU_GROUP, global = local * o->groups;
    const struct CUfunc_st *f = o->function;
    for (unsigned k = 0; k < f->args; k++) {
        void *at = NULL;
        memcpy(&at, o->arg[k], sizeof at);
        const cl_int code = f->size[k] > 0 ? clSetKernelArg(f->kernel, k, f->size[k], o->arg[k])
                                           : clSetKernelArgSVMPointer(f->kernel, k, at);
        if (code != CL_SUCCESS) {
            return INVALID_VALUE;
        }
    }
    return result_of(
        clEnqueueNDRangeKernel(queue, f->kernel, 1, NULL, &global, &local, 0, NULL, NULL));
}

static cuda_result run(cl_command_queue queue, const op *o) {
    if (o->function == NULL && o->from == NULL) {
        return result_of(clEnqueueSVMMemFill(queue, o->to, &o->value, 1, o->size, 0, NULL, NULL));
    }
    if (o->function == NULL) {
        return result_of(
            clEnqueueSVMMemcpy(queue, CL_FALSE, o->to, o->from, o->size, 0, NULL, NULL));
    }
    (void)pthread_mutex_lock(&fake.lock);
    const cuda_result result = launch(queue, o);
    (void)pthread_mutex_unlock(&fake.lock);
    return result;
}

static cuda_result submit(cuda_stream given, const op *o) {
    cuda_stream stream = stream_of(given);
    if (stream->capture == NULL) {
        return run(stream->queue, o);
    }
    op *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return CUDA_NO_MEMORY;
    }
    *kept = *o;
    *stream->capture->end = kept;
    stream->capture->end = &kept->next;
    return CUDA_OK;
}

cuda_result cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t size,
                                 cuda_stream stream) {
    FAKE_CALL(cuMemcpyHtoDAsync_v2);
    NEEDS_CONTEXT();
    const op o = {.to = pointer(to), .from = from, .size = size};
    return is_device(o.to, size) && !is_device(from, 1) ? submit(stream, &o) : INVALID_VALUE;
}

cuda_result cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t size, cuda_stream stream) {
    FAKE_CALL(cuMemcpyDtoHAsync_v2);
    NEEDS_CONTEXT();
    const op o = {.to = to, .from = pointer(from), .size = size};
    return is_device(o.from, size) && !is_device(to, 1) ? submit(stream, &o) : INVALID_VALUE;
}

cuda_result cuMemcpyDtoDAsync_v2(cuda_address to, cuda_address from, size_t size,
                                 cuda_stream stream) {
    FAKE_CALL(cuMemcpyDtoDAsync_v2);
    NEEDS_CONTEXT();
    const op o = {.to = pointer(to), .from = pointer(from), .size = size};
    return is_device(o.to, size) && is_device(o.from, size) ? submit(stream, &o) : INVALID_VALUE;
}

cuda_result cuMemsetD8Async(cuda_address to, unsigned char value, size_t size, cuda_stream stream) {
    FAKE_CALL(cuMemsetD8Async);
    NEEDS_CONTEXT();
    const op o = {.to = pointer(to), .size = size, .value = value};
    return is_device(o.to, size) ? submit(stream, &o) : INVALID_VALUE;
}

cuda_result cuLaunchKernel(cuda_function function, unsigned grid_x, unsigned grid_y,
                           unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_memory, cuda_stream stream, void **args, void **extra) {
    FAKE_CALL(cuLaunchKernel);
    NEEDS_CONTEXT();
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != FED_GPU_GROUP || block_y != 1 ||
        block_z != 1 || shared_memory != 0 || extra != NULL || function == NULL) {
        return INVALID_VALUE;
    }
    op o = {.function = function, .groups = grid_x};
    for (unsigned k = 0; k < function->args; k++) {
        void *at = NULL;
        memcpy(o.arg[k], args[k], function->size[k] > 0 ? function->size[k] : sizeof at);
        memcpy(&at, o.arg[k], sizeof at);
        if (function->size[k] == 0 && at != NULL && !is_device(at, 0)) {
            return INVALID_VALUE;
        }
    }
    return submit(stream, &o);
}

cuda_result cuModuleLoadData(cuda_module *module, const void *image) {
    FAKE_CALL(cuModuleLoadData);
    NEEDS_CONTEXT();
    const size_t magic = strlen(FAKE_CUBIN_MAGIC);
    if (strncmp(image, FAKE_CUBIN_MAGIC, magic) != 0) {
        return CUDA_NO_BINARY;
    }
    const char *text = (const char *)image + magic;
    cuda_module m = calloc(1, sizeof *m);
    if (m == NULL) {
        return CUDA_NO_MEMORY;
    }
    m->program = clCreateProgramWithSource(fake.context, 1, &text, NULL, NULL);
    if (clBuildProgram(m->program, 1, &fake.device, FAKE_BUILD_OPTIONS, NULL, NULL) != CL_SUCCESS) {
        (void)clReleaseProgram(m->program);
        free(m);
        return CUDA_NO_BINARY;
    }
    m->text = strdup(text);
    *module = m;
    return CUDA_OK;
}

cuda_result cuModuleUnload(cuda_module module) {
    NEEDS_CONTEXT();
    while (module->functions != NULL) {
        cuda_function f = module->functions;
        module->functions = f->next;
        (void)clReleaseKernel(f->kernel);
        free(f);
    }
    (void)clReleaseProgram(module->program);
    free(module->text);
    free(module);
    return CUDA_OK;
}

static size_t size_of_number(const char *type, size_t len) {
    static const struct {
        const char *name;
        size_t size;
    } types[] = {{"u32", 4}, {"uint", 4}, {"i32", 4},   {"int", 4},    {"float", 4}, {"u64", 8},
                 {"i64", 8}, {"long", 8}, {"ulong", 8}, {"double", 8}, {"f32x4", 16}};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        if (strlen(types[k].name) == len && strncmp(type, types[k].name, len) == 0) {
            return types[k].size;
        }
    }
    return 0;
}

static const char *skip(const char *at) {
    while (*at == ' ' || *at == '\n' || strncmp(at, "/*", 2) == 0) {
        const char *end = *at == '/' ? strstr(at, "*/") : NULL;
        at = *at != '/' ? at + 1 : end != NULL ? end + 2 : at + strlen(at);
    }
    return at;
}

/* Return the size in bytes of a structure of numbers that the text defines, or 0. */
static size_t size_of_struct(const char *text, const char *type) {
    char begin[100];
    (void)snprintf(begin, sizeof begin, "typedef struct %s {", type);
    const char *at = strstr(text, begin);
    size_t size = 0;
    for (at = at != NULL ? skip(at + strlen(begin)) : "}"; *at != '}' && *at != '\0';) {
        const size_t word = strcspn(at, " "), one = size_of_number(at, word);
        if (one == 0) {
            return 0;
        }
        for (at = skip(at + word); *at != ';' && *at != '\0'; at = skip(at + 1)) {
            if (*at == '[' || *at == '*') {
                return 0;
            }
            size += *at == ',' ? one : 0;
        }
        size += one;
        at = *at != '\0' ? skip(at + 1) : at;
    }
    return size <= ARG_BYTES ? size : 0;
}

static bool learn_args(cuda_function f, const char *text) {
    cl_uint count = 0;
    if (clGetKernelInfo(f->kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL) != CL_SUCCESS ||
        count > ARGS) {
        return false;
    }
    f->args = count;
    for (cl_uint k = 0; k < count; k++) {
        cl_kernel_arg_address_qualifier where = 0;
        if (clGetKernelArgInfo(f->kernel, k, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where,
                               NULL) != CL_SUCCESS) {
            return false;
        }
        if (where == CL_KERNEL_ARG_ADDRESS_GLOBAL) {
            continue;
        }
        char type[64] = "";
        (void)clGetKernelArgInfo(f->kernel, k, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL);
        f->size[k] = size_of_number(type, strlen(type));
        if (f->size[k] == 0) {
            f->size[k] = size_of_struct(text, type);
        }
        if (f->size[k] == 0) {
            fprintf(stderr, "fake_cuda: a kernel has an argument of unknown type %s\n", type);
            return false;
        }
    }
    return true;
}

cuda_result cuModuleGetFunction(cuda_function *function, cuda_module module, const char *name) {
    FAKE_CALL(cuModuleGetFunction);
    NEEDS_CONTEXT();
    cuda_function f = calloc(1, sizeof *f);
    if (f == NULL) {
        return CUDA_NO_MEMORY;
    }
    f->kernel = clCreateKernel(module->program, name, NULL);
    if (f->kernel == NULL || !learn_args(f, module->text)) {
        free(f);
        return CUDA_NOT_FOUND;
    }
    f->next = module->functions;
    module->functions = f;
    *function = f;
    return CUDA_OK;
}

cuda_result cuStreamCreate(cuda_stream *stream, unsigned flags) {
    FAKE_CALL(cuStreamCreate);
    NEEDS_CONTEXT();
    cuda_stream s = calloc(1, sizeof *s);
    if (s == NULL || flags != CUDA_NON_BLOCKING) {
        free(s);
        return INVALID_VALUE;
    }
    s->queue = clCreateCommandQueueWithProperties(fake.context, fake.device, NULL, NULL);
    *stream = s;
    return CUDA_OK;
}

cuda_result cuStreamDestroy_v2(cuda_stream stream) {
    NEEDS_CONTEXT();
    (void)clFinish(stream->queue);
    (void)pthread_mutex_lock(&fake.lock);
    while (stream->calling > 0) {
        (void)pthread_cond_wait(&fake.ended, &fake.lock);
    }
    (void)pthread_mutex_unlock(&fake.lock);
    (void)clReleaseCommandQueue(stream->queue);
    free(stream);
    return CUDA_OK;
}

cuda_result cuStreamSynchronize(cuda_stream stream) {
    FAKE_CALL(cuStreamSynchronize);
    NEEDS_CONTEXT();
    return stream_of(stream)->capture != NULL ? CAPTURE_UNSUPPORTED
                                              : result_of(clFinish(stream_of(stream)->queue));
}

cuda_result cuStreamQuery(cuda_stream stream) {
    FAKE_CALL(cuStreamQuery);
    NEEDS_CONTEXT();
    cl_event mark = NULL;
    cl_int state = CL_QUEUED;
    if (stream_of(stream)->capture != NULL) {
        return CAPTURE_UNSUPPORTED;
    }
    (void)clEnqueueMarkerWithWaitList(stream_of(stream)->queue, 0, NULL, &mark);
    (void)clFlush(stream_of(stream)->queue);
    (void)clGetEventInfo(mark, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    (void)clReleaseEvent(mark);
    return state == CL_COMPLETE ? CUDA_OK : state < 0 ? result_of(state) : CUDA_NOT_READY;
}

typedef struct host_call {
    cuda_stream stream;
    void (*function)(void *user);
    void *user;
    cl_event reached, done;
} host_call;

static void *run_host_call(void *given) {
    host_call *call = given;
    cuda_stream stream = call->stream;
    (void)clWaitForEvents(1, &call->reached);
    call->function(call->user);
    (void)clSetUserEventStatus(call->done, CL_COMPLETE);
    (void)clReleaseEvent(call->reached);
    (void)clReleaseEvent(call->done);
    free(call);
    (void)pthread_mutex_lock(&fake.lock);
    stream->calling--;
    (void)pthread_cond_broadcast(&fake.ended);
    (void)pthread_mutex_unlock(&fake.lock);
    return NULL;
}

static bool begin_host_call(host_call *call) {
    pthread_t thread;
    cl_command_queue queue = call->stream->queue;
    call->done = clCreateUserEvent(fake.context, NULL);
    if (call->done == NULL ||
        clEnqueueMarkerWithWaitList(queue, 0, NULL, &call->reached) != CL_SUCCESS ||
        clEnqueueBarrierWithWaitList(queue, 1, &call->done, NULL) != CL_SUCCESS ||
        clFlush(queue) != CL_SUCCESS) {
        return false;
    }
    return pthread_create(&thread, NULL, run_host_call, call) == 0 && pthread_detach(thread) == 0;
}

/* Call a host function in a thread, after the stream's earlier work and before its later work. */
cuda_result cuLaunchHostFunc(cuda_stream stream, void (*function)(void *user), void *user) {
    NEEDS_CONTEXT();
    host_call *call = calloc(1, sizeof *call);
    if (call == NULL || stream_of(stream)->capture != NULL) {
        free(call);
        return INVALID_VALUE;
    }
    *call = (host_call){.stream = stream_of(stream), .function = function, .user = user};
    (void)pthread_mutex_lock(&fake.lock);
    call->stream->calling++;
    (void)pthread_mutex_unlock(&fake.lock);
    if (!begin_host_call(call)) {
        abort();
    }
    return CUDA_OK;
}

cuda_result cuStreamGetCtx(cuda_stream stream, cuda_context *context) {
    FAKE_CALL(cuStreamGetCtx);
    (void)stream;
    *context = the_context();
    return CUDA_OK;
}

cuda_result cuEventCreate(cuda_event *event, unsigned flags) {
    FAKE_CALL(cuEventCreate);
    NEEDS_CONTEXT();
    *event = flags == CUDA_DISABLE_TIMING ? calloc(1, sizeof **event) : NULL;
    return *event != NULL ? CUDA_OK : INVALID_VALUE;
}

cuda_result cuEventRecord(cuda_event event, cuda_stream stream) {
    FAKE_CALL(cuEventRecord);
    NEEDS_CONTEXT();
    cuda_stream s = stream_of(stream);
    if (s->capture != NULL) {
        return CAPTURE_UNSUPPORTED;
    }
    const cl_int code = clEnqueueMarkerWithWaitList(s->queue, 0, NULL, &event->event);
    (void)clFlush(s->queue);
    return result_of(code);
}

cuda_result cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags) {
    FAKE_CALL(cuStreamWaitEvent);
    NEEDS_CONTEXT();
    cuda_stream s = stream_of(stream);
    if (s->capture != NULL || flags != 0 || event->event == NULL) {
        return CAPTURE_UNSUPPORTED;
    }
    return result_of(clEnqueueBarrierWithWaitList(s->queue, 1, &event->event, NULL));
}

cuda_result cuEventDestroy_v2(cuda_event event) {
    NEEDS_CONTEXT();
    if (event->event != NULL) {
        (void)clReleaseEvent(event->event);
    }
    free(event);
    return CUDA_OK;
}

cuda_result cuStreamBeginCapture_v2(cuda_stream stream, unsigned mode) {
    FAKE_CALL(cuStreamBeginCapture_v2);
    NEEDS_CONTEXT();
    cuda_stream s = stream_of(stream);
    if (s == &fake.legacy || s->capture != NULL || mode != CUDA_CAPTURE_RELAXED) {
        return CAPTURE_UNSUPPORTED;
    }
    s->capture = calloc(1, sizeof *s->capture);
    if (s->capture == NULL) {
        return CUDA_NO_MEMORY;
    }
    s->capture->end = &s->capture->first;
    return CUDA_OK;
}

cuda_result cuStreamEndCapture(cuda_stream stream, cuda_graph *graph) {
    FAKE_CALL(cuStreamEndCapture);
    NEEDS_CONTEXT();
    *graph = stream->capture;
    stream->capture = NULL;
    return *graph != NULL ? CUDA_OK : CAPTURE_UNSUPPORTED;
}

static void free_ops(op *o) {
    while (o != NULL) {
        op *next = o->next;
        free(o);
        o = next;
    }
}

cuda_result cuGraphDestroy(cuda_graph graph) {
    free_ops(graph->first);
    free(graph);
    return CUDA_OK;
}

cuda_result cuGraphInstantiateWithFlags(cuda_graph_exec *exec, cuda_graph graph,
                                        unsigned long long flags) {
    FAKE_CALL(cuGraphInstantiateWithFlags);
    NEEDS_CONTEXT();
    cuda_graph_exec made = calloc(1, sizeof *made);
    if (made == NULL || flags != 0) {
        free(made);
        return INVALID_VALUE;
    }
    made->first = graph->first;
    graph->first = NULL;
    *exec = made;
    return CUDA_OK;
}

cuda_result cuGraphLaunch(cuda_graph_exec exec, cuda_stream stream) {
    FAKE_CALL(cuGraphLaunch);
    NEEDS_CONTEXT();
    for (const op *o = exec->first; o != NULL; o = o->next) {
        const cuda_result result = submit(stream, o);
        if (result != CUDA_OK) {
            return result;
        }
    }
    return CUDA_OK;
}

cuda_result cuGraphExecDestroy(cuda_graph_exec exec) {
    NEEDS_CONTEXT();
    free_ops(exec->first);
    free(exec);
    return CUDA_OK;
}
