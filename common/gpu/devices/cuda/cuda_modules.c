/* Compile kernels for CUDA with NVRTC, or read them from the cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gpu/devices/cuda/driver.h"
#include "common/gpu/module_cache.h"

enum { KERNELS = 64, NAME = 48, ARCHS = 64, OPTIONS = 3 };

struct fed_gpu_module {
    cuda_module module;
    fed_gpu_module *next;
    size_t kernels;
    struct {
        char name[NAME];
        cuda_function function;
    } kernel[KERNELS];
};

/* A request to NVRTC. Its result is a cubin, or PTX for a card that is newer than NVRTC. */
typedef struct order {
    bool ptx;
    char arch[40];
    const char *option[OPTIONS];
    const char *parts[8]; /* all strings that the result depends on */
    char compiler[60];
} order;

/* Return the newest architecture that NVRTC knows and the card runs, or 0. If NVRTC can't tell
 * which ones it knows, return the card's own. */
static int best_arch(const nvrtc_calls *nvrtc, int capability) {
    int archs[ARCHS] = {0}, count = 0, best = 0;
    if (nvrtc->arch_count(&count) != CUDA_OK || count > ARCHS || nvrtc->archs(archs) != CUDA_OK) {
        return capability;
    }
    for (int k = 0; k < count; k++) {
        if (archs[k] <= capability && archs[k] > best) {
            best = archs[k];
        }
    }
    return best;
}

static fed_status make_order(cuda_gpu *g, const char *source, order *o, fed_error *err) {
    const int arch = best_arch(&g->nvrtc, g->capability);
    if (arch == 0) {
        return fed_fail(err, FED_EIO,
                        "%s (%.60s): NVRTC %d.%d no longer compiles for compute capability %d.%d; "
                        "install an older libnvrtc",
                        g->base.info.name, g->base.info.card, g->nvrtc.major, g->nvrtc.minor,
                        g->capability / 10, g->capability % 10);
    }
    *o = (order){.ptx = arch != g->capability};
    (void)snprintf(o->arch, sizeof o->arch, "--gpu-architecture=%s_%d", o->ptx ? "compute" : "sm",
                   arch);
    (void)snprintf(o->compiler, sizeof o->compiler, "NVRTC %d.%d", g->nvrtc.major, g->nvrtc.minor);
    const char *const option[OPTIONS] = {o->arch, "--fmad=false", "-default-device"};
    memcpy(o->option, option, sizeof option);
    const char *const parts[] = {"cuda",    o->compiler,     option[0], option[1],
                                 option[2], fed_gpu_dialect, source,    NULL};
    memcpy(o->parts, parts, sizeof parts);
    return FED_OK;
}

static fed_status say_log(const cuda_gpu *g, nvrtc_program program, cuda_result result,
                          fed_error *err) {
    size_t size = 0;
    if (g->nvrtc.log_size(program, &size) != CUDA_OK || size == 0) {
        return fed_fail(err, FED_EIO, "%s (%.60s): nvrtcCompileProgram failed with %u",
                        g->base.info.name, g->base.info.card, result);
    }
    char *log = calloc(1, size + 1);
    FED_REQUIRE(log != NULL, FED_ENOMEM);
    (void)g->nvrtc.log(program, log);
    const char *first = strstr(log, "error");
    fed_status status = fed_fail(err, FED_EIO, "%s (%.60s): a kernel does not compile: %.300s",
                                 g->base.info.name, g->base.info.card, first != NULL ? first : log);
    free(log);
    if (err != NULL) {
        err->text[strcspn(err->text, "\n")] = '\0';
    }
    return status;
}

/* Get the compiled kernels. The caller frees *image. */
static fed_status take_image(const cuda_gpu *g, nvrtc_program program, bool ptx, uint8_t **image,
                             size_t *len, fed_error *err) {
    size_t size = 0;
    cuda_result result =
        ptx ? g->nvrtc.ptx_size(program, &size) : g->nvrtc.cubin_size(program, &size);
    uint8_t *bytes = calloc(1, size + 1);
    FED_REQUIRE(bytes != NULL, FED_ENOMEM);
    if (result == CUDA_OK) {
        result =
            ptx ? g->nvrtc.ptx(program, (char *)bytes) : g->nvrtc.cubin(program, (char *)bytes);
    }
    if (result != CUDA_OK || size == 0) {
        free(bytes);
        return fed_fail(err, FED_EIO, "%s (%.60s): NVRTC failed with %u and gave no kernels",
                        g->base.info.name, g->base.info.card, result);
    }
    *image = bytes;
    *len = size;
    return FED_OK;
}

static fed_status compile(const cuda_gpu *g, const char *source, const order *o, uint8_t **image,
                          size_t *len, fed_error *err) {
    nvrtc_program program = NULL;
    const size_t size = strlen(fed_gpu_dialect) + strlen(source) + 1;
    char *text = malloc(size);
    FED_REQUIRE(text != NULL, FED_ENOMEM);
    (void)snprintf(text, size, "%s%s", fed_gpu_dialect, source);
    cuda_result result = g->nvrtc.create(&program, text, "kernels.cu", 0, NULL, NULL);
    fed_status status = FED_OK;
    if (result == CUDA_OK) {
        result = g->nvrtc.compile(program, OPTIONS, o->option);
        status = result == CUDA_OK ? take_image(g, program, o->ptx, image, len, err)
                                   : say_log(g, program, result, err);
        (void)g->nvrtc.destroy(&program);
    } else {
        status = fed_fail(err, result == NVRTC_NO_MEMORY ? FED_ENOMEM : FED_EIO,
                          "%s (%.60s): nvrtcCreateProgram failed with %u", g->base.info.name,
                          g->base.info.card, result);
    }
    free(text);
    return status;
}

static fed_status say_load(cuda_gpu *g, cuda_result result, fed_error *err) {
    if (result == CUDA_NO_BINARY || result == CUDA_UNSUPPORTED_PTX) {
        return fed_fail(err, FED_EIO,
                        "%s (%.60s): the driver, for CUDA %d.%d, does not take the kernels of "
                        "NVRTC %d.%d; install a newer driver, or libnvrtc of CUDA %d",
                        g->base.info.name, g->base.info.card, g->cuda.version / 1000,
                        g->cuda.version % 1000 / 10, g->nvrtc.major, g->nvrtc.minor,
                        g->cuda.version / 1000);
    }
    return fed_gpu_explain(&g->base, fed_cuda_checked(g, result, "cuModuleLoadData"), err);
}

static fed_status load(cuda_gpu *g, const uint8_t *image, const fed_gpu_module **module,
                       fed_error *err) {
    fed_gpu_module *m = calloc(1, sizeof *m);
    FED_REQUIRE(m != NULL, FED_ENOMEM);
    const bool entered = fed_cuda_enter(g);
    const cuda_result result = g->cuda.module_load(&m->module, image);
    fed_cuda_leave(g, entered);
    if (result != CUDA_OK) {
        free(m);
        return say_load(g, result, err);
    }
    m->next = g->modules;
    g->modules = m;
    *module = m;
    return FED_OK;
}

/* The caller holds the lock. */
static fed_status build(cuda_gpu *g, const char *source, const fed_gpu_module **module,
                        fed_error *err) {
    order o;
    uint8_t *image = NULL;
    size_t len = 0;
    if (g->nvrtc.library == NULL) {
        FED_TRY(fed_nvrtc_load(&g->nvrtc, g->cuda.version, err));
    }
    FED_TRY(make_order(g, source, &o, err));
    const bool cached = fed_gpu_cache_read(g->base.cache, o.parts, &image, &len) == FED_OK;
    if (!cached) {
        FED_TRY(compile(g, source, &o, &image, &len, err));
    }
    fed_status status = load(g, image, module, err);
    if (status == FED_OK && !cached) {
        fed_gpu_cache_write(g->base.cache, o.parts, image, len);
    }
    free(image);
    return status;
}

fed_status fed_cuda_build(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                          fed_error *err) {
    cuda_gpu *g = (cuda_gpu *)gpu;
    (void)pthread_mutex_lock(&g->lock);
    fed_status status = build(g, source, module, err);
    (void)pthread_mutex_unlock(&g->lock);
    return status;
}

void fed_cuda_free_modules(cuda_gpu *g) {
    while (g->modules != NULL) {
        fed_gpu_module *m = g->modules;
        g->modules = m->next;
        (void)g->cuda.module_unload(m->module);
        free(m);
    }
}

/* Find a kernel of a module by its name. The caller holds the lock. */
static fed_status look_up(cuda_gpu *g, fed_gpu_module *m, const char *name,
                          cuda_function *function) {
    for (size_t k = 0; k < m->kernels; k++) {
        if (strcmp(m->kernel[k].name, name) == 0) {
            *function = m->kernel[k].function;
            return FED_OK;
        }
    }
    if (m->kernels == KERNELS || strlen(name) >= NAME) {
        return fed_gpu_fail(&g->base, FED_EINVAL, "too many kernels, or too long a name: %s", name);
    }
    const cuda_result result = g->cuda.module_function(function, m->module, name);
    if (result == CUDA_NOT_FOUND) {
        return fed_gpu_fail(&g->base, FED_EINVAL, "the module has no kernel %s", name);
    }
    FED_TRY(fed_cuda_checked(g, result, "cuModuleGetFunction"));
    (void)snprintf(m->kernel[m->kernels].name, NAME, "%s", name);
    m->kernel[m->kernels++].function = *function;
    return FED_OK;
}

fed_status fed_cuda_function(cuda_gpu *g, const fed_gpu_module *module, const char *name,
                             cuda_function *function) {
    (void)pthread_mutex_lock(&g->lock);
    fed_status status = look_up(g, (fed_gpu_module *)module, name, function);
    (void)pthread_mutex_unlock(&g->lock);
    return status;
}
