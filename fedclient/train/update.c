/* An optimizer step on the processor: its learning rate, coefficients, and kernel calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/update.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

static bool is_adam(const fed_optimizer *o) {
    return !FED_SMALL && (o->rule == FED_ADAM || o->rule == FED_ADAMW);
}

static bool is_scaffold(const fed_optimizer *o) {
    return !FED_SMALL && o->scaffold_share > 0;
}

static bool counts_steps(const fed_optimizer *o) {
    return is_adam(o) || o->warmup_steps > 0 || o->step_every > 0 || o->cosine_steps > 0;
}

fedtrain_state_parts fedtrain_state_parts_of(const fed_optimizer *o, size_t n) {
    fedtrain_state_parts p;
    p.steps = is_adam(o) ? 2 * n : o->rule == FED_MOMENTUM ? n : 0;
    p.stall = p.steps + (counts_steps(o) ? 1 : 0);
    p.start = p.stall + (o->stall_window > 0 ? FEDTRAIN_STALL_FLOATS : 0);
    p.own = p.start + (o->prox_mu > 0 || is_scaffold(o) ? n : 0);
    p.rates = p.own + (is_scaffold(o) ? n : 0);
    p.size = p.rates + (is_scaffold(o) ? 1 : 0);
    return p;
}

fedtrain_counters fedtrain_counters_of(const fed_optimizer *o, const float *state, size_t n) {
    const fedtrain_state_parts p = fedtrain_state_parts_of(o, n);
    return (fedtrain_counters){.steps = counts_steps(o) ? state[p.steps] : 0,
                               .rates = is_scaffold(o) ? state[p.rates] : 0};
}

void fedtrain_counters_put(const fed_optimizer *o, float *state, size_t n,
                           fedtrain_counters counters) {
    const fedtrain_state_parts p = fedtrain_state_parts_of(o, n);
    if (counts_steps(o)) {
        state[p.steps] = counters.steps;
    }
    if (is_scaffold(o)) {
        state[p.rates] = counters.rates;
    }
}

static double scheduled_rate(const fed_optimizer *o, const float *state, size_t n) {
    const fedtrain_state_parts p = fedtrain_state_parts_of(o, n);
    double taken = counts_steps(o) ? (double)state[p.steps] : 0, rate = o->learning_rate;
    if (taken + 1 < o->warmup_steps) {
        rate *= (taken + 1) / o->warmup_steps;
    }
    double t = fmax(0, taken - o->warmup_steps);
    if (o->step_every > 0) {
        rate *= pow(o->step_factor, floor(t / o->step_every));
    }
    if (o->cosine_steps > 0) {
        double done = fmin(1, t / o->cosine_steps);
        rate *= o->cosine_low + (1 - o->cosine_low) * 0.5 * (1 + cos(PI * done));
    }
    if (o->stall_window > 0) {
        rate *= pow(o->stall_factor, (double)state[p.stall + FEDTRAIN_STALL_CUTS]);
    }
    return rate;
}

double fedtrain_update_rate(const fed_optimizer *optimizer, const float *state, size_t n) {
    return FED_SMALL ? optimizer->learning_rate : scheduled_rate(optimizer, state, n);
}

/* 1 - beta^t, computed without the loss of digits of a difference. */
static double bias_correction(double beta, double t) {
    return beta > 0 ? -expm1(t * log(beta)) : 1;
}

static void begin_adam(const fed_optimizer *o, double rate, double t, fedtrain_step *s) {
    s->beta1 = (float)o->beta1;
    s->beta2 = (float)o->beta2;
    s->fresh1 = (float)(1.0 - o->beta1);
    s->fresh2 = (float)(1.0 - o->beta2);
    s->rate = (float)(rate / bias_correction(o->beta1, t));
    s->scale2 = (float)(1.0 / sqrt(bias_correction(o->beta2, t)));
    s->epsilon = (float)o->epsilon;
    s->keep = o->rule == FED_ADAMW ? (float)(1.0 - rate * o->decay) : 1.0F;
}

static fedtrain_step begin_step(const fed_optimizer *o, double rate) {
    fedtrain_step s = {.mu = (float)o->prox_mu,
                       .limit = o->clip_value > 0 ? (float)o->clip_value : INFINITY,
                       .scale = 1.0F,
                       .share = 1.0F,
                       .decay = o->rule == FED_ADAMW ? 0.0F : (float)o->decay,
                       .nesterov = o->nesterov > 0,
                       .rate = (float)rate,
                       .beta1 = (float)o->momentum};
    s.shaped = o->clip_value > 0 || o->clip_norm > 0 || s.decay > 0;
    return s;
}

fedtrain_updater fedtrain_update_begin(const fed_optimizer *optimizer, float *state, float *params,
                                       size_t n) {
    const fed_optimizer *o = optimizer;
    const fedtrain_state_parts p = fedtrain_state_parts_of(o, n);
    double rate = fedtrain_update_rate(o, state, n);
    if (counts_steps(o)) {
        state[p.steps] += 1.0F; /* a float stays at 2^24 when 1 is added */
    }
    fedtrain_update u = {.rule = o->rule,
                         .step = begin_step(o, rate),
                         .clip_norm = o->clip_norm,
                         .params = params,
                         .first = state};
    u.start = p.own > p.start ? state + p.start : NULL;
    if (is_scaffold(o)) {
        u.own = state + p.own;
        u.control = n;
        state[p.rates] += (float)rate;
    }
    if (is_adam(o)) {
        u.second = state + n;
        begin_adam(o, rate, (double)state[p.steps], &u.step);
    }
    return (fedtrain_updater){.update = u, .kernels = fedtrain_kernels_best()};
}

void fedtrain_update_clip(fedtrain_updater *u, const float *grad, size_t n) {
    const fedtrain_update *step = &u->update;
    if (step->clip_norm > 0) {
        double norm = u->kernels->norm(step->params, step->start, grad, n, &step->step);
        u->update.step.scale = norm > step->clip_norm ? (float)(step->clip_norm / norm) : 1.0F;
    }
}

void fedtrain_update_apply(const fedtrain_updater *u, size_t offset, const float *grad, size_t n) {
    const fedtrain_update *step = &u->update;
    float *w = step->params + offset;
    const float *w0 = step->start != NULL ? step->start + offset : NULL;
    switch (step->rule) {
    case FED_SGD:
        u->kernels->sgd(w, w0, grad, n, &step->step);
        break;
    case FED_MOMENTUM:
        u->kernels->momentum(w, step->first + offset, w0, grad, n, &step->step);
        break;
    case FED_ADAM:
    case FED_ADAMW:
        u->kernels->adam(w, step->first + offset, step->second + offset, w0, grad, n, &step->step);
        break;
    }
    if (!FED_SMALL && step->own != NULL) {
        const float *control = step->params + step->control + offset, *own = step->own + offset;
        for (size_t i = 0; i < n; i++) {
            w[i] -= step->step.rate * (control[i] - own[i]);
        }
    }
}

static void take(void *user, size_t offset, const float *grad, size_t n) {
    fedtrain_update_apply(user, offset, grad, n);
}

fedtrain_sink fedtrain_update_sink(fedtrain_updater *u) {
    return (fedtrain_sink){.done = take, .user = u};
}
