/* The headers of an answer. Most of them tell a browser what it may do with the answer. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_HEADERS_H
#define FEDSERVER_HTTP_HEADERS_H

#include "fedserver/fedserver.h"

/** What an answer's headers depend on. */
typedef struct http_headers_answer {
    fedserver_listener listener; /* browsers come to the front only */
    int status;
    const char *content_type; /* NULL: no body */
    uint32_t retry_after_s;   /* 0: not wanted */
    const char *host;         /* of the request; NULL: it has none */
    const char *allow;        /* HTTP methods that the path takes; used where status is 405 */
    bool zipped;              /* the body is compressed by gzip */
    const fedserver_response *response;
} http_headers_answer;

/** A function that takes one header; *value is not "" and is valid during the call only. */
typedef void (*http_headers_put)(void *user, const char *name, const char *value);

void http_headers_each(const http_headers_answer *answer, http_headers_put put, void *user);

/** Headers that a reverse proxy adds to a request that it passes on for another client. The list
 * ends with NULL. */
extern const char *const http_headers_of_proxies[];

#endif
