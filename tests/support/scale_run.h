/* The scale run: many connected devices, most of which wait. It measures answers and their cost. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCALE_RUN_H
#define SCALE_RUN_H

#include <stddef.h>

#include "fed_load.h"

/** How large a run is. */
typedef struct scale_plan {
    size_t devices;
    size_t updates;  /* how many devices send an update; fewer than devices */
    size_t active;   /* connections that send requests at the same time during a measurement */
    size_t checkins; /* check-ins measured in a round */
    size_t models;   /* model downloads measured in a round */
    size_t rounds;   /* rounds that alternate coordinator and nginx; at most SCALE_ROUNDS */
    int nginx;       /* compare with nginx, where it is installed */
} scale_plan;

enum { SCALE_ROUNDS = 9, SCALE_STAGES = 4, SCALE_UPLOADS = 16 /* that travel at once */ };

/** The times of one kind of request at one server, for each round. */
typedef struct scale_times {
    fed_load_result round[SCALE_ROUNDS];
    double cpu_us[SCALE_ROUNDS]; /* the server's CPU time per request */
} scale_times;

typedef struct scale_figures {
    size_t connected, failures;
    double connect_s;
    size_t leases, waiting, woken; /* devices that got a lease; that waited for the next round;
                                      that got its slots at once */
    size_t checkin_bytes, model_bytes, update_bytes; /* of the bodies */
    size_t pss_idle, pss_connected, pss_waiting;     /* bytes */
    size_t updates[SCALE_STAGES], pss_updates[SCALE_STAGES];
    double updates_s; /* the time of all updates */
    scale_times checkin, model;
    int with_nginx;
    size_t nginx_pss;
    double nginx_connect_s;
    scale_times nginx_checkin, nginx_model;
} scale_figures;

/** Run the plan. A failed step fails the test. */
void scale_run(const scale_plan *plan, scale_figures *figures);

#endif
