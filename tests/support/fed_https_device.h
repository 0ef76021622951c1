/* A device of a test over HTTPS, with a trainer of the test's own; and the coordinator's tasks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_HTTPS_DEVICE_H
#define FED_HTTPS_DEVICE_H

#include "fed/model.h"
#include "fed_coordinator.h"
#include "fedclient/fedclient.h"

typedef struct fed_https_device {
    fedclient_platform platform;
    fedclient_transport transport;
    fedclient *client; /* NULL: it is not open */
} fed_https_device;

/** Open a device whose state is in directory/deviceK, and enrol it if it is new. The caller gives
 * options.train and options.user, and may give a transport around d->transport; the rest is made
 * here. */
void fed_https_device_open(fed_https_device *d, const fed_coordinator *home, const char *directory,
                           unsigned k, fedclient_options options);
/** Safe on zeros, and on a device that is closed. */
void fed_https_device_close(fed_https_device *d);

/** Queue a task by its file, which is directory/task.json. */
fed_status fed_https_task(const fed_coordinator *home, const char *directory, const char *json,
                          fed_error *err) FED_CHECKED;

/** Read the newest model of the coordinator's last task. Free it with fed_model_free. */
void fed_https_model(const fed_coordinator *home, const char *directory, fed_model *model);

#endif
