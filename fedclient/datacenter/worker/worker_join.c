/* Make a worker, join a worker group, and leave it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fed/hash.h"
#include "fedclient/datacenter/worker/worker_impl.h"

/* An owner steps its weights once a coded exchange, in their order. */
static fed_status check_rule(const feddc_worker_options *o, fed_error *err) {
    const feddc_act first = feddc_sync_act(&o->sync, 0),
                    late = feddc_sync_act(&o->sync, UINT32_MAX);
    if (o->at_owners && (first.plain || late.plain || late.local || late.behind > 0)) {
        return fed_fail(err, FED_EINVAL,
                        "an optimizer at the owners goes with the rules bitsgd and local only: the "
                        "others send float32 sums, or compute with local weights");
    }
    return FED_OK;
}

static fed_status check_options(const feddc_worker_options *o, fed_error *err) {
    const fed_optimizer *optimizer = &o->job.optimizer;
    FED_TRY(feddc_sync_takes(&o->sync, o->exchange.codec, err));
    FED_TRY(feddc_sync_takes(&o->sync, o->exchange.pull, err));
    FED_TRY(feddc_sync_takes(&o->sync, o->exchange.nic, err));
    FED_TRY(check_rule(o, err));
    if (optimizer->clip_norm > 0) {
        return fed_fail(err, FED_EINVAL,
                        "clipping by norm needs the whole gradient, and a worker takes its steps "
                        "layer by layer: leave norm= out of the optimizer's \"clip\"");
    }
    if (optimizer->stall_window > 0) {
        return fed_fail(err, FED_EINVAL,
                        "the optimizer's \"stall\" follows the loss, and workers have different "
                        "losses: take \"step\" or \"cosine\"");
    }
    if (optimizer->scaffold_share > 0 || optimizer->mask) {
        return fed_fail(err, FED_EINVAL,
                        "the optimizer's \"scaffold\" and \"mask\" need the rounds of a "
                        "federation, which a worker group does not have: leave them out");
    }
    return FED_OK;
}

/* Round up, so that each part begins at an alignment that GPU codecs need. */
static size_t padded(size_t n) {
    return (n + 31) / 32 * 32;
}

static float *cut(float **at, bool wanted, size_t n) {
    float *part = wanted ? *at : NULL;
    *at += wanted ? padded(n) : 0;
    return part;
}

static fed_status make_values(feddc_worker *w, fed_error *err) {
    const size_t size = w->o.arch->layout.size, n = w->n;
    const feddc_act late = feddc_sync_act(&w->o.sync, UINT32_MAX);
    const bool skips = !feddc_sync_act(&w->o.sync, 0).exchange;
    const size_t vectors = 1U + (late.behind > 0) + skips;
    const bool local = late.local || w->o.at_owners;
    const size_t floats = vectors * padded(n) + (local ? padded(size) : 0);
    FED_TRY(
        feddc_values_explain(&w->values, feddc_values_new(&w->values, floats, &w->memory), err));
    float *at = w->memory;
    w->grad[0] = cut(&at, true, n);
    w->grad[1] = late.behind > 0 ? cut(&at, true, n) : w->grad[0];
    w->left = cut(&at, skips, n);
    w->left_empty = true;
    w->local = cut(&at, local, size);
    return FED_OK;
}

static fed_status make_memory(feddc_worker *w, fed_error *err) {
    const size_t replica = w->o.at_owners ? w->n : 0;
    const size_t spare = w->o.elastic ? w->o.arch->layout.size + w->states + replica : 0;
    const bool gpu = feddc_worker_on_gpu(w);
    FED_TRY(make_values(w, err));
    w->host = calloc(padded(spare) + (gpu ? padded(w->n) : 0) + 1, sizeof *w->host);
    if (w->host == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a worker of %zu parameters", w->n);
    }
    float *at = w->host;
    w->spare = cut(&at, w->o.elastic, spare);
    w->words = gpu ? at : w->grad[0];
    return FED_OK;
}

fed_status feddc_worker_new(const feddc_worker_options *options, float *params, float *state,
                            feddc_worker **worker, fed_error *err) {
    FED_TRY(check_options(options, err));
    feddc_worker *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a worker");
    }
    w->o = *options;
    w->n = options->arch->trained;
    w->states = fedtrain_optimizer_state_size(&options->job.optimizer, w->n);
    w->params = params;
    w->state = state;
    w->since = feddc_worker_now();
    fed_status status = feddc_worker_find_device(w, err);
    if (status == FED_OK) {
        status = make_memory(w, err);
    }
    if (status != FED_OK) {
        feddc_worker_free(w, false);
        return status;
    }
    *worker = w;
    return FED_OK;
}

static void leave(feddc_worker *w, bool orderly) {
    feddc_worker_count_in(w, 1);
    if (w->o.watch != NULL) {
        feddc_watch_exchange(w->o.watch, NULL);
    }
    feddc_exchange_close(w->x, orderly);
    w->x = NULL;
    fedtrain_batches_close(w->batches);
    w->batches = NULL;
}

static fed_status open_exchange(feddc_worker *w, const feddc_place *place, fed_error *err) {
    const fed_layout *layout = &w->o.arch->layout;
    size_t *tensor = malloc((layout->count + 1) * sizeof *tensor);
    if (tensor == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a worker");
    }
    feddc_exchange_options o = w->o.exchange;
    o.place = *place;
    o.tensor = tensor;
    o.owner = NULL;
    if (w->o.at_owners) {
        feddc_worker_owner_open(w);
        o.owner = &w->owner;
    }
    o.device = w->values.gpu;
    o.stream = w->values.stream;
    for (size_t i = 0; i < layout->count && layout->tensors[i].offset < w->n; i++) {
        tensor[o.tensors++] = layout->tensors[i].size;
    }
    fed_status status = feddc_exchange_open(&o, &w->x, err);
    free(tensor);
    FED_TRY(status);
    w->rank = place->rank;
    w->workers = feddc_exchange_workers(w->x);
    if (w->o.watch != NULL) {
        feddc_watch_exchange(w->o.watch, w->x);
    }
    return FED_OK;
}

/* What all ranks must have in common. */
enum { MODEL, RULE, LOCAL_RATE, OPTIMIZER, BATCH, SEED, AUGMENT, EXCHANGE, TRACE, GPU, WORDS };

static const char *const words[WORDS] = {[MODEL] = "model",
                                         [RULE] = "rule",
                                         [LOCAL_RATE] = "local learning rate",
                                         [OPTIMIZER] = "optimizer",
                                         [BATCH] = "batch",
                                         [SEED] = "seed",
                                         [AUGMENT] = "augmentation",
                                         [EXCHANGE] =
                                             "collective, codec or other word of the exchange",
                                         [TRACE] = "trace",
                                         [GPU] = "GPU"};

/* The values that ranks tell each other when they join. */
typedef struct hello {
    uint64_t completed, walked, weights;
    uint64_t word[WORDS]; /* a value, or a digest of it */
} hello;

static uint64_t digest_text(const char *text) {
    return text != NULL ? fed_digest_bytes(text, strlen(text)) : 0;
}

static uint64_t digest_optimizer(const fed_optimizer *o) {
    const double value[] = {o->rule,         o->learning_rate, o->momentum,    o->nesterov,
                            o->beta1,        o->beta2,         o->epsilon,     o->decay,
                            o->warmup_steps, o->step_every,    o->step_factor, o->cosine_steps,
                            o->cosine_low,   o->clip_value,    o->prox_mu};
    return fed_digest_bytes(value, sizeof value);
}

static void fill_words(const feddc_worker *w, uint64_t word[WORDS]) {
    const fedtrain_job *job = &w->o.job;
    const double rule[] = {w->o.sync.id, w->o.sync.param[0], w->o.sync.param[1]};
    char plan[800];
    feddc_worker_plan_text(w, plan, sizeof plan);
    word[MODEL] = digest_text(w->o.arch->text);
    word[RULE] = fed_digest_bytes(rule, sizeof rule);
    word[LOCAL_RATE] = fed_digest_bytes(&w->o.local_rate, sizeof w->o.local_rate);
    word[OPTIMIZER] = digest_optimizer(&job->optimizer);
    word[BATCH] = job->batch;
    word[SEED] = job->seed;
    word[AUGMENT] = 2 * (uint64_t)job->augment.padding + job->augment.flip;
    word[EXCHANGE] = digest_text(plan);
    word[TRACE] = w->o.exchange.trace != NULL;
    word[GPU] = feddc_worker_on_gpu(w);
}

static uint32_t ahead_of_all(const hello *all, uint32_t workers) {
    uint32_t best = 0;
    for (uint32_t r = 1; r < workers; r++) {
        best = all[r].completed > all[best].completed ? r : best;
    }
    return best;
}

static fed_status compare(const hello *all, uint32_t workers, uint32_t first, fed_error *err) {
    for (uint32_t r = 0; r < workers; r++) {
        for (int k = 0; k < WORDS; k++) {
            if (all[r].word[k] != all[first].word[k]) {
                return fed_fail(err, FED_ESTATE,
                                "rank %" PRIu32 " has another %s than rank %" PRIu32
                                ": give all ranks the same options, and all or none "
                                "a trace and a GPU",
                                r, words[k], first);
            }
        }
        if (all[r].completed == all[first].completed && all[r].weights != all[first].weights) {
            return fed_fail(err, FED_ESTATE,
                            "rank %" PRIu32 " and rank %" PRIu32
                            " have different weights after %" PRIu64
                            " steps: give all ranks the same model, seed and checkpoint",
                            r, first, all[first].completed);
        }
    }
    return FED_OK;
}

static fed_status catch_up(feddc_worker *w, const hello *all, fed_error *err) {
    const uint32_t first = ahead_of_all(all, w->workers);
    bool all_there = true;
    FED_TRY(compare(all, w->workers, first, err));
    for (uint32_t r = 0; r < w->workers; r++) {
        all_there = all_there && all[r].completed == all[first].completed;
    }
    if (!all_there) {
        FED_TRY(feddc_worker_share(w, first, w->params, w->o.arch->layout.size * sizeof *w->params,
                                   err));
        FED_TRY(feddc_worker_share(w, first, w->state, w->states * sizeof *w->state, err));
        w->local_ready = false; /* the replica begins with params */
    }
    w->step = w->completed = w->base_step = (uint32_t)all[first].completed;
    w->walked = all[first].walked;
    return FED_OK;
}

static fed_status meet(feddc_worker *w, fed_error *err) {
    hello own = {.completed = w->step,
                 .walked = w->walked,
                 .weights = fed_digest(w->params, w->o.arch->layout.size)};
    hello *all = calloc(w->workers, sizeof *all);
    if (all == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a worker");
    }
    fill_words(w, own.word);
    fed_status status = feddc_worker_gather(w, &own, sizeof own, all, err);
    if (status == FED_OK) {
        status = catch_up(w, all, err);
    }
    free(all);
    return status;
}

static fed_status open_batches(feddc_worker *w, fed_error *err) {
    fedtrain_job *job = &w->o.job;
    job->round = job->client = 0;
    job->steps = SIZE_MAX;
    job->done = 0;
    if (job->token != NULL) { /* a text: this worker reads only its part */
        const uint32_t *all = w->o.job.token;
        const size_t count = job->token_count, from = count * w->rank / w->workers;
        w->part = w->o.job;
        w->part.token = all + from;
        w->part.token_count = count * (w->rank + 1) / w->workers - from;
        w->part.done = w->step;
        job = &w->part;
    }
    return fedtrain_batches_open(job, w->params, &w->batches, err);
}

fed_status feddc_worker_join(feddc_worker *w, const feddc_place *place, fed_error *err) {
    leave(w, false);
    feddc_worker_fall_back(w);
    FED_TRY(open_exchange(w, place, err));
    if (feddc_worker_sums_only(w)) {
        return FED_OK;
    }
    feddc_worker_enter(w, FEDDC_SYNCING);
    fed_status status = meet(w, err);
    if (status == FED_OK) {
        status = feddc_worker_find_nics(w, err);
    }
    /* All ranks find this error. They exchange once more before they leave: the others would take a
     * rank that leaves first for dead. */
    if (status == FED_ESTATE) {
        fed_error ignored;
        (void)!feddc_worker_turn(w, true, w->words, w->n, &ignored);
    }
    FED_TRY(status);
    FED_TRY(feddc_worker_read_own(w, err));
    if (w->local != NULL && !w->local_ready) {
        FED_TRY(feddc_worker_up(w, w->local, w->params, w->n, err));
        w->local_ready = true;
    }
    FED_TRY(open_batches(w, err));
    feddc_worker_enter(w, FEDDC_STARTING);
    return FED_OK;
}

bool feddc_worker_sums_only(const feddc_worker *w) {
    return w->rank >= w->workers;
}

fed_status feddc_worker_serve(feddc_worker *w, fed_error *err) {
    return feddc_exchange_serve(w->x, err);
}

uint32_t feddc_worker_step(const feddc_worker *w) {
    return w->step;
}

uint32_t feddc_worker_completed(const feddc_worker *w) {
    return w->completed;
}

uint32_t feddc_worker_rank(const feddc_worker *w) {
    return w->rank;
}

uint32_t feddc_worker_count(const feddc_worker *w) {
    return w->workers;
}

uint64_t feddc_worker_walked(const feddc_worker *w) {
    return w->walked + (uint64_t)(w->step - w->base_step) * w->workers;
}

const char *feddc_worker_remark(const feddc_worker *w) {
    return w->remark;
}

void feddc_worker_free(feddc_worker *w, bool orderly) {
    if (w == NULL) {
        return;
    }
    leave(w, orderly);
    if (w->memory != NULL) {
        feddc_values_free(&w->values, w->memory);
    }
    feddc_values_close(&w->values);
    free(w->host);
    free(w->resume);
    free(w->counts);
    free(w);
}
