/* Each codec that runs on GPUs gives the processor's bits there: messages, residuals, what they
 * decode to, and which bytes are refused. Skipped where no device can be used; FED_TEST_DEVICE
 * names one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/rng.h"
#include "fed_test.h"
#include "fedcodec/codec_vtable.h"
#include "fedcodec/gpu_codecs.h"

enum { SKIPPED = 77, ROUNDS = 3, MOST = 70001 };

static fed_gpu *gpu;
static fed_gpu_stream *stream;

static const char *const specs[] = {
    "twobit",
    "twobit:t=0.01",
};

static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 255, 256, 257, 1023, 1024, 1025, 5000, MOST};

/* ---- One codec, one size, some rounds ---- */

typedef struct place {
    float *residual, *x, *y;
    uint8_t *message;
    void *work;
    fedcodec_gpu_head *head;
} place;

static void *on_device(size_t size) {
    void *at = NULL;
    assert_int_equal(fed_gpu_alloc(gpu, size, &at), FED_OK);
    return at;
}

static void up(void *to, const void *from, size_t size) {
    assert_int_equal(fed_gpu_copy(stream, to, from, size, FED_GPU_UP), FED_OK);
    assert_int_equal(fed_gpu_sync(stream), FED_OK);
}

static void down(void *to, const void *from, size_t size) {
    assert_int_equal(fed_gpu_copy(stream, to, from, size, FED_GPU_DOWN), FED_OK);
    assert_int_equal(fed_gpu_sync(stream), FED_OK);
}

static void make_values(float *x, size_t n, fed_rng *rng, uint32_t round) {
    for (size_t i = 0; i < n; i++) {
        x[i] = (fed_rng_float(rng) - 0.5F) * (i % 7 == 0 ? 0.0F : round == 1 ? 1e-3F : 0.3F);
    }
}

static void same_round(const fedcodec *codec, fedcodec_gpu *on_gpu, const place *d, size_t n,
                       float *residual, const float *x) {
    const size_t cap = fedcodec_bound(codec, n);
    uint8_t *message = test_malloc(cap + 1), *theirs = test_malloc(cap + 1);
    float *y = test_calloc(n + 1, sizeof *y), *y_theirs = test_calloc(n + 1, sizeof *y);
    void *work = test_malloc(fedcodec_work_size(codec, n) + 1);
    float *r = fedcodec_has_feedback(codec->vtable) ? residual : NULL;
    size_t len = 0;
    fedcodec_gpu_head head;
    assert_int_equal(fedcodec_encode(codec, r, x, n, work, message, cap, &len), FED_OK);
    up(d->x, x, n * sizeof *x);
    assert_int_equal(fedcodec_gpu_encode(on_gpu, stream, r != NULL ? d->residual : NULL, d->x, n,
                                         d->work, d->message, cap, d->head),
                     FED_OK);
    down(&head, d->head, sizeof head);
    assert_int_equal(head.status, FED_OK);
    assert_int_equal(head.len, len);
    down(theirs, d->message, len);
    assert_memory_equal(theirs, message, len);
    if (r != NULL) {
        down(y_theirs, d->residual, n * sizeof *y);
        assert_memory_equal(y_theirs, r, n * sizeof *y);
    }
    for (size_t i = 0; i < n; i++) {
        y[i] = (float)i;
    }
    up(d->y, y, n * sizeof *y);
    assert_int_equal(fedcodec_axpy(codec->vtable, message, len, 0.3F, y, n), FED_OK);
    assert_int_equal(
        fedcodec_gpu_axpy(on_gpu, stream, d->message, cap, d->head, 0.3F, d->y, n, d->work),
        FED_OK);
    down(y_theirs, d->y, n * sizeof *y);
    assert_memory_equal(y_theirs, y, n * sizeof *y);
    assert_int_equal(fedcodec_decode(codec->vtable, message, len, y, n), FED_OK);
    assert_int_equal(
        fedcodec_gpu_decode(on_gpu, stream, d->message, cap, d->head, d->y, n, d->work), FED_OK);
    down(y_theirs, d->y, n * sizeof *y);
    assert_memory_equal(y_theirs, y, n * sizeof *y);
    down(&head, d->head, sizeof head);
    assert_int_equal(head.status, FED_OK);
    test_free(message);
    test_free(theirs);
    test_free(y);
    test_free(y_theirs);
    test_free(work);
}

static void same_bits(const fedcodec *codec, fedcodec_gpu *on_gpu, size_t n) {
    float *x = test_calloc(n + 1, sizeof *x), *residual = test_calloc(n + 1, sizeof *x);
    fed_rng rng;
    fed_rng_init(&rng, n, 1, 2);
    const place d = {.residual = on_device(n * sizeof *x),
                     .x = on_device(n * sizeof *x),
                     .y = on_device(n * sizeof *x),
                     .message = on_device(fedcodec_bound(codec, n)),
                     .work = on_device(fedcodec_gpu_work_size(on_gpu, n)),
                     .head = on_device(sizeof(fedcodec_gpu_head))};
    assert_int_equal(fed_gpu_fill(stream, d.residual, 0, n * sizeof *x), FED_OK);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        make_values(x, n, &rng, round);
        same_round(codec, on_gpu, &d, n, residual, x);
    }
    void *const all[] = {d.residual, d.x, d.y, d.message, d.work, d.head};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        fed_gpu_free(gpu, all[k]);
    }
    test_free(x);
    test_free(residual);
}

static void each_codec_gives_the_processors_bits(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fedcodec codec;
        fedcodec_gpu *on_gpu = NULL;
        fed_error err = {0};
        assert_int_equal(fedcodec_parse(specs[k], &codec, &err), FED_OK);
        if (fedcodec_gpu_new(gpu, &codec, &on_gpu, &err) != FED_OK) {
            fail_msg("%s: %s", specs[k], err.text);
        }
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            same_bits(&codec, on_gpu, sizes[i]);
        }
        fedcodec_gpu_free(on_gpu);
    }
}

int main(void) {
    const char *name = getenv("FED_TEST_DEVICE");
    fed_error err = {0};
    if (fed_gpu_open(name != NULL ? name : "gpu", NULL, &gpu, &err) != FED_OK) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return name != NULL ? EXIT_FAILURE : SKIPPED;
    }
    fprintf(stderr, "on %s\n", fed_gpu_info_of(gpu)->card);
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_codec_gives_the_processors_bits)};
    int failed = EXIT_FAILURE;
    if (fed_gpu_stream_new(gpu, NULL, &stream) == FED_OK) {
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        fed_gpu_stream_free(stream);
    }
    fed_gpu_close(gpu);
    return failed;
}
