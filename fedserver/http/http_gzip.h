/* Compresses answers with zlib. A build without zlib compresses nothing. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_GZIP_H
#define FEDSERVER_HTTP_GZIP_H

#include "fedserver/fedserver.h"

/** Number of compressed bodies that are cached. */
enum { HTTP_GZIP_KEPT = 4 };
typedef struct http_gzip {
    struct {
        uint64_t digest; /* digest of the uncompressed body */
        fedserver_blob *blob;
    } kept[HTTP_GZIP_KEPT];
    unsigned oldest;
} http_gzip;

void http_gzip_free(http_gzip *gzip);

/** Does the header Accept-Encoding (NULL: none) allow gzip? */
bool http_gzip_accepted(const char *accept);

/** Get the compressed body, a reference that the caller owns. NULL: the body is small or would not
 * become smaller, or there is no memory or no zlib. */
fedserver_blob *http_gzip_blob(http_gzip *gzip, const fedserver_blob *body);

#endif
