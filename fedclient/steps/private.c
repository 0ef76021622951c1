/* Private tasks: what a device sends is whole numbers that add up, and says nothing else. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "fed/crypto.h"
#include "fed/own_metrics.h"
#include "fedclient/steps/steps.h"
#include "fedcodec/ring.h"

bool fedclient_is_private(const fedclient_job *job) {
    return job->codec.vtable != NULL && fedcodec_is_ring(job->codec.vtable);
}

static fed_privacy_fields shape_of(const fedclient_job *job) {
    const double *param = job->codec.param;
    return fed_privacy_shape(&job->assignment.privacy, (unsigned)param[0], param[1],
                             job->arch.layout.size);
}

fed_status fedclient_private_fits(const fedclient_job *job, fed_error *why) {
    const fed_privacy *told = &job->assignment.privacy;
    if (fedclient_is_private(job) != (told->clip > 0)) {
        return fed_fail(why, FED_EINVAL,
                        "codec ring and a clip go together, and the task has one of the two");
    }
    if (told->clip == 0) {
        return FED_OK;
    }
    if (told->helpers > 0) {
        return fed_fail(why, FED_EINVAL, "its updates are for %u helpers, of which it knows none",
                        told->helpers);
    }
    if (job->arch.trained < job->arch.layout.size) {
        return fed_fail(why, FED_EINVAL, "running statistics can't be clipped");
    }
    return shape_of(job).width > 0
               ? FED_OK
               : fed_fail(why, FED_EINVAL, "the round's sum does not fit into 32 bits");
}

bool fedclient_private_whole(const fedclient_job *job) {
    return shape_of(job).sent == job->arch.layout.size;
}

static fed_status random_bytes(void *user, void *dst, size_t len) {
    (void)user;
    return fed_random(dst, len);
}

fed_status fedclient_private_encode(const fedclient_job *job, const fed_update *head,
                                    const float *values, fed_writer *out) {
    fedcodec_ring ring = {.shape = shape_of(job)};
    /* D2 in docs/durability.md: the draw is that of the round that the message is for. */
    assert(head->task == job->assignment.task.id && head->round == job->assignment.round);
    fed_privacy_draw(head->task, head->round, ring.draw);
    fed_write_u8(out, FED_OWN_ENVELOPE);
    fed_write_u8(out, 0); /* helpers */
    uint8_t *fields = malloc(ring.shape.bytes);
    FED_REQUIRE(fields != NULL, FED_ENOMEM);
    const fed_status status = fedcodec_ring_encode(&ring, job->assignment.privacy.clip, values,
                                                   random_bytes, NULL, fields, NULL);
    if (status == FED_OK) {
        fed_write_bytes(out, fields, ring.shape.bytes);
    }
    free(fields);
    return status == FED_OK ? out->status : status;
}

void fedclient_private_settle(const fedclient_job *job, const fed_update *head, float *values) {
    fedcodec_ring ring = {.shape = shape_of(job)};
    fed_privacy_draw(head->task, head->round, ring.draw);
    fedcodec_ring_settle(&ring, values);
}
