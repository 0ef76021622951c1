/* Tells whether the rounds' process is alive, also while its rounds are busy. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_LIVENESS_H
#define FEDSERVER_LIVENESS_H

#include <stdint.h>

#include "fed/error.h"

/*
 * The thread that does the rounds may wait for its store, or make a version, for seconds. So a
 * thread of its own answers here, on a Unix socket in the directory, `alive.sock`. A process that
 * is stopped does not answer. The answer is one byte: FEDSERVER_LIFE_WELL, or FEDSERVER_LIFE_STUCK
 * if the rounds were busy for FEDSERVER_BUSY_MOST_MS at a time.
 */
enum { FEDSERVER_BUSY_MOST_MS = 30 * 1000 };

typedef struct fedserver_liveness fedserver_liveness;

/** At the rounds' process: listen, and start the thread. Errors: FED_EIO, FED_ENOMEM. */
fed_status fedserver_liveness_open(const char *directory, fedserver_liveness **made,
                                   fed_error *err) FED_CHECKED;
/** The rounds are not busy just now. Here and in fedserver_liveness_close, NULL is allowed. */
void fedserver_liveness_note(fedserver_liveness *liveness, int64_t monotonic_ms);
void fedserver_liveness_close(fedserver_liveness *liveness);

typedef enum fedserver_life {
    FEDSERVER_LIFE_UNKNOWN = 0, /* there is no answer yet */
    FEDSERVER_LIFE_ABSENT,      /* no process listens */
    FEDSERVER_LIFE_WELL = 'w',
    FEDSERVER_LIFE_STUCK = 's'
} fedserver_life;

/** Whoever asks: the connection by which a question waits for its answer, and the last answer. */
typedef struct fedserver_life_question {
    int fd; /* readable once the answer is there; -1: no question waits */
    int64_t asked_ms;
    fedserver_life life;
    int64_t told_ms; /* when the question was asked that `life` answers */
} fedserver_life_question;

#define FEDSERVER_LIFE_QUESTION ((fedserver_life_question){.fd = -1})

/** Return an answer to a question that was asked at came_ms or later, or FEDSERVER_LIFE_UNKNOWN
 * after asking one. It does not wait. Both times are of the monotonic clock. */
fedserver_life fedserver_life_ask(fedserver_life_question *question, const char *directory,
                                  int64_t came_ms, int64_t now_ms);
void fedserver_life_forget(fedserver_life_question *question);

#endif
