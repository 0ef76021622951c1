/* Runs that share a crowd (a file of enrolled clients) must have the same bits as runs that enrol
 * clients. A real coordinator must not accept a crowd's clients. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deploy/sim/run.h"
#include "fault_sweep.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed/version.h"
#include "fed/wire.h"
#include "fed_coordinator.h"
#include "fed_curl.h"
#include "fed_digits.h"
#include "fed_test.h"

typedef struct world {
    char directory[256], task[300], crowd[300], file[320], coordinator[300];
    uint64_t digest;
} world;

static int setup(void **state) {
    static const char task[] = "{ \"model\": \"lr\", \"local_steps\": 2, \"batch\": 4,\n"
                               "  \"rounds\": 2, \"cohort\": 3, \"goal\": 3 }\n";
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->task, sizeof w->task, "%s/task.json", w->directory);
    snprintf(w->crowd, sizeof w->crowd, "%s/crowd", w->directory);
    snprintf(w->file, sizeof w->file, "%s/simulated-crowd-3", w->crowd);
    snprintf(w->coordinator, sizeof w->coordinator, "%s/coordinator", w->directory);
    fed_test_put(w->directory, "task.json", task, sizeof task - 1);
    fed_digits_write(w->directory, 120, 30);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

static void no_progress(void *user, const sim_progress *progress) {
    (void)user;
    (void)progress;
}

static sim_options options_of(const world *w) {
    return (sim_options){.transport = SIM_INPROC,
                         .task = w->task,
                         .data = w->directory,
                         .dataset = "mnist",
                         .crowd = w->crowd,
                         .clients = 3,
                         .threads = 2,
                         .evaluate_every = 1,
                         .seed = 1};
}

static fed_status run(const sim_options *o, uint64_t *digest, fed_error *err) {
    static const atomic_int never;
    const sim_watch watch = {.progress = no_progress, .stop = &never};
    sim_log log = {0};
    const fed_status status = sim_run(o, &watch, &log, err);
    *digest = log.digest;
    sim_log_free(&log);
    return status;
}

static uint64_t digest_of(const sim_options *o) {
    uint64_t digest = 0;
    fed_error err = {0};
    assert_fed_ok_err(run(o, &digest, &err));
    return digest;
}

static void assert_refused(const sim_options *o, fed_status wanted, const char *words) {
    uint64_t digest = 0;
    fed_error err = {0};
    assert_fed_status(run(o, &digest, &err), wanted);
    assert_fed_says(err, words);
}

static uint64_t run_and_look(sim_options o, const world *w, fed_pem *ca) {
    char path[400];
    uint8_t *data = NULL;
    size_t len = 0;
    fed_error err = {0};
    o.directory = w->coordinator;
    const uint64_t digest = digest_of(&o);
    snprintf(path, sizeof path, "%s/ca.pem", w->coordinator);
    assert_fed_ok_err(fed_file_read(path, sizeof ca->text - 1, &data, &len, &err));
    memcpy(ca->text, data, len + 1);
    free(data);
    fed_test_rmdir(w->coordinator);
    return digest;
}

static void runs_that_share_a_crowd_have_the_bits_of_runs_that_enrol(void **state) {
    const world *w = *state;
    sim_options o = options_of(w), alone = o;
    fed_pem first, second, other;
    struct stat made, used, directory;
    alone.crowd = NULL;
    const uint64_t wanted = run_and_look(alone, w, &other);
    assert_true(run_and_look(o, w, &first) == wanted);
    assert_int_equal(stat(w->file, &made), 0);
    assert_int_equal(stat(w->crowd, &directory), 0);
    assert_int_equal(made.st_mode & 0777, 0600);
    assert_int_equal(directory.st_mode & 0777, 0700);
    assert_true(run_and_look(o, w, &second) == wanted);
    assert_int_equal(stat(w->file, &used), 0);
    assert_int_equal(made.st_ino, used.st_ino);
    assert_string_equal(first.text, second.text);
    assert_string_not_equal(first.text, other.text);
    o.seed = alone.seed = 2;
    o.threads = 1;
    assert_true(digest_of(&o) == digest_of(&alone));
}

static void a_crowd_of_another_number_is_another_one(void **state) {
    const world *w = *state;
    sim_options o = options_of(w);
    (void)digest_of(&o);
    o.clients = 4;
    (void)digest_of(&o);
    char path[400];
    snprintf(path, sizeof path, "%s/simulated-crowd-4", w->crowd);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(w->file, F_OK), 0);
}

static void a_crowd_is_refused_where_enrolment_is_real(void **state) {
    const world *w = *state;
    sim_options o = options_of(w);
    o.transport = SIM_HTTPS;
    assert_refused(&o, FED_EINVAL, "leave the key \"crowd\" out");
}

static void read_crowd(const world *w, uint8_t **data, size_t *len) {
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(w->file, SIZE_MAX / 2, data, len, &err));
}

static void a_damaged_crowd_is_refused_with_a_word(void **state) {
    const world *w = *state;
    const sim_options o = options_of(w);
    uint8_t *data = NULL;
    size_t len = 0;
    (void)digest_of(&o);
    read_crowd(w, &data, &len);
    fed_test_put(w->crowd, "simulated-crowd-3", data, len / 2);
    assert_refused(&o, FED_EFORMAT, "is damaged: remove it, and the next run makes it anew");
    fed_test_put(w->crowd, "simulated-crowd-3", data, 200);
    assert_refused(&o, FED_EFORMAT, "is damaged: remove it, and the next run makes it anew");
    data[len / 3] ^= 1;
    fed_test_put(w->crowd, "simulated-crowd-3", data, len);
    assert_refused(&o, FED_EFORMAT, "is damaged: remove it, and the next run makes it anew");
    free(data);
    assert_int_equal(unlink(w->file), 0);
    (void)digest_of(&o);
    assert_int_equal(access(w->file, F_OK), 0);
}

static void a_crowd_of_another_release_is_made_anew(void **state) {
    static const char mark[] = "fedsim simulated crowd ";
    const world *w = *state;
    const sim_options o = options_of(w);
    uint8_t *data = NULL;
    size_t len = 0;
    const uint64_t wanted = digest_of(&o);
    read_crowd(w, &data, &len);
    assert_memory_equal(data, mark, sizeof mark - 1);
    data[sizeof mark - 1]++;
    fed_test_put(w->crowd, "simulated-crowd-3", data, len);
    free(data);
    assert_true(digest_of(&o) == wanted);
    read_crowd(w, &data, &len);
    assert_int_equal(data[sizeof mark - 1], '1');
    free(data);
}

/** Replace each `from` in the crowd's file by `to`, which is as long. */
static void change_crowd(const world *w, const char *from, const char *to, bool sealed) {
    uint8_t *data = NULL;
    size_t len = 0, found = 0;
    read_crowd(w, &data, &len);
    for (uint8_t *at = data; (at = memmem(at, (size_t)(data + len - at), from, strlen(from)));) {
        memcpy(at, to, strlen(to));
        found++;
    }
    assert_true(found > 0);
    if (sealed) {
        fed_writer end;
        fed_writer_fixed(&end, data + len - sizeof(uint64_t), sizeof(uint64_t));
        fed_write_u64(&end, fed_digest_bytes(data, len - sizeof(uint64_t)));
    }
    fed_test_put(w->crowd, "simulated-crowd-3", data, len);
    free(data);
}

static void a_crowd_of_another_build_is_made_anew(void **state) {
    const world *w = *state;
    const sim_options o = options_of(w);
    const uint64_t wanted = digest_of(&o);
    char own[100], other[100];
    snprintf(own, sizeof own, "%s (%.40s)", FED_VERSION, fed_build_id());
    snprintf(other, sizeof other, "%s", own);
    other[strlen(other) - 2] = '~';
    change_crowd(w, own, other, true);
    assert_true(digest_of(&o) == wanted);
    uint8_t *data = NULL;
    size_t len = 0;
    read_crowd(w, &data, &len);
    assert_non_null(memmem(data, 200, own, strlen(own)));
    free(data);
}

/* Two builds of changed sources may have the same name. */
static void a_crowd_whose_tables_differ_is_refused_by_its_own_name(void **state) {
    const world *w = *state;
    const sim_options o = options_of(w);
    (void)digest_of(&o);
    change_crowd(w, "generation", "generatiom", true);
    assert_refused(&o, FED_EIO,
                   "crowd/simulated-crowd-3 was kept by another build, and this one "
                   "can't use it: remove it, and the next run makes it anew");
}

static void another_file_of_that_name_is_left_alone(void **state) {
    const world *w = *state;
    const sim_options o = options_of(w);
    uint8_t *data = NULL;
    size_t len = 0;
    assert_int_equal(mkdir(w->crowd, 0700), 0);
    fed_test_put(w->crowd, "simulated-crowd-3", "a letter", 8);
    assert_refused(&o, FED_EFORMAT, "is no simulated crowd: move it away, or choose another");
    read_crowd(w, &data, &len);
    assert_int_equal(len, 8);
    free(data);
}

static void where_nothing_can_be_kept_nobody_enrols(void **state) {
    const world *w = *state;
    sim_options o = options_of(w);
    o.crowd = w->task;
    assert_refused(&o, FED_EEXIST, w->task);
}

static void begin_without(void *user) {
    const world *w = user;
    fed_test_rmdir(w->crowd);
    assert_int_equal(mkdir(w->crowd, 0700), 0);
}

static bool keep_one(void *user) {
    const sim_options o = options_of(user);
    uint64_t digest = 0;
    fed_error err = {0};
    return run(&o, &digest, &err) == FED_OK;
}

static void next_one_is_right(void *user, bool acknowledged) {
    const world *w = user;
    const sim_options o = options_of(w);
    assert_true(!acknowledged || access(w->file, F_OK) == 0);
    assert_true(digest_of(&o) == w->digest);
}

static void after_any_death_and_any_failure_the_next_run_is_right(void **state) {
    world *w = *state;
    const fault_sweep sweep = {.directory = w->crowd,
                               .step = FED_TEST_TRIES(1, 3),
                               .user = w,
                               .start = begin_without,
                               .deed = keep_one,
                               .end = next_one_is_right};
    const sim_options o = options_of(w);
    w->digest = digest_of(&o);
    fault_sweep_run(&sweep);
}

static const uint8_t *take_pem(const uint8_t *from, const uint8_t *end, const char *what,
                               fed_pem *pem) {
    char first[64], last[64];
    snprintf(first, sizeof first, "-----BEGIN %s-----", what);
    snprintf(last, sizeof last, "-----END %s-----", what);
    const uint8_t *at = memmem(from, (size_t)(end - from), first, strlen(first));
    assert_non_null(at);
    const uint8_t *behind = memmem(at, (size_t)(end - at), last, strlen(last));
    assert_non_null(behind);
    snprintf(pem->text, sizeof pem->text, "%.*s\n", (int)(behind - at) + (int)strlen(last),
             (const char *)at);
    return behind;
}

static void take_client(const world *w, fed_identity *who) {
    static const char mark[] = "-----BEGIN EC PRIVATE KEY-----";
    uint8_t *data = NULL;
    size_t len = 0;
    uint8_t digest[FED_SHA256_SIZE], certified[FED_SHA256_SIZE];
    fed_error err = {0};
    read_crowd(w, &data, &len);
    const uint8_t *end = data + len, *at = data, *next = data;
    while ((next = memmem(next, (size_t)(end - next), mark, sizeof mark - 1)) != NULL) {
        at = next++;
    }
    at = take_pem(at, end, "EC PRIVATE KEY", &who->key);
    (void)take_pem(at, end, "CERTIFICATE", &who->cert);
    free(data);
    assert_fed_ok_err(fed_key_fingerprint(&who->key, digest, &err));
    assert_fed_ok_err(fed_cert_key_fingerprint(who->cert.text, certified, &err));
    assert_memory_equal(digest, certified, sizeof digest);
}

static long check_in(const fed_pem *ca, const fed_identity *who, uint16_t port) {
    CURL *curl = fed_curl_new(ca, who, port, FED_PATH_CHECKIN);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    fed_reply r = fed_curl_ask(curl);
    const long status = r.code == CURLE_OK ? r.status : 0;
    fed_reply_free(&r);
    curl_easy_cleanup(curl);
    return status;
}

static void a_real_coordinator_lets_no_client_of_a_crowd_in(void **state) {
    const world *w = *state;
    const sim_options o = options_of(w);
    fed_identity simulated, real;
    fed_coordinator c;
    fed_pem ca;
    char token[FEDSERVER_TOKEN];
    (void)digest_of(&o);
    take_client(w, &simulated);
    fed_coordinator_open(&c, w->directory, "real");
    snprintf(ca.text, sizeof ca.text, "%s", c.ca);
    fed_coordinator_token(&c, token);
    assert_int_equal(fed_curl_enrol(&ca, c.front, token, &real), 200);
    assert_int_equal(check_in(&ca, &real, c.devices), 400);
    assert_int_equal(check_in(&ca, &simulated, c.devices), 0);
    fed_coordinator_close(&c);
}

static void a_real_coordinator_does_not_serve_a_crowd(void **state) {
    const world *w = *state;
    const sim_options o = options_of(w);
    char out[1024];
    (void)digest_of(&o);
    assert_int_not_equal(
        fed_test_run(w->directory, "fedserver", "run --dir crowd", out, sizeof out), 0);
    assert_non_null(strstr(out, "crowd"));
    assert_int_not_equal(
        fed_test_run(w->directory, "fedserver", "restore --dir real crowd", out, sizeof out), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(runs_that_share_a_crowd_have_the_bits_of_runs_that_enrol,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_of_another_number_is_another_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_is_refused_where_enrolment_is_real, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_damaged_crowd_is_refused_with_a_word, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_of_another_release_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_of_another_build_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crowd_whose_tables_differ_is_refused_by_its_own_name,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(another_file_of_that_name_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(where_nothing_can_be_kept_nobody_enrols, setup, teardown),
        cmocka_unit_test_setup_teardown(after_any_death_and_any_failure_the_next_run_is_right,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_real_coordinator_lets_no_client_of_a_crowd_in, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_real_coordinator_does_not_serve_a_crowd, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
