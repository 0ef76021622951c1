/* Contract of codecs on GPUs: the same messages, residuals, values and refusals as on the
 * processor. Skipped without a device; FED_TEST_DEVICE names one. FED_TEST_SMALL=1: fewer
 * parameters and sizes. FED_TEST_CODEC=TEXT: only specs that begin with TEXT. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>

#include "codec_vectors.h"
#include "codecs/prim/floats.h"
#include "fed/bytes.h"
#include "fed/file.h"
#include "fed/rng.h"
#include "fedcodec/bursts.h"
#include "fedcodec/codec_vtable.h"
#include "fedcodec/gpu_codecs.h"
#include "hard_values.h"
#include "processor_only.h"

enum { SKIPPED = 77, ROUNDS = 3, FEW = 6000, GUARD = 64, MUTANTS = 100, SPECS = 96 };

static fed_gpu *gpu;
static fed_gpu_stream *stream;
static bool is_small;

static const char *const more_specs[] = {
    "twobit:t=0.01",
    "3lc:s=1.75",
    "inceptionn:e=8",
    "inceptionn:e=14",
    "trunc:b=8",
    "trunc:b=24",
    "trunc:b=13",
    "sbc:p=0.2,pos=rice",
    "dgc:p=0.1,pos=rice",
    "stc:p=0.2,pos=rice",
    "sbc:p=0.2,pos=rans",
    "sbc:p=0.2,pos=range",
    "dgc:p=0.1,pos=auto",
    "stc:p=0.01,pos=auto",
    "topk:p=0.5",
    "topk:values=int8",
    "dgc:values=bfloat16",
    "eden:bits=3,bucket=256",
    "eden:bits=2,bucket=128,rotations=2",
    "eden:p=0.008,pos=rice",
    "eden:p=0.3,bucket=64,rotations=1,pos=golomb",
    "eden:p=0.02,scale=tensor,bucket=256,pos=rice",
    "eden:p=0.9,pos=rice,rotations=1,scale=tensor",
};

static const size_t sizes[] = {0,    1,    2,    3,    4,    5,    6,    255,  256,   257,  1023,
                               1024, 1025, 1279, 1281, 4097, 5119, 5120, 5121, 10241, 70001};

/* The arrays of `host` are on the host, all others on the device. */

typedef struct place {
    fedcodec codec;
    char spec[FEDCODEC_SPEC];
    fedcodec_gpu *on_gpu;
    size_t n, cap;
    float *residual, *x, *y;
    uint8_t *message;
    void *work;
    fedcodec_gpu_head *head;
    struct {
        float *residual, *x, *y, *theirs;
        uint8_t *message, *other;
        void *work;
    } host;
} place;

static void *on_device(size_t size) {
    void *at = NULL;
    assert_int_equal(fed_gpu_alloc(gpu, size + 1, &at), FED_OK);
    assert_int_equal(fed_gpu_fill(stream, at, 0xa5, size + 1), FED_OK);
    return at;
}

static void up(void *to, const void *from, size_t size) {
    assert_int_equal(fed_gpu_copy(stream, to, from, size, FED_GPU_UP), FED_OK);
}

/* Copy from the device without waiting, so that several copies share one wait. */
static void later(void *to, const void *from, size_t size) {
    assert_int_equal(fed_gpu_copy(stream, to, from, size, FED_GPU_DOWN), FED_OK);
}

static void wait_all(void) {
    assert_int_equal(fed_gpu_sync(stream), FED_OK);
}

static void down(void *to, const void *from, size_t size) {
    later(to, from, size);
    wait_all();
}

static void reserve(place *p, size_t n, size_t cap) {
    const size_t bytes = (n + 1) * sizeof(float);
    p->cap = cap;
    p->n = n;
    p->residual = on_device(bytes);
    p->x = on_device(bytes);
    p->y = on_device(bytes);
    p->message = on_device(cap + GUARD);
    p->work = on_device(fedcodec_gpu_work_size(p->on_gpu, n));
    p->head = on_device(sizeof *p->head);
    p->host.residual = test_calloc(n + 1, sizeof(float));
    p->host.x = test_calloc(n + 1, sizeof(float));
    p->host.y = test_calloc(n + 1, sizeof(float));
    p->host.theirs = test_calloc(n + 1, sizeof(float));
    p->host.message = test_malloc(cap + GUARD);
    p->host.other = test_malloc(cap + GUARD);
    p->host.work = test_malloc(fedcodec_work_size(&p->codec, n) + 1);
    assert_int_equal(fed_gpu_fill(stream, p->residual, 0, bytes), FED_OK);
}

static void release(place *p) {
    void *const all[] = {p->residual, p->x, p->y, p->message, p->work, p->head};
    wait_all();
    void *const here[] = {p->host.residual, p->host.x,     p->host.y,   p->host.theirs,
                          p->host.message,  p->host.other, p->host.work};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        fed_gpu_free(gpu, all[k]);
    }
    for (size_t k = 0; k < sizeof here / sizeof here[0]; k++) {
        test_free(here[k]);
    }
}

static bool has_feedback(const place *p) {
    return fedcodec_has_feedback(p->codec.vtable);
}

static fedcodec_gpu_head head_of(const place *p) {
    fedcodec_gpu_head head;
    down(&head, p->head, sizeof head);
    return head;
}

static void same_values(const place *p, const char *what, const float *here) {
    for (size_t i = 0; i < p->n; i++) {
        uint32_t got, wanted;
        memcpy(&got, &p->host.theirs[i], sizeof got);
        memcpy(&wanted, &here[i], sizeof wanted);
        if (got != wanted) {
            fail_msg("%s, n %zu, %s: %s[%zu] is %a instead of %a", p->spec, p->n, what, what, i,
                     (double)p->host.theirs[i], (double)here[i]);
        }
    }
}

/* Encode x (NULL: only the residual) on the host and on the device. Returns the host's status. */
static fed_status encode_both(place *p, const char *what, const float *x, size_t *len) {
    float *r = has_feedback(p) ? p->host.residual : NULL;
    fed_status status = fedcodec_encode(&p->codec, r, x, p->n, p->host.work, p->host.message,
                                        fedcodec_bound(&p->codec, p->n), len);
    if (x != NULL) {
        up(p->x, x, p->n * sizeof *x);
    }
    assert_int_equal(fed_gpu_fill(stream, p->message + p->cap, 0xa5, GUARD), FED_OK);
    assert_int_equal(fedcodec_gpu_encode(p->on_gpu, stream, r != NULL ? p->residual : NULL,
                                         x != NULL ? p->x : NULL, p->n, p->work, p->message, p->cap,
                                         p->head),
                     FED_OK);
    fedcodec_gpu_head head;
    later(&head, p->head, sizeof head);
    later(p->host.other, p->message, p->cap + GUARD);
    later(p->host.theirs, p->residual, p->n * sizeof(float));
    wait_all();
    if (head.status != (uint32_t)status || head.len != (status == FED_OK ? *len : 0)) {
        fail_msg("%s, n %zu, %s: status %u and %u bytes instead of %d and %zu", p->spec, p->n, what,
                 head.status, head.len, (int)status, *len);
    }
    for (size_t k = 0; k < GUARD; k++) {
        assert_int_equal(p->host.other[p->cap + k], 0xa5);
    }
    for (size_t k = 0; k < head.len; k++) {
        if (p->host.other[k] != p->host.message[k]) {
            fail_msg("%s, n %zu, %s: byte %zu of %zu is %02x instead of %02x", p->spec, p->n, what,
                     k, *len, p->host.other[k], p->host.message[k]);
        }
    }
    if (r != NULL && status == FED_OK) {
        same_values(p, what, r);
    }
    return status;
}

static void number_y(const place *p) {
    for (size_t i = 0; i < p->n; i++) {
        p->host.y[i] = (float)i + 1.0F;
    }
}

static void fill_y(const place *p) {
    number_y(p);
    memcpy(p->host.theirs, p->host.y, p->n * sizeof *p->host.y);
    up(p->y, p->host.theirs, p->n * sizeof *p->host.y);
}

/* Decode host.message on the host and on the device, which must give the same status and values.
 * send: copy the message to the device first. */
static bool read_both(place *p, const char *what, size_t len, bool send) {
    const fedcodec_gpu_head changed = {.status = 99, .len = (uint32_t)len};
    if (send) {
        up(p->message, p->host.message, len);
        up(p->head, &changed, sizeof changed);
    }
    bool good = true;
    for (unsigned set = 0; set < 2; set++) {
        fill_y(p);
        fed_status status =
            set ? fedcodec_decode(p->codec.vtable, p->host.message, len, p->host.y, p->n)
                : fedcodec_axpy(p->codec.vtable, p->host.message, len, 0.3F, p->host.y, p->n);
        assert_int_equal(set ? fedcodec_gpu_decode(p->on_gpu, stream, p->message, p->cap, p->head,
                                                   p->y, p->n, p->work)
                             : fedcodec_gpu_axpy(p->on_gpu, stream, p->message, p->cap, p->head,
                                                 0.3F, p->y, p->n, p->work),
                         FED_OK);
        fedcodec_gpu_head head;
        later(&head, p->head, sizeof head);
        later(p->host.theirs, p->y, p->n * sizeof(float));
        wait_all();
        if (head.status == FED_EVERSION && is_processors(&p->codec, p->host.message, len, p->n)) {
            number_y(p);
            status = FED_EVERSION;
        }
        if (head.status != (uint32_t)status) {
            fail_msg("%s, n %zu, %zu bytes, %s: status %u instead of %d", p->spec, p->n, len, what,
                     head.status, (int)status);
        }
        same_values(p, what, p->host.y);
        good = good && status == FED_OK;
    }
    return good;
}

static void same_rounds(place *p, fill kind) {
    memset(p->host.residual, 0, p->n * sizeof(float));
    assert_int_equal(fed_gpu_fill(stream, p->residual, 0, p->n * sizeof(float)), FED_OK);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const bool empty = round == ROUNDS - 1 && has_feedback(p);
        size_t len = 0;
        make_values(kind, p->n, round, p->host.x);
        if (encode_both(p, fill_names[kind], empty ? NULL : p->host.x, &len) != FED_OK) {
            return;
        }
        assert_true(read_both(p, fill_names[kind], len, false));
        if (!has_feedback(p)) {
            return;
        }
    }
}

/* Set *codec to the k-th codec to try. Returns false if there are no more. */
static bool nth_codec(size_t k, fedcodec *codec) {
    for (size_t c = 0; fedcodec_at(c) != NULL; c++) {
        const fedcodec_vtable *vtable = fedcodec_at(c);
        size_t params = 0;
        if (!fedcodec_gpu_has(vtable)) {
            continue;
        }
        *codec = (fedcodec){.vtable = vtable};
        for (; vtable->params[params].key != NULL; params++) {
            codec->param[params] = vtable->params[params].preset;
        }
        if (k <= 2 * params) {
            if (k > 0) {
                const fedcodec_param *varied = &vtable->params[(k - 1) / 2];
                codec->param[(k - 1) / 2] = k % 2 != 0 ? varied->low : varied->high;
            }
            return true;
        }
        k -= 2 * params + 1;
    }
    if (k >= sizeof more_specs / sizeof more_specs[0]) {
        return false;
    }
    assert_int_equal(fedcodec_parse(more_specs[k], codec, NULL), FED_OK);
    return true;
}

static bool is_preset(const fedcodec *codec) {
    for (size_t k = 0; codec->vtable->params[k].key != NULL; k++) {
        if (codec->param[k] != codec->vtable->params[k].preset) {
            return false;
        }
    }
    return true;
}

/* Is this a codec for FED_TEST_SMALL? Some of eden's kernels run only for p < 1. */
static bool is_quick(const fedcodec *codec) {
    const bool few = is_eden(codec) && codec->param[EDEN_PARAM_P] < 1.0;
    return is_preset(codec) || (few && codec->param[EDEN_PARAM_ROTATIONS] == EDEN_ROTATIONS_ONE);
}

/* Returns false if these parameters do not run on the device. Default parameters must. */
static bool open_codec(place *p) {
    fed_error err = {0};
    if (!fedcodec_gpu_has(p->codec.vtable)) {
        return false;
    }
    fed_status status = fedcodec_gpu_new(gpu, &p->codec, &p->on_gpu, &err);
    if (status == FED_ENOTFOUND && !is_preset(&p->codec)) {
        assert_true(strlen(err.text) > 10);
        return false;
    }
    if (status != FED_OK) {
        fail_msg("%s: %s", p->spec, err.text);
    }
    return true;
}

/* Each codec is opened once, because compiling its kernels takes long. */
static place opened[SPECS];
static size_t specs;

/* Is this codec to be tried? Some parameters do not go together, and some codecs come twice. */
static bool is_wanted(const place *p) {
    const char *wanted = getenv("FED_TEST_CODEC");
    const fedcodec_vtable *vtable = p->codec.vtable;
    for (size_t k = 0; k < specs; k++) {
        if (strcmp(opened[k].spec, p->spec) == 0) {
            return false;
        }
    }
    return (wanted == NULL || strncmp(p->spec, wanted, strlen(wanted)) == 0) &&
           (!is_small || is_quick(&p->codec)) &&
           (vtable->conflict == NULL || vtable->conflict(p->codec.param) == NULL);
}

static int open_codecs(void **state) {
    (void)state;
    place p = {0};
    for (size_t k = 0; nth_codec(k, &p.codec); k++) {
        fedcodec_format(&p.codec, p.spec);
        if (is_wanted(&p) && open_codec(&p)) {
            assert_true(specs < SPECS);
            opened[specs++] = p;
        }
    }
    return 0;
}

static int close_codecs(void **state) {
    (void)state;
    while (specs > 0) {
        fedcodec_gpu_free(opened[--specs].on_gpu);
    }
    return 0;
}

static void on_each_codec(void (*visit)(place *p)) {
    for (size_t k = 0; k < specs; k++) {
        visit(&opened[k]);
    }
}

static void same_bits(place *p) {
    const size_t step = is_preset(&p->codec) ? 1 : 3;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i += step) {
        reserve(p, sizes[i], fedcodec_bound(&p->codec, sizes[i]));
        for (fill kind = 0; kind < FILL_COUNT; kind++) {
            if (sizes[i] <= FEW || kind == FILL_GAUSS || kind == FILL_SPARSE) {
                same_rounds(p, kind);
            }
        }
        release(p);
    }
}

/* Test codecs that keep data of each tile with a large number of tiles. */
static void same_bits_of_many(place *p) {
    enum { MANY = 1500001 };
    const bool has_tiles =
        fedcodec_gpu_work_size(p->on_gpu, MANY) > fedcodec_gpu_work_size(p->on_gpu, 1);
    if (has_tiles && is_preset(&p->codec)) {
        reserve(p, MANY, fedcodec_bound(&p->codec, MANY));
        same_rounds(p, FILL_GAUSS);
        release(p);
    }
}

static void many_values_have_the_processors_bits(void **state) {
    (void)state;
    on_each_codec(same_bits_of_many);
}

static void each_codec_gives_the_processors_bits(void **state) {
    (void)state;
    on_each_codec(same_bits);
}

/* A message of eden begins with a digest of the values, which has other steps for each range of
 * lengths. */
static void digests_of_all_lengths(void **state) {
    enum { MOST = 330 };
    (void)state;
    for (size_t k = 0; k < specs; k++) {
        place *p = &opened[k];
        for (size_t n = 0; n <= MOST && is_eden(&p->codec) && is_preset(&p->codec); n++) {
            size_t len = 0;
            reserve(p, n, fedcodec_bound(&p->codec, n));
            make_values(FILL_GAUSS, n, 0, p->host.x);
            assert_int_equal(encode_both(p, "a length", p->host.x, &len), FED_OK);
            release(p);
        }
    }
}

static void same_constant(place *p) {
    size_t len = 0;
    memset(p->host.residual, 0, p->n * sizeof(float));
    assert_int_equal(fed_gpu_fill(stream, p->residual, 0, p->n * sizeof(float)), FED_OK);
    for (size_t i = 0; i < p->n; i++) {
        p->host.x[i] = 1.0F;
    }
    assert_int_equal(encode_both(p, "a constant", p->host.x, &len), FED_OK);
    assert_true(read_both(p, "a constant", len, false));
    for (size_t part = 1; part < 4; part++) {
        p->host.message[len - 1 - len / 5 * part] ^= (uint8_t)(1U << part);
        (void)read_both(p, "a constant, changed", len, true);
    }
}

static void left_to_the_processor(const char *plain, const char *narrow) {
    static const size_t counts[] = {1, 2, 4, 9, 700, 20000};
    place p = {0};
    assert_int_equal(fedcodec_parse(plain, &p.codec, NULL), FED_OK);
    assert_true(open_codec(&p));
    const fedcodec reader = p.codec;
    fedcodec writer;
    assert_int_equal(fedcodec_parse(narrow, &writer, NULL), FED_OK);
    fedcodec_format(&writer, p.spec);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t len = 0;
        p.codec = writer;
        reserve(&p, counts[c], fedcodec_bound(&writer, counts[c]));
        make_values(FILL_GAUSS, p.n, 0, p.host.x);
        assert_int_equal(fedcodec_encode(&p.codec, has_feedback(&p) ? p.host.residual : NULL,
                                         p.host.x, p.n, p.host.work, p.host.message, p.cap, &len),
                         FED_OK);
        p.codec = reader;
        assert_false(read_both(&p, "narrow", len, true));
        assert_int_equal(head_of(&p).status, FED_EVERSION);
        release(&p);
    }
    fedcodec_gpu_free(p.on_gpu);
}

static void messages_of_some_kinds_are_left_to_the_processor(void **state) {
    (void)state;
    left_to_the_processor("topk:p=0.5", "topk:p=0.5,values=bfloat16");
    left_to_the_processor("topk:p=0.5", "topk:p=0.5,values=int8");
    left_to_the_processor("dgc:p=0.5", "dgc:p=0.5,values=bfloat16");
    left_to_the_processor("dgc:p=0.5", "dgc:p=0.5,values=int8");
    left_to_the_processor("eden", "eden:p=0.1");
}

static void long_lists_of_positions(void **state) {
    static const char *const long_specs[] = {"sbc", "stc:p=0.5", "dgc:p=0.25", "topk",
                                             "eden:p=0.05,pos=rice"};
    enum { MANY = 300001 };
    (void)state;
    for (size_t k = 0; k < sizeof long_specs / sizeof long_specs[0]; k++) {
        place p = {0};
        assert_int_equal(fedcodec_parse(long_specs[k], &p.codec, NULL), FED_OK);
        assert_true(open_codec(&p));
        reserve(&p, MANY, fedcodec_bound(&p.codec, MANY));
        same_rounds(&p, FILL_GAUSS);
        same_rounds(&p, FILL_TIED);
        same_constant(&p);
        release(&p);
        fedcodec_gpu_free(p.on_gpu);
    }
}

/* Half of the values are sent, in a message with far fewer bytes than signs. */
static void padding_after_many_signs_is_checked(void **state) {
    enum { MANY = 300006, BEFORE_SIGNS = 3 + 1 + 4 };
    (void)state;
    place p = {0};
    size_t len = 0;
    fed_reader r;
    assert_int_equal(fedcodec_parse("stc:p=0.5", &p.codec, NULL), FED_OK);
    assert_true(open_codec(&p));
    reserve(&p, MANY, fedcodec_bound(&p.codec, MANY));
    make_values(FILL_GAUSS, MANY, 0, p.host.x);
    assert_int_equal(encode_both(&p, "many signs", p.host.x, &len), FED_OK);
    fed_reader_init(&r, p.host.message, len);
    const size_t count = (size_t)fed_read_varint(&r);
    assert_true(count % 8 != 0 && count > 2 * len);
    p.cap = len;
    assert_true(read_both(&p, "many signs", len, true));
    p.host.message[BEFORE_SIGNS + count / 8] ^= 1;
    assert_false(read_both(&p, "many signs, wrong padding", len, true));
    release(&p);
    fedcodec_gpu_free(p.on_gpu);
}

static void refuses_values(place *p) {
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    enum { N = 3000 };
    reserve(p, N, fedcodec_bound(&p->codec, N));
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        const size_t at[] = {0, 1023, N / 2, N - 1};
        size_t len = 0;
        memset(p->host.residual, 0, N * sizeof(float));
        assert_int_equal(fed_gpu_fill(stream, p->residual, 0, N * sizeof(float)), FED_OK);
        make_values(FILL_GAUSS, N, 0, p->host.x);
        p->host.x[at[k]] = bad[k];
        assert_int_equal(encode_both(p, "not finite", p->host.x, &len), FED_ENONFINITE);
    }
    release(p);
}

static void values_that_are_not_finite_are_refused(void **state) {
    (void)state;
    on_each_codec(refuses_values);
}

static size_t mutate(uint8_t *message, size_t len, size_t cap, fed_rng *rng) {
    const uint32_t way = fed_rng_below(rng, 8);
    const size_t at = len > 0 ? fed_rng_below(rng, (uint32_t)len) : 0;
    if (way == 0 && len > 0) {
        return len - 1;
    }
    if (way == 1 && len < cap) {
        message[len] = (uint8_t)fed_rng_below(rng, 256);
        return len + 1;
    }
    if (len == 0) {
        return 0;
    }
    if (way == 2) {
        return at;
    }
    if (way < 5) {
        message[at % 8 < len ? at % 8 : 0] = (uint8_t)fed_rng_below(rng, 256);
    } else if (way == 5) {
        message[len - 1] ^= (uint8_t)(1U << fed_rng_below(rng, 8));
    } else {
        message[at] ^= (uint8_t)(1U << fed_rng_below(rng, 8));
    }
    return len;
}

static void same_verdicts(place *p) {
    static const size_t counts[] = {0, 3, 14, 700};
    fed_rng rng;
    fed_rng_init(&rng, 5, 6, 7);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const size_t n = counts[c];
        size_t len = 0;
        reserve(p, n, fedcodec_bound(&p->codec, n) + 8);
        uint8_t *good = test_malloc(p->cap);
        make_values(c % 2 == 0 ? FILL_SPARSE : FILL_GAUSS, n, 0, p->host.x);
        p->host.x[n / 2] = 0.75F;
        assert_int_equal(encode_both(p, "to be changed", p->host.x, &len), FED_OK);
        memcpy(good, p->host.message, len);
        for (unsigned k = 0; k < (n > 14 ? MUTANTS : MUTANTS / 5); k++) {
            memcpy(p->host.message, good, len);
            (void)read_both(p, "changed", mutate(p->host.message, len, p->cap, &rng), true);
        }
        const fedcodec_gpu_head head = {.len = (uint32_t)p->cap + 1};
        up(p->head, &head, sizeof head);
        assert_int_equal(
            fedcodec_gpu_decode(p->on_gpu, stream, p->message, p->cap, p->head, p->y, n, p->work),
            FED_OK);
        assert_int_equal(head_of(p).status, FED_EFORMAT);
        test_free(good);
        release(p);
    }
}

static void changed_bytes_get_the_processors_verdict(void **state) {
    (void)state;
    on_each_codec(same_verdicts);
}

/* Return the opened codec with this spec. NULL: it does not run on the device, or FED_TEST_CODEC
 * leaves it out. */
static place *opened_as(const fedcodec *codec) {
    place p = {.codec = *codec};
    fedcodec_format(codec, p.spec);
    for (size_t k = 0; k < specs; k++) {
        if (strcmp(opened[k].spec, p.spec) == 0) {
            return &opened[k];
        }
    }
    if (getenv("FED_TEST_CODEC") != NULL || !open_codec(&p)) {
        return NULL;
    }
    assert_true(specs < SPECS);
    opened[specs] = p;
    return &opened[specs++];
}

static size_t golden;

static void check_vector(const codec_vector *v) {
    fedcodec codec;
    size_t len = 0;
    assert_int_equal(fedcodec_parse(v->spec, &codec, NULL), FED_OK);
    place *p = opened_as(&codec);
    if (p == NULL) {
        return;
    }
    const size_t n = v->input.len, bytes = n * sizeof(float);
    const size_t bound = fedcodec_bound(&codec, n);
    reserve(p, n, bound > v->message.len ? bound : v->message.len);
    const bool feedback = has_feedback(p);
    memcpy(feedback ? p->host.residual : p->host.x, v->input.word, bytes);
    up(p->residual, p->host.residual, bytes);
    wait_all();
    assert_int_equal(encode_both(p, v->name, feedback ? NULL : p->host.x, &len), FED_OK);
    assert_int_equal(len, v->message.len);
    vector_bytes(v->name, &v->message, p->host.message);
    down(p->host.other, p->message, len);
    assert_memory_equal(p->host.other, p->host.message, len);
    assert_true(read_both(p, v->name, len, true));
    down(p->host.theirs, p->y, bytes);
    assert_vector_floats(v, "decoded", p->host.theirs, &v->decoded);
    release(p);
    golden++;
}

static void golden_messages_are_the_devices(void **state) {
    (void)state;
    (void)codec_vectors_each(FED_SOURCE_DIR "/tests/vectors/codecs", check_vector);
    assert_true(golden >= 50 || getenv("FED_TEST_CODEC") != NULL);
}

static void check_input(const char *path) {
    enum { HEAD = 2, IDS = 32 };
    uint8_t *data = NULL;
    size_t len = 0;
    assert_int_equal(fed_file_read(path, 1 << 20, &data, &len, NULL), FED_OK);
    place *p = NULL;
    for (size_t k = 0; len >= HEAD && k < specs && p == NULL; k++) {
        p = fedcodec_by_id(data[0] % IDS) == opened[k].codec.vtable ? &opened[k] : NULL;
    }
    if (p != NULL) {
        const size_t n = (size_t)data[1] * data[1];
        reserve(p, n, len - HEAD);
        memcpy(p->host.message, data + HEAD, len - HEAD);
        (void)read_both(p, path, len - HEAD, true);
        release(p);
        golden++;
    }
    free(data);
}

static void fuzzed_bytes_get_the_processors_verdict(void **state) {
    (void)state;
    const char *folder = FED_SOURCE_DIR "/tests/fuzz/corpus/codec_check";
    char path[600];
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    golden = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(path, sizeof path, "%s/%.300s", folder, entry->d_name);
            check_input(path);
        }
    }
    closedir(dir);
    assert_true(golden >= 50 || getenv("FED_TEST_CODEC") != NULL);
}

static void same_bursts(place *p) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const size_t n = sizes[i];
        size_t len = 0;
        reserve(p, n, fedcodec_bursts_bound(n));
        make_values(i % 2 == 0 ? FILL_HEAVY : FILL_GAUSS, n, 0, p->host.x);
        p->host.x[n / 3] = n > 0 ? NAN : 0.0F;
        assert_int_equal(fedcodec_bursts_encode((int)p->codec.param[0], p->host.x, n,
                                                p->host.message, p->cap, &len),
                         n);
        up(p->x, p->host.x, n * sizeof(float));
        assert_int_equal(
            fedcodec_gpu_bursts(p->on_gpu, stream, p->x, n, p->work, p->message, p->cap, p->head),
            FED_OK);
        const fedcodec_gpu_head head = head_of(p);
        assert_int_equal(head.status, FED_OK);
        assert_int_equal(head.len, len);
        down(p->host.other, p->message, len);
        assert_memory_equal(p->host.other, p->host.message, len);
        release(p);
    }
}

static void bursts_are_the_processors(void **state) {
    (void)state;
    size_t tried = 0;
    for (size_t k = 0; k < specs; k++) {
        fedcodec_gpu_head *head = on_device(sizeof *head);
        uint8_t *none = on_device(1);
        if (strncmp(opened[k].spec, "inceptionn", 10) == 0) {
            same_bursts(&opened[k]);
            tried++;
        } else {
            assert_int_equal(
                fedcodec_gpu_bursts(opened[k].on_gpu, stream, NULL, 0, none, none, 1, head),
                FED_ENOTFOUND);
        }
        wait_all();
        fed_gpu_free(gpu, head);
        fed_gpu_free(gpu, none);
    }
    assert_true(tried >= 4 || getenv("FED_TEST_CODEC") != NULL);
}

static void same_few(place *p) {
    static const size_t few[] = {0, 6, 1000};
    fed_rng rng;
    fed_rng_init(&rng, 5, 6, 8);
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) {
        size_t len = 0;
        reserve(p, few[i], fedcodec_bound(&p->codec, few[i]) + 8);
        make_values(i % 2 == 0 ? FILL_GAUSS : FILL_SPARSE, p->n, 0, p->host.x);
        assert_int_equal(encode_both(p, "few", p->host.x, &len), FED_OK);
        assert_true(read_both(p, "few", len, false));
        for (unsigned k = 0; k < 3; k++) {
            len = mutate(p->host.message, len, p->cap, &rng);
            (void)read_both(p, "few, changed", len, true);
        }
        release(p);
    }
}

static void few_values_and_messages(void **state) {
    (void)state;
    on_each_codec(same_few);
}

static int run_all(void) {
    const struct CMUnitTest small[] = {cmocka_unit_test(few_values_and_messages)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_codec_gives_the_processors_bits),
        cmocka_unit_test(many_values_have_the_processors_bits),
        cmocka_unit_test(digests_of_all_lengths),
        cmocka_unit_test(long_lists_of_positions),
        cmocka_unit_test(padding_after_many_signs_is_checked),
        cmocka_unit_test(messages_of_some_kinds_are_left_to_the_processor),
        cmocka_unit_test(values_that_are_not_finite_are_refused),
        cmocka_unit_test(changed_bytes_get_the_processors_verdict),
        cmocka_unit_test(bursts_are_the_processors),
        cmocka_unit_test(golden_messages_are_the_devices),
        cmocka_unit_test(fuzzed_bytes_get_the_processors_verdict),
    };
    return is_small ? cmocka_run_group_tests(small, open_codecs, close_codecs)
                    : cmocka_run_group_tests(tests, open_codecs, close_codecs);
}

int main(void) {
    const char *name = getenv("FED_TEST_DEVICE");
    fed_error err = {0};
    is_small = getenv("FED_TEST_SMALL") != NULL;
    if (fed_gpu_open(name != NULL ? name : "gpu", NULL, &gpu, &err) != FED_OK) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return name != NULL ? EXIT_FAILURE : SKIPPED;
    }
    fprintf(stderr, "on %s\n", fed_gpu_info_of(gpu)->card);
    int failed = EXIT_FAILURE;
    if (fed_gpu_stream_new(gpu, NULL, &stream) == FED_OK) {
        failed = run_all();
        fed_gpu_stream_free(stream);
    }
    fed_gpu_close(gpu);
    return failed;
}
