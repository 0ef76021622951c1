/* Fuzz the decoders of all codecs with every vector unit of this machine. An input: the codec's id,
 * the square root of the number of values, the message. FED_FUZZ_CODEC limits a run to one codec.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <math.h>
#include <stdio.h>

#include "codecs/registry.h"

enum { HEAD = 2, IDS = 32 };

static const fedcodec_vtable *wanted_codec(void) {
    const char *name = getenv("FED_FUZZ_CODEC");
    fedcodec codec = {0};
    fed_error err = {.status = FED_OK};
    if (name != NULL && fedcodec_parse(name, &codec, &err) != FED_OK) {
        fprintf(stderr, "FED_FUZZ_CODEC: %s\n", err.text);
        exit(1);
    }
    return codec.vtable;
}

static bool is_wanted(uint8_t id) {
    static const fedcodec_vtable *wanted;
    static bool is_known;
    if (!is_known) {
        wanted = wanted_codec();
        is_known = true;
    }
    return wanted == NULL || wanted->id == id;
}

static bool all_equal(const float *y, const float *first, size_t n) {
    return n == 0 || memcmp(y, first, n * sizeof *y) == 0;
}

/* Adding a message must be the same as adding its decoded values y. */
static void require_axpy(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                         const float *y, size_t n) {
    const float w = -1.5f, start = 1.0f;
    float *sum = fuzz_allocate(n * sizeof *sum);
    for (size_t i = 0; i < n; i++) {
        sum[i] = start;
    }
    require(fedcodec_axpy(codec, src, len, w, sum, n) == FED_OK);
    for (size_t i = 0; i < n; i++) {
        const float product = w * y[i];
        require(sum[i] == start + product);
    }
    free(sum);
}

static void require_fold(const fedcodec_vtable *codec, const uint8_t *src, size_t len,
                         const float *y, size_t n, float max_abs) {
    const fed_status folds = max_abs <= FEDCODEC_FOLD_LIMIT ? FED_OK : FED_ERANGE;
    int64_t *acc = fuzz_allocate(n * sizeof *acc);
    for (size_t i = 0; i < n; i++) {
        acc[i] = 1;
    }
    require(fedcodec_fold(codec, src, len, 3, acc, n) == folds);
    for (size_t i = 0; i < n; i++) {
        require(acc[i] == 1 + (folds == FED_OK ? 3 * (int64_t)rint((double)y[i] * 0x1p30) : 0));
    }
    free(acc);
}

/* A message that the check accepts must decode to values with the largest magnitude that the check
 * found, and to the same bits on all vector units. */
static void require_decoded(const fedcodec_vtable *codec, const uint8_t *src, size_t len, size_t n,
                            float max_abs, const float *first) {
    float *y = fuzz_allocate(n * sizeof *y), most = 0.0f;
    require(fedcodec_decode(codec, src, len, y, n) == FED_OK);
    require(all_equal(y, first, n));
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(y[i]));
    }
    require(most == max_abs);
    require_axpy(codec, src, len, y, n);
    require_fold(codec, src, len, y, n, max_abs);
    free(y);
}

static void require_units_agree(size_t codec, const uint8_t *src, size_t len, size_t n) {
    float *first = fuzz_allocate(n * sizeof *first), max_abs = -1.0f;
    const fedcodec_unit *unit = fedcodec_unit_at(0);
    const fed_status status = unit->codecs[codec]->check(src, len, n, &max_abs);
    require(status == FED_OK ? max_abs >= 0.0f : max_abs == -1.0f);
    require(fedcodec_decode(unit->codecs[codec], src, len, first, n) == status);
    for (size_t k = 0; (unit = fedcodec_unit_at(k)) != NULL; k++) {
        float found = -1.0f;
        require(unit->codecs[codec]->check(src, len, n, &found) == status && found == max_abs);
        if (status == FED_OK) {
            require_decoded(unit->codecs[codec], src, len, n, max_abs, first);
        }
    }
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    if (len < HEAD) {
        return 0;
    }
    const uint8_t id = data[0] % IDS;
    const size_t root = data[1], n = root * root;
    for (size_t k = 0; k < FEDCODEC_COUNT && is_wanted(id); k++) {
        if (fedcodec_at(k)->id == id) {
            require_units_agree(k, data + HEAD, len - HEAD, n);
        }
    }
    return 0;
}
