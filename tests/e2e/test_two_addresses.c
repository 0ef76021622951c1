/* A coordinator has two addresses. One of them fails for ever in the middle of a transfer, and the
 * device must continue at the other one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cut_lines.h"
#include "fed_cases.h"
#include "fed_operator.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fedclient/fedclient.h"
#include "fedserver/operator.h"

enum { MB = 1000000, MODEL_MB = 8, PIECE = 1 << 20 };

typedef struct world {
    char directory[256], coordinator[300], device[300];
    char servers[128];
    char token[FEDSERVER_TOKEN];
    char *ca;
    uint16_t ports[2];
    cut_lines lines; /* proxies at 127.0.0.2; the coordinator is at 127.0.0.1 */
    cut_forwarder *forwarder;
    pid_t coordinator_pid, device_pid;
} world;

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)err;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] += (float)(i % 5) / 64;
    }
    round->samples = 1;
    round->loss = 1;
    return FED_OK;
}

static fed_status live(const world *w, fedclient *client, fed_error *err) {
    fedclient_event event = {0};
    if (!fedclient_enrolled(client)) {
        FED_TRY(fedclient_enrol(client, w->token, err));
    }
    while (event.outcome != FEDCLIENT_FINISHED) {
        FED_TRY(fedclient_step(client, &event, err));
        fed_sleep_ms(event.wait_ms);
    }
    return FED_OK;
}

static int device_main(const world *w) {
    fedclient_platform platform = {0};
    fedclient_transport transport = {0};
    fedclient_traffic traffic = {0};
    fedclient *client = NULL;
    fed_error err = {0};
    char told[64];
    assert_fed_ok_err(fedclient_platform_posix_open(w->device, &platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        NULL, &(fedclient_transport_options){.ca_pem = w->ca}, &transport, &err));
    const fedclient_options options = {
        .server = w->servers, .platform = &platform, .transport = &transport, .train = train};
    fed_status status = fedclient_open(&options, &client, &err);
    if (status == FED_OK) {
        status = live(w, client, &err);
    }
    if (status != FED_OK) {
        fprintf(stderr, "the test's device ended with an error: %s\n", err.text);
        return 1;
    }
    transport.traffic(transport.user, &traffic);
    snprintf(told, sizeof told, "%" PRIu64 " %" PRIu64, traffic.sent_bytes, traffic.received_bytes);
    fed_test_put(w->directory, "traffic", told, strlen(told));
    return 0;
}

static void start_coordinator(world *w) {
    char front[16], devices[16], out[300];
    uint8_t *text = NULL;
    size_t len = 0;
    snprintf(out, sizeof out, "%s/out", w->directory);
    snprintf(front, sizeof front, "%u", w->ports[0]);
    snprintf(devices, sizeof devices, "%u", w->ports[1]);
    w->coordinator_pid = fork();
    assert_true(w->coordinator_pid >= 0);
    if (w->coordinator_pid == 0) {
        (void)freopen(out, "w", stdout);
        execl(FED_BIN_DIR "/fedserver", "fedserver", "run", "--dir", w->coordinator, "--front-port",
              front, "--devices-port", devices, "--quiet", (char *)NULL);
        _exit(127);
    }
    while (len == 0) {
        free(text);
        text = NULL;
        fed_sleep_ms(10);
        (void)!fed_file_read(out, 4096, &text, &len, NULL);
    }
    free(text);
}

static void init(world *w) {
    static const char *const hosts[] = {"127.0.0.1", "127.0.0.2", NULL};
    fed_error err = {0};
    char task[300];
    assert_fed_ok_err(
        fedserver_init(w->coordinator, &(fedserver_init_options){.hosts = hosts}, &err));
    w->ca = fed_operator_ca(w->coordinator);
    snprintf(task, sizeof task,
             "{\"model\": \"input 1000 | dense %d\", \"codec_up\": \"float32\","
             " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 1}",
             MODEL_MB * MB / 4000);
    (void)fed_operator_task(w->coordinator, w->directory, task);
    fed_operator_token(w->coordinator, &(fedserver_grant){.ttl_s = 3600}, w->token);
}

static void open_world(world *w) {
    *w = (world){.ca = NULL};
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->coordinator, sizeof w->coordinator, "%.*s/coordinator", 255, w->directory);
    snprintf(w->device, sizeof w->device, "%.*s/device", 255, w->directory);
    init(w);
    cut_lines_add_ports(&w->lines, w->ports);
    w->forwarder = cut_lines_open(&w->lines);
    snprintf(w->servers, sizeof w->servers, "https://127.0.0.2:%u,https://127.0.0.1:%u",
             w->ports[0], w->ports[0]);
    start_coordinator(w);
    w->device_pid = fork();
    assert_true(w->device_pid >= 0);
    if (w->device_pid == 0) {
        _exit(device_main(w));
    }
}

static void close_world(world *w) {
    assert_int_equal(kill(w->coordinator_pid, SIGKILL), 0);
    assert_int_equal(waitpid(w->coordinator_pid, NULL, 0), w->coordinator_pid);
    fed_test_rmdir(w->directory);
    free(w->ca);
}

static bool ended(world *w) {
    int how = 0;
    if (waitpid(w->device_pid, &how, WNOHANG) != w->device_pid) {
        return false;
    }
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    return true;
}

static void read_traffic(const world *w, uint64_t *sent, uint64_t *received) {
    char path[300];
    uint8_t *told = NULL;
    size_t len = 0;
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/traffic", w->directory);
    assert_fed_ok_err(fed_file_read(path, 1024, &told, &len, &err));
    assert_int_equal(sscanf((char *)told, "%" SCNu64 " %" SCNu64, sent, received), 2);
    free(told);
}

/* Run the task. The first address fails after `up` bytes sent or `down` bytes received. *sent,
 * *received: all bytes of the device. */
static void run(uint64_t up, uint64_t down, uint64_t *sent, uint64_t *received) {
    static world w;
    bool there = true, done = false;
    open_world(&w);
    while (!done) {
        if (there) {
            cut_lines_poll(w.forwarder, 5);
        } else {
            fed_sleep_ms(5);
        }
        if (there && (w.lines.up_bytes > up || w.lines.down_bytes > down)) {
            cut_lines_close(w.forwarder);
            there = false;
        }
        done = ended(&w);
        assert_false(done && there);
    }
    read_traffic(&w, sent, received);
    close_world(&w);
}

FED_TEST(a_download_goes_on_at_the_other_address) {
    uint64_t sent = 0, received = 0;
    run(UINT64_MAX, 5 * MB, &sent, &received);
    /* What has arrived is not fetched again. */
    print_message("%.1f MB received, %.1f MB sent\n", (double)received / MB, (double)sent / MB);
    assert_true(received < 18 * (uint64_t)MB);
}

FED_TEST(an_upload_goes_on_at_the_other_address) {
    uint64_t sent = 0, received = 0;
    run(5 * MB, UINT64_MAX, &sent, &received);
    print_message("%.1f MB received, %.1f MB sent\n", (double)received / MB, (double)sent / MB);
    assert_true(sent < MODEL_MB * (uint64_t)MB + 2 * PIECE);
}
