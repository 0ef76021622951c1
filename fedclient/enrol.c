/* Enrolment: from a one-time token to a key and a certificate of the device's own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fedclient/client.h"

/** What the record "identity" holds: one record, so that a device is enrolled whole or not at all.
 */
typedef struct identity {
    uint16_t devices_port;
    fed_pem key, cert;
    /* not stored, but the certificate's: */
    char device[FED_SHA256_HEX];
    int64_t expires_s;
} identity;

int fedclient_enrolled(const fedclient *client) {
    return client->device[0] != '\0';
}

const char *fedclient_device(const fedclient *client) {
    return client->device;
}

/** Length of url without its port: "https://host:8443" -> 12. */
static int url_host_len(const char *url) {
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    const char *bracket = strchr(host, ']'); /* IPv6: colons before it belong to the address */
    const char *colon = strchr(bracket != NULL ? bracket : host, ':');
    return (int)(colon != NULL ? (size_t)(colon - url) : strlen(url));
}

/** Read the certificate: it must be one before it is stored. */
static fed_status identity_inspect(identity *id, fed_error *err) {
    uint8_t digest[FED_SHA256_SIZE];
    int64_t not_before = 0;
    FED_TRY(fed_cert_fingerprint(id->cert.text, digest, err));
    FED_TRY(fed_cert_validity(id->cert.text, &not_before, &id->expires_s, err));
    fed_hex(digest, sizeof digest, id->device);
    return FED_OK;
}

/** Take on an identity: the client is enrolled from here on. */
static fed_status identity_take(fedclient *client, const identity *id, fed_error *err) {
    const fedclient_transport *transport = client->options.transport;
    FED_TRY(transport->identify(transport->user, &id->key, &id->cert, err));
    memcpy(client->device, id->device, sizeof client->device);
    client->expires_s = id->expires_s;
    snprintf(client->devices, sizeof client->devices, "%.*s:%u", url_host_len(client->front),
             client->front, id->devices_port);
    return FED_OK;
}

fed_status fedclient_identity_load(fedclient *client, fed_error *err) {
    fedclient_record record = {0};
    fed_status status =
        fedclient_record_load(client->options.platform, FEDCLIENT_IDENTITY, &record, err);
    if (status == FED_ENOTFOUND) {
        return FED_OK;
    }
    FED_TRY(status);
    size_t len = 0;
    const uint8_t *payload = fedclient_record_payload(&record, &len);
    fed_reader r;
    fed_reader_init(&r, payload, len);
    identity id = {.devices_port = fed_read_u16(&r)};
    fed_read_str(&r, id.key.text, sizeof id.key.text);
    fed_read_str(&r, id.cert.text, sizeof id.cert.text);
    status = fed_reader_end(&r);
    fedclient_record_free(&record);
    if (status != FED_OK) {
        return fed_fail(err, status,
                        "the stored value \"identity\" makes no sense: remove it and "
                        "enrol again");
    }
    FED_TRY(identity_inspect(&id, err));
    return identity_take(client, &id, err);
}

static fed_status identity_store(fedclient *client, const identity *id, fed_error *err) {
    fed_writer w;
    fed_writer_growing(&w);
    fed_write_u16(&w, id->devices_port);
    fed_write_str(&w, id->key.text);
    fed_write_str(&w, id->cert.text);
    fedclient_record record = {0};
    fed_status status = w.status;
    if (status == FED_OK) {
        status = fedclient_record_new(w.len, &record);
    }
    if (status == FED_OK) {
        size_t len = 0;
        memcpy(fedclient_record_payload(&record, &len), w.data, w.len);
        status = fedclient_record_store(client->options.platform, FEDCLIENT_IDENTITY, &record, err);
    }
    fed_writer_free(&w);
    fedclient_record_free(&record);
    return status;
}

/** Take the answer apart: a line "devices-port: N", then the certificate. */
static fed_status read_answer(const fedclient_answer *answer, identity *id, fed_error *err) {
    static const char label[] = "devices-port: ";
    char text[FED_PEM_SIZE + 64];
    size_t len = answer->body.len < sizeof text ? answer->body.len : sizeof text - 1;
    memcpy(text, answer->body.data, len);
    text[len] = '\0';
    char *end = text;
    unsigned long port = 0;
    if (strncmp(text, label, sizeof label - 1) == 0) {
        port = strtoul(text + sizeof label - 1, &end, 10);
    }
    if (port == 0 || port > UINT16_MAX || *end != '\n' || strlen(end + 1) >= FED_PEM_SIZE) {
        return fed_fail(err, FED_EFORMAT,
                        "the answer to the enrolment is not a certificate: is "
                        "this the coordinator's address?");
    }
    id->devices_port = (uint16_t)port;
    memcpy(id->cert.text, end + 1, strlen(end + 1) + 1);
    return identity_inspect(id, err);
}

/** Ask for a certificate for id->key. */
static fed_status request_certificate(fedclient *client, const char *token, identity *id,
                                      fed_error *err) {
    fed_pem csr;
    FED_TRY(fed_csr_new(&id->key, "device", &csr, err));
    fedclient_span span = {.data = (const uint8_t *)csr.text, .left = strlen(csr.text)};
    const fedclient_body body = fedclient_body_of(&span);
    const fedclient_call call = {.method = "POST",
                                 .base = client->front,
                                 .path = "/v1/enrol",
                                 .bearer = token,
                                 .body = &body,
                                 .answer_limit = FED_PEM_SIZE + 64};
    fedclient_answer answer = {0};
    fed_status status = fedclient_exchange(client, &call, &answer, err);
    if (status == FED_OK && answer.status != 200) {
        status = fed_fail(err, FED_EFORMAT, "the coordinator refused the enrolment: %s (%s)",
                          answer.message, answer.error);
    }
    if (status == FED_OK) {
        status = read_answer(&answer, id, err);
    }
    fedclient_answer_free(&answer);
    return status;
}

fed_status fedclient_enrol(fedclient *client, const char *token, fed_error *err) {
    fed_error local = {0};
    err = err != NULL ? err : &local;
    identity id;
    FED_TRY(fed_key_new(&id.key, err));
    fed_status status = request_certificate(client, token, &id, err);
    if (status == FED_ENET || status == FED_ETIMEOUT) {
        fed_error line = *err;
        return fed_fail(err, status,
                        "%.260s; if the request arrived, the token is used up: should "
                        "trying again say so, make a new one",
                        line.text);
    }
    FED_TRY(status);
    FED_TRY(identity_store(client, &id, err));
    FED_TRY(identity_take(client, &id, err));
    fed_logf(client->options.log, FED_LOG_INFO, "enrolled as device %s", client->device);
    return FED_OK;
}
