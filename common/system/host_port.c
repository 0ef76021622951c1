/* Split an address into host and port. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/host_port.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fed_status refuse(const char *text, const char *why, fed_error *err) {
    return fed_fail(err, FED_EINVAL, "\"%.100s\" is no address, %s: write HOST:PORT or [IPV6]:PORT",
                    text, why);
}

static bool read_port(const char *digits, uint16_t least, uint16_t *port) {
    const size_t len = strlen(digits);
    const unsigned long number = len <= 5 ? strtoul(digits, NULL, 10) : UINT32_MAX;
    *port = (uint16_t)number;
    return len > 0 && strspn(digits, "0123456789") == len && number >= least &&
           number <= UINT16_MAX;
}

fed_status fed_host_port_read(const char *text, uint16_t least, fed_host_port *at, fed_error *err) {
    fed_host_port read;
    const char *colon = strrchr(text, ':');
    if (colon == NULL || !read_port(colon + 1, least, &read.port)) {
        return refuse(text, least > 0 ? "its port is not 1 to 65535" : "its port is not 0 to 65535",
                      err);
    }
    const bool bracketed = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
    const char *host = text + bracketed;
    const size_t len = (size_t)(colon - host) - bracketed;
    if (len == 0 || len >= sizeof read.host) {
        return refuse(text, len == 0 ? "its host is missing" : "its host is too long", err);
    }
    if (!bracketed && memchr(host, ':', len) != NULL) {
        return refuse(text, "its IPv6 address has no brackets", err);
    }
    snprintf(read.host, sizeof read.host, "%.*s", (int)len, host);
    snprintf(read.port_text, sizeof read.port_text, "%u", read.port);
    *at = read;
    return FED_OK;
}
