/* Download: bring the stored model to the version that the coordinator asks for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fedclient/steps/steps.h"
#include "fedcodec/envelope.h"
#include "fedcodec/patch.h"

/** Bytes that an answer may have beyond a whole model, for the heads of its parts. */
enum { PART_HEADS = 65536 };

/** Can the part be applied? A part with from = to needs no earlier values; any other needs values
 * of version part->from. any: there are values, and they have version `version`. */
static bool follows(const fed_part *part, bool any, uint32_t version) {
    return part->from == part->to || (any && part->from == version);
}

static fed_status apply_part(const fed_part *part, const fed_layout *layout, float *values,
                             fed_error *err) {
    size_t len = (size_t)part->envelope_len;
    switch (part->kind) {
    case FED_PART_SNAPSHOT:
        return fedcodec_envelope_decode(part->envelope, len, layout, values, err);
    case FED_PART_DELTA:
        return fedcodec_envelope_axpy(part->envelope, len, layout, 1.0f, values, err);
    case FED_PART_CACHE:
        return fed_fail(err, FED_EFORMAT,
                        "the coordinator's download has the address of a cache among other parts, "
                        "which is not allowed");
    case FED_PART_PATCH:
        break;
    }
    if (part->from == part->to) {
        memset(values, 0, layout->size * sizeof *values);
    }
    return fedcodec_patch_apply(part->envelope, len, values, layout->size) == FED_OK
               ? FED_OK
               : fed_fail(err, FED_EFORMAT,
                          "the coordinator's patch of the model is damaged and can't be applied");
}

/** Apply all parts in order to values. Before and after, values has version *version if *any is
 * true. */
static fed_status apply_parts(const fed_writer *body, const fed_layout *layout, float *values,
                              bool *any, uint32_t *version, fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, body->data, body->len);
    while (fed_reader_left(&r) > 0) {
        fed_part part;
        if (fed_part_read(&r, &part) != FED_OK) {
            return fed_fail(
                err, FED_EFORMAT,
                "the download of a model from the coordinator is damaged and can't be read");
        }
        if (!follows(&part, *any, *version)) {
            return fed_fail(err, FED_EFORMAT,
                            "the coordinator sent a delta from version %" PRIu32
                            ", which this device does not hold",
                            part.from);
        }
        FED_TRY(apply_part(&part, layout, values, err));
        *any = true;
        *version = part.to;
    }
    return FED_OK;
}

static fed_status answer_limit(const fedclient_job *job, size_t *limit, fed_error *err) {
    fedcodec whole;
    FED_TRY(fedcodec_parse("float32", &whole, err));
    *limit = fedcodec_envelope_bound(&whole, fedclient_travels(job), 0) + PART_HEADS;
    return FED_OK;
}

/** GET the next bytes of the download. FED_OK: the status is 200 or 206. */
static fed_status get_more(fedclient *client, const fedclient_job *job,
                           const fedclient_partial_download *partial, size_t limit,
                           fedclient_range *range, fedclient_answer *answer, fed_error *err) {
    const fedclient_download_head *target = &partial->head;
    char held[16] = "none", query[128];
    if (target->have != FEDCLIENT_HAVE_NONE) {
        snprintf(held, sizeof held, "%" PRIu32, target->have);
    }
    const bool from_cache = fedclient_cache_download_wanted(client, job, partial);
    const uint32_t can = (job->assignment.capabilities & (FED_CAN_PATCH | FED_CAN_STAGES)) |
                         (from_cache ? (uint32_t)FED_CAN_URL : 0);
    snprintf(query, sizeof query, "?task=%" PRIu64 "&have=%s&want=%" PRIu32 "&can=%" PRIu32,
             target->task, held, target->want, can);
    size_t piece = fedclient_partial_download_piece(client);
    *range =
        (fedclient_range){.first = partial->bytes.len,
                          .most = limit > piece ? piece : 0, /* a small model is fetched whole */
                          .if_tag = target->tag};
    const fedclient_call call = {.base = client->devices,
                                 .kind = FED_REQUEST_MODEL,
                                 .query = query,
                                 .range = range,
                                 .answer_limit = limit};
    FED_TRY(fedclient_exchange(client, &call, answer, err));
    if (answer->status != 200 && answer->status != 206) {
        return fed_fail(err, answer->status == 404 ? FED_ENOTFOUND : FED_EFORMAT,
                        "the coordinator has no model for this device: %s (%s)", answer->message,
                        answer->error);
    }
    return FED_OK;
}

/** Append the received bytes to those that had arrived before. FED_EFORMAT: the received bytes do
 * not continue the earlier ones, or are too many. An answer that begins at byte 0 replaces all
 * earlier bytes. */
static fed_status take_in(fedclient *client, fedclient_partial_download *partial,
                          const fedclient_range *range, fed_writer *body, fed_error *err) {
    fedclient_download_head target = partial->head;
    fed_writer *bytes = &partial->bytes;
    bool follows = range->begin == bytes->len && range->tag == target.tag;
    if (range->begin == 0 && !(follows && bytes->len > 0)) {
        fedclient_partial_download_forget(client, partial);
        target.tag = range->tag;
        target.total = range->total;
        partial->head = target;
        *bytes = *body; /* takes over body's memory */
        fed_writer_growing(body);
    } else if (follows && range->total == target.total) {
        (void)fed_writer_reserve(bytes, (size_t)target.total - bytes->len);
        fed_write_bytes(bytes, body->data, body->len);
    } else {
        return fed_fail(err, FED_EFORMAT, "the coordinator sent other bytes than those asked for");
    }
    FED_REQUIRE(bytes->status == FED_OK, FED_ENOMEM);
    return bytes->len <= target.total
               ? FED_OK
               : fed_fail(err, FED_EFORMAT,
                          "the coordinator sent more bytes of the model than it announced");
}

/** Request the missing bytes once. Bytes that arrive before a connection breaks are kept. */
static fed_status fetch_more(fedclient *client, const fedclient_job *job,
                             fedclient_partial_download *partial, fed_error *err) {
    fedclient_answer answer = {0};
    fedclient_range range = {0};
    size_t before = partial->bytes.len, limit = 0;
    FED_TRY(answer_limit(job, &limit, err));
    fed_status status = get_more(client, job, partial, limit, &range, &answer, err);
    if (range.total == 0 && status == FED_OK) { /* the transport does not fill in ranges */
        range.total = answer.body.len;
    }
    fed_status taken = FED_OK;
    if (range.total != 0 || status == FED_OK) {
        fed_error why = {0};
        taken = range.total > limit ? fed_fail(&why, FED_EFORMAT,
                                               "the coordinator announced a download that is "
                                               "longer than the task's model can be")
                                    : take_in(client, partial, &range, &answer.body, &why);
        if (status == FED_OK && taken != FED_OK) {
            *err = why;
        }
    }
    fedclient_answer_free(&answer);
    if (partial->bytes.len > before) {
        /* Bytes have arrived, so later waits start short again. */
        client->failures = 0;
    } else if (status == FED_OK && taken == FED_OK && partial->head.total != before) {
        return fed_fail(err, FED_EFORMAT,
                        "the coordinator sent none of the missing bytes of the model");
    }
    return status != FED_OK ? status : taken;
}

static fed_status fetch_all(fedclient *client, const fedclient_job *job,
                            fedclient_partial_download *partial, fed_error *err) {
    fed_status status = FED_OK;
    do {
        status = fetch_more(client, job, partial, err);
        if (status != FED_OK || partial->bytes.len < partial->head.total) {
            fedclient_partial_download_keep(client, partial);
        }
    } while (status == FED_OK && partial->bytes.len < partial->head.total);
    /* C6 in docs/durability.md: a download is used only when all its bytes are there. */
    assert(status != FED_OK || partial->bytes.len == partial->head.total);
    return status;
}

static fed_status fetch_whole(fedclient *client, const fedclient_job *job,
                              fedclient_partial_download *partial, fed_error *err) {
    size_t limit = 0;
    fed_error why = {0};
    FED_TRY(answer_limit(job, &limit, err));
    if (!fedclient_cache_download_is(partial)) {
        FED_TRY(fetch_all(client, job, partial, err));
    }
    if (!fedclient_cache_download_is(partial)) {
        return FED_OK;
    }
    fed_status status = fedclient_cache_download_fetch(client, job, limit, partial, &why);
    if (status == FED_OK || status == FED_ECANCELED) {
        return status == FED_OK ? FED_OK : fed_fail(err, status, "%s", why.text);
    }
    fedclient_cache_download_failed(client, partial, why.text);
    return fetch_all(client, job, partial, err);
}

static fed_status apply(fedclient *client, fedclient_job *job,
                        const fedclient_partial_download *partial, fed_error *err) {
    const fedclient_download_head *target = &partial->head;
    const fedclient_model_head head = {
        .task = target->task, .version = target->want, .digest = target->digest};
    if (fedclient_model_adopt(client->options.platform, client->slot->number, &head, &job->model) ==
        FED_OK) {
        client->slot->model = head;
        return FED_OK;
    }
    FED_TRY(fedclient_record_own(&job->model));
    /* C5 in docs/durability.md: the parts are applied to a copy; the stored model stays until the
     * copy is stored. */
    assert(!job->model.lent);
    size_t count = 0;
    bool any = target->have != FEDCLIENT_HAVE_NONE;
    uint32_t version = any ? target->have : 0;
    float *values = fedclient_record_values(&job->model, &count);
    FED_TRY(apply_parts(&partial->bytes, fedclient_travels(job), values, &any, &version, err));
    if (!any || version != target->want || fed_digest(values, count) != target->digest) {
        return fed_fail(err, FED_EFORMAT,
                        "the model from the coordinator is not version %" PRIu32
                        " as announced (its digest differs)",
                        target->want);
    }
    /* C5 in docs/durability.md: the model is stored in the slot of its task. */
    assert(head.task == job->assignment.task.id);
    client->slot->model = head;
    return fedclient_model_store(client->options.platform, client->slot->number, &head, &job->model,
                                 err);
}

/** Finish the download that partial->head describes: fetch its missing bytes and apply it. The
 * bytes are removed, unless the download can go on after this failure. */
static fed_status finish(fedclient *client, fedclient_job *job, fedclient_partial_download *partial,
                         fed_error *err) {
    fed_status status = fetch_whole(client, job, partial, err);
    if (status == FED_OK) {
        status = apply(client, job, partial, err);
    }
    if (status == FED_OK || status == FED_EFORMAT || status == FED_ENOTFOUND) {
        fedclient_partial_download_forget(client, partial);
    }
    return status;
}

static fed_status fetch(fedclient *client, fedclient_job *job, uint32_t have,
                        fedclient_partial_download *partial, fed_error *err) {
    const fed_assignment *wanted = &job->assignment;
    /* C6 in docs/durability.md: a new download starts without bytes of another answer. */
    assert(partial->bytes.len == 0 && partial->pieces == 0);
    partial->head = (fedclient_download_head){
        .task = wanted->task.id, .have = have, .want = wanted->version, .digest = wanted->digest};
    return finish(client, job, partial, err);
}

/** *usable: job->model is this task's stored model, which can be updated. Else it is new memory for
 * a model. */
static fed_status take_up(fedclient *client, fedclient_job *job, bool *usable, fed_error *err) {
    const fed_assignment *wanted = &job->assignment;
    size_t size = fedclient_travels(job)->size, count = 0;
    fedclient_slot *slot = client->slot;
    if (slot->model.task == wanted->task.id && slot->model.version <= wanted->version) {
        FED_TRY(fedclient_model_load(client->options.platform, slot->number, &slot->model,
                                     &job->model, err));
    }
    if (job->model.bytes != NULL) {
        (void)fedclient_record_values(&job->model, &count);
    }
    *usable = count == size;
    if (!*usable) {
        fedclient_record_free(&job->model);
        FED_TRY(fedclient_record_new(size * sizeof(float), &job->model));
    }
    return FED_OK;
}

static bool is_wanted(const fedclient *client, const fed_assignment *wanted) {
    const fedclient_model_head *held = &client->slot->model;
    return held->version == wanted->version && held->digest == wanted->digest;
}

/** Is an earlier step's download still of use? A download of an older version than the wanted one
 * counts as useful, too. Otherwise a device slower than the rounds would start new downloads for
 * ever. */
static bool still_leads(const fedclient *client, const fed_assignment *wanted, bool usable,
                        const fedclient_download_head *head) {
    const fedclient_model_head *held = &client->slot->model;
    bool from = head->have == FEDCLIENT_HAVE_NONE || (usable && head->have == held->version);
    bool to = head->want < wanted->version ||
              (head->want == wanted->version && head->digest == wanted->digest);
    bool news = !usable || head->want > held->version || head->digest != held->digest;
    return head->task == wanted->task.id && from && to && news;
}

/** Update a usable stored model by deltas or patches. Without one, or if these can't be used, get
 * the whole model. */
static fed_status fetch_any(fedclient *client, fedclient_job *job, bool usable,
                            fedclient_partial_download *partial, fed_error *err) {
    const uint32_t held = client->slot->model.version;
    if (usable && held < job->assignment.version) {
        fed_status status = fetch(client, job, held, partial, err);
        if (status != FED_EFORMAT && status != FED_ENOTFOUND) {
            return status;
        }
        fed_logf(client->options.log, FED_LOG_WARN, "%s; this device now fetches the whole model",
                 err->text);
    }
    return fetch(client, job, FEDCLIENT_HAVE_NONE, partial, err);
}

static fed_status go_on(fedclient *client, fedclient_job *job, bool usable,
                        fedclient_partial_download *partial, fed_error *err) {
    if (!still_leads(client, &job->assignment, usable, &partial->head)) {
        fedclient_partial_download_forget(client, partial);
        return fetch_any(client, job, usable, partial, err);
    }
    fed_status status = finish(client, job, partial, err);
    if (status == FED_OK && is_wanted(client, &job->assignment)) {
        return FED_OK;
    }
    if (status == FED_OK || status == FED_ENOTFOUND) {
        return fetch_any(client, job, usable || status == FED_OK, partial, err);
    }
    return status == FED_EFORMAT ? fetch_any(client, job, false, partial, err) : status;
}

fed_status fedclient_download(fedclient *client, fedclient_job *job, fed_error *err) {
    bool usable = false;
    FED_TRY(take_up(client, job, &usable, err));
    if (usable && is_wanted(client, &job->assignment)) {
        return FED_OK;
    }
    fed_error fault = {0}; /* *err stays unchanged if another download replaces one that failed */
    fedclient_partial_download partial;
    fed_status status = fedclient_partial_download_load(client, &partial, &fault);
    if (status == FED_OK) {
        status = go_on(client, job, usable, &partial, &fault);
    }
    fedclient_partial_download_free(&partial);
    if (status != FED_OK) {
        *err = fault;
    }
    /* C5, D5 in docs/durability.md: after a success the stored model has the digest that the
     * coordinator announced. */
    assert(status != FED_OK || is_wanted(client, &job->assignment));
    if (status == FED_ENOTFOUND) {
        client->heals = true;
        client->failures = 0;
    }
    return status;
}
