/* A coordinator process with many enrolled devices, and an nginx to compare with. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCALE_WORLD_H
#define SCALE_WORLD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fed/crypto.h"

typedef struct scale_server {
    pid_t pid;
    uint16_t port;
} scale_server;

typedef struct scale_world {
    char directory[256], home[300];
    fed_pem *keys, *certs;
    size_t devices;
    scale_server coordinator;
} scale_world;

/** Make a coordinator with so many enrolled devices, without starting it. */
void scale_world_open(scale_world *w, size_t devices);
void scale_world_close(scale_world *w);

void scale_world_start(scale_world *w);

/** Queue a task (JSON) from another process. */
void scale_world_task(const scale_world *w, const char *task);

/** Start an nginx that answers GET /v1/model and check-ins with so many bytes. Returns 0 if nginx
 * is not installed. */
int scale_world_nginx(const scale_world *w, size_t checkin_len, size_t model_len,
                      scale_server *nginx);

void scale_server_stop(scale_server *server);

/** The memory (proportional set size) and the CPU time of the server's process. */
size_t scale_server_pss_bytes(const scale_server *server);
double scale_server_cpu_s(const scale_server *server);

#endif
