/* Optimizers: what they remember, schedules, and one step. */
#include "fedtrain/optimizer.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "fed/small.h"
#include "fedclient/train/denormal.h"
#include "fedclient/train/update.h"

static const double PI = 3.14159265358979323846;

/* The state's parts, one behind the other: where each begins. */
typedef struct plan {
    size_t steps, stall, start, own, rates, size;
} plan;

/* What "stall" remembers. */
enum { SUM, COUNT, BEST, WAITED, CUTS, STALL_FLOATS };

static bool is_adam(const fed_optimizer *o) {
    return !FED_SMALL && (o->rule == FED_ADAM || o->rule == FED_ADAMW);
}

static bool is_scaffold(const fed_optimizer *o) {
    return !FED_SMALL && o->scaffold_share > 0;
}

static bool counts_steps(const fed_optimizer *o) {
    return is_adam(o) || o->warmup_steps > 0 || o->step_every > 0 || o->cosine_steps > 0;
}

static plan plan_of(const fed_optimizer *o, size_t n) {
    plan p;
    p.steps = is_adam(o) ? 2 * n : o->rule == FED_MOMENTUM ? n : 0;
    p.stall = p.steps + (counts_steps(o) ? 1 : 0);
    p.start = p.stall + (o->stall_window > 0 ? STALL_FLOATS : 0);
    p.own = p.start + (o->prox_mu > 0 || is_scaffold(o) ? n : 0);
    p.rates = p.own + (is_scaffold(o) ? n : 0);
    p.size = p.rates + (is_scaffold(o) ? 1 : 0);
    return p;
}

size_t fedtrain_optimizer_state_size(const fed_optimizer *optimizer, size_t n) {
    return plan_of(optimizer, n).size;
}

void fedtrain_optimizer_begin_round(const fed_optimizer *optimizer, float *state,
                                    const float *params, size_t n) {
    const plan p = plan_of(optimizer, n);
    if (!FED_SMALL && optimizer->stateless) {
        memset(state, 0, p.size * sizeof *state);
    }
    if (p.own > p.start) {
        memcpy(state + p.start, params, n * sizeof *params);
    }
    if (is_scaffold(optimizer)) {
        state[p.rates] = 0;
    }
}

void fedtrain_optimizer_end_round(const fed_optimizer *optimizer, float *state, float *params,
                                  size_t n) {
    const plan p = plan_of(optimizer, n);
    if (!is_scaffold(optimizer) || state[p.rates] <= 0) { /* a schedule may be at 0 */
        return;
    }
    float *own = state + p.own, *control = params + n;
    for (size_t i = 0; i < n; i++) {
        float change = (state[p.start + i] - params[i]) / state[p.rates] - control[i];
        own[i] += change;
        control[i] += (float)optimizer->scaffold_share * change;
    }
}

/* A window is over. WAITED is 0 before the first one, then 1 and the windows without a gain. */
static void stall_judge(const fed_optimizer *o, float *stall, float mean) {
    if (stall[WAITED] <= 0 || (double)mean < (double)stall[BEST] * (1 - o->stall_gain)) {
        stall[BEST] = mean;
        stall[WAITED] = 1;
        return;
    }
    stall[WAITED] += 1;
    if (stall[WAITED] > (float)o->stall_patience) {
        stall[CUTS] += 1;
        stall[WAITED] = 1;
    }
}

void fedtrain_optimizer_see_loss(const fed_optimizer *optimizer, float *state, size_t n,
                                 float loss) {
    if (optimizer->stall_window <= 0) {
        return;
    }
    float *stall = state + plan_of(optimizer, n).stall;
    stall[SUM] += loss;
    stall[COUNT] += 1;
    if (stall[COUNT] >= (float)optimizer->stall_window) {
        stall_judge(optimizer, stall, stall[SUM] / stall[COUNT]);
        stall[SUM] = stall[COUNT] = 0;
    }
}

static double scheduled_rate(const fed_optimizer *o, const float *state, size_t n) {
    const plan p = plan_of(o, n);
    double taken = counts_steps(o) ? (double)state[p.steps] : 0, rate = o->learning_rate;
    if (taken + 1 < o->warmup_steps) {
        rate *= (taken + 1) / o->warmup_steps;
    }
    double t = fmax(0, taken - o->warmup_steps);
    if (o->step_every > 0) {
        rate *= pow(o->step_factor, floor(t / o->step_every));
    }
    if (o->cosine_steps > 0) {
        double way = fmin(1, t / o->cosine_steps);
        rate *= o->cosine_low + (1 - o->cosine_low) * 0.5 * (1 + cos(PI * way));
    }
    if (o->stall_window > 0) {
        rate *= pow(o->stall_factor, (double)state[p.stall + CUTS]);
    }
    return rate;
}

double fedtrain_optimizer_rate(const fed_optimizer *optimizer, const float *state, size_t n) {
    return FED_SMALL ? optimizer->learning_rate : scheduled_rate(optimizer, state, n);
}

/* 1 - beta^t without the cancellation that a float power would suffer. */
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

fedtrain_update fedtrain_update_begin(const fed_optimizer *optimizer, float *state, size_t n) {
    const fed_optimizer *o = optimizer;
    const plan p = plan_of(o, n);
    double rate = fedtrain_optimizer_rate(o, state, n);
    if (counts_steps(o)) {
        state[p.steps] += 1.0F; /* sticks at 2^24 */
    }
    fedtrain_update u = {.rule = o->rule, .kernels = fedtrain_kernels_best(), .first = state};
    u.second = is_adam(o) ? state + n : NULL;
    u.start = p.own > p.start ? state + p.start : NULL;
    if (is_scaffold(o)) {
        u.own = state + p.own;
        u.control = n;
        state[p.rates] += (float)rate;
    }
    u.step = (fedtrain_step){.mu = (float)o->prox_mu,
                             .limit = o->clip_value > 0 ? (float)o->clip_value : INFINITY,
                             .scale = 1.0F,
                             .decay = o->rule == FED_ADAMW ? 0.0F : (float)o->decay,
                             .nesterov = o->nesterov > 0,
                             .rate = (float)rate,
                             .beta1 = (float)o->momentum};
    u.step.shaped = o->clip_value > 0 || o->clip_norm > 0 || u.step.decay > 0;
    if (is_adam(o)) {
        begin_adam(o, rate, (double)state[p.steps], &u.step);
    }
    return u;
}

void fedtrain_update_clip(fedtrain_update *u, const fed_optimizer *optimizer, const float *params,
                          const float *grad, size_t n) {
    if (optimizer->clip_norm > 0) {
        double norm = u->kernels->norm(params, u->start, grad, n, &u->step);
        u->step.scale = norm > optimizer->clip_norm ? (float)(optimizer->clip_norm / norm) : 1.0F;
    }
}

void fedtrain_update_apply(const fedtrain_update *u, float *params, size_t offset,
                           const float *grad, size_t n) {
    float *w = params + offset;
    const float *w0 = u->start != NULL ? u->start + offset : NULL;
    switch (u->rule) {
    case FED_SGD:
        u->kernels->sgd(w, w0, grad, n, &u->step);
        break;
    case FED_MOMENTUM:
        u->kernels->momentum(w, u->first + offset, w0, grad, n, &u->step);
        break;
    case FED_ADAM:
    case FED_ADAMW:
        u->kernels->adam(w, u->first + offset, u->second + offset, w0, grad, n, &u->step);
        break;
    }
    if (!FED_SMALL && u->own != NULL) {
        const float *control = params + u->control + offset, *own = u->own + offset;
        for (size_t i = 0; i < n; i++) {
            w[i] -= u->step.rate * (control[i] - own[i]);
        }
    }
}

void fedtrain_optimizer_step(const fed_optimizer *optimizer, float *state, float *params,
                             const float *grad, size_t n) {
    uint64_t saved = fedtrain_denormal_flush();
    fedtrain_update u = fedtrain_update_begin(optimizer, state, n);
    fedtrain_update_clip(&u, optimizer, params, grad, n);
    fedtrain_update_apply(&u, params, 0, grad, n);
    fedtrain_denormal_restore(saved);
}

void fedtrain_optimizer_mask(const fed_optimizer *optimizer, float *state, const float *sent,
                             size_t n) {
    if (optimizer->rule == FED_SGD) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        state[i] = sent[i] != 0 ? 0 : state[i];
    }
}
