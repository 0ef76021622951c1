/* Download: bring the stored model to the version that the coordinator asks for. */
#include <inttypes.h>
#include <stdio.h>

#include "fedclient/client.h"
#include "fedcodec/envelope.h"

/** Allowed in an answer beyond a whole model: heads of parts. */
enum { PART_HEADS = 65536 };

/** Apply part after part to values, which are of version *version (where *any says so). */
static fed_status apply_parts(const fed_writer *body, const fed_layout *layout, float *values,
                              bool *any, uint32_t *version, fed_error *err) {
    fed_reader r;
    fed_reader_init(&r, body->data, body->len);
    while (fed_reader_left(&r) > 0) {
        fed_part part;
        if (fed_part_read(&r, &part) != FED_OK) {
            return fed_fail(err, FED_EFORMAT, "the model from the coordinator can't be read");
        }
        if (part.kind == FED_PART_SNAPSHOT) {
            FED_TRY(fedcodec_envelope_decode(part.envelope, (size_t)part.envelope_len, layout,
                                             values, err));
        } else if (*any && part.from == *version) {
            FED_TRY(fedcodec_envelope_axpy(part.envelope, (size_t)part.envelope_len, layout, 1.0f,
                                           values, err));
        } else {
            return fed_fail(err, FED_EFORMAT,
                            "the coordinator sent a delta from version %" PRIu32
                            ", which this device does not hold",
                            part.from);
        }
        *any = true;
        *version = part.to;
    }
    return FED_OK;
}

/** GET what is missing: since `have`, or (have NULL) everything. Only 200 is FED_OK. */
static fed_status get_parts(fedclient *client, const fedclient_turn *turn, const uint32_t *have,
                            fedclient_answer *answer, fed_error *err) {
    const fed_assignment *wanted = &turn->assignment;
    char held[16] = "none", path[128];
    if (have != NULL) {
        snprintf(held, sizeof held, "%" PRIu32, *have);
    }
    snprintf(path, sizeof path, "/v1/model?task=%" PRIu64 "&have=%s&want=%" PRIu32, wanted->task.id,
             held, wanted->version);
    fedcodec whole;
    FED_TRY(fedcodec_parse("float32", &whole, err));
    const fedclient_call call = {
        .method = "GET",
        .base = client->devices,
        .path = path,
        .answer_limit = fedcodec_envelope_bound(&whole, &turn->arch.layout, 0) + PART_HEADS};
    FED_TRY(fedclient_exchange(client, &call, answer, err));
    if (answer->status != 200) {
        return fed_fail(err, answer->status == 404 ? FED_ENOTFOUND : FED_EFORMAT,
                        "the coordinator has no model for this device: %s (%s)", answer->message,
                        answer->error);
    }
    return FED_OK;
}

/** Bring turn->model, of version *have (NULL: none of use), to the wanted version, and store it. */
static fed_status fetch(fedclient *client, fedclient_turn *turn, const uint32_t *have,
                        fed_error *err) {
    const fed_assignment *wanted = &turn->assignment;
    fedclient_answer answer = {0};
    size_t count = 0;
    bool any = have != NULL;
    uint32_t version = any ? *have : 0;
    float *values = fedclient_record_values(&turn->model, &count);
    fed_status status = get_parts(client, turn, have, &answer, err);
    if (status == FED_OK) {
        status = apply_parts(&answer.body, &turn->arch.layout, values, &any, &version, err);
    }
    fedclient_answer_free(&answer);
    FED_TRY(status);
    if (!any || version != wanted->version || fed_digest(values, count) != wanted->digest) {
        return fed_fail(err, FED_EFORMAT,
                        "the model from the coordinator is not version %" PRIu32
                        " as announced (its digest differs)",
                        wanted->version);
    }
    client->model = (fedclient_model_head){
        .task = wanted->task.id, .version = wanted->version, .digest = wanted->digest};
    return fedclient_model_store(client->options.platform, &client->model, &turn->model, err);
}

/** turn->model = the stored model where it is of this task, else room for one. */
static fed_status take_up(fedclient *client, fedclient_turn *turn, bool *usable, fed_error *err) {
    const fed_assignment *wanted = &turn->assignment;
    size_t size = turn->arch.layout.size, count = 0;
    if (client->model.task == wanted->task.id && client->model.version <= wanted->version) {
        FED_TRY(fedclient_model_load(client->options.platform, &client->model, &turn->model, err));
    }
    if (turn->model.bytes != NULL) {
        (void)fedclient_record_values(&turn->model, &count);
    }
    *usable = count == size;
    if (!*usable) {
        fedclient_record_free(&turn->model);
        FED_TRY(fedclient_record_new(size * sizeof(float), &turn->model));
    }
    return FED_OK;
}

fed_status fedclient_download(fedclient *client, fedclient_turn *turn, fed_error *err) {
    bool usable = false;
    FED_TRY(take_up(client, turn, &usable, err));
    const fedclient_model_head *held = &client->model;
    if (usable && held->version == turn->assignment.version &&
        held->digest == turn->assignment.digest) {
        return FED_OK;
    }
    fed_status status = FED_EFORMAT;
    if (usable && held->version < turn->assignment.version) {
        status = fetch(client, turn, &held->version, err);
        if (status != FED_EFORMAT && status != FED_ENOTFOUND) {
            return status;
        }
        fed_logf(client->options.log, FED_LOG_WARN, "%s; fetching the whole model", err->text);
    }
    status = fetch(client, turn, NULL, err);
    if (status == FED_ENOTFOUND) { /* the round went on without this device: it may join the next */
        client->heals = true;
        client->failures = 0;
    }
    return status;
}
