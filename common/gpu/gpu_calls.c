/* The functions of fed/gpu.h: find a device by name, check arguments, call the device's kind. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/gpu/device_vtable.h"

#define FED_GPU_DEVICE(folder) extern const fed_gpu_device fed_gpu_device_##folder;
#include "common/gpu/devices.def"
#undef FED_GPU_DEVICE

static const fed_gpu_device *const kinds[] = {
#define FED_GPU_DEVICE(folder) &fed_gpu_device_##folder,
#include "common/gpu/devices.def"
#undef FED_GPU_DEVICE
};

enum { KINDS = sizeof kinds / sizeof kinds[0], ORDINALS = 64 };

fed_status fed_gpu_list(size_t k, fed_gpu_info *info) {
    for (size_t i = 0; i < KINDS; i++) {
        for (uint32_t ordinal = 0; ordinal < ORDINALS; ordinal++) {
            fed_gpu_info found = {.lacks = ""};
            if (kinds[i]->look(ordinal, &found, NULL) != FED_OK) {
                break;
            }
            if (k-- == 0) {
                *info = found;
                return FED_OK;
            }
        }
    }
    return FED_ENOTFOUND;
}

fed_status fed_gpu_kind(size_t k, const char **kind, fed_error *missing) {
    fed_gpu_info found = {.lacks = ""};
    FED_REQUIRE(k < KINDS, FED_ENOTFOUND);
    *kind = kinds[k]->name;
    if (kinds[k]->look(0, &found, missing) == FED_OK) {
        missing->text[0] = '\0';
    }
    return FED_OK;
}

/* Split a name such as "opencl:1". *ordinal becomes UINT32_MAX if the name has no number; *kind
 * becomes NULL for "gpu". */
static bool parse(const char *name, const fed_gpu_device **kind, uint32_t *ordinal) {
    *ordinal = UINT32_MAX;
    *kind = NULL;
    if (strcmp(name, "gpu") == 0) {
        return true;
    }
    for (size_t i = 0; i < KINDS; i++) {
        const size_t len = strlen(kinds[i]->name);
        if (strncmp(name, kinds[i]->name, len) != 0) {
            continue;
        }
        *kind = kinds[i];
        if (name[len] == '\0') {
            return true;
        }
        const char *digits = name + len + 1;
        const size_t count = strspn(digits, "0123456789");
        if (name[len] == ':' && count > 0 && count <= 2 && digits[count] == '\0') {
            *ordinal = (uint32_t)strtoul(digits, NULL, 10);
            return true;
        }
    }
    return false;
}

bool fed_gpu_is_name(const char *name) {
    const fed_gpu_device *kind;
    uint32_t ordinal;
    return name != NULL && parse(name, &kind, &ordinal);
}

static fed_status open_at(const fed_gpu_device *kind, uint32_t ordinal, fed_gpu **gpu,
                          fed_error *err) {
    FED_TRY(kind->open(ordinal, gpu, err));
    (*gpu)->device = kind;
    return FED_OK;
}

/* Open the first usable device of a kind. *err is the error of the last device tried. */
static fed_status open_any(const fed_gpu_device *kind, fed_gpu **gpu, fed_error *err) {
    fed_gpu_info info = {.lacks = ""};
    fed_status status = FED_ENOTFOUND;
    for (uint32_t ordinal = 0; ordinal < ORDINALS; ordinal++) {
        fed_status looked = kind->look(ordinal, &info, ordinal == 0 ? err : NULL);
        if (looked != FED_OK) {
            return ordinal == 0 ? looked : status;
        }
        status = open_at(kind, ordinal, gpu, err);
        if (status == FED_OK) {
            return FED_OK;
        }
    }
    return status;
}

static fed_status open_first(const fed_gpu_device *kind, fed_gpu **gpu, fed_error *err) {
    if (kind != NULL) {
        return open_any(kind, gpu, err);
    }
    for (size_t i = 0; i < KINDS; i++) {
        if (open_any(kinds[i], gpu, NULL) == FED_OK) {
            return FED_OK;
        }
    }
    return fed_fail(err, FED_ENOTFOUND,
                    "this machine has no GPU that can be used; `fedworker devices` says what "
                    "there is, and what each lacks");
}

static fed_status finish_open(fed_gpu *opened, const char *cache, fed_gpu **gpu, fed_error *err) {
    if (opened != NULL && cache != NULL) {
        opened->cache = strdup(cache);
        if (opened->cache == NULL) {
            fed_gpu_close(opened);
            return fed_fail(err, FED_ENOMEM, "out of memory while opening a GPU");
        }
    }
    *gpu = opened;
    return FED_OK;
}

fed_status fed_gpu_open(const char *name, const char *cache, fed_gpu **gpu, fed_error *err) {
    const fed_gpu_device *kind;
    uint32_t ordinal;
    if (name == NULL || !parse(name, &kind, &ordinal)) {
        return fed_fail(
            err, FED_EINVAL,
            "\"%.50s\" is not a device's name: use gpu, opencl, cuda, opencl:0 or cuda:0; "
            "`fedworker devices` lists them",
            name != NULL ? name : "");
    }
    fed_gpu *opened = NULL;
    FED_TRY(ordinal == UINT32_MAX ? open_first(kind, &opened, err)
                                  : open_at(kind, ordinal, &opened, err));
    return finish_open(opened, cache, gpu, err);
}

fed_status fed_gpu_open_native(const char *kind, void *queue, const char *cache, fed_gpu **gpu,
                               fed_error *err) {
    const fed_gpu_device *device = NULL;
    uint32_t ordinal;
    if (kind == NULL || !parse(kind, &device, &ordinal) || device == NULL ||
        ordinal != UINT32_MAX) {
        return fed_fail(err, FED_EINVAL, "\"%.50s\" is not a kind of device: use opencl or cuda",
                        kind != NULL ? kind : "");
    }
    if (device->open_native == NULL) {
        return fed_fail(err, FED_ENOTFOUND, "%s: a program's own queue can't be used here",
                        device->name);
    }
    fed_gpu *opened = NULL;
    FED_TRY(device->open_native(queue, &opened, err));
    opened->device = device;
    return finish_open(opened, cache, gpu, err);
}

void fed_gpu_close(fed_gpu *gpu) {
    if (gpu != NULL) {
        free(gpu->cache);
        gpu->device->close(gpu);
    }
}

const fed_gpu_info *fed_gpu_info_of(const fed_gpu *gpu) {
    return &gpu->info;
}

fed_status fed_gpu_fail(fed_gpu *gpu, fed_status status, const char *format, ...) {
    char text[sizeof gpu->error.text];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return fed_fail(&gpu->error, status, "%s (%.60s): %s", gpu->info.name, gpu->info.card, text);
}

fed_status fed_gpu_explain(const fed_gpu *gpu, fed_status status, fed_error *err) {
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", gpu->error.text);
}

fed_status fed_gpu_alloc(fed_gpu *gpu, size_t size, void **at) {
    return gpu->device->alloc(gpu, size > 0 ? size : 1, at);
}

void fed_gpu_free(fed_gpu *gpu, void *at) {
    if (at != NULL) {
        gpu->device->free(gpu, at);
    }
}

fed_status fed_gpu_alloc_host(fed_gpu *gpu, size_t size, void **at) {
    return gpu->device->alloc_host(gpu, size > 0 ? size : 1, at);
}

void fed_gpu_free_host(fed_gpu *gpu, void *at) {
    if (at != NULL) {
        gpu->device->free_host(gpu, at);
    }
}

fed_status fed_gpu_adopt(fed_gpu *gpu, void *native, void **at) {
    if (gpu->device->adopt != NULL) {
        return gpu->device->adopt(gpu, native, at);
    }
    *at = native;
    return FED_OK;
}

void fed_gpu_release(fed_gpu *gpu, void *at) {
    if (at != NULL && gpu->device->adopt != NULL) {
        gpu->device->free(gpu, at);
    }
}

fed_status fed_gpu_build(fed_gpu *gpu, const char *source, const fed_gpu_module **module,
                         fed_error *err) {
    return gpu->device->build(gpu, source, module, err);
}

fed_status fed_gpu_stream_new(fed_gpu *gpu, void *native, fed_gpu_stream **stream) {
    return gpu->device->stream_new(gpu, native, stream);
}

void fed_gpu_stream_free(fed_gpu_stream *stream) {
    if (stream != NULL) {
        stream->gpu->device->stream_free(stream);
    }
}

fed_status fed_gpu_copy(fed_gpu_stream *stream, void *to, const void *from, size_t size,
                        fed_gpu_way way) {
    return size == 0 ? FED_OK : stream->gpu->device->copy(stream, to, from, size, way);
}

fed_status fed_gpu_fill(fed_gpu_stream *stream, void *to, uint8_t value, size_t size) {
    return size == 0 ? FED_OK : stream->gpu->device->fill(stream, to, value, size);
}

fed_status fed_gpu_launch(fed_gpu_stream *stream, const fed_gpu_module *module, const char *kernel,
                          uint32_t groups, const fed_gpu_arg *args, size_t count) {
    return groups == 0 ? FED_OK
                       : stream->gpu->device->launch(stream, module, kernel, groups, args, count);
}

static fed_status refuse_keeping(fed_gpu_stream *stream, const char *call) {
    return stream->keeping
               ? fed_gpu_fail(stream->gpu, FED_ESTATE,
                              "%s between fed_gpu_keep and fed_gpu_kept; only copies, fills and "
                              "launches can be kept",
                              call)
               : FED_OK;
}

fed_status fed_gpu_after(fed_gpu_stream *stream, fed_gpu_stream *other) {
    FED_TRY(refuse_keeping(stream, "fed_gpu_after"));
    FED_TRY(refuse_keeping(other, "fed_gpu_after"));
    return stream->gpu->device->after(stream, other);
}

fed_status fed_gpu_sync(fed_gpu_stream *stream) {
    FED_TRY(refuse_keeping(stream, "fed_gpu_sync"));
    return stream->gpu->device->sync(stream);
}

fed_status fed_gpu_done(fed_gpu_stream *stream, bool *done) {
    FED_TRY(refuse_keeping(stream, "fed_gpu_done"));
    return stream->gpu->device->done(stream, done);
}

fed_status fed_gpu_call(fed_gpu_stream *stream, fed_status (*call)(void *user, void *native),
                        void *user) {
    FED_TRY(refuse_keeping(stream, "fed_gpu_call"));
    return stream->gpu->device->call(stream, call, user);
}

fed_status fed_gpu_keep(fed_gpu_stream *stream) {
    FED_TRY(refuse_keeping(stream, "fed_gpu_keep"));
    FED_TRY(stream->gpu->device->keep(stream));
    stream->keeping = true;
    return FED_OK;
}

fed_status fed_gpu_kept(fed_gpu_stream *stream, fed_gpu_graph **graph) {
    if (!stream->keeping) {
        return fed_gpu_fail(stream->gpu, FED_ESTATE,
                            "fed_gpu_kept was called without fed_gpu_keep");
    }
    stream->keeping = false;
    return stream->gpu->device->kept(stream, graph);
}

fed_status fed_gpu_replay(fed_gpu_stream *stream, fed_gpu_graph *graph) {
    FED_TRY(refuse_keeping(stream, "fed_gpu_replay"));
    return stream->gpu->device->replay(stream, graph);
}

void fed_gpu_graph_free(fed_gpu_graph *graph) {
    if (graph != NULL) {
        (*(const fed_gpu_device **)graph)->graph_free(graph);
    }
}
