/* Each collective on a GPU must give the same bits as on the host. Skipped without a device;
 * FED_TEST_DEVICE names one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>

#include "exchange_group.h"
#include "fed_cases.h"
#include "fed_test_gpu.h"
#include "fedcodec/codec.h"
#include "fedcodec/gpu_codecs.h"

static fed_gpu *gpu;
static exchange_entry entry[LINK_GROUP_RANKS], other[LINK_GROUP_RANKS];

static const char *const collectives[] = {"gather", "owners", "owners:aggregators=1", "ring",
                                          "tree:group=2"};
enum { COLLECTIVES = sizeof collectives / sizeof collectives[0] };

static const char *told(const exchange_run *run) {
    static char text[200];
    snprintf(text, sizeof text, "%u ranks, %s, codec %s%s", run->size, run->collective,
             run->codec != NULL ? run->codec : "-", run->mixed ? ", mixed" : "");
    return text;
}

static void play(const exchange_run *run, exchange_entry *entries) {
    exchange_group_play(run, entries);
    for (uint32_t r = 0; r < run->size; r++) {
        if (entries[r].status != FED_OK) {
            fail_msg("%s: rank %u: %s", told(run), r, entries[r].err.text);
        }
    }
}

static void assert_same(const exchange_run *run) {
    for (uint32_t r = 0; r < run->size; r++) {
        const size_t size = run->steps * exchange_size() * sizeof *entry[r].sums;
        if (r < entry[0].workers && memcmp(entry[r].sums, other[0].sums, size) != 0) {
            fail_msg("%s: rank %u has other sums than the host's", told(run), r);
        }
        assert_int_equal(entry[r].state_size, other[r].state_size);
        if (memcmp(entry[r].state, other[r].state, entry[r].state_size * sizeof *entry[r].state) !=
            0) {
            fail_msg("%s: rank %u has other residuals than the host's", told(run), r);
        }
    }
}

static void check(const char *collective, const char *codec, uint32_t size, bool mixed) {
    exchange_run run = {.link = feddc_link_named("threads"),
                        .collective = collective,
                        .codec = codec,
                        .pull = strcmp(collective, "gather") != 0 ? codec : NULL,
                        .size = size,
                        .steps = 4,
                        .plain_every = 3};
    play(&run, other);
    run.gpu = gpu;
    run.mixed = mixed;
    run.rough = size == 3;
    play(&run, entry);
    assert_same(&run);
    exchange_group_clear(&run, entry);
    exchange_group_clear(&run, other);
}

static bool takes(const char *collective, const char *codec) {
    const bool recodes = strcmp(collective, "ring") == 0 || strncmp(collective, "tree", 4) == 0;
    return !(recodes && feddc_codec_expands(codec));
}

FED_TEST(all_ranks_have_the_bits_of_the_host) {
    for (size_t k = 0; k < COLLECTIVES; k++) {
        check(collectives[k], NULL, 3, false);
        for (size_t c = 0; fedcodec_at(c) != NULL; c++) {
            const char *codec = fedcodec_name(fedcodec_at(c));
            /* to save time, most collectives get only each third codec */
            const bool turn = k < 2 || (c + k) % 3 == 0;
            if (turn && fedcodec_gpu_has(fedcodec_at(c)) && takes(collectives[k], codec)) {
                check(collectives[k], codec, 2 + (uint32_t)(c + k) % 2, false);
            }
        }
    }
}

FED_TEST(ranks_with_and_without_a_gpu_share_a_worker_group) {
    for (size_t k = 0; k < COLLECTIVES; k++) {
        check(collectives[k], NULL, 4, true);
        check(collectives[k], "twobit", 4, true);
    }
}

static fed_gpu_stream *stream;

static void assert_refused(const feddc_exchange_options *options, fed_status why,
                           const char *words) {
    fed_error err = {0};
    feddc_exchange_options o = *options;
    o.device = gpu;
    o.stream = stream;
    assert_fed_status(feddc_exchange_check(&o, 4, &err), why);
    assert_fed_says(err, words);
}

FED_TEST(what_a_gpu_does_not_take_is_said) {
    fed_error err = {0};
    assert_refused(&(feddc_exchange_options){.nic = "inline"}, FED_EINVAL, "leave out the device");
    assert_refused(&(feddc_exchange_options){.codec = "onebit"}, FED_ENOTFOUND,
                   "onebit runs on the processor only");
    assert_refused(&(feddc_exchange_options){.pull = "onebit"}, FED_ENOTFOUND,
                   "these codecs run on GPUs");
    const feddc_exchange_options o = {.device = gpu};
    assert_fed_fails(feddc_exchange_check(&o, 4, &err), FED_EINVAL, "a stream");
}

FED_TEST(a_nan_on_a_gpu_ends_the_exchange_of_all) {
    for (size_t k = 0; k < COLLECTIVES; k++) {
        exchange_run run = {.link = feddc_link_named("threads"),
                            .collective = collectives[k],
                            .codec = "twobit",
                            .size = 3,
                            .steps = 4,
                            .poisoned = true,
                            .gpu = gpu};
        exchange_group_play(&run, entry);
        assert_fed_status(entry[1].status, FED_ENONFINITE);
        assert_fed_says(entry[1].err, "rank 1's gradient of step 1");
        assert_int_not_equal(entry[0].status, FED_OK);
        exchange_group_clear(&run, entry);
    }
}

static bool has_nccl(void) {
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    return library != NULL && dlsym(library, "fed_fake_nccl") != NULL;
}

static exchange_run nccl_run(const char *codec, uint32_t size) {
    return (exchange_run){.link = feddc_link_named("threads"),
                          .collective = "nccl",
                          .codec = codec,
                          .size = size,
                          .steps = 4,
                          .plain_every = 3,
                          .gpu = gpu,
                          .rough = true};
}

FED_TEST(nccl_of_float32_has_the_bits_of_its_sum) {
    for (uint32_t size = 1; has_nccl() && size <= 4; size++) {
        exchange_run run = nccl_run(NULL, size), host = run;
        play(&run, entry);
        host.gpu = NULL;
        host.collective = "gather";
        play(&host, other);
        assert_same(&run);
        exchange_group_clear(&run, entry);
        exchange_group_clear(&run, other);
    }
}

FED_TEST(nccl_of_bfloat16_rounds_and_all_ranks_have_the_same_bits) {
    for (uint32_t size = 2; has_nccl() && size <= 3; size++) {
        const exchange_run run = nccl_run("bfloat16", size);
        play(&run, entry);
        for (uint32_t r = 1; r < size; r++) {
            assert_memory_equal(entry[r].sums, entry[0].sums,
                                run.steps * exchange_size() * sizeof(float));
        }
        assert_true(exchange_error(&entry[0], 0) > 1e-4);
        assert_true(exchange_error(&entry[0], 0) < 1.0 / 64);
        assert_true(exchange_error(&entry[0], 2) < 3e-7);
        exchange_group_clear(&run, entry);
    }
}

static void assert_all_fail(const exchange_run *run, uint32_t who, const char *words) {
    exchange_group_play(run, entry);
    assert_fed_says(entry[who].err, words);
    for (uint32_t r = 0; r < run->size; r++) {
        assert_int_not_equal(entry[r].status, FED_OK);
    }
    exchange_group_clear(run, entry);
}

FED_TEST(what_nccl_does_not_take_is_said) {
    exchange_run run = nccl_run("twobit", 1);
    const bool cuda = strncmp(fed_gpu_info_of(gpu)->name, "cuda:", 5) == 0;
    assert_all_fail(&run, 0, cuda ? "nccl sums float32 or bfloat16" : "needs --device cuda:N");
    run.gpu = NULL;
    assert_all_fail(&run, 0, "needs --device cuda:N on each rank");
    run = nccl_run(NULL, 1);
    run.pull = "bfloat16";
    assert_all_fail(&run, 0, cuda ? "leave the pull codec out" : "needs --device cuda:N");
    run = nccl_run(NULL, 3);
    run.mixed = true;
    assert_all_fail(&run, 1, "needs --device cuda:N");
}

FED_TEST(a_failure_of_nccl_ends_the_exchange_of_all) {
    static const char *const calls[] = {"ncclCommInitRank", "ncclAllReduce",
                                        "ncclCommGetAsyncError"};
    for (size_t k = 0; has_nccl() && k < sizeof calls / sizeof calls[0]; k++) {
        const exchange_run run = nccl_run(NULL, 3);
        char plan[60];
        (void)snprintf(plan, sizeof plan, "%s=3", calls[k]);
        assert_int_equal(setenv("FED_FAKE_CUDA", plan, 1), 0);
        exchange_group_play(&run, entry);
        assert_int_equal(unsetenv("FED_FAKE_CUDA"), 0);
        for (uint32_t r = 0; r < run.size; r++) {
            assert_fed_status(entry[r].status, FED_EIO);
        }
        exchange_group_clear(&run, entry);
    }
    exchange_run run = nccl_run("bfloat16", 3);
    run.poisoned = true;
    run.rough = false;
    for (int k = 0; has_nccl() && k < 3; k++) {
        assert_all_fail(&run, 1, "rank 1's gradient of step 1");
    }
}

FED_TEST(the_default_collective_follows_ranks_and_codec) {
    assert_string_equal(feddc_collective_preset(4, "3lc:s=1.75", NULL, false), "owners");
    assert_string_equal(feddc_collective_preset(8, "3lc:s=1.75", NULL, true), "gather");
    assert_string_equal(feddc_collective_preset(9, "3lc:s=1.75", NULL, true), "owners");
    assert_string_equal(feddc_collective_preset(9, "sbc:p=0.01", NULL, true), "gather");
    assert_string_equal(feddc_collective_preset(4, "3lc", "3lc", true), "owners");
}

int main(void) {
    int status;
    gpu = fed_test_gpu(&status);
    if (gpu == NULL) {
        return status;
    }
    int failed = EXIT_FAILURE;
    if (fed_gpu_stream_new(gpu, NULL, &stream) == FED_OK) {
        failed = fed_cases_run(NULL, NULL);
        fed_gpu_stream_free(stream);
    }
    fed_gpu_close(gpu);
    return failed;
}
