/* Local training: a walk through the client's samples, one optimizer step a batch; and evaluation.
 */
#include "fedtrain/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fed/rng.h"
#include "fed/small.h"
#include "fedclient/train/net_impl.h"
#include "fedclient/train/text_walk.h"

/* Keep the order of samples, and how they are varied, apart from other uses of the task's seed,
 * such as the first weights. */
static const uint64_t ORDER_SEED = 0x6f72646572;       /* "order" */
static const uint64_t AUGMENT_SEED = 0x6175676d656e74; /* "augment" */

/* Where a client is in its endless walk: pass after pass through the shard, each shuffled anew. */
typedef struct walk {
    const fedtrain_job *job;
    uint32_t *order; /* uint32[shard count]: the shard's samples as this pass visits them; NULL: the
                        job is a text, which has a walk of its own */
    uint64_t pass;
    size_t at; /* in the pass */
} walk;

static void walk_shuffle(walk *w) {
    const fedtrain_shard *shard = w->job->shard;
    for (size_t i = 0; i < shard->count; i++) {
        w->order[i] = shard->index[i];
    }
    fed_rng rng;
    fed_rng_init(&rng, w->job->seed ^ ORDER_SEED, w->job->client, (uint32_t)w->pass);
    fed_rng_shuffle(&rng, w->order, shard->count);
}

/* Every round takes steps * batch samples, so the round's number says where it starts. */
static fed_status walk_start(walk *w, fed_error *err) {
    const fedtrain_job *job = w->job;
    uint64_t position = ((uint64_t)job->round * job->steps + job->done) * job->batch;
    w->order = malloc(job->shard->count * sizeof *w->order);
    if (w->order == NULL) {
        return fed_fail(err, FED_ENOMEM, "no memory to shuffle %zu samples", job->shard->count);
    }
    w->pass = position / job->shard->count;
    w->at = (size_t)(position % job->shard->count);
    walk_shuffle(w);
    return FED_OK;
}

static void walk_next(walk *w, uint32_t *index, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (w->at == w->job->shard->count) {
            w->pass++;
            w->at = 0;
            walk_shuffle(w);
        }
        index[i] = w->order[w->at++];
    }
}

static bool is_flat(fed_shape shape) {
    return shape.h == 1 && shape.w == 1;
}

/* A model that takes a vector takes pictures of as many values too. */
static bool shapes_fit(fed_shape sample, fed_shape input) {
    bool same = sample.c == input.c && sample.h == input.h && sample.w == input.w;
    return same || ((is_flat(sample) || is_flat(input)) &&
                    fedtrain_shape_size(sample) == fedtrain_shape_size(input));
}

/* A small build has no tables, which alone have targets. */
static bool has_targets(const fedtrain_dataset *set) {
    return !FED_SMALL && set->target != NULL;
}

/* Classes go with the cross-entropy, targets with the squared error. */
static fed_status check_loss(const fedtrain_dataset *set, const fed_arch *arch, fed_error *err) {
    const bool targets = has_targets(set), squared = arch->loss == FED_LOSS_SQUARED;
    if (targets && !squared) {
        return fed_fail(err, FED_EINVAL,
                        "the data has numbers to predict, the model tells classes apart: end it "
                        "with \"dense 1 | mse\"");
    }
    if (squared && !targets) {
        return fed_fail(err, FED_EINVAL,
                        "the data has classes, the model predicts numbers (mse): open a table as "
                        "csv:target=COLUMN");
    }
    if (targets && arch->classes != 1) {
        return fed_fail(err, FED_EINVAL,
                        "the data has one number to predict for each sample, the model gives "
                        "%" PRIu32 ": end it with \"dense 1 | mse\"",
                        arch->classes);
    }
    return FED_OK;
}

fed_status fedtrain_dataset_fits(const fedtrain_dataset *set, const fed_arch *arch,
                                 fed_error *err) {
    if (arch->words > 0 || arch->positions > 1) {
        return fed_fail(err, FED_EINVAL,
                        "a data set has values, and a class or a number for each sample, but the "
                        "model takes or gives something else");
    }
    FED_TRY(check_loss(set, arch, err));
    if (!shapes_fit(set->shape, arch->input)) {
        return fed_fail(err, FED_EINVAL,
                        "samples are %zu values (%" PRIu32 "x%" PRIu32 "x%" PRIu32
                        "), the model takes %zu (%" PRIu32 "x%" PRIu32 "x%" PRIu32 ")",
                        fedtrain_shape_size(set->shape), set->shape.c, set->shape.h, set->shape.w,
                        fedtrain_shape_size(arch->input), arch->input.c, arch->input.h,
                        arch->input.w);
    }
    if (set->classes > arch->classes) {
        return fed_fail(err, FED_EINVAL,
                        "the data has labels up to %" PRIu32 ", the model knows %" PRIu32
                        " classes, 0 to %" PRIu32,
                        set->classes - 1, arch->classes, arch->classes - 1);
    }
    return FED_OK;
}

static fed_status check_set(const fedtrain_net *net, size_t batch, const fedtrain_dataset *set,
                            fed_error *err) {
    if (batch == 0 || batch > net->max_batch) {
        return fed_fail(err, FED_EINVAL, "a batch of %zu: this net was made for 1 to %zu", batch,
                        net->max_batch);
    }
    return fedtrain_dataset_fits(set, net->arch, err);
}

static bool is_augmented(const fedtrain_job *job) {
    return !FED_SMALL && (job->augment.padding > 0 || job->augment.flip);
}

static fed_status check_samples(const fedtrain_job *job, fed_error *err) {
    FED_TRY(check_set(job->net, job->batch, job->set, err));
    if (job->shard->count == 0) {
        return fed_fail(err, FED_EINVAL, "client %" PRIu32 " holds no samples", job->client);
    }
    if (is_augmented(job) && job->set->is_float) {
        return fed_fail(err, FED_EINVAL, "a table's rows can't be cropped or flipped as pictures");
    }
    if (job->augment.padding >= job->set->shape.h || job->augment.padding >= job->set->shape.w) {
        return fed_fail(err, FED_EINVAL,
                        "padding of %" PRIu32 " pixels: it must be less than the pictures' sides",
                        job->augment.padding);
    }
    return FED_OK;
}

static bool is_text(const fedtrain_job *job) {
    return !FED_SMALL && job->token != NULL;
}

/* What a small build leaves out, beside layers. */
static fed_status check_build(const fedtrain_job *job, fed_error *err) {
    const fed_optimizer *o = &job->optimizer;
    bool varied = job->augment.padding > 0 || job->augment.flip;
    bool scheduled =
        o->warmup_steps > 0 || o->step_every > 0 || o->cosine_steps > 0 || o->stall_window > 0;
    bool shaped = o->clip_value > 0 || o->clip_norm > 0 || o->prox_mu > 0 || o->scaffold_share > 0;
    if (FED_SMALL && (o->rule != FED_SGD || scheduled || shaped || varied || job->token != NULL)) {
        return fed_fail(err, FED_EINVAL,
                        "this program was built small (see fed/small.h): it trains on samples as "
                        "they are, with sgd at one rate");
    }
    return FED_OK;
}

static fed_status check_job(const fedtrain_job *job, fed_error *err) {
    FED_TRY(check_build(job, err));
    if (job->steps <= job->done) {
        return fed_fail(err, FED_EINVAL, "no local steps: 1 at least");
    }
    if (!FED_SMALL && job->optimizer.scaffold_share > 0 && !job->net->arch->scaffold) {
        return fed_fail(err, FED_EINVAL,
                        "an optimizer with +scaffold needs a model with \"| scaffold\" at its end, "
                        "not \"%s\"",
                        job->net->arch->text);
    }
    return is_text(job) ? fedtrain_text_check(job, err) : check_samples(job, err);
}

/* The samples of net->index[n], as they are. */
static void gather(const fedtrain_dataset *set, fedtrain_net *net, size_t n) {
    fedtrain_dataset_gather(set, net->index, n, net->x, net->label);
    if (has_targets(set)) {
        fedtrain_dataset_gather_targets(set, net->index, n, net->target);
    }
}

/* Every step has a stream of its own, so that rounds need not remember where they ended. */
static void gather_batch(const fedtrain_job *job, size_t step) {
    fedtrain_net *net = job->net;
    if (!is_augmented(job)) {
        gather(job->set, net, job->batch);
        return;
    }
    fed_rng rng;
    uint32_t stream = (uint32_t)(job->round * job->steps + step);
    fed_rng_init(&rng, job->seed ^ AUGMENT_SEED, job->client, stream);
    fedtrain_dataset_gather_augmented(job->set, &job->augment, &rng, net->index, job->batch, net->x,
                                      net->label);
}

static fed_status train_step(const fedtrain_job *job, walk *w, size_t step, float *params,
                             float *state, float *loss, fed_error *err) {
    fedtrain_net *net = job->net;
    if (w->order != NULL) {
        walk_next(w, net->index, job->batch);
        gather_batch(job, step);
    } else {
        fedtrain_text_gather(job, step);
    }
    fedtrain_batch batch = {.size = job->batch,
                            .x = net->x,
                            .label = net->label,
                            .target = net->target,
                            .seed = job->seed ^ ((uint64_t)job->client << 32) ^
                                    ((uint64_t)job->round * job->steps + step)};
    return fedtrain_net_step(net, &job->optimizer, params, state, &batch, loss, err);
}

fed_status fedtrain_run(const fedtrain_job *job, float *params, float *state, float *loss,
                        fed_error *err) {
    FED_TRY(check_job(job, err));
    walk w = {.job = job};
    FED_TRY(is_text(job) ? fedtrain_text_start(job, params, err) : walk_start(&w, err));
    if (job->done == 0) {
        fedtrain_optimizer_begin_round(&job->optimizer, state, params, job->net->arch->trained);
    }
    fed_status status = FED_OK;
    double sum = 0;
    size_t step = job->done;
    for (bool more = true; more && step < job->steps && status == FED_OK; step++) {
        float step_loss = 0;
        fed_error why = {0};
        status = train_step(job, &w, step, params, state, &step_loss, &why);
        sum += step_loss;
        if (status != FED_OK) {
            fed_fail(err, status,
                     "client %" PRIu32 ", round %" PRIu32 ", step %zu of %zu: %s; with learning "
                     "rate %g training may diverge: lower it",
                     job->client, job->round, step + 1, job->steps, why.text,
                     job->optimizer.learning_rate);
        } else if (job->after_step != NULL) {
            more = job->after_step(job->user, step, step_loss);
        }
    }
    free(w.order);
    FED_TRY(status);
    if (step == job->steps) {
        fedtrain_optimizer_end_round(&job->optimizer, state, params, job->net->arch->trained);
    }
    *loss = (float)(sum / (double)(step - job->done));
    return FED_OK;
}

/* ---- Evaluation ---- */

static size_t largest(const float *score, size_t classes) {
    size_t top = 0;
    for (size_t j = 1; j < classes; j++) {
        if (score[j] > score[top]) {
            top = j;
        }
    }
    return top;
}

void fedtrain_tally_add(fedtrain_tally *tally, const fedtrain_net *net, const float *score,
                        uint32_t label) {
    tally->samples++;
    tally->correct += largest(score, net->arch->classes) == label;
    tally->loss += fedtrain_net_cross_entropy(net, score, label, 1, NULL);
}

/* Of net->score and what was gathered, n samples. */
static void tally_batch(fedtrain_tally *tally, const fedtrain_net *net, size_t n) {
    if (FED_SMALL || net->arch->loss != FED_LOSS_SQUARED) {
        for (size_t b = 0; b < n; b++) {
            fedtrain_tally_add(tally, net, net->score + b * net->arch->classes, net->label[b]);
        }
        return;
    }
    tally->samples += n;
    for (size_t b = 0; b < n; b++) {
        const double miss = (double)net->score[b] - (double)net->target[b];
        tally->loss += miss * miss;
    }
}

fed_status fedtrain_tally_score(const fedtrain_tally *tally, fedtrain_score *score,
                                fed_error *err) {
    float loss = (float)(tally->loss / (double)tally->samples);
    if (!isfinite(loss)) {
        return fed_fail(err, FED_ENONFINITE,
                        "the model's loss is not a finite number: its training diverged");
    }
    *score = (fedtrain_score){.samples = tally->samples, .correct = tally->correct, .loss = loss};
    return FED_OK;
}

fed_status fedtrain_evaluate(fedtrain_net *net, size_t batch, const fedtrain_dataset *set,
                             const float *params, fedtrain_score *score, fed_error *err) {
    FED_TRY(check_set(net, batch, set, err));
    if (set->count == 0) {
        return fed_fail(err, FED_EINVAL, "no samples to evaluate on");
    }
    fedtrain_tally tally = {0};
    for (size_t start = 0; start < set->count; start += batch) {
        size_t n = set->count - start < batch ? set->count - start : batch;
        for (size_t b = 0; b < n; b++) {
            net->index[b] = (uint32_t)(start + b);
        }
        gather(set, net, n);
        fedtrain_batch samples = {.size = n, .x = net->x};
        FED_TRY(fedtrain_net_forward(net, params, &samples, net->score, err));
        tally_batch(&tally, net, n);
    }
    return fedtrain_tally_score(&tally, score, err);
}
