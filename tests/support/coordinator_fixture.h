/* A coordinator in a temporary directory, and devices that talk to it without a network. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_TEST_COORDINATOR_FIXTURE_H
#define FED_TEST_COORDINATOR_FIXTURE_H

#include "fed_test.h"

#include <jansson.h>
#include <stdbool.h>

#include "fed/crypto.h"
#include "fed/wire.h"
#include "fedserver/operator.h"
#include "fedserver/server.h"

typedef struct coordinator {
    char directory[256];
    unsigned place; /* number of the PostgreSQL database */
    fedserver *server;
    int64_t now_ms;
    uint64_t task_memory; /* limit for all tasks from the next opening on, in bytes; 0: none */
    /* The address for other coordinators, from the next opening on; NULL: there are no others. */
    const char *address;
    /* Headers of the next requests; NULL: left out. */
    const char *range, *if_range, *bearer, *cookie, *agent, *device_name, *computes_on;
    const char *host, *origin, *fetch_site, *act;
    uint64_t classes;    /* the header Fed-Classes of the next requests; 0: left out */
    bool from_elsewhere; /* the next requests come from another machine */
} coordinator;

typedef struct test_device {
    uint8_t fingerprint[FED_SHA256_SIZE];
    uint8_t certificate[FED_SHA256_SIZE];
    fed_pem key;
} test_device;

/** The answer to a request. The caller frees the body with answer_free. */
typedef struct answer {
    int status;
    char error[32]; /* "error" of the JSON answer, or "" */
    bool hold;
    uint32_t hold_ms;
    uint64_t hold_key;
    char etag[20], content_range[72], set_cookie[128], file_name[64];
    const char *content_type;
    uint8_t *body; /* followed by a NUL */
    size_t len;
} answer;

void coordinator_setup(coordinator *c);
void coordinator_teardown(coordinator *c);

/** Skip this test unless the store is SQLite: for a test that reads or changes the store's file. */
void coordinator_only_on_sqlite(void);

/** Define a cmocka test whose *state is a new coordinator. */
#define WITH_COORDINATOR(test)                                                                     \
    cmocka_unit_test_setup_teardown(test, coordinator_begin, coordinator_end)
int coordinator_begin(void **state);
int coordinator_end(void **state);

/** Limit the memory for tasks, so that only one task like the present one runs at a time. */
void coordinator_one_at_a_time(coordinator *c);

/** The kind of store, for tests that open it again with their own functions. */
const fedserver_store *coordinator_store(const coordinator *c);

/** Open the coordinator after it was closed, and begin a batch. */
void coordinator_open(coordinator *c);

/** Close without a commit, as in a crash, and open again. */
void coordinator_crash(coordinator *c);

/** Commit, close as in a crash, and open again. */
void coordinator_restart(coordinator *c);

/** Run `fedserver check` on a directory that no process serves. It must find nothing wrong. */
void coordinator_check(const char *directory);

/** Commit, and begin the next batch. */
void coordinator_commit(coordinator *c);

/** Advance the time by ms, and let the coordinator do what is due. */
void coordinator_wait(coordinator *c, int64_t ms);

/** Queue a task given as JSON. */
uint64_t coordinator_task(coordinator *c, const char *json);

/** Enrol a device with a new token. */
test_device coordinator_enrol(coordinator *c);
test_device coordinator_enrol_evaluator(coordinator *c);
test_device coordinator_enrol_as(coordinator *c, const fedserver_grant *grant);
test_device coordinator_enrol_key(coordinator *c, const fedserver_grant *grant, const fed_pem *key);

/** Check that the open round waits for something that is called by these words, on the page and in
 * `fedserver status`, which is another process. */
void coordinator_expect_waits(coordinator *c, const char *words);

/** Return the coordinator's record of the device. */
fedserver_device *coordinator_device(const coordinator *c, const test_device *d);
uint64_t coordinator_enrolled(const coordinator *c);

/** Take the keys of held requests that the batch has woken. Is the device's among them? d NULL: is
 * FEDSERVER_HOLD_VERSION? */
bool coordinator_wakes(coordinator *c, const test_device *d);

/** Make one request of a device. d = NULL: a request to the front, without a certificate. */
answer coordinator_ask(coordinator *c, const test_device *d, const char *method, const char *path,
                       const char *query, const void *body, size_t len);
void answer_free(answer *a);

/** Lines of the audit log. `events` has the event of each line, followed by a blank. `detail` is
 * that of the last line. */
typedef struct audit_lines {
    char events[600], detail[480];
    size_t count;
} audit_lines;

/** Read the lines since this time. */
audit_lines coordinator_audit(const coordinator *c, int64_t since_ms);

/** Return the JSON answer to GET path. The caller frees it. */
json_t *coordinator_json(coordinator *c, const char *path, const char *query);

int coordinator_status(coordinator *c, const test_device *d, const char *method, const char *path,
                       const char *query, const void *body, size_t len);

/** Check that the answer has this status and this error word ("": none), and free the answer. */
void answer_expect(answer *a, int status, const char *word);

/** Return the status and the word as text. Valid until the next call. */
const char *answer_short(int status, const char *word);

/** Check in as a device whose software knows all that a task may need. The coordinator must answer
 * at once. */
fed_assignment device_checkin(coordinator *c, const test_device *d, fed_role role, uint64_t task,
                              uint32_t version);

/** Check in with this message. The coordinator must answer at once. */
fed_assignment device_say(coordinator *c, const test_device *d, const fed_checkin *checkin);

fed_assignment device_ask_work(coordinator *c, const test_device *d);

/** Upload a body, which must be answered so; and free it. */
void device_expect(coordinator *c, const test_device *d, fed_writer *body, int status,
                   const char *word);

/** Append an update of x[n] to w, encoded with the task's codec. */
void device_encode(const fed_assignment *work, const float *x, uint32_t samples, fed_writer *w);

/** Upload x[n]. Returns the answer's status. *word, where not NULL, becomes the error word. */
int device_upload(coordinator *c, const test_device *d, const fed_assignment *work, const float *x,
                  uint32_t samples, char word[32]);

/** Download version `want` for a device that has version `have` (< 0: none), and apply it to
 * values[n]. Returns the HTTP status. *len, where not NULL, becomes the bytes of the body. */
int device_download(coordinator *c, const test_device *d, const fed_task *task, int64_t have,
                    uint32_t want, float *values, size_t *len);

#endif
