/* The PROXY protocol, versions 1 and 2 (HAProxy's proxy-protocol.txt). A proxy that passes TLS on
 * begins each connection with a header that names the client's address. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_PROXY_H
#define FEDSERVER_HTTP_PROXY_H

#include <stddef.h>

#include "fed/error.h"
#include "fedserver/http/http_address.h"

/** Addresses of the proxies whose PROXY headers are trusted. */
enum { HTTP_PROXIES = 16 };
typedef struct http_proxies {
    http_address items[HTTP_PROXIES];
    size_t count;
} http_proxies;

/** Read a list such as "192.0.2.1,2001:db8::1"; NULL: no proxies. FED_EINVAL: not an address, or
 * too many. */
fed_status http_proxies_read(const char *list, http_proxies *proxies, fed_error *err) FED_CHECKED;
bool http_proxies_have(const http_proxies *proxies, const http_address *address);

typedef enum http_proxy_found {
    HTTP_PROXY_MORE, /* an incomplete PROXY header */
    HTTP_PROXY_DONE,
    HTTP_PROXY_NONE
} http_proxy_found;

/** The largest PROXY header that is accepted, in bytes. */
enum { HTTP_PROXY_MOST = 1024 };

/**
 * Read a PROXY header. If it is complete (HTTP_PROXY_DONE), *used is its size and *address the
 * client's address. address->known is false where the proxy does not know the client, and *address
 * is unchanged where the connection is the proxy's own, such as a health check. Without a complete
 * header, *used and *address are unchanged.
 */
http_proxy_found http_proxy_read(const uint8_t *bytes, size_t len, size_t *used,
                                 http_address *address);

#endif
