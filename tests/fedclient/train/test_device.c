/* Training whose parameters stay on a GPU, compared with the same training on the processor. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "net_case.h"

#include <math.h>

#include "fed/gpu.h"
#include "fedclient/train/net_impl.h"
#include "fedtrain/batches.h"
#include "fedtrain/device.h"
#include "fedtrain/train.h"

enum { SAMPLES = 40, SIDE = 8, VALUES = SIDE * SIDE, CLASSES = 3, BATCH = 4, STEPS = 5 };

static const char *const model = "input 1x8x8 | conv 5 3x3 stride 2 pad 1 nobias | bn | relu "
                                 "| dropout 0.1 | dense 7 | relu | dense 3";

typedef struct world {
    fed_arch arch;
    uint8_t pixel[SAMPLES * VALUES], label[SAMPLES];
    uint32_t index[SAMPLES];
    fedtrain_dataset set;
    fedtrain_shard shard;
    fedtrain_net *net;
    size_t states;
    float *params, *state;
    fedtrain_job job;
} world;

static void world_open(world *w, const char *text, const char *backend, const char *rule) {
    fed_error err = {0};
    *w = (world){.shard = {w->index, SAMPLES}};
    assert_fed_ok_err(fed_arch_parse(text, &w->arch, &err));
    for (size_t i = 0; i < SAMPLES * VALUES; i++) {
        w->pixel[i] = (uint8_t)(i * i % 251);
    }
    for (uint32_t i = 0; i < SAMPLES; i++) {
        w->label[i] = (uint8_t)(i % CLASSES);
        w->index[i] = i;
    }
    assert_fed_ok(
        fedtrain_dataset_wrap(w->pixel, w->label, SAMPLES, (fed_shape){1, SIDE, SIDE}, &w->set));
    assert_fed_ok_err(fedtrain_net_new(&w->arch, BATCH, backend, &w->net, &err));
    w->job = (fedtrain_job){
        .net = w->net, .set = &w->set, .shard = &w->shard, .steps = STEPS, .batch = BATCH};
    assert_fed_ok_err(fed_optimizer_parse(rule, 0.01F, &w->job.optimizer, &err));
    w->states = fedtrain_optimizer_state_size(&w->job.optimizer, w->arch.trained);
    w->params = net_case_floats(w->arch.layout.size);
    w->state = net_case_floats(w->states + 1);
    fed_arch_init_values(&w->arch, 1, w->params);
}

static void world_close(world *w) {
    fedtrain_net_free(w->net);
    fedtrain_dataset_free(&w->set);
    fed_arch_free(&w->arch);
    free(w->params);
    free(w->state);
}

static fedtrain_batch batch_of(world *w, size_t step) {
    fedtrain_batches *batches;
    fedtrain_batch batch;
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_batches_open(&w->job, w->params, &batches, &err));
    fedtrain_batches_next(batches, step, &batch);
    fedtrain_batches_close(batches);
    return batch;
}

static void world_begin(world *w) {
    fed_error err = {0};
    fedtrain_optimizer_begin_round(&w->job.optimizer, w->state, w->params, w->arch.trained);
    assert_fed_ok_err(fedtrain_net_begin(w->net, w->params, w->state, w->states, &err));
}

static void world_end(world *w) {
    fed_error err = {0};
    assert_fed_ok_err(fedtrain_net_end(w->net, w->params, w->state, &err));
}

static void assert_near(const char *what, const float *got, const float *wanted, size_t n,
                        double tolerance) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)wanted[i]));
    }
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)got[i] - (double)wanted[i]) <= tolerance * most)) {
            fail_msg("%s: value %zu is %g, not %g", what, i, (double)got[i], (double)wanted[i]);
        }
    }
}

static bool go_on(void *user, size_t step, float loss) {
    float *sum = user;
    *sum += loss;
    return step < 2 * STEPS;
}

/* Train two rounds on the processor and on the device, and compare. */
static void check_rule(const char *text, const char *rule) {
    world here, there;
    fed_error err = {0};
    float loss[2], heard = 0;
    world_open(&here, text, NULL, rule);
    world_open(&there, text, net_case_device(), rule);
    there.job.after_step = go_on;
    there.job.user = &heard;
    for (uint32_t round = 0; round < 2; round++) {
        here.job.round = there.job.round = round;
        heard = 0;
        assert_fed_ok_err(fedtrain_run(&here.job, here.params, here.state, &loss[0], &err));
        assert_fed_ok_err(fedtrain_run(&there.job, there.params, there.state, &loss[1], &err));
        assert_near(rule, &loss[1], &loss[0], 1, 1e-5);
        heard /= STEPS;
        assert_near(rule, &heard, &loss[0], 1, 1e-5);
    }
    assert_near(rule, there.params, here.params, here.arch.layout.size, 2e-4);
    assert_near(rule, there.state, here.state, here.states, 2e-4);
    world_close(&here);
    world_close(&there);
}

FED_TEST(test_each_optimizer_steps_as_on_the_processor) {
    static const char *const rules[] = {
        "sgd",
        "sgd:decay=0.01+clip:value=0.02",
        "momentum:decay=0.01+clip:norm=0.1",
        "momentum:nesterov=1+prox:mu=0.1+warmup:steps=2",
        "adam:decay=0.01+cosine:steps=8",
        "adamw+clip:value=0.05,norm=0.2+step:every=3,factor=0.5",
        "sgd+stall:window=2,patience=1,factor=0.5",
    };
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        check_rule(model, rules[k]);
    }
    check_rule("input 1x8x8 | dense 7 | relu | dense 3 | scaffold", "sgd+scaffold");
}

FED_TEST(test_the_same_run_gives_the_same_bits) {
    world w[2];
    fed_error err = {0};
    float loss[2];
    for (size_t k = 0; k < 2; k++) {
        world_open(&w[k], model, net_case_device(), "adam");
        assert_fed_ok_err(fedtrain_run(&w[k].job, w[k].params, w[k].state, &loss[k], &err));
    }
    assert_memory_equal(w[0].params, w[1].params, w[0].arch.layout.size * sizeof(float));
    assert_memory_equal(w[0].state, w[1].state, w[0].states * sizeof(float));
    assert_true(loss[0] == loss[1]);
    world_close(&w[0]);
    world_close(&w[1]);
}

static bool stop_at_two(void *user, size_t step, float loss) {
    (void)user;
    (void)loss;
    return step + 1 < 2;
}

FED_TEST(test_a_run_that_is_stopped_has_taken_no_further_step) {
    world stopped, wanted;
    fed_error err = {0};
    float loss;
    world_open(&stopped, model, net_case_device(), "adam");
    world_open(&wanted, model, net_case_device(), "adam");
    stopped.job.after_step = stop_at_two;
    wanted.job.steps = 2;
    assert_fed_ok_err(fedtrain_run(&stopped.job, stopped.params, stopped.state, &loss, &err));
    assert_fed_ok_err(fedtrain_run(&wanted.job, wanted.params, wanted.state, &loss, &err));
    assert_memory_equal(stopped.params, wanted.params, wanted.arch.layout.size * sizeof(float));
    assert_memory_equal(stopped.state, wanted.state, wanted.states * sizeof(float));
    world_close(&stopped);
    world_close(&wanted);
}

FED_TEST(test_a_loss_that_is_not_finite_is_named_and_leaves_what_the_step_found) {
    world w, wanted;
    fed_error err = {0};
    float loss;
    world_open(&w, model, net_case_device(), "adam:lr=999999999999999");
    world_open(&wanted, model, net_case_device(), "adam:lr=999999999999999");
    assert_fed_status(fedtrain_run(&w.job, w.params, w.state, &loss, &err), FED_ENONFINITE);
    assert_fed_says(err, "step 2 of 5");
    assert_fed_says(err, "gives NaN or infinity");
    wanted.job.steps = 1;
    assert_fed_ok_err(fedtrain_run(&wanted.job, wanted.params, wanted.state, &loss, &err));
    assert_memory_equal(w.params, wanted.params, w.arch.layout.size * sizeof(float));
    assert_memory_equal(w.state, wanted.state, w.states * sizeof(float));
    world_close(&w);
    world_close(&wanted);
}

FED_TEST(test_a_tensor_that_is_not_finite_is_named) {
    world w;
    fed_error err = {0};
    float loss;
    world_open(&w, model, net_case_device(), "sgd");
    w.params[w.arch.layout.tensors[2].offset] = NAN;
    assert_fed_status(fedtrain_run(&w.job, w.params, w.state, &loss, &err), FED_ENONFINITE);
    assert_fed_says(err, w.arch.layout.tensors[2].name);
    world_close(&w);
}

typedef struct heard {
    const fedtrain_net *net;
    size_t lowest, calls;
} heard;

static void listen(void *user, size_t offset, const float *grad, size_t n) {
    heard *h = user;
    assert_int_equal(offset + n, h->lowest);
    assert_ptr_equal(grad, fedtrain_net_device_gradient(h->net) + offset);
    h->lowest = offset;
    h->calls++;
}

FED_TEST(test_a_sink_hears_each_layers_device_address_and_the_gradient_is_the_hosts) {
    world w;
    fed_error err = {0};
    world_open(&w, model, net_case_device(), "sgd");
    const size_t n = w.arch.trained;
    float *wanted = net_case_floats(n), *got = net_case_floats(n), losses[2];
    const fedtrain_batch batch = batch_of(&w, 0);
    heard h = {.net = w.net, .lowest = n};
    const fedtrain_sink sink = {.done = listen, .user = &h};
    assert_fed_ok_err(fedtrain_net_gradient(w.net, w.params, &batch, wanted, &losses[0], &err));
    world_begin(&w);
    assert_fed_ok_err(fedtrain_net_device_start(w.net, &batch, &sink, &err));
    assert_int_equal(h.lowest, 0);
    assert_int_equal(h.calls, 4);
    assert_fed_ok_err(fedtrain_net_device_loss(w.net, &losses[1], &err));
    fed_gpu_stream *stream = fedtrain_net_stream(w.net);
    assert_fed_ok(fed_gpu_copy(stream, got, fedtrain_net_device_gradient(w.net), n * sizeof *got,
                               FED_GPU_DOWN));
    assert_fed_ok(fed_gpu_sync(stream));
    assert_near("gradient", got, wanted, n, 1e-5);
    assert_near("loss", &losses[1], &losses[0], 1, 1e-6);
    world_end(&w);
    free(wanted);
    free(got);
    world_close(&w);
}

/* A step in two parts, each with the gradient over two half batches, must equal the whole step. */
FED_TEST(test_a_step_in_parts_is_the_step) {
    world w[2];
    fed_error err = {0};
    float loss;
    for (size_t k = 0; k < 2; k++) {
        world_open(&w[k], model, net_case_device(), "adam");
        const size_t n = w[k].arch.trained, cut = n / 3;
        const fedtrain_batch batch = batch_of(&w[k], 0);
        fedtrain_open_step step;
        world_begin(&w[k]);
        assert_fed_ok_err(fedtrain_net_device_start(w[k].net, &batch, NULL, &err));
        if (k == 0) {
            assert_fed_ok_err(fedtrain_net_device_step(w[k].net, &w[k].job.optimizer, w[k].params,
                                                       w[k].state, NULL, 0.5F, &err));
        } else {
            const float *grad = fedtrain_net_device_gradient(w[k].net);
            assert_fed_ok_err(fedtrain_optimizer_begin_step(&w[k].job.optimizer, w[k].state,
                                                            w[k].params, n, &step, &err));
            assert_fed_ok_err(
                fedtrain_net_device_part(w[k].net, &step, cut, n - cut, grad + cut, 0.5F, &err));
            assert_fed_ok_err(fedtrain_net_device_part(w[k].net, &step, 0, cut, grad, 0.5F, &err));
        }
        assert_fed_ok_err(fedtrain_net_device_loss(w[k].net, &loss, &err));
        world_end(&w[k]);
    }
    assert_memory_equal(w[0].params, w[1].params, w[0].arch.layout.size * sizeof(float));
    assert_memory_equal(w[0].state, w[1].state, w[0].states * sizeof(float));
    world_close(&w[0]);
    world_close(&w[1]);
}

FED_TEST(test_calls_out_of_order_are_refused) {
    world w, here;
    fed_error err = {0};
    float loss;
    world_open(&w, model, net_case_device(), "sgd");
    world_open(&here, model, NULL, "sgd");
    const fedtrain_batch batch = batch_of(&w, 0);
    assert_fed_status(fedtrain_net_device_start(w.net, &batch, NULL, &err), FED_ESTATE);
    assert_fed_says(err, "fedtrain_net_begin");
    assert_fed_status(fedtrain_net_device_start(here.net, &batch, NULL, &err), FED_ESTATE);
    assert_fed_says(err, "on the processor");
    assert_null(fedtrain_net_gpu(here.net));
    world_begin(&w);
    assert_fed_status(fedtrain_net_device_loss(w.net, &loss, &err), FED_ESTATE);
    assert_fed_ok_err(fedtrain_net_device_start(w.net, &batch, NULL, &err));
    assert_fed_ok_err(fedtrain_net_device_start(w.net, &batch, NULL, &err));
    assert_fed_status(fedtrain_net_device_start(w.net, &batch, NULL, &err), FED_ESTATE);
    assert_fed_says(err, "two passes are open");
    world_end(&w);
    world_close(&w);
    world_close(&here);
}

int main(void) {
    if (net_case_device() == NULL) {
        (void)puts("skipped: no GPU that can be used is here");
        return 77;
    }
    return fed_cases_run(NULL, NULL);
}
