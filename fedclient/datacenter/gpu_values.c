/* Copies, sums and checks of float32 values, in host or GPU memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/gpu_values.h"

#include <stdlib.h>
#include <string.h>

/* EACH: values per work-item, as long as at most GROUPS work-groups are needed */
enum { EACH = 4, GROUPS = 4096 };

extern const char feddc_gpu_values_text[]; /* gpu_values.cl */

uint32_t feddc_values_groups(size_t n) {
    const size_t groups = (n + EACH * FED_GPU_GROUP - 1) / (EACH * FED_GPU_GROUP);
    return groups < GROUPS ? (uint32_t)groups : GROUPS;
}

fed_status feddc_values_explain(const feddc_values *v, fed_status status, fed_error *err) {
    if (v->gpu != NULL) {
        return fed_gpu_explain(v->gpu, status, err);
    }
    return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", fed_status_text(status));
}

static fed_status make_room(feddc_values *v, size_t most) {
    if (!v->lent) {
        FED_TRY(fed_gpu_stream_new(v->gpu, NULL, &v->stream));
    }
    FED_TRY(fed_gpu_alloc(v->gpu, most * sizeof *v->room, (void **)&v->room));
    FED_TRY(fed_gpu_alloc(v->gpu, sizeof *v->found, (void **)&v->found));
    return fed_gpu_alloc_host(v->gpu, sizeof *v->told, (void **)&v->told);
}

fed_status feddc_values_open(fed_gpu *gpu, fed_gpu_stream *stream, size_t most, feddc_values *v,
                             fed_error *err) {
    *v = (feddc_values){.gpu = gpu, .stream = stream, .lent = stream != NULL};
    if (gpu == NULL) {
        return FED_OK;
    }
    FED_TRY(fed_gpu_build(gpu, feddc_gpu_values_text, &v->module, err));
    return feddc_values_explain(v, make_room(v, most), err);
}

void feddc_values_close(feddc_values *v) {
    if (v->gpu != NULL) {
        if (!v->lent) {
            fed_gpu_stream_free(v->stream);
        }
        fed_gpu_free(v->gpu, v->room);
        fed_gpu_free(v->gpu, v->found);
        fed_gpu_free_host(v->gpu, v->told);
    }
    *v = (feddc_values){.gpu = NULL};
}

fed_status feddc_values_new(const feddc_values *v, size_t n, float **x) {
    if (v->gpu == NULL) {
        const size_t size = (n * sizeof **x + 63) / 64 * 64;
        *x = aligned_alloc(64, size > 0 ? size : 64);
        FED_REQUIRE(*x != NULL, FED_ENOMEM);
        memset(*x, 0, n * sizeof **x);
        return FED_OK;
    }
    FED_TRY(fed_gpu_alloc(v->gpu, n * sizeof **x, (void **)x));
    FED_TRY(fed_gpu_fill(v->stream, *x, 0, n * sizeof **x));
    return fed_gpu_sync(v->stream); /* so the caller may use the memory in other streams */
}

void feddc_values_free(const feddc_values *v, float *x) {
    if (v->gpu == NULL) {
        free(x);
    } else if (x != NULL) {
        /* wait until no work on the GPU uses x */
        const fed_status done = fed_gpu_sync(v->stream);
        (void)done;
        fed_gpu_free(v->gpu, x);
    }
}

fed_status feddc_values_wait(const feddc_values *v) {
    return v->gpu != NULL ? fed_gpu_sync(v->stream) : FED_OK;
}

static fed_status add_on_gpu(const feddc_values *v, float *y, const float *x, size_t n) {
    const uint32_t count = (uint32_t)n;
    const fed_gpu_arg args[] = {FED_GPU_AT(y), FED_GPU_AT(x), FED_GPU_VALUE(count)};
    return fed_gpu_launch(v->stream, v->module, "values_add", feddc_values_groups(n), args, 3);
}

fed_status feddc_values_use(const feddc_values *v, bool set, float *y, const float *x, size_t n) {
    if (v->gpu != NULL) {
        return set ? fed_gpu_copy(v->stream, y, x, n * sizeof *y, FED_GPU_ACROSS)
                   : add_on_gpu(v, y, x, n);
    }
    if (set) {
        memcpy(y, x, n * sizeof *y);
    }
    for (size_t i = 0; i < n && !set; i++) {
        y[i] += x[i];
    }
    return FED_OK;
}

fed_status feddc_values_use_bytes(const feddc_values *v, bool set, float *y, const uint8_t *x,
                                  size_t n) {
    if (v->gpu != NULL) {
        float *to = set ? y : v->room;
        FED_TRY(fed_gpu_copy(v->stream, to, x, n * sizeof *y, FED_GPU_UP));
        return set ? FED_OK : add_on_gpu(v, y, to, n);
    }
    if (set) {
        memcpy(y, x, n * sizeof *y);
        return FED_OK;
    }
    float part[256];
    for (size_t at = 0; at < n; at += 256) {
        const size_t count = n - at < 256 ? n - at : 256;
        memcpy(part, x + at * sizeof *y, count * sizeof *y);
        FED_TRY(feddc_values_use(v, false, y + at, part, count));
    }
    return FED_OK;
}

fed_status feddc_values_descend(const feddc_values *v, float *y, const float *x, float rate,
                                size_t n) {
    const uint32_t count = (uint32_t)n;
    const fed_gpu_arg args[] = {FED_GPU_AT(y), FED_GPU_AT(x), FED_GPU_VALUE(rate),
                                FED_GPU_VALUE(count)};
    return fed_gpu_launch(v->stream, v->module, "values_descend", feddc_values_groups(n), args, 4);
}

fed_status feddc_values_swap(const feddc_values *v, float *x, float *y, size_t n) {
    const uint32_t count = (uint32_t)n;
    const fed_gpu_arg args[] = {FED_GPU_AT(x), FED_GPU_AT(y), FED_GPU_VALUE(count)};
    return fed_gpu_launch(v->stream, v->module, "values_swap", feddc_values_groups(n), args, 3);
}

fed_status feddc_values_bytes(const feddc_values *v, const float *x, size_t n, uint8_t *dst) {
    if (v->gpu != NULL) {
        return fed_gpu_copy(v->stream, dst, x, n * sizeof *x, FED_GPU_DOWN);
    }
    memcpy(dst, x, n * sizeof *x);
    return FED_OK;
}

static fed_status find_on_gpu(const feddc_values *v, const char *kernel, size_t n,
                              const fed_gpu_arg *args, size_t count) {
    FED_TRY(fed_gpu_fill(v->stream, v->found, 0, sizeof *v->found));
    FED_TRY(fed_gpu_launch(v->stream, v->module, kernel, feddc_values_groups(n), args, count));
    FED_TRY(fed_gpu_copy(v->stream, v->told, v->found, sizeof *v->told, FED_GPU_DOWN));
    return fed_gpu_sync(v->stream);
}

static bool is_finite(const float *x, size_t n) {
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        found |= (bits & 0x7f800000) == 0x7f800000;
    }
    return found == 0;
}

fed_status feddc_values_check(const feddc_values *v, const float *x, size_t n, bool *finite) {
    if (v->gpu == NULL) {
        *finite = is_finite(x, n);
        return FED_OK;
    }
    const uint32_t count = (uint32_t)n;
    const fed_gpu_arg args[] = {FED_GPU_AT(x), FED_GPU_VALUE(count), FED_GPU_AT(v->found)};
    FED_TRY(find_on_gpu(v, "values_check", n, args, 3));
    *finite = *v->told == 0;
    return FED_OK;
}

fed_status feddc_values_zeroed(const feddc_values *v, const float *x, const float *back, size_t n,
                               uint64_t *zeroed) {
    if (v->gpu != NULL) {
        const uint32_t count = (uint32_t)n;
        const fed_gpu_arg args[] = {FED_GPU_AT(x), FED_GPU_AT(back), FED_GPU_VALUE(count),
                                    FED_GPU_AT(v->found)};
        FED_TRY(find_on_gpu(v, "values_zeroed", n, args, 4));
        *zeroed = *v->told;
        return FED_OK;
    }
    *zeroed = 0;
    for (size_t i = 0; i < n; i++) {
        *zeroed += x[i] != 0 && back[i] == 0;
    }
    return FED_OK;
}
