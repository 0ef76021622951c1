/* The residual: everything this device has trained that the coordinator has not acknowledged. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/client.h"
#include "fedcodec/envelope.h"

bool fedclient_trained(const fedclient *client, const fed_assignment *assignment) {
    const fedclient_residual_head *held = &client->residual;
    return assignment->action == FED_ACTION_TRAIN && held->seq != 0 &&
           held->seq != client->pending.seq && held->task == assignment->task.id &&
           held->round == assignment->round && held->lease == assignment->lease;
}

/** Was the message that the residual holds counted? */
static bool counted(const fedclient *client) {
    return client->pending.seq == client->residual.seq &&
           client->pending.fate == FEDCLIENT_FATE_COUNTED;
}

/** The message that was counted: *envelope[*len] lies in the record, which is the caller's. */
static fed_status load_counted(const fedclient *client, fedclient_record *pending,
                               const uint8_t **envelope, size_t *len, fed_error *err) {
    fedclient_pending_head head;
    FED_TRY(fedclient_pending_load(client->options.platform, &head, pending, err));
    size_t size = 0;
    const uint8_t *body = fedclient_record_payload(pending, &size);
    fed_reader r;
    fed_update update;
    fed_reader_init(&r, body, size);
    FED_TRY(fed_update_read(&r, &update));
    *envelope = body + r.pos;
    *len = fed_reader_left(&r);
    return FED_OK;
}

/** values -= what the counted message says. */
static fed_status subtract_counted(const fedclient *client, const fed_layout *layout, float *values,
                                   fed_error *err) {
    if (client->pending.whole) {
        memset(values, 0, layout->size * sizeof *values);
        return FED_OK;
    }
    fedclient_record pending = {0};
    const uint8_t *envelope = NULL;
    size_t len = 0;
    fed_status status = load_counted(client, &pending, &envelope, &len, err);
    if (status == FED_OK) {
        status = fedcodec_envelope_axpy(envelope, len, layout, -1.0f, values, err);
    }
    fedclient_record_free(&pending);
    return status;
}

fed_status fedclient_round_sent(fedclient_round *round, fedclient_sent_visit visit, void *user,
                                fed_error *err) {
    const fedclient_turn *turn = round->turn;
    const fedclient *client = turn->client;
    if (turn->assignment.action != FED_ACTION_TRAIN || !counted(client) || client->pending.whole ||
        client->residual.task != turn->assignment.task.id) {
        return FED_OK;
    }
    fedclient_record pending = {0};
    const uint8_t *envelope = NULL;
    size_t len = 0, n = 0;
    fed_status status = load_counted(client, &pending, &envelope, &len, err);
    if (status == FED_OK) {
        status = fedcodec_envelope_decode(envelope, len, &turn->arch.layout, round->values, err);
    }
    fedclient_record_free(&pending);
    FED_TRY(status);
    visit(user, round->values, turn->arch.layout.size);
    const float *model = fedclient_record_values(&turn->model, &n);
    memcpy(round->values, model, n * sizeof *model);
    return FED_OK;
}

/** Start from nothing owed: there is no residual yet, or it is another task's. */
static fed_status start_anew(fedclient *client, fedclient_turn *turn) {
    if (turn->residual.bytes != NULL) {
        fed_logf(client->options.log, FED_LOG_INFO,
                 "task %" PRIu64 " begins; what was left to send to task %" PRIu64
                 " is dropped with it",
                 turn->assignment.task.id, client->residual.task);
    }
    fedclient_record_free(&turn->residual);
    return fedclient_record_new(turn->arch.layout.size * sizeof(float), &turn->residual);
}

/** turn->residual = what is owed now: the stored residual less the message that was counted. */
static fed_status settle(fedclient *client, fedclient_turn *turn, fed_error *err) {
    const fed_layout *layout = &turn->arch.layout;
    const fedclient_residual_head *head = &client->residual;
    FED_TRY(
        fedclient_residual_load(client->options.platform, &client->residual, &turn->residual, err));
    if (turn->residual.bytes == NULL || head->task != turn->assignment.task.id) {
        return start_anew(client, turn);
    }
    size_t count = 0;
    float *values = fedclient_record_values(&turn->residual, &count);
    if (count != layout->size) {
        return start_anew(client, turn);
    }
    return counted(client) ? subtract_counted(client, layout, values, err) : FED_OK;
}

/** residual += trained - model, all of it finite. */
static fed_status add_training(const fedclient_turn *turn, const float *trained, fed_error *err) {
    size_t n = 0;
    const float *model = fedclient_record_values(&turn->model, &n);
    float *residual = fedclient_record_values(&turn->residual, &n);
    for (size_t i = 0; i < n; i++) {
        residual[i] += trained[i] - model[i];
    }
    size_t bad = fed_first_nonfinite(residual, n);
    if (bad == n) {
        return FED_OK;
    }
    const fed_layout *layout = &turn->arch.layout;
    size_t k = 0;
    while (bad >= layout->tensors[k].offset + layout->tensors[k].size) {
        k++;
    }
    return fed_fail(err, FED_ENONFINITE,
                    "training left NaN or infinity in %s at %zu; the round is "
                    "given up: is the learning rate (%g) too high?",
                    layout->tensors[k].name, bad - layout->tensors[k].offset,
                    (double)turn->assignment.task.learning_rate);
}

/** Put turn->residual in place of the stored one. */
static fed_status store_training(fedclient *client, fedclient_turn *turn,
                                 const fedclient_round *round, fed_error *err) {
    uint64_t last = client->residual.seq;
    last = client->pending.seq > last ? client->pending.seq : last;
    assert(last <
           UINT64_MAX); /* D4: a number that was used before would subtract a message twice */
    client->residual = (fedclient_residual_head){.seq = last + 1,
                                                 .task = turn->assignment.task.id,
                                                 .lease = turn->assignment.lease,
                                                 .round = turn->assignment.round,
                                                 .samples = round->samples,
                                                 .loss = round->loss};
    return fedclient_residual_store(client->options.platform, &client->residual, &turn->residual,
                                    err);
}

fed_status fedclient_train(fedclient *client, fedclient_turn *turn, fed_error *err) {
    /* D2: what became of the last upload is known, else its gradient would be in the next one too
     */
    assert(client->pending.seq == 0 || client->pending.fate != FEDCLIENT_FATE_UNKNOWN);
    size_t n = 0;
    const float *model = fedclient_record_values(&turn->model, &n);
    float *trained = malloc(n * sizeof *trained);
    FED_REQUIRE(trained != NULL, FED_ENOMEM);
    memcpy(trained, model, n * sizeof *trained);
    fedclient_round round = {.values = trained};
    fed_status status = fedclient_callback(client, turn, &round, err);
    if (status == FED_OK) {
        status = settle(client, turn, err);
    }
    if (status == FED_OK) {
        status = add_training(turn, trained, err);
    }
    free(trained);
    fedclient_record_free(&turn->model);
    FED_TRY(status);
    return store_training(client, turn, &round, err);
}
