/* The scale run: many connected devices, mostly waiting; what they are served, and at what cost. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCALE_RUN_H
#define SCALE_RUN_H

#include <stddef.h>

#include "fed_load.h"

/** How large a run is. */
typedef struct scale_plan {
    size_t devices;
    size_t updates;  /* of them, how many send one; fewer than devices */
    size_t active;   /* connections that ask at the same time while requests are measured */
    size_t checkins; /* measured in a round */
    size_t models;   /* ... */
    size_t rounds;   /* of measurements, coordinator and nginx in turn; at most SCALE_ROUNDS */
    int nginx;       /* compare with it, where it is installed */
} scale_plan;

enum { SCALE_ROUNDS = 9, SCALE_STAGES = 4 };

/** One kind of request at one server, round by round. */
typedef struct scale_times {
    fed_load_result round[SCALE_ROUNDS];
    double cpu_us[SCALE_ROUNDS]; /* of the server, a request */
} scale_times;

typedef struct scale_figures {
    size_t connected, failures;
    double connect_s;
    size_t leases, waiting, woken; /* devices: that got one; that waited for the next round; that
                                      had its places at once */
    size_t checkin_bytes, model_bytes, update_bytes; /* of the bodies */
    size_t pss_idle, pss_connected, pss_waiting;     /* bytes */
    size_t updates[SCALE_STAGES], pss_updates[SCALE_STAGES];
    double updates_s; /* for all of them */
    scale_times checkin, model;
    int with_nginx;
    size_t nginx_pss;
    double nginx_connect_s;
    scale_times nginx_checkin, nginx_model;
} scale_figures;

/** Run it; a step that can't be done fails the test. */
void scale_run(const scale_plan *plan, scale_figures *figures);

#endif
