/* A lossy link between devices and a coordinator: it forwards TCP connections, and cuts them off.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_LINE_H
#define FED_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FED_LINE_DOORS = 2, FED_LINE_CONNECTIONS = 16, FED_LINE_CHUNK = 16384 };

/** One direction of a connection: bytes that were read and could not be written yet. */
typedef struct fed_line_flow {
    uint8_t bytes[FED_LINE_CHUNK];
    size_t len, sent;
} fed_line_flow;

typedef struct fed_line_connection {
    int device, coordinator; /* sockets; device < 0: no connection */
    uint64_t carried;        /* bytes in both directions */
    fed_line_flow up, down;
} fed_line_connection;

/**
 * The link listens on 127.0.0.2, at the ports that the coordinator has on 127.0.0.1. So a device
 * that is told the coordinator's port stays on the link. The link has one thread.
 */
typedef struct fed_line {
    uint16_t ports[FED_LINE_DOORS];
    int doors[FED_LINE_DOORS];
    uint64_t break_bytes; /* a connection is cut after so many bytes, up and down together */
    uint64_t up_bytes, down_bytes, breaks, dialled;
    fed_line_connection connections[FED_LINE_CONNECTIONS];
} fed_line;

/** Open the link at two ports that are free on both addresses. */
void fed_line_open(fed_line *line, uint64_t break_bytes);
void fed_line_close(fed_line *line);

/** Forward the bytes that have arrived. Waits at most wait_ms for bytes. */
void fed_line_turn(fed_line *line, int wait_ms);

#endif
