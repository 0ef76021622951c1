/* The fast backend, with every set of kernels, against the reference. */
#include "net_case.h"

#include <math.h>

#include "fed/optimizer_spec.h"
#include "fedclient/train/update.h"
#include "fedtrain/optimizer.h"

/* What an engine answers to a sequence of calls. */
enum { GRADIENTS = 3, SCORES = 5 };

typedef struct trace {
    const net_case *net;
    const char *engine;
    size_t batch;
    float *score[SCORES], *grad[GRADIENTS];
    float *params; /* with running statistics that followed two batches */
} trace;

static void forward(const net_engine *e, trace *t, bool training, size_t k) {
    fedtrain_pass pass = net_case_pass(t->net, t->batch);
    pass.params = t->params;
    pass.training = training;
    t->score[k] = net_case_floats(net_case_scores(t->net, t->batch));
    e->backend->forward(e->work, &pass, t->score[k]);
}

static void backward(const net_engine *e, trace *t, size_t k) {
    fedtrain_pass pass = net_case_pass(t->net, t->batch);
    pass.params = t->params;
    t->grad[k] = net_case_floats(t->net->arch.trained);
    e->backend->backward(e->work, &pass, t->net->score_grad, t->grad[k]);
}

/* Training twice, since a second batch must see of the first only what it should; each time
 * followed by a batch in use. False past the last engine. */
static bool trace_make(trace *t, const net_case *net, size_t engine, size_t batch) {
    net_engine e;
    if (!net_engine_open(engine, &net->arch, &e)) {
        return false;
    }
    size_t n = net->arch.layout.size;
    *t = (trace){.net = net, .engine = e.name, .batch = batch, .params = net_case_floats(n)};
    memcpy(t->params, net->params, n * sizeof *t->params);
    for (size_t k = 0; k < 2; k++) {
        forward(&e, t, true, 2 * k);
        backward(&e, t, k);
        e.backend->keep_statistics(e.work, t->params);
        forward(&e, t, false, 2 * k + 1);
    }
    e.backend->forget(e.work);
    forward(&e, t, true, 4);
    backward(&e, t, 2);
    net_engine_close(&e);
    return true;
}

static void trace_free(trace *t) {
    for (size_t k = 0; k < SCORES; k++) {
        free(t->score[k]);
    }
    for (size_t k = 0; k < GRADIENTS; k++) {
        free(t->grad[k]);
    }
    free(t->params);
}

/* ---- Comparison ---- */

static double largest(const float *x, size_t n) {
    double top = 0;
    for (size_t i = 0; i < n; i++) {
        top = fmax(top, fabs(x[i]));
    }
    return top;
}

/* What rounding may make of values: of the largest of those that belong together, and of all. */
static void assert_near(const trace *t, const char *what, const float *got, const float *wanted,
                        size_t n, double all) {
    double tolerance = 1e-5 * largest(wanted, n) + 1e-6 * all + 1e-7;
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)got[i] - wanted[i]) <= tolerance)) {
            fail_msg("%s (%s, batch %zu): %s[%zu] is %g, the reference's %g", t->net->text,
                     t->engine, t->batch, what, i, (double)got[i], (double)wanted[i]);
        }
    }
}

/* The tensors from value `first` to before `end`. */
static void assert_near_tensors(const trace *t, const float *got, const float *wanted, size_t first,
                                size_t end) {
    const fed_layout *layout = &t->net->arch.layout;
    double all = largest(wanted + first, end - first);
    for (size_t k = 0; k < layout->count; k++) {
        const fed_tensor *tensor = &layout->tensors[k];
        if (tensor->offset >= first && tensor->offset < end) {
            assert_near(t, tensor->name, got + tensor->offset, wanted + tensor->offset,
                        tensor->size, all);
        }
    }
}

static void assert_same(const trace *t, const trace *wanted) {
    const fed_arch *arch = &t->net->arch;
    size_t scores = net_case_scores(t->net, t->batch);
    for (size_t k = 0; k < SCORES; k++) {
        assert_near(t, "score", t->score[k], wanted->score[k], scores, 0);
    }
    for (size_t k = 0; k < GRADIENTS; k++) {
        assert_near_tensors(t, t->grad[k], wanted->grad[k], 0, arch->trained);
    }
    assert_near_tensors(t, t->params, wanted->params, arch->trained, arch->layout.size);
}

static void check_engines(const net_case *net, size_t batch) {
    trace reference, fast;
    assert_true(trace_make(&reference, net, 0, batch));
    for (size_t engine = 1; trace_make(&fast, net, engine, batch); engine++) {
        assert_same(&fast, &reference);
        trace_free(&fast);
    }
    trace_free(&reference);
}

/* Layers of few values are quick even in the reference, and go by whole batches: all sizes. */
static bool is_small(const fed_arch *arch) {
    enum { FEW = 200 };
    size_t most = 0;
    for (size_t l = 0; l < arch->layer_count; l++) {
        size_t n = fedtrain_shape_size(arch->layers[l].out);
        most = n > most ? n : most;
    }
    return most <= FEW;
}

/* Of two values a channel, the gradient of a normalization is a small difference of large ones:
 * rounding shows. */
static bool is_touchy(const fed_arch *arch, size_t batch) {
    bool touchy = false;
    for (size_t l = 0; l < arch->layer_count; l++) {
        const fed_layer *layer = &arch->layers[l];
        size_t area = (size_t)layer->in.h * layer->in.w;
        touchy |= layer->kind == FED_LAYER_BATCHNORM && batch * area == 2;
    }
    return touchy;
}

static void test_the_fast_backend_agrees_with_the_reference(void **state) {
    (void)state;
    const char *text;
    for (size_t k = 0; (text = net_case_text(k)) != NULL; k++) {
        net_case net;
        net_case_make(&net, text);
        for (size_t batch = 1; batch <= NET_CASE_BATCH; batch++) {
            bool wanted = batch <= 2 || batch == NET_CASE_BATCH || is_small(&net.arch);
            if (wanted && !is_touchy(&net.arch, batch)) {
                check_engines(&net, batch);
            }
        }
        net_case_free(&net);
    }
}

/* ---- Backends that update while they go back ---- */

static void step_at_once(const net_engine *e, const net_case *net, const fed_optimizer *rule,
                         float *params, float *state, float *scratch) {
    fedtrain_pass pass = net_case_pass(net, NET_CASE_BATCH);
    fedtrain_update update = fedtrain_update_begin(rule, state, net->arch.trained);
    pass.params = params;
    e->backend->train(e->work, &pass, params, net->score_grad, &update, scratch);
}

static void step_in_turn(const net_engine *e, const net_case *net, const fed_optimizer *rule,
                         float *params, float *state, float *scratch) {
    fedtrain_pass pass = net_case_pass(net, NET_CASE_BATCH);
    pass.params = params;
    e->backend->backward(e->work, &pass, net->score_grad, scratch);
    fedtrain_optimizer_step(rule, state, params, scratch, net->arch.trained);
}

static void check_step(const net_case *net, const net_engine *e) {
    if (e->backend->train == NULL) {
        return;
    }
    fed_optimizer rule;
    fed_error err = {0};
    assert_fed_ok_err(fed_optimizer_parse("adam", 0.01F, &rule, &err));
    size_t n = net->arch.layout.size;
    size_t states = fedtrain_optimizer_state_size(&rule, net->arch.trained);
    float *params[2], *state[2], *scratch = net_case_floats(n);
    float *score = net_case_floats(net_case_scores(net, NET_CASE_BATCH));
    const fedtrain_pass pass = net_case_pass(net, NET_CASE_BATCH);
    for (size_t i = 0; i < 2; i++) {
        params[i] = net_case_floats(n);
        state[i] = net_case_floats(states);
        memcpy(params[i], net->params, n * sizeof(float));
        e->backend->forget(e->work);
        e->backend->forward(e->work, &pass, score);
        (i == 0 ? step_at_once : step_in_turn)(e, net, &rule, params[i], state[i], scratch);
    }
    if (memcmp(params[0], params[1], n * sizeof(float)) != 0 ||
        memcmp(state[0], state[1], states * sizeof(float)) != 0) {
        fail_msg("%s (%s): a step at once gives other bits", net->text, e->name);
    }
    for (size_t i = 0; i < 2; i++) {
        free(params[i]);
        free(state[i]);
    }
    free(scratch);
    free(score);
}

static void test_a_step_at_once_is_a_gradient_and_an_update_to_the_bit(void **state) {
    (void)state;
    net_case_each(check_step);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_fast_backend_agrees_with_the_reference),
        cmocka_unit_test(test_a_step_at_once_is_a_gradient_and_an_update_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
