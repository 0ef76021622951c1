/* The transports that this build has, by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/transports/transports.h"

#include <string.h>

#define FEDCLIENT_TRANSPORT(folder)                                                                \
    extern const fedclient_transport_kind fedclient_transport_##folder;
#include "fedclient/transports/transports.def"
#undef FEDCLIENT_TRANSPORT

static const fedclient_transport_kind *const kinds[] = {
#define FEDCLIENT_TRANSPORT(folder) &fedclient_transport_##folder,
#include "fedclient/transports/transports.def"
#undef FEDCLIENT_TRANSPORT
    NULL};

enum { PLACES = sizeof kinds / sizeof kinds[0] };

const char *fedclient_transport_name(size_t k) {
    return k < PLACES && kinds[k] != NULL ? kinds[k]->name : NULL;
}

static const fedclient_transport_kind *find(const char *name) {
    const fedclient_transport_kind *const *kind = kinds;
    while (*kind != NULL && name != NULL && strcmp((*kind)->name, name) != 0) {
        kind++;
    }
    return *kind;
}

static fed_status say_missing(const char *name, fed_error *err) {
    if (kinds[0] == NULL) {
        return fed_fail(
            err, FED_ENOTFOUND,
            "this build has no transport: build libfedclient with libcurl, or with mbedTLS 3.6");
    }
    const char *second = fedclient_transport_name(1);
    return fed_fail(err, FED_ENOTFOUND, "this build has no transport \"%.50s\"; it has %s%s%s",
                    name, kinds[0]->name, second != NULL ? " and " : "",
                    second != NULL ? second : "");
}

fed_status fedclient_transport_open(const char *name, const fedclient_transport_options *options,
                                    fedclient_transport *transport, fed_error *err) {
    const fedclient_transport_kind *kind = find(name);
    uint8_t digest[FED_SHA256_SIZE];
    if (kind == NULL) {
        return say_missing(name, err);
    }
    const bool of_system = options->for_caches && options->ca_pem == NULL;
    if (!of_system && fed_cert_fingerprint(options->ca_pem, digest, NULL) != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "the CA is not a certificate in PEM: give %s",
                        options->for_caches
                            ? "the certificate of the CA that signed the cache's certificate"
                            : "ca.pem from the coordinator");
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
