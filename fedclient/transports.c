/* The transports that this build has, by name. */
#include "fedclient/transports.h"

#include <string.h>

#define FEDCLIENT_TRANSPORT(folder)                                                                \
    extern const fedclient_transport_kind fedclient_transport_##folder;
#include "fedclient/transports.def"
#undef FEDCLIENT_TRANSPORT

static const fedclient_transport_kind *const kinds[] = {
#define FEDCLIENT_TRANSPORT(folder) &fedclient_transport_##folder,
#include "fedclient/transports.def"
#undef FEDCLIENT_TRANSPORT
    NULL};

enum { KINDS = sizeof kinds / sizeof kinds[0] - 1 };

const char *fedclient_transport_name(size_t k) {
    return k < KINDS ? kinds[k]->name : NULL;
}

static const fedclient_transport_kind *find(const char *name) {
    for (size_t k = 0; k < KINDS; k++) {
        if (name == NULL || strcmp(kinds[k]->name, name) == 0) {
            return kinds[k];
        }
    }
    return NULL;
}

static fed_status say_missing(const char *name, fed_error *err) {
    if (KINDS == 0) {
        return fed_fail(err, FED_ENOTFOUND,
                        "this build has no transport: build it with libcurl, or with mbedTLS 3.6");
    }
    return fed_fail(err, FED_ENOTFOUND, "this build has no transport \"%.50s\"; it has %s%s%s",
                    name, kinds[0]->name, KINDS > 1 ? " and " : "",
                    KINDS > 1 ? kinds[KINDS - 1]->name : "");
}

fed_status fedclient_transport_open(const char *name, const fedclient_transport_options *options,
                                    fedclient_transport *transport, fed_error *err) {
    const fedclient_transport_kind *kind = find(name);
    uint8_t digest[FED_SHA256_SIZE];
    if (kind == NULL) {
        return say_missing(name, err);
    }
    if (fed_cert_fingerprint(options->ca_pem, digest, NULL) != FED_OK) {
        return fed_fail(err, FED_EFORMAT,
                        "the CA is not a certificate in PEM: take ca.pem from the coordinator");
    }
    fedclient_transport_options complete = *options;
    if (complete.patience_ms == 0) {
        complete.patience_ms = FEDCLIENT_PATIENCE_MS;
    }
    return kind->open(&complete, transport, err);
}

void fedclient_transport_close(fedclient_transport *transport) {
    if (transport->close != NULL) {
        transport->close(transport->user);
    }
    *transport = (fedclient_transport){0};
}
