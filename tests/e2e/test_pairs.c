/* Each pair of a task's settings that touch privacy or aggregation: either the pair is refused by a
 * sentence that names both, or a short simulation with it ends with a finite model, and with as
 * many updates as its rounds say. A new key of that kind is a new line of `settings`.
 *
 *     e2e.test_pairs          all pairs; with FED_TEST_LENGTH=short one of STRIDE */
/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/bytes.h"
#include "fed/checkpoint.h"
#include "fed_cases.h"
#include "fed_program.h"
#include "fed_test.h"

static fed_program sim;

enum { ROUNDS = 3, COHORT = 6, KEYS = 8, ROOM = 120 };

/* short: one pair of so many */
#define STRIDE ((unsigned)FED_TEST_TRIES(1, 11))

#define RING    "codec_up=ring:b=6;clip=0.5"
#define PROMISE RING ";epsilon=50;delta=0.1;participations=4"

/* keys: KEY=VALUE, with a ; between them. names: how a sentence may name the setting, with a |
 * between them. */
static const struct setting {
    const char *keys, *names;
} settings[] = {
    {RING, "ring"},
    {RING ";helper=1", "helper|ring"},
    {PROMISE, "epsilon|promise|noise|ring"},
    {PROMISE ";helper=1;noise=both", "noise|helper|ring"},
    {PROMISE ";apart=2;selection=round_robin", "apart|ring|take turns"},
    {PROMISE ";clip_quantile=0.5", "clip_quantile|ring"},
    {RING ";strategy=median;groups=3", "groups|ring"},
    {"strategy=median", "median|strategy"},
    {"strategy=trimmed:p=0.2", "trimmed|strategy"},
    {"strategy=krum;minimum=5", "krum|strategy"},
    {"strategy=multikrum;minimum=5", "multikrum|strategy"},
    {"strategy=fedadam:lr=0.01", "fedadam|strategy"},
    {"strategy=fedavg+clip:norm=1", "+clip|strategy"},
    {"codec_up=sbc:p=0.1", "sbc|codec_up"},
    {"codec_up=eden:p=0.1", "eden|codec_up"},
    {"codec_down=eden:p=0.5", "codec_down"},
    {"private_layers=head", "private_layers"},
    {"private_layers=bn;model=input 4 | dense 6 | bn | relu | dense 3", "private_layers"},
    {"model=input 4 | dense 6 | bn | relu | dense 3", "statistics"},
    {"personal_steps=2;holdout=0.3", "personal_steps|holdout"},
    {"evaluate=clients;holdout=0.3", "evaluate|holdout"},
    {"device_share=0.2", "device_share"},
    {"device_share=1", "device_share"},
    {"staleness=1", "staleness|stale|own round"},
    {"selection=weighted", "selection|samples"},
    {"phases=2: codec_up=float16", "phase"},
    {"model=input 4 | dense 6 | relu | dense 3 | scaffold;optimizer=sgd:lr=0.1+scaffold",
     "scaffold|SCAFFOLD"},
    {"optimizer=momentum:m=0.9,lr=0.1+mask;codec_up=sbc:p=0.1", "mask|codec_up"},
    {"hostile=0.2", "hostile"},
    {"offline=0.2", "offline"},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

typedef struct words {
    char word[2 * KEYS][ROOM];
    size_t count;
} words;

/* Add the words of a setting. False: a key of it has another value already. */
static bool add_words(words *w, const char *keys) {
    char text[400], *rest = NULL;
    snprintf(text, sizeof text, "%s", keys);
    for (char *word = strtok_r(text, ";", &rest); word != NULL; word = strtok_r(NULL, ";", &rest)) {
        const size_t key = strcspn(word, "=") + 1;
        bool found = false;
        for (size_t k = 0; k < w->count; k++) {
            if (strncmp(w->word[k], word, key) == 0) {
                found = true;
                if (strcmp(w->word[k], word) != 0) {
                    return false;
                }
            }
        }
        if (!found) {
            assert_true(w->count < 2 * KEYS);
            snprintf(w->word[w->count++], ROOM, "%s", word);
        }
    }
    return true;
}

static bool has_key(const words *w, const char *key) {
    for (size_t k = 0; k < w->count; k++) {
        if (strncmp(w->word[k], key, strlen(key)) == 0 && w->word[k][strlen(key)] == '=') {
            return true;
        }
    }
    return false;
}

static bool names(const char *sentence, const char *any) {
    char text[100], *rest = NULL;
    bool found = false;
    snprintf(text, sizeof text, "%s", any);
    for (char *one = strtok_r(text, "|", &rest); one != NULL; one = strtok_r(NULL, "|", &rest)) {
        found = found || strstr(sentence, one) != NULL;
    }
    return found;
}

/* A refusal names what does not go together, and says what to do. */
static bool is_helpful(const char *sentence, const struct setting *a, const struct setting *b) {
    static const char advice[] = "leave |let |take |must be |needs ";
    return names(sentence, a->names) && names(sentence, b->names) && names(sentence, advice);
}

static json_int_t counted_in_rounds(json_int_t *rounds) {
    char path[300], line[400];
    json_int_t all = 0;
    snprintf(path, sizeof path, "%s/pair/rounds.csv", sim.directory);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    *rounds = -1; /* the head */
    while (fgets(line, sizeof line, file) != NULL) {
        const char *at = line;
        for (int k = 0; k < 6 && at != NULL; k++) {
            at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL;
        }
        all += *rounds >= 0 && at != NULL ? strtoll(at, NULL, 10) : 0;
        ++*rounds;
    }
    fclose(file);
    return all;
}

static const char *fault_of_model(void) {
    char path[300];
    fed_model model = {.values = NULL};
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/pair/model.safetensors", sim.directory);
    if (fed_checkpoint_load(path, &model, &err) != FED_OK) {
        return "its model can't be read";
    }
    bool finite = model.layout.size > 0;
    for (size_t i = 0; i < model.layout.size; i++) {
        finite = finite && isfinite(model.values[i]);
    }
    fed_model_free(&model);
    return finite ? NULL : "its model is not finite";
}

/* What is wrong with the run that has ended. NULL: nothing. */
static const char *fault_of_run(void) {
    char path[300];
    json_int_t rounds = 0;
    snprintf(path, sizeof path, "%s/pair/summary.json", sim.directory);
    json_t *summary = json_load_file(path, 0, NULL);
    if (summary == NULL) {
        return "it has no summary";
    }
    const json_int_t counted = counted_in_rounds(&rounds);
    const bool right = json_integer_value(json_object_get(summary, "rounds")) == ROUNDS &&
                       rounds == ROUNDS &&
                       json_integer_value(json_object_get(summary, "updates_counted")) == counted &&
                       counted > 0 && counted <= (json_int_t)ROUNDS * COHORT;
    json_decref(summary);
    return right ? fault_of_model() : "its counts are wrong";
}

/* Write the command for a pair. False: both settings have a key with other values. */
static bool write_run(const struct setting *a, const struct setting *b, char *args, size_t cap) {
    static const char *const preset[][2] = {{"model", "input 4 | dense 6 | relu | dense 3"},
                                            {"optimizer", "sgd:lr=0.1"},
                                            {"codec_up", "float32"}};
    words w = {.count = 0};
    fed_writer out;
    if (!add_words(&w, a->keys) || !add_words(&w, b->keys)) {
        return false;
    }
    fed_writer_fixed(&out, (uint8_t *)args, cap);
    fed_write_printf(&out,
                     "run data=. dataset=csv clients=8 rounds=%d cohort=%d local_steps=2 batch=4 "
                     "threads=1 --out pair",
                     ROUNDS, COHORT);
    for (size_t k = 0; k < sizeof preset / sizeof preset[0]; k++) {
        if (!has_key(&w, preset[k][0])) {
            fed_write_printf(&out, " '%s=%s'", preset[k][0], preset[k][1]);
        }
    }
    for (size_t k = 0; k < w.count; k++) {
        fed_write_printf(&out, " '%s'", w.word[k]);
    }
    fed_write_u8(&out, 0);
    assert_fed_ok(out.status);
    return true;
}

/* Try a pair. Returns false after it has printed what is wrong. */
static bool is_right(const struct setting *a, const struct setting *b, const char *args) {
    enum { REFUSED = 2 };
    char path[300];
    snprintf(path, sizeof path, "%s/pair", sim.directory);
    if (access(path, F_OK) == 0) {
        fed_test_rmdir(path);
    }
    const int status = fed_program_run(&sim, args);
    const char *fault = status == 0         ? fault_of_run()
                        : status != REFUSED ? "it ends with an error"
                        : is_helpful(sim.out, a, b)
                            ? NULL
                            : "the refusal does not name both, or not what to do";
    if (fault != NULL) {
        print_error("%s with %s: %s: %s\n", a->keys, b->keys, fault, sim.out);
    }
    return fault == NULL;
}

FED_TEST(each_pair_of_settings_trains_or_is_refused_by_a_sentence_that_names_both) {
    unsigned pairs = 0, tried = 0, wrong = 0;
    for (size_t i = 0; i < SETTINGS; i++) {
        for (size_t j = i + 1; j < SETTINGS; j++) {
            char args[2000];
            if (write_run(&settings[i], &settings[j], args, sizeof args) && pairs++ % STRIDE == 0) {
                tried++;
                wrong += !is_right(&settings[i], &settings[j], args);
            }
        }
    }
    printf("%u of %u pairs\n", tried, pairs);
    assert_int_equal(wrong, 0);
}

/* Three classes, as far apart as the corners of a square. */
static void write_table(const char *name, unsigned rows) {
    char text[16000];
    fed_writer out;
    fed_writer_fixed(&out, (uint8_t *)text, sizeof text);
    fed_write_printf(&out, "a,b,c,d,label\n");
    for (unsigned k = 0; k < rows; k++) {
        fed_write_printf(&out, "%u.%u,%u.%u,0.%u,1,%u\n", k % 3 / 2 * 2, k % 7, k % 3 % 2 * 2,
                         k % 5, k % 9, k % 3);
    }
    assert_fed_ok(out.status);
    fed_test_put(sim.directory, name, text, out.len);
}

static int open_sim(void **state) {
    (void)state;
    fed_program_open(&sim, "fedsim");
    write_table("train.csv", 240);
    write_table("test.csv", 60);
    return 0;
}

static int close_sim(void **state) {
    (void)state;
    fed_program_close(&sim);
    return 0;
}

int main(void) {
    return fed_cases_run(open_sim, close_sim);
}
