/* The headers of an answer, most of which tell a browser what it may do with it. */
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
    const char *allow;        /* methods that the path takes, with a 405 */
    bool zipped;              /* the body is compressed by gzip */
    const fedserver_response *response;
} http_headers_answer;

/** Takes one header; *value is not "" and is valid for the call only. */
typedef void (*http_headers_put)(void *user, const char *name, const char *value);

void http_headers_each(const http_headers_answer *answer, http_headers_put put, void *user);

/** Headers that a reverse proxy adds to a request that it passes on for another client. The list
 * ends with NULL. */
extern const char *const http_headers_of_proxies[];

#endif
