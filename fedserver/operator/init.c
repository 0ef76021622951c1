/* Makes a coordinator's directory (CA, server certificate, empty store), and upgrades an older
 * one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/file.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/server.h"
#include "fedserver/stores/stores.h"

enum { PATH_SIZE = 1024, NAME_SIZE = 64 }; /* NAME_SIZE: room for a file's name */

static const int64_t year_s = INT64_C(31557600);

static fed_status make_certificates(const char *directory, const char *const *hosts, int64_t now_s,
                                    fed_error *err) {
    fed_pem ca_key, ca_cert, key, csr, cert;
    FED_TRY(fed_key_new(&ca_key, err));
    FED_TRY(fed_ca_new(&ca_key, "fed coordinator CA", now_s - 3600, now_s + 20 * year_s, &ca_cert,
                       err));
    FED_TRY(fed_key_new(&key, err));
    FED_TRY(fed_csr_new(&key, fedserver_certificate_subject(hosts), &csr, err));
    const fed_cert_options options = {.purpose = FED_CERT_SERVER,
                                      .common_name = fedserver_certificate_subject(hosts),
                                      .hosts = hosts,
                                      .not_before = now_s - 3600,
                                      .not_after = now_s + 10 * year_s};
    FED_TRY(fed_cert_issue(&ca_key, &ca_cert, csr.text, &options, &cert, err));
    FED_TRY(fedserver_pem_write(directory, "ca.key", ca_key.text, 0600, err));
    FED_TRY(fedserver_pem_write(directory, "ca.pem", ca_cert.text, 0644, err));
    FED_TRY(fedserver_pem_write(directory, "server.key", key.text, 0600, err));
    return fedserver_pem_write(directory, "server.pem", cert.text, 0644, err);
}

fed_status fedserver_init(const char *directory, const fedserver_init_options *options,
                          fed_error *err) {
    static const char *const local[] = {"localhost", "127.0.0.1", "::1", NULL};
    const char *const *hosts =
        options != NULL && options->hosts != NULL && options->hosts[0] != NULL ? options->hosts
                                                                               : local;
    fedserver_store_choice choice;
    FED_TRY(fedserver_store_parse(options != NULL ? options->store : NULL, &choice, err));
    if (strlen(directory) + NAME_SIZE > PATH_SIZE) {
        return fed_fail(
            err, FED_EINVAL,
            "the path of the coordinator's directory is too long: choose a shorter one");
    }
    fedserver_store_choice present;
    FED_TRY(fedserver_store_read(directory, &present, err));
    if (fedserver_store_absent(directory, &present, err) == FED_EEXIST) {
        /* an earlier init may have died before it removed the mark */
        fedserver_store_unmark(directory);
        return fed_fail(err, FED_EEXIST,
                        "%s holds a coordinator already; use it, or choose another directory",
                        directory);
    }
    FED_TRY(fedserver_store_absent(directory, &choice, err));
    FED_TRY(fedserver_store_lost(directory, err));
    FED_TRY(fed_dir_make(directory, 0700, err));
    fed_dir_tidy(directory);
    FED_TRY(fedserver_store_mark(directory, err));
    FED_TRY(make_certificates(directory, hosts, fed_clock_unix_ms() / 1000, err));
    FED_TRY(fedserver_store_write(directory, &choice, err));
    /* The store comes last: it makes the directory a coordinator (S7 in docs/durability.md). */
    FED_TRY(choice.store->create(directory, choice.where, err));
    fedserver_store_unmark(directory);
    return FED_OK;
}

fed_status fedserver_upgrade(const char *directory, fed_error *err) {
    fedserver_store_choice choice;
    FED_TRY(fedserver_store_present(directory, &choice, err));
    return choice.store->upgrade(directory, choice.where, err);
}
