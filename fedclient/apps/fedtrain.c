/* fedtrain: train, measure and export models on one machine, without any federation. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/command_line.h"
#include "fed/version.h"
#include "fedclient/apps/device_option.h"
#include "fedclient/apps/fedtrain.h"
#include "fedclient/apps/option_table.h"

static const char usage[] =
    "Usage: fedtrain train --model MODEL --data DIR [options]\n"
    "       fedtrain evaluate --weights FILE --data DIR [options]\n"
    "       fedtrain export --weights FILE [--model MODEL] OUT.onnx | OUT.safetensors\n"
    "       fedtrain models [--batch N] [--optimizer SPEC] [MODEL...]\n"
    "       fedtrain --help | --version\n"
    "\n"
    "Trains on this machine alone: the baseline that federated training is compared with.\n"
    "\n"
    "  --model MODEL      a name that `fedtrain models` lists, a text such as\n"
    "                     \"input 784 | dense 10\", or @FILE with such a text\n"
    "  --data DIR         where the data is\n"
    "  --dataset NAME     which data set: mnist, fashion-mnist, cifar10, cifar100, csv,\n"
    "                     csv:label=COLUMN or csv:target=COLUMN (numbers to predict, for a model\n"
    "                     with mse); for language models ptb, shakespeare, words or chars,\n"
    "                     with :vocabulary=N behind the name for only the N most frequent words\n"
    "                     (default mnist)\n"
    "  --train-part PART, --test-part PART   which files (train, test)\n"
    "  --weights FILE     safetensors: a checkpoint, or what PyTorch saved of the same layers\n"
    "  --batch N          samples a step (32)\n"
    "  --normalise        give each channel mean 0 and deviation 1. The checkpoint keeps the "
    "means\n"
    "                     and deviations, so evaluate needs this option only for weights of "
    "others\n"
    "  --backend NAME     what computes: fast; bfloat16, which multiplies in bfloat16; or the\n"
    "                     slow reference\n"
    "  --device NAME      train on a GPU: gpu, opencl:0, cuda:0 (`fedworker devices` lists them)\n"
    "\n"
    "train:\n"
    "  --epochs N         passes through the data (1); or\n"
    "  --steps N          steps in all\n"
    "  --optimizer SPEC   such as momentum:lr=0.1,decay=5e-4+cosine:steps=5000; of sgd, momentum,\n"
    "                     adam and adamw, with warmup, step, cosine, stall, clip, prox behind "
    "'+';\n"
    "                     lr is 0.001 if not given (default adam)\n"
    "  --augment SPEC     crop=4,flip=1: cut pictures out of a margin of 4 pixels, mirror half\n"
    "  --seed N           seed of the first weights, the order of samples and dropout (1)\n"
    "  --init FILE        begin with these weights: a checkpoint's, or PyTorch's\n"
    "  --checkpoint FILE  written after each epoch: weights, optimizer, and where training is\n"
    "  --resume           go on from the checkpoint, if there is one, to the same bits\n"
    "  --csv FILE         the curve: a line an epoch\n"
    "\n"
    "Ctrl-C ends after the step, with the checkpoint written; a second one at once.\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage, 130 interrupted.\n";

enum { EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

static void on_signal(int number) {
    (void)number;
    app_interrupted = 1;
}

enum { TRAIN = 1, EVALUATE = 2, EXPORT = 4, MODELS = 8 };

static const struct {
    const char *name;
    unsigned bit;
    size_t words; /* most arguments after the options */
    fed_status (*run)(const app_options *o, fed_error *err);
} commands[] = {{"train", TRAIN, 0, app_train},
                {"evaluate", EVALUATE, 0, app_evaluate},
                {"export", EXPORT, 1, app_export},
                {"models", MODELS, 1000, app_models}};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static fed_status parse_options(int argc, char **argv, unsigned command, app_options *o,
                                fed_error *err) {
#define AT(member) offsetof(app_options, member)
    static const option_row rows[] = {
        {"model", OPTION_TEXT, AT(model), .commands = TRAIN | EVALUATE | EXPORT},
        {"data", OPTION_TEXT, AT(data), .commands = TRAIN | EVALUATE},
        {"dataset", OPTION_TEXT, AT(dataset), .commands = TRAIN | EVALUATE},
        {"train-part", OPTION_TEXT, AT(train_part), .commands = TRAIN | EVALUATE},
        {"test-part", OPTION_TEXT, AT(test_part), .commands = TRAIN | EVALUATE},
        {"weights", OPTION_TEXT, AT(weights), .commands = EVALUATE | EXPORT},
        {"batch", OPTION_NUMBER, AT(batch), 1, UINT32_MAX, TRAIN | EVALUATE | MODELS, NULL},
        {"backend", OPTION_TEXT, AT(backend), .commands = TRAIN | EVALUATE | MODELS},
        {"device", OPTION_TEXT, AT(device), .commands = TRAIN | EVALUATE},
        {"epochs", OPTION_NUMBER, AT(epochs), 1, UINT32_MAX, TRAIN, NULL},
        {"steps", OPTION_NUMBER, AT(steps), 1, UINT32_MAX, TRAIN, NULL},
        {"optimizer", OPTION_TEXT, AT(optimizer), .commands = TRAIN | MODELS},
        {"augment", OPTION_TEXT, AT(augment), .commands = TRAIN},
        {"normalise", OPTION_FLAG, AT(normalise), .commands = TRAIN | EVALUATE},
        {"seed", OPTION_NUMBER, AT(seed), 0, UINT32_MAX, TRAIN, NULL},
        {"init", OPTION_TEXT, AT(init), .commands = TRAIN},
        {"checkpoint", OPTION_TEXT, AT(checkpoint), .commands = TRAIN},
        {"resume", OPTION_FLAG, AT(resume), .commands = TRAIN},
        {"csv", OPTION_TEXT, AT(csv), .commands = TRAIN},
    };
#undef AT
    int words = 0;
    FED_TRY(
        option_table_read(rows, sizeof rows / sizeof rows[0], command, argc, argv, o, &words, err));
    o->words = argv + words;
    o->word_count = (size_t)(argc - words);
    return FED_OK;
}

static fed_status check_options(app_options *o, size_t words, fed_error *err) {
    if (o->word_count > words) {
        return fed_fail(err, FED_EINVAL, "\"%.200s\" is one argument too many", o->words[words]);
    }
    FED_TRY(device_option_settle(o->device, &o->backend, err));
    if (o->epochs > 0 && o->steps > 0) {
        return fed_fail(err, FED_EINVAL,
                        "--epochs and --steps both say when to end: give only one of them");
    }
    if (o->resume && o->checkpoint == NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--resume needs --checkpoint FILE: the file to go on from");
    }
    if (o->resume && o->init != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--resume and --init both say how to begin: give only one of them");
    }
    o->epochs = o->epochs == 0 && o->steps == 0 ? 1 : o->epochs;
    return FED_OK;
}

static int complain(const fed_error *err) {
    fprintf(stderr, "fedtrain: %s (fedtrain --help tells more)\n", err->text);
    return EXIT_USAGE;
}

static int refuse_command(const char *word) {
    fed_error err = {0};
    const char *names[COMMANDS + 1] = {NULL};
    for (size_t k = 0; k < COMMANDS; k++) {
        names[k] = commands[k].name;
    }
    fed_command_refuse(word, names, &err);
    return complain(&err);
}

static int run(size_t k, const app_options *o) {
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL); /* the same signal again ends the program at once */
    sigaction(SIGTERM, &action, NULL);
    fed_error err = {0};
    fed_status status = commands[k].run(o, &err);
    if (status == FED_ECANCELED) {
        return EXIT_INTERRUPTED;
    }
    if (status == FED_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        status = fed_fail(&err, FED_EIO, "can't write to standard output: %s", strerror(errno));
    }
    if (status != FED_OK) {
        fprintf(stderr, "fedtrain: %s\n", err.text[0] != '\0' ? err.text : fed_status_text(status));
    }
    return status == FED_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    (void)signal(SIGPIPE, SIG_IGN); /* the program that reads the output may end first */
    if (option_is_given("--help", argc, argv) || option_is_given("-h", argc, argv)) {
        fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(command, "--version") == 0) {
        printf("fedtrain %s (%s)\n", FED_VERSION, fed_build_id());
        return EXIT_SUCCESS;
    }
    fed_error err = {0};
    size_t k = 0;
    while (k < COMMANDS && strcmp(command, commands[k].name) != 0) {
        k++;
    }
    if (k == COMMANDS) {
        return refuse_command(command);
    }
    app_options o = {.dataset = "mnist",
                     .train_part = "train",
                     .test_part = "test",
                     .optimizer = "adam",
                     .augment = "",
                     .batch = 32,
                     .seed = 1};
    if (parse_options(argc - 1, argv + 1, commands[k].bit, &o, &err) != FED_OK ||
        check_options(&o, commands[k].words, &err) != FED_OK) {
        return complain(&err);
    }
    return run(k, &o);
}
