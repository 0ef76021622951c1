/* A coder on a GPU makes the same messages, sums and residuals as the host's. The tests are
 * skipped without a usable device; FED_TEST_DEVICE names one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed/rng.h"
#include "fed_cases.h"
#include "fed_test_gpu.h"
#include "fedclient/datacenter/coder.h"
#include "fedcodec/gpu_codecs.h"

enum { ROUNDS = 3, SHARDS = 3 };

static const size_t tensor[] = {1, 300, 17, 1000, 5, 4001, 255, 777, 2, 80000};
enum { TENSORS = sizeof tensor / sizeof tensor[0] };

static fed_gpu *gpu;

typedef struct side {
    feddc_values values;
    feddc_coder *coder;
    float *x, *sum; /* plan.n values each */
    uint8_t *message;
    size_t len;
} side;

static feddc_plan plan;

static void open_side(side *s, fed_gpu *on, const char *codec) {
    fed_error err = {0};
    *s = (side){.message = malloc(8 * plan.n)};
    assert_non_null(s->message);
    assert_fed_ok_err(feddc_values_open(on, NULL, plan.n, &s->values, &err));
    assert_fed_ok_err(feddc_coder_new(codec, &plan, &s->values, &s->coder, &err));
    assert_int_equal(feddc_values_new(&s->values, plan.n, &s->x), FED_OK);
    assert_int_equal(feddc_values_new(&s->values, plan.n, &s->sum), FED_OK);
}

static void close_side(side *s) {
    feddc_coder_free(s->coder);
    feddc_values_free(&s->values, s->x);
    feddc_values_free(&s->values, s->sum);
    feddc_values_close(&s->values);
    free(s->message);
}

static void give(side *s, const float *x) {
    const uint8_t *bytes = (const uint8_t *)x;
    assert_int_equal(feddc_values_use_bytes(&s->values, true, s->x, bytes, plan.n), FED_OK);
    assert_int_equal(feddc_values_wait(&s->values), FED_OK);
}

static void assert_same_sums(side *here, side *there, const char *when) {
    float *a = malloc(plan.n * sizeof *a), *b = malloc(plan.n * sizeof *b);
    assert_int_equal(feddc_values_bytes(&here->values, here->sum, plan.n, (uint8_t *)a), FED_OK);
    assert_int_equal(feddc_values_bytes(&there->values, there->sum, plan.n, (uint8_t *)b), FED_OK);
    assert_int_equal(feddc_values_wait(&there->values), FED_OK);
    if (memcmp(a, b, plan.n * sizeof *a) != 0) {
        fail_msg("%s: the GPU's sum has other bits than the host's", when);
    }
    free(a);
    free(b);
}

static void assert_same_residuals(side *here, side *there, const char *when) {
    float *a = calloc(plan.n, sizeof *a), *b = calloc(plan.n, sizeof *b);
    fed_error err = {0};
    assert_fed_ok_err(feddc_coder_save(here->coder, a, &err));
    assert_fed_ok_err(feddc_coder_save(there->coder, b, &err));
    if (memcmp(a, b, plan.n * sizeof *a) != 0) {
        fail_msg("%s: the GPU's residual has other bits than the host's", when);
    }
    free(a);
    free(b);
}

static void encode(side *s, const feddc_shard *shard, bool plain) {
    fed_error err = {0};
    assert_fed_ok_err(feddc_coder_encode(s->coder, shard, plain, s->x + shard->offset, s->message,
                                         &s->len, &err));
}

static void use(side *s, const feddc_shard *shard, bool plain, bool set) {
    fed_error err = {0};
    float *y = s->sum + shard->offset;
    assert_fed_ok_err((set ? feddc_coder_decode : feddc_coder_add)(s->coder, shard, plain,
                                                                   s->message, s->len, y, &err));
}

static void same_shard(side *here, side *there, const feddc_shard *shard, bool plain,
                       uint32_t round, const char *name) {
    side *const both[] = {here, there};
    fed_error err = {0};
    for (size_t k = 0; k < 2; k++) {
        encode(both[k], shard, plain);
        use(both[k], shard, plain, round == 0);
        use(both[k], shard, plain, false);
    }
    if (here->len != there->len || memcmp(here->message, there->message, here->len) != 0) {
        fail_msg("%s, round %u: the GPU's message has other bytes than the host's", name, round);
    }
    for (size_t k = 0; round == 1 && !plain && feddc_coder_has_residual(here->coder) && k < 2;
         k++) {
        if (!feddc_coder_is_raw(here->coder, shard, false)) {
            assert_fed_ok_err(
                feddc_coder_take_back(both[k]->coder, shard, both[k]->message, both[k]->len, &err));
        }
    }
}

static void same_rounds(const char *codec) {
    side here, there;
    fed_rng rng;
    float *x = malloc(plan.n * sizeof *x);
    fed_rng_init(&rng, 5, 1, 2);
    open_side(&here, NULL, codec);
    open_side(&there, gpu, codec);
    assert_true(feddc_coder_has_residual(here.coder) == feddc_coder_has_residual(there.coder));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < plan.n; i++) {
            x[i] = (fed_rng_float(&rng) - 0.5F) * (i % 7 == 0 ? 0.0F : 0.3F);
        }
        give(&here, x);
        give(&there, x);
        for (uint32_t k = 0; k < plan.buckets * SHARDS; k++) {
            same_shard(&here, &there, &plan.shard[k], k % 4 == 1, round, codec);
        }
        assert_same_sums(&here, &there, codec);
        assert_same_residuals(&here, &there, codec);
    }
    const feddc_coder_counts *a = feddc_coder_count(here.coder),
                             *b = feddc_coder_count(there.coder);
    assert_int_equal(a->zeroed, b->zeroed);
    assert_int_equal(a->coded, b->coded);
    free(x);
    close_side(&here);
    close_side(&there);
}

FED_TEST(messages_sums_and_residuals_are_the_hosts) {
    for (size_t k = 0; fedcodec_at(k) != NULL; k++) {
        if (fedcodec_gpu_has(fedcodec_at(k)) ||
            strcmp(fedcodec_name(fedcodec_at(k)), "float32") == 0) {
            same_rounds(fedcodec_name(fedcodec_at(k)));
        }
    }
}

FED_TEST(a_saved_residual_comes_back) {
    side there;
    fed_error err = {0};
    float *a = malloc(plan.n * sizeof *a), *b = calloc(plan.n, sizeof *b);
    for (size_t i = 0; i < plan.n; i++) {
        a[i] = (float)i;
    }
    open_side(&there, gpu, "twobit");
    assert_fed_ok_err(feddc_coder_restore(there.coder, a, &err));
    assert_fed_ok_err(feddc_coder_save(there.coder, b, &err));
    assert_memory_equal(a, b, plan.n * sizeof *a);
    close_side(&there);
    free(a);
    free(b);
}

static const feddc_shard *coded_shard(const side *s) {
    uint32_t k = 0;
    while (feddc_coder_is_raw(s->coder, &plan.shard[k], false)) {
        k++;
    }
    return &plan.shard[k];
}

FED_TEST(bad_messages_are_refused) {
    side there;
    fed_error err = {0};
    open_side(&there, gpu, "twobit");
    const feddc_shard *shard = coded_shard(&there);
    encode(&there, shard, false);
    float *y = there.sum + shard->offset;
    const size_t len = there.len;
    for (size_t cut = 1; cut < 7; cut++) {
        assert_fed_status(
            feddc_coder_add(there.coder, shard, false, there.message, len - cut, y, &err),
            FED_EFORMAT);
    }
    there.message[0] ^= 1;
    assert_fed_status(feddc_coder_add(there.coder, shard, false, there.message, len, y, &err),
                      FED_EFORMAT);
    assert_fed_says(err, "cannot be decoded as twobit");
    there.message[0] ^= 1;
    there.message[2] = 0x7f; /* the length exceeds any bound */
    assert_fed_status(feddc_coder_decode(there.coder, shard, false, there.message, len, y, &err),
                      FED_EFORMAT);
    close_side(&there);
}

FED_TEST(what_is_not_finite_is_refused) {
    side there;
    fed_error err = {0};
    bool finite = true;
    float *x = calloc(plan.n, sizeof *x);
    open_side(&there, gpu, "twobit");
    const feddc_shard *shard = coded_shard(&there);
    for (size_t i = 0; i < shard->n; i++) {
        x[shard->offset + i] = NAN;
    }
    give(&there, x);
    assert_fed_status(feddc_coder_encode(there.coder, shard, false, there.x + shard->offset,
                                         there.message, &there.len, &err),
                      FED_ENONFINITE);
    assert_fed_says(err, "twobit can't encode values");
    assert_int_equal(feddc_values_check(&there.values, there.x, plan.n, &finite), FED_OK);
    assert_false(finite);
    assert_int_equal(feddc_values_check(&there.values, there.sum, plan.n, &finite), FED_OK);
    assert_true(finite);
    close_side(&there);
    free(x);
}

FED_TEST(a_codec_that_the_gpu_lacks_is_named) {
    fed_error err = {0};
    feddc_values values;
    feddc_coder *coder = NULL;
    assert_fed_ok_err(feddc_values_open(gpu, NULL, plan.n, &values, &err));
    assert_fed_status(feddc_coder_new("onebit", &plan, &values, &coder, &err), FED_ENOTFOUND);
    assert_fed_says(err, "onebit runs on the processor only; these codecs run on GPUs");
    assert_fed_says(err, "twobit");
    feddc_values_close(&values);
}

FED_TEST(what_was_never_made_can_be_freed) {
    feddc_values values = {.gpu = gpu};
    feddc_values_free(&values, NULL);
    feddc_values_close(&values);
    assert_null(values.gpu);
}

int main(void) {
    int status;
    fed_error err = {0};
    gpu = fed_test_gpu(&status);
    if (gpu == NULL) {
        return status;
    }
    int failed = EXIT_FAILURE;
    if (feddc_plan_make(tensor, TENSORS, 16, 1 << 19, SHARDS, &plan, &err) == FED_OK) {
        failed = fed_cases_run(NULL, NULL);
        feddc_plan_free(&plan);
    }
    fed_gpu_close(gpu);
    return failed;
}
