/* A device for tests: a client of a fake coordinator, with a flash chip that can lose power. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_DEVICE_H
#define FED_DEVICE_H

#include "fed_fake.h"
#include "fedclient/fedclient.h"

/** A client whose training callback adds small multiples of `step` to the values. `trained` sums
 * all durable trainings. So `trained` equals what was counted plus the residual. */
typedef struct fed_device {
    fed_fake fake;
    fed_fake_flash flash;
    fedclient *client;
    fedclient_options options;
    fed_error err;
    float *trained, *last; /* last: the latest training */
    uint64_t calls;
    float step;        /* unit of the changes; 2^-10 unless a test sets it */
    fed_status answer; /* status that the callback returns */
    uint32_t samples;
    float poison; /* added to value 5; NaN makes the training invalid */
    float loss;
    uint64_t copies; /* calls for a personal model, to whose values 1 is added */
    fed_status (*copy)(struct fed_device *device, fedclient_round *round, fed_error *err);
} fed_device;

/** Check that the call succeeds, or fail the test with the device's error text. */
#define assert_fed_ok_err_of(device, call)                                                         \
    do {                                                                                           \
        fed_status fed_test_status_ = (call);                                                      \
        if (fed_test_status_ != FED_OK) {                                                          \
            fail_msg("%s: %s (%s)", #call, fed_status_name(fed_test_status_), (device)->err.text); \
        }                                                                                          \
    } while (0)

/** Make a device that is enrolled and has done nothing yet. codec: the codec of its updates. */
void fed_device_open(fed_device *device, const char *codec, uint32_t rounds);
void fed_device_close(fed_device *device);

/** Make a device with fed_device_open as the test's state; close and free it. The state of
 * fed_device_teardown may also be a struct that begins with a device. */
int fed_device_setup(void **state, const char *codec, uint32_t rounds);
int fed_device_teardown(void **state);

/** End the coordinator's task, and begin another one with this model. */
void fed_device_new_task(fed_device *device, const char *model);

/** Simulate a power loss: the client starts again from its store. */
void fed_device_restart(fed_device *device);

/** Call fedclient_step. A training that became durable is added to `trained`. */
fed_status fed_device_step(fed_device *device, fedclient_event *event);

fedclient_event fed_device_event(fed_device *device);

void fed_device_fail(fed_device *device, fed_status wanted);

/** Step at most `turns` times, until the device knows that the task is finished. */
void fed_device_finish(fed_device *device, unsigned turns);

/** Check for each value that trained equals counted + residual, within `tolerance`. */
void fed_device_check(fed_device *device, float tolerance);

/** Return the residual in the store, read as docs/durability.md describes. The caller frees it. */
float *fed_owed(const fedclient_platform *store, const fed_layout *layout);

float fed_device_owed(fed_device *device);

#endif
