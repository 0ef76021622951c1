/* An edge aggregator, run as a process. For a while the upstream coordinator's answers are
 * nonsense. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/wire.h"
#include "fed_cases.h"
#include "fed_coordinator.h"
#include "fed_curl.h"
#include "fed_operator.h"
#include "fed_port.h"
#include "fed_tls.h"
#include "fedclient/fedclient.h"
#include "fedclient/memory_store.h"

typedef struct world {
    char directory[256], home[300], log[300], url[64];
    fed_coordinator upstream;
    char token[FEDSERVER_TOKEN]; /* for the edge aggregator's enrolment upstream */
    uint16_t front, devices;     /* the edge aggregator's ports */
    fed_pem ca;                  /* the edge aggregator's CA */
    fed_identity device;         /* one of the edge aggregator's devices */
    pid_t pid;
} world;

static int setup(void **state) {
    static const char *const hosts[] = {"127.0.0.1", NULL};
    fed_error err = {0};
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    fed_coordinator_open(&w->upstream, w->directory, "upstream");
    fed_coordinator_token(&w->upstream, w->token);
    snprintf(w->home, sizeof w->home, "%s/edge", w->directory);
    snprintf(w->log, sizeof w->log, "%s/log", w->directory);
    snprintf(w->url, sizeof w->url, "https://127.0.0.1:%u", w->upstream.front);
    w->front = fed_port_keep();
    w->devices = fed_port_keep();
    assert_fed_ok_err(fedserver_init(w->home, &(fedserver_init_options){.hosts = hosts}, &err));
    char *ca = fed_operator_ca(w->home);
    snprintf(w->ca.text, sizeof w->ca.text, "%s", ca);
    free(ca);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    if (w->pid > 0) {
        kill(w->pid, SIGKILL);
        waitpid(w->pid, NULL, 0);
    }
    fed_coordinator_close(&w->upstream);
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void start(world *w) {
    char front[16], devices[16], ca[340];
    snprintf(front, sizeof front, "%u", w->front);
    snprintf(devices, sizeof devices, "%u", w->devices);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->upstream.directory);
    const int log = open(w->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(log >= 0);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (w->pid == 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        alarm(300);
        execl(FED_BIN_DIR "/fedserver", "fedserver", "run", "--dir", w->home, "--front-port", front,
              "--devices-port", devices, "--upstream", w->url, "--upstream-ca", ca,
              "--upstream-token", w->token, "--edge-cohort", "1", "--edge-minimum", "1",
              (char *)NULL);
        _exit(127);
    }
    close(log);
}

static unsigned says(const world *w, const char *words) {
    uint8_t *text = NULL;
    size_t len = 0;
    unsigned count = 0;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(w->log, 1 << 20, &text, &len, &err));
    for (const char *at = (char *)text; (at = strstr(at, words)) != NULL; at++) {
        count++;
    }
    free(text);
    return count;
}

static void assert_lives(const world *w) {
    int how = 0;
    if (waitpid(w->pid, &how, WNOHANG) != 0) {
        fail_msg("the edge aggregator has ended with status %d", how);
    }
}

static void wait_for(const world *w, const char *words) {
    while (says(w, words) == 0) {
        assert_lives(w);
        fed_sleep_ms(20);
    }
}

static void check_in(const world *w) {
    uint8_t body[128];
    fed_writer m;
    CURL *curl = fed_curl_new(&w->ca, &w->device, w->devices, FED_PATH_CHECKIN);
    fed_writer_fixed(&m, body, sizeof body);
    fed_checkin_write(&m, &(fed_checkin){.samples = 1});
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)m.len);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    fed_curl_expect(curl, 200, "");
    fed_curl_close(curl);
}

static unsigned failures(const world *w) {
    static const char name[] = "\nfed_upstream_failures ";
    CURL *curl = fed_curl_new(&w->ca, NULL, w->front, "/metrics");
    fed_reply reply = fed_curl_ask(curl);
    assert_int_equal(reply.status, 200);
    const char *at = strstr(fed_reply_text(&reply.body), name);
    assert_non_null(at);
    const unsigned count = (unsigned)strtoul(at + sizeof name - 1, NULL, 10);
    fed_reply_free(&reply);
    fed_curl_close(curl);
    return count;
}

static void read_pem(const world *w, const char *name, fed_pem *pem) {
    char path[340];
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/%s", w->upstream.directory, name);
    assert_fed_ok_err(fed_file_read(path, sizeof pem->text - 1, &text, &len, &err));
    snprintf(pem->text, sizeof pem->text, "%s", (char *)text);
    free(text);
}

static const char nonsense[] = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nnonsense";
/* An assignment: wait for 1,000 ms, because there is no task; no capabilities. */
static const char idle[] = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n\0\0\xe8\3\0\0\0\0\0";

/* Start a server with this answer at this port, with the upstream coordinator's certificate. */
static void answer_with(const world *w, uint16_t port, const char *text, size_t size,
                        fed_tls *other) {
    const fed_step script[] = {{FED_RECEIVE, NULL, 0},
                               {FED_RECEIVE_BODY, NULL, 0},
                               {FED_SEND, text, size},
                               {FED_END, NULL, 0}};
    static fed_identity who;
    read_pem(w, "server.key", &who.key);
    read_pem(w, "server.pem", &who.cert);
    fed_tls_open(other, &(fed_tls_options){.who = &who, .port = port, .scripts = {script}});
}

static void wait_for_tries(const world *w, fed_tls *other, unsigned tries) {
    while (other->handshakes < tries) {
        assert_lives(w);
        fed_sleep_ms(20);
    }
}

static void end(world *w) {
    int how = 0;
    assert_int_equal(kill(w->pid, SIGTERM), 0);
    assert_int_equal(waitpid(w->pid, &how, 0), w->pid);
    w->pid = 0;
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void enrol_device(world *w) {
    char token[FEDSERVER_TOKEN];
    fed_operator_token(w->home, &(fedserver_grant){.ttl_s = 3600}, token);
    assert_int_equal(fed_curl_enrol(&w->ca, w->front, token, &w->device), 200);
}

FED_TEST_WITH(an_edge_aggregator_outlives_answers_that_it_cannot_read, world *w) {
    static fed_tls other;
    start(w);
    wait_for(w, "this edge aggregator is device");
    enrol_device(w);
    fed_coordinator_stop(&w->upstream);
    answer_with(w, w->upstream.devices, nonsense, sizeof nonsense - 1, &other);
    check_in(w);
    wait_for_tries(w, &other, 3);
    check_in(w);
    assert_int_equal(says(w, "the edge aggregator serves its devices, but not upstream"), 1);
    assert_int_equal(says(w, "ERROR the answer to the check-in can't be read"), 1);
    assert_true(failures(w) > 0);
    fed_tls_close(&other);
    answer_with(w, w->upstream.devices, idle, sizeof idle, &other);
    while (failures(w) > 0) {
        assert_lives(w);
        fed_sleep_ms(100);
    }
    fed_tls_close(&other);
    end(w);
    fed_coordinator_start(&w->upstream);
}

FED_TEST_WITH(so_it_does_before_it_is_enrolled, world *w) {
    static fed_tls other;
    fed_coordinator_stop(&w->upstream);
    answer_with(w, w->upstream.front, nonsense, sizeof nonsense - 1, &other);
    start(w);
    wait_for_tries(w, &other, 3);
    enrol_device(w);
    check_in(w);
    assert_int_equal(says(w, "this edge aggregator is not enrolled upstream yet"), 1);
    fed_tls_close(&other);
    fed_coordinator_start(&w->upstream);
    wait_for(w, "this edge aggregator is device");
    end(w);
}

static fed_status train_without_loss(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)err;
    round->samples = 1;
    return FED_OK;
}

/* Return the loss of the upstream coordinator's first round as its table has it, or NULL if the
 * round is open. The caller frees it. */
static char *loss_upstream(const world *w) {
    enum { COLUMN = 6 };
    static fed_pem ca;
    char *loss = NULL;
    read_pem(w, "ca.pem", &ca);
    CURL *curl = fed_curl_new(&ca, NULL, w->upstream.front, "/rounds.csv?task=1");
    fed_reply reply = fed_curl_ask(curl);
    assert_int_equal(reply.status, 200);
    const char *at = strstr(fed_reply_text(&reply.body), "\n1,");
    for (int k = 0; at != NULL && k < COLUMN; k++) {
        at = strchr(at, ',') + 1;
    }
    if (at != NULL) {
        loss = strndup(at, strcspn(at, ","));
    }
    fed_reply_free(&reply);
    fed_curl_close(curl);
    return loss;
}

FED_TEST_WITH(the_change_of_devices_without_a_loss_has_none, world *w) {
    char url[64], token[FEDSERVER_TOKEN], *loss = NULL;
    fed_error err = {0};
    fedclient *client = NULL;
    fedclient_platform platform;
    fedclient_transport transport;
    (void)fed_operator_task(w->upstream.directory, w->directory,
                            "{\"model\": \"vector 3\", \"codec_up\": \"float32\","
                            " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 1}");
    start(w);
    wait_for(w, "this edge aggregator is device");
    fed_operator_token(w->home, &(fedserver_grant){.ttl_s = 3600}, token);
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->front);
    assert_fed_ok_err(fedclient_platform_memory_open(&platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        "curl", &(fedclient_transport_options){.ca_pem = w->ca.text}, &transport, &err));
    const fedclient_options options = {
        .server = url, .platform = &platform, .transport = &transport, .train = train_without_loss};
    assert_fed_ok_err(fedclient_open(&options, &client, &err));
    assert_fed_ok_err(fedclient_enrol(client, token, &err));
    for (int steps = 0; (loss = loss_upstream(w)) == NULL; steps++) {
        fedclient_event event;
        assert_in_range(steps, 0, 300);
        assert_lives(w);
        assert_fed_ok_err(fedclient_step(client, &event, &err));
        fed_sleep_ms(event.wait_ms < 100 ? event.wait_ms : 100);
    }
    assert_string_equal(loss, "");
    free(loss);
    fedclient_close(client);
    fedclient_transport_close(&transport);
    fedclient_platform_memory_close(&platform);
    end(w);
}

FED_TEST_WITH(an_edge_aggregator_declines_a_task_with_private_layers, world *w) {
    (void)fed_operator_task(w->upstream.directory, w->directory,
                            "{\"model\": \"tensors a.w 3 | b.w 2\", \"codec_up\": \"float32\","
                            " \"rounds\": 1, \"cohort\": 1, \"private_layers\": \"head\"}");
    start(w);
    wait_for(w, "this edge aggregator is device");
    enrol_device(w);
    for (int tries = 0; says(w, "an edge aggregator serves no task with private_layers") == 0;
         tries++) {
        assert_in_range(tries, 0, 400);
        assert_lives(w);
        check_in(w);
        fed_sleep_ms(50);
    }
    end(w);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
