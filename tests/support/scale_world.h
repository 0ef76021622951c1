/* A coordinator process with many enrolled devices, its memory and CPU time, and an nginx to
 * compare with. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCALE_WORLD_H
#define SCALE_WORLD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fed/crypto.h"

/** A server process under load. */
typedef struct scale_server {
    pid_t pid;
    uint16_t port; /* the port that demands a device's certificate */
} scale_server;

typedef struct scale_world {
    char directory[256], home[300]; /* home: the coordinator's directory */
    fed_pem *keys, *certs;          /* [devices] */
    size_t devices;
    scale_server coordinator;
} scale_world;

/** Make a coordinator with so many enrolled devices. It is not started yet. */
void scale_world_open(scale_world *w, size_t devices);
void scale_world_close(scale_world *w);

/** Start `fedserver run`. */
void scale_world_start(scale_world *w);

/** Queue a task (JSON) from another process. */
void scale_world_task(const scale_world *w, const char *task);

/** Start an nginx that sends the model of GET /v1/model, and an answer to a check-in of so many
 * bytes. Returns 0 where nginx is not installed. */
int scale_world_nginx(const scale_world *w, size_t checkin_len, size_t model_len,
                      scale_server *nginx);

/** End a process that was started here. */
void scale_server_stop(scale_server *server);

/** The memory that the server holds (proportional set size), and the CPU time that it has used. */
size_t scale_server_pss_bytes(const scale_server *server);
double scale_server_cpu_s(const scale_server *server);

#endif
