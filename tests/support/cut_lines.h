/* Lines that a test can cut: they forward connections, in the test's thread or in a process of
 * their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CUT_LINES_H
#define FED_CUT_LINES_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { CUT_LINES = 48, CUT_ADDRESS = 108 };

typedef enum cut_state {
    CUT_OPEN = 0,
    CUT_OFF,
    CUT_HOLE /* nothing passes, and neither side gets an error */
} cut_state;

/** What a line does at a chosen moment: at an SQL statement on its way to PostgreSQL, or, on a line
 * to a TCP port, at bytes on their way back. */
typedef enum cut_deed { CUT_KILLS = 1, CUT_STOPS, CUT_BREAKS } cut_deed;

typedef struct cut_line {
    /* Addresses: "/DIRECTORY/.s.PGSQL.5432" or "ADDRESS:PORT". */
    char from[CUT_ADDRESS], to[CUT_ADDRESS];
    atomic_int state; /* a cut_state */
    atomic_uint statements;
    atomic_uint deed_in;      /* the deed happens at the n-th such moment from now; 0: at none */
    atomic_int deed, victim;  /* victim: a process ID */
    atomic_int deed_is_after; /* nonzero: the statement passes before the deed */
    atomic_uint deeds;
} cut_line;

/** All lines. For cut_lines_start, allocate this by fault_shared_new. */
typedef struct cut_lines {
    cut_line line[CUT_LINES];
    unsigned count;
    /* Each connection breaks after so many bytes, counted in both directions; 0: none breaks. */
    _Atomic uint64_t break_bytes;
    /* Counts of all lines. breaks: connections broken by break_bytes. */
    _Atomic uint64_t dialled, breaks, up_bytes, down_bytes;
} cut_lines;

/** Add a line, before cut_lines_start. Returns its number. */
unsigned cut_lines_add(cut_lines *lines, const char *from, const char *to);

/** Add two lines from 127.0.0.2 to 127.0.0.1, each with the same free port on both sides. */
void cut_lines_add_ports(cut_lines *lines, uint16_t ports[2]);

/** Start a process that forwards, after every line listens. It ends with the caller's process. */
pid_t cut_lines_start(cut_lines *lines);

/** Forward in the caller's thread. Each cut_lines_poll forwards what has come, and waits at most
 * wait_ms. */
typedef struct cut_forwarder cut_forwarder;
cut_forwarder *cut_lines_open(cut_lines *lines);
void cut_lines_poll(cut_forwarder *f, int wait_ms);
void cut_lines_close(cut_forwarder *f);

#endif
