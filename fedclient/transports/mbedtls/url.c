/* Split an address such as https://HOST:PORT/PATH?QUERY into its parts. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/transports/mbedtls/url.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char scheme[] = "https://";
static const char name_signs[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
static const char address_signs[] = "0123456789abcdefABCDEF:.";

static bool copy(char *dst, size_t cap, const char *src, size_t len) {
    if (len == 0 || len >= cap) {
        return false;
    }
    memcpy(dst, src, len);
    dst[len] = '\0';
    return true;
}

/** Read the host, such as "[::1]" or "name". *text moves past the host. */
static bool take_host(const char **text, fedclient_url *url) {
    const bool bracketed = **text == '[';
    const char *host = *text + bracketed;
    const size_t len = strspn(host, bracketed ? address_signs : name_signs);
    *text = host + len + bracketed;
    return copy(url->host, sizeof url->host, host, len) && (!bracketed || host[len] == ']');
}

/** Read the port, such as ":8443". A text without a port means port 443. */
static bool take_port(const char **text, fedclient_url *url) {
    if (**text != ':') {
        return copy(url->port, sizeof url->port, "443", 3);
    }
    const char *port = *text + 1;
    const size_t len = strspn(port, "0123456789");
    *text = port + len;
    return copy(url->port, sizeof url->port, port, len) && strtoul(port, NULL, 10) <= 65535;
}

bool fedclient_url_split(const char *text, fedclient_url *url) {
    if (strncasecmp(text, scheme, sizeof scheme - 1) != 0) {
        return false;
    }
    text += sizeof scheme - 1;
    url->authority = text;
    if (!take_host(&text, url) || !take_port(&text, url)) {
        return false;
    }
    url->authority_len = (size_t)(text - url->authority);
    url->path = *text == '\0' ? "/" : text;
    for (const char *c = url->path; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7F) {
            return false; /* such a byte must not be in a request line */
        }
    }
    return url->path[0] == '/';
}
