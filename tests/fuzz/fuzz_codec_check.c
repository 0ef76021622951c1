/* Fuzz one codec's decoder: the first byte is the codec's id, the second one picks the number of
 * values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fedcodec/codec.h"

enum { HEAD = 2, IDS = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}

/* What check lets pass decodes to what it says, three ways. */
static void decode_all_ways(const fedcodec_vtable *codec, const uint8_t *src, size_t len, size_t n,
                            float max_abs) {
    float *y = malloc(n * sizeof *y + 1), *sum = calloc(n + 1, sizeof *sum);
    int64_t *acc = calloc(n + 1, sizeof *acc);
    require(y != NULL && sum != NULL && acc != NULL);
    require(fedcodec_decode(codec, src, len, y, n) == FED_OK);
    require(fedcodec_axpy(codec, src, len, 1.0f, sum, n) == FED_OK);
    fed_status folds = max_abs <= FEDCODEC_FOLD_LIMIT ? FED_OK : FED_ERANGE;
    require(fedcodec_fold(codec, src, len, 3, acc, n) == folds);
    float most = 0.0f;
    for (size_t i = 0; i < n; i++) {
        require(y[i] == sum[i]);
        require(folds != FED_OK || acc[i] == 3 * (int64_t)rint(ldexp((double)y[i], 30)));
        most = fmaxf(most, fabsf(y[i]));
    }
    require(most == max_abs);
    free(y);
    free(sum);
    free(acc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    const fedcodec_vtable *codec = len < HEAD ? NULL : fedcodec_by_id(data[0] % IDS);
    if (codec == NULL) {
        return 0;
    }
    const size_t root = data[1], n = root * root; /* few values mostly, thousands at times */
    data += HEAD;
    len -= HEAD;
    float max_abs = -1.0f;
    if (codec->check(data, len, n, &max_abs) == FED_OK) {
        decode_all_ways(codec, data, len, n, max_abs);
    } else {
        require(max_abs == -1.0f);
    }
    return 0;
}
