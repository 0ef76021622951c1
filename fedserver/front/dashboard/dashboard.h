/* The coordinator's page: its files, compiled in from this folder by embed.cmake. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_DASHBOARD_H
#define FEDSERVER_DASHBOARD_H

#include <stddef.h>

typedef struct fedserver_asset {
    const char *path, *content_type; /* path: such as "/page.css"; NULL: the end of the table */
    const char *bytes;               /* ASCII; a NUL follows */
    size_t len;
} fedserver_asset;

extern const fedserver_asset fedserver_assets[];

#endif
