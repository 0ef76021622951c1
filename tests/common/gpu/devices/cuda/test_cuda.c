/* CUDA devices on a fake driver: error messages, contexts, and streams of the calling program. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "gpu_case.h"

#include <dlfcn.h>
#include <pthread.h>

enum { N = 1000, GROUPS = 4 };

static const char kernels[] = "KERNEL fill_index(GLOBAL u32 *y, u32 n) {\n"
                              "    u32 i = GROUP * GROUP_SIZE + LANE;\n"
                              "    if (i < n) {\n"
                              "        y[i] = i;\n"
                              "    }\n"
                              "}\n";

/* Tell the fake libraries what to do, such as which call fails. NULL: what they do by default. */
static void plan(const char *text) {
    if (text != NULL) {
        assert_int_equal(setenv("FED_FAKE_CUDA", text, 1), 0);
    } else {
        assert_int_equal(unsetenv("FED_FAKE_CUDA"), 0);
    }
}

static fed_gpu *opened(void) {
    fed_gpu *gpu = NULL;
    fed_error err = {0};
    if (fed_gpu_open("cuda:0", NULL, &gpu, &err) != FED_OK) {
        fail_msg("%s", err.text);
    }
    return gpu;
}

FED_TEST(each_device_is_listed) {
    fed_gpu_info info;
    plan("devices=3");
    for (size_t k = 0; k < 3; k++) {
        assert_fed_ok(fed_gpu_list(k, &info));
        assert_int_equal(info.name[strlen("cuda:")], '0' + (int)k);
        assert_string_equal(info.lacks, "");
        assert_non_null(strstr(info.card, "sm_90, CUDA 12.4"));
    }
    plan(NULL);
}

FED_TEST(says_what_is_wrong_with_the_driver) {
    static const struct {
        const char *plan, *says;
        fed_status status;
    } cases[] = {
        {"devices=0", "finds no card", FED_ENOTFOUND},
        {"cuInit=34", "stub", FED_ENOTFOUND},
        {"cuInit=803", "restart the machine", FED_ESTATE},
        {"cuInit=999", "nvidia-smi", FED_ESTATE},
        {"version=11020", "for CUDA 11.2; install one for 11.4", FED_ESTATE},
        {"cuDevicePrimaryCtxRetain=2", "cuDevicePrimaryCtxRetain failed with 2", FED_ENOMEM},
        {"cuDeviceGet=101", "cuDeviceGet failed", FED_EIO},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fed_gpu *gpu = NULL;
        fed_error err = {0};
        plan(cases[k].plan);
        assert_fed_status(fed_gpu_open("cuda:0", NULL, &gpu, &err), cases[k].status);
        assert_fed_says(err, cases[k].says);
        assert_null(gpu);
    }
    plan(NULL);
}

typedef struct place {
    fed_gpu *gpu;
    fed_gpu_stream *stream;
    const fed_gpu_module *module;
    uint32_t *at;
} place;

static fed_status open_stream(const place *p) {
    fed_gpu_stream *more = NULL;
    fed_status status = fed_gpu_stream_new(p->gpu, NULL, &more);
    fed_gpu_stream_free(more);
    return status;
}

static fed_status allocate(const place *p) {
    void *at = NULL;
    fed_status status = fed_gpu_alloc(p->gpu, 4, &at);
    fed_gpu_free(p->gpu, at);
    return status;
}

static fed_status allocate_host(const place *p) {
    void *at = NULL;
    fed_status status = fed_gpu_alloc_host(p->gpu, 4, &at);
    fed_gpu_free_host(p->gpu, at);
    return status;
}

static fed_status copy_up(const place *p) {
    uint32_t value = 0;
    return fed_gpu_copy(p->stream, p->at, &value, 4, FED_GPU_UP);
}

static fed_status copy_down(const place *p) {
    uint32_t value = 0;
    fed_status status = fed_gpu_copy(p->stream, &value, p->at, 4, FED_GPU_DOWN);
    (void)!fed_gpu_sync(p->stream);
    return status;
}

static fed_status copy_across(const place *p) {
    return fed_gpu_copy(p->stream, p->at, p->at + 1, 4, FED_GPU_ACROSS);
}

static fed_status fill(const place *p) {
    return fed_gpu_fill(p->stream, p->at, 0, 4);
}

static fed_status launch(const place *p) {
    const uint32_t n = N;
    const fed_gpu_arg args[] = {FED_GPU_AT(p->at), FED_GPU_VALUE(n)};
    return fed_gpu_launch(p->stream, p->module, "fill_index", GROUPS, args, 2);
}

static fed_status wait_for_itself(const place *p) {
    return fed_gpu_after(p->stream, p->stream);
}

static fed_status sync_stream(const place *p) {
    return fed_gpu_sync(p->stream);
}

static fed_status keep(const place *p) {
    fed_gpu_graph *graph = NULL;
    FED_TRY(fed_gpu_keep(p->stream));
    fed_status status = fed_gpu_kept(p->stream, &graph);
    fed_gpu_graph_free(graph);
    return status;
}

static place open_place(void) {
    place p = {.gpu = opened()};
    fed_error err = {0};
    void *at = NULL;
    assert_fed_ok(fed_gpu_stream_new(p.gpu, NULL, &p.stream));
    assert_fed_ok(fed_gpu_build(p.gpu, kernels, &p.module, &err));
    assert_fed_ok(fed_gpu_alloc(p.gpu, N * sizeof(uint32_t), &at));
    p.at = at;
    return p;
}

static void close_place(const place *p) {
    assert_fed_ok(fed_gpu_sync(p->stream));
    fed_gpu_free(p->gpu, p->at);
    fed_gpu_stream_free(p->stream);
    fed_gpu_close(p->gpu);
}

FED_TEST(each_failure_names_its_call) {
    static const struct {
        const char *plan, *says;
        fed_status (*call)(const place *p);
        fed_status status;
    } cases[] = {
        {"cuStreamCreate=2", "cuStreamCreate failed with 2, CUDA_ERROR_OUT_OF_MEMORY", open_stream,
         FED_ENOMEM},
        {"cuMemAlloc_v2=2", "smaller batches", allocate, FED_ENOMEM},
        {"cuMemHostAlloc=2", "cuMemHostAlloc", allocate_host, FED_ENOMEM},
        {"cuMemcpyHtoDAsync_v2=719", "cuMemcpyHtoDAsync", copy_up, FED_EIO},
        {"cuMemcpyDtoHAsync_v2=719", "cuMemcpyDtoHAsync", copy_down, FED_EIO},
        {"cuMemcpyDtoDAsync_v2=719", "cuMemcpyDtoDAsync", copy_across, FED_EIO},
        {"cuMemsetD8Async=719", "cuMemsetD8Async", fill, FED_EIO},
        {"cuLaunchKernel=700", "fill_index failed with 700", launch, FED_EIO},
        {"cuEventCreate=2", "cuEventCreate", wait_for_itself, FED_ENOMEM},
        {"cuEventRecord=719", "cuEventRecord", wait_for_itself, FED_EIO},
        {"cuStreamWaitEvent=719", "cuStreamWaitEvent", wait_for_itself, FED_EIO},
        {"cuStreamSynchronize=700", "close the device and open it again", sync_stream, FED_EIO},
        {"cuStreamBeginCapture_v2=900", "cuStreamBeginCapture", keep, FED_EIO},
        {"cuGraphInstantiateWithFlags=2", "cuGraphInstantiateWithFlags", keep, FED_ENOMEM},
    };
    const place p = open_place();
    assert_fed_ok(launch(&p));
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        fed_error err = {0};
        plan(cases[k].plan);
        const fed_status status = cases[k].call(&p);
        plan(NULL);
        assert_fed_status(status, cases[k].status);
        assert_fed_status(fed_gpu_explain(p.gpu, status, &err), status);
        assert_fed_says(err, cases[k].says);
        assert_fed_says(err, "cuda:0 (a fake card 0");
        assert_fed_ok(cases[k].call(&p));
    }
    close_place(&p);
}

FED_TEST(addresses_that_are_not_the_devices_are_refused) {
    const place p = open_place();
    uint32_t value = 0;
    const uint32_t n = 1;
    const fed_gpu_arg args[] = {FED_GPU_AT(&value), FED_GPU_VALUE(n)};
    assert_fed_status(fed_gpu_copy(p.stream, &value, &value, 4, FED_GPU_UP), FED_EIO);
    assert_fed_status(fed_gpu_copy(p.stream, p.at, p.at, 4, FED_GPU_DOWN), FED_EIO);
    assert_fed_status(fed_gpu_fill(p.stream, p.at + N - 1, 0, 8), FED_EIO);
    assert_fed_status(fed_gpu_launch(p.stream, p.module, "fill_index", 1, args, 2), FED_EIO);
    assert_fed_status(fed_gpu_launch(p.stream, p.module, "no_such", 1, args, 2), FED_EINVAL);
    close_place(&p);
}

static fed_status build(const char *planned, const char *source, fed_error *err) {
    fed_gpu *gpu = opened();
    const fed_gpu_module *module = NULL;
    plan(planned);
    fed_status status = fed_gpu_build(gpu, source, &module, err);
    plan(NULL);
    fed_gpu_close(gpu);
    return status;
}

FED_TEST(says_why_kernels_can_not_be_built) {
    fed_error err = {0};
    assert_fed_status(build(NULL, "KERNEL k(GLOBAL u32 *y) { y[0] = z; }", &err), FED_EIO);
    assert_fed_says(err, "does not compile");
    assert_null(strchr(err.text, '\n'));
    assert_fed_status(build("cuModuleLoadData=209", kernels, &err), FED_EIO);
    assert_fed_says(err, "does not take the kernels of NVRTC 12.4; install a newer driver");
    assert_fed_status(build("cuModuleLoadData=2", kernels, &err), FED_ENOMEM);
    assert_fed_status(build("nvrtcCreateProgram=1", kernels, &err), FED_ENOMEM);
    assert_fed_status(build("arch=110", kernels, &err), FED_EIO);
    assert_fed_says(err, "no longer compiles for compute capability 9.0");
}

/* If the card is newer than all that NVRTC knows, NVRTC makes PTX, which the driver compiles. */
FED_TEST(a_newer_card_gets_ptx) {
    fed_error err = {0};
    assert_fed_ok(build("arch=80", kernels, &err));
}

static void check_index(fed_gpu_stream *stream, const place *p) {
    uint32_t host[N] = {0};
    assert_fed_ok(fed_gpu_copy(stream, host, p->at, sizeof host, FED_GPU_DOWN));
    assert_fed_ok(fed_gpu_sync(stream));
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(host[i], i);
    }
}

static void *run_thread(void *arg) {
    const place *p = arg;
    fed_gpu_stream *stream = NULL;
    const uint32_t n = N;
    const fed_gpu_arg args[] = {FED_GPU_AT(p->at), FED_GPU_VALUE(n)};
    fed_status status = fed_gpu_stream_new(p->gpu, NULL, &stream);
    if (status == FED_OK) {
        status = fed_gpu_launch(stream, p->module, "fill_index", GROUPS, args, 2);
    }
    if (status == FED_OK) {
        status = fed_gpu_sync(stream);
    }
    fed_gpu_stream_free(stream);
    return status == FED_OK ? arg : NULL;
}

FED_TEST(any_thread_may_call) {
    place p = open_place();
    pthread_t thread;
    void *done = NULL;
    assert_int_equal(pthread_create(&thread, NULL, run_thread, &p), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_ptr_equal(done, &p);
    check_index(p.stream, &p);
    close_place(&p);
}

typedef struct own_calls {
    void *library;
    unsigned (*retain)(void **context, int device);
    unsigned (*push)(void *context);
    unsigned (*pop)(void **context);
    unsigned (*stream_create)(void **stream, unsigned flags);
    unsigned (*stream_destroy)(void *stream);
    void *context, *stream;
} own_calls;

static own_calls own_stream(void) {
    own_calls own = {.library = dlopen("libcuda.so.1", RTLD_NOW)};
    assert_non_null(own.library);
    *(void **)&own.retain = dlsym(own.library, "cuDevicePrimaryCtxRetain");
    *(void **)&own.push = dlsym(own.library, "cuCtxPushCurrent_v2");
    *(void **)&own.pop = dlsym(own.library, "cuCtxPopCurrent_v2");
    *(void **)&own.stream_create = dlsym(own.library, "cuStreamCreate");
    *(void **)&own.stream_destroy = dlsym(own.library, "cuStreamDestroy_v2");
    assert_int_equal(own.retain(&own.context, 0), 0);
    assert_int_equal(own.push(own.context), 0);
    assert_int_equal(own.stream_create(&own.stream, 1), 0);
    return own;
}

FED_TEST(a_stream_of_the_program) {
    const place p = open_place();
    own_calls own = own_stream();
    fed_gpu_stream *mine = NULL, *all = NULL;
    const uint32_t n = N;
    const fed_gpu_arg args[] = {FED_GPU_AT(p.at), FED_GPU_VALUE(n)};
    assert_fed_ok(fed_gpu_stream_new(p.gpu, own.stream, &mine));
    assert_fed_ok(fed_gpu_launch(mine, p.module, "fill_index", GROUPS, args, 2));
    check_index(mine, &p);
    fed_gpu_stream_free(mine);
    assert_int_equal(own.stream_destroy(own.stream), 0);
    assert_fed_ok(fed_gpu_stream_new(p.gpu, (void *)(uintptr_t)1, &all)); /* CU_STREAM_LEGACY */
    check_index(all, &p);
    fed_gpu_stream_free(all);
    assert_int_equal(own.pop(&own.context), 0);
    close_place(&p);
    dlclose(own.library);
}

FED_TEST(a_gpu_in_the_context_of_the_program) {
    fed_gpu *gpu = NULL;
    fed_error err = {0};
    const fed_gpu_module *module = NULL;
    assert_fed_status(fed_gpu_open_native("cuda", NULL, NULL, &gpu, &err), FED_EINVAL);
    assert_fed_says(err, "no current context");
    own_calls own = own_stream();
    plan("cuStreamGetCtx=400");
    assert_fed_status(fed_gpu_open_native("cuda", own.stream, NULL, &gpu, &err), FED_EINVAL);
    plan(NULL);
    assert_fed_says(err, "is no CUstream");
    assert_fed_ok(fed_gpu_open_native("cuda", NULL, NULL, &gpu, &err));
    fed_gpu_close(gpu);
    assert_fed_ok(fed_gpu_open_native("cuda", own.stream, NULL, &gpu, &err));
    assert_string_equal(fed_gpu_info_of(gpu)->name, "cuda:0");
    assert_fed_ok(fed_gpu_build(gpu, kernels, &module, &err));
    fed_gpu_close(gpu);
    assert_int_equal(own.stream_destroy(own.stream), 0);
    assert_int_equal(own.pop(&own.context), 0);
    dlclose(own.library);
}

int main(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL || dlsym(library, "fed_fake_cuda") == NULL) {
        fprintf(stderr, "skipped: the libcuda.so.1 found is not tests/support/fake_cuda\n");
        return GPU_SKIPPED;
    }
    fed_gpu_info info;
    if (fed_gpu_list(0, &info) != FED_OK || strncmp(info.name, "cuda", 4) != 0) {
        fprintf(stderr, "skipped: the fake driver needs an OpenCL device\n");
        return GPU_SKIPPED;
    }
    return fed_cases_run(NULL, NULL);
}
