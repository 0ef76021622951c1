/* fedclientd as a person runs it: against a real coordinator, on made-up digits. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clientd_world.h"
#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed_cases.h"
#include "fed_curl.h"
#include "fed_digits.h"
#include "fedclient/state/record.h"
#include "fedcodec/envelope.h"
#include "fedserver/operator.h"
#include "fedtrain/data.h"

static const char task_json[] =
    "{ \"model\": \"lr\", \"codec_up\": \"sbc:p=0.05\", \"optimizer\": \"%s\",\n"
    "  \"local_steps\": 20, \"learning_rate\": 0.1, \"rounds\": 3, \"cohort\": 1 }\n";

static void queue_task(clientd_world *w, const char *optimizer) {
    char json[sizeof task_json + 64];
    snprintf(json, sizeof json, task_json, optimizer);
    clientd_queue(w, json);
}

static bool holds_an_optimizer(const clientd_world *w) {
    char path[400];
    snprintf(path, sizeof path, "%s/optimizer", w->state);
    return access(path, F_OK) == 0;
}

static void train_to_the_end(clientd_world *w, const char *optimizer) {
    queue_task(w, optimizer);
    const char *const args[] = {"--token", w->token, "--until-finished", NULL};
    clientd_run(w, args, 0, "round 3: update counted");
}

FED_TEST_WITH(it_trains_until_the_task_is_finished, clientd_world *w) {
    train_to_the_end(w, "momentum");
    assert_true(clientd_says(w, "finished; its model is version 3"));
    assert_true(holds_an_optimizer(w));
    const char *const again[] = {"--until-finished", "--hold", "0", NULL};
    clientd_run(w, again, 0, "at https://");
}

FED_TEST_WITH(of_a_stateless_optimizer_it_stores_nothing, clientd_world *w) {
    train_to_the_end(w, "momentum+stateless");
    assert_false(holds_an_optimizer(w));
}

static const char phases_json[] =
    "{ \"model\": \"lr\", \"codec_up\": \"dgc:p=0.05\", \"codec_down\": \"float32\",\n"
    "  \"optimizer\": \"momentum+mask\", \"local_steps\": 3, \"batch\": 4, \"goal\": 1,\n"
    "  \"learning_rate\": 0.125, \"rounds\": 6, \"phases\": [\n"
    "  { \"round\": 3, \"codec_up\": \"dgc:p=0.01\", \"local_steps\": 5, \"batch\": 16,\n"
    "    \"learning_rate\": 0.0625 },\n"
    "  { \"round\": 5, \"codec_up\": \"sbc:p=0.02\", \"optimizer\": \"momentum:m=0.5\" } ] }\n";

static const struct {
    const char *codec, *optimizer;
    float rate;
    size_t steps, batch;
} plan[6] = {{"dgc:p=0.05", "momentum+mask", 0.125f, 3, 4},
             {"dgc:p=0.05", "momentum+mask", 0.125f, 3, 4},
             {"dgc:p=0.01", "momentum+mask", 0.0625f, 5, 16},
             {"dgc:p=0.01", "momentum+mask", 0.0625f, 5, 16},
             {"sbc:p=0.02", "momentum:m=0.5", 0.0625f, 5, 16},
             {"sbc:p=0.02", "momentum:m=0.5", 0.0625f, 5, 16}};

/** A simple reference for the training with one device. */
typedef struct plain {
    fed_arch arch;
    fedtrain_net *net;
    fedtrain_data data;
    fedtrain_share share;
    float *model, *trained, *owed, *sent, *momentum;
} plain;

static void plain_open(plain *p, const char *directory) {
    fed_error err = {0};
    fedtrain_partition all;
    assert_fed_ok_err(fed_arch_load("lr", &p->arch, &err));
    assert_fed_ok(fedtrain_net_new(&p->arch, 16, NULL, &p->net, NULL));
    assert_fed_ok_err(fedtrain_data_open("mnist", directory, "train", "train", &p->data, &err));
    assert_fed_ok_err(fedtrain_data_split(&p->data, (fedtrain_split){0}, 1, 1, &all, &err));
    assert_fed_ok_err(fedtrain_share_take(&p->data, &all, 0, &p->share, &err));
    fedtrain_partition_free(&all);
    float **arrays[] = {&p->model, &p->trained, &p->owed, &p->sent, &p->momentum};
    for (size_t k = 0; k < 5; k++) {
        *arrays[k] = calloc(p->arch.layout.size, sizeof **arrays[k]);
        assert_non_null(*arrays[k]);
    }
    fed_arch_init_values(&p->arch, 1, p->model);
}

static void plain_close(plain *p) {
    free(p->model);
    free(p->trained);
    free(p->owed);
    free(p->sent);
    free(p->momentum);
    fedtrain_share_free(&p->share);
    fedtrain_data_free(&p->data);
    fedtrain_net_free(p->net);
    fed_arch_free(&p->arch);
}

static void plain_send(plain *p, const char *spec) {
    fed_error err = {0};
    fedcodec codec;
    fed_writer out;
    fed_writer_growing(&out);
    assert_fed_ok_err(fedcodec_parse(spec, &codec, &err));
    void *work = malloc(fedcodec_envelope_work_size(&codec, &p->arch.layout, 1024) + 1);
    memcpy(p->sent, p->owed, p->arch.layout.size * sizeof *p->sent);
    assert_fed_ok(
        fedcodec_envelope_encode(&codec, &p->arch.layout, 1024, p->sent, NULL, work, &out));
    assert_fed_ok_err(fedcodec_envelope_decode(out.data, out.len, &p->arch.layout, p->sent, &err));
    free(work);
    fed_writer_free(&out);
}

static void plain_round(plain *p, uint32_t round) {
    fed_error err = {0};
    size_t n = p->arch.layout.size;
    float loss;
    fedtrain_job job = {.net = p->net,
                        .steps = plan[round - 1].steps,
                        .batch = plan[round - 1].batch,
                        .seed = 1,
                        .round = round};
    fedtrain_job_use(&job, &p->data, &p->share);
    assert_fed_ok_err(
        fed_optimizer_parse(plan[round - 1].optimizer, plan[round - 1].rate, &job.optimizer, &err));
    for (size_t i = 0; i < n; i++) {
        p->momentum[i] = job.optimizer.mask && p->sent[i] != 0 ? 0 : p->momentum[i];
        p->trained[i] = p->model[i];
    }
    assert_fed_ok_err(fedtrain_run(&job, p->trained, p->momentum, &loss, &err));
    for (size_t i = 0; i < n; i++) {
        p->owed[i] += p->trained[i] - p->model[i];
    }
    plain_send(p, plan[round - 1].codec);
    for (size_t i = 0; i < n; i++) {
        p->owed[i] -= p->sent[i];
        p->model[i] += (float)(rint(ldexp((double)p->sent[i], 30)) / ldexp(1, 30));
    }
}

static uint64_t coordinators_model(const clientd_world *w, uint64_t task) {
    char path[400];
    fed_error err = {0};
    fedserver *server = NULL;
    fed_model model = {0};
    snprintf(path, sizeof path, "%s/out.safetensors", w->directory);
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_model_export(server, task, path, &err));
    fedserver_close(server);
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    uint64_t digest = fed_digest(model.values, model.layout.size);
    fed_model_free(&model);
    return digest;
}

static uint64_t plain_model(const clientd_world *w) {
    plain p = {0};
    plain_open(&p, w->directory);
    for (uint32_t round = 1; round <= 6; round++) {
        plain_round(&p, round);
    }
    const uint64_t digest = fed_digest(p.model, p.arch.layout.size);
    plain_close(&p);
    return digest;
}

static void train_in_two_lives(clientd_world *w, const char *slots) {
    const char *const first[] = {"--slots", slots, "--token", w->token, NULL};
    pid_t pid = clientd_spawn(w, first);
    clientd_wait_for(w, pid, "round 3: update counted");
    clientd_end(pid, SIGTERM);
    const char *const again[] = {"--slots", slots, "--until-finished", NULL};
    clientd_run(w, again, 0, "finished");
}

FED_TEST_WITH(it_follows_the_phases_and_remembers_its_momentum_when_started_again,
              clientd_world *w) {
    clientd_queue(w, phases_json);
    train_in_two_lives(w, "1");
    assert_true(coordinators_model(w, 0) == plain_model(w));
}

/* Each task has its own residual, momentum and last message. */
FED_TEST_WITH(two_tasks_in_two_slots_have_the_model_that_each_would_have_alone, clientd_world *w) {
    clientd_queue(w, phases_json);
    clientd_queue(w, phases_json);
    train_in_two_lives(w, "2");
    const uint64_t alone = plain_model(w);
    assert_true(coordinators_model(w, 1) == alone);
    assert_true(coordinators_model(w, 2) == alone);
}

static const char personal_json[] =
    "{ \"model\": \"lr\", \"codec_up\": \"float32\", \"rounds\": 2, \"cohort\": 1, \"batch\": 4,\n"
    "  \"local_steps\": 5, \"learning_rate\": 0.1, \"personal_steps\": 40, \"holdout\": 0.25 }\n";

static fed_status look(void *user, const fedserver_own_list *list, fed_error *err) {
    unsigned *rounds = user;
    (void)err;
    ++*rounds;
    assert_int_equal(list->round, 2); /* the copy of round 1 is measured before round 2 */
    assert_int_equal(list->count, 2);
    assert_string_equal(list->rows[0].name, "personal/accuracy");
    assert_string_equal(list->rows[1].name, "shared/accuracy");
    assert_true(list->rows[0].mean > 0 && list->rows[0].mean <= 1);
    return FED_OK;
}

static void check_metrics(const clientd_world *w) {
    fed_error err = {0};
    fedserver *server = NULL;
    unsigned rounds = 0;
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_own_each(server, 1, 0, look, &rounds, &err));
    assert_int_equal(rounds, 1);
    fedserver_close(server);
}

/* The last copy is of the final model, and differs from it. */
FED_TEST_WITH(it_keeps_a_model_of_its_own, clientd_world *w) {
    fed_error err = {0};
    char path[400];
    fed_model own;
    fedclient_platform state;
    fedclient_personal_head head;
    fedclient_record record;
    clientd_queue(w, personal_json);
    snprintf(path, sizeof path, "%s/own.safetensors", w->directory);
    const char *const args[] = {"--token", w->token, "--until-finished", "--personal", path, NULL};
    clientd_run(w, args, 0, "finished");
    assert_fed_ok_err(fedclient_platform_posix_open(w->state, &state, &err));
    assert_fed_ok_err(fedclient_personal_load(&state, 0, &head, &record, &err));
    assert_non_null(record.bytes);
    assert_int_equal(head.version, 2);
    assert_int_equal(head.count, 7850);
    size_t count = 0;
    const float *values = fedclient_record_values(&record, &count);
    assert_true(fed_digest(values, (size_t)head.count) != coordinators_model(w, 0));
    assert_true(coordinators_model(w, 0) == head.digest);
    assert_fed_ok_err(fed_checkpoint_load(path, &own, &err));
    assert_int_equal(own.layout.size, head.count);
    assert_memory_equal(own.values, values, own.layout.size * sizeof *values);
    fed_model_free(&own);
    check_metrics(w);
    fedclient_record_free(&record);
    fedclient_platform_posix_close(&state);
}

FED_TEST_WITH(an_evaluator_measures_a_model, clientd_world *w) {
    char token[FEDSERVER_TOKEN];
    queue_task(w, "momentum");
    const char *const train[] = {"--token", w->token, "--until-finished", NULL};
    clientd_run(w, train, 0, "finished");
    fed_test_rmdir(w->state);
    fed_coordinator_token_for(&w->coordinator, FEDSERVER_ROLE_EVALUATOR, token);
    const char *const evaluate[] = {"--token", token, "--evaluate", NULL};
    pid_t pid = clientd_spawn(w, evaluate);
    clientd_wait_for(w, pid, "accuracy");
    clientd_end(pid, SIGINT);
}

/* The number to predict is the first column. The second one is above a million, so training would
 * fail without scaling it. */
static void write_lopsided_table(const clientd_world *w) {
    char text[200 * 32];
    size_t len = 0;
    for (int k = 0; k < 200; k++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%.1f,%d,%.1f\n", k % 9 / 2.0,
                                1000000 + k * 7 % 5, k % 9 / 2.0);
    }
    fed_test_put(w->directory, "train.csv", text, len);
    fed_test_put(w->directory, "test.csv", text, len);
}

static const char numbers_json[] =
    "{ \"model\": \"input 2 | dense 1 | mse\", \"codec_up\": \"float32\", \"rounds\": 3,\n"
    "  \"codec_down\": \"float32\", \"local_steps\": 50, \"learning_rate\": 0.1, \"cohort\": 1 }\n";

FED_TEST_WITH(it_predicts_numbers_and_normalises_by_its_own_shard, clientd_world *w) {
    char token[FEDSERVER_TOKEN];
    write_lopsided_table(w);
    clientd_queue(w, numbers_json);
    const char *const train[] = {"--token",     w->token,  "--dataset", "csv:target=last",
                                 "--normalise", "--shard", "0/2",       "--until-finished",
                                 NULL};
    clientd_run(w, train, 0, "round 3: update counted, training loss 0.0");
    fed_test_rmdir(w->state);
    fed_coordinator_token_for(&w->coordinator, FEDSERVER_ROLE_EVALUATOR, token);
    const char *const evaluate[] = {"--token",     token,        "--dataset", "csv:target=last",
                                    "--normalise", "--evaluate", NULL};
    pid_t pid = clientd_spawn(w, evaluate);
    clientd_wait_for(w, pid, "version 3: mean squared error 0.0");
    clientd_end(pid, SIGINT);
    assert_false(clientd_says(w, "accuracy"));
}

static const char named_json[] =
    "{ \"model\": \"input 2 | dense 2\", \"codec_up\": \"float32\", \"codec_down\": \"float32\",\n"
    "  \"rounds\": 100000, \"cohort\": 2, \"goal\": 1, \"local_steps\": 1 }\n";

/* Run a device whose classes.txt has these names, until its log has the text. */
static void run_with_classes(const clientd_world *w, const char *names, const char *token,
                             const char *text) {
    fed_test_put(w->directory, "classes.txt", names, strlen(names));
    const char *const args[] = {"--dataset", "csv", "--hold", "0", "--token", token, NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, text);
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(a_device_with_its_classes_in_another_order_does_not_train, clientd_world *w) {
    static const char rows[] = "1,2,low\n3,4,high\n1,3,low\n4,4,high\n";
    char token[FEDSERVER_TOKEN];
    fed_test_put(w->directory, "train.csv", rows, sizeof rows - 1);
    clientd_queue(w, named_json);
    run_with_classes(w, "low\nhigh\n", w->token, "update counted");
    fed_test_rmdir(w->state);
    fed_coordinator_token(&w->coordinator, token);
    run_with_classes(w, "high\nlow\n", token, "this device has declined the tasks that run");
    assert_false(clientd_says(w, "update counted"));
    run_with_classes(w, "low\nhigh\n", token, "update counted");
}

FED_TEST_WITH(a_device_with_classes_declines_a_model_that_predicts_numbers, clientd_world *w) {
    write_lopsided_table(w);
    clientd_queue(w, numbers_json);
    const char *const args[] = {"--token", w->token, NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "the data has classes, the model predicts numbers (mse)");
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(a_signal_ends_it_in_the_middle_of_a_wait, clientd_world *w) {
    const char *const args[] = {"--token", w->token, "--hold", "50", NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "enrolled as device");
    clientd_end(pid, SIGTERM);
    assert_true(clientd_says(w, "stopped; what is not sent yet is kept in"));
}

FED_TEST_WITH(it_asks_no_cache_if_it_may_not, clientd_world *w) {
    const char *const args[] = {"--token", w->token, "--no-caches", "--verbose", NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "all downloads come from the coordinator: --no-caches was given");
    clientd_wait_for(w, pid, "enrolled as device");
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(a_state_directory_serves_one_device, clientd_world *w) {
    const char *const args[] = {"--token", w->token, NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "enrolled as device");
    clientd_run(w, args, 1, "is in use by another client");
    clientd_end(pid, SIGTERM);
}

static void declines(clientd_world *w, const char *json, const char *reason) {
    clientd_queue(w, json);
    const char *const args[] = {"--token", w->token, "--until-finished", "--hold", "0", "--memory",
                                "10",      NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "declines task 1");
    clientd_wait_for(w, pid, reason);
    clientd_wait_for(w, pid, "this device has declined the tasks that run");
    clientd_end(pid, SIGTERM);
    uint32_t leased = 1;
    uint64_t declines = 0;
    fed_coordinator_look(&w->coordinator, &leased, &declines);
    assert_int_equal(declines, 1);
    assert_int_equal(leased, 0);
}

FED_TEST_WITH(a_task_that_does_not_fit_the_data_is_declined, clientd_world *w) {
    declines(w, "{ \"model\": \"resnet20\", \"rounds\": 3, \"cohort\": 1 }",
             "samples are 784 values (1x28x28), the model takes 3072 (3x32x32)");
}

FED_TEST_WITH(a_model_that_takes_too_much_memory_is_declined, clientd_world *w) {
    declines(w, "{ \"model\": \"input 784 | dense 1100\", \"rounds\": 3, \"cohort\": 1 }",
             "its model of 863500 values takes 10.4 MB of memory, and this device gives a task "
             "10.0 MB");
}

/* Some point of P-256, as a helper's key is one. */
#define KEY                                                                                        \
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"                           \
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
static const char other[] = "047cf27b188d034f7e8a52380304b51ac3c08969e277f21b35a60b48fc47669978"
                            "07775510db8ed040293d9ac69f7430dbba7dade63ce982299e04b79d227873d1";

/* Run a device that knows the helper `key`, and wants what the rest says. */
static pid_t spawn_private(const clientd_world *w, const char *key, const char *option,
                           const char *value) {
    static char path[400];
    snprintf(path, sizeof path, "%s/helper.pem", w->directory);
    fed_test_put(w->directory, "helper.pem", key, strlen(key));
    const char *const args[] = {"--token", w->token, "--hold", "0", "--helper",
                                path,      option,   value,    NULL};
    return clientd_spawn(w, args);
}

static void declines_as_private(clientd_world *w, const char *json, const char *key,
                                const char *option, const char *reason) {
    clientd_queue(w, json);
    pid_t pid = spawn_private(w, key, option, NULL);
    clientd_wait_for(w, pid, "declines task 1");
    clientd_wait_for(w, pid, reason);
    clientd_end(pid, SIGTERM);
}

static const char few[] = "{ \"model\": \"lr\", \"rounds\": 1, \"cohort\": 3, \"minimum\": 3,"
                          " \"codec_up\": \"ring:b=5\", \"clip\": 1, \"helper\": \"" KEY "\" }";

FED_TEST_WITH(a_device_with_a_helper_declines_a_task_without_one, clientd_world *w) {
    declines_as_private(w, "{ \"model\": \"lr\", \"rounds\": 1, \"cohort\": 1 }", KEY, NULL,
                        "no helper opens its sums");
}

FED_TEST_WITH(a_device_declines_a_task_of_another_helper, clientd_world *w) {
    declines_as_private(w, few, other, NULL, "its helper is not the one that this device knows");
}

FED_TEST_WITH(a_private_device_wants_rounds_of_twenty, clientd_world *w) {
    declines_as_private(w, few, KEY, "--private",
                        "its rounds commit with 3 devices; this device wants 20 at least");
}

FED_TEST_WITH(a_device_trains_with_the_helper_that_it_knows, clientd_world *w) {
    clientd_queue(w, few);
    pid_t pid = spawn_private(w, KEY, "--least-devices", "3");
    clientd_wait_for(w, pid, "round 1: update counted");
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(a_file_without_a_helpers_key_is_named, clientd_world *w) {
    const char *const args[] = {"--token", w->token, "--helper", w->ca, NULL};
    clientd_run(w, args, 1, "ca.pem has no helper's key: its 130 hex digits");
}

FED_TEST_WITH(a_batch_that_takes_too_much_memory_is_declined, clientd_world *w) {
    declines(w,
             "{ \"model\": \"input 784 | dense 10\", \"rounds\": 3, \"cohort\": 1,"
             " \"batch\": 4000 }",
             "a batch of 4000 samples takes up to 12.7 MB of memory, and this device gives a task "
             "10.0 MB");
}

FED_TEST_WITH(a_model_of_too_few_classes_is_declined, clientd_world *w) {
    declines(w, "{ \"model\": \"input 784 | dense 3\", \"rounds\": 3, \"cohort\": 1 }",
             "labels up to 9, the model knows 3 classes");
}

FED_TEST_WITH(a_training_that_diverges_is_tried_again, clientd_world *w) {
    clientd_queue(w, "{ \"model\": \"input 784 | dense 9 | dense 9 | dense 10\",\n"
                     "  \"learning_rate\": 1e25, \"rounds\": 3, \"cohort\": 1 }");
    const char *const args[] = {"--token", w->token, NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "training may diverge");
    clientd_wait_for(w, pid, "(failure 1 of 4 before it declines the task)");
    clientd_wait_for(w, pid, "(failure 2 of 4 before it declines the task)");
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(a_late_device_says_so_and_goes_on, clientd_world *w) {
    clientd_queue(w, "{ \"model\": \"lr\", \"local_steps\": 1000000, \"deadline_s\": 0.5,\n"
                     "  \"rounds\": 3, \"cohort\": 1 }");
    const char *const args[] = {"--token", w->token, NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "the deadline of round 1 has passed");
    clientd_wait_for(w, pid, "round 1: this device was late");
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(who_came_too_late_for_a_task_ends_with_it, clientd_world *w) {
    char token[FEDSERVER_TOKEN];
    train_to_the_end(w, "sgd");
    fed_test_rmdir(w->state);
    fed_coordinator_token(&w->coordinator, token);
    const char *const args[] = {"--token", token, "--until-finished", NULL};
    clientd_run(w, args, 0, "the coordinator has no more tasks: this device ends");
}

/** Revoke the device whose enrolment is in the log. */
static void revoke(const clientd_world *w) {
    fedserver *server = NULL;
    fedserver_entry entry;
    fed_error err = {0};
    char *log = NULL, digits[17];
    size_t len = 0;
    assert_fed_ok_err(fed_file_read_text(w->log, 1 << 20, &log, &len, &err));
    const char *name = strstr(log, "enrolled as device ");
    assert_non_null(name);
    snprintf(digits, sizeof digits, "%s", name + strlen("enrolled as device "));
    free(log);
    assert_fed_ok_err(fedserver_open(w->coordinator.directory, NULL, &server, &err));
    assert_fed_ok_err(fedserver_device_revoke(server, fed_clock_unix_ms(), digits, &entry, &err));
    fedserver_close(server);
}

FED_TEST_WITH(a_new_token_enrols_a_device_again_in_its_folder, clientd_world *w) {
    char second[FEDSERVER_TOKEN], third[FEDSERVER_TOKEN];
    train_to_the_end(w, "momentum");
    revoke(w);
    queue_task(w, "momentum");
    const char *const used[] = {"--token", w->token, "--until-finished", NULL};
    clientd_run(w, used, 1, "this token has enrolled a device already");
    assert_true(clientd_says(w, "(device_revoked): this device enrols again, with its token"));
    fed_coordinator_token(&w->coordinator, second);
    const char *const again[] = {"--token", second, "--until-finished", NULL};
    clientd_run(w, again, 0, "round 3: update counted");
    assert_true(holds_an_optimizer(w));
    fed_coordinator_token_for(&w->coordinator, FEDSERVER_ROLE_EVALUATOR, third);
    const char *const judge[] = {"--token", third, "--evaluate", NULL};
    const pid_t pid = clientd_spawn(w, judge);
    clientd_wait_for(w, pid, "accuracy");
    assert_true(clientd_says(w, "(role): this device enrols again, with its token"));
    clientd_end(pid, SIGINT);
}

FED_TEST_WITH(it_trains_only_when_it_may, clientd_world *w) {
    char when[400], path[320];
    queue_task(w, "sgd");
    snprintf(path, sizeof path, "%s/go", w->directory);
    snprintf(when, sizeof when, "file:%s", path);
    const char *const args[] = {"--token", w->token, "--until-finished", "--when", when, NULL};
    pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "/go is not there: this device pauses");
    clientd_end(pid, SIGTERM);
    uint32_t leased = 1;
    uint64_t declines = 0;
    fed_coordinator_look(&w->coordinator, &leased, &declines);
    assert_int_equal(leased, 0);
    fed_error err = {0};
    assert_fed_ok_err(fed_file_replace(path, "", 0, 0600, &err));
    clientd_run(w, args, 0, "round 3: update counted");
}

FED_TEST_WITH(a_token_and_a_ca_may_come_from_files_that_windows_saved, clientd_world *w) {
    char text[8000], token[320], ca[320];
    queue_task(w, "sgd");
    snprintf(token, sizeof token, "%s/token", w->directory);
    snprintf(ca, sizeof ca, "%s/ca", w->directory);
    snprintf(text, sizeof text, "\xef\xbb\xbf%s \r\n", w->token);
    fed_test_put(w->directory, "token", text, strlen(text));
    snprintf(text, sizeof text, "\xef\xbb\xbf%s", w->coordinator.ca);
    fed_test_put(w->directory, "ca", text, strlen(text));
    const char *const args[] = {"--token-file", token, "--ca", ca, "--until-finished", NULL};
    clientd_run(w, args, 0, "finished");
}

/** The test's own requests use up this address's budget, so fedclientd is refused at first. */
FED_TEST_WITH(a_coordinator_without_time_is_asked_again, clientd_world *w) {
    fed_pem ca;
    fed_coordinator_stop(&w->coordinator);
    w->coordinator.requests_per_s = 1;
    fed_coordinator_start(&w->coordinator);
    snprintf(ca.text, sizeof ca.text, "%s", w->coordinator.ca);
    CURL *curl = fed_curl_new(&ca, NULL, w->coordinator.front, "/v1/status");
    pid_t pid = 0;
    while (pid == 0 ||
           !(clientd_says(w, "this device tries again") || clientd_says(w, "enrolled as device"))) {
        fed_reply reply = fed_curl_ask(curl);
        if (reply.status == 429 && pid == 0) {
            const char *const args[] = {"--token", w->token, NULL};
            pid = clientd_spawn(w, args);
        }
        fed_reply_free(&reply);
    }
    curl_easy_cleanup(curl);
    clientd_wait_for(w, pid, "enrolled as device");
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(wrong_usage_is_told, clientd_world *w) {
    static const struct {
        const char *args[4], *text;
    } cases[] = {{{"--shard", "2/2"}, "--shard is K/N"},
                 {{"--shard", "x"}, "--shard is K/N"},
                 {{"--split", "odd"}, "write iid, classes:k=2"},
                 {{"--hold", "-1"}, "--hold takes"},
                 {{"--slots", "0"}, "--slots takes 1 to 8 tasks, not 0"},
                 {{"--slots", "9"}, "--slots takes 1 to 8 tasks, not 9"},
                 {{"--memory", "0"}, "--memory is a whole number from 1"},
                 {{"--most-epsilon", "0"}, "--most-epsilon takes a number above 0"},
                 {{"--transport", "pigeon"}, "this build has no transport \"pigeon\""},
                 {{"--downloads-ca"}, "--downloads-ca"},
                 {{"--no-caches", "--downloads-ca", "x"}, "contradict each other"},
                 {{"--when", "sunny"}, "write charging, unmetered, idle"},
                 {{"--backend", "fast", "--device", "gpu"}, "give only one of them"},
                 {{"--nonsense"}, "--help tells more"},
                 {{"stray"}, "\"stray\" is not an option"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *args[5] = {NULL};
        memcpy(args, cases[k].args, sizeof cases[k].args);
        clientd_run(w, args, 2, cases[k].text);
    }
    const char *const help[] = {"--help", NULL};
    clientd_run(w, help, 0, "Usage: fedclientd");
}

FED_TEST_WITH(what_a_person_has_to_do_is_told, clientd_world *w) {
    char wide[320];
    snprintf(wide, sizeof wide, "%s/wide", w->directory);
    fed_test_put(w->directory, "wide", "t\0o\0k\0e\0n\0", 10);
    const struct {
        const char *args[5], *text;
    } cases[] = {{{NULL}, "make a token"},
                 {{"--token", "wrong"}, "token_unknown"},
                 {{"--token-file", wide}, "save it as UTF-8"},
                 {{"--token", "t", "--ca", wide}, "save it as UTF-8"},
                 {{"--token", "t", "--ca", "/nowhere/ca.pem"}, "/nowhere/ca.pem"},
                 {{"--token", "t", "--downloads-ca", "/nowhere/cdn.pem"}, "/nowhere/cdn.pem"},
                 {{"--token", "t", "--downloads-ca", w->log}, "signed the cache's"},
                 {{"--token", "t", "--data", "/nowhere"}, "/nowhere"},
                 {{"--token", "t", "--server", "127.0.0.1:1"}, "write https://HOST:PORT"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *args[5] = {NULL};
        memcpy(args, cases[k].args, sizeof args);
        clientd_run(w, args, 1, cases[k].text);
    }
}

static void goes_on_saying(clientd_world *w, const char *server, const char *text) {
    const char *const args[] = {"--token", w->token, "--server", server, NULL};
    const pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, text);
    assert_true(clientd_says(w, "this device tries again in 0.5 s to enrol: "));
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(an_address_where_nobody_listens_is_asked_again, clientd_world *w) {
    goes_on_saying(w, "https://127.0.0.1:1", "127.0.0.1:1");
}

FED_TEST_WITH(a_device_enrols_once_the_coordinator_is_up, clientd_world *w) {
    const char *const args[] = {"--token", w->token, NULL};
    fed_coordinator_stop(&w->coordinator);
    const pid_t pid = clientd_spawn(w, args);
    clientd_wait_for(w, pid, "this device tries again in 1.0 s");
    fed_coordinator_start(&w->coordinator);
    clientd_wait_for(w, pid, "enrolled as device");
    clientd_end(pid, SIGTERM);
}

FED_TEST_WITH(the_port_of_enrolled_devices_is_told_from_the_front, clientd_world *w) {
    char url[64];
    snprintf(url, sizeof url, "https://127.0.0.1:%u", w->coordinator.devices);
    goes_on_saying(w, url, "this may be the port of enrolled devices");
}

static pid_t serve_plainly(uint16_t *port, const char *answer) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(door, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    pid_t pid = fork();
    if (pid == 0) {
        char request[2048];
        (void)alarm(300);
        int line = accept(door, NULL, NULL);
        bool came = read(line, request, sizeof request) > 0;
        _exit(came && write(line, answer, strlen(answer)) > 0 ? 0 : 1);
    }
    close(door);
    return pid;
}

FED_TEST_WITH(plain_http_is_told_from_a_coordinator, clientd_world *w) {
    uint16_t port = 0;
    char url[64];
    pid_t server = serve_plainly(&port, "HTTP/1.0 400 Bad Request\r\n\r\n");
    snprintf(url, sizeof url, "https://127.0.0.1:%u", port);
    goes_on_saying(w, url, "does not speak TLS: is it another program, or a port of plain HTTP?");
    assert_int_equal(clientd_wait(server), 0);
}

FED_TEST_WITH(a_proxy_that_refuses_is_told_from_a_coordinator, clientd_world *w) {
    static const char *const answers[][2] = {
        {"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
         "has refused to connect, with status 407: give it its user and password"},
        {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
         "has refused to connect, with status 403: ask its operator"},
        {"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
         "has refused to connect, with status 503: it can't reach that host and port now"}};
    (void)unsetenv("no_proxy");
    (void)unsetenv("NO_PROXY");
    for (size_t k = 0; k < sizeof answers / sizeof answers[0]; k++) {
        uint16_t port = 0;
        char proxy[64];
        const pid_t server = serve_plainly(&port, answers[k][0]);
        snprintf(proxy, sizeof proxy, "http://127.0.0.1:%u", port);
        (void)setenv("https_proxy", proxy, 1);
        goes_on_saying(w, "https://127.0.0.1:8443", answers[k][1]);
        (void)unsetenv("https_proxy");
        assert_int_equal(clientd_wait(server), 0);
    }
}

int main(void) {
    return fed_cases_run_each(clientd_setup, clientd_teardown);
}
