/* Changes a coordinator's directory as an operator's commands do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_operator.h"

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_test.h"

uint64_t fed_operator_task(const char *home, const char *folder, const char *json) {
    char path[400];
    uint64_t id = 0;
    fed_error err = {0};
    fedserver *server = NULL;
    fed_test_put(folder, "task.json", json, strlen(json));
    snprintf(path, sizeof path, "%s/task.json", folder);
    assert_fed_ok_err(fedserver_open(home, NULL, &server, &err));
    assert_fed_ok_err(fedserver_task_add(server, fed_clock_unix_ms(), path, &id, &err));
    fedserver_close(server);
    return id;
}

void fed_operator_token(const char *home, const fedserver_grant *grant,
                        char token[FEDSERVER_TOKEN]) {
    fed_error err = {0};
    fedserver *server = NULL;
    assert_fed_ok_err(fedserver_open(home, NULL, &server, &err));
    assert_fed_ok_err(fedserver_token_grant(server, fed_clock_unix_ms(), grant, token, &err));
    fedserver_close(server);
}

char *fed_operator_ca(const char *home) {
    char path[400];
    fed_error err = {0};
    uint8_t *ca = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/ca.pem", home);
    assert_fed_ok_err(fed_file_read(path, 65536, &ca, &len, &err));
    return (char *)ca;
}
