/* Identity: enrolment with a one-time token, and renewal. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/steps/steps.h"

/** The contents of the record "identity". Key and certificate are in one record, so that a crash
 * can't leave one without the other. */
typedef struct identity {
    uint16_t devices_port;
    fed_pem key;
    fed_pem cert; /* followed by the coordinator's CAs; "": not enrolled */
    fed_pem next; /* the key that is being enrolled; "": none */
    /* Not stored, but read from key and certificate: */
    char device[FED_SHA256_HEX];
    int64_t begins_s, expires_s;
} identity;

int fedclient_enrolled(const fedclient *client) {
    return client->device[0] != '\0';
}

const char *fedclient_device(const fedclient *client) {
    return client->device;
}

/** Check that id->cert is a certificate for id->key, and read the members that are not stored. */
static fed_status identity_inspect(identity *id, fed_error *err) {
    uint8_t digest[FED_SHA256_SIZE];
    uint8_t certified[FED_SHA256_SIZE];
    FED_TRY(fed_key_fingerprint(&id->key, digest, err));
    FED_TRY(fed_cert_key_fingerprint(id->cert.text, certified, err));
    if (memcmp(digest, certified, sizeof digest) != 0) {
        return fed_fail(err, FED_EFORMAT,
                        "the certificate from the coordinator is not for this device's key");
    }
    FED_TRY(fed_cert_validity(id->cert.text, &id->begins_s, &id->expires_s, err));
    fed_hex(digest, sizeof digest, id->device);
    return FED_OK;
}

static fed_status identity_take(fedclient *client, const identity *id, fed_error *err) {
    const fedclient_transport *transport = client->options.transport;
    /* C9 in docs/durability.md: identity_inspect has checked the certificate. */
    assert(id->cert.text[0] != '\0' && id->device[0] != '\0');
    FED_TRY(transport->identify(transport->user, &id->key, &id->cert, err));
    memcpy(client->device, id->device, sizeof client->device);
    client->begins_s = id->begins_s;
    client->expires_s = id->expires_s;
    client->renew_s = id->expires_s - (id->expires_s - id->begins_s) / 3;
    fedclient_addresses_port(client, id->devices_port);
    return FED_OK;
}

static fed_status identity_read(const fedclient *client, identity *id, fed_error *err) {
    fedclient_record record = {0};
    FED_TRY(fedclient_record_load(client->options.platform, FEDCLIENT_IDENTITY, 0, &record, err));
    size_t len = 0;
    const uint8_t *payload = fedclient_record_payload(&record, &len);
    fed_reader r;
    fed_reader_init(&r, payload, len);
    memset(id, 0, sizeof *id);
    id->devices_port = fed_read_u16(&r);
    fed_read_str(&r, id->key.text, sizeof id->key.text);
    fed_read_str(&r, id->cert.text, sizeof id->cert.text);
    if (fed_reader_left(&r) > 0) {
        fed_read_str(&r, id->next.text, sizeof id->next.text);
    }
    fed_status status = fed_reader_end(&r);
    fedclient_record_free(&record);
    if (status != FED_OK) {
        return fed_fail(err, status,
                        "the stored value \"identity\" makes no sense: remove it and "
                        "enrol again");
    }
    return id->cert.text[0] != '\0' ? identity_inspect(id, err) : FED_OK;
}

/** Allocate an identity, whose three PEM texts take 12 KB: too much for a small device's stack. */
static fed_status identity_new(identity **id) {
    *id = calloc(1, sizeof **id);
    return *id != NULL ? FED_OK : FED_ENOMEM;
}

/** Is this the identity of the key that the program gave, if it gave one? */
static fed_status identity_fits(const fedclient *client, const identity *id, bool *fits,
                                fed_error *err) {
    uint8_t digest[FED_SHA256_SIZE];
    char name[FED_SHA256_HEX];
    *fits = true;
    if (client->options.key != NULL) {
        FED_TRY(fed_key_fingerprint(client->options.key, digest, err));
        fed_hex(digest, sizeof digest, name);
        *fits = strcmp(name, id->device) == 0;
    }
    return FED_OK;
}

fed_status fedclient_identity_load(fedclient *client, fed_error *err) {
    identity *id = NULL;
    bool fits = false;
    FED_TRY(identity_new(&id));
    fed_status status = identity_read(client, id, err);
    if (status == FED_OK && id->cert.text[0] != '\0') {
        status = identity_fits(client, id, &fits, err);
    }
    if (status == FED_OK && fits) {
        status = identity_take(client, id, err);
    }
    free(id);
    return status == FED_ENOTFOUND ? FED_OK : status;
}

fed_status fedclient_identity_key(const fedclient *client, fed_pem *key, fed_error *err) {
    identity *id = NULL;
    FED_TRY(identity_new(&id));
    const fed_status status = identity_read(client, id, err);
    if (status == FED_OK) {
        *key = id->key;
    }
    fed_wipe(id, sizeof *id);
    free(id);
    return status;
}

static fed_status identity_store(fedclient *client, const identity *id, fed_error *err) {
    fed_writer w;
    /* C9 in docs/durability.md: an identity is stored with a key, never a certificate alone. */
    assert(id->key.text[0] != '\0' || id->next.text[0] != '\0');
    fed_writer_growing(&w);
    fed_write_u16(&w, id->devices_port);
    fed_write_str(&w, id->key.text);
    fed_write_str(&w, id->cert.text);
    if (id->next.text[0] != '\0') {
        fed_write_str(&w, id->next.text);
    }
    fedclient_record record = {0};
    fed_status status = w.status;
    if (status == FED_OK) {
        status = fedclient_record_new(w.len, &record);
    }
    if (status == FED_OK) {
        size_t len = 0;
        memcpy(fedclient_record_payload(&record, &len), w.data, w.len);
        status =
            fedclient_record_store(client->options.platform, FEDCLIENT_IDENTITY, 0, &record, err);
    }
    fed_writer_free(&w);
    fedclient_record_free(&record);
    return status;
}

/** Read the answer: a line "devices-port: N", then the certificate, then the CAs. */
static fed_status read_answer(fedclient_answer *answer, identity *id, fed_error *err) {
    static const char label[] = "devices-port: ";
    fed_write_u8(&answer->body, 0);
    FED_TRY(answer->body.status);
    const char *text = (const char *)answer->body.data;
    char *end = (char *)answer->body.data;
    unsigned long port = 0;
    if (strncmp(text, label, sizeof label - 1) == 0) {
        port = strtoul(text + sizeof label - 1, &end, 10);
    }
    if (port == 0 || port > UINT16_MAX || *end != '\n' || strlen(end + 1) >= FED_PEM_SIZE) {
        return fed_fail(
            err, FED_EFORMAT,
            "the answer to the request for a certificate is no certificate: is this the "
            "coordinator's address?");
    }
    id->devices_port = (uint16_t)port;
    memcpy(id->cert.text, end + 1, strlen(end + 1) + 1);
    return identity_inspect(id, err);
}

/** A refusal: the coordinator's error code, such as "token_used". */
typedef struct refusal {
    char word[sizeof((fedclient_answer){0}.error)];
} refusal;

static fed_status send_request(fedclient *client, const char *token, const fed_pem *csr,
                               fedclient_answer *answer, fed_error *err) {
    fedclient_span span = {.data = (const uint8_t *)csr->text, .left = strlen(csr->text)};
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {.base = client->front,
                                 .kind = token != NULL ? FED_REQUEST_ENROL : FED_REQUEST_RENEW,
                                 .bearer = token,
                                 .body = &body,
                                 .answer_limit = FED_PEM_SIZE + 64,
                                 .introduces = true};
    return fedclient_exchange(client, &call, answer, err);
}

/** Ask for a certificate for id->key: with a token to enrol, without one to renew. */
static fed_status request_certificate(fedclient *client, const char *token, identity *id,
                                      refusal *no, fed_error *err) {
    *no = (refusal){0};
    /* C9 in docs/durability.md: the key is stored before the coordinator sees it. */
    assert(id->key.text[0] != '\0' && id->next.text[0] == '\0');
    fed_pem *csr = calloc(1, sizeof *csr);
    FED_REQUIRE(csr != NULL, FED_ENOMEM);
    fedclient_answer answer = {0};
    fed_status status = fed_csr_new(&id->key, "device", csr, err);
    if (status == FED_OK) {
        status = send_request(client, token, csr, &answer, err);
    }
    free(csr);
    memcpy(no->word, answer.error, sizeof no->word);
    if (status == FED_OK && answer.status != 200) {
        status =
            fed_fail(err, FED_EFORMAT, "the coordinator refused this device a certificate: %s (%s)",
                     answer.message, answer.error);
    }
    if (status == FED_OK) {
        status = read_answer(&answer, id, err);
    }
    fedclient_answer_free(&answer);
    return status;
}

/** Take the program's key, or that of an earlier try; or make and store a new one. So after any
 * failure the next try uses the same key. Until the new certificate is stored, an older identity
 * stays valid. anew: make a new key in any case. */
static fed_status prepare_key(fedclient *client, bool anew, identity *id, fed_error *err) {
    memset(id, 0, sizeof *id);
    fed_status status = identity_read(client, id, err);
    FED_REQUIRE(status == FED_OK || status == FED_ENOTFOUND, status);
    if (client->options.key != NULL) {
        id->next = *client->options.key;
        FED_TRY(identity_store(client, id, err));
    } else if (anew || id->next.text[0] == '\0') {
        FED_TRY(fed_key_new(&id->next, err));
        FED_TRY(identity_store(client, id, err));
    }
    id->key = id->next;
    id->next.text[0] = '\0';
    return FED_OK;
}

/** The coordinator says that the token is used. If it was used for this key, and only the answer
 * was lost, the key is enrolled: then a renewal gets its certificate. So it does if the program's
 * own key is known. */
static fed_status claim(fedclient *client, identity *id, fed_error *err) {
    fed_error used = *err;
    refusal no;
    fed_status status = request_certificate(client, NULL, id, &no, err);
    if (strcmp(no.word, "device_unknown") == 0) {
        *err = used;
    }
    return status;
}

static fed_status enrol(fedclient *client, const char *token, identity *id, fed_error *err) {
    refusal no;
    FED_TRY(prepare_key(client, false, id, err));
    fed_status status = request_certificate(client, token, id, &no, err);
    const bool known = strcmp(no.word, "key_known") == 0;
    if (strcmp(no.word, "token_used") == 0 || (known && client->options.key != NULL)) {
        status = claim(client, id, err);
    } else if (known) {
        /* An older token enrolled the key. This token is unused, and may be for another role. */
        FED_TRY(prepare_key(client, true, id, err));
        status = request_certificate(client, token, id, &no, err);
    }
    FED_TRY(status);
    /* C9 in docs/durability.md: the enrolled key is now the only one in the identity. */
    assert(id->next.text[0] == '\0');
    FED_TRY(fedclient_let_go(client, err));
    FED_TRY(identity_store(client, id, err));
    return identity_take(client, id, err);
}

fed_status fedclient_enrol(fedclient *client, const char *token, fed_error *err) {
    FED_TRY(fedclient_between_steps(client, "fedclient_enrol", err));
    fed_error fault = {0}; /* *err stays unchanged if another try succeeds */
    identity *id = NULL;
    FED_TRY(identity_new(&id));
    fed_status status = FED_OK;
    /* C9 in docs/durability.md: each address gets the same key and token, so one token is enough.
     */
    for (unsigned k = 0; k < client->addresses; k++) {
        client->unreached = false;
        status = enrol(client, token, id, &fault);
        if (status == FED_OK || !client->unreached) {
            break;
        }
        fedclient_addresses_next(client);
    }
    free(id);
    if (status != FED_OK) {
        return fault.text[0] != '\0' ? fed_fail(err, status, "%s", fault.text) : status;
    }
    fed_logf(client->options.log, FED_LOG_INFO, "enrolled as device %s", client->device);
    return FED_OK;
}

fed_status fedclient_token_give(fedclient *client, const char *token, fed_error *err) {
    if (!fedclient_enrolled(client)) {
        return fedclient_enrol(client, token, err);
    }
    const size_t size = strlen(token) + 1;
    char *copy = malloc(size);
    if (copy == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a token of %zu bytes", size);
    }
    memcpy(copy, token, size);
    free(client->token);
    client->token = copy;
    return FED_OK;
}

static void forget_token(fedclient *client) {
    free(client->token);
    client->token = NULL;
}

fed_status fedclient_enrol_anew(fedclient *client, fedclient_event *event, fed_error *why) {
    fed_logf(client->options.log, FED_LOG_WARN, "%s: this device enrols again, with its token",
             why->text);
    fed_error fault = {0};
    client->heals = false;
    const fed_status status = fedclient_enrol(client, client->token, &fault);
    if (status == FED_OK) {
        forget_token(client);
        event->outcome = FEDCLIENT_RETRY;
        event->wait_ms = fedclient_backoff_ms(client->device, 1, 0);
        return FED_OK;
    }
    if (client->forbidden) { /* the token will not work later, either */
        forget_token(client);
    }
    return fed_fail(why, status, "this device can't be enrolled again with its token: %.300s",
                    fault.text[0] != '\0' ? fault.text : fed_status_text(status));
}

/** The key stays the same, so the device stays the same. If the answer or the power is lost, the
 * old certificate is still valid. */
static fed_status renew(fedclient *client, fed_error *err) {
    identity *id = NULL;
    refusal no;
    const uint16_t port = client->devices_port;
    FED_TRY(identity_new(&id));
    fed_status status = identity_read(client, id, err);
    if (status == FED_OK) {
        status = request_certificate(client, NULL, id, &no, err);
    }
    if (status == FED_OK) {
        status = identity_store(client, id, err);
    }
    if (status == FED_OK) {
        status = identity_take(client, id, err);
    }
    if (status == FED_OK && client->devices_port != port) {
        fed_logf(client->options.log, FED_LOG_INFO,
                 "the coordinator's port for devices was %u, and is %u now", port,
                 client->devices_port);
    }
    free(id);
    return status;
}

fed_status fedclient_identity_renew(fedclient *client, fed_error *err) {
    enum {
        TRIES = 100,        /* the wait after a failure is 1/TRIES of the time left */
        ASKED_EVERY_S = 600 /* least time between two renewals with renew_asked */
    };
    const fedclient_platform *platform = client->options.platform;
    const int64_t now_s = platform->unix_ms(platform->user) / 1000;
    const bool asked = client->renew_asked && now_s >= client->renew_again_s;
    if ((now_s < client->renew_s && !asked) || now_s > client->expires_s) {
        return FED_OK;
    }
    client->renew_asked = false;
    client->renew_again_s = now_s + ASKED_EVERY_S;
    fed_error why = {0};
    const bool heals = client->heals;
    client->unreached = false;
    fed_status status = renew(client, &why);
    client->heals = heals;
    if (client->unreached && client->failures > 0) { /* suspect_port may ask again at once */
        client->renew_again_s = now_s;
    }
    if (status == FED_EIO || status == FED_ENOSPC || status == FED_ECANCELED) {
        return fed_fail(err, status, "%s", why.text);
    }
    const int64_t later_s = now_s + 1 + (client->expires_s - now_s) / TRIES;
    client->renew_s = client->renew_s > later_s ? client->renew_s : later_s;
    if (status == FED_OK) {
        fed_logf(client->options.log, FED_LOG_INFO, "this device's certificate was renewed");
        return FED_OK;
    }
    /* If no address answers, a later part of the step reports it. */
    fed_logf(client->options.log, client->unreached ? FED_LOG_DEBUG : FED_LOG_WARN,
             "this device's certificate could not be renewed (%s); the device will try again",
             why.text);
    return FED_OK;
}
