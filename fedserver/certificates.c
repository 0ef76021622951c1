/* The coordinator's own certificate: what it says, and how it is renewed. */
#include <arpa/inet.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/crypto.h"
#include "fed/file.h"
#include "fedserver/server.h"

enum { PATH_SIZE = 1024, PEM_MOST = 64 * 1024 };

static const int64_t day_s = INT64_C(24) * 3600;

static fed_status read_file(const char *directory, const char *name, fed_pem *pem, fed_error *err) {
    char path[PATH_SIZE];
    uint8_t *data = NULL;
    size_t len = 0;
    fedserver_path(directory, name, path, sizeof path);
    FED_TRY(fed_file_read(path, sizeof pem->text - 1, &data, &len, err));
    memcpy(pem->text, data, len);
    pem->text[len] = '\0';
    gnutls_memset(data, 0, len);
    free(data);
    return FED_OK;
}

/* One of its names. False: it has no more. */
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
        return fed_fail(err, FED_EFORMAT, "%s/server.pem is not a certificate", directory);
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
    FED_TRY(read_file(directory, "server.pem", &pem, err));
    if (gnutls_x509_crt_init(&leaf) < 0) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a certificate");
    }
    const fed_status status = read_leaf(leaf, pem.text, directory, certificate, err);
    gnutls_x509_crt_deinit(leaf);
    return status;
}

int32_t fedserver_certificate_days(const char *directory, int64_t now_ms) {
    fed_pem pem;
    fed_error ignored = {0};
    int64_t begins_s = 0, expires_s = 0;
    if (read_file(directory, "server.pem", &pem, &ignored) != FED_OK ||
        fed_cert_validity(pem.text, &begins_s, &expires_s, &ignored) != FED_OK) {
        return INT32_MIN;
    }
    const int64_t left_s = expires_s - now_ms / 1000;
    return (int32_t)(left_s < 0 ? -1 - -left_s / day_s : left_s / day_s);
}

/* The hosts of old, then those of `more` that are not among them. hosts: NULL at the end. */
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
            return fed_fail(err, FED_EINVAL, "a certificate can have %d names at most",
                            FEDSERVER_CERTIFICATE_HOSTS);
        }
        hosts[k] = *more;
        count += k == count;
    }
    hosts[count] = NULL;
    return count > 0
               ? FED_OK
               : fed_fail(err, FED_EINVAL, "server.pem has no names: say one with --add-host");
}

static fed_status issue(const char *directory, const char *const *hosts, int64_t now_s,
                        fed_pem *keys, fed_error *err) {
    fed_pem ca, csr, cert;
    char path[PATH_SIZE];
    FED_TRY(read_file(directory, "ca.pem", &ca, err));
    FED_TRY(read_file(directory, "ca.key", &keys[0], err));
    FED_TRY(read_file(directory, "server.key", &keys[1], err));
    FED_TRY(fed_csr_new(&keys[1], hosts[0], &csr, err));
    const fed_cert_options options = {.purpose = FED_CERT_SERVER,
                                      .common_name = hosts[0],
                                      .hosts = hosts,
                                      .not_before = now_s - 3600,
                                      .not_after = now_s + 3652 * day_s};
    FED_TRY(fed_cert_issue(&keys[0], &ca, csr.text, &options, &cert, err));
    fedserver_path(directory, "server.pem", path, sizeof path);
    return fed_file_replace(path, cert.text, strlen(cert.text), 0644, err);
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
