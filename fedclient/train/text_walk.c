/* Language models: choose the window of the text that each sample of a batch reads. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/text_walk.h"

#include <inttypes.h>
#include <string.h>

#include "fedclient/train/gather.h"

/* Each sample of a batch reads a stream of its own: `windows` windows of T tokens, one after the
 * other, the same in each pass. The streams' beginnings are evenly spread over the text. Streams
 * are as long as possible without overlap, but have at least one window; short texts' streams
 * overlap. */
typedef struct streams {
    const uint32_t *token;
    size_t window;  /* T, in tokens */
    size_t windows; /* number of windows in each stream */
    size_t spread;  /* where the last stream begins, in tokens */
    size_t last;
} streams;

static streams streams_of(const fedtrain_job *job) {
    size_t targets = job->token_count - 1, window = job->net->arch->positions;
    streams s = {.token = job->token, .window = window, .last = job->batch - 1};
    s.windows = targets / job->batch / window;
    s.windows = s.windows > 0 ? s.windows : 1;
    s.spread = targets - s.windows * window;
    return s;
}

void fedtrain_text_copy_window(const fedtrain_net *net, const uint32_t *token, size_t count,
                               size_t b) {
    size_t window = net->arch->positions;
    float *x = net->x + b * window;
    uint32_t *label = net->label + b * window;
    memset(x, 0, window * sizeof *x);
    memset(label, 0, window * sizeof *label);
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)token[i];
        label[i] = token[i + 1];
    }
}

static void gather(const fedtrain_job *job, const streams *s, size_t window) {
    for (size_t b = 0; b < job->batch; b++) {
        uint64_t begin = s->last > 0 ? (uint64_t)b * s->spread / s->last : 0;
        fedtrain_text_copy_window(job->net, s->token + begin + window * s->window, s->window, b);
    }
}

/* Every round takes the same number of windows, so a round's number gives its first window. */
static size_t window_at(const fedtrain_job *job, const streams *s, size_t step) {
    return (size_t)(((uint64_t)job->round * job->steps + step) % s->windows);
}

fed_status fedtrain_text_check_tokens(const fed_arch *arch, const uint32_t *token, size_t count,
                                      fed_error *err) {
    uint32_t knows = arch->words < arch->classes ? arch->words : arch->classes;
    for (size_t i = 0; i < count; i++) {
        if (token[i] >= knows) {
            return fed_fail(err, FED_ERANGE,
                            "token %zu of the text is word %" PRIu32 ", but the model knows 0 to "
                            "%" PRIu32 ": open the text with the model's own vocabulary",
                            i, token[i], knows - 1);
        }
    }
    return FED_OK;
}

fed_status fedtrain_text_check_arch(const fed_arch *arch, fed_error *err) {
    if (arch->words == 0) {
        return fed_fail(err, FED_EINVAL,
                        "a text needs a model of tokens (\"input tokens T of N\"): this one takes "
                        "%zu values",
                        fedtrain_shape_size(arch->input));
    }
    size_t window = fedtrain_shape_size(arch->input);
    if (arch->positions != window || arch->loss != FED_LOSS_CROSS_ENTROPY) {
        return fed_fail(err, FED_EINVAL,
                        "to learn from text, a model must give scores for the word after each of "
                        "its %zu tokens, as \"dense N each\" does: this one gives other scores",
                        window);
    }
    return FED_OK;
}

fed_status fedtrain_text_check(const fedtrain_job *job, fed_error *err) {
    const fed_arch *arch = job->net->arch;
    FED_TRY(fedtrain_check_batch(job->net, job->batch, err));
    FED_TRY(fedtrain_text_check_arch(arch, err));
    if (job->token_count <= arch->positions) {
        return fed_fail(err, FED_EINVAL,
                        "the text of client %" PRIu32 " has %zu tokens, but windows of %" PRIu32
                        " need %" PRIu32 " at least: give it more units, or the model fewer "
                        "positions",
                        job->client, job->token_count, arch->positions, arch->positions + 1);
    }
    return fedtrain_text_check_tokens(arch, job->token, job->token_count, err);
}

/* The net may hold LSTM states of another client or of an interrupted run. So the net forgets
 * them, and reads the window before the run's first one again: the same job gives the same bits. */
fed_status fedtrain_text_start(const fedtrain_job *job, const float *params, fed_error *err) {
    fedtrain_net *net = job->net;
    streams s = streams_of(job);
    size_t window = window_at(job, &s, job->done);
    fedtrain_net_forget(net);
    if (window == 0) {
        return FED_OK;
    }
    gather(job, &s, window - 1);
    fedtrain_batch batch = {.size = job->batch, .x = net->x};
    return fedtrain_net_forward(net, params, &batch, net->score, err);
}

void fedtrain_text_gather(const fedtrain_job *job, size_t step) {
    streams s = streams_of(job);
    size_t window = window_at(job, &s, step);
    if (window == 0) {
        fedtrain_net_forget(job->net);
    }
    gather(job, &s, window);
}
