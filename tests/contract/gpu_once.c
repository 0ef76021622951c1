/* Run one encode or decode-and-add of a codec on a device, for gpu_traffic.py, which counts memory
 * traffic. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/rng.h"
#include "fedcodec/codec.h"
#include "fedcodec/gpu_codecs.h"

/*
 *     gpu_once DEVICE SPEC N encode|add
 *
 * Values are Laplace-distributed. Exit status 77: the codec does not run on GPUs.
 */

enum { ROUNDS = 10 };

typedef struct place {
    fed_gpu *gpu;
    fed_gpu_stream *stream;
    fedcodec codec;
    fedcodec_gpu *on_gpu;
    size_t n, cap;
    /* host and left: on the host; residual and x: on the device */
    float *host, *left, *residual, *x;
    /* message: on the device; bytes: the message on the host */
    uint8_t *message, *bytes;
    size_t len;
    fedcodec_gpu_head *head;
    void *work;
} place;

static int failed(const char *what, const fed_error *err) {
    fprintf(stderr, "gpu_once: %s: %s\n", what, err->text);
    return err->status == FED_ENOTFOUND ? 77 : EXIT_FAILURE;
}

static fed_status encode_on_host(place *p) {
    void *work = malloc(fedcodec_work_size(&p->codec, p->n) + 1);
    fed_status status = work != NULL ? FED_OK : FED_ENOMEM;
    for (unsigned round = 0; round < ROUNDS && status == FED_OK; round++) {
        status = fedcodec_encode(&p->codec, fedcodec_has_feedback(p->codec.vtable) ? p->left : NULL,
                                 p->host, p->n, work, p->bytes, p->cap, &p->len);
    }
    free(work);
    return status;
}

static fed_status make_values(place *p) {
    fed_rng rng;
    fed_rng_init(&rng, p->n, 1, 2);
    p->cap = fedcodec_bound(&p->codec, p->n);
    p->host = malloc(p->n * sizeof *p->host);
    p->left = calloc(p->n, sizeof *p->left);
    p->bytes = malloc(p->cap + 1);
    FED_REQUIRE(p->host != NULL && p->left != NULL && p->bytes != NULL, FED_ENOMEM);
    for (size_t i = 0; i < p->n; i++) {
        const float u = fed_rng_float(&rng) - 0.5F;
        p->host[i] = copysignf(-0.01F * logf(1.0F - 1.9999F * fabsf(u)), u);
    }
    return encode_on_host(p);
}

static fed_status take(place *p) {
    const size_t size = p->n * sizeof(float);
    FED_TRY(make_values(p));
    FED_TRY(fed_gpu_alloc(p->gpu, size, (void **)&p->residual));
    FED_TRY(fed_gpu_alloc(p->gpu, size, (void **)&p->x));
    FED_TRY(fed_gpu_alloc(p->gpu, p->cap, (void **)&p->message));
    FED_TRY(fed_gpu_alloc(p->gpu, sizeof *p->head, (void **)&p->head));
    FED_TRY(fed_gpu_alloc(p->gpu, fedcodec_gpu_work_size(p->on_gpu, p->n), &p->work));
    FED_TRY(fed_gpu_copy(p->stream, p->residual, p->left, size, FED_GPU_UP));
    return fed_gpu_copy(p->stream, p->x, p->host, size, FED_GPU_UP);
}

static fed_status encode(place *p) {
    const bool feedback = fedcodec_has_feedback(p->codec.vtable);
    return fedcodec_gpu_encode(p->on_gpu, p->stream, feedback ? p->residual : NULL, p->x, p->n,
                               p->work, p->message, p->cap, p->head);
}

static fed_status add(place *p) {
    const fedcodec_gpu_head head = {.len = (uint32_t)p->len};
    FED_TRY(fed_gpu_copy(p->stream, p->message, p->bytes, p->len, FED_GPU_UP));
    FED_TRY(fed_gpu_copy(p->stream, p->head, &head, sizeof head, FED_GPU_UP));
    FED_TRY(fed_gpu_sync(p->stream));
    return fedcodec_gpu_axpy(p->on_gpu, p->stream, p->message, p->cap, p->head, 0.5F, p->x, p->n,
                             p->work);
}

static int run(place *p, const char *what, fed_error *err) {
    fedcodec_gpu_head head;
    fed_status status = take(p);
    if (status == FED_OK) {
        status = strcmp(what, "encode") == 0 ? encode(p) : add(p);
    }
    if (status == FED_OK) {
        status = fed_gpu_copy(p->stream, &head, p->head, sizeof head, FED_GPU_DOWN);
    }
    if (status == FED_OK) {
        status = fed_gpu_sync(p->stream);
    }
    if (fed_gpu_explain(p->gpu, status, err) != FED_OK) {
        return failed(what, err);
    }
    printf("len %u status %u\n", head.len, head.status);
    void *const all[] = {p->residual, p->x, p->message, p->head, p->work};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        fed_gpu_free(p->gpu, all[k]);
    }
    free(p->host);
    free(p->left);
    free(p->bytes);
    return head.status == FED_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    place p = {.n = argc == 5 ? strtoul(argv[3], NULL, 10) : 0};
    fed_error err = {0};
    if (p.n == 0 || p.n > (size_t)1 << 24) {
        fprintf(stderr, "usage: gpu_once DEVICE SPEC N encode|add\n");
        return EXIT_FAILURE;
    }
    if (fedcodec_parse(argv[2], &p.codec, &err) != FED_OK ||
        fed_gpu_open(argv[1], NULL, &p.gpu, &err) != FED_OK) {
        return failed(argv[2], &err);
    }
    if (fedcodec_gpu_new(p.gpu, &p.codec, &p.on_gpu, &err) != FED_OK ||
        fed_gpu_stream_new(p.gpu, NULL, &p.stream) != FED_OK) {
        fed_gpu_close(p.gpu);
        return failed(argv[2], &err);
    }
    const int status = run(&p, argv[4], &err);
    fed_gpu_stream_free(p.stream);
    fedcodec_gpu_free(p.on_gpu);
    fed_gpu_close(p.gpu);
    return status;
}
