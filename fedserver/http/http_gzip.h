/* Answers made small for who reads gzip, on zlib; a build without it sends them as they are. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_GZIP_H
#define FEDSERVER_HTTP_GZIP_H

#include "fedserver/fedserver.h"

/** What was compressed last: a page, and a status that several ask for at a time. */
enum { HTTP_GZIP_KEPT = 4 };
typedef struct http_gzip {
    struct {
        uint64_t digest; /* of the bytes before */
        fedserver_blob *blob;
    } kept[HTTP_GZIP_KEPT];
    unsigned oldest;
} http_gzip;

void http_gzip_free(http_gzip *gzip);

/** Does an Accept-Encoding header (NULL: none) take gzip? */
bool http_gzip_accepted(const char *accept);

/** The body compressed: one share, the caller's. NULL: it would hardly be smaller, or can't be. */
fedserver_blob *http_gzip_blob(http_gzip *gzip, const fedserver_blob *body);

#endif
