/* runs: replace a run of bytes 255 by one such byte and a count. 3lc's messages have such runs
 * where many values are 0. Format: docs/codec-formats.md#runs */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "codecs/stage.h"
#include "fed/bytes.h"

enum { LONG_RUN = 255 };

/* Return the number of bytes before the next byte 255, or len. */
static size_t literals(const uint8_t *src, size_t len) {
    const uint8_t *found = len > 0 ? memchr(src, LONG_RUN, len) : NULL;
    return found != NULL ? (size_t)(found - src) : len;
}

static size_t run_length(const uint8_t *src, size_t len) {
    size_t run = 0;
    while (run < len && src[run] == LONG_RUN) {
        run++;
    }
    return run;
}

static size_t runs_pack(const uint8_t *src, size_t len, uint8_t *dst, size_t cap) {
    fed_writer w;
    fed_writer_fixed(&w, dst, cap);
    for (size_t i = 0; i < len && w.status == FED_OK;) {
        size_t plain = literals(src + i, len - i);
        fed_write_bytes(&w, src + i, plain);
        i += plain;
        size_t run = run_length(src + i, len - i);
        if (run > 0) {
            fed_write_u8(&w, LONG_RUN);
            fed_write_varint(&w, run - 1);
            i += run;
        }
    }
    return w.status == FED_OK ? w.len : 0;
}

/* Between two runs there must be another byte, so that each input has only one packed form. */
static fed_status runs_unpack(const uint8_t *src, size_t len, uint8_t *dst, size_t plain_len) {
    fed_reader r;
    fed_reader_init(&r, src, len);
    size_t made = 0;
    bool after_run = false;
    while (fed_reader_left(&r) > 0) {
        size_t plain = literals(src + r.pos, fed_reader_left(&r));
        FED_REQUIRE(plain > 0 || !after_run, FED_EFORMAT);
        FED_REQUIRE(plain <= plain_len - made, FED_EFORMAT);
        memcpy(dst + made, fed_read_bytes(&r, plain), plain);
        made += plain;
        after_run = fed_reader_left(&r) > 0;
        if (after_run) {
            fed_read_u8(&r);
            uint64_t more = fed_read_varint(&r);
            FED_REQUIRE(r.status == FED_OK && more < plain_len - made, FED_EFORMAT);
            memset(dst + made, LONG_RUN, (size_t)more + 1);
            made += (size_t)more + 1;
        }
    }
    return made == plain_len ? FED_OK : FED_EFORMAT;
}

const fedcodec_stage fedcodec_stage_runs = {
    .id = FEDCODEC_STAGE_ID_runs,
    .name = "runs",
    .pack = runs_pack,
    .unpack = runs_unpack,
};
