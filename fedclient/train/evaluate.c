/* Measure how good a model is: its loss and accuracy over a data set, or over a text. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedtrain/evaluate.h"

#include <math.h>

#include "fed/small.h"
#include "fedclient/train/gather.h"
#include "fedclient/train/text_walk.h"
#include "fedtrain/fits.h"

typedef struct tally {
    size_t samples, correct;
    double loss;
} tally;

static size_t largest(const float *score, size_t classes) {
    size_t top = 0;
    for (size_t j = 1; j < classes; j++) {
        if (score[j] > score[top]) {
            top = j;
        }
    }
    return top;
}

static fed_status tally_add(tally *t, const fedtrain_net *net, const float *score,
                            const uint32_t *label, size_t n, fed_error *err) {
    const size_t classes = net->arch->classes;
    const fedtrain_labels labels = {.label = label};
    t->samples += n;
    for (size_t i = 0; i < n; i++) {
        t->correct += largest(score + i * classes, classes) == label[i];
    }
    fed_status status = net->backend->loss(net->work, score, &labels, n, NULL, &t->loss);
    return fedtrain_net_explain(net, status, "computing the loss", err);
}

static fed_status tally_batch(tally *t, const fedtrain_net *net, size_t n, fed_error *err) {
    if (FED_SMALL || net->arch->loss != FED_LOSS_SQUARED) {
        return tally_add(t, net, net->score, net->label, n, err);
    }
    t->samples += n;
    for (size_t b = 0; b < n; b++) {
        const double miss = (double)net->score[b] - (double)net->target[b];
        t->loss += miss * miss;
    }
    return FED_OK;
}

static fed_status tally_score(const tally *t, fedtrain_score *score, fed_error *err) {
    float loss = (float)(t->loss / (double)t->samples);
    if (!isfinite(loss)) {
        return fed_fail(err, FED_ENONFINITE,
                        "the model's loss is not a finite number: its training diverged, so train "
                        "anew with a lower learning rate");
    }
    *score = (fedtrain_score){.samples = t->samples, .correct = t->correct, .loss = loss};
    return FED_OK;
}

/* End what fedtrain_net_begin began; returns the first failure's status. */
static fed_status end_net(fedtrain_net *net, fed_status status, fed_error *err) {
    fed_status ended = fedtrain_net_end(net, NULL, NULL, status == FED_OK ? err : NULL);
    return status == FED_OK ? ended : status;
}

/* `shard` NULL: the whole set, in its order. */
static fed_status evaluate_batch(fedtrain_net *net, const fedtrain_dataset *set,
                                 const fedtrain_shard *shard, size_t first, size_t n,
                                 const float *params, tally *t, fed_error *err) {
    for (size_t b = 0; b < n; b++) {
        net->index[b] = shard != NULL ? shard->index[first + b] : (uint32_t)(first + b);
    }
    fedtrain_gather(net, set, n);
    fedtrain_batch samples = {.size = n, .x = net->x};
    FED_TRY(fedtrain_net_forward(net, params, &samples, net->score, err));
    return tally_batch(t, net, n, err);
}

static fed_status evaluate(fedtrain_net *net, size_t batch, const fedtrain_dataset *set,
                           const fedtrain_shard *shard, const float *params, fedtrain_score *score,
                           fed_error *err) {
    const size_t count = shard != NULL ? shard->count : set->count;
    FED_TRY(fedtrain_check_batch(net, batch, err));
    FED_TRY(fedtrain_dataset_fits(set, net->arch, err));
    if (count == 0) {
        return fed_fail(err, FED_EINVAL, "the data set has no samples to evaluate on");
    }
    tally t = {0};
    FED_TRY(fedtrain_net_begin(net, params, NULL, 0, err));
    fed_status status = FED_OK;
    for (size_t first = 0; status == FED_OK && first < count; first += batch) {
        size_t n = count - first < batch ? count - first : batch;
        status = evaluate_batch(net, set, shard, first, n, params, &t, err);
    }
    FED_TRY(end_net(net, status, err));
    return tally_score(&t, score, err);
}

fed_status fedtrain_evaluate(fedtrain_net *net, size_t batch, const fedtrain_dataset *set,
                             const float *params, fedtrain_score *score, fed_error *err) {
    return evaluate(net, batch, set, NULL, params, score, err);
}

fed_status fedtrain_evaluate_shard(fedtrain_net *net, size_t batch, const fedtrain_dataset *set,
                                   const fedtrain_shard *shard, const float *params,
                                   fedtrain_score *score, fed_error *err) {
    return evaluate(net, batch, set, shard, params, score, err);
}

fed_status fedtrain_score_join(const fedtrain_score *part, size_t count, fedtrain_score *whole,
                               fed_error *err) {
    tally t = {0};
    for (size_t k = 0; k < count; k++) {
        t.samples += part[k].samples;
        t.correct += part[k].correct;
        t.loss += (double)part[k].loss * (double)part[k].samples;
    }
    return tally_score(&t, whole, err);
}

/* A text cut into streams, so that each word to predict counts once. Streams have equal lengths,
 * except that the last ones may be shorter. */
typedef struct cut {
    const uint32_t *token;
    size_t targets, length, window;
} cut;

/* Return the place of stream b after `at` tokens, and set *count to how many tokens are left in
 * it, at most a window. */
static size_t cut_at(const cut *c, size_t b, size_t at, size_t *count) {
    size_t end = (b + 1) * c->length < c->targets ? (b + 1) * c->length : c->targets;
    size_t first = b * c->length + at < end ? b * c->length + at : end;
    *count = end - first < c->window ? end - first : c->window;
    return first;
}

static fed_status evaluate_windows(fedtrain_net *net, const cut *c, size_t batch, size_t at,
                                   const float *params, tally *t, fed_error *err) {
    size_t count;
    for (size_t b = 0; b < batch; b++) {
        size_t first = cut_at(c, b, at, &count);
        fedtrain_text_copy_window(net, c->token + first, count, b);
    }
    fedtrain_batch samples = {.size = batch, .x = net->x};
    FED_TRY(fedtrain_net_forward(net, params, &samples, net->score, err));
    for (size_t b = 0; b < batch; b++) {
        const size_t i = b * c->window;
        cut_at(c, b, at, &count);
        FED_TRY(tally_add(t, net, net->score + i * net->arch->classes, net->label + i, count, err));
    }
    return FED_OK;
}

fed_status fedtrain_evaluate_text(fedtrain_net *net, size_t batch, const uint32_t *token,
                                  size_t count, const float *params, fedtrain_score *score,
                                  fed_error *err) {
    FED_TRY(fedtrain_check_batch(net, batch, err));
    FED_TRY(fedtrain_text_check_arch(net->arch, err));
    if (count < 2) {
        return fed_fail(err, FED_EINVAL,
                        "a text of %zu tokens can't be evaluated: it needs at least 2", count);
    }
    FED_TRY(fedtrain_text_check_tokens(net->arch, token, count, err));
    cut c = {.token = token, .targets = count - 1, .window = net->arch->positions};
    c.length = (c.targets + batch - 1) / batch;
    tally t = {0};
    FED_TRY(fedtrain_net_begin(net, params, NULL, 0, err));
    fedtrain_net_forget(net);
    fed_status status = FED_OK;
    for (size_t at = 0; status == FED_OK && at < c.length; at += c.window) {
        status = evaluate_windows(net, &c, batch, at, params, &t, err);
    }
    FED_TRY(end_net(net, status, err));
    return tally_score(&t, score, err);
}
