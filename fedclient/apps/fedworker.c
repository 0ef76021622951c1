/* fedworker: a worker group, whose ranks train one model together and exchange its gradients. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/command_line.h"
#include "fed/params.h"
#include "fed/version.h"
#include "fedclient/apps/device_option.h"
#include "fedclient/apps/fedworker.h"
#include "fedclient/apps/fedworker_commands.h"
#include "fedclient/apps/fedworker_serve.h"
#include "fedclient/apps/option_table.h"

static const char usage[] =
    "Usage: fedworker train --model MODEL --data DIR [options]\n"
    "       mpirun -n N fedworker train --link mpi --model MODEL --data DIR [options]\n"
    "       fedworker launch [options] -- mpirun -n N fedworker train --link mpi [options]\n"
    "       fedworker predict --model MODEL [options]\n"
    "       fedworker devices\n"
    "       fedworker --help | --version\n"
    "\n"
    "Trains one model with several workers, which exchange their gradients at each step.\n"
    "\n"
    "train, which model and data, as fedtrain has them:\n"
    "  --model, --data, --dataset, --train-part, --test-part, --normalise, --augment, --backend,\n"
    "  --epochs, --steps, --optimizer, --seed, --init   see fedtrain --help\n"
    "  --batch N          samples a step of each worker (32)\n"
    "  --lr R             learning rate, if --optimizer names none (0.001)\n"
    "  --device NAME      the GPU of each worker: gpu, opencl:0, cuda:0; gradients stay on it,\n"
    "                     only messages leave it. `fedworker devices` lists GPUs\n"
    "\n"
    "train, the worker group:\n"
    "  --workers N        how many workers (1); with mpi what mpirun says\n"
    "  --link NAME        how workers run: threads, in this process; tcp, as processes; mpi, as\n"
    "                     the processes that mpirun starts (threads)\n"
    "  --collective SPEC  owners, ring, gather, tree:group=N; star is owners:aggregators=1, with\n"
    "                     one rank more, which only sums; nccl: NCCL's all-reduce, with --device\n"
    "                     cuda:N (owners; with --device gather for up to 8 ranks and for sparse\n"
    "                     codecs)\n"
    "  --sync RULE        when workers exchange (ssgd):\n"
    "      ssgd           in float32 at each step\n"
    "      bitsgd         by the codec at each step\n"
    "      local:n=2      at each n-th step the sum of n steps' gradients, by the codec\n"
    "      odsgd          in float32, one step delayed; local weights meanwhile\n"
    "      cdsgd:n=5,k=2  n steps as ssgd, then as odsgd with the codec, but each k-th step in\n"
    "                     float32; k=0: none\n"
    "  --codec SPEC       of gradients, such as 3lc:s=1.75 (float32)\n"
    "  --pull SPEC        of the sums on their way back (float32)\n"
    "  --pull-as WHAT     sum: each worker has the optimizer; model: the owners of the sums have "
    "it,\n"
    "                     and pulls are changes of the model, as 3LC's parameter server has it.\n"
    "                     Needs bitsgd or local, and owners or star (sum)\n"
    "  --nic SPEC         packet: NICs compress float32 instead of a codec; inline: this program\n"
    "                     rounds as such NICs would; :e=10 is the bound 2^-10. Needs bitsgd, "
    "local\n"
    "                     or cdsgd; packet needs --link tcp\n"
    "  --local-lr R       learning rate of local weights (the optimizer's)\n"
    "  --small N          tensors of fewer than N values travel as float32 (256)\n"
    "  --bucket BYTES     bytes of gradient in one message, about (1048576, but without a\n"
    "                     codec 393216 for owners over tcp, and less with aggregators)\n"
    "  --late N           backup workers: a sum does not wait for the N slowest workers\n"
    "\n";

static const char usage_of_results[] =
    "train, processes (--link tcp): all on this machine unless --listen or --join is given:\n"
    "  --listen HOST:PORT wait here for workers of other machines, which must reach HOST\n"
    "  --join HOST:PORT   be a worker of the machine with --listen; give the same options as "
    "there\n"
    "  --secret-file FILE secret that admits a machine; --listen makes it, copy it to the others\n"
    "  --here N           how many workers run on this machine (1)\n"
    "  --host ADDRESS     where the others reach this machine, if it has several addresses;\n"
    "                     --listen 0.0.0.0:PORT needs it\n"
    "  --min N            go on while at least N workers are left (1)\n"
    "  --congestion NAME  the sockets' congestion control, such as reno (the system's)\n"
    "\n"
    "train, results:\n"
    "  --summary FILE     JSON: accuracy, digest, bytes and seconds of each worker\n"
    "  --trace FILE       spans for ui.perfetto.dev or chrome://tracing\n"
    "  --checkpoint FILE  written after each epoch, or each --every N steps; each rank with\n"
    "                     residuals writes FILE.rank-R-0 or -1 beside it\n"
    "  --resume           go on from the checkpoint, if there is one, to the same bits\n"
    "  --rate MBIT        of the workers' lines, for the predicted time of a step\n"
    "\n"
    "Ctrl-C ends train after a step, with the checkpoint written; a second one at once. With\n"
    "--listen, --join or mpi it ends at the next pause: see --every.\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted.\n"
    "\n";

enum { EXIT_USAGE = 2, EXIT_INTERRUPTED = 130, TRAIN = 1 };

static fed_status read_rate(const char *value, const char *option, float *rate, fed_error *err) {
    double number = 0;
    if (!fed_word_number((fed_word){value, strlen(value)}, &number) || !(number > 0) ||
        number > 1e6) {
        return fed_fail(err, FED_EINVAL, "--%s is a number above 0, not %.60s", option, value);
    }
    *rate = (float)number;
    return FED_OK;
}

static fed_status take_lr(const char *value, void *values, fed_error *err) {
    return read_rate(value, "lr", &((fedworker_options *)values)->learning_rate, err);
}

static fed_status take_local_lr(const char *value, void *values, fed_error *err) {
    return read_rate(value, "local-lr", &((fedworker_options *)values)->local_rate, err);
}

#define AT(member) offsetof(fedworker_options, member)
#define TEXT(name, member)                                                                         \
    { name, OPTION_TEXT, AT(member), 0, 0, TRAIN, NULL }
#define FLAG(name, member)                                                                         \
    { name, OPTION_FLAG, AT(member), 0, 0, TRAIN, NULL }
#define COUNT(name, member, low)                                                                   \
    { name, OPTION_NUMBER, AT(member), low, UINT32_MAX, TRAIN, NULL }
static const option_row train_rows[] = {
    TEXT("model", app.model),
    TEXT("data", app.data),
    TEXT("dataset", app.dataset),
    TEXT("train-part", app.train_part),
    TEXT("test-part", app.test_part),
    FLAG("normalise", app.normalise),
    TEXT("augment", app.augment),
    TEXT("backend", app.backend),
    TEXT("device", app.device),
    COUNT("epochs", app.epochs, 1),
    COUNT("steps", app.steps, 1),
    TEXT("optimizer", app.optimizer),
    COUNT("seed", app.seed, 0),
    TEXT("init", app.init),
    COUNT("batch", app.batch, 1),
    {"lr", OPTION_OTHER, 0, 0, 0, TRAIN, take_lr},
    {"workers", OPTION_NUMBER, AT(workers), 1, FEDDC_RANKS, TRAIN, NULL},
    TEXT("link", link),
    TEXT("collective", collective),
    TEXT("sync", sync),
    TEXT("codec", codec),
    TEXT("pull", pull),
    TEXT("pull-as", pull_as),
    TEXT("nic", nic),
    {"local-lr", OPTION_OTHER, 0, 0, 0, TRAIN, take_local_lr},
    COUNT("small", small, 1),
    COUNT("bucket", bucket, 1),
    COUNT("late", late, 0),
    TEXT("summary", summary),
    TEXT("trace", trace),
    TEXT("checkpoint", app.checkpoint),
    FLAG("resume", app.resume),
    COUNT("every", every, 1),
    COUNT("rate", rate, 1),
    TEXT("congestion", congestion),
    TEXT("listen", listen),
    TEXT("join", join),
    TEXT("secret-file", secret_file),
    TEXT("host", host),
    {"here", OPTION_NUMBER, AT(here), 1, FEDDC_RANKS, TRAIN, NULL},
    {"min", OPTION_NUMBER, AT(min), 1, FEDDC_RANKS, TRAIN, NULL},
};
#undef AT
#undef TEXT
#undef FLAG
#undef COUNT

static fed_status parse_options(int argc, char **argv, fedworker_options *o, fed_error *err) {
    int words = 0;
    FED_TRY(option_table_read(train_rows, sizeof train_rows / sizeof train_rows[0], TRAIN, argc,
                              argv, o, &words, err));
    if (words != argc) {
        return fed_fail(err, FED_EINVAL,
                        "\"%.200s\" is not expected here: train takes only options", argv[words]);
    }
    return FED_OK;
}

static fed_status check_options(fedworker_options *o, fed_error *err) {
    app_options *app = &o->app;
    FED_TRY(device_option_settle(app->device, &app->backend, err));
    if (app->model == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--model is missing: give a name that `fedtrain models` lists, a text of "
                        "layers, or @FILE");
    }
    if (app->epochs > 0 && app->steps > 0) {
        return fed_fail(err, FED_EINVAL,
                        "--epochs and --steps both say when to end: give only one of them");
    }
    if ((app->resume || o->every > 0) && app->checkpoint == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--resume and --every need --checkpoint FILE: give it, too");
    }
    if (app->resume && app->init != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--resume and --init both say how to begin: give only one of them");
    }
    app->epochs = app->epochs == 0 && app->steps == 0 ? 1 : app->epochs;
    return FED_OK;
}

static fed_status train(int argc, char **argv, bool *wrong, fed_error *err) {
    fedworker_options o = {.app = {.dataset = "mnist",
                                   .train_part = "train",
                                   .test_part = "test",
                                   .optimizer = "adam",
                                   .augment = "",
                                   .batch = 32,
                                   .seed = 1},
                           .link = "threads",
                           .sync = "ssgd",
                           .workers = 1};
    fedworker_job job = {0};
    if (option_is_given("--server", argc, argv)) {
        return fedworker_serve(argc, argv, wrong, err);
    }
    *wrong = true;
    FED_TRY(parse_options(argc, argv, &o, err));
    FED_TRY(check_options(&o, err));
    *wrong = false;
    fed_status status = fedworker_job_open(&o, &job, err);
    if (status == FED_OK) {
        status = fedworker_group(&job, err);
    }
    fedworker_job_close(&job);
    return status;
}

static fed_status print(fed_status (*command)(int argc, char **argv, fed_writer *out,
                                              fed_error *err),
                        int argc, char **argv, bool *wrong, fed_error *err) {
    fed_writer out;
    fed_writer_growing(&out);
    fed_status status = command(argc, argv, &out, err);
    *wrong = status == FED_EINVAL;
    if (status == FED_OK) {
        fwrite(out.data, 1, out.len, stdout);
    }
    fed_writer_free(&out);
    return status;
}

static fed_status predict(int argc, char **argv, bool *wrong, fed_error *err) {
    return print(fedworker_predict, argc, argv, wrong, err);
}

static fed_status devices(int argc, char **argv, bool *wrong, fed_error *err) {
    return print(fedworker_devices, argc, argv, wrong, err);
}

static fed_status launch(int argc, char **argv, bool *wrong, fed_error *err) {
    int code = 0;
    const fed_status status = fedworker_launch(argc, argv, &code, err);
    *wrong = status == FED_EINVAL;
    if (status == FED_OK && code != 0) {
        exit(code); /* the exit status of the job's command, which has printed its own error */
    }
    return status;
}

static const struct {
    const char *name;
    fed_status (*run)(int argc, char **argv, bool *wrong, fed_error *err);
} commands[] = {{"train", train}, {"predict", predict}, {"launch", launch}, {"devices", devices}};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int end(fed_status status, bool wrong, fed_error *err) {
    if (status == FED_ECANCELED) {
        return EXIT_INTERRUPTED; /* the user was told */
    }
    if (status == FED_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        status = fed_fail(err, FED_EIO, "can't write to standard output: %s", strerror(errno));
    }
    if (status != FED_OK) {
        fprintf(stderr, "fedworker: %s%s\n",
                err->text[0] != '\0' ? err->text : fed_status_text(status),
                wrong ? " (fedworker --help tells more)" : "");
    }
    return status == FED_OK ? EXIT_SUCCESS : wrong ? EXIT_USAGE : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    (void)signal(SIGPIPE, SIG_IGN); /* the program that reads the output may end first */
    if (option_is_given("--help", argc, argv) || option_is_given("-h", argc, argv)) {
        printf("%s%s%s%s\n%s\n%s", usage, usage_of_results, fedworker_serve_usage,
               fedworker_predict_usage, fedworker_launch_usage, fedworker_devices_usage);
        return EXIT_SUCCESS;
    }
    if (strcmp(command, "--version") == 0) {
        printf("fedworker %s (%s)\n", FED_VERSION, fed_build_id());
        return EXIT_SUCCESS;
    }
    fed_error err = {0};
    for (size_t k = 0; k < COMMANDS; k++) {
        if (strcmp(command, commands[k].name) == 0) {
            bool wrong = false;
            const fed_status status = commands[k].run(argc - 1, argv + 1, &wrong, &err);
            return end(status, wrong, &err);
        }
    }
    const char *names[COMMANDS + 1] = {NULL};
    for (size_t k = 0; k < COMMANDS; k++) {
        names[k] = commands[k].name;
    }
    return end(fed_command_refuse(command, names, &err), true, &err);
}
