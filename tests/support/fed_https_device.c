/* Devices over HTTPS (fed_https_device.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_https_device.h"

#include <stdio.h>
#include <string.h>

#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed_test.h"

void fed_https_device_open(fed_https_device *d, const fed_coordinator *home, const char *directory,
                           unsigned k, fedclient_options options) {
    fed_error err = {0};
    char url[64], state[300], token[FEDSERVER_TOKEN];
    snprintf(url, sizeof url, "https://127.0.0.1:%u", home->front);
    snprintf(state, sizeof state, "%s/device%u", directory, k);
    assert_fed_ok_err(fedclient_platform_posix_open(state, &d->platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        NULL, &(fedclient_transport_options){.ca_pem = home->ca}, &d->transport, &err));
    options.server = url;
    options.platform = &d->platform;
    options.transport = options.transport != NULL ? options.transport : &d->transport;
    assert_fed_ok_err(fedclient_open(&options, &d->client, &err));
    if (!fedclient_enrolled(d->client)) {
        fed_coordinator_token(home, token);
        assert_fed_ok_err(fedclient_enrol(d->client, token, &err));
    }
}

void fed_https_device_close(fed_https_device *d) {
    if (d->client != NULL) {
        fedclient_close(d->client);
        fedclient_transport_close(&d->transport);
        fedclient_platform_posix_close(&d->platform);
        d->client = NULL;
    }
}

fed_status fed_https_task(const fed_coordinator *home, const char *directory, const char *json,
                          fed_error *err) {
    char path[320];
    uint64_t id = 0;
    fedserver *server = NULL;
    fed_test_put(directory, "task.json", json, strlen(json));
    snprintf(path, sizeof path, "%s/task.json", directory);
    FED_TRY(fedserver_open(home->directory, NULL, &server, err));
    const fed_status status = fedserver_task_add(server, fed_clock_unix_ms(), path, &id, err);
    fedserver_close(server);
    return status;
}

void fed_https_model(const fed_coordinator *home, const char *directory, fed_model *model) {
    char path[320];
    fed_error err = {0};
    fedserver *server = NULL;
    snprintf(path, sizeof path, "%s/last.safetensors", directory);
    assert_fed_ok_err(fedserver_open(home->directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_model_export(server, 0, path, &err));
    fedserver_close(server);
    assert_fed_ok_err(fed_checkpoint_load(path, model, &err));
}
