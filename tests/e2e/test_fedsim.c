/* The whole house at once: a coordinator process and real HTTPS clients, killed and started again.
 */
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/checkpoint.h"
#include "fed/hash.h"
#include "fed_digits.h"
#include "fed_test.h"

typedef struct world {
    char directory[256], data[300], task[300], coordinator[300], result[300];
} world;

static const char task_json[] =
    "{ \"name\": \"restart\", \"model\": \"lr\", \"codec_up\": \"sbc:p=0.05\",\n"
    "  \"codec_down\": \"3lc:s=1.5\", \"local_steps\": 10, \"batch\": 4,\n"
    "  \"optimizer\": \"sgd\", \"learning_rate\": 0.1, \"rounds\": 3,\n"
    "  \"cohort\": 20, \"goal\": 18, \"minimum\": 5, \"deadline_s\": 30 }\n";

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->task, sizeof w->task, "%s/task.json", w->directory);
    snprintf(w->coordinator, sizeof w->coordinator, "%s/coordinator", w->directory);
    snprintf(w->result, sizeof w->result, "%s/result.json", w->directory);
    fed_digits_write(w->directory, 2000, 500);
    FILE *file = fopen(w->task, "w");
    assert_non_null(file);
    fputs(task_json, file);
    assert_int_equal(fclose(file), 0);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

/** Run fedsim with these arguments behind the common ones; its exit status. */
static int run_fedsim(const world *w, const char *const *more) {
    const char *args[32] = {
        FED_BIN_DIR "/fedsim", "--task",   w->task,  "--data", w->directory, "--dir",
        w->coordinator,        "--result", w->result};
    size_t n = 9;
    while (*more != NULL) {
        args[n++] = *more++;
    }
    pid_t pid = fork();
    if (pid == 0) {
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

/** The digest of the model that `fedserver export` writes. */
static void export_digest(const world *w, char *hex, size_t cap) {
    char command[1200], path[400];
    snprintf(path, sizeof path, "%s/out.safetensors", w->directory);
    snprintf(command, sizeof command, "'%s/fedserver' export --dir '%s' '%s'", FED_BIN_DIR,
             w->coordinator, path);
    assert_int_equal(system(command), 0);
    fed_model model = {0};
    fed_error err = {0};
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    snprintf(hex, cap, "%016llx", (unsigned long long)fed_digest(model.values, model.layout.size));
    fed_model_free(&model);
}

static json_t *read_result(const world *w) {
    json_t *result = json_load_file(w->result, 0, NULL);
    assert_non_null(result);
    return result;
}

static void model_is_bit_identical_after_the_coordinator_was_killed_in_round_2(void **state) {
    const world *w = *state;
    const char *more[] = {"--clients", "20",       "--kill-round", "2", "--offline",
                          "0.1",       "--broken", "0.2",          NULL};
    assert_int_equal(run_fedsim(w, more), 0);
    json_t *result = read_result(w);
    assert_int_equal(json_integer_value(json_object_get(result, "rounds")), 3);
    json_int_t present = json_integer_value(json_object_get(result, "clients_present"));
    assert_true(present >= 18); /* over three rounds two could be late each time */
    assert_int_equal(json_integer_value(json_object_get(result, "clients_identical")), present);
    assert_int_equal(json_integer_value(json_object_get(result, "coordinator_kills")), 1);
    assert_true(json_integer_value(json_object_get(result, "updates_counted")) >= 3 * 18);
    char hex[17];
    export_digest(w, hex, sizeof hex);
    assert_string_equal(json_string_value(json_object_get(result, "model_digest")), hex);
    json_decref(result);
}

static void clients_learn_the_made_up_digits(void **state) {
    const world *w = *state;
    const char *more[] = {"--clients", "20", "--split", "two-class", NULL};
    assert_int_equal(run_fedsim(w, more), 0);
    json_t *result = read_result(w);
    assert_true(json_real_value(json_object_get(result, "test_accuracy")) > 0.5);
    assert_true(json_real_value(json_object_get(result, "uplink_compression")) > 10);
    json_decref(result);
}

static void asynchronous_rounds_of_more_clients_than_places_outlive_a_kill(void **state) {
    const world *w = *state;
    static const char task[] =
        "{ \"name\": \"async\", \"model\": \"lr\", \"codec_up\": \"sbc:p=0.05\",\n"
        "  \"codec_down\": \"3lc:s=1.5\", \"local_steps\": 10, \"batch\": 4,\n"
        "  \"learning_rate\": 0.1, \"rounds\": 8, \"cohort\": 6, \"goal\": 5,\n"
        "  \"deadline_s\": 20, \"staleness\": 4, \"selection\": \"weighted\" }\n";
    fed_test_put(w->directory, "task.json", task, sizeof task - 1);
    const char *more[] = {"--clients", "15", "--kill-round", "3", "--broken", "0.2", NULL};
    assert_int_equal(run_fedsim(w, more), 0);
    json_t *result = read_result(w);
    assert_int_equal(json_integer_value(json_object_get(result, "rounds")), 8);
    assert_int_equal(json_integer_value(json_object_get(result, "updates_counted")), 8 * 5);
    assert_int_equal(json_integer_value(json_object_get(result, "coordinator_kills")), 1);
    json_int_t present = json_integer_value(json_object_get(result, "clients_present"));
    assert_true(present > 6);
    assert_int_equal(json_integer_value(json_object_get(result, "clients_identical")), present);
    assert_true(json_real_value(json_object_get(result, "test_accuracy")) > 0.5);
    json_decref(result);
}

/* Rows whose largest number says their class, a little blurred. */
static void write_table(const world *w, const char *name, int rows) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", w->directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("a,b,c,kind\n", file);
    for (int i = 0; i < rows; i++) {
        int kind = i % 3, blur = i * 7 % 10;
        fprintf(file, "%d.%d,%d.%d,%d.%d,%d\n", kind == 0, blur, kind == 1, 9 - blur, kind == 2,
                (blur + 5) % 10, kind);
    }
    assert_int_equal(fclose(file), 0);
}

static void
a_table_an_uneven_split_and_an_optimizer_with_parts_go_through_the_whole_house(void **state) {
    const world *w = *state;
    static const char task[] =
        "{ \"name\": \"table\", \"model\": \"input 3 | dense 8 | relu | dense 3\",\n"
        "  \"codec_up\": \"float32\", \"codec_down\": \"float32\", \"local_steps\": 20, \"batch\": "
        "8,\n"
        "  \"optimizer\": \"momentum:m=0.8+clip:norm=1+warmup:steps=5\", \"learning_rate\": 0.1,\n"
        "  \"rounds\": 6, \"cohort\": 10, \"goal\": 10, \"minimum\": 5, \"deadline_s\": 30 }\n";
    fed_test_put(w->directory, "task.json", task, sizeof task - 1);
    write_table(w, "train.csv", 600);
    write_table(w, "test.csv", 90);
    const char *more[] = {"--clients",         "10", "--dataset", "csv:label=kind", "--split",
                          "dirichlet:alpha=1", NULL};
    assert_int_equal(run_fedsim(w, more), 0);
    json_t *result = read_result(w);
    assert_true(json_real_value(json_object_get(result, "test_accuracy")) > 0.8);
    json_decref(result);
}

static double accuracy_of_run(const world *w, const char *task, const char *const *more) {
    fed_test_put(w->directory, "task.json", task, strlen(task));
    assert_int_equal(run_fedsim(w, more), 0);
    json_t *result = read_result(w);
    assert_int_equal(json_integer_value(json_object_get(result, "clients_identical")),
                     json_integer_value(json_object_get(result, "clients_present")));
    double accuracy = json_real_value(json_object_get(result, "test_accuracy"));
    json_decref(result);
    return accuracy;
}

static void a_language_model_learns_from_devices_that_each_hold_lines_of_a_text(void **state) {
    const world *w = *state;
    static const char line[] = "federated learning keeps the data where it is\n";
    static const char task[] =
        "{ \"model\": \"input tokens 16 of 19 | embedding 8 | lstm 24 | dense 19 each\",\n"
        "  \"codec_up\": \"float32\", \"codec_down\": \"float32\", \"local_steps\": 20, \"batch\": "
        "4,\n"
        "  \"optimizer\": \"adam:lr=0.02\", \"rounds\": 4, \"cohort\": 4, \"deadline_s\": 30 }\n";
    char text[40 * sizeof line];
    size_t len = 0;
    for (int k = 0; k < 40; k++, len += sizeof line - 1) {
        memcpy(text + len, line, sizeof line - 1);
    }
    fed_test_put(w->directory, "train.txt", text, len);
    fed_test_put(w->directory, "test.txt", text, len / 4);
    const char *more[] = {"--clients", "4", "--dataset", "chars", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.7);
}

/* Running statistics go the same way as weights, but whole: a lossy codec would spoil them. */
static void a_net_with_batch_normalization_is_as_good_at_the_coordinator(void **state) {
    const world *w = *state;
    static const char task[] =
        "{ \"model\": \"input 1x28x28 | conv 4 5 stride 3 nobias | bn | relu | dense 10\",\n"
        "  \"codec_up\": \"sbc:p=0.2\", \"codec_down\": \"3lc:s=1\", \"local_steps\": 10, "
        "\"batch\": 8,\n"
        "  \"optimizer\": \"sgd:lr=0.1\", \"rounds\": 5, \"cohort\": 10, \"deadline_s\": 30 }\n";
    const char *more[] = {"--clients", "10", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.5);
}

/* FedProx on the devices, FedAdam at the coordinator. */
static void clients_with_a_proximal_term_and_an_adaptive_server_learn_together(void **state) {
    const world *w = *state;
    static const char task[] =
        "{ \"model\": \"lr\", \"codec_up\": \"sbc:p=0.1\", \"local_steps\": 10, \"batch\": 4,\n"
        "  \"optimizer\": \"sgd:lr=0.1+prox:mu=0.1\", \"strategy\": \"fedadam:lr=0.03\",\n"
        "  \"rounds\": 5, \"cohort\": 10, \"deadline_s\": 30 }\n";
    const char *more[] = {"--clients", "10", "--split", "two-class", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.5);
}

/* SCAFFOLD: the control variate travels in the model, past codecs that would spoil it. */
static void clients_with_control_variates_learn_from_uneven_data(void **state) {
    const world *w = *state;
    static const char task[] =
        "{ \"model\": \"input 1x28x28 | dense 10 | scaffold\", \"codec_up\": \"sbc:p=0.1\",\n"
        "  \"optimizer\": \"sgd:lr=0.1+scaffold\", \"local_steps\": 10, \"batch\": 4,\n"
        "  \"rounds\": 5, \"cohort\": 10, \"deadline_s\": 30 }\n";
    const char *more[] = {"--clients", "10", "--split", "two-class", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.5);
}

static double accuracy_among_hostile_clients(const world *w, const char *strategy) {
    char task[512];
    snprintf(task, sizeof task,
             "{ \"model\": \"lr\", \"codec_up\": \"float32\", \"codec_down\": \"float32\",\n"
             "  \"optimizer\": \"sgd:lr=0.1\", \"strategy\": \"%s\", \"local_steps\": 10,\n"
             "  \"rounds\": 4, \"cohort\": 10, \"deadline_s\": 30 }\n",
             strategy);
    const char *more[] = {"--clients", "10", "--hostile", "0.3", NULL};
    return accuracy_of_run(w, task, more);
}

static void noise_from_hostile_clients_spoils_the_mean(void **state) {
    assert_true(accuracy_among_hostile_clients(*state, "fedavg") < 0.5);
}

static void noise_from_hostile_clients_does_not_reach_the_median(void **state) {
    assert_true(accuracy_among_hostile_clients(*state, "median") > 0.9);
}

static void an_unreachable_goal_is_refused_before_anything_runs(void **state) {
    const world *w = *state;
    const char *more[] = {"--clients", "10", NULL};
    assert_int_equal(run_fedsim(w, more), 1);
    assert_int_not_equal(access(w->result, F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            model_is_bit_identical_after_the_coordinator_was_killed_in_round_2, setup, teardown),
        cmocka_unit_test_setup_teardown(
            asynchronous_rounds_of_more_clients_than_places_outlive_a_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(clients_learn_the_made_up_digits, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_table_an_uneven_split_and_an_optimizer_with_parts_go_through_the_whole_house, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            a_language_model_learns_from_devices_that_each_hold_lines_of_a_text, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_net_with_batch_normalization_is_as_good_at_the_coordinator, setup, teardown),
        cmocka_unit_test_setup_teardown(
            clients_with_a_proximal_term_and_an_adaptive_server_learn_together, setup, teardown),
        cmocka_unit_test_setup_teardown(clients_with_control_variates_learn_from_uneven_data, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(noise_from_hostile_clients_spoils_the_mean, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(noise_from_hostile_clients_does_not_reach_the_median, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_unreachable_goal_is_refused_before_anything_runs, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
