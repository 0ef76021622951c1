/* Measures the CPU time that a coordinator spends on a TLS hello, for each group, signature and
 * cipher suite that GnuTLS can offer. Then devices train while many hellos arrive. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "coordinator_fixture.h"
#include "deploy/sim/clients/coordinator.h"
#include "fed/clock.h"
#include "fed/version.h"
#include "fed_cases.h"
#include "fed_curl.h"

enum { DEVICES = 20, FLOATS = 6, HELLO_MOST = 8192, KINDS_MOST = 400 };
enum { BATCH = 4, BATCHES = 5 };
enum { RAIN_PER_S = 50, RAIN = 250, OPEN_MOST = 100 };
enum { ROUNDS_LEAST = 5, RAIN_LIMIT_MS = 120 * 1000 };
enum { HELLO_US = FED_TEST_SIZE(3000, 100 * 1000) };

typedef struct hello {
    char name[160];
    uint8_t bytes[HELLO_MOST];
    size_t len;
} hello;

typedef struct world {
    char directory[300], task[400];
    sim_coordinator coordinator;
    char token[DEVICES + 1][FEDSERVER_TOKEN];
    fed_identity device[DEVICES];
    hello hellos[KINDS_MOST];
    size_t kinds;
    atomic_bool over;
    atomic_int rained;
} world;

static world w;

static int start(void **state) {
    (void)state;
    static const char task[] = "{\"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\","
                               " \"rounds\": 100000, \"cohort\": 20, \"goal\": 20}";
    fed_error err = {0};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    snprintf(w.task, sizeof w.task, "%s/task.json", w.directory);
    fed_test_put(w.directory, "task.json", task, strlen(task));
    const sim_options options = {
        .transport = SIM_HTTPS, .task = w.task, .fedserver = FED_BIN_DIR "/fedserver"};
    assert_fed_ok_err(
        sim_coordinator_prepare(&w.coordinator, &options, DEVICES + 1, w.token, &err));
    assert_fed_ok_err(sim_coordinator_start(&w.coordinator, &err));
    for (int k = 0; k < DEVICES; k++) {
        assert_int_equal(
            fed_curl_enrol(&w.coordinator.ca, w.coordinator.front_port, w.token[k], &w.device[k]),
            200);
    }
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

static ssize_t keep(gnutls_transport_ptr_t to, const void *bytes, size_t len) {
    hello *h = to;
    assert_true(h->len + len <= sizeof h->bytes);
    memcpy(h->bytes + h->len, bytes, len);
    h->len += len;
    return (ssize_t)len;
}

static ssize_t nothing_yet(gnutls_transport_ptr_t from, void *dst, size_t len) {
    (void)from, (void)dst, (void)len;
    errno = EAGAIN;
    return -1;
}

static int never(gnutls_transport_ptr_t from, unsigned ms) {
    (void)from, (void)ms;
    return 0;
}

/* Record the first message of a GnuTLS client with these priorities, unless GnuTLS can't offer
 * them. */
static void add_hello(const char *name, const char *priority) {
    gnutls_session_t session;
    gnutls_certificate_credentials_t nobody;
    assert_true(w.kinds < KINDS_MOST);
    hello *h = &w.hellos[w.kinds];
    *h = (hello){.len = 0};
    snprintf(h->name, sizeof h->name, "%s", name);
    assert_int_equal(gnutls_certificate_allocate_credentials(&nobody), 0);
    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, nobody);
    if (gnutls_priority_set_direct(session, priority, NULL) == 0) {
        gnutls_transport_set_ptr(session, h);
        gnutls_transport_set_push_function(session, keep);
        gnutls_transport_set_pull_function(session, nothing_yet);
        gnutls_transport_set_pull_timeout_function(session, never);
        (void)gnutls_handshake(session);
        w.kinds += h->len > 0;
    }
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(nobody);
}

static void add_groups(void) {
    for (const gnutls_group_t *g = gnutls_group_list(); *g != 0; g++) {
        char name[100], priority[200];
        snprintf(name, sizeof name, "group %s", gnutls_group_get_name(*g));
        snprintf(priority, sizeof priority, "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-%s",
                 gnutls_group_get_name(*g));
        add_hello(name, priority);
    }
}

static void add_signatures(void) {
    for (const gnutls_sign_algorithm_t *s = gnutls_sign_list(); *s != 0; s++) {
        char name[100], priority[200];
        snprintf(name, sizeof name, "signature %s", gnutls_sign_get_name(*s));
        snprintf(priority, sizeof priority, "NORMAL:-VERS-ALL:+VERS-TLS1.3:-SIGN-ALL:+SIGN-%s",
                 gnutls_sign_get_name(*s));
        add_hello(name, priority);
    }
}

static void add_suites(void) {
    gnutls_kx_algorithm_t kx;
    gnutls_cipher_algorithm_t cipher;
    gnutls_mac_algorithm_t mac;
    gnutls_protocol_t version;
    uint8_t id[2];
    const char *name = NULL;
    for (size_t k = 0;
         (name = gnutls_cipher_suite_info(k, id, &kx, &cipher, &mac, &version)) != NULL; k++) {
        char priority[300];
        const char *exchange = kx != GNUTLS_KX_UNKNOWN ? gnutls_kx_get_name(kx) : "ECDHE-ECDSA";
        snprintf(priority, sizeof priority,
                 "NONE:+VERS-TLS1.3:+VERS-TLS1.2:+CTYPE-ALL:+COMP-NULL:+GROUP-ALL:+SIGN-ALL:+%s:"
                 "+%s:+%s",
                 exchange, gnutls_cipher_get_name(cipher), gnutls_mac_get_name(mac));
        add_hello(name, priority);
    }
}

static uint8_t *put16(uint8_t *at, size_t value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
    return at + 2;
}

/* Add a hello for ffdhe8192 with a random key share. */
static void add_noise(void) {
    enum { SHARE = 1024, GROUP = 0x0104 };
    static const uint8_t fixed[] = {
        0, 2, 0x13, 0x01, 1, 0,
    };
    hello *h = &w.hellos[w.kinds++];
    uint8_t extensions[SHARE + 64], *x = extensions;
    snprintf(h->name, sizeof h->name, "group 0x0104 with a key share of noise");
    x = put16(put16(x, 43), 3); /* supported_versions */
    *x++ = 2;
    x = put16(x, 0x0304);
    x = put16(put16(put16(put16(x, 10), 4), 2), GROUP);   /* supported_groups */
    x = put16(put16(put16(put16(x, 13), 4), 2), 0x0403);  /* signature_algorithms */
    x = put16(put16(put16(x, 51), SHARE + 6), SHARE + 4); /* key_share */
    x = put16(put16(x, GROUP), SHARE);
    assert_int_equal(gnutls_rnd(GNUTLS_RND_NONCE, x, SHARE), 0);
    x[0] &= 0x7F; /* below the group's prime */
    x += SHARE;
    const size_t extended = (size_t)(x - extensions);
    const size_t body = 2 + 32 + 1 + sizeof fixed + 2 + extended;
    uint8_t *at = h->bytes;
    *at++ = 22; /* record type 22: handshake */
    at = put16(put16(at, 0x0301), body + 4);
    *at++ = 1; /* client hello */
    *at++ = 0;
    at = put16(put16(at, body), 0x0303);
    assert_int_equal(gnutls_rnd(GNUTLS_RND_NONCE, at, 32), 0);
    at += 32;
    *at++ = 0; /* session id */
    memcpy(at, fixed, sizeof fixed);
    at = put16(at + sizeof fixed, extended);
    memcpy(at, extensions, extended);
    h->len = (size_t)(at + extended - h->bytes);
}

static void make_hellos(void) {
    add_noise();
    add_groups();
    add_signatures();
    add_suites();
}

static int64_t cpu_us(pid_t pid) {
    clockid_t clock;
    struct timespec t;
    assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &t), 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Send a ClientHello, and wait until the server answers or ends the connection. */
static void say(const hello *h, uint16_t port) {
    enum { PATIENCE_MS = 10 * 1000 };
    uint8_t byte;
    const int fd = fed_dial(port);
    struct pollfd first = {.fd = fd, .events = POLLIN};
    assert_int_equal(send(fd, h->bytes, h->len, MSG_NOSIGNAL), h->len);
    if (poll(&first, 1, PATIENCE_MS) == 1) {
        (void)recv(fd, &byte, 1, 0);
    }
    close(fd);
}

/* Return the CPU time for one hello, in microseconds: the least of several batches, because other
 * work on the machine may add to it. */
static int64_t cost_us(const hello *h, uint16_t port, pid_t pid) {
    int64_t best_us = INT64_MAX;
    for (int k = 0; k < BATCHES && best_us > HELLO_US; k++) {
        const int64_t begin_us = cpu_us(pid);
        for (int n = 0; n < BATCH; n++) {
            say(h, port);
        }
        const int64_t us = (cpu_us(pid) - begin_us) / BATCH;
        best_us = us < best_us ? us : best_us;
    }
    return best_us;
}

static void assert_cheap(uint16_t port, pid_t pid) {
    const hello *dearest = &w.hellos[0];
    int64_t most_us = 0;
    for (size_t k = 0; k < w.kinds; k++) {
        const int64_t us = cost_us(&w.hellos[k], port, pid);
        dearest = us > most_us ? &w.hellos[k] : dearest;
        most_us = us > most_us ? us : most_us;
    }
    printf("%zu kinds of hello; the dearest (%s) cost %lld us\n", w.kinds, dearest->name,
           (long long)most_us);
    if (most_us > HELLO_US) {
        fail_msg("a hello with %s cost %lld us of CPU time, too much", dearest->name,
                 (long long)most_us);
    }
}

FED_TEST(no_hello_is_dear_to_the_rounds) {
    assert_cheap(w.coordinator.devices_port, w.coordinator.pid);
}

FED_TEST(no_hello_is_dear_to_the_front) {
    assert_cheap(w.coordinator.front_port, fed_test_child(w.coordinator.pid));
}

static void *rain(void *user) {
    (void)user;
    int open[OPEN_MOST];
    for (int k = 0; k < OPEN_MOST; k++) {
        open[k] = -1;
    }
    for (int k = 0; !atomic_load(&w.over); k++) {
        const uint16_t port = k % 2 == 0 ? w.coordinator.devices_port : w.coordinator.front_port;
        const hello *h = &w.hellos[k % 4 < 2 ? 0 : (size_t)k % w.kinds];
        int *fd = &open[k % OPEN_MOST];
        if (*fd >= 0) {
            close(*fd);
        }
        *fd = fed_dial(port);
        (void)send(*fd, h->bytes, h->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        atomic_fetch_add(&w.rained, 1);
        fed_sleep_ms(1000 / RAIN_PER_S);
    }
    for (int k = 0; k < OPEN_MOST; k++) {
        if (open[k] >= 0) {
            close(open[k]);
        }
    }
    return NULL;
}

static fed_reply post(CURL *curl, const char *path, const void *body, size_t len) {
    char url[256];
    snprintf(url, sizeof url, "https://127.0.0.1:%u%s", w.coordinator.devices_port, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)len);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    return fed_curl_ask(curl);
}

static fed_assignment train(CURL *curl) {
    static const float x[FLOATS] = {0.5f, -0.5f, 0.25f, 1, 2, 3};
    uint8_t bytes[64];
    fed_writer out, update;
    fed_assignment work;
    fed_reader in;
    fed_writer_fixed(&out, bytes, sizeof bytes);
    fed_checkin_write(&out, &(fed_checkin){.role = FED_ROLE_TRAIN});
    fed_reply r = post(curl, "/v1/checkin", bytes, out.len);
    assert_int_equal(r.status, 200);
    fed_reader_init(&in, r.body.data, r.body.len - 1);
    assert_fed_ok(fed_assignment_read(&in, FED_PROTOCOL, &work));
    fed_reply_free(&r);
    if (work.action == FED_ACTION_TRAIN) {
        fed_writer_growing(&update);
        device_encode(&work, x, 10, &update);
        r = post(curl, "/v1/update", update.data, update.len);
        assert_int_equal(r.status, 200);
        fed_reply_free(&r);
        fed_writer_free(&update);
    }
    return work;
}

FED_TEST(devices_train_on_in_a_rain_of_hellos) {
    pthread_t thread;
    CURL *curl[DEVICES];
    uint32_t first = 0, last = 0;
    for (int k = 0; k < DEVICES; k++) {
        curl[k] = fed_curl_new(&w.coordinator.ca, &w.device[k], w.coordinator.devices_port, "/");
        last = first = train(curl[k]).round;
    }
    const int64_t begin_ms = fed_clock_monotonic_ms();
    assert_int_equal(pthread_create(&thread, NULL, rain, NULL), 0);
    while (atomic_load(&w.rained) < RAIN && fed_clock_monotonic_ms() - begin_ms < RAIN_LIMIT_MS) {
        for (int k = 0; k < DEVICES; k++) {
            const fed_assignment work = train(curl[k]);
            last = work.action == FED_ACTION_TRAIN ? work.round : last;
        }
        curl_easy_setopt(curl[last % DEVICES], CURLOPT_FRESH_CONNECT, 1L);
    }
    atomic_store(&w.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    printf("%u rounds during %d hellos\n", last - first, atomic_load(&w.rained));
    assert_true(last >= first + ROUNDS_LEAST);
    for (int k = 0; k < DEVICES; k++) {
        curl_easy_cleanup(curl[k]);
    }
}

int main(void) {
    if (access(FED_BIN_DIR "/fedserver", X_OK) != 0) {
        return 77;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    make_hellos();
    const int failed = fed_cases_run(start, stop);
    curl_global_cleanup();
    return failed;
}
