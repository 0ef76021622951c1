/* At each limit of docs/limits.md what was given is taken; one above the limit is refused, with
 * the limit in the sentence. The page has a row for each line of `limits`. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed_cases.h"
#include "fed_program.h"

#include "fed/arch.h"
#include "fed/file.h"
#include "fed/optimizer_spec.h"
#include "fed/own_metrics.h"
#include "fed/wire.h"
#include "fedclient/fedclient.h"
#include "fedclient/memory_store.h"
#include "fedcodec/codec.h"
#include "feddc/link.h"
#include "fedserver/operator.h"
#include "fedserver/task/config.h"
#include "fedtrain/dataset.h"

enum { TEXT = 1 << 20 };

typedef struct world {
    char folder[300];
    char text[TEXT];
} world;

#define SIZE_OF(type, member) (sizeof((type *)0)->member)

/* Make a text of n bytes: `begin`, then as many `fill` as are needed, then `end`. */
static const char *stretch(world *w, const char *begin, char fill, const char *end, size_t n) {
    const size_t head = strlen(begin), tail = strlen(end);
    assert_true(head + tail <= n && n < TEXT);
    memcpy(w->text, begin, head);
    memset(w->text + head, fill, n - tail - head);
    memcpy(w->text + n - tail, end, tail + 1);
    return w->text;
}

/* Make a text of n items with `between` between them. `%zu` of an item becomes its number. */
static const char *repeat(world *w, const char *begin, const char *item, const char *between,
                          const char *end, size_t n) {
    size_t len = (size_t)snprintf(w->text, TEXT, "%s", begin);
    for (size_t k = 0; k < n; k++) {
        const char *hole = strstr(item, "%zu");
        const int before = hole != NULL ? (int)(hole - item) : (int)strlen(item);
        len += (size_t)snprintf(w->text + len, TEXT - len, "%s%.*s", k > 0 ? between : "", before,
                                item);
        if (hole != NULL) {
            len += (size_t)snprintf(w->text + len, TEXT - len, "%zu%s", k, hole + 3);
        }
    }
    len += (size_t)snprintf(w->text + len, TEXT - len, "%s", end);
    assert_true(len < TEXT);
    return w->text;
}

static fed_status parse_model(const char *text, fed_error *err) {
    fed_arch arch;
    const fed_status status = fed_arch_parse(text, &arch, err);
    if (status == FED_OK) {
        fed_arch_free(&arch);
    }
    return status;
}

static fed_status tensors(world *w, size_t n, fed_error *err) {
    return parse_model(repeat(w, "tensors ", "t%zu 1", " | ", "", n), err);
}

static fed_status layers(world *w, size_t n, fed_error *err) {
    (void)repeat(w, "let b = relu", " | relu", "", ";\n", 31);
    const size_t len = strlen(w->text);
    snprintf(w->text + len, TEXT - len, "input 1 | dense 1 | %zu b", (n - 1) / 32);
    for (size_t k = 0; k < (n - 1) % 32; k++) {
        strcat(w->text, " | relu");
    }
    return parse_model(w->text, err);
}

static fed_status blocks(world *w, size_t n, fed_error *err) {
    (void)repeat(w, "", "let b%zu = relu;\n", "", "input 1 | dense 1", n);
    for (size_t k = 0; k < n; k++) {
        const size_t len = strlen(w->text);
        snprintf(w->text + len, TEXT - len, " | b%zu", k);
    }
    return parse_model(w->text, err);
}

static fed_status parameters(world *w, size_t n, fed_error *err) {
    (void)repeat(w, "let b(", "p%zu", ", ", ") = relu;\ninput 1 | dense 1 | b(1", n);
    for (size_t k = 1; k < n; k++) {
        strcat(w->text, ", 1");
    }
    return parse_model(strcat(w->text, ")"), err);
}

static fed_status tensor_name(world *w, size_t n, fed_error *err) {
    return parse_model(stretch(w, "tensors ", 'a', " 4", strlen("tensors  4") + n), err);
}

static fed_status tensor_rank(world *w, size_t n, fed_error *err) {
    return parse_model(repeat(w, "tensors a ", "2", "x", "", n), err);
}

static fed_status optimizer(world *w, size_t n, fed_error *err) {
    static const char begin[] =
        "momentum:lr=0.1000000000000,m=0.9000000000000,decay=0.0010000000000"
        "+cosine:steps=00000000001000+clip:value=1.000000,norm=1.";
    fed_optimizer parsed;
    return fed_optimizer_parse(stretch(w, begin, '0', "", n), 0.1f, &parsed, err);
}

static fed_status codec(world *w, size_t n, fed_error *err) {
    static const char begin[] = "qsgd:bits=000000000000004,bucket=512,seed=";
    fedcodec parsed;
    return fedcodec_parse(stretch(w, begin, '0', "1+entropy", n), &parsed, err);
}

static fed_status metrics(world *w, size_t n, fed_error *err) {
    fed_own_metrics m = {.count = 0};
    fed_status status = FED_OK;
    for (size_t k = 0; k < n && status == FED_OK; k++) {
        snprintf(w->text, TEXT, "m%zu", k);
        status = fed_own_metrics_set(&m, w->text, 1, err);
    }
    return status;
}

static fed_status metric_name(world *w, size_t n, fed_error *err) {
    fed_own_metrics m = {.count = 0};
    return fed_own_metrics_set(&m, stretch(w, "m", 'a', "", n), 1, err);
}

/* Read a task file that has the JSON in w->text as one of its members. */
static fed_status read_task(world *w, const char *key, fed_error *err) {
    fedserver_config config;
    char *task = malloc(TEXT + 200);
    assert_non_null(task);
    snprintf(task, TEXT + 200, "{\"model\": \"lr\", \"rounds\": 100, \"goal\": 1, \"%s\": %s}", key,
             w->text);
    const fed_status status = fedserver_config_parse("task.json", task, strlen(task), &config, err);
    free(task);
    return status;
}

static fed_status task_name(world *w, size_t n, fed_error *err) {
    (void)stretch(w, "\"", 'a', "\"", n + 2);
    return read_task(w, "name", err);
}

static fed_status task_tag(world *w, size_t n, fed_error *err) {
    (void)stretch(w, "\"", 'a', "\"", n + 2);
    return read_task(w, "tag", err);
}

static fed_status task_app(world *w, size_t n, fed_error *err) {
    (void)stretch(w, "{\"a\":\"", 'a', "\"}", n);
    return read_task(w, "app", err);
}

static fed_status task_downloads(world *w, size_t n, fed_error *err) {
    (void)stretch(w, "\"https://a.example/", 'a', "/\"", n + 2);
    return read_task(w, "downloads", err);
}

static fed_status task_phases(world *w, size_t n, fed_error *err) {
    size_t len = (size_t)snprintf(w->text, TEXT, "[");
    for (size_t k = 0; k < n; k++) {
        len += (size_t)snprintf(w->text + len, TEXT - len, "%s{\"round\": %zu, \"batch\": 4}",
                                k > 0 ? ", " : "", k + 2);
    }
    snprintf(w->text + len, TEXT - len, "]");
    return read_task(w, "phases", err);
}

static fed_status open_table(world *w, fed_error *err) {
    fedtrain_dataset set;
    fed_test_put(w->folder, "train.csv", w->text, strlen(w->text));
    const fed_status status = fedtrain_dataset_open("csv:label=y", w->folder, "train", &set, err);
    if (status == FED_OK) {
        fedtrain_dataset_free(&set);
    }
    return status;
}

static fed_status columns(world *w, size_t n, fed_error *err) {
    (void)repeat(w, "y,", "c%zu", ",", "\n0,", n - 1);
    char *row = w->text + strlen(w->text);
    memset(row, '1', 2 * (n - 1));
    for (size_t k = 1; k < 2 * (n - 1); k += 2) {
        row[k] = ',';
    }
    strcpy(row + 2 * (n - 1) - 1, "\n");
    return open_table(w, err);
}

static fed_status classes(world *w, size_t n, fed_error *err) {
    (void)repeat(w, "", "c%zu\n", "", "", n);
    fed_test_put(w->folder, "classes.txt", w->text, strlen(w->text));
    (void)repeat(w, "y,a\n", "c%zu,1\n", "", "", n);
    return open_table(w, err);
}

/* Run a program. Its refusal is the error. */
static fed_status run(world *w, const char *program, fed_error *err) {
    fed_program p;
    fed_program_open(&p, program);
    const int status = fed_program_run(&p, w->text);
    const fed_status said = status == 0 ? FED_OK : fed_fail(err, FED_EINVAL, "%.400s", p.out);
    fed_program_close(&p);
    return said;
}

static fed_status hosts(world *w, size_t n, fed_error *err) {
    (void)repeat(w, "init --dir made", " --host h%zu", "", "", n);
    return run(w, "fedserver", err);
}

static fed_status values(world *w, size_t n, fed_error *err) {
    snprintf(w->text, TEXT, "vector %zu", n);
    return parse_model(w->text, err);
}

static fed_status values_a_sample(world *w, size_t n, fed_error *err) {
    snprintf(w->text, TEXT, "input %zu | dense 1", n);
    return parse_model(w->text, err);
}

static fed_status no_training(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)round, (void)err;
    return FED_OK;
}

static fed_status slots(world *w, size_t n, fed_error *err) {
    fedclient_platform platform;
    fedclient_transport transport = {0};
    fedclient *client = NULL;
    (void)w;
    assert_fed_ok(fedclient_platform_memory_open(&platform, NULL));
    const fedclient_options options = {.server = "https://127.0.0.1:1",
                                       .platform = &platform,
                                       .transport = &transport,
                                       .train = no_training,
                                       .slots = (unsigned)n};
    const fed_status status = fedclient_open(&options, &client, err);
    fedclient_close(client);
    fedclient_platform_memory_close(&platform);
    return status;
}

/* A program that takes the number of ranks goes on to refuse the model. */
static fed_status ranks(world *w, size_t n, fed_error *err) {
    snprintf(w->text, TEXT, "train --workers %zu --model none --data .", n);
    const fed_status status = run(w, "fedworker", err);
    return strstr(err->text, "--workers") == NULL ? FED_OK : status;
}

static fed_status pictures(world *w, size_t n, fed_error *err) {
    static const char name[] = "train-images-idx3-ubyte";
    char path[400];
    fedtrain_dataset set;
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    fed_test_put(w->folder, name, "", 0);
    assert_int_equal(truncate(path, (off_t)n), 0); /* without blocks on the disk */
    const fed_status status = fedtrain_dataset_open("mnist", w->folder, "train", &set, err);
    /* a file that is read has no pictures */
    return strstr(err->text, "larger than") == NULL ? FED_OK : status;
}

typedef struct limit {
    const char *what; /* the first cell of the page's row */
    size_t most;
    fed_status (*take)(world *w, size_t n, fed_error *err);
    const char *says;  /* words of the refusal */
    const char *shown; /* the second cell; NULL: the number `most` */
} limit;

/* The page's first table, and the rows of the second one that can be reached cheaply.
 * fedserver.routes.test_get_rounds has the names of a round's metrics. A text or a message of
 * 1 GiB, and an ONNX file of 2 GiB, need that much memory. */
static const limit limits[] = {
    {"tensors of a model", FED_ARCH_TENSORS, tensors, "65,536 tensors", NULL},
    {"layers of a model", FED_ARCH_LAYERS, layers, "1,024 layers", NULL},
    {"blocks of a model's text", 32, blocks, "32 blocks", NULL},
    {"parameters of a block", 8, parameters, "8 parameters", NULL},
    {"characters of a tensor's name", FED_TENSOR_NAME - 1, tensor_name, "127 characters", NULL},
    {"numbers of a tensor's shape", FED_TENSOR_RANK, tensor_rank, "8", NULL},
    {"characters of an optimizer", FED_OPTIMIZER_SPEC - 1, optimizer, "127", NULL},
    {"characters of a codec", FEDCODEC_SPEC - 1, codec, "63", NULL},
    {"bytes of a task's name", FEDSERVER_NAME - 1, task_name, "63", NULL},
    {"bytes of a task's tag", FEDSERVER_TAG - 1, task_tag, "31", NULL},
    {"bytes of a task's `app`", SIZE_OF(fed_task, app) - 1, task_app, "1023", NULL},
    {"bytes of a task's `downloads`", FED_DOWNLOADS_URL - 1, task_downloads, "255", NULL},
    {"phases of a task", 32, task_phases, "32", NULL},
    {"custom metrics of an update or an evaluation", FED_OWN_METRICS, metrics, "takes 16", NULL},
    {"characters of a custom metric's name", FED_OWN_NAME - 1, metric_name, "1 to 31", NULL},
    {"columns of a table", 65536, columns, "65536 columns", NULL},
    {"classes of a table", FEDTRAIN_CLASSES, classes, "256 classes", NULL},
    {"options `--host` of a command", 32, hosts, "at most 32 times", NULL},
    {"values of a model", (size_t)1 << 31, values, "2^31 values", "2^31"},
    {"values a sample in a layer", (size_t)1 << 28, values_a_sample, "2^28 values", "2^28"},
    {"tasks that a device takes part in", FED_SLOTS, slots, "1 to 8 slots", NULL},
    {"ranks of a worker group", FEDDC_RANKS, ranks, "1024", "1,024"},
    {"bytes of a file of data", (size_t)1 << 31, pictures, "2147483648 bytes", "2 GiB"},
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

FED_TEST(each_limit_is_met_and_one_above_it_is_refused_with_the_limit) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->folder, sizeof w->folder);
    int wrong = 0;
    for (size_t k = 0; k < LIMITS; k++) {
        const limit *l = &limits[k];
        fed_error err = {0}, why = {0};
        const bool takes = l->take(w, l->most, &err) == FED_OK;
        const bool refuses = l->take(w, l->most + 1, &why) != FED_OK && strstr(why.text, l->says);
        if (!takes || !refuses) {
            printf("%s: at the limit of %zu: \"%s\"; above it: \"%s\"\n", l->what, l->most,
                   err.text, why.text);
            wrong++;
        }
    }
    fed_test_rmdir(w->folder);
    free(w);
    assert_int_equal(wrong, 0);
}

FED_TEST(the_page_has_these_limits) {
    uint8_t *page = NULL;
    size_t len = 0;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(FED_SOURCE_DIR "/docs/limits.md", 1 << 20, &page, &len, &err));
    for (size_t k = 0; k < LIMITS; k++) {
        char number[24], row[200];
        snprintf(number, sizeof number, "%zu", limits[k].most);
        snprintf(row, sizeof row, "| %s | %s |", limits[k].what,
                 limits[k].shown != NULL ? limits[k].shown : number);
        if (strstr((const char *)page, row) == NULL) {
            fail_msg("docs/limits.md lacks a row that begins with: %s", row);
        }
    }
    free(page);
}

int main(void) {
    return fed_cases_run(NULL, NULL);
}
