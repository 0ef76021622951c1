/* Lines that a test cuts: they forward connections, in the test's thread or in a process of their
 * own. Processes say by shared memory what happens to each line. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_CUT_LINES_H
#define FED_CUT_LINES_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { CUT_LINES = 48, CUT_ADDRESS = 108 };

typedef enum cut_state {
    CUT_OPEN = 0,
    CUT_OFF, /* connections break, and new ones break at once */
    CUT_HOLE /* nothing passes until the line is open again, and nobody is told */
} cut_state;

/** What happens at a statement on its way to PostgreSQL. */
typedef enum cut_deed {
    CUT_KILLS = 1, /* SIGKILL to the victim, and the line's connections break */
    CUT_STOPS,     /* SIGSTOP to the victim */
    CUT_BREAKS     /* the line is off */
} cut_deed;

typedef struct cut_line {
    /* "/DIRECTORY/.s.PGSQL.5432", or "ADDRESS:PORT" */
    char from[CUT_ADDRESS], to[CUT_ADDRESS];
    atomic_int state;         /* a cut_state */
    atomic_uint statements;   /* that have passed to PostgreSQL, over all connections */
    atomic_uint deed_in;      /* the deed happens at so many statements from now; 0: at none */
    atomic_int deed, victim;  /* a cut_deed; a process */
    atomic_int deed_is_after; /* that statement still passes, but not its answer */
    atomic_uint deeds;        /* that have happened */
} cut_line;

/** For a process of its own: shared memory, from fault_shared_new. */
typedef struct cut_lines {
    cut_line line[CUT_LINES];
    unsigned count;
    /* a connection breaks after so many bytes, up and down together; 0: none does */
    _Atomic uint64_t break_bytes;
    /* of all lines: connections made; those broken by break_bytes; bytes in each direction */
    _Atomic uint64_t dialled, breaks, up_bytes, down_bytes;
} cut_lines;

/** The next line; before cut_lines_start. */
unsigned cut_lines_add(cut_lines *lines, const char *from, const char *to);

/** Two lines from 127.0.0.2 to 127.0.0.1, at ports that are free on both. So a device that is told
 * the port of a server at 127.0.0.1 stays on the line. */
void cut_lines_add_ports(cut_lines *lines, uint16_t ports[2]);

/** Start the process; it ends with the caller's. Returns when every line listens. */
pid_t cut_lines_start(cut_lines *lines);

/** In place of a process: each turn forwards the bytes that have arrived, and waits at most wait_ms
 * for some. It is for one thread. */
typedef struct cut_forwarder cut_forwarder;
cut_forwarder *cut_lines_open(cut_lines *lines);
void cut_lines_poll(cut_forwarder *f, int wait_ms);
void cut_lines_close(cut_forwarder *f);

#endif
