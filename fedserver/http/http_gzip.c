/* Compresses bodies with gzip, and caches the last few results. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedserver/http/http_gzip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fed/hash.h"

#ifdef FEDSERVER_ZLIB
#include <zlib.h>
#endif

enum { SIZE_LEAST = 1400 /* bytes; a smaller body fits into one packet */ };

void http_gzip_free(http_gzip *gzip) {
    for (size_t k = 0; k < HTTP_GZIP_KEPT; k++) {
        fedserver_blob_free(gzip->kept[k].blob);
    }
    *gzip = (http_gzip){.oldest = 0};
}

/* The values "gzip", "gzip;q=0.5" and "*" accept gzip; "gzip;q=0" does not. */
bool http_gzip_accepted(const char *accept) {
    char word[64];
    for (const char *at = accept; at != NULL && *at != '\0'; at += *at == ',') {
        at += strspn(at, " \t");
        const size_t len = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), at);
        const char *weight = strstr(word, "q=");
        const bool refused = weight != NULL && strtod(weight + 2, NULL) <= 0;
        word[strcspn(word, "; \t")] = '\0';
        if (strcasecmp(word, "gzip") == 0 || strcmp(word, "*") == 0) {
            return !refused;
        }
        at += len;
    }
    return false;
}

#ifdef FEDSERVER_ZLIB
static fedserver_blob *compress_bytes(const uint8_t *data, size_t len) {
    /* WINDOW: 15 bits (32 KB), plus 16 for a gzip header */
    enum { LEVEL = 1, WINDOW = 15 + 16, MEMORY = 8 };
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len};
    if (len > UINT32_MAX / 2 ||
        deflateInit2(&z, LEVEL, Z_DEFLATED, WINDOW, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        return NULL;
    }
    fed_writer out;
    fed_writer_growing(&out);
    const size_t most = deflateBound(&z, (uLong)len);
    z.next_out = fed_writer_reserve(&out, most);
    z.avail_out = (uInt)most;
    const bool whole = z.next_out != NULL && deflate(&z, Z_FINISH) == Z_STREAM_END;
    if (whole) {
        fed_writer_advance(&out, most - z.avail_out);
    }
    (void)deflateEnd(&z);
    if (!whole || out.len >= len) {
        fed_writer_free(&out);
        return NULL;
    }
    return fedserver_blob_new(&out);
}
#else
static fedserver_blob *compress_bytes(const uint8_t *data, size_t len) {
    (void)data, (void)len;
    return NULL;
}
#endif

fedserver_blob *http_gzip_blob(http_gzip *gzip, const fedserver_blob *body) {
    size_t len = 0;
    const uint8_t *data = fedserver_blob_data(body, &len);
    if (len < SIZE_LEAST) {
        return NULL;
    }
    const uint64_t digest = fed_digest_bytes(data, len);
    for (size_t k = 0; k < HTTP_GZIP_KEPT; k++) {
        if (gzip->kept[k].blob != NULL && gzip->kept[k].digest == digest) {
            return fedserver_blob_share(gzip->kept[k].blob);
        }
    }
    fedserver_blob *made = compress_bytes(data, len);
    if (made != NULL) {
        fedserver_blob_free(gzip->kept[gzip->oldest].blob);
        gzip->kept[gzip->oldest].digest = digest;
        gzip->kept[gzip->oldest].blob = fedserver_blob_share(made);
        gzip->oldest = (gzip->oldest + 1) % HTTP_GZIP_KEPT;
    }
    return made;
}
