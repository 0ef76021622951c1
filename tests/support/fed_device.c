/* A device for tests (fed_device.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_device.h"

#include <math.h>

#include "fed/rng.h"
#include "fed_test.h"
#include "fedclient/state/record.h"
#include "fedcodec/envelope.h"

/* A personal model is the shared one plus 1, so that it is known by its values. */
static fed_status copy(fed_device *device, fedclient_round *round, fed_error *err) {
    device->copies++;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] += 1;
    }
    round->samples = device->samples;
    return device->copy != NULL ? device->copy(device, round, err) : FED_OK;
}

static fed_status work(void *user, fedclient_round *round, fed_error *err) {
    fed_device *device = user;
    size_t n = round->arch->layout.size;
    if (round->is_personal) {
        return copy(device, round, err);
    }
    device->calls++;
    if (device->answer != FED_OK) {
        return fed_fail(err, device->answer, "the test's callback fails");
    }
    fed_rng rng;
    fed_rng_init(&rng, 1, (uint32_t)device->calls, 0);
    for (size_t i = 0; i < n && device->options.role == FED_ROLE_TRAIN; i++) {
        device->last[i] = device->step * ((float)fed_rng_below(&rng, 9) - 4);
        round->values[i] += device->last[i];
    }
    round->values[5] += device->poison;
    round->samples = device->samples;
    round->correct = device->samples / 2;
    round->loss = device->loss;
    return FED_OK;
}

static void sums_new(fed_device *device) {
    size_t n = device->fake.arch.layout.size;
    free(device->trained);
    free(device->last);
    device->trained = calloc(n, sizeof(float));
    device->last = calloc(n, sizeof(float));
    assert_true(device->trained != NULL && device->last != NULL);
}

void fed_device_open(fed_device *device, const char *codec, uint32_t rounds) {
    *device = (fed_device){.step = 1.0f / 1024, .samples = 10, .loss = 0.5f};
    fed_fake_open(&device->fake, "input 8 | dense 3", codec, rounds);
    fed_fake_flash_open(&device->flash);
    sums_new(device);
    device->options = (fedclient_options){.server = "https://fake:8443",
                                          .platform = &device->flash.platform,
                                          .transport = &device->fake.transport,
                                          .train = work,
                                          .user = device};
    assert_fed_ok_err_of(device, fedclient_open(&device->options, &device->client, &device->err));
    assert_fed_ok_err_of(device, fedclient_enrol(device->client, "good-token", &device->err));
    device->flash.puts = 0;
    device->fake.requests = 0;
}

void fed_device_close(fed_device *device) {
    fedclient_close(device->client);
    fed_fake_flash_close(&device->flash);
    fed_fake_close(&device->fake);
    free(device->trained);
    free(device->last);
}

int fed_device_setup(void **state, const char *codec, uint32_t rounds) {
    fed_device *device = calloc(1, sizeof *device);
    assert_non_null(device);
    fed_device_open(device, codec, rounds);
    *state = device;
    return 0;
}

int fed_device_teardown(void **state) {
    fed_device_close(*state);
    free(*state);
    return 0;
}

void fed_device_new_task(fed_device *device, const char *model) {
    fed_fake_new_task(&device->fake, model);
    sums_new(device);
}

void fed_device_restart(fed_device *device) {
    fedclient_close(device->client);
    device->client = NULL;
    fed_fake_flash_revive(&device->flash);
    device->fake.dies_at = UINT64_MAX;
    assert_fed_ok_err_of(device, fedclient_open(&device->options, &device->client, &device->err));
}

static uint64_t stored_seq(fed_device *device) {
    fedclient_residual_head head;
    fedclient_record record;
    assert_fed_ok_err_of(
        device, fedclient_residual_load(&device->flash.inner, 0, &head, &record, &device->err));
    fedclient_record_free(&record);
    return head.seq;
}

fed_status fed_device_step(fed_device *device, fedclient_event *event) {
    uint64_t before = stored_seq(device);
    device->err = (fed_error){0};
    fed_status status = fedclient_step(device->client, event, &device->err);
    if (stored_seq(device) > before) {
        for (size_t i = 0; i < device->fake.arch.layout.size; i++) {
            device->trained[i] += device->last[i];
        }
    }
    return status;
}

fedclient_event fed_device_event(fed_device *device) {
    fedclient_event event;
    assert_fed_ok_err_of(device, fed_device_step(device, &event));
    return event;
}

void fed_device_fail(fed_device *device, fed_status wanted) {
    fedclient_event event;
    assert_fed_status(fed_device_step(device, &event), wanted);
}

void fed_device_finish(fed_device *device, unsigned turns) {
    bool finished = false;
    for (unsigned k = 0; k < turns && !finished; k++) {
        fedclient_event event;
        assert_fed_ok_err_of(device, fed_device_step(device, &event));
        finished = event.outcome == FEDCLIENT_FINISHED ||
                   (event.outcome == FEDCLIENT_WAITED && event.reason == FED_WAIT_FINISHED);
    }
    assert_true(finished);
}

float *fed_owed(const fedclient_platform *store, const fed_layout *layout) {
    fed_error err = {0};
    float *sum = calloc(layout->size, sizeof *sum);
    assert_non_null(sum);
    fedclient_residual_head head;
    fedclient_pending_head sent;
    fedclient_record residual, pending;
    size_t n = 0, len = 0;
    assert_fed_ok_err(fedclient_residual_load(store, 0, &head, &residual, &err));
    assert_fed_ok_err(fedclient_pending_load(store, 0, &sent, &pending, &err));
    if (residual.bytes != NULL) {
        const float *values = fedclient_record_values(&residual, &n);
        assert_int_equal(n, layout->size);
        memcpy(sum, values, n * sizeof *sum);
    }
    bool counted = sent.seq == head.seq && sent.fate == FEDCLIENT_FATE_COUNTED;
    if (counted && sent.whole) {
        memset(sum, 0, n * sizeof *sum);
    } else if (counted) {
        fed_update update;
        fed_reader r;
        const uint8_t *body = fedclient_record_payload(&pending, &len);
        fed_reader_init(&r, body, len);
        fed_own_metrics own;
        assert_fed_ok(fed_update_read(&r, &update));
        assert_fed_ok(fed_own_metrics_read(&r, &own));
        assert_fed_ok_err(
            fedcodec_envelope_axpy(body + r.pos, fed_reader_left(&r), layout, -1, sum, &err));
    }
    fedclient_record_free(&residual);
    fedclient_record_free(&pending);
    return sum;
}

static float *owed(const fed_device *device) {
    return fed_owed(&device->flash.inner, &device->fake.arch.layout);
}

void fed_device_check(fed_device *device, float tolerance) {
    float *left = owed(device);
    for (size_t i = 0; i < device->fake.arch.layout.size; i++) {
        float sum = device->fake.counted[i] + left[i];
        if (fabsf(sum - device->trained[i]) > tolerance) {
            fail_msg("value %zu: trained %g, but %g is counted and %g owed", i,
                     (double)device->trained[i], (double)device->fake.counted[i], (double)left[i]);
        }
    }
    free(left);
}

float fed_device_owed(fed_device *device) {
    float *left = owed(device), sum = 0;
    for (size_t i = 0; i < device->fake.arch.layout.size; i++) {
        sum += fabsf(left[i]);
    }
    free(left);
    return sum;
}
