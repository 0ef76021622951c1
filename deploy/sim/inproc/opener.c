/* The helper of a run in one process: enrolment, questions of the coordinator, answers to it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/inproc/opener.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deploy/sim/scenario/helper_key.h"
#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/wire.h"

enum { TOKEN_LIFE_S = 3600, LEAST = 2 /* the task's own minimum is for the scenario to say */ };

fed_status sim_opener_open(sim_opener *opener, const sim_options *o, fed_error *err) {
    char path[600] = ":memory:";
    fedserver_helper_options options = {.path = path, .least = LEAST};
    uint8_t key[FED_SEAL_KEY];
    if (!o->helper) {
        return FED_OK;
    }
    FED_TRY(sim_helper_key(o->seed, options.secret, key, err));
    FED_TRY(fed_key_of(options.secret, &opener->key, err));
    FED_TRY(fed_key_fingerprint(&opener->key, opener->fingerprint, err));
    if (o->state != NULL) {
        sim_options_state_path(o, "helper.db", path, sizeof path);
    }
    return fedserver_helper_open(&options, &opener->helper, err);
}

void sim_opener_close(sim_opener *opener) {
    fedserver_helper_close(opener->helper);
    opener->helper = NULL;
}

static fed_status send(sim_host *host, const fedserver_request *request, int64_t us,
                       fedserver_response *response, fed_error *err) {
    FED_TRY(sim_host_handle(host, request, us, response, err));
    if (response->status >= 400) {
        size_t len = 0;
        const uint8_t *text =
            response->body != NULL ? fedserver_blob_data(response->body, &len) : NULL;
        const fed_status refused =
            fed_fail(err, FED_ESTATE, "the coordinator refuses the helper's %s: %.*s",
                     request->path, len < 200 ? (int)len : 200, (const char *)text);
        fedserver_blob_free(response->body);
        return refused;
    }
    return FED_OK;
}

fed_status sim_opener_enrol(sim_opener *opener, sim_host *host, fed_error *err) {
    char token[FEDSERVER_TOKEN];
    fed_pem csr;
    fedserver_response response;
    if (opener->helper == NULL) {
        return FED_OK;
    }
    const fedserver_grant grant = {.ttl_s = TOKEN_LIFE_S, .role = FEDSERVER_ROLE_HELPER};
    FED_TRY(fedserver_token_grant(host->server, SIM_EPOCH_MS, &grant, token, err));
    FED_TRY(fed_csr_new(&opener->key, "helper", &csr, err));
    const fedserver_request request = {.listener = FEDSERVER_FRONT,
                                       .method = "POST",
                                       .path = FED_PATH_ENROL,
                                       .query = "",
                                       .bearer = token,
                                       .body = (const uint8_t *)csr.text,
                                       .body_len = strlen(csr.text)};
    FED_TRY(send(host, &request, 0, &response, err));
    fedserver_blob_free(response.body);
    return sim_host_commit(host, err);
}

static fedserver_request request_of(const sim_opener *opener, const char *path, const void *body,
                                    size_t len) {
    return (fedserver_request){.listener = FEDSERVER_DEVICES,
                               .method = "POST",
                               .path = path,
                               .query = "",
                               .fingerprint = opener->fingerprint,
                               .body = body,
                               .body_len = len};
}

static fed_status read_question(const fedserver_response *response, sim_opening *opening,
                                fed_error *err) {
    size_t len = 0;
    const uint8_t *data = fedserver_blob_data(response->body, &len);
    fed_reader r;
    fed_reader_init(&r, data, len);
    return fedserver_inquiry_read(&r, &opening->question) == FED_OK && fed_reader_end(&r) == FED_OK
               ? FED_OK
               : fed_fail(err, FED_EFORMAT,
                          "the coordinator's question to the helper makes no "
                          "sense");
}

fed_status sim_opener_ask(sim_opener *opener, sim_host *host, int64_t us, sim_opening *opening,
                          bool *waits, fed_error *err) {
    uint8_t body[sizeof(uint32_t)];
    fedserver_response response;
    fed_writer w;
    *opening = (sim_opening){0};
    *waits = false;
    fed_writer_fixed(&w, body, sizeof body);
    fed_write_u32(&w, 0); /* hold_ms */
    const fedserver_request request = request_of(opener, "/v1/helper", body, w.len);
    FED_TRY(send(host, &request, us, &response, err));
    if (response.status != 200) {
        fedserver_blob_free(response.body);
        return FED_OK;
    }
    *waits = true;
    fed_status status = read_question(&response, opening, err);
    fedserver_blob_free(response.body);
    /* Over HTTPS an answer leaves after its batch's commit, so the question would be durable. */
    return status == FED_OK ? sim_host_commit(host, err) : status;
}

fed_status sim_opener_answer(sim_opener *opener, sim_opening *opening, fed_error *err) {
    const int64_t before_us = fed_clock_thread_cpu_us();
    FED_TRY(fedserver_helper_answer(opener->helper, &opening->question, &opening->reply, err));
    opener->cpu_us += fed_clock_thread_cpu_us() - before_us;
    const fedserver_reply *reply = &opening->reply;
    if (reply->word[0] != '\0') {
        return fed_fail(err, FED_ESTATE, "the helper does not open round %u (%s): %s", reply->round,
                        reply->word, reply->sentence);
    }
    return FED_OK;
}

/** The whole reply as one piece. */
static fed_status write_piece(const fedserver_reply *reply, fed_writer *w) {
    fed_writer whole;
    fed_writer_growing(&whole);
    fedserver_reply_write(&whole, reply);
    const fed_piece head = {.task = reply->task,
                            .round = reply->round,
                            .lease = 1,
                            .digest = fed_digest_bytes(whole.data, whole.len),
                            .total = whole.len};
    fed_piece_write(w, &head);
    fed_write_bytes(w, whole.data, whole.len);
    const fed_status status = whole.status != FED_OK ? whole.status : w->status;
    fed_writer_free(&whole);
    return status;
}

fed_status sim_opener_give(sim_opener *opener, sim_host *host, int64_t us, sim_opening *opening,
                           fed_error *err) {
    fedserver_response response;
    fed_writer piece;
    fed_writer_growing(&piece);
    fed_status status = write_piece(&opening->reply, &piece);
    if (status == FED_OK) {
        const fedserver_request request = request_of(opener, "/v1/opening", piece.data, piece.len);
        status = send(host, &request, us, &response, err);
    }
    if (status == FED_OK) {
        fedserver_blob_free(response.body);
    }
    fed_writer_free(&piece);
    sim_opening_free(opening);
    return status;
}

void sim_opening_free(sim_opening *opening) {
    fedserver_inquiry_free(&opening->question);
    fedserver_reply_free(&opening->reply);
}
