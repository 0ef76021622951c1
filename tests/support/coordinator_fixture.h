/* A coordinator in a temporary directory, and hand-made devices that talk to it without a network.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_COORDINATOR_FIXTURE_H
#define FED_TEST_COORDINATOR_FIXTURE_H

#include "fed_test.h"

#include <jansson.h>
#include <stdbool.h>

#include "fed/crypto.h"
#include "fed/wire.h"
#include "fedserver/server.h"

typedef struct coordinator {
    char directory[256];
    unsigned place; /* of its store, where that is a database */
    fedserver *server;
    int64_t now_ms;       /* the time that the coordinator sees; tests change it */
    uint64_t task_memory; /* that tasks may take together, from the next opening on; 0: no limit */
    /* where others reach it, from the next opening on; NULL: it serves alone */
    const char *address;
    /* headers of the next requests; NULL: none */
    const char *range, *if_range, *bearer, *cookie, *agent, *device_name, *computes_on;
    bool from_elsewhere; /* the next requests come from another machine */
} coordinator;

typedef struct test_device {
    uint8_t fingerprint[FED_SHA256_SIZE]; /* of the device's key */
    uint8_t certificate[FED_SHA256_SIZE];
    fed_pem key;
} test_device;

/** The answer to a request. The caller frees the body with answer_free. */
typedef struct answer {
    int status;
    char error[32]; /* the word in {"error": word}, or "" */
    bool hold;
    uint32_t hold_ms;
    char etag[20], content_range[72], set_cookie[128], file_name[64];
    const char *content_type;
    uint8_t *body; /* a NUL follows it */
    size_t len;
} answer;

void coordinator_setup(coordinator *c);
void coordinator_teardown(coordinator *c);

/** The store of each new coordinator is that of FED_TEST_STORE, or the default: ctest runs each
 * program that includes this file on every store. A test that reads or changes its
 * file begins with `coordinator_only_on_sqlite`, and is skipped elsewhere. */
void coordinator_only_on_sqlite(void);

/** A cmocka test whose *state is a new coordinator. */
#define WITH_COORDINATOR(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, coordinator_begin, coordinator_end)
int coordinator_begin(void **state);
int coordinator_end(void **state);

/** Let only one task of the size of the one that runs fit into the memory for tasks, so that others
 * wait in the queue. */
void coordinator_one_at_a_time(coordinator *c);

/** The store of its directory: for tests that open it again with functions of their own. */
const fedserver_store *coordinator_store(const coordinator *c);

/** Open the closed coordinator, and begin a batch. */
void coordinator_open(coordinator *c);

/** Close without a commit, as a crash would, and open again. */
void coordinator_crash(coordinator *c);

/** Commit, then end as a crash would, and open again. */
void coordinator_restart(coordinator *c);

/** What a coordinator's directory has stored keeps the rules: `fedserver check` finds nothing. No
 * process serves the directory now. */
void coordinator_check(const char *directory);

/** Commit what has happened and begin the next batch, which sees what other handles have changed.
 */
void coordinator_commit(coordinator *c);

/** Advance the time by ms, and tick. */
void coordinator_wait(coordinator *c, int64_t ms);

/** Queue a task with this JSON, and tick, so that the task starts if it can. */
uint64_t coordinator_task(coordinator *c, const char *json);

/** Enrol with a new token, as a device does. */
test_device coordinator_enrol(coordinator *c);
test_device coordinator_enrol_evaluator(coordinator *c);
test_device coordinator_enrol_as(coordinator *c, const fedserver_grant *grant);

/** The device in memory. Its row is read if it has not come since the start. */
fedserver_device *coordinator_device(const coordinator *c, const test_device *d);
/** How many devices are enrolled. */
uint64_t coordinator_enrolled(const coordinator *c);

/** Make one request. device NULL: to the front. */
answer coordinator_ask(coordinator *c, const test_device *d, const char *method, const char *path,
                       const char *query, const void *body, size_t len);
void answer_free(answer *a);

/** What GET path says to who reads it on this machine: JSON, which the caller frees. */
json_t *coordinator_json(coordinator *c, const char *path, const char *query);

/** Make one request for its status alone. */
int coordinator_status(coordinator *c, const test_device *d, const char *method, const char *path,
                       const char *query, const void *body, size_t len);

/** The answer has this status and this word of an error ("": none). It is freed. */
void answer_expect(answer *a, int status, const char *word);

/** A status and a word in short, as "409 cloned", or "200" where the word is "". It stays until the
 * next call. */
const char *answer_short(int status, const char *word);

/** A check-in that the coordinator answers at once. */
fed_assignment device_checkin(coordinator *c, const test_device *d, fed_role role, uint64_t task,
                              uint32_t version);

/** Likewise, of a device that says all this. */
fed_assignment device_say(coordinator *c, const test_device *d, const fed_checkin *checkin);

/** A check-in of a device that trains and holds nothing. */
fed_assignment device_ask_work(coordinator *c, const test_device *d);

/** Append an update of x[n] to w, encoded as the task says. */
void device_encode(const fed_assignment *work, const float *x, uint32_t samples, fed_writer *w);

/** Upload x[n]. Returns the answer's status; *word (may be NULL) its error. */
int device_upload(coordinator *c, const test_device *d, const fed_assignment *work, const float *x,
                  uint32_t samples, char word[32]);

/** Download version `want` for a device that has version `have` (< 0: none). Applies the download
 * to values[n], and returns the status. *len (may be NULL): bytes of the body. */
int device_download(coordinator *c, const test_device *d, const fed_task *task, int64_t have,
                    uint32_t want, float *values, size_t *len);

#endif
