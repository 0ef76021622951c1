/* fedworker predict: what the cost models say of a model, a codec and a line. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_commands.h"

#include <stdlib.h>
#include <string.h>

#include "fed/arch.h"
#include "fed/clock.h"
#include "fed/params.h"
#include "fed/rng.h"
#include "fedclient/apps/option_table.h"
#include "fedcodec/codec.h"
#include "feddc/cost.h"
#include "feddc/exchange.h"
#include "fedtrain/net.h"

const char fedworker_predict_usage[] =
    "predict: what the cost models of INCEPTIONN and CD-SGD say, up to 1,024 workers\n"
    "  --model MODEL      as for train\n"
    "  --rate MBIT        of each worker's line, 10^6 bit/s (1000)\n"
    "  --workers A..B     or one number (2..8)\n"
    "  --codec SPEC       of gradients (float32)\n"
    "  --pull SPEC        of sums (float32)\n"
    "  --k K              CD-SGD: each K-th step in float32 (5)\n"
    "  --batch N          samples a step and worker (32)\n"
    "  --compute-ms MS    of a forward and backward pass; measured here if it is not given\n"
    "  --ratio R[,R]      compression ratio of pushes and of pulls; measured here with made-up\n"
    "                     samples if it is not given. A real training's ratio is better\n"
    "  --nic-gbit GBIT    NICs compress instead of hosts; each NIC takes so many 10^9 bit/s of\n"
    "                     float32 in each direction\n"
    "  --latency-us US    of a message (50)\n"
    "  --message-us US    what each message costs a worker (5)\n";

/* ROUNDS exchanges are measured, or only FEWEST if ROUNDS would take longer than MOST_SECONDS.
 * Message sizes count only in the second half of these exchanges, when residuals have reached their
 * usual size. */
enum { ROUNDS = 20, FEWEST = 4, MOST_SECONDS = 2, SMALL = 256, SLICE = 1 << 18 };

typedef struct predict_options {
    const char *model, *codec, *pull;
    uint32_t rate, low, high, k, batch;
    double compute_ms, push_ratio, pull_ratio; /* 0: not given, measured here */
    double nic_gbit;                           /* 0: the hosts encode, not NICs */
    double latency_us, message_us;
} predict_options;

static fed_status read_number(const char *value, const char *option, double *number,
                              fed_error *err) {
    const fed_word word = {value, strlen(value)};
    double read = 0;
    if (!fed_word_number(word, &read) || read <= 0) {
        return fed_fail(err, FED_EINVAL, "--%s is a number above 0, not %.60s", option, value);
    }
    *number = read;
    return FED_OK;
}

static fed_status take_compute(const char *value, void *values, fed_error *err) {
    return read_number(value, "compute-ms", &((predict_options *)values)->compute_ms, err);
}

static fed_status take_nic(const char *value, void *values, fed_error *err) {
    return read_number(value, "nic-gbit", &((predict_options *)values)->nic_gbit, err);
}

static fed_status take_latency(const char *value, void *values, fed_error *err) {
    return read_number(value, "latency-us", &((predict_options *)values)->latency_us, err);
}

static fed_status take_message(const char *value, void *values, fed_error *err) {
    return read_number(value, "message-us", &((predict_options *)values)->message_us, err);
}

static fed_status take_ratio(const char *value, void *values, fed_error *err) {
    predict_options *o = values;
    const char *rest = value;
    const fed_word push = fed_word_take(&rest, ",");
    const char *pull = *rest == ',' ? rest + 1 : NULL;
    if (!fed_word_number(push, &o->push_ratio) || o->push_ratio <= 0) {
        return fed_fail(err, FED_EINVAL,
                        "--ratio is one number, such as 96, or two, such as 96,48, not %.60s",
                        value);
    }
    o->pull_ratio = o->push_ratio;
    return pull == NULL ? FED_OK : read_number(pull, "ratio", &o->pull_ratio, err);
}

static fed_status take_workers(const char *value, void *values, fed_error *err) {
    predict_options *o = values;
    const uint32_t most = 1024;
    const char *rest = option_number(value, '\0', 2, most, &o->low);
    o->high = o->low;
    if (rest == NULL) {
        rest = option_number(value, '.', 2, most, &o->low);
        if (rest == NULL || rest[1] != '.' ||
            option_number(rest + 2, '\0', o->low, most, &o->high) == NULL) {
            return fed_fail(err, FED_EINVAL,
                            "--workers is a number, such as 4, or a range, such as 2..8, from 2 to "
                            "%u, not %.60s",
                            most, value);
        }
    }
    return FED_OK;
}

static fed_status read_options(int argc, char **argv, predict_options *o, fed_error *err) {
#define AT(member) offsetof(predict_options, member)
    static const option_row rows[] = {
        {"model", OPTION_TEXT, AT(model), .commands = 1},
        {"codec", OPTION_TEXT, AT(codec), .commands = 1},
        {"pull", OPTION_TEXT, AT(pull), .commands = 1},
        {"rate", OPTION_NUMBER, AT(rate), 1, 1000000, 1, NULL},
        {"workers", OPTION_OTHER, .commands = 1, .take = take_workers},
        {"k", OPTION_NUMBER, AT(k), 1, 1000000, 1, NULL},
        {"batch", OPTION_NUMBER, AT(batch), 1, 65536, 1, NULL},
        {"compute-ms", OPTION_OTHER, .commands = 1, .take = take_compute},
        {"ratio", OPTION_OTHER, .commands = 1, .take = take_ratio},
        {"nic-gbit", OPTION_OTHER, .commands = 1, .take = take_nic},
        {"latency-us", OPTION_OTHER, .commands = 1, .take = take_latency},
        {"message-us", OPTION_OTHER, .commands = 1, .take = take_message},
    };
#undef AT
    int words = 0;
    FED_TRY(option_table_read(rows, sizeof rows / sizeof rows[0], 1, argc, argv, o, &words, err));
    if (words < argc) {
        return fed_fail(err, FED_EINVAL,
                        "\"%.200s\" is not expected here: predict takes only options", argv[words]);
    }
    if (o->nic_gbit > 0 && strcmp(o->codec, "float32") == 0) {
        return fed_fail(err, FED_EINVAL,
                        "--nic-gbit needs --codec: give the codec of the NICs, such as inceptionn");
    }
    return o->model != NULL ? FED_OK : fed_fail(err, FED_EINVAL, "predict needs --model MODEL");
}

typedef struct measured_codec {
    fedcodec codec;
    bool plain; /* the codec is float32, which encodes nothing */
    float *residual;
    uint8_t *message;
    void *work;
    size_t cap;
    double bytes, values;               /* sums over the second half of the rounds */
    double encode_us, decode_us, coded; /* sums over all rounds; coded: number of values */
} measured_codec;

static void codec_close(measured_codec *m) {
    free(m->residual);
    free(m->message);
    free(m->work);
}

static fed_status codec_open(const char *spec, const fed_arch *arch, measured_codec *m,
                             fed_error *err) {
    FED_TRY(fedcodec_parse(spec, &m->codec, err));
    m->plain = strcmp(fedcodec_name(m->codec.vtable), "float32") == 0;
    m->cap = fedcodec_bound(&m->codec, SLICE);
    m->residual = calloc(arch->trained, sizeof *m->residual);
    m->message = malloc(m->cap);
    m->work = malloc(fedcodec_work_size(&m->codec, SLICE) + 1);
    return m->residual != NULL && m->message != NULL && m->work != NULL
               ? FED_OK
               : fed_fail(err, FED_ENOMEM, "out of memory to measure the codec %s", spec);
}

static fed_status code_slice(measured_codec *m, size_t offset, size_t n, const float *x, float *sum,
                             bool counts, fed_error *err) {
    size_t len = 0;
    const int64_t start = fed_clock_thread_cpu_us();
    float *residual = fedcodec_has_feedback(m->codec.vtable) ? m->residual + offset : NULL;
    fed_status status =
        fedcodec_encode(&m->codec, residual, x + offset, n, m->work, m->message, m->cap, &len);
    const int64_t encoded = fed_clock_thread_cpu_us();
    if (status == FED_OK) {
        status = fedcodec_axpy(m->codec.vtable, m->message, len, 1, sum + offset, n);
    }
    m->encode_us += (double)(encoded - start);
    m->decode_us += (double)(fed_clock_thread_cpu_us() - encoded);
    m->coded += (double)n;
    m->bytes += counts ? (double)len : 0;
    m->values += counts ? (double)n : 0;
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status, "can't encode a gradient of made-up samples: %s",
                          fed_status_text(status));
}

/* Encode a gradient as an exchange does: large tensors in slices, small tensors as float32. */
static fed_status code_gradient(measured_codec *m, const fed_arch *arch, const float *x, float *sum,
                                bool counts, fed_error *err) {
    for (size_t t = 0; t < arch->layout.count; t++) {
        const fed_tensor *tensor = &arch->layout.tensors[t];
        if (tensor->offset + tensor->size > arch->trained) {
            break; /* running statistics follow, which are not exchanged */
        }
        if (tensor->size < SMALL || m->plain) {
            for (size_t i = tensor->offset; i < tensor->offset + tensor->size; i++) {
                sum[i] += x[i];
            }
            m->bytes += counts ? 4 * (double)tensor->size : 0;
            m->values += counts ? (double)tensor->size : 0;
            continue;
        }
        for (size_t done = 0; done < tensor->size; done += SLICE) {
            const size_t n = tensor->size - done < SLICE ? tensor->size - done : SLICE;
            FED_TRY(code_slice(m, tensor->offset + done, n, x, sum, counts, err));
        }
    }
    return FED_OK;
}

typedef struct measurement {
    fed_arch arch;
    fedtrain_net *net;
    measured_codec push[2], pull;
    float *params, *grad, *sum, *pulled, *x, *target;
    uint32_t *label;
    double compute_us, sum_us; /* shortest times of a gradient's computation and of an addition */
} measurement;

static void measurement_close(measurement *m) {
    codec_close(&m->push[0]);
    codec_close(&m->push[1]);
    codec_close(&m->pull);
    fedtrain_net_free(m->net);
    float *const floats[] = {m->params, m->grad, m->sum, m->pulled, m->x, m->target};
    for (size_t k = 0; k < sizeof floats / sizeof floats[0]; k++) {
        free(floats[k]);
    }
    free(m->label);
    fed_arch_free(&m->arch);
}

static size_t inputs_of(const fed_arch *arch) {
    return (size_t)arch->input.c * arch->input.h * arch->input.w;
}

static size_t scores_of(const fed_arch *arch) {
    return (size_t)arch->positions * arch->classes;
}

static fed_status measurement_open(const predict_options *o, measurement *m, fed_error *err) {
    FED_TRY(fed_arch_load(o->model, &m->arch, err));
    const fed_arch *arch = &m->arch;
    FED_TRY(fedtrain_net_new(arch, o->batch, NULL, &m->net, err));
    FED_TRY(codec_open(o->codec, arch, &m->push[0], err));
    FED_TRY(codec_open(o->codec, arch, &m->push[1], err));
    FED_TRY(codec_open(o->pull, arch, &m->pull, err));
    m->params = calloc(arch->layout.size, sizeof *m->params);
    m->grad = calloc(arch->trained, sizeof *m->grad);
    m->sum = calloc(arch->trained, sizeof *m->sum);
    m->pulled = calloc(arch->trained, sizeof *m->pulled);
    m->x = calloc(o->batch * inputs_of(arch), sizeof *m->x);
    m->target = calloc(o->batch * scores_of(arch), sizeof *m->target);
    m->label = calloc((size_t)o->batch * arch->positions, sizeof *m->label);
    if (m->params == NULL || m->grad == NULL || m->sum == NULL || m->pulled == NULL ||
        m->x == NULL || m->target == NULL || m->label == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory to measure the model");
    }
    fed_arch_init_values(arch, 1, m->params);
    return FED_OK;
}

static void make_samples(const predict_options *o, measurement *m, uint32_t round) {
    const fed_arch *arch = &m->arch;
    fed_rng rng;
    fed_rng_init(&rng, 1, round, 0);
    for (size_t i = 0; i < o->batch * inputs_of(arch); i++) {
        m->x[i] = arch->words > 0 ? (float)fed_rng_below(&rng, arch->words) : fed_rng_float(&rng);
    }
    for (size_t i = 0; i < (size_t)o->batch * arch->positions; i++) {
        m->label[i] = fed_rng_below(&rng, arch->classes);
    }
    for (size_t i = 0; i < o->batch * scores_of(arch); i++) {
        m->target[i] = fed_rng_float(&rng);
    }
}

static double least(double before, double now) {
    return before > 0 && before < now ? before : now;
}

/* Measure one exchange of two workers. counts: message sizes count, because residuals have reached
 * their usual size. */
static fed_status measure_round(const predict_options *o, measurement *m, uint32_t round,
                                bool counts, fed_error *err) {
    const size_t n = m->arch.trained;
    memset(m->sum, 0, n * sizeof *m->sum);
    for (uint32_t worker = 0; worker < 2; worker++) {
        float loss = 0;
        make_samples(o, m, 2 * round + worker);
        const fedtrain_batch batch = {o->batch, m->x, m->label, m->target, round};
        const int64_t start = fed_clock_thread_cpu_us();
        FED_TRY(fedtrain_net_gradient(m->net, m->params, &batch, m->grad, &loss, err));
        m->compute_us = least(m->compute_us, (double)(fed_clock_thread_cpu_us() - start));
        FED_TRY(code_gradient(&m->push[worker], &m->arch, m->grad, m->sum, counts, err));
    }
    const int64_t start = fed_clock_thread_cpu_us();
    for (size_t i = 0; i < n; i++) {
        m->pulled[i] += m->sum[i];
    }
    m->sum_us = least(m->sum_us, (double)(fed_clock_thread_cpu_us() - start));
    return code_gradient(&m->pull, &m->arch, m->sum, m->pulled, counts, err);
}

static fed_status measure(const predict_options *o, measurement *m, fed_error *err) {
    const int64_t start = fed_clock_monotonic_ms();
    uint32_t rounds = ROUNDS;
    for (uint32_t round = 0; round < rounds; round++) {
        FED_TRY(measure_round(o, m, round, 2 * (round + 1) > rounds, err));
        const int64_t each = (fed_clock_monotonic_ms() - start) / (round + 1);
        if (round == 0 && each * ROUNDS > 1000 * MOST_SECONDS) {
            rounds = FEWEST;
        }
    }
    return FED_OK;
}

static double rate_of(double values, double us) {
    return us > 0 ? 4e6 * values / us : 0;
}

static double ratio_of(double given, const measured_codec *m) {
    return m->plain ? 1 : given > 0 ? given : 4 * m->values / m->bytes;
}

static void write_answer(const predict_options *o, const measurement *m, fed_writer *out) {
    const measured_codec *push = &m->push[0], *pull = &m->pull;
    const double encode_us = push->encode_us + m->push[1].encode_us + pull->encode_us;
    const double decode_us = push->decode_us + m->push[1].decode_us + pull->decode_us;
    const double coded = push->coded + m->push[1].coded + pull->coded;
    const feddc_cost_inputs in = {
        .values = (double)m->arch.trained,
        .mbit = o->rate,
        .latency = 1e-6 * o->latency_us,
        .message = 1e-6 * o->message_us,
        .sum_rate = rate_of((double)m->arch.trained, m->sum_us),
        .codec = o->codec,
        .push = ratio_of(o->push_ratio, push),
        .pull = ratio_of(o->pull_ratio, pull),
        .encode_rate = rate_of(coded, encode_us),
        .decode_rate = rate_of(coded, decode_us),
        .nic_rate = 1e9 / 8 * o->nic_gbit,
        .no_ring = feddc_codec_expands(o->codec),
        .tau = o->compute_ms > 0 ? 1e-3 * o->compute_ms : 1e-6 * m->compute_us,
        .k = o->k,
        .low = o->low,
        .high = o->high,
    };
    fed_write_printf(out, "%s: forward and backward pass of %u samples %.2f ms%s\n", o->model,
                     o->batch, 1e3 * in.tau, o->compute_ms > 0 ? "" : ", measured on one core");
    if (o->nic_gbit > 0) {
        fed_write_printf(out, "Codecs: in the NICs, %g Gbit/s of float32%s\n", o->nic_gbit,
                         o->push_ratio > 0 ? "" : "; ratios of made-up samples");
    } else if (coded > 0) {
        fed_write_printf(out,
                         "Codecs: %.2f GB/s encode, %.2f GB/s decode, measured on one core%s\n",
                         1e-9 * in.encode_rate, 1e-9 * in.decode_rate,
                         o->push_ratio > 0 ? "" : "; ratios of made-up samples");
    }
    fed_write_printf(out,
                     "Lines: %u Mbit/s, %g us a message, and %g us of work for each message\n\n",
                     o->rate, o->latency_us, o->message_us);
    feddc_cost_tables(&in, out);
}

fed_status fedworker_predict(int argc, char **argv, fed_writer *out, fed_error *err) {
    predict_options o = {.codec = "float32",
                         .pull = "float32",
                         .rate = 1000,
                         .low = 2,
                         .high = 8,
                         .k = 5,
                         .batch = 32,
                         .latency_us = 50,
                         .message_us = 5};
    measurement m = {0};
    FED_TRY(read_options(argc, argv, &o, err));
    fed_status status = measurement_open(&o, &m, err);
    if (status == FED_OK) {
        status = measure(&o, &m, err);
    }
    if (status == FED_OK) {
        write_answer(&o, &m, out);
        status = out->status == FED_OK ? FED_OK
                                       : fed_fail(err, out->status, "out of memory for the tables");
    }
    measurement_close(&m);
    return status;
}
