/* A large model is sent over a line that breaks again and again, while coordinator and device are
 * killed. The model must arrive, with few bytes sent twice.
 *
 * In the environment, FED_RESUME_MB sets the size of the model, FED_RESUME_BREAK_MB the bytes after
 * which the line breaks, and FED_RESUME_TRANSPORT the transport. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cut_lines.h"
#include "fed_cases.h"
#include "fed_operator.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/hash.h"
#include "fedclient/fedclient.h"
#include "fedcodec/patch.h"
#include "fedserver/rounds/closing.h"
#include "fedserver/server.h"
#include "fedserver/versions/old_versions.h"

enum { MB = 1000000, TRANSFERS = 3 };

typedef struct world {
    char directory[256], coordinator[300], device[300];
    char *ca;
    uint16_t ports[2];
    cut_lines lines; /* proxies at 127.0.0.2; the coordinator is at 127.0.0.1 */
    cut_forwarder *forwarder;
    pid_t coordinator_pid, device_pid;
    unsigned coordinator_kills, device_kills;
} world;

static uint64_t setting(const char *name, uint64_t preset) {
    const char *text = getenv(name);
    return (text != NULL ? strtoull(text, NULL, 10) : preset) * MB;
}

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    (void)user, (void)err;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] += (float)(i % 5) / 64;
    }
    round->samples = 1;
    round->loss = 1;
    return FED_OK;
}

static fed_status run_device(const world *w, fedclient *client, fed_error *err) {
    fedclient_event event = {0};
    if (!fedclient_enrolled(client)) {
        char token[FEDSERVER_TOKEN];
        fedserver *server = NULL;
        FED_TRY(fedserver_open(w->coordinator, NULL, &server, err));
        fed_status status = fedserver_token_new(server, fed_clock_unix_ms(), 3600, token, err);
        fedserver_close(server);
        FED_TRY(status);
        FED_TRY(fedclient_enrol(client, token, err));
    }
    while (event.outcome != FEDCLIENT_FINISHED) {
        FED_TRY(fedclient_step(client, &event, err));
        fed_sleep_ms(event.outcome == FEDCLIENT_RETRY ? 5 : 0);
    }
    return FED_OK;
}

static int device_main(const world *w) {
    fedclient_platform platform = {0};
    fedclient_transport transport = {0};
    fedclient *client = NULL;
    fed_error err = {0};
    char server[64];
    snprintf(server, sizeof server, "https://127.0.0.2:%u", w->ports[0]);
    fed_status status = fedclient_platform_posix_open(w->device, &platform, &err);
    if (status == FED_OK) {
        status = fedclient_transport_open(getenv("FED_RESUME_TRANSPORT"),
                                          &(fedclient_transport_options){.ca_pem = w->ca},
                                          &transport, &err);
    }
    const fedclient_options options = {
        .server = server, .platform = &platform, .transport = &transport, .train = train};
    if (status == FED_OK) {
        status = fedclient_open(&options, &client, &err);
    }
    if (status == FED_OK) {
        status = run_device(w, client, &err);
    }
    if (status != FED_OK && status != FED_ENET) {
        fprintf(stderr, "the test's device ended with an error: %s\n", err.text);
    }
    return status == FED_OK ? 0 : 1;
}

static void start_device(world *w) {
    w->device_pid = fork();
    assert_true(w->device_pid >= 0);
    if (w->device_pid == 0) {
        _exit(device_main(w));
    }
}

static void start_coordinator(world *w) {
    char front[16], devices[16];
    snprintf(front, sizeof front, "%u", w->ports[0]);
    snprintf(devices, sizeof devices, "%u", w->ports[1]);
    w->coordinator_pid = fork();
    assert_true(w->coordinator_pid >= 0);
    if (w->coordinator_pid == 0) {
        (void)freopen("/dev/null", "w", stdout);
        execl(FED_BIN_DIR "/fedserver", "fedserver", "run", "--dir", w->coordinator, "--front-port",
              front, "--devices-port", devices, "--quiet", (char *)NULL);
        _exit(127);
    }
}

static void kill_now(pid_t pid) {
    int how = 0;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
}

static void open_world(world *w, uint64_t model_bytes, uint64_t break_bytes) {
    static const char *const hosts[] = {"127.0.0.2", NULL};
    fed_error err = {0};
    char task[300];
    memset(w, 0, sizeof *w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->coordinator, sizeof w->coordinator, "%s/coordinator", w->directory);
    snprintf(w->device, sizeof w->device, "%s/device", w->directory);
    assert_fed_ok_err(
        fedserver_init(w->coordinator, &(fedserver_init_options){.hosts = hosts}, &err));
    w->ca = fed_operator_ca(w->coordinator);
    snprintf(task, sizeof task,
             "{\"model\": \"input 1000 | dense %" PRIu64 "\", \"codec_up\": \"float32\","
             " \"codec_down\": \"float32\", \"rounds\": 1, \"cohort\": 1, \"deadline_s\": 3600}",
             model_bytes / 4000);
    (void)fed_operator_task(w->coordinator, w->directory, task);
    cut_lines_add_ports(&w->lines, w->ports);
    w->lines.break_bytes = break_bytes;
    w->forwarder = cut_lines_open(&w->lines);
    start_coordinator(w);
    start_device(w);
}

static void kill_somebody(world *w, uint64_t content, uint64_t *next) {
    if (w->lines.up_bytes + w->lines.down_bytes < *next) {
        return;
    }
    if (w->device_kills == w->coordinator_kills) {
        kill_now(w->device_pid);
        start_device(w);
        w->device_kills++;
    } else {
        kill_now(w->coordinator_pid);
        start_coordinator(w);
        w->coordinator_kills++;
    }
    *next += content / (2 * TRANSFERS + 1);
}

static void run_world(world *w, uint64_t content) {
    uint64_t next = content / (2 * TRANSFERS + 1);
    bool finished = false;
    while (!finished) {
        int how = 0;
        cut_lines_poll(w->forwarder, 20);
        kill_somebody(w, content, &next);
        if (waitpid(w->device_pid, &how, WNOHANG) == w->device_pid) {
            assert_true(WIFEXITED(how));
            finished = WEXITSTATUS(how) == 0;
            if (!finished) {
                fed_sleep_ms(20);
                start_device(w);
            }
        }
    }
}

static void check_models(world *w) {
    fed_error err = {0};
    char args[800], out[300], path[400];
    fedclient_platform platform = {0};
    fedclient_transport transport = {0};
    fedclient *client = NULL;
    uint64_t task;
    uint32_t version;
    float *values = NULL;
    size_t count;
    snprintf(path, sizeof path, "%s/out.safetensors", w->directory);
    snprintf(args, sizeof args, "export --dir '%s' '%s'", w->coordinator, path);
    assert_int_equal(fed_test_run(w->directory, "fedserver", args, out, sizeof out), 0);
    fed_model model = {0};
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    assert_fed_ok_err(fedclient_platform_posix_open(w->device, &platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        NULL, &(fedclient_transport_options){.ca_pem = w->ca}, &transport, &err));
    const fedclient_options options = {.server = "https://127.0.0.2",
                                       .platform = &platform,
                                       .transport = &transport,
                                       .train = train};
    assert_fed_ok_err(fedclient_open(&options, &client, &err));
    assert_fed_ok_err(fedclient_model(client, &task, &version, &values, &count, &err));
    assert_int_equal(version, 1);
    assert_int_equal(count, model.layout.size);
    assert_true(fed_digest(values, count) == fed_digest(model.values, count));
    free(values);
    fedclient_close(client);
    fedclient_transport_close(&transport);
    fedclient_platform_posix_close(&platform);
    fed_model_free(&model);
}

static uint64_t patch_bytes(const float *from, const float *to, size_t n) {
    fed_writer w;
    fed_writer_growing(&w);
    assert_fed_ok(fedcodec_patch_write(from, to, n, &w));
    uint64_t bytes = w.len;
    fed_writer_free(&w);
    return bytes;
}

/* Return the least number of bytes that had to be sent. Ends the coordinator. */
static uint64_t content_of(world *w) {
    fed_error err = {0};
    fedserver *server = NULL;
    float *first = NULL;
    kill_now(w->coordinator_pid);
    assert_fed_ok_err(fedserver_open(w->coordinator, NULL, &server, &err));
    assert_fed_ok_err(fedserver_begin(server, &err));
    fedserver_archive archive =
        fedserver_rounds_archive(&server->rounds, fedserver_rounds_front(&server->rounds));
    assert_fed_ok_err(fedserver_old_versions_values(&archive, 0, &first, &err));
    const float *last = fedserver_rounds_front(&server->rounds)->versions.values;
    size_t n = fedserver_rounds_front(&server->rounds)->versions.layout->size;
    uint64_t patch = patch_bytes(first, last, n), whole = patch_bytes(NULL, last, n);
    uint64_t content = patch_bytes(NULL, first, n) + 4 * n + (patch < whole ? patch : whole);
    free(first);
    fedserver_close(server);
    return content;
}

static void close_world(world *w) {
    cut_lines_close(w->forwarder);
    fed_test_rmdir(w->directory);
    free(w->ca);
}

FED_TEST(a_large_model_gets_through_a_line_that_breaks) {
    static world w;
    const uint64_t model = setting("FED_RESUME_MB", 20);
    const uint64_t each = setting("FED_RESUME_BREAK_MB", 1);
    open_world(&w, model, each);
    int64_t begun_ms = fed_clock_monotonic_ms();
    run_world(&w, TRANSFERS * model);
    int64_t took_ms = fed_clock_monotonic_ms() - begun_ms;
    check_models(&w);
    const uint64_t travelled = w.lines.up_bytes + w.lines.down_bytes, content = content_of(&w);
    print_message("%.1f MB of content; %.1f MB travelled (%.1f up, %.1f down), %.2f %% more; "
                  "%" PRIu64 " breaks, %" PRIu64 " connections, %u kills of the device, %u of the "
                  "coordinator; %.1f s\n",
                  (double)content / MB, (double)travelled / MB, (double)w.lines.up_bytes / MB,
                  (double)w.lines.down_bytes / MB,
                  100.0 * (double)travelled / (double)content - 100, w.lines.breaks,
                  w.lines.dialled, w.device_kills, w.coordinator_kills, (double)took_ms / 1000);
    assert_true(w.lines.breaks + w.device_kills + w.coordinator_kills >= content / each - 1);
    assert_true(w.device_kills > 1 && w.coordinator_kills > 1);
    assert_true(travelled < content + content * 12 / 100);
    close_world(&w);
}
