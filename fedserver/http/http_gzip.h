/* Compressed answers for clients that accept gzip, on zlib. A build without zlib sends plain
 * answers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_GZIP_H
#define FEDSERVER_HTTP_GZIP_H

#include "fedserver/fedserver.h"

/** How many compressed bodies are kept: enough for the page's files, and a status that several
 * clients ask for at the same time. */
enum { HTTP_GZIP_KEPT = 4 };
typedef struct http_gzip {
    struct {
        uint64_t digest; /* of the body before compression */
        fedserver_blob *blob;
    } kept[HTTP_GZIP_KEPT];
    unsigned oldest;
} http_gzip;

void http_gzip_free(http_gzip *gzip);

/** Does the header Accept-Encoding (NULL: none) allow gzip? */
bool http_gzip_accepted(const char *accept);

/** Get the compressed body: one reference, which the caller owns. NULL: the body would hardly be
 * smaller, or can't be compressed. */
fedserver_blob *http_gzip_blob(http_gzip *gzip, const fedserver_blob *body);

#endif
