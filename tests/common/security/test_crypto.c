/* Keys, requests and certificates that this library makes, checked with the openssl program. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed/crypto.h"
#include "fed/file.h"
#include "fed_cases.h"

static const int64_t NOW = 1800000000; /* January 2027, the time that openssl gets with -attime */
static const int64_t YEAR = 365 * 86400;

static fed_error err;

static fed_pem ca_key, ca_cert, key, csr;

static int have_openssl(void) {
    return system("openssl version >/dev/null 2>&1") == 0;
}

/* Run a shell command in fed_test_dir. Returns 0 if it succeeds. Its output goes to out.txt. */
static int shell(const char *command) {
    char line[2000];
    snprintf(line, sizeof line, "cd '%s' && { %s; } >out.txt 2>&1", fed_test_dir, command);
    return system(line);
}

static void assert_shell(const char *command) {
    if (shell(command) != 0) {
        fail_msg("this command failed: %s", command);
    }
}

static void put(const char *name, const fed_pem *pem) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", fed_test_dir, name);
    assert_fed_ok_err(fed_file_replace(path, pem->text, strlen(pem->text), 0600, &err));
}

static void get(const char *name, fed_pem *pem) {
    char path[600];
    uint8_t *data;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", fed_test_dir, name);
    assert_fed_ok_err(fed_file_read(path, sizeof pem->text - 1, &data, &len, &err));
    memcpy(pem->text, data, len + 1);
    free(data);
}

static void assert_printed(const char *text) {
    fed_pem out;
    get("out.txt", &out);
    if (strstr(out.text, text) == NULL) {
        fail_msg("\"%s\" is not in: %s", text, out.text);
    }
}

static fed_cert_options client_options(void) {
    return (fed_cert_options){.purpose = FED_CERT_CLIENT,
                              .common_name = "device 7",
                              .not_before = NOW,
                              .not_after = NOW + YEAR};
}

static fed_status issue(const char *request, const fed_cert_options *options, fed_pem *cert) {
    return fed_cert_issue(&ca_key, &ca_cert, request, options, cert, &err);
}

static int set_up(void **state) {
    (void)fed_test_dir_make(state);
    assert_fed_ok_err(fed_key_new(&ca_key, &err));
    assert_fed_ok_err(fed_ca_new(&ca_key, "A, B = \\ CA", NOW, NOW + 10 * YEAR, &ca_cert, &err));
    assert_fed_ok_err(fed_key_new(&key, &err));
    assert_fed_ok_err(fed_csr_new(&key, "whatever I like", &csr, &err));
    put("ca.key", &ca_key);
    put("ca.pem", &ca_cert);
    put("key.pem", &key);
    put("csr.pem", &csr);
    return 0;
}

FED_TEST(a_key_is_one_of_p256_and_new_each_time) {
    assert_shell("openssl pkey -in key.pem -noout -text -check");
    assert_printed("NIST CURVE: P-256");
    assert_string_not_equal(key.text, ca_key.text);
}

FED_TEST(openssl_accepts_the_requests_signature) {
    assert_shell("openssl req -in csr.pem -noout -verify -text");
    assert_printed("ecdsa-with-SHA256");
}

FED_TEST(the_ca_is_a_ca_and_nothing_else) {
    assert_shell("openssl verify -x509_strict -attime 1800000001 -CAfile ca.pem ca.pem");
    assert_shell("openssl x509 -in ca.pem -noout -text");
    assert_printed("X509v3 Basic Constraints: critical\n                CA:TRUE");
    assert_printed("X509v3 Key Usage: critical\n                Certificate Sign\n");
    assert_printed("X509v3 Subject Key Identifier");
    assert_shell("openssl x509 -in ca.pem -noout -subject -nameopt multiline");
    assert_printed("= A, B = \\\\ CA\n");
}

FED_TEST(a_client_certificate_serves_clients_only) {
    fed_pem cert;
    fed_cert_options options = client_options();
    assert_fed_ok_err(issue(csr.text, &options, &cert));
    put("client.pem", &cert);
    assert_shell("openssl verify -x509_strict -attime 1800000001 -purpose sslclient "
                 "-CAfile ca.pem client.pem");
    assert_int_not_equal(
        shell("openssl verify -attime 1800000001 -purpose sslserver -CAfile ca.pem client.pem"), 0);
    assert_printed("certificate purpose");
    assert_shell("openssl x509 -in client.pem -noout -text");
    assert_printed("X509v3 Basic Constraints: critical\n                CA:FALSE");
    assert_printed("X509v3 Key Usage: critical\n                Digital Signature\n");
    assert_printed("TLS Web Client Authentication\n");
    assert_printed("X509v3 Subject Key Identifier");
    assert_printed("X509v3 Authority Key Identifier");
}

FED_TEST(the_certificate_has_our_name_and_the_requests_key) {
    fed_pem cert;
    fed_cert_options options = client_options();
    assert_fed_ok_err(issue(csr.text, &options, &cert));
    put("client.pem", &cert);
    assert_shell("openssl x509 -in client.pem -noout -subject -nameopt RFC2253");
    assert_printed("subject=CN=device 7\n");
    assert_shell("openssl x509 -in client.pem -noout -pubkey >a && "
                 "openssl pkey -in key.pem -pubout >b && cmp a b");
}

FED_TEST(a_server_certificate_names_its_hosts_in_order) {
    static const char *const hosts[] = {"localhost",    "*.fed.example", "127.0.0.1",  "::1",
                                        "2001:db8::17", "[fe80::2]",     "fed_server", NULL};
    fed_pem cert;
    fed_cert_options options = client_options();
    options.purpose = FED_CERT_SERVER;
    options.hosts = hosts;
    assert_fed_ok_err(issue(csr.text, &options, &cert));
    put("server.pem", &cert);
    assert_shell("openssl verify -x509_strict -attime 1800000001 -purpose sslserver "
                 "-verify_hostname a.fed.example -CAfile ca.pem server.pem");
    assert_shell("openssl verify -attime 1800000001 -verify_ip 2001:db8::17 -CAfile ca.pem "
                 "server.pem");
    assert_shell("openssl verify -attime 1800000001 -verify_ip fe80::2 -CAfile ca.pem server.pem");
    assert_shell("openssl verify -attime 1800000001 -verify_hostname fed_server -CAfile ca.pem "
                 "server.pem");
    assert_int_not_equal(
        shell("openssl verify -attime 1800000001 -purpose sslclient -CAfile ca.pem server.pem"), 0);
    assert_shell("openssl x509 -in server.pem -noout -text");
    assert_printed("DNS:localhost, DNS:*.fed.example, IP Address:127.0.0.1, "
                   "IP Address:0:0:0:0:0:0:0:1, IP Address:2001:DB8:0:0:0:0:0:17, "
                   "IP Address:FE80:0:0:0:0:0:0:2, DNS:fed_server\n");
    assert_printed("TLS Web Server Authentication\n");
}

FED_TEST(long_host_names_are_written_as_der_wants) {
    char label[64], name[260];
    memset(label, 'a', 63);
    label[63] = '\0';
    const char *hosts[] = {name, label, "b.example", NULL};
    snprintf(name, sizeof name, "%s.%s.%s.example", label, label, label);
    fed_pem cert;
    fed_cert_options options = client_options();
    options.purpose = FED_CERT_SERVER;
    options.hosts = hosts;
    assert_fed_ok_err(issue(csr.text, &options, &cert));
    put("server.pem", &cert);
    assert_shell("openssl x509 -in server.pem -noout -text");
    assert_printed(name);
    assert_printed("DNS:b.example\n");
}

FED_TEST(hosts_that_are_none_are_refused) {
    static const char *const bad[] = {"",     "a b",         "127.0.0.256", "host:8443",
                                      "a..b", ".local",      "*",           "a,DNS:b",
                                      "[::1", "[127.0.0.1]", "[fed]",       "h\xC3\xA9"};
    fed_cert_options options = client_options();
    options.purpose = FED_CERT_SERVER;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *hosts[] = {"fine.example", bad[i], NULL};
        fed_pem cert = {.text = "untouched"};
        options.hosts = hosts;
        assert_fed_status(issue(csr.text, &options, &cert), FED_EINVAL);
        assert_string_equal(cert.text, "untouched");
        assert_false(fed_host_is_valid(bad[i]));
    }
    assert_true(fed_host_is_valid("fine.example"));
    assert_true(fed_host_is_valid("10.0.0.1"));
    assert_true(fed_host_is_valid("[::1]"));
}

FED_TEST(a_server_certificate_needs_hosts_and_has_room_for_some) {
    char name[260];
    const char *hosts[] = {name, name, name, name, name, name, NULL};
    snprintf(name, sizeof name, "%0200d.example", 0);
    fed_pem cert;
    fed_cert_options options = client_options();
    options.purpose = FED_CERT_SERVER;
    assert_fed_status(issue(csr.text, &options, &cert), FED_EINVAL);
    options.hosts = hosts;
    assert_fed_status(issue(csr.text, &options, &cert), FED_ENOSPC);
}

FED_TEST(a_tampered_request_is_refused) {
    fed_pem cert, tampered;
    fed_cert_options options = client_options();
    /* A name of equal length replaces the one in the request, so its signature is wrong. */
    assert_shell("openssl req -in csr.pem -outform der | sed 's/whatever/Whatever/' >t.der && "
                 "openssl req -inform der -in t.der -out t.pem");
    get("t.pem", &tampered);
    assert_string_not_equal(tampered.text, csr.text);
    assert_fed_status(issue(tampered.text, &options, &cert), FED_EAUTH);
    assert_fed_ok_err(issue(csr.text, &options, &cert));
}

/* Get a request that names our key, but that the CA's key has signed. */
static void get_foreign(fed_pem *foreign) {
    assert_shell("openssl req -in csr.pem -noout -pubkey -out pub.pem && "
                 "openssl req -new -key ca.key -subj /CN=x -outform der -out f.der && "
                 "openssl pkey -in ca.key -pubout -outform der -out a.der && "
                 "openssl pkey -in key.pem -pubout -outform der -out b.der && "
                 "python3 -c \"d=open('f.der','rb').read(); a=open('a.der','rb').read(); "
                 "b=open('b.der','rb').read(); assert a in d; "
                 "open('f.der','wb').write(d.replace(a,b))\" && "
                 "openssl req -inform der -in f.der -out f.pem");
    get("f.pem", foreign);
}

FED_TEST(a_request_signed_with_another_key_is_refused) {
    fed_pem cert, foreign;
    fed_cert_options options = client_options();
    get_foreign(&foreign);
    assert_fed_status(issue(foreign.text, &options, &cert), FED_EAUTH);
}

FED_TEST(an_issuer_checks_each_request_by_that_requests_key) {
    fed_pem cert, foreign, of_ca;
    fed_cert_options options = client_options();
    fed_issuer *issuer = NULL;
    get_foreign(&foreign);
    assert_fed_ok_err(fed_csr_new(&ca_key, "x", &of_ca, &err));
    assert_fed_ok_err(fed_issuer_new(&ca_key, &ca_cert, &issuer, &err));
    for (int i = 0; i < 2; i++) {
        assert_fed_ok_err(fed_issuer_issue(issuer, of_ca.text, &options, &cert, &err));
        assert_fed_status(fed_issuer_issue(issuer, foreign.text, &options, &cert, &err), FED_EAUTH);
        assert_fed_ok_err(fed_issuer_issue(issuer, csr.text, &options, &cert, &err));
    }
    fed_issuer_free(issuer);
    put("client.pem", &cert);
    assert_shell("openssl verify -x509_strict -attime 1800000001 -purpose sslclient "
                 "-CAfile ca.pem client.pem");
    assert_shell("openssl x509 -in client.pem -noout -pubkey >a && "
                 "openssl pkey -in key.pem -pubout >b && cmp a b");
}

static void assert_refused(const char *openssl_command, fed_status wanted) {
    fed_pem cert, other;
    fed_cert_options options = client_options();
    assert_shell(openssl_command);
    get("other.pem", &other);
    assert_fed_status(issue(other.text, &options, &cert), wanted);
}

FED_TEST(keys_other_than_p256_are_refused) {
    assert_refused("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes "
                   "-subj /CN=x -keyout k -out other.pem",
                   FED_EAUTH);
    assert_refused("openssl req -new -newkey rsa:2048 -nodes -subj /CN=x -keyout k -out other.pem",
                   FED_EAUTH);
    assert_refused("openssl req -new -newkey ed25519 -nodes -subj /CN=x -keyout k -out other.pem",
                   FED_EFORMAT); /* mbedTLS can't read an ed25519 key */
}

FED_TEST(a_request_signed_with_sha1_is_refused) {
    assert_refused("openssl req -new -key key.pem -sha1 -subj /CN=x -out other.pem", FED_EAUTH);
}

FED_TEST(an_openssl_request_with_p256_is_accepted) {
    fed_pem cert, other;
    fed_cert_options options = client_options();
    assert_shell("openssl req -new -key key.pem -sha384 -subj /O=o/CN=x -out other.pem");
    get("other.pem", &other);
    assert_fed_ok_err(issue(other.text, &options, &cert));
}

FED_TEST(garbage_is_no_request) {
    fed_pem cert = {.text = "untouched"}, cut = csr;
    fed_cert_options options = client_options();
    assert_fed_status(issue("", &options, &cert), FED_EFORMAT);
    assert_fed_status(issue("hello", &options, &cert), FED_EFORMAT);
    assert_fed_status(issue(ca_cert.text, &options, &cert), FED_EFORMAT);
    cut.text[strlen(cut.text) / 2] = '\0';
    assert_fed_status(issue(cut.text, &options, &cert), FED_EFORMAT);
    assert_string_equal(cert.text, "untouched");
    assert_int_not_equal(strlen(err.text), 0);
}

FED_TEST(a_ca_key_that_is_not_the_certificates_is_refused) {
    fed_pem cert;
    fed_cert_options options = client_options();
    assert_fed_status(fed_cert_issue(&key, &ca_cert, csr.text, &options, &cert, &err), FED_EINVAL);
}

FED_TEST(a_leaf_certificate_can_not_issue) {
    fed_pem leaf, cert;
    fed_cert_options options = client_options();
    assert_fed_ok_err(issue(csr.text, &options, &leaf));
    assert_fed_status(fed_cert_issue(&key, &leaf, csr.text, &options, &cert, &err), FED_EINVAL);
}

FED_TEST(the_fingerprint_is_openssls) {
    uint8_t digest[FED_SHA256_SIZE];
    char wanted[3 * FED_SHA256_SIZE + 1];
    assert_fed_ok_err(fed_cert_fingerprint(ca_cert.text, digest, &err));
    for (size_t i = 0; i < FED_SHA256_SIZE; i++) {
        snprintf(wanted + 3 * i, 4, "%02X%c", digest[i], i + 1 < FED_SHA256_SIZE ? ':' : '\n');
    }
    assert_shell("openssl x509 -in ca.pem -noout -fingerprint -sha256");
    assert_printed(wanted);
}

FED_TEST(the_fingerprint_of_garbage_is_refused) {
    uint8_t digest[FED_SHA256_SIZE];
    assert_fed_status(fed_cert_fingerprint("", digest, &err), FED_EFORMAT);
    assert_fed_status(fed_cert_fingerprint(csr.text, digest, &err), FED_EFORMAT);
}

FED_TEST(a_key_has_one_fingerprint_wherever_it_stands) {
    uint8_t digest[FED_SHA256_SIZE], other[FED_SHA256_SIZE];
    char wanted[2 * FED_SHA256_SIZE + sizeof "  -\n"];
    fed_pem cert;
    fed_cert_options options = client_options();
    assert_fed_ok_err(issue(csr.text, &options, &cert));
    assert_fed_ok_err(fed_key_fingerprint(&key, digest, &err));
    assert_fed_ok_err(fed_csr_key_fingerprint(csr.text, other, &err));
    assert_memory_equal(digest, other, sizeof digest);
    assert_fed_ok_err(fed_cert_key_fingerprint(cert.text, other, &err));
    assert_memory_equal(digest, other, sizeof digest);
    assert_fed_ok_err(fed_key_fingerprint(&ca_key, digest, &err));
    assert_memory_not_equal(digest, other, sizeof digest);
    fed_hex(digest, sizeof digest, wanted);
    strcat(wanted, "  -\n");
    assert_shell("openssl x509 -in ca.pem -noout -pubkey | openssl pkey -pubin -outform DER |"
                 " sha256sum");
    assert_printed(wanted);
    assert_fed_status(fed_cert_key_fingerprint(csr.text, other, &err), FED_EFORMAT);
    assert_fed_status(fed_csr_key_fingerprint("", other, &err), FED_EFORMAT);
}

FED_TEST(validity_comes_back_as_it_was_put_in) {
    static const int64_t starts[] = {0,          951782400,              /* 29 February 2000 */
                                     1709251199, 1800000000, 2524607999, /* end of 2049 */
                                     2524608000, 4107542399 /* 28 February 2100, no leap year */};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        fed_pem cert;
        int64_t first, last;
        assert_fed_ok_err(fed_ca_new(&ca_key, "CA", starts[i], starts[i] + YEAR, &cert, &err));
        assert_fed_ok_err(fed_cert_validity(cert.text, &first, &last, &err));
        assert_int_equal(first, starts[i]);
        assert_int_equal(last, starts[i] + YEAR);
    }
}

FED_TEST(openssl_reads_the_same_validity) {
    assert_shell("openssl x509 -in ca.pem -noout -dates");
    assert_printed("notBefore=Jan 15 08:00:00 2027 GMT\n");
    assert_int_not_equal(shell("openssl verify -attime 1799999999 -CAfile ca.pem ca.pem"), 0);
}

FED_TEST(impossible_validity_is_refused) {
    fed_pem cert;
    assert_fed_status(fed_ca_new(&ca_key, "CA", NOW, NOW, &cert, &err), FED_EINVAL);
    assert_fed_status(fed_ca_new(&ca_key, "CA", -1, NOW, &cert, &err), FED_EINVAL);
    assert_fed_status(fed_ca_new(&ca_key, "CA", NOW, 253402300800, &cert, &err), FED_EINVAL);
}

FED_TEST(a_common_name_has_1_to_64_bytes) {
    char name[66];
    fed_pem request;
    memset(name, 'n', sizeof name);
    name[65] = '\0';
    assert_fed_status(fed_csr_new(&key, "", &request, &err), FED_EINVAL);
    assert_fed_status(fed_csr_new(&key, name, &request, &err), FED_EINVAL);
    name[64] = '\0';
    assert_fed_ok_err(fed_csr_new(&key, name, &request, &err));
}

FED_TEST(a_broken_private_key_is_refused) {
    fed_pem bad = {.text = "not a key"}, request;
    assert_fed_status(fed_csr_new(&bad, "x", &request, &err), FED_EFORMAT);
    memset(bad.text, 'a', sizeof bad.text);
    assert_fed_status(fed_csr_new(&bad, "x", &request, &err), FED_EINVAL);
}

FED_TEST(serial_numbers_differ_and_are_positive) {
    fed_cert_options options = client_options();
    fed_pem cert, other;
    for (int i = 0; i < 16; i++) {
        assert_fed_ok_err(issue(csr.text, &options, &cert));
        put("client.pem", &cert);
        assert_shell("openssl x509 -in client.pem -noout -serial");
        get("out.txt", &other);
        assert_null(strchr(other.text, '-'));
        assert_int_equal(strlen(other.text), strlen("serial=\n") + 32);
        assert_shell("openssl x509 -in client.pem -noout -serial >>serials");
    }
    assert_shell("test $(sort -u serials | wc -l) -eq 16");
}

FED_TEST(random_bytes_fill_all_of_any_length) {
    enum { LEN = 1000 };
    uint8_t bytes[LEN + 1], seen[LEN] = {0};
    for (int round = 0; round < 8;
         round++) { /* 8 rounds: a random byte is 0 in all of them with chance 2^-64 */
        bytes[LEN] = 0xA5;
        assert_fed_ok(fed_random(bytes, LEN));
        assert_int_equal(bytes[LEN], 0xA5);
        for (size_t i = 0; i < LEN; i++) {
            seen[i] |= bytes[i];
        }
    }
    for (size_t i = 0; i < LEN; i++) {
        assert_int_not_equal(seen[i], 0);
    }
    assert_fed_ok(fed_random(NULL, 0));
}

FED_TEST(secrets_are_compared_in_full) {
    assert_int_equal(fed_secret_compare("abcd", "abcd", 4), 0);
    assert_int_equal(fed_secret_compare("abcd", "abcX", 3), 0);
    assert_int_not_equal(fed_secret_compare("abcd", "abcX", 4), 0);
    assert_int_not_equal(fed_secret_compare("Xbcd", "abcd", 4), 0);
    assert_int_equal(fed_secret_compare("", "", 0), 0);
}

int main(void) {
    if (!have_openssl()) {
        printf("skipped: the openssl program is not here\n");
        return 77;
    }
    return fed_cases_run(set_up, fed_test_dir_remove);
}
