/*
 * Tests that the codec library does the same on every machine. It needs no test framework, so that
 * deploy/cross.sh can run it on big-endian and 32-bit machines:
 *
 *     portable tests/vectors
 *
 * decodes and encodes the golden messages, envelopes and patches, and compares each codec with its
 * reference code.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec_spec.h"
#include "fed/hash.h"
#include "fed/rng.h"
#include "fedcodec/envelope.h"
#include "fedcodec/patch.h"
#include "reference_codecs.h"

enum { WORDS = 1 << 20, LINE = 65536, FAILURES_SHOWN = 20 };

static size_t checks, failures;

static void check(bool holds, const char *where, const char *what) {
    checks++;
    if (!holds && ++failures <= FAILURES_SHOWN) {
        printf("%s: %s\n", where, what);
    }
}

static void *make(size_t size) {
    void *memory = malloc(size + 1);
    if (memory == NULL) {
        fputs("portable: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static float *copy_floats(const float *x, size_t n) {
    float *copy = make(n * sizeof *x);
    memcpy(copy, x, n * sizeof *x);
    return copy;
}

static bool same_floats(const float *a, const float *b, size_t n) {
    return memcmp(a, b, n * sizeof *a) == 0;
}

typedef struct encoded {
    uint8_t *data;
    size_t len;
    float *residual;
    fed_status status;
} encoded;

static encoded encode(const fedcodec *codec, const float *x, size_t n) {
    size_t cap = fedcodec_bound(codec, n);
    encoded e = {.data = make(cap), .residual = copy_floats(x, n)};
    void *work = make(fedcodec_work_size(codec, n));
    e.status = fedcodec_encode(codec, e.residual, NULL, n, work, e.data, cap, &e.len);
    free(work);
    return e;
}

static void drop(encoded *e) {
    free(e->data);
    free(e->residual);
}

/* --- The golden messages; tests/vectors/test_codec_vectors.c describes their files --- */

typedef struct list {
    uint32_t word[WORDS];
    size_t len;
} list;

typedef struct vector {
    char spec[FEDCODEC_SPEC];
    list small, tensors, statistics;
    list input, message, decoded, residual;
    list from, to, patch;
} vector;

static list *find_list(vector *v, const char *word) {
    return strcmp(word, "small") == 0        ? &v->small
           : strcmp(word, "tensors") == 0    ? &v->tensors
           : strcmp(word, "statistics") == 0 ? &v->statistics
           : strcmp(word, "input") == 0      ? &v->input
           : strcmp(word, "message") == 0    ? &v->message
           : strcmp(word, "decoded") == 0    ? &v->decoded
           : strcmp(word, "residual") == 0   ? &v->residual
           : strcmp(word, "from") == 0       ? &v->from
           : strcmp(word, "to") == 0         ? &v->to
           : strcmp(word, "patch") == 0      ? &v->patch
                                             : NULL;
}

static void add_words(list *l, const char *word, const char *where) {
    const char *star = strchr(word, '*');
    unsigned long count = star != NULL ? strtoul(word, NULL, 10) : 1;
    uint32_t value = (uint32_t)strtoul(star != NULL ? star + 1 : word, NULL, 16);
    check(count <= WORDS - l->len, where, "too many words");
    for (; count > 0 && l->len < WORDS; count--) {
        l->word[l->len++] = value;
    }
}

static bool read_vector(const char *path, vector *v) {
    static char line[LINE];
    v->small.len = v->tensors.len = v->statistics.len = v->input.len = v->message.len =
        v->decoded.len = v->residual.len = v->from.len = v->to.len = v->patch.len = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    list *current = NULL;
    while (fgets(line, sizeof line, file) != NULL) {
        char *rest = NULL;
        char *word = line[0] != '#' ? strtok_r(line, " \n", &rest) : NULL;
        for (; word != NULL; word = strtok_r(NULL, " \n", &rest)) {
            list *named = find_list(v, word);
            if (named != NULL) {
                current = named;
            } else if (strcmp(word, "spec") == 0) {
                snprintf(v->spec, sizeof v->spec, "%s", strtok_r(NULL, " \n", &rest));
            } else if (current != NULL && strcmp(word, "none") != 0) {
                add_words(current, word, path);
            }
        }
    }
    return fclose(file) == 0;
}

static float *to_floats(const list *l) {
    float *x = make(l->len * sizeof *l->word);
    memcpy(x, l->word, l->len * sizeof *l->word);
    return x;
}

static encoded encode_envelope(const fedcodec *codec, const fed_layout *layout, uint32_t small,
                               const float *x) {
    size_t cap = fedcodec_envelope_bound(codec, layout, small);
    encoded e = {.data = make(cap), .residual = copy_floats(x, layout->size)};
    void *work = make(fedcodec_envelope_work_size(codec, layout, small));
    fed_writer w;
    fed_writer_fixed(&w, e.data, cap);
    e.status = fedcodec_envelope_encode(codec, layout, small, e.residual, NULL, work, &w);
    e.len = w.len;
    free(work);
    return e;
}

static void make_layout(const list *tensors, fed_layout *layout, const char *where) {
    fed_layout_init(layout);
    for (size_t k = 0; k < tensors->len; k++) {
        char name[32];
        snprintf(name, sizeof name, "tensor%zu", k);
        check(fed_layout_add(layout, name, 1, &tensors->word[k]) == FED_OK, where, "a bad size");
    }
}

static void check_vector(const vector *v, const char *where) {
    fedcodec codec;
    fed_error err = {.text = ""};
    if (fedcodec_parse(v->spec, &codec, &err) != FED_OK) {
        check(false, where, err.text);
        return;
    }
    size_t n = v->input.len, len = v->message.len;
    uint8_t *message = make(len);
    for (size_t i = 0; i < len; i++) {
        message[i] = (uint8_t)v->message.word[i];
    }
    float *input = to_floats(&v->input), *y = to_floats(&v->input);
    float *decoded = to_floats(&v->decoded), *residual = to_floats(&v->residual);
    fed_layout layout;
    make_layout(&v->tensors, &layout, where);
    layout.statistics = v->statistics.len > 0 ? v->statistics.word[0] : 0;
    bool whole = v->tensors.len > 0;
    check(!whole || layout.size == n, where, "sizes that are not the input's");
    fed_status status = whole ? fedcodec_envelope_decode(message, len, &layout, y, &err)
                              : fedcodec_decode(codec.vtable, message, len, y, n);
    check(status == FED_OK, where, "refused");
    check(same_floats(y, decoded, n), where, "decodes to other values");
    encoded e = whole ? encode_envelope(&codec, &layout, v->small.word[0], input)
                      : encode(&codec, input, n);
    check(e.status == FED_OK && e.len == len && memcmp(e.data, message, len) == 0, where,
          "encodes to other bytes");
    check(same_floats(e.residual, residual, n), where, "leaves another residual");
    drop(&e);
    fed_layout_free(&layout);
    free(message);
    free(input);
    free(y);
    free(decoded);
    free(residual);
}

static void check_patch(const vector *v, const char *where) {
    size_t n = v->to.len, len = v->patch.len;
    uint8_t *patch = make(len);
    for (size_t i = 0; i < len; i++) {
        patch[i] = (uint8_t)v->patch.word[i];
    }
    float *from = to_floats(&v->from), *to = to_floats(&v->to), *y = make(n * sizeof *y);
    memset(y, 0, n * sizeof *y);
    memcpy(y, from, v->from.len * sizeof *y);
    check(fedcodec_patch_apply(patch, len, y, n) == FED_OK, where, "refused");
    check(same_floats(y, to, n), where, "leads to other values");
    fed_writer w;
    fed_writer_growing(&w);
    check(fedcodec_patch_write(v->from.len > 0 ? from : NULL, to, n, &w) == FED_OK &&
              w.len == len && memcmp(w.data, patch, len) == 0,
          where, "is written in another way");
    fed_writer_free(&w);
    free(patch);
    free(from);
    free(to);
    free(y);
}

static void check_vectors(const char *root, const char *name,
                          void (*check_one)(const vector *v, const char *where)) {
    static vector v;
    size_t count = 0;
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strstr(entry->d_name, ".txt") != NULL && read_vector(path, &v)) {
            check_one(&v, entry->d_name);
            count++;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    check(count > 0, folder, "no vectors here");
    printf("%zu vectors of %s\n", count, name);
}

typedef enum fill { LAPLACE, ZERO, TIED, DENORMAL, HUGE_VALUES, SPARSE, FILL_COUNT } fill;

/* Return a random value. libm is not used, because its last bits differ between machines. */
static float fill_value(fill kind, fed_rng *rng) {
    float a = fed_rng_float(rng), b = fed_rng_float(rng), u = fed_rng_float(rng) - 0.5f;
    switch (kind) {
    case ZERO:
        return u > 0.0f ? 0.0f : -0.0f;
    case TIED:
        return (float)((int)fed_rng_below(rng, 5) - 2);
    case DENORMAL:
        return u * 1e-39f;
    case HUGE_VALUES:
        return u > 0.2f ? FLT_MAX : u < -0.2f ? -FLT_MAX : u;
    case SPARSE:
        return fed_rng_below(rng, 50) == 0 ? u : 0.0f;
    default:
        return u * a * b;
    }
}

static float *make_values(fill kind, size_t n) {
    fed_rng rng;
    fed_rng_init(&rng, 42, (uint32_t)kind, (uint32_t)n);
    float *x = make(n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = fill_value(kind, &rng);
    }
    return x;
}

static void check_same_as_reference(const fedcodec *codec, const encoded *e, const float *x,
                                    size_t n, const char *where) {
    size_t len = 0;
    float *residual = copy_floats(x, n), *y = copy_floats(x, n), *wanted = copy_floats(x, n);
    uint8_t *data = fed_reference_encode(codec, residual, n, &len);
    check(e->status == FED_OK && e->len == len && memcmp(e->data, data, len) == 0, where,
          "other bytes than the reference's");
    check(same_floats(e->residual, residual, n), where, "another residual");
    check(fedcodec_decode(codec->vtable, data, len, y, n) == FED_OK, where, "refused");
    fed_reference_decode(codec->vtable, data, len, wanted, n);
    check(same_floats(y, wanted, n), where, "other values");
    free(residual);
    free(y);
    free(wanted);
    free(data);
}

/* Adding a message to floats (axpy) and to int64 sums (fold) must add the decoded values. */
static void check_sums(const fedcodec *codec, const encoded *e, size_t n, const char *where) {
    float *y = make(n * sizeof *y), *sum = make(n * sizeof *sum);
    int64_t *acc = make(n * sizeof *acc);
    memset(acc, 0, n * sizeof *acc);
    float most = 0.0f;
    bool axpy = true, fold = true;
    check(fedcodec_decode(codec->vtable, e->data, e->len, y, n) == FED_OK, where, "refused");
    for (size_t i = 0; i < n; i++) {
        sum[i] = 0.25f;
        most = fabsf(y[i]) > most ? fabsf(y[i]) : most;
    }
    check(fedcodec_axpy(codec->vtable, e->data, e->len, 0.5f, sum, n) == FED_OK, where, "axpy");
    fed_status status = fedcodec_fold(codec->vtable, e->data, e->len, 3, acc, n);
    check(status == (most <= FEDCODEC_FOLD_LIMIT ? FED_OK : FED_ERANGE), where, "fold");
    for (size_t i = 0; i < n; i++) {
        axpy &= sum[i] == 0.25f + 0.5f * y[i];
        fold &= status != FED_OK || acc[i] == 3 * (int64_t)rint((double)y[i] * 0x1p30);
    }
    check(axpy, where, "axpy adds other values");
    check(fold, where, "fold adds other values");
    free(y);
    free(sum);
    free(acc);
}

/* Cut messages must be refused. Changed messages must be refused or decode to finite values. */
static void check_garbage(const fedcodec *codec, const encoded *e, size_t n, const char *where) {
    float *y = make(n * sizeof *y);
    for (size_t len = 0; len < e->len; len++) {
        fed_status status = fedcodec_decode(codec->vtable, e->data, len, y, n);
        check(status == FED_EFORMAT, where, "a cut message decodes");
    }
    for (size_t bit = 0; bit < 8 * e->len; bit++) {
        e->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        fed_status status = fedcodec_decode(codec->vtable, e->data, e->len, y, n);
        bool finite = true;
        for (size_t i = 0; i < n && status == FED_OK; i++) {
            finite &= isfinite(y[i]) != 0;
        }
        check(finite && (status == FED_OK || status == FED_EFORMAT), where, "a changed message");
        e->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(y);
}

static void check_codec(const fedcodec *codec) {
    static const size_t lengths[] = {0, 1, 2, 4, 5, 6, 16, 33, 70, 255, 257, 1000, 8193, 20001};
    char where[FEDCODEC_SPEC + 64], spec[FEDCODEC_SPEC];
    fedcodec_format(codec, spec);
    for (fill kind = LAPLACE; kind < FILL_COUNT; kind++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            size_t n = lengths[i];
            snprintf(where, sizeof where, "%s, %zu values of kind %d", spec, n, (int)kind);
            float *x = make_values(kind, n);
            encoded e = encode(codec, x, n);
            check_same_as_reference(codec, &e, x, n, where);
            check_sums(codec, &e, n, where);
            if (n <= 33) {
                check_garbage(codec, &e, n, where);
            }
            drop(&e);
            free(x);
        }
    }
}

/* Some parameters do not go together. */
static void check_if_allowed(const fedcodec *codec) {
    if (codec->vtable->conflict == NULL || codec->vtable->conflict(codec->param) == NULL) {
        check_codec(codec);
    }
}

static void check_codecs(void) {
    size_t count = 0;
    for (const fedcodec_vtable *vtable; (vtable = fedcodec_at(count)) != NULL; count++) {
        fedcodec codec;
        fed_error err = {.text = ""};
        if (fedcodec_parse(codec_spec_of(vtable), &codec, &err) != FED_OK) {
            check(false, vtable->name, err.text);
            continue;
        }
        check_codec(&codec);
        for (size_t k = 0; vtable->params[k].key != NULL; k++) {
            fedcodec end = codec;
            end.param[k] = vtable->params[k].low;
            check_if_allowed(&end);
            end.param[k] = vtable->params[k].high;
            check_if_allowed(&end);
        }
    }
    printf("%zu codecs\n", count);
}

static void check_common(void) {
    fed_rng rng;
    fed_rng_init(&rng, 0, 0, 0);
    check(fed_rng_u32(&rng) == 0x6627e8d5, "rng", "not Philox4x32-10's first word");
    const float values[] = {1.0f, -2.5f, 0x1p-149f};
    const uint8_t bytes[] = {0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0, 1, 0, 0, 0};
    check(fed_digest(values, 3) == fed_digest_bytes(bytes, sizeof bytes), "digest",
          "not that of the values' little-endian bytes");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: portable FOLDER    a folder with the golden messages and envelopes: "
              "tests/vectors\n",
              stderr);
        return 2;
    }
    const uint16_t one = 1;
    check_common();
    check_vectors(argv[1], "codecs", check_vector);
    check_vectors(argv[1], "envelopes", check_vector);
    check_vectors(argv[1], "patches", check_patch);
    check_codecs();
    printf("portable: %s-endian, %zu-bit: %zu checks, %zu failures\n",
           *(const uint8_t *)&one == 1 ? "little" : "big", 8 * sizeof(void *), checks, failures);
    return failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
