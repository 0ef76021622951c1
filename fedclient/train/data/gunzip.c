/* Unpacks gzip files by zlib, which a build may lack. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/train/data/input.h"

#ifndef FEDTRAIN_ZLIB

fed_status fedtrain_gunzip(const char *path, const uint8_t *packed, size_t packed_len, size_t limit,
                           fedtrain_bytes *bytes, fed_error *err) {
    (void)packed, (void)packed_len, (void)limit, (void)bytes;
    return fed_fail(err, FED_EVERSION,
                    "%s is packed, and this program was built without zlib: unpack it (gunzip)",
                    path);
}

#else

#define ZLIB_CONST /* makes zlib's input pointers const */
#include <zlib.h>

#include "fed/bytes.h"

enum { GZIP = 16 + MAX_WBITS, CHUNK = 1 << 18 };

/* Inflate input into w, one chunk of output at most. Returns zlib's status. */
static int inflate_chunk(z_stream *z, fed_writer *w) {
    uint8_t *at = fed_writer_reserve(w, CHUNK);
    if (at == NULL) {
        return Z_MEM_ERROR;
    }
    z->next_out = at;
    z->avail_out = CHUNK;
    int answer = inflate(z, Z_NO_FLUSH);
    fed_writer_advance(w, CHUNK - z->avail_out);
    return answer;
}

static fed_status fail_inflate(int answer, const char *path, const z_stream *z, size_t packed_len,
                               fed_error *err) {
    size_t offset = packed_len - z->avail_in;
    if (answer == Z_MEM_ERROR) {
        return fed_fail(err, FED_ENOMEM, "out of memory while unpacking %s", path);
    }
    if (z->avail_in == 0 && (answer == Z_OK || answer == Z_BUF_ERROR)) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: the packed file ends too early, at byte offset %zu: fetch it again",
                        path, offset);
    }
    return fed_fail(err, FED_EFORMAT, "%s: byte offset %zu: damaged gzip data (%s): fetch it again",
                    path, offset, z->msg != NULL ? z->msg : "not gzip");
}

static fed_status inflate_all(z_stream *z, const char *path, size_t packed_len, size_t limit,
                              fed_writer *w, fed_error *err) {
    for (;;) {
        int answer = inflate_chunk(z, w);
        if (w->len > limit) {
            return fed_fail(err, FED_ERANGE,
                            "%s: the file unpacks to more than the limit of %zu bytes", path,
                            limit);
        }
        if (answer == Z_STREAM_END && z->avail_in == 0) {
            return FED_OK;
        }
        if (answer == Z_STREAM_END) {
            answer = inflateReset(z);
        }
        /* If inflate left room in the output and no input remains, the input ended too early. */
        if (answer != Z_OK || (z->avail_in == 0 && z->avail_out > 0)) {
            return fail_inflate(answer, path, z, packed_len, err);
        }
    }
}

fed_status fedtrain_gunzip(const char *path, const uint8_t *packed, size_t packed_len, size_t limit,
                           fedtrain_bytes *bytes, fed_error *err) {
    if (packed_len > (uInt)-1) {
        return fed_fail(err, FED_ERANGE,
                        "%s: a packed file of more than 4 GiB can't be read: unpack it with gunzip",
                        path);
    }
    z_stream z = {.next_in = packed, .avail_in = (uInt)packed_len};
    if (inflateInit2(&z, GZIP) != Z_OK) {
        return fed_fail(err, FED_ENOMEM, "out of memory while unpacking %s", path);
    }
    fed_writer w;
    fed_writer_growing(&w);
    fed_status status = inflate_all(&z, path, packed_len, limit, &w, err);
    inflateEnd(&z);
    if (status != FED_OK) {
        fed_writer_free(&w);
        return status;
    }
    *bytes = (fedtrain_bytes){.owner = FEDTRAIN_HEAP, .data = w.data, .len = w.len};
    return FED_OK;
}

#endif
