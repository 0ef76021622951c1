/* The program fedsim, over real HTTPS or in virtual time. Runs are killed and continued. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fed/checkpoint.h"
#include "fed/hash.h"
#include "fed_digits.h"
#include "fed_test.h"
#include "fed_test_gpu.h"

typedef struct world {
    char directory[256], scenario[300], out[300], coordinator[320], result[320];
} world;

static const char restart[] = "name = restart\n"
                              "model = lr\n"
                              "codec_up = sbc:p=0.05\n"
                              "codec_down = 3lc:s=1.5\n"
                              "local_steps = 10\n"
                              "batch = 4\n"
                              "optimizer = sgd\n"
                              "learning_rate = 0.1\n"
                              "rounds = 3\n"
                              "cohort = 20\n"
                              "goal = 18\n"
                              "minimum = 5\n"
                              "deadline_s = 30\n";

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->scenario, sizeof w->scenario, "%s/scenario.txt", w->directory);
    snprintf(w->out, sizeof w->out, "%s/out", w->directory);
    snprintf(w->coordinator, sizeof w->coordinator, "%s/coordinator", w->out);
    snprintf(w->result, sizeof w->result, "%s/summary.json", w->out);
    fed_digits_write(w->directory, 2000, 500);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_test_rmdir(w->directory);
    free(w);
    return 0;
}

/** more: further keys and options, and NULL. By default clients use real connections. */
static pid_t start_fedsim(const world *w, const char *scenario, const char *const *more) {
    char data[300];
    snprintf(data, sizeof data, "data=%s", w->directory);
    const char *args[32] = {FED_BIN_DIR "/fedsim", "run",   w->scenario, data,
                            "transport=https",     "--out", w->out};
    size_t n = 7;
    fed_test_put(w->directory, "scenario.txt", scenario, strlen(scenario));
    while (*more != NULL) {
        args[n++] = *more++;
    }
    pid_t pid = fork();
    if (pid == 0) {
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    return pid;
}

static int end_of(pid_t pid) {
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static int run_fedsim(const world *w, const char *scenario, const char *const *more) {
    return end_of(start_fedsim(w, scenario, more));
}

static void model_digest(const char *path, char hex[17]) {
    fed_model model = {0};
    fed_error err = {0};
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    snprintf(hex, 17, "%016llx", (unsigned long long)fed_digest(model.values, model.layout.size));
    fed_model_free(&model);
}

static void export_digest(const world *w, char hex[17]) {
    char command[1200], path[400];
    snprintf(path, sizeof path, "%s/out.safetensors", w->directory);
    snprintf(command, sizeof command, "'%s/fedserver' export --dir '%s' '%s'", FED_BIN_DIR,
             w->coordinator, path);
    assert_int_equal(system(command), 0);
    model_digest(path, hex);
}

static json_t *read_result(const world *w) {
    json_t *result = json_load_file(w->result, 0, NULL);
    assert_non_null(result);
    return result;
}

static json_int_t integer(const json_t *result, const char *key) {
    return json_integer_value(json_object_get(result, key));
}

static double real(const json_t *result, const char *key) {
    return json_real_value(json_object_get(result, key));
}

static void model_is_bit_identical_after_the_coordinator_was_killed_in_round_2(void **state) {
    const world *w = *state;
    const char *more[] = {"clients=20", "kill_round=2", "offline=0.1", "broken=0.2", NULL};
    assert_int_equal(run_fedsim(w, restart, more), 0);
    json_t *result = read_result(w);
    assert_int_equal(integer(result, "rounds"), 3);
    json_int_t present = integer(result, "clients_present");
    assert_true(present >= 18);
    assert_int_equal(integer(result, "clients_identical"), present);
    assert_int_equal(integer(result, "coordinator_kills"), 1);
    assert_true(integer(result, "updates_counted") >= 3 * 18);
    char hex[17];
    export_digest(w, hex);
    assert_string_equal(json_string_value(json_object_get(result, "model_digest")), hex);
    json_decref(result);
}

static void clients_learn_the_made_up_digits(void **state) {
    const world *w = *state;
    const char *more[] = {"clients=20", "split=two-class", NULL};
    assert_int_equal(run_fedsim(w, restart, more), 0);
    json_t *result = read_result(w);
    assert_true(real(result, "test_accuracy") > 0.5);
    assert_true(real(result, "uplink_compression") > 10);
    json_decref(result);
}

static void asynchronous_rounds_of_more_clients_than_places_outlive_a_kill(void **state) {
    const world *w = *state;
    static const char task[] = "name = async\n"
                               "model = lr\n"
                               "codec_up = sbc:p=0.05\n"
                               "codec_down = 3lc:s=1.5\n"
                               "local_steps = 10\n"
                               "batch = 4\n"
                               "learning_rate = 0.1\n"
                               "rounds = 8\n"
                               "cohort = 6\n"
                               "goal = 5\n"
                               "deadline_s = 20\n"
                               "staleness = 4\n"
                               "selection = weighted\n";
    const char *more[] = {"clients=15", "kill_round=3", "broken=0.2", NULL};
    assert_int_equal(run_fedsim(w, task, more), 0);
    json_t *result = read_result(w);
    assert_int_equal(integer(result, "rounds"), 8);
    assert_int_equal(integer(result, "updates_counted"), 8 * 5);
    assert_int_equal(integer(result, "coordinator_kills"), 1);
    json_int_t present = integer(result, "clients_present");
    assert_true(present > 6);
    assert_int_equal(integer(result, "clients_identical"), present);
    assert_true(real(result, "test_accuracy") > 0.5);
    json_decref(result);
}

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
    static const char task[] = "name = table\n"
                               "model = input 3 | dense 8 | relu | dense 3\n"
                               "codec_up = float32\n"
                               "codec_down = float32\n"
                               "local_steps = 20\n"
                               "batch = 8\n"
                               "optimizer = momentum:m=0.8+clip:norm=1+warmup:steps=5\n"
                               "learning_rate = 0.1\n"
                               "rounds = 6\n"
                               "cohort = 10\n"
                               "goal = 10\n"
                               "minimum = 5\n"
                               "deadline_s = 30\n";
    write_table(w, "train.csv", 600);
    write_table(w, "test.csv", 90);
    const char *more[] = {"clients=10", "dataset=csv:label=kind", "split=dirichlet:alpha=1", NULL};
    assert_int_equal(run_fedsim(w, task, more), 0);
    json_t *result = read_result(w);
    assert_true(real(result, "test_accuracy") > 0.8);
    json_decref(result);
}

static double accuracy_of_run(const world *w, const char *task, const char *const *more) {
    assert_int_equal(run_fedsim(w, task, more), 0);
    json_t *result = read_result(w);
    assert_int_equal(integer(result, "clients_identical"), integer(result, "clients_present"));
    double accuracy = real(result, "test_accuracy");
    json_decref(result);
    return accuracy;
}

static void a_language_model_learns_from_devices_that_each_hold_lines_of_a_text(void **state) {
    const world *w = *state;
    static const char line[] = "federated learning keeps the data where it is\n";
    static const char task[] =
        "model = input tokens 16 of 19 | embedding 8 | lstm 24 | dense 19 each\n"
        "codec_up = float32\n"
        "codec_down = float32\n"
        "local_steps = 20\n"
        "batch = 4\n"
        "optimizer = adam:lr=0.02\n"
        "rounds = 4\n"
        "cohort = 4\n"
        "deadline_s = 30\n";
    char text[40 * sizeof line];
    size_t len = 0;
    for (int k = 0; k < 40; k++, len += sizeof line - 1) {
        memcpy(text + len, line, sizeof line - 1);
    }
    fed_test_put(w->directory, "train.txt", text, len);
    fed_test_put(w->directory, "test.txt", text, len / 4);
    const char *more[] = {"clients=4", "dataset=chars", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.7);
}

static void a_net_with_batch_normalization_is_as_good_at_the_coordinator(void **state) {
    const world *w = *state;
    static const char task[] =
        "model = input 1x28x28 | conv 4 5 stride 3 nobias | bn | relu | dense 10\n"
        "codec_up = sbc:p=0.2\n"
        "codec_down = 3lc:s=1\n"
        "local_steps = 10\n"
        "batch = 8\n"
        "optimizer = sgd:lr=0.1\n"
        "rounds = 5\n"
        "cohort = 10\n"
        "deadline_s = 30\n";
    const char *more[] = {"clients=10", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.5);
}

static void clients_with_a_proximal_term_and_an_adaptive_server_learn_together(void **state) {
    const world *w = *state;
    static const char task[] = "model = lr\n"
                               "codec_up = sbc:p=0.1\n"
                               "local_steps = 10\n"
                               "batch = 4\n"
                               "optimizer = sgd:lr=0.1+prox:mu=0.1\n"
                               "strategy = fedadam:lr=0.03\n"
                               "rounds = 5\n"
                               "cohort = 10\n"
                               "deadline_s = 30\n";
    const char *more[] = {"clients=10", "split=two-class", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.5);
}

static void private_rounds_outlive_a_kill_of_the_coordinator(void **state) {
    const world *w = *state;
    static const char task[] = "model = lr\n"
                               "codec_up = ring:b=5\n"
                               "clip = 3\n"
                               "local_steps = 10\n"
                               "batch = 4\n"
                               "learning_rate = 0.1\n"
                               "rounds = 5\n"
                               "cohort = 10\n"
                               "deadline_s = 30\n";
    const char *more[] = {"clients=10", "kill_round=2", "broken=0.2", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.5);
    json_t *result = read_result(w);
    assert_int_equal(integer(result, "coordinator_kills"), 1);
    assert_int_equal(integer(result, "clients_identical"), integer(result, "clients_present"));
    json_decref(result);
}

/* The final model of a run whose updates are 0. */
static fed_model model_of(const world *w, const char *const *more) {
    static const char task[] = "model = lr\n"
                               "codec_up = ring:b=5\n"
                               "codec_down = float32\n"
                               "clip = 3\n"
                               "local_steps = 1\n"
                               "learning_rate = 1e-30\n"
                               "clients = 10\n"
                               "rounds = 1\n";
    char path[400];
    fed_model model = {0};
    fed_error err = {0};
    assert_int_equal(run_fedsim(w, task, more), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", w->out);
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    fed_test_rmdir(w->out);
    return model;
}

/* The variance of what a run adds to a model without noise. NULL: that key is left out. */
static double variance_of(const world *w, const fed_model *plain, const char *transport,
                          const char *helper, const char *noise) {
    const char *more[] = {transport, "epsilon=8", "delta=1e-5", "participations=1",
                          helper,    noise,       NULL};
    fed_model loud = model_of(w, more);
    double sum = 0;
    assert_int_equal(loud.layout.size, plain->layout.size);
    for (size_t i = 0; i < loud.layout.size; i++) {
        const double added = (double)loud.values[i] - (double)plain->values[i];
        sum += added * added;
    }
    fed_model_free(&loud);
    return sum / (double)plain->layout.size;
}

static void noise_is_added_by_whom_its_key_says_on_both_transports(void **state) {
    const world *w = *state;
    const char *silent[] = {"transport=inproc", NULL};
    fed_model plain = model_of(w, silent);
    const char *transports[] = {"transport=inproc", "transport=https"};
    const double alone = variance_of(w, &plain, transports[0], "helper=0", "noise=coordinator");
    assert_true(alone > 0);
    for (int k = 0; k < 2; k++) {
        const double helped = variance_of(w, &plain, transports[k], "helper=1", "noise=helper");
        const double both = variance_of(w, &plain, transports[k], "helper=1", "noise=both");
        assert_true(helped > 0.85 * alone && helped < 1.15 * alone); /* 0.016 is a deviation */
        assert_true(both > 1.7 * alone && both < 2.3 * alone);
    }
    fed_model_free(&plain);
}

/* Control variates are parameters of the model, and are sent as float32. */
static void clients_with_control_variates_learn_from_uneven_data(void **state) {
    const world *w = *state;
    static const char task[] = "model = input 1x28x28 | dense 10 | scaffold\n"
                               "codec_up = sbc:p=0.1\n"
                               "optimizer = sgd:lr=0.1+scaffold\n"
                               "local_steps = 10\n"
                               "batch = 4\n"
                               "rounds = 5\n"
                               "cohort = 10\n"
                               "deadline_s = 30\n";
    const char *more[] = {"clients=10", "split=two-class", NULL};
    assert_true(accuracy_of_run(w, task, more) > 0.5);
}

static double accuracy_among_hostile_clients(const world *w, const char *strategy) {
    char task[512];
    snprintf(task, sizeof task,
             "model = lr\n"
             "codec_up = float32\n"
             "codec_down = float32\n"
             "optimizer = sgd:lr=0.1\n"
             "strategy = %s\n"
             "local_steps = 10\n"
             "rounds = 4\n"
             "cohort = 10\n"
             "deadline_s = 30\n",
             strategy);
    const char *more[] = {"clients=10", "hostile=0.3", NULL};
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
    const char *more[] = {"clients=10", NULL};
    assert_int_equal(run_fedsim(w, restart, more), 2);
    assert_int_not_equal(access(w->out, F_OK), 0);
}

/** Run "fedsim run data=. WORDS", found through PATH. out: what was printed. */
static int run_through_path(const world *w, const char *words, char out[4096]) {
    char line[1200];
    snprintf(line, sizeof line, "cd '%s' && PATH='%s':$PATH && fedsim run data=. %s 2>&1",
             w->directory, FED_BIN_DIR, words);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    const size_t len = fread(out, 1, 4095, pipe);
    out[len] = '\0';
    const int how = pclose(pipe);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static void expect(const world *w, const char *words, bool succeeds, const char *says) {
    char out[4096];
    if ((run_through_path(w, words, out) == 0) != succeeds || strstr(out, says) == NULL) {
        fail_msg("\"%s\" is not in the output of fedsim %s: %s", says, words, out);
    }
}

static void fedsim_found_through_path_finds_its_coordinator(void **state) {
    expect(*state, "transport=https model=lr clients=2 rounds=1", true, "");
}

/* The text has more characters than a task holds, so it travels as the model's layout. */
static void a_long_text_of_layers_is_trained(void **state) {
    const world *w = *state;
    char text[8000] = "input 784 | dense 10", words[600];
    while (strlen(text) < 5000) {
        strcat(text, " | relu");
    }
    strcat(text, " | dense 10");
    fed_test_put(w->directory, "long.net", text, strlen(text));
    snprintf(words, sizeof words, "transport=https model=@%s/long.net clients=2 rounds=1",
             w->directory);
    expect(w, words, true, "");
}

static void a_coordinator_that_cannot_be_run_is_named_with_the_reason(void **state) {
    char out[4096];
    assert_int_equal(run_through_path(*state,
                                      "transport=https model=lr clients=2 rounds=1 "
                                      "fedserver=/nowhere/fedserver",
                                      out),
                     1);
    assert_non_null(strstr(out, "can't run /nowhere/fedserver: No such file or directory"));
}

static void a_model_that_does_not_fit_the_data_is_found_before_anybody_enrols(void **state) {
    char out[4096];
    assert_int_not_equal(run_through_path(*state, "model=resnet20 clients=2 rounds=1", out), 0);
    assert_string_equal(out, "fedsim: the task's model does not fit the data: samples are 784 "
                             "values (1x28x28), the model takes 3072 (3x32x32); choose another "
                             "model, or other data\n");
}

static void a_device_that_is_not_there_is_refused_before_anything_runs(void **state) {
    expect(*state, "model=lr clients=2 rounds=1 device=cuda:99", false, "device=cuda:99: ");
    expect(*state, "model=lr clients=2 rounds=1 device=toaster", false, "device=toaster: ");
}

static void clients_learn_on_a_device(void **state) {
    char out[4096], words[400], name[FED_GPU_NAME];
    snprintf(words, sizeof words,
             "'model=input 1x28x28 | dense 16 | relu | dense 10' clients=4 threads=2 rounds=5 "
             "codec_up=float32 optimizer=momentum:lr=0.1 batch=16 device=%s",
             fed_test_gpu_name(name));
    assert_int_equal(run_through_path(*state, words, out), 0);
    const char *accuracy = strstr(out, "test accuracy ");
    assert_non_null(accuracy);
    assert_true(strtod(accuracy + strlen("test accuracy "), NULL) > 90);
}

/* Write a data set of two classes. Column two is a million times as large as column one. */
static void write_lopsided_table(const world *w) {
    char text[200 * 32];
    size_t len = 0;
    for (int k = 0; k < 200; k++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%d,%d,%d\n", k % 2,
                                1000000 + k * 7 % 5, k % 2);
    }
    fed_test_put(w->directory, "train.csv", text, len);
    fed_test_put(w->directory, "test.csv", text, len);
}

static void normalised_columns_weigh_the_same(void **state) {
    write_lopsided_table(*state);
    const char *keys = "dataset=csv:label=last 'model=input 2 | dense 2' clients=2 rounds=10 "
                       "local_steps=10 batch=10 optimizer=sgd:lr=0.1 codec_up=float32 normalise=1";
    expect(*state, keys, true, "test accuracy             100.00 %");
}

static void clients_learn_to_predict_a_number_and_no_accuracy_is_told(void **state) {
    char out[4096];
    double loss = 1;
    write_lopsided_table(*state);
    const char *keys = "dataset=csv:target=last 'model=input 2 | dense 1 | mse' clients=4 "
                       "rounds=20 local_steps=10 batch=10 optimizer=sgd:lr=0.1 codec_up=float32 "
                       "normalise=1 --out out";
    assert_int_equal(run_through_path(*state, keys, out), 0);
    assert_non_null(strstr(out, "test accuracy             -\n"));
    const char *told = strstr(out, "test loss");
    assert_non_null(told);
    assert_int_equal(sscanf(told, "test loss %lf, the mean squared error", &loss), 1);
    assert_true(loss < 1e-3);
    json_t *result = json_load_file(((world *)*state)->result, 0, NULL);
    assert_true(json_is_null(json_object_get(result, "test_accuracy")));
    json_decref(result);
}

/* One sample is so large that the training of the client that has it leaves infinity. */
static void a_client_that_diverges_is_away_and_the_run_goes_on(void **state) {
    const world *w = *state;
    const char *keys = "dataset=csv:label=last 'model=input 2 | dense 2' clients=4 goal=3 rounds=3 "
                       "local_steps=2 batch=50 optimizer=sgd:lr=0.1 codec_up=float32";
    char text[200 * 32];
    size_t len = 0;
    for (int k = 0; k < 200; k++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%d,%s,%d\n", k % 2,
                                k == 0 ? "3e38" : "1", k % 2);
    }
    write_lopsided_table(w);
    fed_test_put(w->directory, "train.csv", text, len);
    expect(w, keys, true, "9 counted, 3 refused");
}

static void targets_have_no_classes_to_split_by(void **state) {
    write_lopsided_table(*state);
    const char *keys = "dataset=csv:target=last 'model=input 2 | dense 1 | mse' clients=4 "
                       "rounds=1 split=classes:k=2";
    expect(*state, keys, false, "the data has no classes to split it by");
}

static void a_text_can_not_be_normalised(void **state) {
    const world *w = *state;
    fed_test_put(w->directory, "train.txt", "b a a\na b\na\n", 12);
    fed_test_put(w->directory, "test.txt", "b a\n", 4);
    const char *keys = "dataset=words 'model=input tokens 2 of 3 | embedding 2 | dense 3 each' "
                       "clients=2 rounds=1 normalise=1";
    expect(w, keys, false, "normalise=1 is for numbers: a text has none");
}

static void nap(long ms) {
    const struct timespec time = {.tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

static void interrupt_after(const world *w, const char *const *more, long ms) {
    pid_t pid = start_fedsim(w, restart, more);
    while (access(w->coordinator, F_OK) != 0) {
        nap(10);
    }
    nap(ms);
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(end_of(pid), 130);
}

static void a_run_that_is_interrupted_while_its_coordinator_starts_stops(void **state) {
    const char *more[] = {"clients=20", "rounds=1000", NULL};
    interrupt_after(*state, more, 0);
}

static void an_interrupted_run_leaves_a_directory_that_no_other_run_writes_over(void **state) {
    const world *w = *state;
    const char *more[] = {"clients=20", "rounds=1000", NULL};
    interrupt_after(w, more, 500);
    json_t *result = read_result(w);
    assert_true(json_is_false(json_object_get(result, "finished")));
    json_decref(result);
    assert_int_equal(run_fedsim(w, restart, more), 2);
    const char *other[] = {"clients=20", "rounds=3", "--resume", NULL};
    assert_int_equal(run_fedsim(w, restart, other), 2);
}

/** Copy the digest in the run's summary, which must be that of the run's model file. */
static void digest_of_run(const world *w, const char *out, char hex[17]) {
    char path[400], left[17];
    snprintf(path, sizeof path, "%s/%s/summary.json", w->directory, out);
    json_t *result = json_load_file(path, 0, NULL);
    assert_non_null(result);
    assert_true(json_is_true(json_object_get(result, "finished")));
    snprintf(hex, 17, "%s", json_string_value(json_object_get(result, "model_digest")));
    json_decref(result);
    snprintf(path, sizeof path, "%s/%s/model.safetensors", w->directory, out);
    model_digest(path, left);
    assert_string_equal(left, hex);
}

static void a_run_in_virtual_time_that_was_stopped_ends_with_the_same_model(void **state) {
    const world *w = *state;
    char whole[300], parts[300], one[17], other[17];
    snprintf(whole, sizeof whole, "%s/whole", w->directory);
    snprintf(parts, sizeof parts, "%s/parts", w->directory);
    const char *more[] = {"transport=inproc", "clients=20", "rounds=100", "--out", whole, NULL};
    assert_int_equal(run_fedsim(w, restart, more), 0);
    const char *again[] = {"transport=inproc", "clients=20", "rounds=100", "--out", parts,
                           "--resume",         NULL};
    char task[320];
    snprintf(task, sizeof task, "%s/task.json", parts);
    pid_t pid = start_fedsim(w, restart, again);
    while (access(task, F_OK) != 0) {
        nap(10);
    }
    nap(200);
    assert_int_equal(kill(pid, SIGINT), 0);
    const int code = end_of(pid);
    assert_true(code == 130 || code == 0);
    assert_int_equal(run_fedsim(w, restart, again), 0);
    digest_of_run(w, "whole", one);
    digest_of_run(w, "parts", other);
    assert_string_equal(one, other);
}

static void a_grid_leaves_a_directory_for_each_cell_and_finished_ones_are_not_run_again(void **s) {
    const world *w = *s;
    const char *more[] = {"clients=4", "cohort=4", "goal=4", "minimum=1", "rounds=1..2", NULL};
    const char *again[] = {"clients=4",   "cohort=4", "goal=4", "minimum=1",
                           "rounds=1..2", "--resume", NULL};
    char path[400];
    struct stat before, after;
    assert_int_equal(run_fedsim(w, restart, more), 0);
    snprintf(path, sizeof path, "%s/rounds=2/summary.json", w->out);
    assert_int_equal(stat(path, &before), 0);
    snprintf(path, sizeof path, "%s/report.html", w->out);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(run_fedsim(w, restart, again), 0);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/rounds=2/summary.json", w->out);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH(model_is_bit_identical_after_the_coordinator_was_killed_in_round_2),
        WITH(asynchronous_rounds_of_more_clients_than_places_outlive_a_kill),
        WITH(clients_learn_the_made_up_digits),
        WITH(a_table_an_uneven_split_and_an_optimizer_with_parts_go_through_the_whole_house),
        WITH(a_language_model_learns_from_devices_that_each_hold_lines_of_a_text),
        WITH(a_net_with_batch_normalization_is_as_good_at_the_coordinator),
        WITH(private_rounds_outlive_a_kill_of_the_coordinator),
        WITH(noise_is_added_by_whom_its_key_says_on_both_transports),
        WITH(clients_with_a_proximal_term_and_an_adaptive_server_learn_together),
        WITH(clients_with_control_variates_learn_from_uneven_data),
        WITH(noise_from_hostile_clients_spoils_the_mean),
        WITH(noise_from_hostile_clients_does_not_reach_the_median),
        WITH(fedsim_found_through_path_finds_its_coordinator),
        WITH(a_long_text_of_layers_is_trained),
        WITH(a_coordinator_that_cannot_be_run_is_named_with_the_reason),
        WITH(a_model_that_does_not_fit_the_data_is_found_before_anybody_enrols),
        WITH(a_client_that_diverges_is_away_and_the_run_goes_on),
        WITH(a_device_that_is_not_there_is_refused_before_anything_runs),
        WITH(clients_learn_on_a_device),
        WITH(normalised_columns_weigh_the_same),
        WITH(clients_learn_to_predict_a_number_and_no_accuracy_is_told),
        WITH(targets_have_no_classes_to_split_by),
        WITH(a_text_can_not_be_normalised),
        WITH(an_unreachable_goal_is_refused_before_anything_runs),
        WITH(a_run_that_is_interrupted_while_its_coordinator_starts_stops),
        WITH(an_interrupted_run_leaves_a_directory_that_no_other_run_writes_over),
        WITH(a_run_in_virtual_time_that_was_stopped_ends_with_the_same_model),
        WITH(a_grid_leaves_a_directory_for_each_cell_and_finished_ones_are_not_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
