/* Reads, renews and replaces the coordinator's own certificate and its CA. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/bytes.h"
#include "fed/crypto.h"
#include "fed/file.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/paths.h"

enum { PATH_SIZE = 1024, PEM_MOST = 64 * 1024 };

static const int64_t day_s = INT64_C(24) * 3600;

fed_status fedserver_pem_read(const char *directory, const char *name, fed_pem *pem,
                              fed_error *err) {
    char path[PATH_SIZE];
    char *data = NULL;
    size_t len = 0;
    fedserver_path(directory, name, path, sizeof path);
    FED_TRY(fed_file_read_text(path, sizeof pem->text - 1, &data, &len, err));
    memcpy(pem->text, data, len);
    pem->text[len] = '\0';
    gnutls_memset(data, 0, len);
    free(data);
    return FED_OK;
}

fed_status fedserver_pem_write(const char *directory, const char *name, const char *text,
                               unsigned mode, fed_error *err) {
    char path[PATH_SIZE];
    fedserver_path(directory, name, path, sizeof path);
    return fed_file_replace(path, text, strlen(text), mode, err);
}

/* Let GnuTLS compare: the front's keys may be of kinds that fed/crypto.h does not read. */
static fed_status fit(const char *chain, const gnutls_datum_t *certificates, const char *key,
                      const gnutls_datum_t *secret, fed_error *err) {
    gnutls_certificate_credentials_t credentials = NULL;
    if (gnutls_certificate_allocate_credentials(&credentials) < 0) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a certificate");
    }
    const int fits =
        gnutls_certificate_set_x509_key_mem(credentials, certificates, secret, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(credentials);
    return fits >= 0
               ? FED_OK
               : fed_fail(err, FED_EFORMAT, "%s is not the key of %s (%s); put back the right one",
                          key, chain, gnutls_strerror(fits));
}

fed_status fedserver_certificate_fits(const char *chain, const char *key, fed_error *err) {
    char *certificates = NULL, *secret = NULL;
    size_t len = 0, secret_len = 0;
    FED_TRY(fed_file_read_text(chain, PEM_MOST, &certificates, &len, err));
    fed_status status = fed_file_read_text(key, PEM_MOST, &secret, &secret_len, err);
    if (status == FED_OK) {
        status = fit(chain, &(gnutls_datum_t){(unsigned char *)certificates, (unsigned)len}, key,
                     &(gnutls_datum_t){(unsigned char *)secret, (unsigned)secret_len}, err);
        gnutls_memset(secret, 0, secret_len);
        free(secret);
    }
    free(certificates);
    return status;
}

/* Read the certificate's name at an index; "" if the name is of another kind. False: there is no
 * name at that index. */
static bool read_host(gnutls_x509_crt_t leaf, unsigned index, char host[FEDSERVER_HOST]) {
    char name[FEDSERVER_HOST] = "";
    size_t size = sizeof name - 1;
    const int kind = gnutls_x509_crt_get_subject_alt_name(leaf, index, name, &size, NULL);
    host[0] = '\0';
    if (kind == GNUTLS_SAN_DNSNAME) {
        memcpy(host, name, sizeof name);
    } else if (kind == GNUTLS_SAN_IPADDRESS && (size == 4 || size == 16)) {
        (void)inet_ntop(size == 4 ? AF_INET : AF_INET6, name, host, FEDSERVER_HOST);
    }
    return kind >= 0;
}

static fed_status read_leaf(gnutls_x509_crt_t leaf, const char *pem, const char *directory,
                            fedserver_certificate *certificate, fed_error *err) {
    const gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
    if (gnutls_x509_crt_import(leaf, &text, GNUTLS_X509_FMT_PEM) != 0) {
        return fed_fail(
            err, FED_EFORMAT,
            "%s/server.pem is not a certificate: put back the one that belongs to server.key",
            directory);
    }
    certificate->expires_s = gnutls_x509_crt_get_expiration_time(leaf);
    char host[FEDSERVER_HOST];
    for (unsigned k = 0; read_host(leaf, k, host); k++) {
        if (certificate->host_count == FEDSERVER_CERTIFICATE_HOSTS) {
            return fed_fail(err, FED_EINVAL, "%s/server.pem has more than %d names", directory,
                            FEDSERVER_CERTIFICATE_HOSTS);
        }
        if (host[0] != '\0') {
            memcpy(certificate->hosts[certificate->host_count++], host, sizeof host);
        }
    }
    return FED_OK;
}

fed_status fedserver_certificate_read(const char *directory, fedserver_certificate *certificate,
                                      fed_error *err) {
    fed_pem pem;
    gnutls_x509_crt_t leaf = NULL;
    *certificate = (fedserver_certificate){.host_count = 0};
    FED_TRY(fedserver_pem_read(directory, "server.pem", &pem, err));
    if (gnutls_x509_crt_init(&leaf) < 0) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a certificate");
    }
    const fed_status status = read_leaf(leaf, pem.text, directory, certificate, err);
    gnutls_x509_crt_deinit(leaf);
    return status;
}

int64_t fedserver_certificate_expires_s(const char *directory, const char *file) {
    char path[PATH_SIZE];
    char *text = NULL;
    size_t len = 0;
    fed_error ignored = {0};
    int64_t begins_s = 0, expires_s = 0;
    fedserver_path(directory, file, path, sizeof path);
    if (fed_file_read_text(path, PEM_MOST, &text, &len, &ignored) != FED_OK) {
        return 0;
    }
    const fed_status status = fed_cert_validity(text, &begins_s, &expires_s, &ignored);
    free(text);
    return status == FED_OK ? expires_s : 0;
}

int32_t fedserver_certificate_days(const char *directory, int64_t now_ms) {
    const int64_t expires_s = fedserver_certificate_expires_s(directory, "server.pem");
    const int64_t left_s = expires_s - now_ms / 1000;
    return expires_s == 0 ? INT32_MIN
                          : (int32_t)(left_s < 0 ? -1 - -left_s / day_s : left_s / day_s);
}

static fed_status list_hosts(const fedserver_certificate *old, const char *const *more,
                             const char *hosts[FEDSERVER_CERTIFICATE_HOSTS + 1], fed_error *err) {
    size_t count = 0;
    for (; count < old->host_count; count++) {
        hosts[count] = old->hosts[count];
    }
    for (; more != NULL && *more != NULL; more++) {
        size_t k = 0;
        while (k < count && strcmp(hosts[k], *more) != 0) {
            k++;
        }
        if (k == FEDSERVER_CERTIFICATE_HOSTS) {
            return fed_fail(err, FED_EINVAL,
                            "a certificate can have %d names at most; give fewer with --add-host",
                            FEDSERVER_CERTIFICATE_HOSTS);
        }
        hosts[k] = *more;
        count += k == count;
    }
    hosts[count] = NULL;
    return count > 0
               ? FED_OK
               : fed_fail(err, FED_EINVAL, "server.pem has no names: give one with --add-host");
}

const char *fedserver_certificate_subject(const char *const *hosts) {
    enum { COMMON_NAME_MOST = 64 }; /* RFC 5280, ub-common-name */
    return strlen(hosts[0]) <= COMMON_NAME_MOST ? hosts[0] : "fed coordinator";
}

static fed_status issue(const char *directory, const char *const *hosts, int64_t now_s,
                        fed_pem *keys, fed_error *err) {
    fed_pem bundle, ca, csr, cert;
    FED_TRY(fedserver_pem_read(directory, "ca.pem", &bundle, err));
    FED_TRY(fedserver_pem_read(directory, "ca.key", &keys[0], err));
    FED_TRY(fedserver_ca_pick(&bundle, &keys[0], &ca, err));
    FED_TRY(fedserver_pem_read(directory, "server.key", &keys[1], err));
    FED_TRY(fed_csr_new(&keys[1], fedserver_certificate_subject(hosts), &csr, err));
    const fed_cert_options options = {.purpose = FED_CERT_SERVER,
                                      .common_name = fedserver_certificate_subject(hosts),
                                      .hosts = hosts,
                                      .not_before = now_s - 3600,
                                      .not_after = now_s + 3652 * day_s};
    FED_TRY(fed_cert_issue(&keys[0], &ca, csr.text, &options, &cert, err));
    return fedserver_pem_write(directory, "server.pem", cert.text, 0644, err);
}

fed_status fedserver_certificate_renew(const char *directory, const char *const *more,
                                       int64_t now_ms, fed_error *err) {
    fedserver_certificate old;
    const char *hosts[FEDSERVER_CERTIFICATE_HOSTS + 1];
    fed_pem keys[2] = {{.text = ""}, {.text = ""}};
    FED_TRY(fedserver_certificate_read(directory, &old, err));
    FED_TRY(list_hosts(&old, more, hosts, err));
    const fed_status status = issue(directory, hosts, now_ms / 1000, keys, err);
    gnutls_memset(keys, 0, sizeof keys);
    return status;
}

fed_status fedserver_ca_pick(const fed_pem *bundle, const fed_pem *key, fed_pem *cert,
                             fed_error *err) {
    static const char begin[] = "-----BEGIN CERTIFICATE-----";
    static const char end[] = "-----END CERTIFICATE-----";
    uint8_t wanted[FED_SHA256_SIZE], found[FED_SHA256_SIZE];
    FED_TRY(fed_key_fingerprint(key, wanted, err));
    const char *at = bundle->text, *last;
    while ((at = strstr(at, begin)) != NULL && (last = strstr(at, end)) != NULL) {
        last += sizeof end - 1;
        snprintf(cert->text, sizeof cert->text, "%.*s\n", (int)(last - at), at);
        FED_TRY(fed_cert_key_fingerprint(cert->text, found, err));
        if (memcmp(wanted, found, sizeof found) == 0) {
            return FED_OK;
        }
        at = last;
    }
    return fed_fail(err, FED_EINVAL,
                    "ca.key is not the key of a certificate in ca.pem: put back those that belong "
                    "together");
}

static uint64_t read_id(const char *pem,
                        int (*get)(gnutls_x509_crt_t cert, void *id, size_t *size, unsigned *)) {
    const gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
    gnutls_x509_crt_t cert = NULL;
    uint8_t id[64];
    size_t size = sizeof id;
    fed_reader r;
    if (gnutls_x509_crt_init(&cert) < 0) {
        return 0;
    }
    const bool read = gnutls_x509_crt_import(cert, &text, GNUTLS_X509_FMT_PEM) == 0 &&
                      get(cert, id, &size, NULL) == 0;
    gnutls_x509_crt_deinit(cert);
    fed_reader_init(&r, id, read ? size : 0);
    return fed_read_u64(&r);
}

uint64_t fedserver_ca_id(const char *pem) {
    return read_id(pem, gnutls_x509_crt_get_subject_key_id);
}

uint64_t fedserver_ca_id_at(const char *directory) {
    fed_pem bundle;
    fed_error ignored = {0};
    return fedserver_pem_read(directory, "ca.pem", &bundle, &ignored) == FED_OK
               ? fedserver_ca_id(bundle.text)
               : 0;
}

static fed_status read_ca(const char *directory, fed_pem *issuer, fedserver_ca_change *change,
                          fed_error *err) {
    fed_pem bundle, key = {.text = ""};
    FED_TRY(fedserver_pem_read(directory, "ca.pem", &bundle, err));
    FED_TRY(fedserver_pem_read(directory, "ca.key", &key, err));
    const fed_status status = fedserver_ca_pick(&bundle, &key, issuer, err);
    gnutls_memset(&key, 0, sizeof key);
    FED_TRY(status);
    const char *first = strstr(bundle.text, "-----BEGIN");
    const bool two = strstr(first + 1, "-----BEGIN") != NULL;
    const bool leads = fedserver_ca_id(issuer->text) == fedserver_ca_id(bundle.text);
    *change = (fedserver_ca_change){.open = two && leads, .unfinished = two && !leads};
    return FED_OK;
}

/* Write ca.pem first: until ca.key is replaced, too, the old CA can still issue certificates. */
static fed_status store_ca(const char *directory, const fed_pem *key, const char *bundle,
                           fed_error *err) {
    FED_TRY(fedserver_pem_write(directory, "ca.pem", bundle, 0644, err));
    return fedserver_pem_write(directory, "ca.key", key->text, 0600, err);
}

fed_status fedserver_ca_new(const char *directory, int64_t now_ms, fed_error *err) {
    fed_pem old, cert, key;
    char bundle[2 * FED_PEM_SIZE];
    fedserver_ca_change change;
    FED_TRY(read_ca(directory, &old, &change, err));
    if (change.open) {
        return fed_fail(err, FED_ESTATE,
                        "%s/ca.pem has two CAs already: end that change with fedserver cert "
                        "drop-old-ca",
                        directory);
    }
    /* Each CA gets its own name: some software would confuse two CAs of the same name. */
    uint8_t digest[FED_SHA256_SIZE];
    char hex[17], name[64];
    FED_TRY(fed_key_new(&key, err));
    FED_TRY(fed_key_fingerprint(&key, digest, err));
    fed_hex(digest, 8, hex);
    snprintf(name, sizeof name, "fed coordinator CA %s", hex);
    FED_TRY(
        fed_ca_new(&key, name, now_ms / 1000 - 3600, now_ms / 1000 + 20 * 365 * day_s, &cert, err));
    snprintf(bundle, sizeof bundle, "%s%s", cert.text, old.text);
    const fed_status status = strlen(bundle) < FED_PEM_SIZE
                                  ? store_ca(directory, &key, bundle, err)
                                  : fed_fail(err, FED_ERANGE, "%s/ca.pem is too large", directory);
    gnutls_memset(&key, 0, sizeof key);
    return status;
}

fed_status fedserver_ca_drop_old(const char *directory, fed_error *err) {
    fed_pem issuer, leaf;
    fedserver_ca_change change;
    FED_TRY(read_ca(directory, &issuer, &change, err));
    FED_TRY(fedserver_pem_read(directory, "server.pem", &leaf, err));
    if (!change.open) {
        return fed_fail(err, FED_ESTATE, "%s/ca.pem has no old CA to drop", directory);
    }
    if (read_id(leaf.text, gnutls_x509_crt_get_authority_key_id) != fedserver_ca_id(issuer.text)) {
        return fed_fail(err, FED_ESTATE,
                        "the old CA has signed server.pem: first run fedserver cert renew, and "
                        "send SIGHUP");
    }
    return fedserver_pem_write(directory, "ca.pem", issuer.text, 0644, err);
}

typedef struct count {
    int64_t now_ms;
    uint64_t issuer;
    fedserver_ca_change *change;
} count;

static fed_status count_device(void *user, const fedserver_device *device, fed_error *err) {
    const count *c = user;
    (void)err;
    if (device->revoked_ms == 0 && device->expires_ms > c->now_ms) {
        c->change->devices++;
        c->change->waiting += device->authority != c->issuer;
    }
    return FED_OK;
}

fed_status fedserver_ca_look_at(const char *directory, const fedserver_store *store, void *db,
                                int64_t now_ms, fedserver_ca_change *change, fed_error *err) {
    fed_pem issuer, leaf;
    FED_TRY(read_ca(directory, &issuer, change, err));
    FED_TRY(fedserver_pem_read(directory, "server.pem", &leaf, err));
    count c = {.now_ms = now_ms, .issuer = fedserver_ca_id(issuer.text), .change = change};
    change->server_is_old = read_id(leaf.text, gnutls_x509_crt_get_authority_key_id) != c.issuer;
    return store->device_each(db, count_device, &c, err);
}
