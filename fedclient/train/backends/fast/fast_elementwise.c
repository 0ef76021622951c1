/* The fast backend's layers that treat each value by itself. */
#include <string.h>

#include "fedclient/train/backends/fast/fast_impl.h"

static void relu_forward(const fast_net *f, fast_stage *s, const fedtrain_pass *pass) {
    size_t n = pass->batch * s->out->size;
    if (s->out->data != s->in[0]->data) {
        memcpy(s->out->data, s->in[0]->data, n * sizeof(float));
    }
    f->kernels->relu(s->out->data, n);
}

static void relu_backward(const fast_net *f, fast_stage *s, const fast_flow *w) {
    f->kernels->relu_grad(s->out->data, s->out->grad, s->in[0]->grad, w->pass->batch * s->out->size,
                          s->adds[0]);
}

const fast_op fedtrain_op_relu = {
    .in_place = true,
    .grad_in_place = true,
    .keeps_output = true,
    .forward = relu_forward,
    .backward = relu_backward,
};
