/* fedworker's report: the table of the mean step, and the summary as JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fedclient/apps/fedworker.h"
#include "feddc/cost.h"

static feddc_times times_of(const feddc_worker_tally *t) {
    return (feddc_times){.steps = t->steps,
                         .step = t->step_s,
                         .compute = t->forward_s + t->backward_s + t->update_s,
                         .encode = t->encode_s,
                         .decode = t->decode_s,
                         .sum = t->sum_s,
                         .exchange = t->exchange_s,
                         .exposed = t->exposed_s,
                         .sent = t->sent_bytes,
                         .received = t->received_bytes};
}

static feddc_times sum_of(const feddc_times *ranks, uint32_t count) {
    feddc_times sum = {0};
    for (uint32_t r = 0; r < count; r++) {
        sum.steps += ranks[r].steps;
        sum.step += ranks[r].step;
        sum.compute += ranks[r].compute;
        sum.encode += ranks[r].encode;
        sum.decode += ranks[r].decode;
        sum.sum += ranks[r].sum;
        sum.exchange += ranks[r].exchange;
        sum.exposed += ranks[r].exposed;
        sum.sent += ranks[r].sent;
        sum.received += ranks[r].received;
    }
    return sum;
}

static feddc_cost_way way_of(const char *collective) {
    return strncmp(collective, "ring", 4) == 0          ? FEDDC_COST_RING
           : strcmp(collective, "nccl") == 0            ? FEDDC_COST_RING
           : strncmp(collective, "gather", 6) == 0      ? FEDDC_COST_GATHER
           : strstr(collective, "aggregators=") != NULL ? FEDDC_COST_CENTRAL
                                                        : FEDDC_COST_OWNERS;
}

/* The numbers of steps that exchanged gradients as float32 (plain), and by the codec (coded). */
typedef struct exchanges {
    double plain, coded;
} exchanges;

static exchanges exchanges_of(const fedworker_result *result) {
    exchanges e = {0};
    for (uint32_t t = 0; t < result->step; t++) {
        const feddc_act act = feddc_sync_act(&result->job->choice.sync, t);
        e.plain += act.exchange && act.plain;
        e.coded += act.exchange && !act.plain;
    }
    return e;
}

/* Predict the times of an exchange from --rate. step->phi, for float32, follows from the size of
 * the model. step->psi, for the codec, follows from the bytes on the lines, less those of the
 * float32 exchanges. */
static void predict_exchange(const fedworker_result *result, const feddc_times *sum,
                             const exchanges *e, feddc_cost_step *step) {
    const fedworker_options *o = result->job->o;
    const feddc_means m = feddc_times_means(sum);
    const double bytes = 4.0 * (double)result->arch->trained, all = e->plain + e->coded;
    const feddc_cost_line line = {.alpha = 50e-6,
                                  .beta = 8e-6 / o->rate,
                                  .gamma = m.sum * result->step / (all > 0 ? all : 1) / bytes,
                                  .message = 5e-6,
                                  .bucket = o->bucket > 0 ? o->bucket : 1 << 20};
    const feddc_cost_way way = way_of(result->job->choice.collective);
    feddc_cost cost = feddc_cost_exchange(way, result->workers, bytes, &line, NULL);
    step->phi = step->psi = feddc_cost_communication(&cost);
    if (e->coded > 0) {
        const uint64_t most = sum->sent > sum->received ? sum->sent : sum->received;
        const double ranks =
            /* number of lines that carry these bytes */
            way == FEDDC_COST_CENTRAL ? 1 : result->workers;
        const double wire = (double)most / ranks * line.beta - e->plain * cost.wire;
        cost.wire = wire > 0 ? wire / e->coded : 0;
        step->psi = feddc_cost_communication(&cost);
    }
}

/* Predict the time of a step by the cost model. Without --rate the measured time of an exchange is
 * used, and the model only predicts how much of it overlaps with computation. */
static double predict(const fedworker_result *result, const feddc_times *sum) {
    const fedworker_options *o = result->job->o;
    const feddc_means m = feddc_times_means(sum);
    const exchanges e = exchanges_of(result);
    const double steps = result->step, all = e.plain + e.coded;
    const double bucket = o->bucket > 0 ? o->bucket : 1 << 20;
    const uint32_t buckets = (uint32_t)(4.0 * (double)result->arch->trained / bucket) + 1;
    feddc_cost_step step = {.tau = m.compute,
                            .phi = all > 0 ? (m.wire + m.sum) * steps / all : 0,
                            .delta = e.coded > 0 ? m.codec * steps / e.coded : 0};
    step.psi = step.phi;
    if (o->rate > 0) {
        predict_exchange(result, sum, &e, &step);
    }
    return feddc_cost_sync(&step, &result->job->choice.sync, result->step, buckets);
}

static feddc_times *times_of_all(const fedworker_result *result, fed_error *err) {
    feddc_times *times = calloc(result->workers, sizeof *times);
    if (times == NULL) {
        (void)fed_fail(err, FED_ENOMEM, "out of memory for the report");
        return NULL;
    }
    for (uint32_t r = 0; r < result->workers; r++) {
        times[r] = times_of(&result->tally[r]);
    }
    return times;
}

fed_status fedworker_print_table(const fedworker_result *result, fed_error *err) {
    feddc_times *times = times_of_all(result, err);
    if (times == NULL) {
        return FED_ENOMEM;
    }
    const feddc_times sum = sum_of(times, result->workers);
    fed_writer out;
    fed_writer_growing(&out);
    feddc_times_table(times, result->workers, result->job->o->sync, predict(result, &sum), &out);
    if (result->job->o->nic != NULL) {
        fed_write_printf(
            &out, "Sent and received are bytes of float32, before the nic %s compresses them.\n",
            result->job->o->nic);
    }
    if (out.status == FED_OK) {
        fputs((const char *)out.data, stdout);
    }
    const fed_status status = out.status;
    fed_writer_free(&out);
    free(times);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "out of memory for the report");
}

static void write_text(fed_writer *out, const char *key, const char *text) {
    fed_write_printf(out, "  \"%s\": \"", key);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        fed_write_printf(out, c == '"' || c == '\\' ? "\\%c" : c < 32 ? "\\u%04x" : "%c", c);
    }
    fed_write_printf(out, "\",\n");
}

static void write_list(fed_writer *out, const char *key, const fedworker_result *result,
                       size_t member, const char *end) {
    fed_write_printf(out, "  \"%s\": [", key);
    for (uint32_t r = 0; r < result->workers; r++) {
        uint64_t bytes = 0;
        memcpy(&bytes, (const char *)&result->tally[r] + member, sizeof bytes);
        fed_write_printf(out, "%s%" PRIu64, r > 0 ? ", " : "", bytes);
    }
    fed_write_printf(out, "]%s\n", end);
}

static void write_quality(fed_writer *out, const fedworker_result *result) {
    const fedtrain_score *score = &result->score;
    if (result->job->samples.test.set.target == NULL && score->samples > 0) {
        fed_write_printf(out, "  \"test_accuracy\": %.6g,\n",
                         (double)score->correct / (double)score->samples);
    }
    fed_write_printf(out, "  \"test_loss\": %.6g,\n  \"digest\": \"%016" PRIx64 "\",\n",
                     (double)score->loss, result->tally[0].digest);
}

/* Write the times of the summary. Most are sums over all steps, in seconds, and means over the
 * workers. */
static void write_times(fed_writer *out, const fedworker_result *result, const feddc_times *sum) {
    const feddc_means m = feddc_times_means(sum);
    const double n = result->workers;
    fed_write_printf(out,
                     "  \"seconds\": %.6g,\n  \"step_s\": %.6g,\n  \"compute_s\": %.6g,\n"
                     "  \"exchange_s\": %.6g,\n  \"exposed_s\": %.6g,\n  \"encode_s\": %.6g,\n"
                     "  \"decode_s\": %.6g,\n  \"sum_s\": %.6g,\n  \"hidden\": %.6g,\n"
                     "  \"mean_step_s\": %.6g,\n  \"predicted_step_s\": %.6g,\n",
                     result->seconds, sum->step / n, sum->compute / n, sum->exchange / n,
                     sum->exposed / n, sum->encode / n, sum->decode / n, sum->sum / n, m.hidden,
                     m.step, predict(result, sum));
}

/** Write how large the counted values were, as in feddc_exchange_counts, all workers together. */
static void write_spread(fed_writer *out, const fedworker_result *result) {
    fed_write_printf(out, "  \"spread\": [");
    for (size_t k = 0; k < FEDDC_SPREAD; k++) {
        uint64_t values = 0;
        for (uint32_t r = 0; r < result->workers; r++) {
            values += result->tally[r].spread[k];
        }
        fed_write_printf(out, "%s%" PRIu64, k > 0 ? ", " : "", values);
    }
    fed_write_printf(out, "],\n");
}

static void write_all(fed_writer *out, const fedworker_result *result, const feddc_times *sum) {
    const fedworker_options *o = result->job->o;
    uint64_t zeroed = 0, coded = 0, steps = 0;
    for (uint32_t r = 0; r < result->workers; r++) {
        steps += result->tally[r].steps;
        zeroed += result->tally[r].zeroed;
        coded += result->tally[r].coded;
    }
    fed_write_printf(out, "{\n");
    write_text(out, "model", result->arch->text);
    write_text(out, "optimizer", o->app.optimizer);
    write_text(out, "link", o->link);
    write_text(out, "collective",
               o->collective != NULL ? o->collective : result->job->choice.collective);
    write_text(out, "sync", o->sync);
    write_text(out, "codec", o->codec != NULL ? o->codec : "float32");
    write_text(out, "pull", o->pull != NULL ? o->pull : "float32");
    write_text(out, "pull_as", result->job->choice.at_owners ? "model" : "sum");
    write_text(out, "nic", o->nic != NULL ? o->nic : "none");
    fed_write_printf(out,
                     "  \"parameters\": %zu,\n  \"workers\": %" PRIu32 ",\n  \"batch\": %" PRIu32
                     ",\n  \"seed\": %" PRIu32 ",\n  \"steps\": %" PRIu32 ",\n",
                     result->arch->trained, result->workers, o->app.batch, o->app.seed,
                     result->step);
    write_quality(out, result);
    write_times(out, result, sum);
    fed_write_printf(
        out, "  \"counted_steps\": %" PRIu64 ",\n  \"coded\": %" PRIu64 ",\n  \"zeroed\": %.6g,\n",
        steps / result->workers, coded, coded > 0 ? (double)zeroed / (double)coded : 0);
    write_spread(out, result);
    write_list(out, "sent_bytes", result, offsetof(feddc_worker_tally, sent_bytes), ",");
    write_list(out, "received_bytes", result, offsetof(feddc_worker_tally, received_bytes), "");
    fed_write_printf(out, "}\n");
}

fed_status fedworker_write_summary(const fedworker_result *result, fed_error *err) {
    const char *path = result->job->o->summary;
    if (path == NULL) {
        return FED_OK;
    }
    feddc_times *times = times_of_all(result, err);
    if (times == NULL) {
        return FED_ENOMEM;
    }
    const feddc_times sum = sum_of(times, result->workers);
    fed_writer out;
    fed_writer_growing(&out);
    write_all(&out, result, &sum);
    const fed_status status =
        out.status == FED_OK
            ? fed_file_replace(path, out.data, out.len, FED_FILE_OUTPUT | 0644, err)
            : fed_fail(err, out.status, "out of memory for the summary");
    fed_writer_free(&out);
    free(times);
    return status;
}
