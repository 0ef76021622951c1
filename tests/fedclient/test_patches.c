/* Downloads of patches: they give exactly the model's bits, are requested only if offered, and a
 * wrong patch is replaced by another download. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"
#include "fedcodec/patch.h"

typedef struct world {
    fed_device device;
    fedclient_transport inner;
    float *held;    /* values of the version that the device has */
    bool offers;    /* the coordinator offers patches (FED_CAN_PATCH) */
    bool garbage;   /* damage patches that start from a version */
    uint32_t ahead; /* patches claim to start from a version newer by this number */
    unsigned patches, wholes, others;
} world;

static fed_layout *layout(world *w) {
    return &w->device.fake.arch.layout;
}

static void write_patch(world *w, const char *query, fed_writer *answer) {
    fed_fake *fake = &w->device.fake;
    const bool whole = strstr(query, "have=none") != NULL;
    const uint32_t have = (uint32_t)strtoul(strstr(query, "have=") + 5, NULL, 10);
    fed_writer patch;
    fed_writer_growing(&patch);
    assert_fed_ok(
        fedcodec_patch_write(whole ? NULL : w->held, fake->model, layout(w)->size, &patch));
    if (!whole && w->garbage) {
        patch.data[patch.len / 2] ^= 0x55;
    }
    fed_part_write(answer, &(fed_part){.kind = FED_PART_PATCH,
                                       .from = whole ? fake->version : have + w->ahead,
                                       .to = fake->version,
                                       .envelope = patch.data,
                                       .envelope_len = patch.len});
    fed_writer_free(&patch);
    w->patches += !whole;
    w->wholes += whole;
}

/* Set FED_CAN_PATCH in the capabilities, an answer's last field, which WAIT does not have. */
static void offer(fed_writer *answer) {
    if (answer->data[0] != FED_ACTION_WAIT) {
        answer->data[answer->len - 4] |= FED_CAN_PATCH;
    }
}

static fed_status send(void *user, const fedclient_request *request, int *status,
                       fed_writer *answer, fed_error *err) {
    world *w = user;
    const char *model = strstr(request->url, "/v1/model?");
    if (model != NULL && strstr(model, "&can=2") != NULL) {
        assert_true(w->offers);
        *status = 200;
        write_patch(w, model, answer);
        return FED_OK;
    }
    w->others += model != NULL;
    fed_status sent = w->inner.send(w->inner.user, request, status, answer, err);
    if (sent == FED_OK && w->offers && strstr(request->url, "/v1/checkin") != NULL) {
        offer(answer);
    }
    return sent;
}

static void traffic(void *user, fedclient_traffic *total) {
    world *w = user;
    w->inner.traffic(w->inner.user, total);
}

static fed_status identify(void *user, const fed_pem *key, const fed_pem *cert, fed_error *err) {
    world *w = user;
    return w->inner.identify(w->inner.user, key, cert, err);
}

static void disconnect(void *user) {
    world *w = user;
    w->inner.disconnect(w->inner.user);
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_device_open(&w->device, "3lc:s=1", 20);
    w->device.fake.no_personal = true; /* no field follows the capabilities: offer() needs that */
    w->inner = w->device.fake.transport;
    w->device.fake.transport = (fedclient_transport){.user = w,
                                                     .send = send,
                                                     .identify = identify,
                                                     .disconnect = disconnect,
                                                     .traffic = traffic};
    w->held = calloc(layout(w)->size, sizeof *w->held);
    assert_non_null(w->held);
    w->offers = true;
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    w->device.fake.transport = w->inner;
    fed_device_close(&w->device);
    free(w->held);
    free(w);
    return 0;
}

static fedclient_event step(world *w) {
    fedclient_event event;
    memcpy(w->held, w->device.fake.model, layout(w)->size * sizeof *w->held);
    assert_fed_ok_err_of(&w->device, fed_device_step(&w->device, &event));
    return event;
}

static void a_round_and_one_more(world *w) {
    assert_int_equal(step(w).outcome, FEDCLIENT_COUNTED);
    fed_fake *fake = &w->device.fake;
    for (size_t i = 0; i < layout(w)->size; i++) {
        fake->model[i] = (float)(i % 37) / 64 - fake->model[i];
    }
    fake->version++;
    fake->lease++;
}

static void assert_model_is_the_newest(world *w) {
    fed_device *d = &w->device;
    uint64_t task;
    uint32_t version;
    float *values = NULL;
    size_t count = 0;
    assert_fed_ok_err_of(d, fedclient_model(d->client, &task, &version, &values, &count, &d->err));
    assert_int_equal(version, d->fake.version);
    assert_memory_equal(values, d->fake.model, count * sizeof *values);
    free(values);
}

/* End the task, and check that the device has stored the fake's newest model. */
static void end_the_task(world *w) {
    w->device.fake.rounds = w->device.fake.version;
    fedclient_event event;
    assert_fed_ok_err_of(&w->device, fed_device_step(&w->device, &event));
    assert_int_equal(event.outcome, FEDCLIENT_FINISHED);
    assert_model_is_the_newest(w);
}

FED_TEST_WITH(a_model_comes_whole_as_a_patch, world *w) {
    w->device.fake.model[3] = -0.0f;
    w->device.fake.model[4] = 1e-45f;
    w->device.fake.rounds = 0;
    end_the_task(w);
    assert_int_equal(w->wholes, 1);
    assert_int_equal(w->patches + w->others, 0);
}

FED_TEST_WITH(a_patch_leads_from_the_version_held, world *w) {
    a_round_and_one_more(w);
    end_the_task(w);
    assert_int_equal(w->wholes, 1);
    assert_int_equal(w->patches, 1);
}

FED_TEST_WITH(patches_are_not_asked_for_where_none_are_offered, world *w) {
    w->offers = false;
    assert_int_equal(step(w).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(step(w).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->others, 2);
    w->offers = true; /* from now on the coordinator is of a newer release */
    assert_int_equal(step(w).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->others, 2);
}

static void expect_a_whole_one_instead(world *w) {
    end_the_task(w);
    assert_int_equal(w->patches, 1);
    assert_int_equal(w->wholes, 2);
}

FED_TEST_WITH(a_patch_that_makes_no_sense_is_replaced, world *w) {
    a_round_and_one_more(w);
    w->garbage = true;
    expect_a_whole_one_instead(w);
}

FED_TEST_WITH(a_patch_from_another_version_is_replaced, world *w) {
    a_round_and_one_more(w);
    w->ahead = 1;
    expect_a_whole_one_instead(w);
}

FED_TEST_WITH(a_patch_from_other_values_is_replaced, world *w) {
    a_round_and_one_more(w);
    w->held[7] += 1;
    expect_a_whole_one_instead(w);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
