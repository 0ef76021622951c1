/* Bad inputs of all kinds, sent to real coordinator processes. An honest device must be served in
 * between. In the end the model must be unchanged, memory bounded, and each process alive.
 *
 *   test_attacks [SCALE]    SCALE times as many bad inputs (default 1: a few seconds)
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coordinator_fixture.h"
#include "deploy/sim/clients/coordinator.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/rng.h"
#include "fed/version.h"
#include "fed_curl.h"
#include "fed_test.h"

enum { TOKENS = 8, HEARD = 4096, FLOATS = 6, PATIENCE_MS = 100 };

/* Sanitizers keep freed memory. */
enum { GROWTH_KB = FED_TEST_SIZE(32 * 1024, 1024 * 1024) };

typedef struct world {
    char directory[300], task[400];
    sim_coordinator coordinator;
    fed_pem ca, ca_key;
    char token[TOKENS][FEDSERVER_TOKEN];
    int tokens_used;
    fed_identity honest, flooder;
    char digest[17];
    long memory_kb;
    pid_t front;
    unsigned scale;
    uint64_t tried;
    int64_t slowest_ms;
    fed_rng rng;
} world;

static world w;

static void enrol(fed_identity *who) {
    const char *token = w.token[w.tokens_used++];
    assert_int_equal(fed_curl_enrol(&w.ca, w.coordinator.front_port, token, who), 200);
}

/* POST a body. Returns the HTTP status. word: gets the error word; may be NULL. */
static long post_once(CURL *curl, const char *path, uint16_t port, const void *body, size_t len,
                      char word[32]) {
    char url[256];
    snprintf(url, sizeof url, "https://127.0.0.1:%u%s", port, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)len);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    fed_reply r = fed_curl_ask(curl);
    const long status = r.status;
    if (word != NULL) {
        word[0] = '\0';
        (void)sscanf(fed_reply_text(&r.body), "{\"error\":\"%31[a-z_]\"", word);
    }
    fed_reply_free(&r);
    return status;
}

/* Post as a client must: after 429, wait and try again. */
static long post(CURL *curl, const char *path, uint16_t port, const void *body, size_t len,
                 char word[32]) {
    long status = post_once(curl, path, port, body, len, word);
    while (status == 429) {
        fed_sleep_ms(1000);
        status = post_once(curl, path, port, body, len, word);
    }
    return status;
}

static size_t checkin_bytes(uint8_t dst[64]) {
    fed_writer out;
    fed_writer_fixed(&out, dst, 64);
    fed_checkin_write(&out, &(fed_checkin){.role = FED_ROLE_TRAIN});
    return out.len;
}

static fed_assignment ask_work(const fed_identity *who) {
    uint8_t body[64];
    fed_assignment work;
    fed_reply r = {.status = 429};
    CURL *curl = fed_curl_new(&w.ca, who, w.coordinator.devices_port, "/v1/checkin");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)checkin_bytes(body));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    for (int k = 0; r.status == 429; k++) {
        if (k > 0) {
            fed_reply_free(&r);
            fed_sleep_ms(1000);
        }
        r = fed_curl_ask(curl);
    }
    assert_int_equal(r.status, 200);
    fed_reader in;
    fed_reader_init(&in, r.body.data, r.body.len - 1);
    assert_fed_ok(fed_assignment_read(&in, FED_PROTOCOL, &work));
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    return work;
}

static void read_status(char dst[HEARD]) {
    CURL *curl = fed_curl_new(&w.ca, NULL, w.coordinator.front_port, "/v1/status");
    fed_reply r = fed_curl_ask(curl);
    assert_int_equal(r.status, 200);
    snprintf(dst, HEARD, "%s", fed_reply_text(&r.body));
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
}

static void read_digest(char digest[17]) {
    char status[HEARD];
    read_status(status);
    const char *at = strstr(status, "\"digest\":\"");
    assert_non_null(at);
    memcpy(digest, at + 10, 16);
    digest[16] = '\0';
}

static int still_well(void **state) {
    (void)state;
    char digest[17];
    fed_error err = {0};
    const int64_t begin_ms = fed_clock_monotonic_ms();
    (void)ask_work(&w.honest);
    const int64_t took_ms = fed_clock_monotonic_ms() - begin_ms;
    w.slowest_ms = took_ms > w.slowest_ms ? took_ms : w.slowest_ms;
    read_digest(digest);
    assert_string_equal(digest, w.digest);
    assert_fed_ok_err(sim_coordinator_alive(&w.coordinator, &err));
    return 0;
}

static long rss_kb(pid_t pid) {
    char path[64], line[256];
    long kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "VmRSS: %ld", &kb) != 1) {
    }
    fclose(file);
    return kb;
}

static void read_ca_key(void) {
    char path[700];
    fed_error err = {0};
    uint8_t *data = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/ca.key", w.coordinator.directory);
    assert_fed_ok_err(fed_file_read(path, sizeof w.ca_key.text - 1, &data, &len, &err));
    memcpy(w.ca_key.text, data, len + 1);
    free(data);
}

static int start(void **state) {
    (void)state;
    static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                               " \"rounds\": 1, \"cohort\": 4, \"goal\": 4, \"deadline_s\": 3600}";
    fed_error err = {0};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    snprintf(w.task, sizeof w.task, "%s/task.json", w.directory);
    fed_test_put(w.directory, "task.json", task, strlen(task));
    const sim_options options = {
        .transport = SIM_HTTPS, .task = w.task, .fedserver = FED_BIN_DIR "/fedserver"};
    assert_fed_ok_err(sim_coordinator_prepare(&w.coordinator, &options, TOKENS, w.token, &err));
    assert_fed_ok_err(sim_coordinator_start(&w.coordinator, &err));
    w.ca = w.coordinator.ca;
    read_ca_key();
    fed_rng_init(&w.rng, 1, 0, 0);
    enrol(&w.honest);
    enrol(&w.flooder); /* now, because enrolments are refused after the floods */
    (void)ask_work(&w.honest);
    read_digest(w.digest);
    w.front = fed_test_child(w.coordinator.pid);
    w.memory_kb = rss_kb(w.coordinator.pid) + rss_kb(w.front);
    return 0;
}

static int stop(void **state) {
    (void)state;
    fed_error err = {0};
    const fed_status ended = sim_coordinator_stop(&w.coordinator, SIGTERM, &err);
    sim_coordinator_clean(&w.coordinator);
    fed_test_rmdir(w.directory);
    return ended == FED_OK ? 0 : 1;
}

static void shut_out(const fed_identity *who) {
    CURL *curl = fed_curl_new(&w.ca, who, w.coordinator.devices_port, "/v1/checkin");
    fed_reply r = fed_curl_ask(curl);
    assert_int_not_equal(r.code, CURLE_OK);
    assert_int_equal(r.status, 0);
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    w.tried++;
}

static void strangers_end_in_the_handshake(void **state) {
    (void)state;
    fed_error err = {0};
    fed_identity who;
    fed_pem key, ca;
    const int64_t now = fed_clock_unix_ms() / 1000;
    assert_fed_ok_err(fed_key_new(&key, &err));
    assert_fed_ok_err(fed_ca_new(&key, "fed coordinator CA", now - 9999, now + 9999, &ca, &err));
    for (unsigned k = 0; k < 4 * w.scale; k++) {
        shut_out(NULL);
        fed_identity_make(&key, &ca, FED_CERT_CLIENT, now - 60, now + 60, &who);
        shut_out(&who);
        fed_identity_make(&w.ca_key, &w.ca, FED_CERT_CLIENT, now - 7200, now - 3600, &who);
        shut_out(&who);
        fed_identity_make(&w.ca_key, &w.ca, FED_CERT_CLIENT, now + 3600, now + 7200, &who);
        shut_out(&who);
        fed_identity_make(&w.ca_key, &w.ca, FED_CERT_SERVER, now - 60, now + 60, &who);
        shut_out(&who);
        who = (fed_identity){.key = key, .cert = ca};
        shut_out(&who);
    }
    fed_identity_make(&w.ca_key, &w.ca, FED_CERT_CLIENT, now - 60, now + 60, &who);
    CURL *curl = fed_curl_new(&w.ca, &who, w.coordinator.devices_port, "/v1/checkin");
    fed_curl_expect(curl, 403, "device_unknown");
    curl_easy_cleanup(curl);
    w.tried++;
}

static void revoke(const fed_identity *who) {
    fedserver *other = NULL;
    fedserver_entry entry;
    fed_error err = {0};
    uint8_t digest[FED_SHA256_SIZE];
    char hex[FED_SHA256_HEX];
    assert_fed_ok_err(fed_key_fingerprint(&who->key, digest, &err));
    fed_hex(digest, sizeof digest, hex);
    assert_fed_ok_err(fedserver_open(w.coordinator.directory, NULL, &other, &err));
    assert_fed_ok_err(fedserver_device_revoke(other, fed_clock_unix_ms(), hex, &entry, &err));
    fedserver_close(other);
}

static void the_revoked_are_refused_on_kept_connections_and_resumed_sessions(void **state) {
    (void)state;
    fed_identity lost;
    fed_error err = {0};
    fed_pem csr;
    char word[32];
    uint8_t body[64];
    const size_t len = checkin_bytes(body);
    const uint16_t port = w.coordinator.devices_port;
    enrol(&lost);
    CURLSH *sessions = curl_share_init();
    curl_share_setopt(sessions, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    CURL *curl = fed_curl_new(&w.ca, &lost, port, "/v1/checkin");
    curl_easy_setopt(curl, CURLOPT_SHARE, sessions);
    assert_int_equal(post(curl, "/v1/checkin", port, body, len, NULL), 200);
    revoke(&lost);
    for (int k = 0; k < 6; k++) {
        assert_int_equal(post(curl, "/v1/checkin", port, body, len, word), 403);
        assert_string_equal(word, "device_revoked");
        curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
        w.tried++;
    }
    assert_fed_ok_err(fed_csr_new(&lost.key, "x", &csr, &err));
    CURL *front = fed_curl_new(&w.ca, NULL, w.coordinator.front_port, "/");
    assert_int_equal(
        post(front, "/v1/renew", w.coordinator.front_port, csr.text, strlen(csr.text), word), 403);
    assert_string_equal(word, "device_revoked");
    w.tried++;
    curl_easy_cleanup(front);
    curl_easy_cleanup(curl);
    curl_share_cleanup(sessions);
}

static size_t received(void) {
    char status[HEARD];
    unsigned count = 0;
    read_status(status);
    const char *at = strstr(status, "\"received\":");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"received\":%u", &count), 1);
    return count;
}

static void a_replayed_update_counts_once_and_for_nobody_else(void **state) {
    (void)state;
    static const float x[FLOATS] = {0.5f, -0.5f, 0.25f, 1, 2, 3};
    fed_identity a, b;
    char word[32];
    fed_writer body;
    const uint16_t port = w.coordinator.devices_port;
    enrol(&a);
    enrol(&b);
    const fed_assignment work = ask_work(&a);
    assert_int_equal(work.action, FED_ACTION_TRAIN);
    fed_writer_growing(&body);
    device_encode(&work, x, 10, &body);
    CURL *curl = fed_curl_new(&w.ca, &a, port, "/");
    CURL *thief = fed_curl_new(&w.ca, &b, port, "/");
    const size_t before = received();
    for (unsigned k = 0; k < 20 * w.scale; k++) {
        assert_int_equal(post(curl, "/v1/update", port, body.data, body.len, NULL), 200);
        assert_int_equal(post(thief, "/v1/update", port, body.data, body.len, word), 409);
        w.tried += 2;
    }
    assert_int_equal(received(), before + 1);
    fed_writer_free(&body);
    curl_easy_cleanup(curl);
    curl_easy_cleanup(thief);
}

static void what_is_no_update_is_refused_whole(void **state) {
    (void)state;
    static const float x[FLOATS] = {1, 1, 1, 1, 1, 1};
    const uint16_t port = w.coordinator.devices_port;
    const fed_assignment work = ask_work(&w.honest);
    fed_writer body;
    fed_writer_growing(&body);
    device_encode(&work, x, 10, &body);
    CURL *curl = fed_curl_new(&w.ca, &w.honest, port, "/");
    const size_t before = received();
    for (size_t len = 0; len < body.len; len++) {
        assert_int_equal(post(curl, "/v1/update", port, body.data, len, NULL), 400);
        w.tried++;
    }
    uint8_t noise[200];
    for (unsigned k = 0; k < 100 * w.scale; k++) {
        for (size_t i = 0; i < sizeof noise; i++) {
            noise[i] = (uint8_t)fed_rng_u32(&w.rng);
        }
        const size_t len = fed_rng_below(&w.rng, sizeof noise);
        static const char *const paths[] = {"/v1/update", "/v1/checkin", "/v1/metric"};
        const long status = post(curl, paths[k % 3], port, noise, len, NULL);
        assert_true(status >= 400 && status < 500);
        w.tried++;
    }
    memset(body.data + body.len - 4, 0xFF, 4);
    assert_int_equal(post(curl, "/v1/update", port, body.data, body.len, NULL), 400);
    static uint8_t large[9 << 20];
    assert_int_equal(post(curl, "/v1/update", port, large, sizeof large, NULL), 413);
    assert_int_equal(post(curl, "/v1/checkin", port, large, 129, NULL), 413);
    w.tried += 3;
    assert_int_equal(received(), before);
    fed_writer_free(&body);
    curl_easy_cleanup(curl);
}

/* Send these bytes to both ports, each on a new connection. No answer may report success or contain
 * a secret. */
static void refused(const char *words, size_t len) {
    const fed_identity *who[2] = {NULL, &w.honest};
    const uint16_t ports[2] = {w.coordinator.front_port, w.coordinator.devices_port};
    for (int k = 0; k < 2; k++) {
        char heard[HEARD] = "";
        CURL *curl = fed_curl_raw(&w.ca, who[k], ports[k]);
        if (fed_curl_send_bytes(curl, words, len)) {
            fed_curl_receive_for(curl, "\r\n\r\n", heard, sizeof heard, PATIENCE_MS);
        }
        if (strstr(heard, "HTTP/1.1 2") == heard || strstr(heard, "PRIVATE KEY") != NULL ||
            strstr(heard, "root:") != NULL) {
            fail_msg("the request \"%.200s\" was answered: %s", words, heard);
        }
        curl_easy_cleanup(curl);
        w.tried++;
    }
}

static void paths_lead_nowhere(void **state) {
    (void)state;
    static const char *const paths[] = {
        "/../ca.key",
        "/../../../../etc/passwd",
        "/%2e%2e/ca.key",
        "/..%2fca.key",
        "/v1/../ca.key",
        "//ca.key",
        "/./ca.key",
        "/ca.key",
        "/server.db",
        "/v1/model/../../ca.key",
        "/..\\ca.key",
        "/v1/status/",
        "/v1/status%00",
        "/V1/STATUS",
        "/v1//status",
        "ca.key",
        "http://127.0.0.1/ca.key",
        "*",
        "/v1/model?task=../../ca.key&have=none&want=0",
        "/v1/model?task=1&task=2",
        "/v1/model?task=-1&have=none&want=0",
        "/v1/model?task=99999999999999999999&have=none&want=0",
        "/v1/model?have=%6eone",
        "/\xff\xfe",
        "/front.sock",
        "/.",
        "/..;/ca.key",
    };
    for (size_t k = 0; k < sizeof paths / sizeof paths[0]; k++) {
        char words[300];
        const int len =
            snprintf(words, sizeof words, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                     paths[k]);
        refused(words, (size_t)len);
    }
}

static void malformed_requests_are_refused(void **state) {
    (void)state;
    static const char *const requests[] = {
        "BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\r\n\r\n\r\n\r\nGARBAGE\r\n\r\n",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: "
        "50\r\n\r\nhello",
        "POST /v1/checkin HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: "
        "5\r\n\r\nhello",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 5\r\n\r\nhello",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 0x5\r\n\r\nhello",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n",
        "POST /v1/update HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n",
        "POST /v1/update HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775807\r\n\r\n",
        "POST /v1/update HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\nx",
        "POST /v1/checkin HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
        "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
        "chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: "
        "chunked\r\n\r\n0\r\n"
        "\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity, "
        "chunked\r\n\r\n0\r\n\r\n",
        "GET /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "DELETE /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "get /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    };
    for (unsigned n = 0; n < w.scale; n++) {
        for (size_t k = 0; k < sizeof requests / sizeof requests[0]; k++) {
            refused(requests[k], strlen(requests[k]));
        }
    }
}

static void heads_without_end_are_cut_off(void **state) {
    (void)state;
    enum { BOMB = 200 * 1024 };
    static char bomb[BOMB + 100];
    for (unsigned n = 0; n < w.scale; n++) {
        int len = snprintf(bomb, sizeof bomb, "GET / HTTP/1.1\r\nHost: x\r\n");
        while (len < BOMB) {
            len += snprintf(bomb + len, sizeof bomb - (size_t)len, "X-%d: y\r\n", len);
        }
        refused(bomb, (size_t)len);
        len = snprintf(bomb, sizeof bomb, "GET / HTTP/1.1\r\nX: ");
        memset(bomb + len, 'a', BOMB);
        refused(bomb, BOMB);
        memset(bomb, 'A', BOMB);
        refused(bomb, BOMB);
        memcpy(bomb, "GET /", 5);
        refused(bomb, BOMB);
        memset(bomb + 5, '?', 1);
        refused(bomb, BOMB);
    }
}

static void noise_is_refused(void **state) {
    (void)state;
    static const char seed[] =
        "POST /v1/enrol?a=b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n"
        "Content-Length: 4\r\nConnection: close\r\n\r\nbody";
    for (unsigned k = 0; k < 60 * w.scale; k++) {
        char words[sizeof seed];
        memcpy(words, seed, sizeof seed);
        for (uint32_t n = 1 + fed_rng_below(&w.rng, 8); n > 0; n--) {
            words[fed_rng_below(&w.rng, sizeof words - 5)] = (char)fed_rng_u32(&w.rng);
        }
        CURL *curl = fed_curl_raw(&w.ca, NULL, w.coordinator.front_port);
        (void)fed_curl_send_bytes(curl, words, sizeof words - 1);
        curl_easy_cleanup(curl);
        w.tried++;
    }
}

static void garbage_behind_good_requests_ends_the_connection(void **state) {
    (void)state;
    for (unsigned n = 0; n < 5 * w.scale; n++) {
        fed_writer words;
        char heard[HEARD];
        fed_writer_growing(&words);
        for (int k = 0; k < 100; k++) {
            fed_write_printf(&words, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        for (int k = 0; k < 2000; k++) {
            fed_write_u8(&words, (uint8_t)fed_rng_u32(&w.rng));
        }
        CURL *curl = fed_curl_raw(&w.ca, &w.honest, w.coordinator.devices_port);
        (void)fed_curl_send_bytes(curl, words.data, words.len);
        fed_curl_receive(curl, "HTTP/1.1 404", heard, sizeof heard);
        curl_easy_cleanup(curl);
        fed_writer_free(&words);
        w.tried += 101;
    }
}

static void no_tls_is_no_harm(void **state) {
    (void)state;
    uint8_t words[512];
    for (unsigned n = 0; n < 20 * w.scale; n++) {
        const int fd = fed_dial(n % 2 == 0 ? w.coordinator.front_port : w.coordinator.devices_port);
        for (size_t k = 0; k < sizeof words; k++) {
            words[k] = (uint8_t)fed_rng_u32(&w.rng);
        }
        if (n % 4 < 2) {
            memcpy(words, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
        }
        (void)send(fd, words, sizeof words, MSG_NOSIGNAL);
        close(fd);
        w.tried++;
    }
}

/* Many connections stop in the handshake, the head or the body. An honest device must be served
 * meanwhile. */
static void the_slow_hold_up_nobody(void **state) {
    (void)state;
    enum { SLOW = 12, HELLO = 60 };
    int hellos[SLOW];
    CURL *heads[SLOW], *bodies[SLOW];
    for (int k = 0; k < SLOW; k++) {
        const bool front = k % 2 == 0;
        const uint16_t port = front ? w.coordinator.front_port : w.coordinator.devices_port;
        const fed_identity *who = front ? NULL : &w.honest;
        hellos[k] = fed_dial(port);
        assert_int_equal(send(hellos[k], "\x16\x03\x01", 3, MSG_NOSIGNAL), 3);
        heads[k] = fed_curl_raw(&w.ca, who, port);
        fed_curl_send(heads[k], "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ");
        bodies[k] = fed_curl_raw(&w.ca, who, port);
        fed_curl_send(bodies[k],
                      front
                          ? "POST /v1/enrol HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\nx"
                          : "POST /v1/checkin HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\n\r\nx");
        w.tried += 3;
    }
    for (int turn = 0; turn < (w.scale > 1 ? 70 : 3); turn++) {
        for (int k = 0; k < SLOW; k++) {
            (void)send(hellos[k], "\x01", 1, MSG_NOSIGNAL);
            (void)fed_curl_send_bytes(heads[k], "a", 1);
        }
        assert_int_equal(still_well(NULL), 0);
        fed_sleep_ms(w.scale > 1 ? 1000 : 20);
    }
    for (int k = 0; k < SLOW; k++) {
        char heard[HEARD];
        const ssize_t n = recv(hellos[k], heard, sizeof heard, MSG_DONTWAIT);
        assert_true(w.scale == 1 || n == 0 || (n < 0 && errno == ECONNRESET));
        close(hellos[k]);
        curl_easy_cleanup(heads[k]);
        curl_easy_cleanup(bodies[k]);
    }
}

/* The floods come last, because enrolments are refused after them. */

static void a_flood_is_told_to_wait(void **state) {
    (void)state;
    unsigned refused_count = 0;
    CURL *curl = fed_curl_new(&w.ca, &w.flooder, w.coordinator.devices_port, "/nothing");
    for (unsigned k = 0; k < 2000; k++) {
        fed_reply r = fed_curl_ask(curl);
        assert_true(r.status == 404 || r.status == 429);
        if (r.status == 429) {
            refused_count++;
            assert_non_null(strstr(fed_reply_text(&r.headers), "Retry-After: "));
        }
        fed_reply_free(&r);
        w.tried++;
    }
    curl_easy_cleanup(curl);
    printf("flood: %u of 2000 requests let in\n", 2000 - refused_count);
}

static void tokens_are_not_guessed(void **state) {
    (void)state;
    fed_error err = {0};
    fed_pem key, csr;
    char word[32];
    unsigned looked_at = 0;
    assert_fed_ok_err(fed_key_new(&key, &err));
    assert_fed_ok_err(fed_csr_new(&key, "x", &csr, &err));
    CURL *curl = fed_curl_new(&w.ca, NULL, w.coordinator.front_port, "/");
    for (unsigned k = 0; k < 100 * w.scale; k++) {
        char bearer[128];
        snprintf(bearer, sizeof bearer, "Authorization: Bearer guess-%u", k);
        struct curl_slist *headers = curl_slist_append(NULL, bearer);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        const long status = post_once(curl, "/v1/enrol", w.coordinator.front_port, csr.text,
                                      k % 2 == 0 ? strlen(csr.text) : 0, word);
        assert_true(status == 401 || status == 429);
        looked_at += status == 401;
        curl_slist_free_all(headers);
        w.tried++;
    }
    assert_true(looked_at <= 10 + 2 * w.scale); /* 10 at once, then one each 6 s */
    curl_easy_cleanup(curl);
}

static void a_right_token_is_taken_among_wrong_ones(void **state) {
    (void)state;
    fed_identity who;
    const uint16_t port = w.coordinator.front_port;
    long status = 401;
    for (int k = 0; k < 100 && status == 401; k++) {
        status = fed_curl_enrol(&w.ca, port, "wrong", &who);
        w.tried++;
    }
    assert_int_equal(status, 429);
    enrol(&who);
}

static void nobody_has_died_and_memory_is_bounded(void **state) {
    (void)state;
    assert_int_equal(fed_test_child(w.coordinator.pid), w.front);
    const long grown_kb = rss_kb(w.coordinator.pid) + rss_kb(w.front) - w.memory_kb;
    printf("%llu bad inputs; memory of both processes grew by %ld KB; an honest device waited %lld "
           "ms at most\n",
           (unsigned long long)w.tried, grown_kb, (long long)w.slowest_ms);
    assert_true(grown_kb < GROWTH_KB);
}

#define ATTACK(test) cmocka_unit_test_teardown(test, still_well)

int main(int argc, char **argv) {
    if (access(FED_BIN_DIR "/fedserver", X_OK) != 0) {
        return 77;
    }
    w.scale = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    const struct CMUnitTest tests[] = {
        ATTACK(strangers_end_in_the_handshake),
        ATTACK(the_revoked_are_refused_on_kept_connections_and_resumed_sessions),
        ATTACK(a_replayed_update_counts_once_and_for_nobody_else),
        ATTACK(what_is_no_update_is_refused_whole),
        ATTACK(paths_lead_nowhere),
        ATTACK(malformed_requests_are_refused),
        ATTACK(heads_without_end_are_cut_off),
        ATTACK(noise_is_refused),
        ATTACK(garbage_behind_good_requests_ends_the_connection),
        ATTACK(no_tls_is_no_harm),
        ATTACK(the_slow_hold_up_nobody),
        ATTACK(a_flood_is_told_to_wait),
        ATTACK(tokens_are_not_guessed),
        ATTACK(a_right_token_is_taken_among_wrong_ones),
        cmocka_unit_test(nobody_has_died_and_memory_is_bounded),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    const int failed = cmocka_run_group_tests(tests, start, stop);
    curl_global_cleanup();
    return failed;
}
