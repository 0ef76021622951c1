/* The fedworker program, run as a user runs it: links, summary, checkpoints and user errors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_test_gpu.h"
#include "mpi_job.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed_digits.h"
#include "fed_port.h"
#include "fed_program.h"
#include "feddc/exchange.h"
#include "feddc/link.h"

static fed_program worker;

#define TRAIN                                                                                      \
    "train --model 'input 784 | dense 16 | relu | dense 10' --data . --batch 8 --optimizer "       \
    "momentum:lr=0.02 "

/* Return the summary that the last run wrote. The caller frees it. */
static json_t *summary(void) {
    char path[300];
    json_error_t why;
    snprintf(path, sizeof path, "%s/out.json", worker.directory);
    json_t *root = json_load_file(path, 0, &why);
    if (root == NULL) {
        fail_msg("%s: %s", path, why.text);
    }
    return root;
}

static double number(const json_t *root, const char *key) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_number(value)) {
        fail_msg("the summary has no key %s", key);
    }
    return json_number_value(value);
}

static void digest_of(const char *options, char digest[32]) {
    char args[600];
    snprintf(args, sizeof args, TRAIN "--steps 60 --summary out.json %s", options);
    assert_runs(&worker, args, 0, "");
    json_t *root = summary();
    snprintf(digest, 32, "%s", json_string_value(json_object_get(root, "digest")));
    assert_int_equal(strlen(digest), 16);
    assert_true(number(root, "test_accuracy") > 0.7);
    json_decref(root);
}

/** What became 0 was below 2^-7: of a value that travels in 8 bits, 7 tell the magnitude. */
static void assert_spread(json_t *root, double zeroed) {
    json_t *spread = json_object_get(root, "spread");
    double all = 0, small = 0;
    assert_int_equal(json_array_size(spread), FEDDC_SPREAD);
    for (size_t k = 0; k < FEDDC_SPREAD; k++) {
        const double values = json_number_value(json_array_get(spread, k));
        all += values;
        small += k > 7 ? values : 0;
    }
    assert_true(all > 0 && small < all);
    assert_true(zeroed <= small / all + 1e-6);
}

FED_TEST(threads_and_processes_leave_the_same_bits) {
    static const char *const options[] = {
        "--workers 3", "--workers 3 --collective star --sync bitsgd --codec 3lc --pull 3lc",
        "--workers 3 --collective star --sync bitsgd --codec 3lc --pull 3lc --pull-as model",
        "--workers 2 --sync cdsgd:n=3,k=2 --codec twobit:t=0.01",
        "--workers 3 --collective ring --sync bitsgd --nic inline:e=8"};
    for (size_t k = 0; k < sizeof options / sizeof options[0]; k++) {
        char args[300], a[32], b[32];
        snprintf(args, sizeof args, "%s --link threads", options[k]);
        digest_of(args, a);
        snprintf(args, sizeof args, "%s --link tcp", options[k]);
        digest_of(args, b);
        assert_string_equal(a, b);
    }
}

FED_TEST(workers_on_a_gpu_leave_the_same_bits) {
    char args[300], a[32], b[32], name[FED_GPU_NAME];
    fed_test_gpu_name(name);
    snprintf(args, sizeof args, "--device %s --workers 2 --sync bitsgd --codec 3lc", name);
    digest_of(args, a);
    json_t *root = summary();
    assert_string_equal(json_string_value(json_object_get(root, "collective")), "gather");
    json_decref(root);
    snprintf(args, sizeof args, "--device %s --workers 2 --sync bitsgd --codec 3lc --link tcp",
             name);
    digest_of(args, b);
    assert_string_equal(a, b);
    snprintf(args, sizeof args, TRAIN "--steps 2 --device %s --sync bitsgd --codec onebit", name);
    assert_runs(&worker, args, 1, "onebit runs on the processor only");
}

static void check_mpirun(const char *options, int ranks, int workers) {
    char threads[32], args[300], command[1200];
    snprintf(args, sizeof args, "--workers %d %s", workers, options);
    digest_of(args, threads);
    snprintf(command, sizeof command,
             "cd %s && " MPI_JOB_SETTINGS "timeout -k 5 1200 mpirun -n %d " FED_BIN_DIR
             "/fedworker " TRAIN "--steps 60 --summary out.json --link mpi %s > mpi.out 2>&1",
             worker.directory, ranks, options);
    assert_int_equal(system(command), 0);
    json_t *root = summary();
    assert_string_equal(json_string_value(json_object_get(root, "digest")), threads);
    assert_true(number(root, "workers") == workers);
    json_decref(root);
}

FED_TEST(mpirun_leaves_the_same_bits) {
    if (feddc_link_named("mpi") == NULL || !mpi_job_possible()) {
        skip();
    }
    check_mpirun("--sync cdsgd:n=3,k=2 --codec 3lc", 3, 3);
    check_mpirun("--collective star --sync odsgd", 3, 2);
    if (fed_test_is_short()) {
        return;
    }
    check_mpirun("--collective ring", 3, 3);
    check_mpirun("--collective gather --sync bitsgd --codec 3lc", 3, 3);
    check_mpirun("--collective tree:group=2 --sync local:n=2 --codec int8", 4, 4);
}

FED_TEST(the_summary_says_what_was_sent) {
    assert_runs(&worker, TRAIN "--steps 20 --workers 2 --summary out.json", 0, "");
    json_t *root = summary();
    /* With two owners, each rank sends half of its gradient and half of the sum. */
    const double floats = number(root, "parameters") * sizeof(float) * 20;
    for (size_t r = 0; r < 2; r++) {
        const double sent =
            json_number_value(json_array_get(json_object_get(root, "sent_bytes"), r));
        assert_true(sent > 0.95 * floats && sent < 1.1 * floats);
    }
    assert_true(number(root, "steps") == 20);
    assert_true(number(root, "compute_s") > 0);
    assert_true(number(root, "exposed_s") >= 0);
    assert_true(number(root, "exchange_s") > 0);
    assert_true(number(root, "predicted_step_s") > 0);
    json_decref(root);
    assert_runs(&worker,
                TRAIN
                "--steps 20 --workers 2 --summary out.json --sync bitsgd --codec 3lc --pull 3lc",
                0, "");
    root = summary();
    const double sent = json_number_value(json_array_get(json_object_get(root, "sent_bytes"), 0));
    assert_true(sent < 0.1 * floats);
    json_decref(root);
    assert_says(&worker, "exposed");
    assert_runs(&worker,
                TRAIN "--steps 20 --workers 2 --summary out.json --sync bitsgd --nic inline:e=8", 0,
                "");
    root = summary();
    assert_string_equal(json_string_value(json_object_get(root, "nic")), "inline:e=8");
    assert_true(number(root, "zeroed") > 0 && number(root, "zeroed") < 1);
    assert_spread(root, number(root, "zeroed"));
    json_decref(root);
    assert_says(&worker, "the nic inline:e=8");
}

FED_TEST(the_summary_counts_what_a_codec_without_a_residual_codes) {
    assert_runs(&worker,
                TRAIN
                "--steps 40 --workers 2 --summary out.json --sync bitsgd --codec inceptionn:e=9",
                0, "");
    json_t *root = summary();
    assert_spread(root, number(root, "zeroed"));
    json_decref(root);
}

/* What a training has counted, and its model, whether it was interrupted or not. Values are counted
 * in one of several steps, so their number is about the same. */
static void assert_same_training(json_t *a, json_t *b) {
    static const char *const keys[] = {"digest", "steps", "counted_steps", "sent_bytes",
                                       "received_bytes"};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        if (json_equal(json_object_get(a, keys[k]), json_object_get(b, keys[k])) != 1) {
            fail_msg("%s is %s, and %s in a training that goes on", keys[k],
                     json_dumps(json_object_get(a, keys[k]), JSON_ENCODE_ANY),
                     json_dumps(json_object_get(b, keys[k]), JSON_ENCODE_ANY));
        }
    }
    const double coded = number(a, "coded");
    assert_true(fabs(number(b, "coded") - coded) <= 0.2 * coded);
}

FED_TEST(training_goes_on_from_a_checkpoint) {
    static const char rule[] = "--workers 2 --sync bitsgd --codec 3lc --pull 3lc";
    char a[32], args[600];
    digest_of(rule, a);
    json_t *whole = summary();
    snprintf(args, sizeof args, TRAIN "--steps 25 %s --checkpoint c.safetensors --every 10", rule);
    assert_runs(&worker, args, 0, "");
    assert_runs(&worker, args, 1, "exists already: give --resume");
    snprintf(args, sizeof args,
             TRAIN "--steps 60 %s --checkpoint c.safetensors --resume --summary out.json", rule);
    assert_runs(&worker, args, 0, "");
    json_t *root = summary();
    assert_same_training(whole, root);
    json_decref(root);
    assert_runs(&worker, args, 0, "");
    root = summary();
    assert_same_training(whole, root); /* there was no step left */
    json_decref(root);
    json_decref(whole);
    worker.name = "fedtrain";
    assert_runs(&worker, "evaluate --weights c.safetensors --data .", 0, "");
    worker.name = "fedworker";
}

static int wait_for(pid_t program) {
    int how = 0;
    assert_int_equal(waitpid(program, &how, 0), program);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

static bool exists(const char *name) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", worker.directory, name);
    return access(path, F_OK) == 0;
}

/* Three workers train. Rank 0, the first child process, is killed. The other ranks must finish, and
 * one of them must write the summary in place of rank 0. */
static void lose_a_rank(const char *const *more) {
    enum { FIXED = 20, ARGS = 32 };
    const char *args[ARGS] = {
        "fedworker", "train", "--model",      "input 784 | dense 16 | relu | dense 10",
        "--data",    ".",     "--batch",      "8",
        "--workers", "3",     "--link",       "tcp",
        "--codec",   "3lc",   "--summary",    "out.json",
        "--every",   "200",   "--checkpoint", "gang"};
    for (int k = 0; more[k] != NULL && FIXED + k + 1 < ARGS; k++) {
        args[FIXED + k] = more[k];
    }
    const pid_t program = fork();
    if (program == 0) {
        const bool there = chdir(worker.directory) == 0 &&
                           freopen("gang.out", "w", stderr) != NULL &&
                           freopen("/dev/null", "w", stdout) != NULL;
        if (there) {
            execv(FED_BIN_DIR "/fedworker", (char *const *)args);
        }
        _exit(127);
    }
    assert_true(program > 0);
    for (int k = 0; k < 3000 && !exists("gang"); k++) {
        fed_sleep_ms(10);
    }
    const pid_t first = fed_test_child(program);
    assert_true(first > 0);
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(wait_for(program), 0);
    json_t *root = summary();
    assert_true(number(root, "workers") == 2);
    assert_true(number(root, "test_accuracy") > 0.7);
    json_decref(root);
    char command[700];
    snprintf(command, sizeof command, "grep -q 'worker 0 .* died' %s/gang.out && rm %s/gang*",
             worker.directory, worker.directory);
    assert_int_equal(system(command), 0);
}

/* Start the program with its output in `output`. */
static pid_t start(const char *args, const char *output) {
    char command[1200];
    snprintf(command, sizeof command, "cd %s && exec " FED_BIN_DIR "/fedworker %s > %s 2>&1",
             worker.directory, args, output);
    const pid_t program = fork();
    if (program == 0) {
        (void)signal(SIGINT, SIG_DFL); /* a shell may ignore it for programs in the background */
        (void)alarm(600);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_true(program > 0);
    return program;
}

enum { OUTPUT = 1 << 16 };

static void read_output(const char *output, char text[OUTPUT]) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", worker.directory, output);
    FILE *file = fopen(path, "r");
    text[file != NULL ? fread(text, 1, OUTPUT - 1, file) : 0] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Wait until the output has these words, for two minutes at most. */
static void await_words(const char *output, const char *words) {
    char text[OUTPUT] = "";
    for (int k = 0; k < 12000 && strstr(text, words) == NULL; k++) {
        fed_sleep_ms(10);
        read_output(output, text);
    }
    if (strstr(text, words) == NULL) {
        fail_msg("%s has no \"%s\": %s", output, words, text);
    }
}

static void await_file(const char *name) {
    for (int k = 0; k < 12000 && !exists(name); k++) {
        fed_sleep_ms(10);
    }
    assert_true(exists(name));
}

static void remove_all(const char *pattern) {
    char command[400];
    snprintf(command, sizeof command, "cd %s && rm -rf %s", worker.directory, pattern);
    assert_int_equal(system(command), 0);
}

/* The step after which the program says that it stopped. */
static unsigned stopped_after(const char *output) {
    static const char words[] = "stopped after step ";
    char text[OUTPUT];
    read_output(output, text);
    const char *at = strstr(text, words);
    if (at == NULL || strstr(text, "--resume goes on from gang") == NULL) {
        fail_msg("the program does not say where it stopped: %s", text);
        return 0;
    }
    return (unsigned)strtoul(at + sizeof words - 1, NULL, 10);
}

/* Stop a worker group by a signal. The run that goes on from its checkpoint must end with the bits
 * of a run that was never stopped. */
static void stop_and_go_on(const char *options, int number) {
    char args[600], text[OUTPUT];
    snprintf(args, sizeof args, TRAIN "--steps 10000000 --every 100 --checkpoint gang %s", options);
    const pid_t program = start(args, "gang.out");
    await_file("gang");
    assert_int_equal(kill(program, number), 0);
    assert_int_equal(wait_for(program), 130);
    read_output("gang.out", text);
    assert_non_null(
        strstr(text, "told to stop: ends after this step; a second signal ends it now"));
    const unsigned steps = stopped_after("gang.out") + 20;
    assert_true(steps > 20);
    snprintf(args, sizeof args, TRAIN "--steps %u --checkpoint gang --resume --summary out.json %s",
             steps, options);
    assert_runs(&worker, args, 0, "");
    json_t *again = summary();
    snprintf(args, sizeof args, TRAIN "--steps %u --summary out.json %s", steps, options);
    assert_runs(&worker, args, 0, "");
    json_t *whole = summary();
    assert_same_training(whole, again);
    json_decref(whole);
    json_decref(again);
    remove_all("gang*");
}

/* As above, but killed at any step behind its first checkpoint. */
static void kill_and_go_on(const char *options) {
    char args[600], first[] = TRAIN "--steps 2000 --every 100 --checkpoint gang ";
    snprintf(args, sizeof args, "%s%s", first, options);
    const pid_t program = start(args, "gang.out");
    await_file("gang");
    assert_int_equal(kill(program, SIGKILL), 0);
    (void)wait_for(program);
    snprintf(args, sizeof args, "%s --resume --summary out.json %s", first, options);
    assert_runs(&worker, args, 0, "");
    json_t *again = summary();
    snprintf(args, sizeof args, TRAIN "--steps 2000 --summary out.json %s", options);
    assert_runs(&worker, args, 0, "");
    json_t *whole = summary();
    assert_same_training(whole, again);
    json_decref(whole);
    json_decref(again);
    remove_all("gang*");
}

FED_TEST(a_killed_training_goes_on_with_its_counters) {
    kill_and_go_on("--workers 2 --sync bitsgd --codec 3lc --pull 3lc");
    kill_and_go_on("--workers 3 --collective star --sync bitsgd --codec inceptionn:e=9");
}

FED_TEST(a_signal_ends_a_worker_group_with_a_checkpoint) {
    stop_and_go_on("--workers 2 --sync bitsgd --codec 3lc", SIGINT);
    stop_and_go_on("--workers 2 --sync cdsgd:n=3,k=2 --codec 3lc --link tcp", SIGTERM);
    stop_and_go_on("--workers 2 --collective star --link tcp", SIGINT);
    stop_and_go_on("--workers 3 --sync local:n=4 --codec int8", SIGTERM);
}

FED_TEST(a_worker_group_that_lost_a_rank_is_stopped_too) {
    const pid_t program =
        start(TRAIN "--steps 10000000 --checkpoint gang --link tcp --workers 3", "gang.out");
    await_file("gang");
    const pid_t lost = fed_test_child(program);
    assert_true(lost > 0);
    assert_int_equal(kill(lost, SIGKILL), 0);
    await_words("gang.out", "died");
    remove_all("gang");
    await_file("gang"); /* the two that are left have trained an epoch */
    assert_int_equal(kill(program, SIGINT), 0);
    assert_int_equal(wait_for(program), 130);
    (void)stopped_after("gang.out");
    remove_all("gang*");
}

/* Stop a worker group whose checkpoint's path has become a directory, which no file can replace.
 * Return its exit status. */
static int stop_without_a_place(void) {
    char path[300];
    snprintf(path, sizeof path, "%s/saved", worker.directory);
    const pid_t program =
        start(TRAIN "--steps 10000000 --every 1000000 --checkpoint saved --workers 2", "gang.out");
    await_file("saved"); /* written at the end of an epoch */
    assert_int_equal(kill(program, SIGSTOP), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(kill(program, SIGINT), 0);
    assert_int_equal(kill(program, SIGCONT), 0);
    return wait_for(program);
}

/* Did the program stop after the last step of an epoch? That step was saved already. */
static bool stopped_after_an_epoch(void) {
    char text[OUTPUT], words[60];
    unsigned step = 0;
    read_output("gang.out", text);
    const char *at = strstr(text, "stopped after step ");
    assert_true(at != NULL && sscanf(at, "stopped after step %u", &step) == 1);
    snprintf(words, sizeof words, ", step %u: training loss", step);
    return strstr(text, words) != NULL;
}

FED_TEST(a_checkpoint_that_cannot_be_written_at_a_stop_is_an_error) {
    int status = stop_without_a_place();
    for (int k = 0; k < 20 && status == 130; k++) {
        assert_true(stopped_after_an_epoch());
        remove_all("gang* saved*");
        status = stop_without_a_place();
    }
    assert_int_equal(status, 1);
    await_words("gang.out", "saved");
    remove_all("gang* saved*");
}

FED_TEST(a_signal_on_one_machine_ends_the_others) {
    static const char options[] = TRAIN "--steps 10000000 --every 100 --checkpoint gang --workers "
                                        "2 --link tcp --secret-file secret";
    char args[600], address[40];
    snprintf(address, sizeof address, "127.0.0.1:%d", fed_port_keep());
    snprintf(args, sizeof args, "%s --listen %s", options, address);
    const pid_t first = start(args, "gang.out");
    await_file("secret");
    snprintf(args, sizeof args, "%s --join %s", options, address);
    const pid_t second = start(args, "gang2.out");
    await_file("gang");
    assert_int_equal(kill(second, SIGTERM), 0);
    assert_int_equal(wait_for(second), 130);
    assert_int_equal(wait_for(first), 130);
    await_words("gang2.out", "ends at its next pause");
    const unsigned step = stopped_after("gang.out");
    assert_true(step % 100 == 0 || step % 38 == 0); /* --every, or the end of an epoch */
    remove_all("gang* secret");
}

#define GANG                                                                                       \
    TRAIN "--optimizer momentum --lr 0.02 --workers 2 --link tcp --secret-file secret "            \
          "--collective owners --sync bitsgd --codec 3lc "

/* Options of one machine, and the setting in which it then differs from the other one. */
static const char *const refused[][2] = {
    {"--model 'input 784 | dense 16 | tanh | dense 10'", "model"},
    {"--model 'input 784 | dense 16 | relu | dropout 0.5 | dense 10'", "model"},
    {"--data other", "data"},
    {"--train-part test", "data"},
    {"--normalise", "normalise"},
    {"--augment flip=1", "augment"},
    {"--backend reference", "backend"},
    {"--epochs 1", "epochs"},
    {"--steps 21", "steps"},
    {"--optimizer adam", "optimizer"},
    {"--lr 0.03", "lr"},
    {"--seed 2", "seed"},
    {"--init start.safetensors", "init"},
    {"--batch 4", "batch"},
    {"--collective gather", "collective"},
    {"--collective star --late 1", "late"},
    {"--sync local:n=2", "sync"},
    {"--codec int8", "codec"},
    {"--pull 3lc", "pull"},
    {"--pull-as model", "pull-as"},
    {"--codec float32 --nic inline", "nic"},
    {"--local-lr 0.3", "local-lr"},
    {"--small 100", "small"},
    {"--bucket 20000", "bucket"},
    {"--every 5 --checkpoint gang", "every"},
    {"--checkpoint gang", "checkpoint"},
    {"--trace trace.json", "trace"}};

/* Make a folder with the same samples, the first two of them swapped. */
static void write_other_order(void) {
    char command[400], path[400], sample[2 * 784];
    snprintf(command, sizeof command, "cd %s && mkdir other && cp *ubyte other", worker.directory);
    assert_int_equal(system(command), 0);
    static const struct {
        const char *name;
        long head, size;
    } files[] = {{"train-images-idx3-ubyte", 16, 784}, {"train-labels-idx1-ubyte", 8, 1}};
    for (size_t k = 0; k < 2; k++) {
        const size_t size = (size_t)files[k].size;
        snprintf(path, sizeof path, "%s/other/%s", worker.directory, files[k].name);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, files[k].head, SEEK_SET), 0);
        assert_int_equal(fread(sample, size, 2, file), 2);
        assert_int_equal(fseek(file, files[k].head, SEEK_SET), 0);
        assert_int_equal(fwrite(sample + size, size, 1, file), 1);
        assert_int_equal(fwrite(sample, size, 1, file), 1);
        assert_int_equal(fclose(file), 0);
    }
}

static void assert_refused(const char *options, const char *name, const char *address) {
    char args[900], first[60], later[60];
    const bool ends = strstr(options, "--epochs") != NULL;
    snprintf(args, sizeof args, GANG "%s --join %s %s", ends ? "" : "--steps 20", address, options);
    assert_runs(&worker, args, 1, "give all machines the same options and data");
    snprintf(first, sizeof first, "its %s is", name);
    snprintf(later, sizeof later, "different: %s;", name);
    if (strstr(worker.out, first) == NULL && strstr(worker.out, later) == NULL) {
        fail_msg("%s: the refusal names no %s: %s", options, name, worker.out);
    }
}

FED_TEST(a_machine_with_other_settings_is_refused_and_a_right_one_trains) {
    char args[800], address[40];
    snprintf(address, sizeof address, "127.0.0.1:%d", fed_port_keep());
    write_other_order();
    assert_runs(&worker, TRAIN "--steps 1 --seed 5 --checkpoint start.safetensors", 0, "");
    snprintf(args, sizeof args, GANG "--steps 20 --listen %s", address);
    const pid_t first = start(args, "gang.out");
    await_file("secret");
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        assert_refused(refused[k][0], refused[k][1], address);
        await_words("gang.out", refused[k][1]);
    }
    await_words("gang.out", "for 1 of 2 workers; here: host ");
    snprintf(args, sizeof args,
             GANG
             "--steps 20 --join %s --workers 3 --rate 100 --min 2 --data ./. --test-part train "
             "--backend fast --pull float32",
             address);
    assert_runs(&worker, args, 0, "");
    assert_int_equal(wait_for(first), 0);
    remove_all("gang* secret start* other");
}

FED_TEST(an_address_that_other_machines_do_not_reach_is_refused) {
    static const char *const addresses[][2] = {
        {"--listen 0.0.0.0:0", "add --host ADDRESS"},
        {"--listen [::]:0", "add --host ADDRESS"},
        {"--listen 0.0.0.0:0 --host 0.0.0.0", "--host 0.0.0.0 is no address"},
        {"--listen 0.0.0.0:0 --host 127.0.0.1", "--host 127.0.0.1 is no address"},
        {"--join 192.0.2.1:9 --host localhost", "--host localhost is no address"},
        {"--join 127.0.0.1:9 --host ::", "--host :: is no address"}};
    for (size_t k = 0; k < sizeof addresses / sizeof addresses[0]; k++) {
        char args[900];
        snprintf(args, sizeof args, GANG "--steps 1 %s", addresses[k][0]);
        assert_runs(&worker, args, 1, addresses[k][1]);
    }
    static const char *const own[] = {"127.0.0.1:0", "localhost:0", "[::1]:0",
                                      "0.0.0.0:0 --host 10.1.2.3"};
    for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) {
        char args[800], text[OUTPUT];
        snprintf(args, sizeof args, GANG "--steps 1 --listen %s", own[k]);
        const pid_t program = start(args, "gang.out");
        if (k < 3) {
            await_words("gang.out", "is reached from only this machine");
        }
        await_file("secret");
        (void)kill(program, SIGTERM);
        const int status = wait_for(program);
        /* a machine may have no IPv6, and has no address 10.1.2.3 */
        assert_true(status == 130 || k >= 2);
        read_output("gang.out", text);
        assert_true((strstr(text, "only this machine") != NULL) == (k < 3));
        remove_all("secret");
    }
    remove_all("gang*");
}

static double sum_of(const json_t *root, const char *key) {
    const json_t *list = json_object_get(root, key);
    double sum = 0;
    for (size_t k = 0; k < json_array_size(list); k++) {
        sum += json_number_value(json_array_get(list, k));
    }
    return sum;
}

FED_TEST(another_number_of_workers_makes_the_same_passes) {
    /* Workers at first and after the resume; steps of epochs 1 and 2, and of epochs 3 and 4. There
     * are 600 samples in batches of 8. */
    static const int groups[][4] = {
        {3, 3, 50, 50}, {3, 5, 50, 30}, {5, 1, 30, 150}, {1, 3, 150, 50}, {4, 3, 38, 50}};
    for (size_t k = 0; k < sizeof groups / sizeof groups[0]; k++) {
        char args[400];
        snprintf(args, sizeof args, TRAIN "--epochs 2 --workers %d --checkpoint gang",
                 groups[k][0]);
        assert_runs(&worker, args, 0, "epoch 2, ");
        snprintf(args, sizeof args,
                 TRAIN "--epochs 4 --workers %d --checkpoint gang --resume --summary out.json",
                 groups[k][1]);
        assert_runs(&worker, args, 0, "epoch 4, ");
        json_t *root = summary();
        assert_int_equal(number(root, "steps"), groups[k][2] + groups[k][3]);
        /* each of the first group's counters is in one of the second's */
        double counted = number(root, "parameters") * sizeof(float) * 2;
        counted *= groups[k][2] * (groups[k][0] - 1) + groups[k][3] * (groups[k][1] - 1);
        assert_true(sum_of(root, "sent_bytes") >= counted);
        assert_true(sum_of(root, "sent_bytes") < 1.2 * counted);
        json_decref(root);
        remove_all("gang*");
    }
}

/* The checkpoint has no step left, so each command only measures its model. */
FED_TEST(each_worker_measures_a_part_of_the_test_samples) {
    double accuracy[3], loss[3];
    static const int workers[] = {1, 3, 7};
    for (size_t k = 0; k < 3; k++) {
        char args[400];
        snprintf(args, sizeof args,
                 TRAIN "--steps 9 --workers %d --checkpoint gang --resume --summary out.json",
                 workers[k]);
        assert_runs(&worker, args, 0, "step 9: ");
        json_t *root = summary();
        accuracy[k] = number(root, "test_accuracy");
        loss[k] = number(root, "test_loss");
        json_decref(root);
        assert_true(accuracy[k] == accuracy[0] && fabs(loss[k] - loss[0]) < 1e-5);
    }
    assert_true(accuracy[0] > 0.2 && accuracy[0] < 1);
    remove_all("gang*");
}

FED_TEST(a_checkpoint_of_other_settings_is_refused) {
    static const char *const others[][2] = {
        {"--batch 4", "batch"},
        {"--optimizer adam", "optimizer"},
        {"--lr 0.2", "lr"},
        {"--seed 4000000002", "seed"},
        {"--augment flip=1", "augment"},
        {"--normalise", "normalise"},
        {"--train-part test", "data"},
        {"--model 'input 784 | dense 16 | tanh | dense 10'", "model"}};
    static const char run[] =
        TRAIN "--optimizer sgd --lr 0.1 --seed 4000000001 --steps 9 --checkpoint gang ";
    char args[500], words[100];
    assert_runs(&worker, run, 0, "");
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        snprintf(args, sizeof args, "%s --resume %s", run, others[k][0]);
        snprintf(words, sizeof words, "was made with another %s", others[k][1]);
        assert_runs(&worker, args, 1, words);
    }
    snprintf(args, sizeof args, "%s --resume --workers 2 --sync bitsgd --codec 3lc", run);
    assert_runs(&worker, args, 0, "");
    remove_all("gang*");
}

FED_TEST(a_worker_group_of_processes_goes_on_without_a_rank_that_dies) {
    static const char steps[] = FED_TEST_SIZE("3000", "1000");
    static const char *const rules[][2] = {
        {"bitsgd", "sum"}, {"cdsgd:n=5,k=3", "sum"}, {"bitsgd", "model"}};
    for (size_t k = 0; k < 3; k++) {
        lose_a_rank((const char *const[]){"--optimizer", "momentum:lr=0.02", "--steps", steps,
                                          "--sync", rules[k][0], "--pull-as", rules[k][1], NULL});
        json_t *root = summary();
        assert_true(number(root, "steps") == strtod(steps, NULL));
        json_decref(root);
    }
}

FED_TEST(a_worker_group_on_gpus_goes_on_without_a_rank_that_dies) {
    char name[FED_GPU_NAME];
    lose_a_rank((const char *const[]){"--optimizer", "momentum:lr=0.02", "--steps", "800", "--sync",
                                      "bitsgd", "--device", fed_test_gpu_name(name), NULL});
}

FED_TEST(a_trace_shows_all_ranks) {
    static const char *const groups[] = {"--link threads", "--link tcp --collective star"};
    for (size_t k = 0; k < 2; k++) {
        char args[400], path[300];
        json_error_t why;
        snprintf(args, sizeof args, TRAIN "--steps 10 --workers 2 --trace trace.json %s",
                 groups[k]);
        assert_runs(&worker, args, 0, "");
        snprintf(path, sizeof path, "%s/trace.json", worker.directory);
        json_t *root = json_load_file(path, 0, &why);
        assert_non_null(root);
        json_t *event, *events = json_object_get(root, "traceEvents");
        size_t index, forward = 0;
        bool seen[3] = {false};
        json_array_foreach(events, index, event) {
            const json_t *name = json_object_get(event, "name");
            seen[json_integer_value(json_object_get(event, "pid")) % 3] = true;
            forward += strcmp(json_string_value(name), "forward") == 0;
        }
        assert_true(seen[0] && seen[1] && seen[2] == (k == 1));
        assert_true(forward >= 20);
        json_decref(root);
    }
}

FED_TEST(a_mistake_is_told_in_a_sentence) {
    static const char *const mistakes[][2] = {
        {"--codec 3lc", "take the rule bitsgd"},
        {"--sync odsgd --codec 3lc", "take the rule cdsgd"},
        {"--sync easgd", "\"easgd\""},
        {"--link pigeon", "\"pigeon\""},
        {"--collective gossip", "\"gossip\""},
        {"--sync bitsgd --codec nothing", "\"nothing\""},
        {"--nic inline", "take the rule bitsgd"},
        {"--sync bitsgd --nic packet", "take link tcp"},
        {"--sync bitsgd --nic inline --codec int8", "leave out the codec or the nic"},
        {"--sync bitsgd --nic ethernet", "\"ethernet\""},
        {"--sync bitsgd --pull-as change", "--pull-as is sum or model"},
        {"--pull-as model", "bitsgd and local only"},
        {"--sync cdsgd --codec twobit --pull-as model", "bitsgd and local only"},
        {"--sync bitsgd --collective ring --pull-as model", "owners:aggregators=1 (star)"},
        {"--sync bitsgd --nic inline --pull-as model", "leave out the nic"},
        {"--optimizer sgd+clip:norm=1", "clip"},
        {"--lr fast", "--lr"},
        {"--optimizer sgd:lr=1e9 --steps 20", "lower the rate"},
        {"--resume", "--checkpoint"},
        {"--link tcp --listen 127.0.0.1:0", "--secret-file"},
        {"--link tcp --join 127.0.0.1:1 --secret-file nowhere", "nowhere"},
        {"--workers 0", "--workers"},
        {"--device toaster", "fedworker devices"},
        {"--device gpu --backend fast", "give only one of them"},
        {"--epochs 1 --steps 1", "give only one"}};
    for (size_t k = 0; k < sizeof mistakes / sizeof mistakes[0]; k++) {
        char args[400];
        snprintf(args, sizeof args, TRAIN "%s", mistakes[k][0]);
        assert_int_not_equal(fed_program_run(&worker, args), 0);
        assert_says(&worker, mistakes[k][1]);
    }
    assert_runs(&worker, "train --data .", 2, "--model is missing");
    assert_runs(&worker, "dance", 2, "");
}

static int set_up(void **state) {
    (void)state;
    fed_program_open(&worker, "fedworker");
    fed_digits_write(worker.directory, 600, 200);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fed_program_close(&worker);
    return 0;
}

int main(void) {
    return fed_cases_run(set_up, tear_down);
}
