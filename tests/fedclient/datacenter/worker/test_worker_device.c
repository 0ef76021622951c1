/* Workers whose nets are on a GPU: replicas end with the same bits, with each synchronization
 * rule. The tests are skipped without a usable device; FED_TEST_DEVICE names one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <unistd.h>

#include "fed_cases.h"
#include "fed_test_gpu.h"
#include "fedclient/datacenter/worker/worker_impl.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/device.h"
#include "worker_case.h"

static char directory[200];
static worker_data data;
static const char *device;

static worker_case case_of(const char *sync, const char *codec) {
    return (worker_case){.data = &data,
                         .device = device,
                         .model = "input 784 | dense 12 | relu | dense 10",
                         .sync = sync,
                         .codec = codec,
                         .optimizer = "momentum:lr=0.02",
                         .workers = 2,
                         .batch = 4,
                         .run = {7}};
}

static size_t size_of(const worker_case *c) {
    fed_arch arch;
    fed_error err = {0};
    assert_fed_ok_err(fed_arch_parse(c->model, &arch, &err));
    const size_t size = arch.layout.size;
    fed_arch_free(&arch);
    return size;
}

static double distance(const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    }
    return worst;
}

/* Train on the device, where replicas must be equal, and on the host, which may differ by
 * `most`. */
static void near_the_host(const worker_case *on_gpu, double most) {
    worker_case host = *on_gpu;
    host.device = NULL;
    float *there = worker_case_values(on_gpu, NULL, NULL);
    float *here = worker_case_values(&host, NULL, NULL);
    const double far = distance(there, here, size_of(on_gpu));
    free(there);
    free(here);
    if (!(far <= most)) {
        fail_msg("%s %s: the GPU's final values differ by %g from the host's", on_gpu->sync,
                 on_gpu->codec != NULL ? on_gpu->codec : "", far);
    }
}

FED_TEST(each_rule_ends_with_equal_replicas) {
    static const char *const plain[] = {"ssgd", "odsgd"};
    static const char *const coded[] = {"bitsgd", "local:n=2", "cdsgd:n=2,k=3"};
    for (size_t k = 0; k < 2; k++) {
        const worker_case c = case_of(plain[k], NULL);
        near_the_host(&c, 1e-5);
    }
    for (size_t k = 0; k < 3; k++) {
        worker_case c = case_of(coded[k], "twobit:t=0.02");
        /* The GPU may send a value near the threshold one step earlier or later than the host. */
        near_the_host(&c, 0.1);
    }
    const worker_case c = case_of("bitsgd", "bfloat16");
    near_the_host(&c, 1e-3);
}

FED_TEST(each_collective_and_optimizer) {
    static const char *const collectives[] = {"owners", "owners:aggregators=1", "ring",
                                              "tree:group=2"};
    for (size_t k = 0; k < 4; k++) {
        worker_case c = case_of("bitsgd", "twobit:t=0.02");
        c.collective = collectives[k];
        c.pull = k == 0 ? "twobit:t=0.02" : NULL;
        c.workers = 3;
        near_the_host(&c, 0.1);
    }
    worker_case c = case_of("ssgd", NULL);
    c.optimizer = "adam:lr=0.001";
    near_the_host(&c, 1e-3);
}

FED_TEST(backup_workers_train_on) {
    worker_case c = case_of("bitsgd", "twobit:t=0.02");
    c.collective = "owners:aggregators=1";
    c.workers = 3;
    c.late = 1;
    free(worker_case_values(&c, NULL, NULL));
}

FED_TEST(a_resumed_worker_group_ends_with_the_same_bits) {
    static const char *const rules[] = {"local:n=3", "cdsgd:n=2,k=3"};
    char path[300];
    for (size_t k = 0; k < 2; k++) {
        uint64_t whole = 0, resumed = 0;
        worker_case c = case_of(rules[k], "twobit:t=0.02");
        snprintf(path, sizeof path, "%s/gang-%zu", directory, k);
        free(worker_case_values(&c, NULL, &whole));
        c.run[0] = 4;
        c.save = path;
        free(worker_case_values(&c, NULL, NULL));
        c.save = NULL;
        c.resume = path;
        c.run[0] = 3;
        free(worker_case_values(&c, NULL, &resumed));
        assert_true(whole == resumed);
    }
}

FED_TEST(what_a_device_lacks_is_said_by_each_rank) {
    worker_member members[WORKER_CASE_RANKS];
    worker_case c = case_of("bitsgd", "onebit");
    worker_case_run(&c, members);
    for (uint32_t r = 0; r < 2; r++) {
        assert_fed_status(members[r].status, FED_ENOTFOUND);
        assert_fed_says(members[r].err, "onebit runs on the processor only");
    }
    worker_case_free(members);
}

static fed_status begin_well(void *self, const float *params, const float *state, size_t states) {
    (void)self, (void)params, (void)state, (void)states;
    return FED_OK;
}

static fed_status end_halfway(void *self, float *params, float *state) {
    (void)self, (void)state;
    params[0] = 99.0f;
    return FED_EIO;
}

FED_TEST(what_the_device_gives_back_only_in_part_is_not_kept) {
    static const fedtrain_backend_vtable breaks = {
        .name = "breaks", .begin = begin_well, .end = end_halfway};
    fedtrain_net net = {.backend = &breaks};
    const fed_arch arch = {.layout = {.size = 2}};
    float params[2] = {1.0f, 2.0f}, state[1] = {3.0f}, spare[3];
    feddc_worker w = {.params = params, .state = state, .states = 1, .spare = spare, .step = 5};
    fed_error err = {0};
    w.o.arch = &arch;
    w.o.job.net = &net;
    w.values.gpu = (void *)&w; /* only compared with NULL */
    assert_fed_ok_err(feddc_worker_begin(&w, &err));
    w.completed = 7;
    assert_fed_fails(feddc_worker_end(&w, FED_OK, &err), FED_EIO, "breaks");
    assert_true(params[0] == 1.0f && params[1] == 2.0f && state[0] == 3.0f);
    assert_int_equal(w.completed, 5);
}

int main(void) {
    int status;
    fed_gpu *gpu = fed_test_gpu(&status);
    if (gpu == NULL) {
        return status;
    }
    fed_gpu_close(gpu);
    device = getenv("FED_TEST_DEVICE") != NULL ? getenv("FED_TEST_DEVICE") : "gpu";
    fed_test_tmpdir(directory, sizeof directory);
    worker_data_open(&data, directory, 200, 40);
    const int failed = fed_cases_run(NULL, NULL);
    worker_data_close(&data);
    fed_test_rmdir(directory);
    return failed;
}
