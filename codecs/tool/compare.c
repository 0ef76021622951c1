/* fedcodec compare: size, loss and speed of the codecs on the user's own tensors. A cohort's
 * messages of the same values show which part of the loss the mean of many messages keeps. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/tool/tool.h"
#include "fed/clock.h"
#include "fed/progress.h"
#include "fedcodec/codec_vtable.h"
#include "fedcodec/envelope.h"

enum { CODECS_MAX = 64, ROUNDS_MIN = 3, MEASURE_US = 50000, COHORT_MAX = 100000 };

/* Specs compared besides each codec's defaults: well-known parameters, from papers or practice, and
 * one for each codec without defaults. */
static const char *const well_known[] = {"3lc:s=1.75", "3lc:s=1+entropy", "3lc:s=1.75+entropy",
                                         "sbc:p=0.1",  "sbc:p=0.001",     "threshold:t=0.001"};

typedef struct row {
    fedcodec codec;
    char spec[FEDCODEC_SPEC];
    size_t bytes;
    double error;                    /* ||x - decoded|| / ||x||, of one message */
    double mean_error;               /* the same of the mean of a cohort's messages */
    double bias, variance;           /* in units of ||x||^2; see spread */
    double encode_mb_s, decode_mb_s; /* 10^6 bytes of float32 values a second */
} row;

typedef struct table {
    row rows[CODECS_MAX];
    size_t count;
    uint32_t small; /* the argument small of fedcodec_envelope_encode */
    uint32_t cohort;
} table;

static fed_status add_codec(table *t, const char *spec, fed_error *err) {
    if (t->count == CODECS_MAX) {
        return fed_fail(err, FED_ERANGE, "at most %d codecs can be compared at once", CODECS_MAX);
    }
    row *r = &t->rows[t->count];
    FED_TRY(tool_parse(spec, &r->codec, err));
    fedcodec_format(&r->codec, r->spec);
    t->count++;
    return FED_OK;
}

static bool has_presets(const fedcodec_vtable *codec) {
    bool all = true;
    for (const fedcodec_param *p = codec->params; p->key != NULL; p++) {
        all = all && p->preset >= p->low && p->preset <= p->high;
    }
    return all;
}

static fed_status add_all(table *t, fed_error *err) {
    const fedcodec_vtable *codec;
    for (size_t k = 0; (codec = fedcodec_at(k)) != NULL; k++) {
        size_t len = strlen(codec->name);
        if (has_presets(codec)) {
            FED_TRY(add_codec(t, codec->name, err));
        }
        for (size_t i = 0; i < sizeof well_known / sizeof well_known[0]; i++) {
            if (strncmp(well_known[i], codec->name, len) == 0 && well_known[i][len] == ':') {
                FED_TRY(add_codec(t, well_known[i], err));
            }
        }
    }
    return FED_OK;
}

/* Does key=value of the same codec follow the comma, and not another codec? */
static bool goes_on(const char *text) {
    return text[strcspn(text, "=:,")] == '=';
}

/* Add a list such as "3lc:s=1.5,sbc:p=0.1". Commas separate both codecs and parameters. */
static fed_status add_listed(table *t, const char *list, fed_error *err) {
    for (const char *at = list;;) {
        const char *end = at + strcspn(at, ",");
        while (*end == ',' && goes_on(end + 1)) {
            end += 1 + strcspn(end + 1, ",");
        }
        char spec[FEDCODEC_SPEC + 1]; /* room to see that a spec is too long */
        snprintf(spec, sizeof spec, "%.*s",
                 (int)(end - at < FEDCODEC_SPEC ? end - at : FEDCODEC_SPEC), at);
        FED_TRY(add_codec(t, spec, err));
        if (*end == '\0') {
            return FED_OK;
        }
        at = end + 1;
    }
}

typedef struct bench {
    const fed_model *model;
    uint32_t small;
    float *residual, *decoded;
    double *lost; /* the sum of the cohort's errors */
    uint8_t *message;
    size_t cap, len;
    void *work;
} bench;

static void bench_free(bench *b) {
    free(b->residual);
    free(b->decoded);
    free(b->lost);
    free(b->message);
    free(b->work);
}

static bool bench_make(bench *b, const fed_model *model, const fedcodec *codec, uint32_t small) {
    size_t values = model->layout.size * sizeof *model->values;
    *b = (bench){.model = model,
                 .small = small,
                 .cap = fedcodec_envelope_bound(codec, &model->layout, small)};
    b->residual = malloc(values + 1);
    b->decoded = malloc(values + 1);
    b->lost = calloc(model->layout.size + 1, sizeof *b->lost);
    b->message = malloc(b->cap);
    b->work = malloc(fedcodec_envelope_work_size(codec, &model->layout, small) + 1);
    return b->residual != NULL && b->decoded != NULL && b->lost != NULL && b->message != NULL &&
           b->work != NULL;
}

/* Encode one message from residuals of zeros. Adds the time that it took to *us. */
static fed_status encode_once(bench *b, const fedcodec *codec, int64_t *us, fed_error *err) {
    const fed_layout *layout = &b->model->layout;
    memset(b->residual, 0, layout->size * sizeof *b->residual);
    fed_writer w;
    fed_writer_fixed(&w, b->message, b->cap);
    int64_t start = fed_clock_thread_cpu_us();
    if (fedcodec_envelope_encode(codec, layout, b->small, b->residual, b->model->values, b->work,
                                 &w) != FED_OK) {
        char spec[FEDCODEC_SPEC];
        fedcodec_format(codec, spec);
        return fed_fail(err, FED_EINVAL, "codec %s can't encode these tensors", spec);
    }
    *us += fed_clock_thread_cpu_us() - start;
    b->len = w.len;
    return FED_OK;
}

/* Return the speed over many rounds: a thread's CPU time is too coarse for one short run. */
static double speed(const fed_model *model, int rounds, int64_t us) {
    double bytes = (double)model->layout.size * sizeof(float) * rounds;
    return bytes / (double)(us > 0 ? us : 1); /* bytes per microsecond are MB/s */
}

static double squares(const float *x, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

/* Add the error of the decoded message to b->lost. Returns the square of its 2-norm. */
static double add_error(bench *b) {
    double sum = 0.0;
    for (size_t i = 0; i < b->model->layout.size; i++) {
        double error = (double)b->decoded[i] - (double)b->model->values[i];
        b->lost[i] += error;
        sum += error * error;
    }
    return sum;
}

/* Return the index of the parameter that makes equal values draw anew, or FEDCODEC_PARAMS. */
static size_t seed_of(const fedcodec *codec) {
    const fedcodec_param *param = codec->vtable->params;
    for (size_t k = 0; param[k].key != NULL; k++) {
        if (strcmp(param[k].key, "seed") == 0) {
            return k;
        }
    }
    return FEDCODEC_PARAMS;
}

/* Fill in the errors of N messages of the same values. e: their errors, and S = sum |e|^2.
 * E |sum e|^2 = N E |e|^2 + N (N - 1) |E e|^2. So (|sum e|^2 - S) / (N (N - 1)) estimates the
 * square of the bias without a bias of its own; it may be below 0. What is left of S / N is the
 * variance. Without draws all messages are equal, and their whole error is bias. */
static void spread(row *r, double lost, double each, double all, uint32_t count) {
    const double n = count;
    const double scale = all > 0.0 ? 1.0 / all : 0.0;
    r->mean_error = sqrt(lost * scale) / n;
    r->bias = count > 1 ? (lost - each) / (n * (n - 1.0)) * scale : lost * scale;
    r->variance = each / n * scale - r->bias;
}

static fed_status measure_cohort(bench *b, row *r, uint32_t cohort, fed_error *err) {
    const size_t n = b->model->layout.size, seed = seed_of(&r->codec);
    const uint32_t count = seed < FEDCODEC_PARAMS ? cohort : 1;
    const double all = squares(b->model->values, n);
    fedcodec codec = r->codec;
    double each = 0.0, lost = 0.0;
    int64_t us = 0;
    for (uint32_t k = 0; k < count; k++) {
        if (k > 0) {
            codec.param[seed] = codec.param[seed] < UINT32_MAX ? codec.param[seed] + 1.0 : 1.0;
        }
        FED_TRY(encode_once(b, &codec, &us, err));
        FED_TRY(fedcodec_envelope_decode(b->message, b->len, &b->model->layout, b->decoded, err));
        const double error = add_error(b);
        r->error = k == 0 ? sqrt(all > 0.0 ? error / all : 0.0) : r->error;
        each += error;
    }
    for (size_t i = 0; i < n; i++) {
        lost += b->lost[i] * b->lost[i];
    }
    spread(r, lost, each, all, count);
    return FED_OK;
}

static fed_status measure(bench *b, row *r, fed_error *err) {
    int64_t us = 0;
    int rounds = 0;
    for (; rounds < ROUNDS_MIN || us < MEASURE_US; rounds++) {
        FED_TRY(encode_once(b, &r->codec, &us, err));
    }
    r->bytes = b->len;
    r->encode_mb_s = speed(b->model, rounds, us);
    us = 0;
    for (rounds = 0; rounds < ROUNDS_MIN || us < MEASURE_US; rounds++) {
        int64_t start = fed_clock_thread_cpu_us();
        FED_TRY(fedcodec_envelope_decode(b->message, b->len, &b->model->layout, b->decoded, err));
        us += fed_clock_thread_cpu_us() - start;
    }
    r->decode_mb_s = speed(b->model, rounds, us);
    return FED_OK;
}

static fed_status measure_all(const fed_model *model, table *t, fed_error *err) {
    fed_status status = FED_OK;
    fed_progress progress;
    fed_progress_open(&progress, 0);
    for (size_t k = 0; k < t->count && status == FED_OK; k++) {
        row *r = &t->rows[k];
        bench b;
        fed_progress_show(&progress, (double)k / (double)t->count, "%s", r->spec);
        if (bench_make(&b, model, &r->codec, t->small)) {
            status = measure(&b, r, err);
            status = status == FED_OK ? measure_cohort(&b, r, t->cohort, err) : status;
        } else {
            status = fed_fail(err, FED_ENOMEM, "out of memory for trying codec %s", r->spec);
        }
        bench_free(&b);
    }
    fed_progress_wipe(&progress);
    return status;
}

static double ratio(const row *r, size_t n) {
    return (double)(n * sizeof(float)) / (double)r->bytes;
}

static double bits_per_value(const row *r, size_t n) {
    return 8.0 * (double)r->bytes / (double)n;
}

static size_t count_small(const fed_layout *layout, uint32_t small) {
    size_t count = 0;
    for (size_t k = 0; k < layout->count; k++) {
        count += layout->tensors[k].size < small ? 1 : 0;
    }
    return count;
}

static void print_text(const table *t, const fed_layout *layout) {
    int width = 5;
    for (size_t k = 0; k < t->count; k++) {
        int len = (int)strlen(t->rows[k].spec);
        width = len > width ? len : width;
    }
    printf("tensors: %zu, values: %zu, as float32: %zu bytes; one message of each codec\n",
           layout->count, layout->size, layout->size * sizeof(float));
    printf("tensors under %u values, grouped: %zu; messages in the mean: %u\n", t->small,
           count_small(layout, t->small), t->cohort);
    printf("%-*s %12s %9s %10s %9s %9s %9s %9s %11s %11s\n", width, "codec", "bytes", "smaller",
           "bits/value", "L2 error", "of mean", "bias", "variance", "encode MB/s", "decode MB/s");
    for (size_t k = 0; k < t->count; k++) {
        const row *r = &t->rows[k];
        printf("%-*s %12zu %8.2fx %10.4f %9.5f %9.5f %9.5f %9.5f %11.0f %11.0f\n", width, r->spec,
               r->bytes, ratio(r, layout->size), bits_per_value(r, layout->size), r->error,
               r->mean_error, r->bias, r->variance, r->encode_mb_s, r->decode_mb_s);
    }
}

static void print_csv(const table *t, const fed_layout *layout) {
    puts("codec,bytes,ratio,bits_per_value,relative_l2_error,mean_relative_l2_error,bias,variance,"
         "encode_mb_s,decode_mb_s");
    for (size_t k = 0; k < t->count; k++) {
        const row *r = &t->rows[k];
        printf("\"%s\",%zu,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g\n", r->spec, r->bytes,
               ratio(r, layout->size), bits_per_value(r, layout->size), r->error, r->mean_error,
               r->bias, r->variance, r->encode_mb_s, r->decode_mb_s);
    }
}

static void print_json(const table *t, const fed_layout *layout) {
    printf("{\"tensors\": %zu, \"values\": %zu, \"small\": %u, \"grouped\": %zu, "
           "\"cohort\": %u, \"codecs\": [",
           layout->count, layout->size, t->small, count_small(layout, t->small), t->cohort);
    for (size_t k = 0; k < t->count; k++) {
        const row *r = &t->rows[k];
        printf("%s\n  {\"codec\": \"%s\", \"bytes\": %zu, \"ratio\": %.6g, "
               "\"bits_per_value\": %.6g, \"relative_l2_error\": %.6g, "
               "\"mean_relative_l2_error\": %.6g, \"bias\": %.6g, \"variance\": %.6g, "
               "\"encode_mb_s\": %.6g, \"decode_mb_s\": %.6g}",
               k > 0 ? "," : "", r->spec, r->bytes, ratio(r, layout->size),
               bits_per_value(r, layout->size), r->error, r->mean_error, r->bias, r->variance,
               r->encode_mb_s, r->decode_mb_s);
    }
    puts("\n]}");
}

typedef void print_table(const table *t, const fed_layout *layout);

static fed_status subtract(fed_model *model, const char *path, fed_error *err) {
    fed_model before;
    FED_TRY(tool_read_tensors(path, &before, err));
    fed_status status = fed_layout_match(&before.layout, &model->layout, err);
    for (size_t i = 0; status == FED_OK && i < model->layout.size; i++) {
        model->values[i] -= before.values[i];
    }
    fed_model_free(&before);
    return status;
}

static fed_status keep_tensor(fed_model *model, const char *name, fed_error *err) {
    const fed_tensor *found = fed_layout_find(&model->layout, name);
    if (found == NULL) {
        fed_names names = {""};
        for (size_t k = 0; k < model->layout.count; k++) {
            fed_names_add(&names, model->layout.tensors[k].name);
        }
        return fed_fail(err, FED_ENOTFOUND, "--tensor: there is no tensor \"%s\"; there are %s",
                        name, names.text);
    }
    memmove(model->values, model->values + found->offset, found->size * sizeof *model->values);
    fed_tensor *tensors = model->layout.tensors;
    tensors[0] = *found;
    tensors[0].offset = 0;
    model->layout = (fed_layout){.tensors = tensors, .count = 1, .size = tensors[0].size};
    return FED_OK;
}

/* Read the tensors of a file. since: a file whose values are subtracted, or NULL. tensor: the only
 * tensor to keep, or NULL to keep all. */
static fed_status read_update(const char *path, const char *since, const char *tensor,
                              fed_model *model, fed_error *err) {
    FED_TRY(tool_read_tensors(path, model, err));
    fed_status status = since != NULL ? subtract(model, since, err) : FED_OK;
    if (status == FED_OK && tensor != NULL) {
        status = keep_tensor(model, tensor, err);
    }
    if (status != FED_OK) {
        fed_model_free(model);
    }
    return status;
}

static int compare(const char *path, const tool_option *since, const tool_option *tensor, table *t,
                   print_table *print) {
    fed_error err = {.status = FED_OK};
    fed_model model;
    if (read_update(path, since->value, tensor->value, &model, &err) != FED_OK) {
        return tool_fail(&err);
    }
    int result = EXIT_FAILURE;
    if (model.layout.size == 0) {
        fed_fail(&err, FED_EINVAL, "holds no values, so there is nothing to compare");
        tool_fail_file(path, &err);
    } else if (measure_all(&model, t, &err) != FED_OK) {
        tool_fail_file(path, &err);
    } else {
        print(t, &model.layout);
        result = tool_finish_output();
    }
    fed_model_free(&model);
    return result;
}

static print_table *printer_of(const char *format) {
    return strcmp(format, "text") == 0   ? print_text
           : strcmp(format, "csv") == 0  ? print_csv
           : strcmp(format, "json") == 0 ? print_json
                                         : NULL;
}

/* Read --small and --cohort. */
static int read_numbers(const tool_option *small, const tool_option *cohort, table *t) {
    uint64_t number = 0;
    int result = tool_read_number(small, UINT32_MAX, &number);
    t->small = (uint32_t)number;
    if (result == EXIT_SUCCESS) {
        result = tool_read_number(cohort, COHORT_MAX, &number);
    }
    if (result == EXIT_SUCCESS && number < 2) {
        return tool_fail_usage("--cohort needs at least 2 messages, not", cohort->value);
    }
    t->cohort = (uint32_t)number;
    return result;
}

int tool_compare(int argc, char **argv) {
    tool_option options[] = {{"--codecs", NULL}, {"--format", "text"}, {"--small", TOOL_SMALL},
                             {"--since", NULL},  {"--tensor", NULL},   {"--cohort", TOOL_COHORT},
                             {NULL, NULL}};
    const char *path = NULL;
    int result = tool_read_args(argc, argv, options, &path, 1);
    if (result != EXIT_SUCCESS) {
        return result;
    }
    print_table *print = printer_of(options[1].value);
    if (print == NULL) {
        return tool_fail_usage("--format is text, csv or json, not", options[1].value);
    }
    table t = {.count = 0};
    result = read_numbers(&options[2], &options[5], &t);
    if (result != EXIT_SUCCESS) {
        return result;
    }
    fed_error err = {.status = FED_OK};
    const char *list = options[0].value;
    if ((list != NULL ? add_listed(&t, list, &err) : add_all(&t, &err)) != FED_OK) {
        tool_fail(&err);
        return TOOL_EXIT_USAGE;
    }
    return compare(path, &options[3], &options[4], &t, print);
}
