/*
 * A device's conversation with the coordinator as it was in each released version of the protocol:
 * vectors/protocol/vN.txt, replayed with today's coordinator. Files are added, but never changed.
 *
 * A file has comments (#), the task's JSON after "task", and requests ("> METHOD PATH?QUERY") with
 * their answers ("< STATUS", or "< STATUS WORD" for a refusal). Each is followed by its body: bytes
 * as two hexadecimal digits. ?? is any byte. LEASE is 8 bytes: any bytes in an answer, and in a
 * request the bytes of the last LEASE in an answer.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator_fixture.h"

#include <dirent.h>

#include "fed/file.h"
#include "fed_cases.h"

enum { BYTES = 8192 };

typedef struct pattern {
    int16_t byte[BYTES]; /* -1: any; -2 - k: byte k of the lease */
    size_t len;
} pattern;

typedef struct replay {
    coordinator coordinator;
    test_device device;
    const char *file;
    int line; /* where the present message begins */
    char request[300];
    pattern body;
    answer answer; /* to the last request; status 0: none */
    uint8_t lease[8];
    bool leased;
} replay;

static void add_word(replay *r, const char *word) {
    pattern *p = &r->body;
    char *end;
    int value = (int)strtoul(word, &end, 16);
    bool lease = strcmp(word, "LEASE") == 0;
    if (strcmp(word, "??") == 0) {
        value = -1;
    } else if (!lease && (*end != '\0' || end != word + 2)) {
        fail_msg("%s:%d: bad word \"%s\"", r->file, r->line, word);
    }
    for (int k = 0; k < (lease ? 8 : 1); k++) {
        assert_true(p->len < BYTES);
        p->byte[p->len++] = (int16_t)(lease ? -2 - k : value);
    }
}

static void send_request(replay *r) {
    uint8_t bytes[BYTES];
    for (size_t k = 0; k < r->body.len; k++) {
        int v = r->body.byte[k];
        bytes[k] = (uint8_t)(v <= -2 ? r->lease[-2 - v] : v);
    }
    char method[8];
    char target[256];
    assert_int_equal(sscanf(r->request, "%7s %255s", method, target), 2);
    char *query = strchr(target, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    answer_free(&r->answer);
    r->answer = coordinator_ask(&r->coordinator, &r->device, method, target,
                                query != NULL ? query : "", bytes, r->body.len);
}

static void refuse(const replay *r, const char *what) {
    char hex[3 * 256 + 1] = "";
    for (size_t k = 0; k < r->answer.len && k < 256; k++) {
        snprintf(hex + 3 * k, 4, " %02x", r->answer.body[k]);
    }
    fail_msg("%s:%d: %s; the answer is %d:%s", r->file, r->line, what, r->answer.status, hex);
}

static void compare_answer(replay *r, int status) {
    if (r->answer.status != status || r->answer.len != r->body.len) {
        refuse(r, "another status or length");
    }
    for (size_t k = 0; k < r->body.len; k++) {
        int v = r->body.byte[k];
        if (v <= -2) {
            r->lease[-2 - v] = r->answer.body[k];
            r->leased = true;
        } else if (v >= 0 && r->answer.body[k] != v) {
            refuse(r, "another byte");
        }
    }
}

/* Compare a refusal's status and word. Its sentence is for people, and may change. */
static void compare_refusal(replay *r, int status, const char *word) {
    if (r->answer.status != status || strcmp(r->answer.error, word) != 0) {
        refuse(r, "another status or word");
    }
}

/* Send a request, or compare an answer, once all lines of the message are read. */
static void end_message(replay *r) {
    if (r->request[0] == '<') {
        int status = 0;
        char word[32] = "";
        (void)sscanf(r->request, "< %d %31s", &status, word);
        if (status >= 400) {
            compare_refusal(r, status, word);
        } else {
            compare_answer(r, status);
        }
    } else if (r->request[0] == '>') {
        memmove(r->request, r->request + 2, strlen(r->request + 1));
        send_request(r);
    }
    r->request[0] = '\0';
    r->body.len = 0;
}

static void take_line(replay *r, char *line, int number) {
    if (line[0] == '>' || line[0] == '<') {
        end_message(r);
        r->line = number;
        snprintf(r->request, sizeof r->request, "%s", line);
        return;
    }
    if (strncmp(line, "task ", 5) == 0) {
        (void)coordinator_task(&r->coordinator, line + 5);
        return;
    }
    char *rest = NULL;
    for (char *word = strtok_r(line, " ", &rest); word != NULL && word[0] != '#';
         word = strtok_r(NULL, " ", &rest)) {
        add_word(r, word);
    }
}

static void replay_file(const char *path) {
    replay *r = calloc(1, sizeof *r);
    uint8_t *text;
    size_t len;
    fed_error err = {0};
    r->file = path;
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &text, &len, &err));
    coordinator_setup(&r->coordinator);
    r->device = coordinator_enrol(&r->coordinator);
    int number = 0;
    char *at = (char *)text;
    while (at != NULL && *at != '\0') {
        char *next = strchr(at, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        take_line(r, at, ++number);
        at = next;
    }
    end_message(r);
    assert_true(r->leased);
    answer_free(&r->answer);
    coordinator_teardown(&r->coordinator);
    free(text);
    free(r);
}

FED_TEST(every_released_versions_conversation_goes_on_as_it_did) {
    DIR *directory = opendir(FED_SOURCE_DIR "/tests/vectors/protocol");
    assert_non_null(directory);
    int replayed = 0;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char path[1024];
        if (entry->d_name[0] == 'v') {
            snprintf(path, sizeof path, "%s/tests/vectors/protocol/%s", FED_SOURCE_DIR,
                     entry->d_name);
            replay_file(path);
            replayed++;
        }
    }
    closedir(directory);
    assert_true(replayed > 0);
}
