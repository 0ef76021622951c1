/* What every codec of codecs.def promises, on each vector unit that this machine can run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <float.h>
#include <math.h>

#include "codecs/registry.h"
#include "fed/rng.h"
#include "reference_codecs.h"

/* The unit whose codecs are tested. */
static const fedcodec_unit *unit;

/* The same codec in another unit's code. */
static fedcodec on_unit(const fedcodec *codec, const fedcodec_unit *other) {
    fedcodec same = *codec;
    for (size_t k = 0; k < FEDCODEC_COUNT; k++) {
        if (other->codecs[k]->id == codec->vtable->id) {
            same.vtable = other->codecs[k];
        }
    }
    return same;
}

/* Parse a spec string as a codec of this unit. */
static fedcodec parse(const char *spec) {
    fedcodec codec;
    assert_fed_ok(fedcodec_parse(spec, &codec, NULL));
    return on_unit(&codec, unit);
}

/* The tensors to test, with names, so that a failure names its tensor. */
typedef enum fill {
    FILL_LAPLACE,
    FILL_ZERO,
    FILL_CONSTANT,
    FILL_TIED,
    FILL_DENORMAL,
    FILL_TINIEST,
    FILL_HUGE,
    FILL_SPIKE,
    FILL_NEGATIVE,
    FILL_SPARSE,
    FILL_ALTERNATING,
    FILL_COUNT
} fill;

static const char *const fill_names[FILL_COUNT] = {"Laplace",  "zero",    "constant",   "tied",
                                                   "denormal", "tiniest", "huge",       "spike",
                                                   "negative", "sparse",  "alternating"};

static float fill_value(fill kind, size_t i, size_t n, fed_rng *rng) {
    float u = fed_rng_float(rng) - 0.5f;
    float laplace = copysignf(logf(1.0f - 2.0f * fabsf(u) + FLT_MIN), u);
    switch (kind) {
    case FILL_ZERO:
        return u > 0.0f ? 0.0f : -0.0f;
    case FILL_CONSTANT:
        return 0.25f;
    case FILL_TIED:
        return (float)((int)fed_rng_below(rng, 5) - 2);
    case FILL_DENORMAL:
        return u * 1e-39f;
    case FILL_TINIEST:
        return (float)((int)fed_rng_below(rng, 3) - 1) * FLT_TRUE_MIN;
    case FILL_HUGE:
        return u > 0.2f ? FLT_MAX : u < -0.2f ? -FLT_MAX : u;
    case FILL_SPIKE:
        return i == n / 3 ? -7.0f : 0.0f;
    case FILL_NEGATIVE:
        return -fabsf(laplace);
    case FILL_SPARSE:
        return fed_rng_below(rng, 50) == 0 ? laplace : 0.0f;
    case FILL_ALTERNATING:
        return i % 2 == 0 ? 1.0f : -1.0f;
    default:
        return laplace;
    }
}

static float *make_values(fill kind, size_t n) {
    fed_rng rng;
    fed_rng_init(&rng, 42, (uint32_t)kind, (uint32_t)n);
    float *x = malloc((n + 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        x[i] = fill_value(kind, i, n, &rng);
    }
    return x;
}

static float *copy_values(const float *x, size_t n) {
    float *copy = malloc((n + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, x, n * sizeof *copy);
    return copy;
}

/* A message in memory of exactly its length, so that a sanitizer sees a read past its end. */
typedef struct message {
    fedcodec codec;
    size_t n;
    uint8_t *data;
    size_t len;
    float *residual; /* after encoding */
} message;

/* Encode with this residual (malloc'ed, as before the encode), or without one (NULL). */
static message encode_with(const fedcodec *codec, float *residual, const float *x, size_t n) {
    message m = {.codec = *codec, .n = n, .residual = residual};
    size_t bound = fedcodec_bound(codec, n), work_size = fedcodec_work_size(codec, n);
    uint8_t *dst = malloc(bound + 1);
    void *work = malloc(work_size + 1);
    assert_true(dst != NULL && work != NULL);
    dst[bound] = 0xa5;
    assert_fed_ok(
        fedcodec_encode(codec, residual, x, n, work_size > 0 ? work : NULL, dst, bound, &m.len));
    assert_true(m.len <= bound);
    assert_int_equal(dst[bound], 0xa5);
    m.data = malloc(m.len + (m.len == 0));
    assert_non_null(m.data);
    memcpy(m.data, dst, m.len);
    free(dst);
    free(work);
    return m;
}

static message encode(const fedcodec *codec, const float *x, size_t n) {
    return encode_with(codec, copy_values(x, n), NULL, n);
}

static void drop(message *m) {
    free(m->data);
    free(m->residual);
}

/* Specs that the ends of the parameters do not cover. */
static const char *const more_specs[] = {
    "sbc:p=0.2,pos=rice", "sbc:p=0.2,pos=rans", "sbc:p=0.2,pos=range", "sbc:p=0.2,pos=auto",
    "dgc:p=0.1,pos=rice", "dgc:p=0.1,pos=rans", "dgc:p=0.1,pos=range", "dgc:p=0.1,pos=auto",
    "stc:p=0.2,pos=rice", "stc:p=0.2,pos=rans", "stc:p=0.2,pos=range", "stc:p=0.2,pos=auto",
};

/* Each codec with its defaults, then with each parameter at its ends, then more_specs. */
static bool nth_codec(size_t k, fedcodec *codec) {
    for (size_t c = 0; c < FEDCODEC_COUNT; c++) {
        const fedcodec_param *param = unit->codecs[c]->params;
        size_t params = 0;
        *codec = (fedcodec){.vtable = unit->codecs[c]};
        for (; param[params].key != NULL; params++) {
            codec->param[params] = param[params].preset;
        }
        if (k <= 2 * params) {
            if (k > 0) {
                const fedcodec_param *varied = &param[(k - 1) / 2];
                codec->param[(k - 1) / 2] = k % 2 ? varied->low : varied->high;
            }
            return true;
        }
        k -= 2 * params + 1;
    }
    if (k < sizeof more_specs / sizeof more_specs[0]) {
        *codec = parse(more_specs[k]);
        return true;
    }
    return false;
}

static void on_each_message(size_t n, void (*visit)(const message *m, const float *x)) {
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        for (fill kind = 0; kind < FILL_COUNT; kind++) {
            float *x = make_values(kind, n);
            message m = encode(&codec, x, n);
            visit(&m, x);
            drop(&m);
            free(x);
        }
    }
}

/* Malloc'ed. */
static float *make_nothing(size_t n) {
    float *nothing = malloc((n + 1) * sizeof *nothing);
    assert_non_null(nothing);
    for (size_t i = 0; i < n; i++) {
        nothing[i] = -0.0f; /* so that zeros keep their sign */
    }
    return nothing;
}

static void assert_same(const message *made, const message *m, const char *what, const char *how) {
    if (made->len != m->len || memcmp(made->data, m->data, m->len) != 0 ||
        memcmp(made->residual, m->residual, m->n * sizeof *m->residual) != 0) {
        fail_msg("%s: something else %s", what, how);
    }
}

/* Encode x with a zero residual, guarded or not, and without a residual. All must give the same
 * message. */
static void assert_same_with_x(const message *m, const float *x, const char *what) {
    fedcodec unguarded = m->codec;
    unguarded.unguarded = true;
    message added = encode_with(&m->codec, make_nothing(m->n), x, m->n);
    message spent = encode_with(&unguarded, make_nothing(m->n), x, m->n);
    assert_same(&added, m, what, "with x added to a residual of zeros");
    assert_same(&spent, m, what, "with x added to an unguarded residual of zeros");
    drop(&spent);
    if (!m->codec.vtable->feedback) {
        message alone = encode_with(&m->codec, NULL, x, m->n);
        if (alone.len != m->len || memcmp(alone.data, m->data, m->len) != 0) {
            fail_msg("%s: something else without a residual", what);
        }
        drop(&alone);
    }
    drop(&added);
}

/* The reference's results for some values. */
typedef struct wanted {
    uint8_t *data;
    size_t len;
    float *residual, *decoded;
} wanted;

static void assert_same_on_unit(const fedcodec *codec, const float *x, size_t n,
                                const wanted *reference, const char *what) {
    message m = encode(codec, x, n);
    assert_same_with_x(&m, x, what);
    if (reference->len != m.len || memcmp(reference->data, m.data, m.len) != 0) {
        fail_msg("%s: %zu bytes differ from the reference's %zu", what, m.len, reference->len);
    }
    if (memcmp(reference->residual, m.residual, n * sizeof *x) != 0) {
        fail_msg("%s: the residual differs", what);
    }
    float *y = copy_values(m.residual, n); /* anything */
    assert_fed_ok(fedcodec_decode(codec->vtable, m.data, m.len, y, n));
    if (memcmp(y, reference->decoded, n * sizeof *y) != 0) {
        fail_msg("%s: the decoded values differ", what);
    }
    free(y);
    drop(&m);
}

static void assert_same_as_reference(const fedcodec *codec, fill kind, const float *x, size_t n) {
    char what[160], spec[FEDCODEC_SPEC];
    fedcodec_format(codec, spec);
    wanted reference = {.residual = copy_values(x, n), .decoded = copy_values(x, n)};
    reference.data = fed_reference_encode(codec, reference.residual, n, &reference.len);
    fed_reference_decode(codec->vtable, reference.data, reference.len, reference.decoded, n);
    const fedcodec_unit *each;
    for (size_t k = 0; (each = fedcodec_unit_at(k)) != NULL; k++) {
        fedcodec own = on_unit(codec, each);
        snprintf(what, sizeof what, "%s, %s, %zu values, %s", each->name, spec, n,
                 fill_names[kind]);
        assert_same_on_unit(&own, x, n, &reference, what);
    }
    free(reference.data);
    free(reference.residual);
    free(reference.decoded);
}

static void assert_all_same_as_reference(size_t n) {
    for (fill kind = 0; kind < FILL_COUNT; kind++) {
        float *x = make_values(kind, n);
        fedcodec codec;
        for (size_t k = 0; nth_codec(k, &codec); k++) {
            assert_same_as_reference(&codec, kind, x, n);
        }
        free(x);
    }
}

static void bytes_residual_and_values_are_the_references(void **state) {
    (void)state;
    static const size_t lengths[] = {127, 128, 255, 256, 257, 1000, 5119, 5120, 5121, 8192, 8193};
    for (size_t n = 0; n <= 70; n++) {
        assert_all_same_as_reference(n);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_all_same_as_reference(lengths[i]);
    }
}

static void a_large_tensor_is_coded_as_the_reference_does(void **state) {
    (void)state;
    assert_all_same_as_reference(70003);
}

/* A pool that runs the chunks one by one, the last chunk first. */
static void run_backwards(const fed_pool *self, size_t parts, void (*part)(void *job, size_t k),
                          void *job) {
    (void)self;
    while (parts > 0) {
        part(job, --parts);
    }
}

static void parts_of_a_tensor_make_the_same_message(void **state) {
    (void)state;
    static const size_t lengths[] = {40, 32768, 65521, 100003, 200000};
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            fill kind = (fill)((k + i) % FILL_COUNT);
            const fed_pool pool = {.width = 2 + (k + i) % 6, .run = run_backwards};
            float *x = make_values(kind, lengths[i]);
            fedcodec parted = codec;
            parted.pool = &pool;
            char what[120], spec[FEDCODEC_SPEC];
            fedcodec_format(&codec, spec);
            snprintf(what, sizeof what, "%s, %s, %zu values, %s, pool of %zu", unit->name, spec,
                     lengths[i], fill_names[kind], pool.width);
            message whole = encode(&codec, x, lengths[i]), m = encode(&parted, x, lengths[i]);
            if (m.len != whole.len || memcmp(m.data, whole.data, m.len) != 0 ||
                memcmp(m.residual, whole.residual, m.n * sizeof *x) != 0) {
                fail_msg("%s: not what one thread makes", what);
            }
            assert_same_with_x(&m, x, what);
            drop(&m);
            drop(&whole);
            free(x);
        }
    }
}

static void visit_conservation(const message *m, const float *x) {
    float *y = make_values(FILL_LAPLACE, m->n);
    assert_fed_ok(fedcodec_decode(m->codec.vtable, m->data, m->len, y, m->n));
    for (size_t i = 0; i < m->n; i++) {
        float left = x[i] - y[i];
        assert_true(m->residual[i] == (m->codec.vtable->feedback ? left : 0.0f));
    }
    free(y);
}

static void residual_is_what_was_not_sent(void **state) {
    (void)state;
    on_each_message(333, visit_conservation);
}

static void visit_unguarded(const message *m, const float *x) {
    fedcodec unguarded = m->codec;
    unguarded.unguarded = true;
    message alike = encode(&unguarded, x, m->n);
    assert_same(&alike, m, unguarded.vtable->name, "from an unguarded residual");
    drop(&alike);
}

static void an_unguarded_residual_makes_the_same_message(void **state) {
    (void)state;
    on_each_message(333, visit_unguarded);
}

static void x_is_added_to_the_residual_first(void **state) {
    (void)state;
    enum { N = 300 };
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        float *residual = make_values(FILL_LAPLACE, N), *x = make_values(FILL_TIED, N);
        float *sum = copy_values(residual, N);
        for (size_t i = 0; i < N; i++) {
            sum[i] += x[i];
        }
        message expected = encode(&codec, sum, N);
        uint8_t *dst = malloc(fedcodec_bound(&codec, N));
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        size_t len;
        assert_fed_ok(
            fedcodec_encode(&codec, residual, x, N, work, dst, fedcodec_bound(&codec, N), &len));
        assert_int_equal(len, expected.len);
        assert_memory_equal(dst, expected.data, len);
        assert_memory_equal(residual, expected.residual, N * sizeof *residual);
        drop(&expected);
        free(residual);
        free(x);
        free(sum);
        free(dst);
        free(work);
    }
}

/* With the defaults, and values well above twobit's threshold. (3lc with its largest s overshoots
 * so much that it would take too many rounds.) */
static void feedback_sends_everything_in_the_end(void **state) {
    (void)state;
    enum { N = 200, ROUNDS = 400 };
    for (size_t k = 0; k < FEDCODEC_COUNT; k++) {
        fedcodec codec = parse(unit->codecs[k]->name);
        float *x = make_values(FILL_LAPLACE, N);
        for (size_t i = 0; i < N; i++) {
            x[i] *= 8.0f;
        }
        float *residual = copy_values(x, N);
        double start = 0.0, end = 0.0;
        for (int round = 0; round < ROUNDS; round++) {
            message m = encode(&codec, residual, N);
            memcpy(residual, m.residual, N * sizeof *residual);
            drop(&m);
        }
        for (size_t i = 0; i < N; i++) {
            start += fabs((double)x[i]);
            end += fabs((double)residual[i]);
        }
        assert_true(end < 0.2 * start);
        free(x);
        free(residual);
    }
}

static void nan_and_infinity_are_refused_and_nothing_changes(void **state) {
    (void)state;
    enum { N = 100 };
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX};
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        float *residual = make_values(FILL_LAPLACE, N), *x = make_values(FILL_TIED, N);
        residual[77] = FLT_MAX; /* this plus FLT_MAX overflows */
        float *before = copy_values(residual, N);
        size_t cap = fedcodec_bound(&codec, N), len = 12345;
        uint8_t *dst = calloc(cap, 1);
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            x[77] = bad[i];
            assert_fed_status(fedcodec_encode(&codec, residual, x, N, work, dst, cap, &len),
                              FED_ENONFINITE);
            assert_memory_equal(residual, before, N * sizeof *before);
            assert_int_equal(len, 12345);
        }
        residual[3] = NAN;
        assert_fed_status(fedcodec_encode(&codec, residual, NULL, N, work, dst, cap, &len),
                          FED_ENONFINITE);
        if (!codec.vtable->feedback) {
            assert_fed_status(fedcodec_encode(&codec, NULL, residual, N, work, dst, cap, &len),
                              FED_ENONFINITE);
        } else {
            assert_fed_status(fedcodec_encode(&codec, NULL, x, N, work, dst, cap, &len),
                              FED_EINVAL);
        }
        assert_int_equal(len, 12345);
        free(residual);
        free(x);
        free(before);
        free(dst);
        free(work);
    }
}

static void nan_in_any_part_is_found(void **state) {
    (void)state;
    enum { N = 70000 };
    const fed_pool pool = {.width = 4, .run = run_backwards};
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        codec.pool = &pool;
        float *residual = make_values(FILL_LAPLACE, N), *x = make_values(FILL_TIED, N);
        float *before = copy_values(residual, N);
        size_t cap = fedcodec_bound(&codec, N), len;
        uint8_t *dst = malloc(cap);
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        for (size_t at = 0; at < N; at += 17471) {
            float good = x[at];
            x[at] = NAN;
            assert_fed_status(fedcodec_encode(&codec, residual, x, N, work, dst, cap, &len),
                              FED_ENONFINITE);
            assert_memory_equal(residual, before, N * sizeof *before);
            if (!codec.vtable->feedback) {
                assert_fed_status(fedcodec_encode(&codec, NULL, x, N, work, dst, cap, &len),
                                  FED_ENONFINITE);
            }
            x[at] = good;
        }
        free(residual);
        free(x);
        free(before);
        free(dst);
        free(work);
    }
}

static void an_unguarded_residual_is_refused_too(void **state) {
    (void)state;
    enum { N = 70000 };
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    const fed_pool pool = {.width = 4, .run = run_backwards};
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        codec.unguarded = true;
        float *before = make_values(FILL_LAPLACE, N), *x = make_values(FILL_TIED, N);
        float *residual = copy_values(before, N);
        size_t cap = fedcodec_bound(&codec, N), len = 12345;
        uint8_t *dst = malloc(cap);
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        for (size_t i = 0; i < 4; i++) {
            const size_t at = i * 17471 + 5;
            codec.pool = i % 2 == 0 ? &pool : NULL;
            memcpy(residual, before, N * sizeof *residual);
            residual[at] = bad[i];
            assert_fed_status(fedcodec_encode(&codec, residual, NULL, N, work, dst, cap, &len),
                              FED_ENONFINITE);
            float good = x[at];
            memcpy(residual, before, N * sizeof *residual);
            x[at] = bad[i];
            assert_fed_status(fedcodec_encode(&codec, residual, x, N, work, dst, cap, &len),
                              FED_ENONFINITE);
            x[at] = good;
        }
        assert_int_equal(len, 12345);
        free(before);
        free(residual);
        free(x);
        free(dst);
        free(work);
    }
}

static void too_small_a_buffer_is_refused_and_nothing_changes(void **state) {
    (void)state;
    enum { N = 100 };
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        float *residual = make_values(FILL_LAPLACE, N);
        float *before = copy_values(residual, N);
        size_t cap = fedcodec_bound(&codec, N), len = 12345;
        uint8_t *dst = malloc(cap);
        void *work = malloc(fedcodec_work_size(&codec, N) + 1);
        assert_fed_status(fedcodec_encode(&codec, residual, before, N, work, dst, cap - 1, &len),
                          FED_ENOSPC);
        assert_memory_equal(residual, before, N * sizeof *before);
        assert_int_equal(len, 12345);
        free(residual);
        free(before);
        free(dst);
        free(work);
    }
}

static void parameters_out_of_range_are_refused(void **state) {
    (void)state;
    float residual[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    uint8_t dst[64];
    uint64_t work[8192];
    size_t len;
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        const fedcodec_param *param = codec.vtable->params;
        for (size_t i = 0; param[i].key != NULL; i++) {
            const double bad[] = {param[i].names != NULL ? -1.0 : param[i].low * 0.99,
                                  param[i].high * 1.01, (double)NAN};
            for (size_t j = 0; j < 3; j++) {
                fedcodec wrong = codec;
                wrong.param[i] = bad[j];
                assert_fed_status(
                    fedcodec_encode(&wrong, residual, NULL, 4, work, dst, sizeof dst, &len),
                    FED_EINVAL);
            }
        }
    }
}

static void visit_truncation(const message *m, const float *x) {
    (void)x;
    float *y = make_values(FILL_LAPLACE, m->n), *before = copy_values(y, m->n);
    for (size_t len = 0; len < m->len; len++) {
        uint8_t *cut = malloc(len + (len == 0));
        memcpy(cut, m->data, len);
        assert_fed_status(fedcodec_decode(m->codec.vtable, cut, len, y, m->n), FED_EFORMAT);
        free(cut);
    }
    assert_memory_equal(y, before, m->n * sizeof *y);
    free(y);
    free(before);
}

static void a_message_cut_anywhere_is_refused(void **state) {
    (void)state;
    on_each_message(97, visit_truncation);
}

static void visit_trailing(const message *m, const float *x) {
    (void)x;
    float *y = make_values(FILL_LAPLACE, m->n);
    uint8_t *longer = malloc(m->len + 1);
    memcpy(longer, m->data, m->len);
    for (unsigned byte = 0; byte < 256; byte++) {
        longer[m->len] = (uint8_t)byte;
        assert_fed_status(fedcodec_decode(m->codec.vtable, longer, m->len + 1, y, m->n),
                          FED_EFORMAT);
    }
    free(longer);
    free(y);
}

static void a_trailing_byte_is_refused(void **state) {
    (void)state;
    on_each_message(97, visit_trailing);
}

/* A changed message is refused, or it is a message of other values. Then these are finite, max_abs
 * bounds them, and the reference agrees. */
static void try_changed(const message *m, const uint8_t *data) {
    float max_abs = -1.0f;
    float *y = make_values(FILL_LAPLACE, m->n), *expected = copy_values(y, m->n);
    const fedcodec_vtable *codec = m->codec.vtable;
    fed_status status = codec->check(data, m->len, m->n, &max_abs);
    assert_fed_status(fedcodec_decode(codec, data, m->len, y, m->n), status);
    if (status == FED_OK) {
        fed_reference_decode(codec, data, m->len, expected, m->n);
        float most = 0.0f;
        for (size_t i = 0; i < m->n; i++) {
            assert_true(y[i] == expected[i]);
            most = fmaxf(most, fabsf(y[i]));
        }
        assert_true(most == max_abs && isfinite(most));
    } else {
        assert_fed_status(status, FED_EFORMAT);
        assert_memory_equal(y, expected, m->n * sizeof *y);
        assert_true(max_abs == -1.0f);
    }
    free(y);
    free(expected);
}

static void visit_flips(const message *m, const float *x) {
    (void)x;
    for (size_t bit = 0; bit < 8 * m->len; bit++) {
        m->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_changed(m, m->data);
        m->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void a_flipped_bit_is_refused_or_decodes_within_bounds(void **state) {
    (void)state;
    on_each_message(67, visit_flips);
}

static void random_bytes_are_refused_or_decode_within_bounds(void **state) {
    (void)state;
    fed_rng rng;
    fed_rng_init(&rng, 7, 0, 0);
    for (size_t c = 0; c < FEDCODEC_COUNT; c++) {
        for (int i = 0; i < 20000; i++) {
            message m = {.codec.vtable = unit->codecs[c]};
            m.n = fed_rng_below(&rng, 40);
            m.len = fed_rng_below(&rng, 20);
            m.data = malloc(m.len + (m.len == 0));
            for (size_t k = 0; k < m.len; k++) {
                /* Often use small bytes, since counts and parameters are small. */
                m.data[k] = (uint8_t)fed_rng_below(&rng, fed_rng_below(&rng, 2) ? 256 : 4);
            }
            try_changed(&m, m.data);
            free(m.data);
        }
    }
}

static void a_message_is_for_its_number_of_values_only(void **state) {
    (void)state;
    fedcodec codec;
    float *x = make_values(FILL_LAPLACE, 100), y[110];
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        message m = encode(&codec, x, 100);
        fed_status status = fedcodec_decode(codec.vtable, m.data, m.len, y, 1);
        /* sbc's message only bounds n from below, and randk's of one value not even that. */
        assert_true(status == FED_EFORMAT || (codec.vtable->id == FEDCODEC_ID_randk && m.len == 9));
        drop(&m);
    }
    free(x);
}

static void visit_axpy(const message *m, const float *x) {
    (void)x;
    float *decoded = make_values(FILL_LAPLACE, m->n), *y = make_values(FILL_TIED, m->n);
    float *before = copy_values(y, m->n);
    assert_fed_ok(fedcodec_decode(m->codec.vtable, m->data, m->len, decoded, m->n));
    assert_fed_ok(fedcodec_axpy(m->codec.vtable, m->data, m->len, 0.37f, y, m->n));
    for (size_t i = 0; i < m->n; i++) {
        float product = 0.37f * decoded[i];
        float expected = before[i] + product;
        assert_true(y[i] == expected);
    }
    free(decoded);
    free(y);
    free(before);
}

static void axpy_adds_the_decoded_values(void **state) {
    (void)state;
    on_each_message(129, visit_axpy);
}

static void visit_fold(const message *m, const float *x) {
    (void)x;
    float *decoded = make_values(FILL_LAPLACE, m->n), max_abs = 0.0f;
    int64_t *acc = malloc((m->n + 1) * sizeof *acc);
    for (size_t i = 0; i < m->n; i++) {
        acc[i] = (int64_t)i - 50;
    }
    assert_fed_ok(fedcodec_decode(m->codec.vtable, m->data, m->len, decoded, m->n));
    assert_fed_ok(m->codec.vtable->check(m->data, m->len, m->n, &max_abs));
    bool fits = max_abs <= FEDCODEC_FOLD_LIMIT;
    assert_fed_status(fedcodec_fold(m->codec.vtable, m->data, m->len, 321, acc, m->n),
                      fits ? FED_OK : FED_ERANGE);
    for (size_t i = 0; i < m->n; i++) {
        int64_t added = fits ? 321 * (int64_t)rint(ldexp((double)decoded[i], 30)) : 0;
        assert_int_equal(acc[i], (int64_t)i - 50 + added);
    }
    free(acc);
    free(decoded);
}

static void fold_adds_the_rounded_values(void **state) {
    (void)state;
    on_each_message(129, visit_fold);
}

static void the_order_of_folds_does_not_matter(void **state) {
    (void)state;
    enum { N = 64, MESSAGES = 5 };
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        static const fill kinds[MESSAGES] = {FILL_LAPLACE, FILL_TIED, FILL_NEGATIVE, FILL_SPARSE,
                                             FILL_DENORMAL};
        int64_t forth[N] = {0}, back[N] = {0};
        message m[MESSAGES];
        for (int i = 0; i < MESSAGES; i++) {
            float *x = make_values(kinds[i], N);
            m[i] = encode(&codec, x, N);
            free(x);
            assert_fed_ok(fedcodec_fold(codec.vtable, m[i].data, m[i].len, 1000 + i, forth, N));
        }
        for (int i = MESSAGES; i-- > 0;) {
            assert_fed_ok(fedcodec_fold(codec.vtable, m[i].data, m[i].len, 1000 + i, back, N));
            drop(&m[i]);
        }
        assert_memory_equal(forth, back, sizeof forth);
    }
}

static void fold_refuses_weights_and_values_that_could_overflow(void **state) {
    (void)state;
    fedcodec codec;
    for (size_t k = 0; nth_codec(k, &codec); k++) {
        float fits[3] = {16.0f, -16.0f, 16.0f}, past[3] = {17.0f, 17.0f, 17.0f}, max_abs = 0.0f;
        int64_t acc[3] = {1, 2, 3};
        if (codec.vtable->id == FEDCODEC_ID_threelc) { /* 3lc scales the largest value by s */
            fits[0] = fits[1] = fits[2] = (float)(16.0 / codec.param[0]) * 0.999f;
        }
        message m = encode(&codec, fits, 3), n = encode(&codec, past, 3);
        const fedcodec_vtable *v = codec.vtable;
        assert_fed_status(fedcodec_fold(v, m.data, m.len, 0, acc, 3), FED_ERANGE);
        assert_fed_status(fedcodec_fold(v, m.data, m.len, -1, acc, 3), FED_ERANGE);
        assert_fed_status(fedcodec_fold(v, m.data, m.len, FEDCODEC_FOLD_WEIGHT, acc, 3),
                          FED_ERANGE);
        assert_fed_ok(v->check(n.data, n.len, 3, &max_abs)); /* twobit and trunc may send less */
        if (max_abs > FEDCODEC_FOLD_LIMIT) {
            assert_fed_status(fedcodec_fold(v, n.data, n.len, 1, acc, 3), FED_ERANGE);
        }
        assert_true(acc[0] == 1 && acc[1] == 2 && acc[2] == 3);
        assert_fed_ok(fedcodec_fold(v, m.data, m.len, FEDCODEC_FOLD_WEIGHT - 1, acc, 3));
        drop(&m);
        drop(&n);
    }
}

int main(void) {
    const struct CMUnitTest of_all_units[] = {
        cmocka_unit_test(bytes_residual_and_values_are_the_references),
        cmocka_unit_test(a_large_tensor_is_coded_as_the_reference_does),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_tensor_make_the_same_message),
        cmocka_unit_test(residual_is_what_was_not_sent),
        cmocka_unit_test(an_unguarded_residual_makes_the_same_message),
        cmocka_unit_test(x_is_added_to_the_residual_first),
        cmocka_unit_test(feedback_sends_everything_in_the_end),
        cmocka_unit_test(nan_and_infinity_are_refused_and_nothing_changes),
        cmocka_unit_test(nan_in_any_part_is_found),
        cmocka_unit_test(an_unguarded_residual_is_refused_too),
        cmocka_unit_test(too_small_a_buffer_is_refused_and_nothing_changes),
        cmocka_unit_test(parameters_out_of_range_are_refused),
        cmocka_unit_test(a_message_cut_anywhere_is_refused),
        cmocka_unit_test(a_trailing_byte_is_refused),
        cmocka_unit_test(a_flipped_bit_is_refused_or_decodes_within_bounds),
        cmocka_unit_test(random_bytes_are_refused_or_decode_within_bounds),
        cmocka_unit_test(a_message_is_for_its_number_of_values_only),
        cmocka_unit_test(axpy_adds_the_decoded_values),
        cmocka_unit_test(fold_adds_the_rounded_values),
        cmocka_unit_test(the_order_of_folds_does_not_matter),
        cmocka_unit_test(fold_refuses_weights_and_values_that_could_overflow),
    };
    unit = fedcodec_unit_at(0);
    int failed = cmocka_run_group_tests_name("all units", of_all_units, NULL, NULL);
    for (size_t k = 0; (unit = fedcodec_unit_at(k)) != NULL; k++) {
        failed += cmocka_run_group_tests_name(unit->name, tests, NULL, NULL);
    }
    return failed;
}
