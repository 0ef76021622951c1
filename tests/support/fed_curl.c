/* An HTTPS client for tests, on libcurl. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_curl.h"

#include "fed_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "fed/clock.h"

void fed_identity_make(const fed_pem *ca_key, const fed_pem *ca, fed_cert_purpose purpose,
                       int64_t from, int64_t until, fed_identity *who) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", NULL};
    const fed_cert_options options = {.purpose = purpose,
                                      .common_name = "test",
                                      .hosts = purpose == FED_CERT_SERVER ? hosts : NULL,
                                      .not_before = from,
                                      .not_after = until};
    fed_error err = {0};
    fed_pem csr;
    assert_fed_ok_err(fed_key_new(&who->key, &err));
    assert_fed_ok_err(fed_csr_new(&who->key, "test", &csr, &err));
    assert_fed_ok_err(fed_cert_issue(ca_key, ca, csr.text, &options, &who->cert, &err));
}

static struct curl_blob blob(const fed_pem *pem) {
    return (struct curl_blob){.data = (void *)pem->text, .len = strlen(pem->text)};
}

CURL *fed_curl_new(const fed_pem *ca, const fed_identity *who, uint16_t port, const char *path) {
    char url[256];
    snprintf(url, sizeof url, "https://127.0.0.1:%u%s", port, path);
    struct curl_blob trusted = blob(ca);
    CURL *curl = curl_easy_init();
    assert_non_null(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &trusted);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 60000L);
    if (who != NULL) {
        struct curl_blob cert = blob(&who->cert);
        struct curl_blob key = blob(&who->key);
        curl_easy_setopt(curl, CURLOPT_SSLCERT_BLOB, &cert);
        curl_easy_setopt(curl, CURLOPT_SSLKEY_BLOB, &key);
    }
    return curl;
}

static struct curl_slist *headers_of(CURL *curl) {
    char *kept = NULL;
    curl_easy_getinfo(curl, CURLINFO_PRIVATE, &kept);
    return (struct curl_slist *)(void *)kept;
}

void fed_curl_header(CURL *curl, const char *line) {
    struct curl_slist *headers = curl_slist_append(headers_of(curl), line);
    assert_non_null(headers);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_PRIVATE, (char *)(void *)headers);
}

void fed_curl_close(CURL *curl) {
    curl_slist_free_all(headers_of(curl));
    curl_easy_cleanup(curl);
}

static size_t collect(char *data, size_t size, size_t n, void *user) {
    fed_write_bytes(user, data, size * n);
    return size * n;
}

void fed_curl_listen(CURL *curl, fed_reply *reply) {
    fed_writer_growing(&reply->body);
    fed_writer_growing(&reply->headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &reply->body);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &reply->headers);
}

void fed_curl_conclude(CURL *curl, CURLcode code, fed_reply *reply) {
    reply->code = code;
    reply->status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply->status);
    fed_write_u8(&reply->body, 0);
    fed_write_u8(&reply->headers, 0);
}

fed_reply fed_curl_ask(CURL *curl) {
    fed_reply reply;
    fed_curl_listen(curl, &reply);
    fed_curl_conclude(curl, curl_easy_perform(curl), &reply);
    return reply;
}

const char *fed_reply_text(const fed_writer *part) {
    return (const char *)part->data;
}

void fed_reply_free(fed_reply *reply) {
    fed_writer_free(&reply->body);
    fed_writer_free(&reply->headers);
}

void fed_reply_assert(fed_reply *reply, long status, const char *part_of_body) {
    if (reply->code != CURLE_OK) {
        fail_msg("the request failed in libcurl: %s", curl_easy_strerror(reply->code));
    }
    assert_int_equal(reply->status, status);
    if (strstr(fed_reply_text(&reply->body), part_of_body) == NULL) {
        fail_msg("\"%s\" is missing in the answer: %s", part_of_body, fed_reply_text(&reply->body));
    }
    fed_reply_free(reply);
}

void fed_curl_expect(CURL *curl, long status, const char *part_of_body) {
    fed_reply reply = fed_curl_ask(curl);
    fed_reply_assert(&reply, status, part_of_body);
}

CURL *fed_curl_raw(const fed_pem *ca, const fed_identity *who, uint16_t port) {
    CURL *curl = fed_curl_new(ca, who, port, "/");
    curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    return curl;
}

bool fed_curl_send_bytes(CURL *curl, const void *data, size_t len) {
    size_t said = 0;
    for (int k = 0; k < 10000 && said < len; k++) {
        size_t n = 0;
        const CURLcode code = curl_easy_send(curl, (const char *)data + said, len - said, &n);
        if (code != CURLE_OK && code != CURLE_AGAIN) {
            return false;
        }
        said += n;
        if (code == CURLE_AGAIN) {
            fed_sleep_ms(1);
        }
    }
    return said == len;
}

void fed_curl_send(CURL *curl, const char *words) {
    assert_true(fed_curl_send_bytes(curl, words, strlen(words)));
}

void fed_curl_receive(CURL *curl, const char *end, char *dst, size_t cap) {
    fed_curl_receive_for(curl, end, dst, cap, 10000);
}

void fed_curl_receive_for(CURL *curl, const char *end, char *dst, size_t cap, int ms) {
    size_t len = 0;
    dst[0] = '\0';
    for (int k = 0; k < ms && len + 1 < cap && strstr(dst, end) == NULL; k++) {
        size_t n = 0;
        const CURLcode code = curl_easy_recv(curl, dst + len, cap - len - 1, &n);
        if (code == CURLE_AGAIN) {
            fed_sleep_ms(1);
            continue;
        }
        if (code != CURLE_OK || n == 0) {
            return;
        }
        len += n;
        dst[len] = '\0';
    }
}

void fed_curl_expect_words(CURL *curl, const char *words) {
    char heard[4096];
    fed_curl_receive(curl, words, heard, sizeof heard);
    if (strstr(heard, words) == NULL) {
        fail_msg("\"%s\" is missing in what was received: %s", words, heard);
    }
}

int fed_dial(uint16_t port) {
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

long fed_curl_enrol(const fed_pem *ca, uint16_t front_port, const char *token, fed_identity *who) {
    fed_error err = {0};
    fed_pem csr;
    char bearer[128];
    assert_fed_ok_err(fed_key_new(&who->key, &err));
    assert_fed_ok_err(fed_csr_new(&who->key, "anything", &csr, &err));
    snprintf(bearer, sizeof bearer, "Authorization: Bearer %s", token);
    CURL *curl = fed_curl_new(ca, NULL, front_port, "/v1/enrol");
    fed_curl_header(curl, bearer);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, csr.text);
    fed_reply r = fed_curl_ask(curl);
    const char *cert = strstr(fed_reply_text(&r.body), "-----BEGIN");
    snprintf(who->cert.text, sizeof who->cert.text, "%s", cert != NULL ? cert : "");
    const long status = r.code == CURLE_OK ? r.status : 0;
    fed_reply_free(&r);
    fed_curl_close(curl);
    return status;
}
