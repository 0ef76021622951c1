/* The coordinator's page, compiled in from dashboard/index.html. */
#ifndef FEDSERVER_DASHBOARD_H
#define FEDSERVER_DASHBOARD_H

#include <stddef.h>

extern const char fedserver_dashboard_html[]; /* ASCII; a NUL follows */
extern const size_t fedserver_dashboard_html_len;

#endif
