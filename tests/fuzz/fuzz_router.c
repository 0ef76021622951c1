/* Fuzz requests to a coordinator. An input: a byte for the sender, a line "METHOD PATH?QUERY
 * TOKEN", and the body. Every answer must be valid. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>
#include <unistd.h>

#include "fed/file.h"
#include "fedserver/paths.h"
#include "fedserver/rounds/roster.h"
#include "fedserver/server.h"

enum { ROLES = 3, AT_ROUND = 8, PATH = 300 };

static fedserver *server;
static char directory[64];
static uint8_t device[ROLES][FED_SHA256_SIZE];
static int64_t now_ms = INT64_C(1767225600000);

static void clean(void) {
    static const char *const names[] = {
        "server.db", "server.db-wal", "server.db-shm", "server.lock", "store",
        "ca.pem",    "ca.key",        "server.pem",    "server.key",  "task.json"};
    fedserver_close(server);
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char path[PATH];
        fedserver_path(directory, names[k], path, sizeof path);
        (void)unlink(path);
    }
    (void)rmdir(directory);
}

static void add_device(fedserver_role role) {
    fed_error err;
    fedserver_device d = {.enrolled_ms = 1, .expires_ms = INT64_MAX, .role = role, .tag = ""};
    memset(d.fingerprint, (int)role + 1, sizeof d.fingerprint);
    memcpy(device[role], d.fingerprint, sizeof d.fingerprint);
    require(server->store->device_add(server->db, &d, &err) == FED_OK);
    require(fedserver_devices_add(&server->rounds.devices, &d, NULL) == FED_OK);
}

static void start(void) {
    static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                               " \"rounds\": 1000000, \"cohort\": 1, \"deadline_s\": 1}";
    fed_error err;
    char path[PATH];
    uint64_t id = 0;
    strcpy(directory, "/tmp/fedfuzz-XXXXXX");
    require(mkdtemp(directory) != NULL);
    require(fedserver_init(directory, NULL, &err) == FED_OK);
    require(fedserver_open(directory, NULL, &server, &err) == FED_OK);
    fedserver_path(directory, "task.json", path, sizeof path);
    require(fed_file_replace(path, task, sizeof task - 1, 0600, &err) == FED_OK);
    require(fedserver_task_add(server, now_ms, path, &id, &err) == FED_OK);
    char layout[400];
    snprintf(layout, sizeof layout,
             "{\"model\": \"tensors %064d 3\", \"codec_up\": \"float32\","
             " \"rounds\": 1000000, \"cohort\": 1, \"deadline_s\": 1}",
             0);
    require(fed_file_replace(path, layout, strlen(layout), 0600, &err) == FED_OK);
    require(fedserver_task_add(server, now_ms, path, &id, &err) == FED_OK);
    require(fedserver_begin(server, &err) == FED_OK); /* never committed, to save time */
    for (int role = 0; role < ROLES; role++) {
        add_device((fedserver_role)role);
    }
    (void)atexit(clean);
}

static void take_words(char *line, fedserver_request *request) {
    char *path = strchr(line, ' ');
    request->method = line;
    request->path = "";
    request->query = "";
    if (path == NULL) {
        return;
    }
    *path++ = '\0';
    request->path = path;
    char *bearer = strchr(path, ' ');
    if (bearer != NULL) {
        *bearer++ = '\0';
        request->bearer = bearer;
        request->cookie = bearer;
    }
    char *query = strchr(path, '?');
    if (query != NULL) {
        *query++ = '\0';
        request->query = query;
    }
}

/* Write the right round and lease into the body, because the lease can't be guessed. */
static void fix_lease(uint8_t *body, size_t len) {
    fedserver_device *d = NULL;
    fed_error err = {0};
    if (fedserver_device_fetch(&server->rounds, device[0], &d, &err) != FED_OK || d == NULL) {
        return;
    }
    const fedserver_training *t = fedserver_rounds_front(&server->rounds);
    fed_writer w;
    if (len >= AT_ROUND + 12 && t != NULL) {
        fed_writer_fixed(&w, body + AT_ROUND, 12);
        fed_write_u32(&w, t->round.number);
        fed_write_u64(&w, d->lease);
    }
}

static void ask(fedserver_request *request) {
    fed_error err = {.status = FED_OK};
    fedserver_response response;
    int64_t next_ms = 0;
    const int refused = fedserver_body_refused(server, request, request->body_len);
    require(refused == 0 || (refused >= 400 && refused < 500));
    require(fedserver_handle(server, request, now_ms, &response, &err) == FED_OK);
    size_t size = 0;
    const uint8_t *bytes = NULL;
    if (response.body != NULL) {
        bytes = fedserver_blob_data(response.body, &size);
    }
    require(response.status == 200 || (response.status >= 400 && response.status < 500));
    require(response.status == 200 || memcmp(bytes, "{\"error\":", 9) == 0 ||
            memcmp(bytes, "<!DOCTYPE", 9) == 0);
    require(!response.hold || response.body == NULL);
    fedserver_blob_free(response.body);
    require(fedserver_tick(server, now_ms, &next_ms, &err) == FED_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len) {
    static const uint8_t stranger[FED_SHA256_SIZE] = {9};
    if (server == NULL) {
        start();
    }
    if (len == 0) {
        return 0;
    }
    const uint8_t *end = memchr(data, '\n', len);
    const size_t line_len = end != NULL ? (size_t)(end - data) : len;
    const size_t body_at = end != NULL ? line_len + 1 : len;
    char *line = calloc(1, line_len + 1);
    uint8_t *body = malloc(len - body_at + 1);
    require(line != NULL && body != NULL);
    memcpy(line, data + 1, line_len - (line_len > 0));
    memcpy(body, data + body_at, len - body_at);
    const unsigned who = data[0] & 7;
    fedserver_request request = {.listener = who == 0 ? FEDSERVER_FRONT : FEDSERVER_DEVICES,
                                 .fingerprint = who == 0       ? NULL
                                                : who <= ROLES ? device[who - 1]
                                                               : stranger,
                                 .loopback = (data[0] & 8) == 0,
                                 .body = body,
                                 .body_len = len - body_at};
    if ((data[0] & 0x80) != 0) {
        fix_lease(body, request.body_len);
    }
    take_words(line, &request);
    now_ms += 10;
    ask(&request);
    free(line);
    free(body);
    return 0;
}
