/* A device under test: a client on a flash chip that can lose power, at a fake coordinator. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FED_DEVICE_H
#define FED_DEVICE_H

#include "fed_fake.h"
#include "fedclient/fedclient.h"

/**
 * Its callback adds a few multiples of 2^-10 to every value. `trained` sums up every training that
 * the device has made durable, so what was counted and what is owed must always add up to it.
 */
typedef struct fed_device {
    fed_fake fake;
    fed_fake_flash flash;
    fedclient *client;
    fedclient_options options;
    fed_error err;
    float *trained, *last; /* last: the training of the latest call */
    uint64_t calls;        /* of the callback */
    float step;            /* size of a training's values; 2^-10 */
    fed_status answer;     /* of the callback */
    uint32_t samples;      /* which it reports */
    float poison;          /* added to value 5 */
} fed_device;

/** The call must succeed; else the test fails with the device's error. */
#define assert_fed_ok_err_of(device, call)                                                         \
    do {                                                                                           \
        fed_status fed_test_status_ = (call);                                                      \
        if (fed_test_status_ != FED_OK) {                                                          \
            fail_msg("%s: %s (%s)", #call, fed_status_name(fed_test_status_), (device)->err.text); \
        }                                                                                          \
    } while (0)

/** Enrolled, and nothing done yet. codec: of the updates. */
void fed_device_open(fed_device *device, const char *codec, uint32_t rounds);
void fed_device_close(fed_device *device);

/** Power goes, and comes back. */
void fed_device_restart(fed_device *device);

/** fedclient_step; a training that became durable in it is added to `trained`. */
fed_status fed_device_step(fed_device *device, fedclient_event *event);

/** Step until the device knows that the task is finished, at most `turns` times. */
void fed_device_finish(fed_device *device, unsigned turns);

/** trained == counted + owed, value by value, within `tolerance`. Only while no upload's fate is
 * unknown. */
void fed_device_check(fed_device *device, float tolerance);

/** What a device's store says is owed, by docs/durability.md. Owner: the caller. */
float *fed_owed(const fedclient_platform *store, const fed_layout *layout);

/** The sum of |owed|. */
float fed_device_owed(fed_device *device);

#endif
