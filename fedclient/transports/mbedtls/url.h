/* The parts of an address that begins with https://. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_URL_PARTS_H
#define FEDCLIENT_URL_PARTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct fedclient_url {
    /* The host has no brackets, as in "::1". Without a port in the text, port is "443". */
    char host[254], port[6];
    const char *authority; /* "[::1]:8443": char[authority_len], inside of the text */
    size_t authority_len;
    const char *path; /* "/path?query" to the end of the text; "/" if the text has no path */
} fedclient_url;

/** false: text is no https address. text must stay valid while the parts are used. */
bool fedclient_url_split(const char *text, fedclient_url *url);

#endif
