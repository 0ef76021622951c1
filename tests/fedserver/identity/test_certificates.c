/* The coordinator's own certificates: how they are read, renewed, and given another host name. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <gnutls/x509.h>
#include <sys/stat.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fed/file.h"
#include "fedserver/identity/certificates.h"
#include "fedserver/operator.h"

static const int64_t day_ms = INT64_C(86400000);

typedef struct world {
    char directory[256];
} world;

static int setup(void **state) {
    static world w;
    static const char *const hosts[] = {"fed.example", "192.0.2.1", "2001:db8::1", NULL};
    fed_error err = {0};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    assert_fed_ok_err(fedserver_init(w.directory, &(fedserver_init_options){.hosts = hosts}, &err));
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    fed_test_rmdir(((world *)*state)->directory);
    return 0;
}

static void read_file(const world *w, const char *name, fed_pem *pem) {
    char path[400];
    fed_error err = {0};
    uint8_t *data = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/%s", w->directory, name);
    assert_fed_ok_err(fed_file_read(path, sizeof pem->text - 1, &data, &len, &err));
    memcpy(pem->text, data, len + 1);
    free(data);
}

FED_TEST_WITH(a_certificate_says_its_hosts_and_days, const world *w) {
    fed_error err = {0};
    fedserver_certificate c;
    assert_fed_ok_err(fedserver_certificate_read(w->directory, &c, &err));
    assert_int_equal(c.host_count, 3);
    assert_string_equal(c.hosts[0], "fed.example");
    assert_string_equal(c.hosts[1], "192.0.2.1");
    assert_string_equal(c.hosts[2], "2001:db8::1");
    const int64_t now_ms = fed_clock_unix_ms();
    const int32_t days = fedserver_certificate_days(w->directory, now_ms);
    assert_true(days >= 3650 && days <= 3653);
    assert_int_equal(fedserver_certificate_days(w->directory, now_ms + 10 * day_ms), days - 10);
    assert_int_equal(fedserver_certificate_days(w->directory, c.expires_s * 1000 + 1000), -1);
    assert_int_equal(fedserver_certificate_days("/nowhere", now_ms), INT32_MIN);
}

FED_TEST_WITH(a_renewed_certificate_has_the_same_key_and_one_host_more, const world *w) {
    static const char *const more[] = {"new.example", "fed.example", NULL};
    fed_error err = {0};
    fedserver_certificate c;
    fed_pem key, cert;
    uint8_t of_key[FED_SHA256_SIZE], of_cert[FED_SHA256_SIZE];
    const int64_t later_ms = fed_clock_unix_ms() + 4000 * day_ms;
    assert_true(fedserver_certificate_days(w->directory, later_ms) < 0);
    assert_fed_ok_err(fedserver_certificate_renew(w->directory, more, later_ms, &err));
    assert_true(fedserver_certificate_days(w->directory, later_ms) >= 3650);
    assert_fed_ok_err(fedserver_certificate_read(w->directory, &c, &err));
    assert_int_equal(c.host_count, 4);
    assert_string_equal(c.hosts[0], "fed.example");
    assert_string_equal(c.hosts[3], "new.example");
    read_file(w, "server.key", &key);
    read_file(w, "server.pem", &cert);
    assert_fed_ok_err(fed_key_fingerprint(&key, of_key, &err));
    assert_fed_ok_err(fed_cert_key_fingerprint(cert.text, of_cert, &err));
    assert_memory_equal(of_key, of_cert, sizeof of_key);
}

/* Check that a certificate is valid from an hour before, because a device's clock may be an
 * hour slow. */
static void assert_valid_from_an_hour_before(const world *w, const char *name, int64_t now_ms,
                                             int64_t days) {
    fed_error err = {0};
    fed_pem pem;
    int64_t begins_s = 0, expires_s = 0;
    read_file(w, name, &pem);
    assert_fed_ok_err(fed_cert_validity(pem.text, &begins_s, &expires_s, &err));
    assert_int_equal(begins_s, now_ms / 1000 - 3600);
    assert_int_equal(expires_s, now_ms / 1000 + days * 86400);
}

FED_TEST_WITH(each_new_certificate_is_valid_an_hour_before_it_was_made, const world *w) {
    fed_error err = {0};
    fed_pem pem;
    int64_t begins_s = 0, expires_s = 0;
    for (int k = 0; k < 2; k++) { /* init uses this machine's clock */
        read_file(w, k == 0 ? "ca.pem" : "server.pem", &pem);
        assert_fed_ok_err(fed_cert_validity(pem.text, &begins_s, &expires_s, &err));
        assert_true(begins_s <= fed_clock_unix_ms() / 1000 - 3600);
    }
    const int64_t now_ms = (expires_s - 100) * 1000;
    assert_fed_ok_err(fedserver_certificate_renew(w->directory, NULL, now_ms, &err));
    assert_valid_from_an_hour_before(w, "server.pem", now_ms, 3652);
    assert_fed_ok_err(fedserver_ca_new(w->directory, now_ms, &err));
    assert_valid_from_an_hour_before(w, "ca.pem", now_ms, 7300);
}

FED_TEST_WITH(a_renewal_without_the_cas_key_changes_nothing, const world *w) {
    char path[400];
    fed_error err = {0};
    fed_pem before, after;
    read_file(w, "server.pem", &before);
    snprintf(path, sizeof path, "%s/ca.key", w->directory);
    assert_int_equal(remove(path), 0);
    assert_fed_fails(fedserver_certificate_renew(w->directory, NULL, fed_clock_unix_ms(), &err),
                     FED_ENOTFOUND, "ca.key");
    read_file(w, "server.pem", &after);
    assert_string_equal(before.text, after.text);
}

/* A device's certificate must not sign other certificates. Otherwise a thief of its key could admit
 * devices. */
FED_TEST_WITH(the_ca_makes_no_further_authorities, const world *w) {
    fed_pem pem;
    gnutls_x509_crt_t ca;
    unsigned is_ca = 0;
    int path_len = -1;
    read_file(w, "ca.pem", &pem);
    const gnutls_datum_t text = {(unsigned char *)pem.text, (unsigned)strlen(pem.text)};
    assert_int_equal(gnutls_x509_crt_init(&ca), 0);
    assert_int_equal(gnutls_x509_crt_import(ca, &text, GNUTLS_X509_FMT_PEM), 0);
    assert_true(gnutls_x509_crt_get_basic_constraints(ca, NULL, &is_ca, &path_len) >= 0);
    assert_int_equal(is_ca, 1);
    assert_int_equal(path_len, 0);
    gnutls_x509_crt_deinit(ca);
}

static void note_warning(void *user, fed_log_level level, const char *text) {
    if (level == FED_LOG_WARN) {
        snprintf(user, 1000, "%s", text);
    }
}

static void assert_start_says(const world *w, const char *words) {
    char said[1000] = "";
    const fed_log log = {.write = note_warning, .user = said, .level = FED_LOG_INFO};
    fed_error err = {0};
    fedserver *server = NULL;
    assert_fed_ok_err(fedserver_open(w->directory, &log, &server, &err));
    fedserver_configure(server, &(fedserver_setup){.part = FEDSERVER_GATE});
    assert_fed_ok_err(fedserver_begin(server, &err));
    assert_fed_ok_err(fedserver_commit(server, &err));
    fedserver_close(server);
    if (words == NULL ? said[0] != '\0' : strstr(said, words) == NULL) {
        fail_msg("the log has other words: %s", said);
    }
}

FED_TEST_WITH(a_ca_key_that_others_can_read_is_warned_of, const world *w) {
    char path[400];
    snprintf(path, sizeof path, "%s/ca.key", w->directory);
    assert_start_says(w, NULL);
    assert_int_equal(chmod(path, 0644), 0);
    assert_start_says(w, "ca.key can be read by others (mode 0644): chmod 0600 it");
}

static void write_file(const world *w, const char *name, const fed_pem *pem) {
    fed_test_put(w->directory, name, pem->text, strlen(pem->text));
}

FED_TEST_WITH(a_file_that_is_no_certificate_is_refused, const world *w) {
    fed_error err = {0};
    fedserver_certificate c;
    write_file(w, "server.pem", &(fed_pem){.text = "-----BEGIN CERTIFICATE-----\n"});
    assert_fed_fails(fedserver_certificate_read(w->directory, &c, &err), FED_EFORMAT,
                     "server.pem is not a certificate");
}

/* Put in place a certificate with `count` names, as another tool could make it with the
 * coordinator's CA. */
static void put_certificate_with_names(const world *w, size_t count) {
    static char names[FEDSERVER_CERTIFICATE_HOSTS + 1][8];
    const char *hosts[FEDSERVER_CERTIFICATE_HOSTS + 2] = {NULL};
    const int64_t now_s = fed_clock_unix_ms() / 1000;
    fed_error err = {0};
    fed_pem ca_key, ca, key, csr, cert;
    for (size_t k = 0; k < count; k++) {
        snprintf(names[k], sizeof names[k], "h%zu", k);
        hosts[k] = names[k];
    }
    read_file(w, "ca.key", &ca_key);
    read_file(w, "ca.pem", &ca);
    read_file(w, "server.key", &key);
    assert_fed_ok_err(fed_csr_new(&key, hosts[0], &csr, &err));
    const fed_cert_options options = {.purpose = FED_CERT_SERVER,
                                      .common_name = hosts[0],
                                      .hosts = hosts,
                                      .not_before = now_s - 1,
                                      .not_after = now_s + 1000};
    assert_fed_ok_err(fed_cert_issue(&ca_key, &ca, csr.text, &options, &cert, &err));
    write_file(w, "server.pem", &cert);
}

FED_TEST_WITH(a_certificate_with_more_names_than_are_kept_is_refused, const world *w) {
    fed_error err = {0};
    fedserver_certificate c;
    put_certificate_with_names(w, FEDSERVER_CERTIFICATE_HOSTS);
    assert_fed_ok_err(fedserver_certificate_read(w->directory, &c, &err));
    assert_int_equal(c.host_count, FEDSERVER_CERTIFICATE_HOSTS);
    put_certificate_with_names(w, FEDSERVER_CERTIFICATE_HOSTS + 1);
    assert_fed_fails(fedserver_certificate_read(w->directory, &c, &err), FED_EINVAL,
                     "more than 64 names");
}

FED_TEST_WITH(a_renewal_for_more_names_than_are_kept_is_refused, const world *w) {
    static const char *const more[] = {"one.more", NULL};
    fed_error err = {0};
    fedserver_certificate c;
    put_certificate_with_names(w, FEDSERVER_CERTIFICATE_HOSTS);
    assert_fed_fails(fedserver_certificate_renew(w->directory, more, fed_clock_unix_ms(), &err),
                     FED_EINVAL, "64 names at most");
    assert_fed_ok_err(fedserver_certificate_read(w->directory, &c, &err));
    assert_string_equal(c.hosts[FEDSERVER_CERTIFICATE_HOSTS - 1], "h63");
}

static void look(const world *w, fedserver_ca_change *change) {
    fed_error err = {0};
    fedserver *server = NULL;
    assert_fed_ok_err(fedserver_open(w->directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_ca_look(server, fed_clock_unix_ms(), change, &err));
    fedserver_close(server);
}

static bool signed_by(const fed_pem *leaf, const fed_pem *ca) {
    gnutls_x509_crt_t certs[2];
    unsigned out = 0;
    for (int k = 0; k < 2; k++) {
        const char *pem = k == 0 ? leaf->text : ca->text;
        const gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem, (unsigned)strlen(pem)};
        assert_int_equal(gnutls_x509_crt_init(&certs[k]), 0);
        assert_int_equal(gnutls_x509_crt_import(certs[k], &text, GNUTLS_X509_FMT_PEM), 0);
    }
    assert_int_equal(gnutls_x509_crt_verify(certs[0], &certs[1], 1, 0, &out), 0);
    gnutls_x509_crt_deinit(certs[0]);
    gnutls_x509_crt_deinit(certs[1]);
    return out == 0;
}

FED_TEST_WITH(a_ca_is_changed_with_an_overlap, const world *w) {
    const int64_t now_ms = fed_clock_unix_ms();
    fed_error err = {0};
    fedserver_ca_change change;
    fed_pem old, both, alone, leaf;
    read_file(w, "ca.pem", &old);
    assert_fed_status(fedserver_ca_drop_old(w->directory, &err), FED_ESTATE);
    assert_fed_ok_err(fedserver_ca_new(w->directory, now_ms, &err));
    read_file(w, "ca.pem", &both);
    read_file(w, "server.pem", &leaf);
    assert_non_null(strstr(both.text, old.text));
    assert_true(both.text != strstr(both.text, old.text));
    assert_true(signed_by(&leaf, &old));
    look(w, &change);
    assert_true(change.open && change.server_is_old && !change.unfinished);
    assert_fed_status(fedserver_ca_new(w->directory, now_ms, &err), FED_ESTATE);
    assert_fed_status(fedserver_ca_drop_old(w->directory, &err), FED_ESTATE);
    assert_fed_ok_err(fedserver_certificate_renew(w->directory, NULL, now_ms, &err));
    read_file(w, "server.pem", &leaf);
    assert_true(signed_by(&leaf, &both) && !signed_by(&leaf, &old));
    assert_fed_ok_err(fedserver_ca_drop_old(w->directory, &err));
    read_file(w, "ca.pem", &alone);
    assert_null(strstr(alone.text, old.text));
    assert_true(signed_by(&leaf, &alone));
    look(w, &change);
    assert_false(change.open || change.server_is_old);
    assert_start_says(w, NULL);
}

static fed_status device_each_fails(void *db, fedserver_device_visit visit, void *user,
                                    fed_error *err) {
    (void)db, (void)visit, (void)user;
    return fed_fail(err, FED_EIO, "the disk is gone");
}

/* Otherwise it would seem that no device waits for a certificate of the new CA. */
FED_TEST_WITH(devices_that_cannot_be_counted_are_an_error, const world *w) {
    const fedserver_store store = {.device_each = device_each_fails};
    fed_error err = {0};
    fedserver_ca_change change;
    assert_fed_fails(fedserver_ca_look_at(w->directory, &store, NULL, 0, &change, &err), FED_EIO,
                     "the disk is gone");
}

/* The process was killed after it wrote ca.pem and before ca.key, so the old CA still issues
 * certificates. */
FED_TEST_WITH(a_new_ca_that_was_cut_off_is_made_again, const world *w) {
    const int64_t now_ms = fed_clock_unix_ms();
    fed_error err = {0};
    fedserver_ca_change change;
    fed_pem old, key, leaf, both;
    read_file(w, "ca.pem", &old);
    read_file(w, "ca.key", &key);
    assert_fed_ok_err(fedserver_ca_new(w->directory, now_ms, &err));
    write_file(w, "ca.key", &key);
    char path[400];
    snprintf(path, sizeof path, "%s/ca.key", w->directory);
    assert_int_equal(chmod(path, 0600), 0);
    assert_start_says(w, NULL);
    look(w, &change);
    assert_true(change.unfinished && !change.open);
    assert_fed_ok_err(fedserver_certificate_renew(w->directory, NULL, now_ms, &err));
    read_file(w, "server.pem", &leaf);
    assert_true(signed_by(&leaf, &old));
    assert_fed_ok_err(fedserver_ca_new(w->directory, now_ms, &err));
    look(w, &change);
    assert_true(change.open && !change.unfinished);
    read_file(w, "ca.pem", &both);
    assert_string_equal(strstr(both.text, old.text), old.text);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
