/* A device under test: a client that works with a fake coordinator, and whose flash chip can lose
 * power. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_DEVICE_H
#define FED_DEVICE_H

#include "fed_fake.h"
#include "fedclient/fedclient.h"

/**
 * The device's callback adds a few multiples of 2^-10 to every value. `trained` is the sum of all
 * trainings that the device has made durable. So the updates that were counted and the residual
 * that is owed always add up to `trained`.
 */
typedef struct fed_device {
    fed_fake fake;
    fed_fake_flash flash;
    fedclient *client;
    fedclient_options options;
    fed_error err;
    float *trained, *last; /* last: the training of the latest call */
    uint64_t calls;        /* of the callback */
    float step;            /* unit of a training's values: 2^-10 */
    fed_status answer;     /* of the callback */
    uint32_t samples;      /* the number of samples that the callback reports */
    float poison;          /* the callback adds this to value 5 */
} fed_device;

/** The call must succeed; else the test fails with the device's error. */
#define assert_fed_ok_err_of(device, call)                                                         \
    do {                                                                                           \
        fed_status fed_test_status_ = (call);                                                      \
        if (fed_test_status_ != FED_OK) {                                                          \
            fail_msg("%s: %s (%s)", #call, fed_status_name(fed_test_status_), (device)->err.text); \
        }                                                                                          \
    } while (0)

/** A device that is enrolled and has done nothing yet. codec: of the updates. */
void fed_device_open(fed_device *device, const char *codec, uint32_t rounds);
void fed_device_close(fed_device *device);

/** For setup: such a device on the heap becomes the test's state. For teardown: close and free the
 * state, which is a device or begins with one. */
int fed_device_setup(void **state, const char *codec, uint32_t rounds);
int fed_device_teardown(void **state);

/** The coordinator ends the task, and begins another one with this model. */
void fed_device_new_task(fed_device *device, const char *model);

/** Power goes and comes back: the client starts again from its store. */
void fed_device_restart(fed_device *device);

/** Call fedclient_step. If a training became durable in this step, add the training to `trained`.
 */
fed_status fed_device_step(fed_device *device, fedclient_event *event);

/** fed_device_step that must succeed. */
fedclient_event fed_device_event(fed_device *device);

/** fed_device_step that must fail with this status. */
void fed_device_fail(fed_device *device, fed_status wanted);

/** Step at most `turns` times, until the device knows that the task is finished. */
void fed_device_finish(fed_device *device, unsigned turns);

/** Check each value: trained == counted + owed, within `tolerance`. Call it only while the outcome
 * of each upload is known. */
void fed_device_check(fed_device *device, float tolerance);

/** The owed residual in a device's store, read as docs/durability.md says. The caller owns the
 * result. */
float *fed_owed(const fedclient_platform *store, const fed_layout *layout);

/** The sum of |owed|. */
float fed_device_owed(fed_device *device);

#endif
