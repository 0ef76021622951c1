/* A helper, as a program, that can't open a seal, or does not want to open a sum: nobody else
 * waits. The linker's option --wrap changes what a hostile device seals. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/private_terms.h"
#include "fed_cases.h"
#include "fed_coordinator.h"
#include "fed_operator.h"
#include "fed_test.h"
#include "fedclient/fedclient.h"

enum { LIMIT_MS = 120 * 1000, DEVICES = 6, HOSTILE = 3, LEAST = 3, MOST = 4 << 20, WORDS = 20 };

typedef struct device {
    size_t number;
    fedclient_platform platform;
    fedclient_transport line;
    fedclient *client;
} device;

typedef struct world {
    char directory[256], url[64], helper_directory[300], helper_log[300];
    fed_coordinator home;
    device device[DEVICES];
    pid_t helper;
} world;

static bool hostile; /* the device that takes its turn seals rubbish */

fed_status __real_fed_private_seal(const fed_private_terms *terms, uint64_t lease,
                                   const fed_pem *key, fed_private *m,
                                   uint8_t seeds[FED_HELPERS][FED_SEED], fed_error *err);
fed_status __wrap_fed_private_seal(const fed_private_terms *terms, uint64_t lease,
                                   const fed_pem *key, fed_private *m,
                                   uint8_t seeds[FED_HELPERS][FED_SEED], fed_error *err);

/* What it signs is what it sends, so the coordinator finds nothing wrong. */
fed_status __wrap_fed_private_seal(const fed_private_terms *terms, uint64_t lease,
                                   const fed_pem *key, fed_private *m,
                                   uint8_t seeds[FED_HELPERS][FED_SEED], fed_error *err) {
    FED_TRY(__real_fed_private_seal(terms, lease, key, m, seeds, err));
    if (!hostile) {
        return FED_OK;
    }
    memset(m->seeds[0].sealed, 0x5a, sizeof m->seeds[0].sealed);
    return fed_private_sign(m, lease, key, err);
}

static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    const device *d = user;
    (void)err;
    for (size_t i = 0; i < round->arch->layout.size; i++) {
        round->values[i] += 0.01F * (float)(1 + d->number);
    }
    round->samples = 1;
    round->loss = 0.5F;
    return FED_OK;
}

static void start_device(world *w, size_t k) {
    device *d = &w->device[k];
    fed_error err = {0};
    char token[FEDSERVER_TOKEN], directory[300];
    d->number = k;
    snprintf(directory, sizeof directory, "%s/device%zu", w->directory, k);
    assert_fed_ok_err(fedclient_platform_posix_open(directory, &d->platform, &err));
    assert_fed_ok_err(fedclient_transport_open(
        NULL, &(fedclient_transport_options){.ca_pem = w->home.ca}, &d->line, &err));
    const fedclient_options options = {.server = w->url,
                                       .platform = &d->platform,
                                       .transport = &d->line,
                                       .train = train,
                                       .user = d};
    assert_fed_ok_err(fedclient_open(&options, &d->client, &err));
    fed_coordinator_token(&w->home, token);
    assert_fed_ok_err(fedclient_enrol(d->client, token, &err));
}

static void start_helper(world *w) {
    char token[FEDSERVER_TOKEN], ca[340], least[12];
    fed_coordinator_token_for(&w->home, FEDSERVER_ROLE_HELPER, token);
    snprintf(least, sizeof least, "%d", LEAST);
    snprintf(ca, sizeof ca, "%s/ca.pem", w->home.directory);
    const char *const args[WORDS] = {FED_BIN_DIR "/fedserver",
                                     "helper",
                                     "--dir",
                                     w->helper_directory,
                                     "--upstream",
                                     w->url,
                                     "--upstream-ca",
                                     ca,
                                     "--least",
                                     least,
                                     "--upstream-token",
                                     token,
                                     NULL};
    w->helper = fork();
    if (w->helper == 0) {
        dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
        dup2(open(w->helper_log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
        alarm(300);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
}

/* Return the contents of a file as a text; "": there is no file yet. The caller frees it. */
static char *text_of(const char *path) {
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (fed_file_read(path, MOST, &bytes, &len, NULL) != FED_OK) {
        bytes = calloc(1, 1);
    }
    assert_non_null(bytes);
    return (char *)bytes;
}

static bool helper_says(const world *w, const char *words) {
    char *text = text_of(w->helper_log);
    const bool says = strstr(text, words) != NULL;
    free(text);
    return says;
}

static void pause_until(int64_t until_ms) {
    assert_true(fed_clock_monotonic_ms() < until_ms);
    fed_sleep_ms(10);
}

/* Queue a task whose rounds close with this many updates. */
static void queue_task(const world *w, unsigned rounds, unsigned goal, unsigned minimum) {
    char path[340], json[700];
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    snprintf(path, sizeof path, "%s/helper.pem", w->helper_directory);
    while (access(path, R_OK) != 0) {
        pause_until(until_ms);
    }
    char *key = text_of(path);
    snprintf(json, sizeof json,
             "{\"model\": \"input 30 | dense 4\", \"codec_up\": \"ring:b=5\", \"clip\": 1,"
             " \"codec_down\": \"float32\", \"rounds\": %u, \"cohort\": %u, \"goal\": %u,"
             " \"minimum\": %u, \"deadline_s\": 600, \"helper\": \"%s\"}",
             rounds, goal, goal, minimum, key);
    free(key);
    (void)fed_operator_task(w->home.directory, w->directory, json);
}

static int setup(void **state) {
    static world w;
    w = (world){.helper = 0};
    fed_test_tmpdir(w.directory, sizeof w.directory);
    snprintf(w.helper_directory, sizeof w.helper_directory, "%s/helper", w.directory);
    snprintf(w.helper_log, sizeof w.helper_log, "%s/helper.log", w.directory);
    fed_coordinator_open(&w.home, w.directory, "home");
    snprintf(w.url, sizeof w.url, "https://127.0.0.1:%u", w.home.front);
    for (size_t k = 0; k < DEVICES; k++) {
        start_device(&w, k);
    }
    start_helper(&w);
    *state = &w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    int how = 0;
    (void)kill(w->helper, SIGKILL);
    assert_int_equal(waitpid(w->helper, &how, 0), w->helper);
    for (size_t k = 0; k < DEVICES; k++) {
        fedclient_close(w->device[k].client);
        fedclient_transport_close(&w->device[k].line);
        fedclient_platform_posix_close(&w->device[k].platform);
    }
    fed_coordinator_close(&w->home);
    fed_test_rmdir(w->directory);
    return 0;
}

/* Take steps of a device until one has this outcome. */
static fedclient_event step_until(world *w, size_t k, fedclient_outcome wanted) {
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    for (;;) {
        fed_error err = {0};
        fedclient_event event;
        hostile = k == HOSTILE;
        assert_fed_ok_err(fedclient_step(w->device[k].client, &event, &err));
        if (event.outcome == wanted) {
            return event;
        }
        pause_until(until_ms);
    }
}

static void await(const world *w, const char *words) {
    const int64_t until_ms = fed_clock_monotonic_ms() + LIMIT_MS;
    while (!helper_says(w, words)) {
        pause_until(until_ms);
    }
}

FED_TEST_WITH(a_device_that_seals_rubbish_holds_up_nobody, world *w) {
    queue_task(w, 2, 4, 3);
    for (size_t k = 4; k-- > 0;) {
        assert_int_equal(step_until(w, k, FEDCLIENT_COUNTED).round, 1);
    }
    for (size_t k = 5; k-- > 0;) {
        if (k != HOSTILE) {
            assert_int_equal(step_until(w, k, FEDCLIENT_COUNTED).round, 2);
        }
    }
    step_until(w, 0, FEDCLIENT_FINISHED);
    assert_true(helper_says(w, "round 1 is not opened (seals): 1 of 4 seals can't be opened"));
    assert_true(helper_says(w, "opened round 1, a sum of 3 devices"));
    assert_true(helper_says(w, "opened round 2, a sum of 4 devices"));
}

FED_TEST_WITH(a_task_that_the_helper_refuses_holds_up_no_other, world *w) {
    queue_task(w, 1, 2, 2);
    step_until(w, 0, FEDCLIENT_COUNTED);
    step_until(w, 1, FEDCLIENT_COUNTED);
    await(w, "task 1: round 1 is not opened (minimum)");
    queue_task(w, 1, 3, 3);
    step_until(w, 2, FEDCLIENT_COUNTED);
    step_until(w, 4, FEDCLIENT_COUNTED);
    step_until(w, 5, FEDCLIENT_COUNTED);
    await(w, "task 2: opened round 1, a sum of 3 devices");
    assert_false(helper_says(w, "task 1: opened"));
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
