/* The scale test: many connected devices, most of which wait. It measures times and memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCALE_RUN_H
#define SCALE_RUN_H

#include <stddef.h>

#include "fed_load.h"

typedef struct scale_plan {
    size_t devices;
    size_t updates;
    size_t active; /* connections with requests */
    size_t checkins;
    size_t models;
    size_t rounds; /* number of measurements, at most SCALE_ROUNDS */
    int nginx;     /* nonzero: compare with nginx */
} scale_plan;

enum { SCALE_ROUNDS = 9, SCALE_STAGES = 4, SCALE_UPLOADS = 16 /* uploads at a time */ };

typedef struct scale_times {
    fed_load_result round[SCALE_ROUNDS];
    double cpu_us[SCALE_ROUNDS]; /* CPU time of the server for a request */
} scale_times;

typedef struct scale_figures {
    size_t connected, failures;
    double connect_s;
    /* Numbers of devices. woken: answered when the next round began. */
    size_t leases, waiting, woken;
    size_t checkin_bytes, model_bytes, update_bytes;
    /* Memory of the coordinator in bytes: without connections, with connections, with waiting
     * devices. */
    size_t pss_idle, pss_connected, pss_waiting;
    size_t updates[SCALE_STAGES], pss_updates[SCALE_STAGES];
    double updates_s;
    scale_times checkin, model;
    int with_nginx;
    size_t nginx_pss;
    double nginx_connect_s;
    scale_times nginx_checkin, nginx_model;
} scale_figures;

/** Run the plan. The test fails if a step fails. */
void scale_run(const scale_plan *plan, scale_figures *figures);

#endif
