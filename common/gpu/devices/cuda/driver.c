/* Find and load libcuda.so.1 and libnvrtc. If that fails, say what is wrong with them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu/devices/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>

typedef struct symbol {
    const char *name;
    size_t at; /* offset of the member in the struct of calls */
} symbol;

/* Look up all symbols. Returns the first that the library lacks, or NULL. */
static const char *resolve(void *library, void *calls, const symbol *symbols, size_t count) {
    for (size_t k = 0; k < count; k++) {
        void *found = dlsym(library, symbols[k].name);
        if (found == NULL) {
            return symbols[k].name;
        }
        *(void **)((char *)calls + symbols[k].at) = found;
    }
    return NULL;
}

#define X(member, symbol, args) {#symbol, offsetof(cuda_calls, member)},
static const symbol cuda_symbols[] = {FED_CUDA_CALLS(X)};
#undef X
#define X(member, symbol, args) {#symbol, offsetof(nvrtc_calls, member)},
static const symbol nvrtc_symbols[] = {FED_NVRTC_CALLS(X)};
#undef X

enum {
    CUDA_SYMBOLS = sizeof cuda_symbols / sizeof cuda_symbols[0],
    NVRTC_SYMBOLS = sizeof nvrtc_symbols / sizeof nvrtc_symbols[0]
};

static fed_status say_init(const cuda_calls *cuda, cuda_result result, fed_error *err) {
    const char *text = NULL;
    (void)cuda->error_text(result, &text);
    if (result == CUDA_NO_DEVICE) {
        return fed_fail(err, FED_ENOTFOUND,
                        "cuda: the driver is installed and finds no card; "
                        "see what nvidia-smi lists, and whether CUDA_VISIBLE_DEVICES hides it");
    }
    if (result == CUDA_STUB) {
        return fed_fail(err, FED_ENOTFOUND,
                        "cuda: the libcuda.so.1 found is CUDA's stub for "
                        "linking; take its folder out of LD_LIBRARY_PATH");
    }
    return fed_fail(err, FED_ESTATE, "cuda: cuInit failed with %u (%s)%s", result,
                    text != NULL ? text : "unknown",
                    result == CUDA_MISMATCH ? ": the driver was updated while it ran; restart the "
                                              "machine"
                                            : "; see whether nvidia-smi works");
}

static fed_status start(cuda_calls *cuda, fed_error *err) {
    const char *lacking = resolve(cuda->library, cuda, cuda_symbols, CUDA_SYMBOLS);
    if (lacking != NULL) {
        return fed_fail(err, FED_ESTATE,
                        "cuda: the driver is too old, it lacks %s; install one for CUDA 11.4 or "
                        "later (470 or later)",
                        lacking);
    }
    const cuda_result result = cuda->init(0);
    if (result != CUDA_OK) {
        return say_init(cuda, result, err);
    }
    if (cuda->driver_version(&cuda->version) != CUDA_OK || cuda->version < CUDA_LEAST_DRIVER) {
        return fed_fail(err, FED_ESTATE,
                        "cuda: the driver is for CUDA %d.%d; install one for 11.4 or later (470 "
                        "or later)",
                        cuda->version / 1000, cuda->version % 1000 / 10);
    }
    return FED_OK;
}

fed_status fed_cuda_load(cuda_calls *cuda, fed_error *err) {
    *cuda = (cuda_calls){.version = 0};
    /* The driver runs threads of its own, so its code must stay loaded. */
    cuda->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (cuda->library == NULL) {
        return fed_fail(err, FED_ENOTFOUND,
                        "cuda: libcuda.so.1 is not installed; it comes with NVIDIA's driver (on "
                        "Debian: nvidia-driver), and into a container by --gpus all");
    }
    fed_status status = start(cuda, err);
    if (status != FED_OK) {
        fed_cuda_unload(cuda);
    }
    return status;
}

void fed_cuda_unload(cuda_calls *cuda) {
    if (cuda->library != NULL) {
        dlclose(cuda->library);
        cuda->library = NULL;
    }
}

static void *open_nvrtc(const char *version) {
    static const char *const folders[] = {"", "/usr/local/cuda/lib64/"};
    for (size_t k = 0; k < sizeof folders / sizeof folders[0]; k++) {
        char path[100];
        (void)snprintf(path, sizeof path, "%slibnvrtc.so.%s", folders[k], version);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library != NULL) {
            return library;
        }
    }
    return NULL;
}

fed_status fed_nvrtc_load(nvrtc_calls *nvrtc, int driver_version, fed_error *err) {
    static const char *const versions[] = {"13", "12", "11.2"};
    enum { VERSIONS = sizeof versions / sizeof versions[0] };
    const int major = driver_version / 1000;
    /* The order of versions to try. A driver accepts kernels of its own CUDA version and of older
     * ones, so newer versions come last. */
    const size_t own = major >= 13 ? 0 : major == 12 ? 1 : 2;
    *nvrtc = (nvrtc_calls){.library = NULL};
    for (size_t k = 0; k < VERSIONS && nvrtc->library == NULL; k++) {
        nvrtc->library = open_nvrtc(versions[(own + k) % VERSIONS]);
    }
    if (nvrtc->library == NULL) {
        return fed_fail(
            err, FED_ENOTFOUND,
            "libnvrtc, which compiles kernels, is not installed: on Debian it is in "
            "libnvrtc%d, from NVIDIA in cuda-nvrtc-%d-*, from pip in nvidia-cuda-nvrtc; "
            "LD_LIBRARY_PATH names its folder",
            major, major);
    }
    const char *lacking = resolve(nvrtc->library, nvrtc, nvrtc_symbols, NVRTC_SYMBOLS);
    if (lacking != NULL || nvrtc->version(&nvrtc->major, &nvrtc->minor) != CUDA_OK) {
        fed_nvrtc_unload(nvrtc);
        return fed_fail(err, FED_ESTATE, "libnvrtc is too old, it lacks %s; install 11.2 or later",
                        lacking != NULL ? lacking : "nvrtcVersion");
    }
    return FED_OK;
}

void fed_nvrtc_unload(nvrtc_calls *nvrtc) {
    if (nvrtc->library != NULL) {
        dlclose(nvrtc->library);
        nvrtc->library = NULL;
    }
}

bool fed_cuda_enter(cuda_gpu *g) {
    cuda_context current = NULL;
    if (g->cuda.context_get(&current) == CUDA_OK && current == g->context) {
        return false;
    }
    return g->cuda.context_push(g->context) == CUDA_OK;
}

void fed_cuda_leave(cuda_gpu *g, bool entered) {
    cuda_context left = NULL;
    if (entered) {
        (void)g->cuda.context_pop(&left);
    }
}

fed_status fed_cuda_checked(cuda_gpu *g, cuda_result result, const char *call) {
    const char *name = NULL, *text = NULL;
    if (result == CUDA_OK) {
        return FED_OK;
    }
    (void)g->cuda.error_name(result, &name);
    (void)g->cuda.error_text(result, &text);
    return fed_gpu_fail(&g->base, result == CUDA_NO_MEMORY ? FED_ENOMEM : FED_EIO,
                        "%s failed with %u, %s (%s)%s", call, result, name != NULL ? name : "?",
                        text != NULL ? text : "unknown to this driver",
                        result == CUDA_NO_MEMORY ? "; use smaller batches"
                                                 : "; close the device and open it again");
}
