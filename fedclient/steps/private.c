/* Private tasks: what a device sends is whole numbers that add up, and says nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fed/crypto.h"
#include "fed/own_metrics.h"
#include "fed/private_terms.h"
#include "fedclient/steps/steps.h"
#include "fedcodec/ring.h"

bool fedclient_is_private(const fedclient_job *job) {
    return job->codec->vtable != NULL && fedcodec_is_ring(job->codec->vtable);
}

static fed_privacy_fields shape_of(const fedclient_job *job) {
    const double *param = job->codec->param;
    return fed_privacy_shape(&job->assignment.privacy, (unsigned)param[0], param[1],
                             fedclient_travels(job)->size);
}

/* Has the task the helper that this device knows? */
static bool is_known(const fed_points *helper, const uint8_t key[FED_SEAL_KEY]) {
    for (unsigned k = 0; k < helper->count; k++) {
        if (memcmp(helper->at[k], key, FED_SEAL_KEY) == 0) {
            return true;
        }
    }
    return false;
}

/* Is the task as private as this device wants? */
static fed_status above_floor(const fedclient *client, const fed_privacy *told, fed_error *why) {
    const fedclient_options *options = &client->options;
    if (told->helpers > 1) {
        return fed_fail(why, FED_EINVAL,
                        "its updates are for %u helpers; this device seals for one", told->helpers);
    }
    if (options->most_epsilon > 0 &&
        !(told->epsilon > 0 && told->epsilon <= options->most_epsilon)) {
        return fed_fail(why, FED_EINVAL,
                        told->epsilon > 0
                            ? "its promise is epsilon %g; this device wants %g at most"
                            : "it promises no epsilon (%g); this device wants %g at most",
                        (double)told->epsilon, (double)options->most_epsilon);
    }
    if (options->helper == NULL && options->least_devices == 0) {
        return FED_OK;
    }
    if (told->helpers == 0) {
        return fed_fail(why, FED_EINVAL,
                        "no helper opens its sums, and this device trains with a helper only");
    }
    if (options->helper != NULL && !is_known(options->helper, told->helper_key[0])) {
        return fed_fail(why, FED_EINVAL, "its helper is not the one that this device knows");
    }
    return told->minimum >= options->least_devices
               ? FED_OK
               : fed_fail(why, FED_EINVAL,
                          "its rounds commit with %u devices; this device wants %u at least",
                          told->minimum, options->least_devices);
}

fed_status fedclient_private_fits(const fedclient *client, const fedclient_job *job,
                                  fed_error *why) {
    const fed_privacy *told = &job->assignment.privacy;
    if (fedclient_is_private(job) != (told->clip > 0)) {
        return fed_fail(why, FED_EINVAL,
                        "codec ring and a clip go together, and the task has one of the two");
    }
    FED_TRY(above_floor(client, told, why));
    if (told->clip == 0) {
        return FED_OK;
    }
    const size_t trained = fedclient_has_own(job) ? job->split.trained : job->arch.trained;
    if (trained < fedclient_travels(job)->size) {
        return fed_fail(why, FED_EINVAL, "running statistics can't be clipped");
    }
    return shape_of(job).width > 0
               ? FED_OK
               : fed_fail(why, FED_EINVAL, "the round's sum does not fit into 32 bits");
}

bool fedclient_private_whole(const fedclient_job *job) {
    return shape_of(job).sent == fedclient_travels(job)->size;
}

/* The bytes that values are rounded by: no secret, unlike seeds and keys. */
static fed_status random_bytes(void *user, void *dst, size_t len) {
    const fedclient_options *options = *(const fedclient_options *const *)user;
    return options->rounding != NULL ? options->rounding(options->user, dst, len)
                                     : fed_random(dst, len);
}

/* SHA-256 of the values of the stored model, which was trained on, as little-endian bytes. */
static fed_status hash_model(const fedclient *client, const fedclient_job *job,
                             uint8_t digest[FED_SHA256_SIZE], fed_error *err) {
    enum { AT_A_TIME = 64 };
    uint8_t bytes[4 * AT_A_TIME];
    fedclient_model_head head;
    fedclient_record record = {0};
    fed_sha256_sum sum;
    size_t n = 0;
    FED_TRY(
        fedclient_model_load(client->options.platform, client->slot->number, &head, &record, err));
    const float *values = fedclient_record_values(&record, &n);
    fed_sha256_begin(&sum);
    for (size_t at = 0; at < n; at += AT_A_TIME) {
        fed_writer w;
        fed_writer_fixed(&w, bytes, sizeof bytes);
        for (size_t i = at; i < n && i < at + AT_A_TIME; i++) {
            fed_write_f32(&w, values[i]);
        }
        fed_sha256_add(&sum, bytes, w.len);
    }
    fed_sha256_end(&sum, digest);
    fedclient_record_free(&record);
    return head.task == job->assignment.task.id && head.version == job->assignment.version
               ? FED_OK
               : fed_fail(err, FED_EFORMAT, "the stored model is not the one that was trained");
}

/* The terms, from what the device was told: never a text that it got (fed/private_terms.h). */
static fed_status make_terms(const fedclient *client, const fedclient_job *job,
                             const fedcodec_ring *ring, fed_private_terms *terms, fed_error *err) {
    const fed_assignment *told = &job->assignment;
    memset(terms, 0, sizeof *terms);
    terms->task = told->task.id;
    terms->round = told->round;
    FED_TRY(hash_model(client, job, terms->model, err));
    fed_private_terms_layout(told->task.model, told->task.private_layers, terms->layout);
    memcpy(terms->codec_up, told->task.codec_up, sizeof terms->codec_up);
    terms->width = ring->shape.width;
    terms->fields = ring->shape.fields;
    terms->sent = ring->shape.sent;
    memcpy(terms->draw, ring->draw, sizeof terms->draw);
    terms->privacy = told->privacy;
    return FED_OK;
}

/* Draw a seed, seal and sign it, and mask the fields. C10 in docs/durability.md: a seed masks one
 * message; it is drawn here, lives in this function, and is derived from nothing. */
static fed_status mask(const fedclient *client, const fedclient_job *job, const fedcodec_ring *ring,
                       uint8_t *fields, fed_private *sealed) {
    uint8_t seeds[FED_HELPERS][FED_SEED];
    fed_private_terms terms;
    fed_error err;
    fed_pem *key = calloc(1, sizeof *key);
    FED_REQUIRE(key != NULL, FED_ENOMEM);
    fed_status status = fedclient_identity_key(client, key, &err);
    if (status == FED_OK) {
        status = make_terms(client, job, ring, &terms, &err);
    }
    if (status == FED_OK) {
        status = fed_private_seal(&terms, job->assignment.lease, key, sealed, seeds, &err);
    }
    for (unsigned k = 0; k < job->assignment.privacy.helpers && status == FED_OK; k++) {
        status = fed_private_mask_packed(seeds[k], ring->shape.width, fields, ring->shape.all);
    }
    fed_wipe(seeds, sizeof seeds);
    fed_wipe(key, sizeof *key);
    free(key);
    return status;
}

static fed_status append(const fedclient *client, const fedclient_job *job,
                         const fedcodec_ring *ring, uint8_t *fields, fed_writer *out) {
    fed_private sealed;
    if (job->assignment.privacy.helpers > 0) {
        FED_TRY(mask(client, job, ring, fields, &sealed));
        fed_private_write(out, &sealed);
    } else {
        fed_write_u8(out, 0);
    }
    fed_write_bytes(out, fields, ring->shape.bytes);
    return out->status;
}

fed_status fedclient_private_encode(const fedclient *client, const fedclient_job *job,
                                    const fed_update *head, const float *values, fed_writer *out) {
    const fedclient_options *options = &client->options;
    fedcodec_ring ring = {.shape = shape_of(job)};
    /* D2 in docs/durability.md: the draw is that of the round that the message is for. */
    assert(head->task == job->assignment.task.id && head->round == job->assignment.round);
    fed_privacy_draw(head->task, fed_privacy_drawn(&job->assignment.privacy, head->round),
                     ring.draw);
    fed_write_u8(out, FED_OWN_ENVELOPE);
    uint8_t *fields = malloc(ring.shape.bytes);
    FED_REQUIRE(fields != NULL, FED_ENOMEM);
    fed_status status = fedcodec_ring_encode(&ring, job->assignment.privacy.clip, values,
                                             random_bytes, &options, fields, NULL);
    if (status == FED_OK) {
        status = append(client, job, &ring, fields, out);
    }
    fed_wipe(fields, ring.shape.bytes); /* what they were before the mask, if it failed */
    free(fields);
    return status;
}

void fedclient_private_settle(const fedclient_job *job, const fed_update *head, float *values) {
    fedcodec_ring ring = {.shape = shape_of(job)};
    fed_privacy_draw(head->task, fed_privacy_drawn(&job->assignment.privacy, head->round),
                     ring.draw);
    fedcodec_ring_settle(&ring, values);
}
