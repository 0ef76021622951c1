/* Create codecs that run on GPUs, check the arguments of calls, and start each codec's kernels. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/gpu/gpu_codec_vtable.h"

#include <stdlib.h>
#include <string.h>

#include "fedcodec/bursts.h"

#define FEDCODEC_GPU(folder) extern const fedcodec_gpu_vtable fedcodec_gpu_##folder;
#include "codecs/gpu/gpu_codecs.def"
#undef FEDCODEC_GPU

static const fedcodec_gpu_vtable *const all[] = {
#define FEDCODEC_GPU(folder) &fedcodec_gpu_##folder,
#include "codecs/gpu/gpu_codecs.def"
#undef FEDCODEC_GPU
};

enum { ALL = sizeof all / sizeof all[0] };

struct fedcodec_gpu {
    const fedcodec_gpu_vtable *vtable;
    fed_gpu *gpu;
    fedcodec codec;
    const fed_gpu_module *module;
};

static size_t index_of(const fedcodec_vtable *codec) {
    size_t k = 0;
    while (k < ALL && strcmp(all[k]->name, fedcodec_name(codec)) != 0) {
        k++;
    }
    return k;
}

bool fedcodec_gpu_has(const fedcodec_vtable *codec) {
    return index_of(codec) < ALL;
}

static fed_status say_missing(const fedcodec *codec, fed_error *err) {
    char names[200] = "";
    for (size_t k = 0; k < ALL; k++) {
        strncat(names, k > 0 ? ", " : "", sizeof names - strlen(names) - 1);
        strncat(names, all[k]->name, sizeof names - strlen(names) - 1);
    }
    return fed_fail(err, FED_ENOTFOUND,
                    "%s runs on the processor only; these codecs run on GPUs: %s",
                    fedcodec_name(codec->vtable), names);
}

static fed_status build(fedcodec_gpu *c, fed_error *err) {
    size_t size = 1;
    for (const char *const *text = c->vtable->kernels; *text != NULL; text++) {
        size += strlen(*text);
    }
    char *source = malloc(size);
    FED_REQUIRE(source != NULL, FED_ENOMEM);
    source[0] = '\0';
    for (const char *const *text = c->vtable->kernels; *text != NULL; text++) {
        strcat(source, *text); /* NOLINT: source has room for all texts */
    }
    fed_status status = fed_gpu_build(c->gpu, source, &c->module, err);
    free(source);
    return status;
}

fed_status fedcodec_gpu_new(fed_gpu *gpu, const fedcodec *codec, fedcodec_gpu **made,
                            fed_error *err) {
    const size_t k = index_of(codec->vtable);
    if (k == ALL) {
        return say_missing(codec, err);
    }
    const fedcodec_gpu_vtable *vtable = all[k];
    const char *lacks = vtable->lacks != NULL ? vtable->lacks(codec->param) : NULL;
    if (lacks != NULL) {
        return fed_fail(err, FED_ENOTFOUND, "%s: %s", vtable->name, lacks);
    }
    fedcodec_gpu *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the codec's GPU kernels");
    }
    *c = (fedcodec_gpu){.vtable = vtable, .gpu = gpu, .codec = *codec};
    c->codec.pool = NULL;
    fed_status status = build(c, err);
    if (status != FED_OK) {
        fedcodec_gpu_free(c);
        return status;
    }
    *made = c;
    return FED_OK;
}

void fedcodec_gpu_free(fedcodec_gpu *c) {
    free(c);
}

size_t fedcodec_gpu_work_size(const fedcodec_gpu *c, size_t n) {
    n = n > 0 ? n : 1; /* reading a message of no values needs work memory too */
    return c->vtable->work_size == NULL ? 0 : c->vtable->work_size(c->codec.param, n);
}

static fed_status begin_writing(const fedcodec_gpu *c, fedcodec_gpu_job *job, size_t n, size_t cap,
                                size_t bound) {
    FED_REQUIRE(n <= UINT32_C(1) << 31 && cap <= UINT32_MAX, FED_EINVAL);
    FED_REQUIRE(cap >= bound, FED_ENOSPC);
    job->module = c->module;
    job->param = c->codec.param;
    job->cap = (uint32_t)cap;
    job->n = (uint32_t)n;
    return fed_gpu_fill(job->stream, job->head, 0, sizeof *job->head);
}

fed_status fedcodec_gpu_encode(fedcodec_gpu *c, fed_gpu_stream *stream, float *residual,
                               const float *x, size_t n, void *work, uint8_t *dst, size_t cap,
                               fedcodec_gpu_head *head) {
    const bool feedback = c->codec.vtable->feedback;
    FED_REQUIRE(feedback ? residual != NULL : residual == NULL && (x != NULL || n == 0),
                FED_EINVAL);
    fedcodec_gpu_job job = {
        .stream = stream, .residual = residual, .x = x, .message = dst, .head = head, .work = work};
    FED_TRY(begin_writing(c, &job, n, cap, fedcodec_bound(&c->codec, n)));
    return c->vtable->encode(&job);
}

fed_status fedcodec_gpu_bursts(fedcodec_gpu *c, fed_gpu_stream *stream, const float *x, size_t n,
                               void *work, uint8_t *dst, size_t cap, fedcodec_gpu_head *head) {
    FED_REQUIRE(c->vtable->bursts != NULL, FED_ENOTFOUND);
    fedcodec_gpu_job job = {.stream = stream, .x = x, .message = dst, .head = head, .work = work};
    FED_TRY(begin_writing(c, &job, n, cap, fedcodec_bursts_bound(n)));
    return c->vtable->bursts(&job);
}

static fed_status read_message(fedcodec_gpu *c, fed_gpu_stream *stream, const uint8_t *src,
                               size_t cap, fedcodec_gpu_head *head, float w, float *y, size_t n,
                               void *work, bool set) {
    FED_REQUIRE(n <= UINT32_C(1) << 31 && cap <= UINT32_MAX, FED_EINVAL);
    const fedcodec_gpu_job job = {.stream = stream,
                                  .module = c->module,
                                  .param = c->codec.param,
                                  .message = (uint8_t *)src,
                                  .cap = (uint32_t)cap,
                                  .n = (uint32_t)n,
                                  .w = w,
                                  .y = y,
                                  .set = set,
                                  .head = head,
                                  .work = work};
    FED_TRY(fed_gpu_fill(stream, &head->status, 0, sizeof head->status));
    return c->vtable->read(&job);
}

fed_status fedcodec_gpu_axpy(fedcodec_gpu *c, fed_gpu_stream *stream, const uint8_t *src,
                             size_t cap, fedcodec_gpu_head *head, float w, float *y, size_t n,
                             void *work) {
    return read_message(c, stream, src, cap, head, w, y, n, work, false);
}

fed_status fedcodec_gpu_decode(fedcodec_gpu *c, fed_gpu_stream *stream, const uint8_t *src,
                               size_t cap, fedcodec_gpu_head *head, float *y, size_t n,
                               void *work) {
    return read_message(c, stream, src, cap, head, 1.0F, y, n, work, true);
}
