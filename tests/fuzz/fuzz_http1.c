/* Fuzz HTTP/1.1 answers: they must be read the same as a whole and in pieces, and the body must
 * stay within the limit. The first byte chooses the size of the pieces. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "fedclient/transports/mbedtls/http1.h"

enum { LIMIT = 4096 };

typedef struct outcome {
    fed_status status;
    size_t used;
    fedclient_http1 h;
    fed_writer answer;
} outcome;

/* Read the data in pieces of `step` bytes, each in memory of exactly its size. */
static void run(outcome *o, const uint8_t *data, size_t len, size_t step) {
    fed_writer_growing(&o->answer);
    fedclient_http1_begin(&o->h, &o->answer, LIMIT);
    o->status = FED_OK;
    for (o->used = 0; o->used < len && o->status == FED_OK;) {
        const size_t take = len - o->used < step ? len - o->used : step;
        size_t used = 0;
        uint8_t *piece = fuzz_copy(data + o->used, take);
        o->status = fedclient_http1_take(&o->h, piece, take, &used);
        free(piece);
        require(o->status != FED_OK || used == take || o->h.state == FEDCLIENT_HTTP1_DONE);
        o->used += used;
        if (used < take) {
            break;
        }
    }
    require(o->answer.len <= LIMIT);
    require(o->status == FED_OK || o->status == FED_ERANGE ||
            (o->status == FED_EFORMAT && o->h.problem != NULL));
    if (o->status == FED_OK) {
        const fed_status end = fedclient_http1_end(&o->h);
        require((end == FED_OK) == (o->h.state == FEDCLIENT_HTTP1_DONE));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    outcome whole, cut;
    if (len == 0) {
        return 0;
    }
    run(&whole, data + 1, len - 1, len);
    run(&cut, data + 1, len - 1, 1 + data[0] % 7U);
    require(whole.status == cut.status && whole.h.state == cut.h.state);
    require(whole.h.status == cut.h.status && whole.h.keep == cut.h.keep);
    require(whole.h.tag == cut.h.tag && whole.h.total == cut.h.total &&
            whole.h.begin == cut.h.begin && whole.h.retry_after_s == cut.h.retry_after_s);
    if (whole.status == FED_OK) {
        require(whole.used == cut.used && whole.answer.len == cut.answer.len);
        require(whole.answer.len == 0 ||
                memcmp(whole.answer.data, cut.answer.data, whole.answer.len) == 0);
    }
    fed_writer_free(&whole.answer);
    fed_writer_free(&cut.answer);
    return 0;
}
