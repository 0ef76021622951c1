/* The fedtrain program, run as a user runs it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/checkpoint.h"
#include "fed/gpu.h"
#include "fed_digits.h"
#include "fed_program.h"

static fed_model load(const fed_program *f, const char *name) {
    char path[512];
    fed_error err = {0};
    fed_model model;
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    assert_fed_ok_err(fed_checkpoint_load(path, &model, &err));
    return model;
}

static void assert_same_weights(const fed_program *f, const char *a, const char *b,
                                double tolerance) {
    fed_model x = load(f, a), y = load(f, b);
    fed_error err = {0};
    assert_fed_ok_err(fed_layout_match(&x.layout, &y.layout, &err));
    for (size_t i = 0; i < x.layout.size; i++) {
        assert_true(fabs((double)x.values[i] - (double)y.values[i]) <= tolerance);
    }
    fed_model_free(&x);
    fed_model_free(&y);
}

static bool exists(const fed_program *f, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    return access(path, F_OK) == 0;
}

static int set_up(void **state) {
    static fed_program f;
    fed_program_open(&f, "fedtrain");
    fed_digits_write(f.directory, 300, 100);
    *state = &f;
    return 0;
}

FED_TEST_WITH(training_learns_and_its_checkpoint_is_measured_alike, fed_program *f) {
    assert_runs(f,
                "train --model lr --data . --epochs 5 --normalise --csv curve.csv "
                "--optimizer momentum:lr=0.01 --checkpoint lr.safetensors",
                0, "epoch 5, step 50: training loss");
    assert_says(f, "accuracy 100.00 %");
    assert_runs(f, "evaluate --weights lr.safetensors --data .", 0,
                "accuracy 100.00 % (100 of 100 right)");
}

FED_TEST_WITH(a_device_trains_and_measures, fed_program *f) {
    fed_gpu *gpu;
    if (fed_gpu_open("gpu", NULL, &gpu, NULL) != FED_OK) {
        skip();
    }
    char says[200];
    snprintf(says, sizeof says, "MB of memory, %s", fed_gpu_info_of(gpu)->card);
    fed_gpu_close(gpu);
    assert_runs(f,
                "train --model 'input 1x28x28 | conv 3 5x5 stride 4 | relu | dense 10' --data . "
                "--epochs 4 --normalise --optimizer momentum:lr=0.01 --device gpu --checkpoint g",
                0, "");
    assert_says(f, says);
    assert_says(f, "accuracy 100.00 %");
    assert_runs(f, "evaluate --weights g --data . --device gpu", 0,
                "accuracy 100.00 % (100 of 100 right)");
}

FED_TEST_WITH(weights_from_elsewhere_are_measured_on_normalised_samples, fed_program *f) {
    assert_runs(f, "train --model lr --data . --normalise --checkpoint c", 0, "");
    assert_runs(f, "evaluate --weights c --data .", 0, "");
    char same[8192];
    snprintf(same, sizeof same, "%s", f->out);
    fed_model model = load(f, "c");
    model.layout.count = 2;
    model.layout.size = 7850;
    char path[512];
    fed_error err = {0};
    snprintf(path, sizeof path, "%s/bare", f->directory);
    assert_fed_ok_err(fed_checkpoint_save(path, &model.layout, model.values, NULL, &err));
    fed_model_free(&model);
    assert_runs(f, "evaluate --weights bare --data .", 1, "does not name its model");
    assert_runs(f, "evaluate --weights bare --data . --model lr", 0, "");
    assert_string_not_equal(f->out, same);
    assert_runs(f, "evaluate --weights bare --data . --model lr --normalise", 0, "");
    assert_string_equal(f->out, same);
}

static size_t read_curve(const fed_program *f, char *head, size_t cap) {
    char path[512], line[300];
    size_t lines = 0;
    snprintf(path, sizeof path, "%s/curve.csv", f->directory);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(head, (int)cap, file));
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long epoch, step;
        double rate, train, test, accuracy, seconds;
        assert_int_equal(sscanf(line, "%lu,%lu,%lf,%lf,%lf,%lf,%lf", &epoch, &step, &rate, &train,
                                &test, &accuracy, &seconds),
                         7);
        assert_int_equal(epoch, ++lines);
        assert_true(accuracy >= 0 && accuracy <= 1);
    }
    fclose(file);
    return lines;
}

FED_TEST_WITH(training_that_goes_on_is_as_if_it_had_never_stopped, fed_program *f) {
    static const char net[] =
        "--model 'input 1x28x28 | conv 3 5x5 stride 2 | bn | relu | maxpool 2 | dropout 0.2 | "
        "dense 10'"
        " --backend reference --data . --augment crop=2,flip=1 --batch 20 --optimizer "
        "adam:lr=0.002+warmup:steps=20";
    char args[600], head[300];
    snprintf(args, sizeof args, "train %s --epochs 3 --checkpoint whole", net);
    assert_runs(f, args, 0, "");
    snprintf(args, sizeof args, "train %s --epochs 1 --checkpoint part --resume --csv curve.csv",
             net);
    assert_runs(f, args, 0, "--resume found no checkpoint");
    snprintf(args, sizeof args, "train %s --steps 22 --checkpoint part --resume", net);
    assert_runs(f, args, 0, "going on after step 15");
    snprintf(args, sizeof args, "train %s --epochs 3 --checkpoint part --resume --csv curve.csv",
             net);
    assert_runs(f, args, 0, "going on after step 22");
    assert_same_weights(f, "whole", "part", 0);
    assert_runs(f, args, 0, "that was the last one");
    assert_true(read_curve(f, head, sizeof head) == 3);
    assert_string_equal(head,
                        "epoch,step,learning_rate,train_loss,test_loss,test_accuracy,seconds\n");
}

FED_TEST_WITH(another_training_does_not_overwrite_or_go_on_with_a_checkpoint, fed_program *f) {
    assert_runs(f, "train --model lr --data . --checkpoint c", 0, "");
    assert_runs(f, "train --model lr --data . --checkpoint c", 1,
                "c exists already: give --resume");
    assert_runs(f, "train --model lr --data . --checkpoint c --resume --batch 8", 1,
                "another batch, \"32\" and not \"8\"");
    assert_runs(f, "train --model mlp --data . --checkpoint c --resume", 1, "another model");
    assert_runs(f, "export --weights c plain.safetensors", 0, "");
    assert_runs(f, "train --model lr --data . --checkpoint plain.safetensors --resume", 1,
                "is no checkpoint of fedtrain");
}

static int run_interrupted(fed_program *f) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (chdir(f->directory) == 0) {
            execl(FED_BIN_DIR "/fedtrain", "fedtrain", "train", "--model", "lr", "--data", ".",
                  "--epochs", "1000000", "--checkpoint", "c", (char *)NULL);
        }
        _exit(127);
    }
    close(ends[1]);
    size_t len = 0;
    bool sent = false;
    for (ssize_t got; (got = read(ends[0], f->out + len, 1)) > 0;) {
        len += len + 2 < sizeof f->out ? (size_t)got : 0;
        f->out[len] = '\0';
        if (!sent && strstr(f->out, "epoch 1,") != NULL) {
            assert_int_equal(kill(pid, SIGINT), 0);
            sent = true;
        }
    }
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

FED_TEST_WITH(an_interrupted_training_keeps_what_it_has, fed_program *f) {
    assert_int_equal(run_interrupted(f), 130);
    assert_says(f, "stopped after step");
    assert_says(f, "--resume goes on from c");
    assert_runs(f, "evaluate --weights c --data .", 0, "");
}

FED_TEST_WITH(weights_are_exported_under_their_names_and_begin_a_training, fed_program *f) {
    assert_runs(f, "train --model lenet5-caffe --data . --steps 2 --checkpoint c", 0, "");
    assert_runs(f, "export --weights c lenet.safetensors", 0, "");
    fed_model model = load(f, "lenet.safetensors");
    assert_int_equal(model.layout.count, 8);
    assert_int_equal(model.layout.size, 431080);
    assert_string_equal(model.layout.tensors[0].name, "conv1.weight");
    fed_model_free(&model);
    assert_runs(f,
                "train --model lenet5-caffe --data . --steps 1 --init lenet.safetensors "
                "--optimizer sgd:lr=1e-20 --checkpoint same",
                0, "");
    assert_runs(f, "export --weights same same.safetensors", 0, "");
    assert_same_weights(f, "lenet.safetensors", "same.safetensors", 1e-15);
    assert_runs(f, "export --weights c lenet.onnx", 0, "");
    assert_true(exists(f, "lenet.onnx"));
    assert_runs(f, "export --weights c lenet.txt", 1, ".onnx or .safetensors");
    assert_runs(f, "export --weights c --model lr lr.onnx", 1, "not the weights of this model");
    assert_false(exists(f, "lr.onnx"));
}

FED_TEST_WITH(a_language_model_is_measured_by_its_perplexity, fed_program *f) {
    static const char model[] = "input tokens 4 of 12 | embedding 8 | lstm 8 | dense 12 each";
    static const char text[] = "the cat sees the dog and the dog sees the cat\n";
    char words[sizeof text * 20] = "";
    for (int i = 0; i < 20; i++) {
        strcat(words, text);
    }
    fed_test_put(f->directory, "train.txt", words, strlen(words));
    fed_test_put(f->directory, "test.txt", words, sizeof text * 3);
    fed_test_put(f->directory, "model.txt", model, strlen(model));
    assert_runs(f,
                "train --model @model.txt --dataset words --data . --batch 4 --epochs 30 "
                "--optimizer adam:lr=0.02 --checkpoint c --csv curve.csv",
                0, "perplexity 1.");
    assert_runs(f, "evaluate --weights c --dataset words --data . --batch 1", 0, "perplexity 1.");
    assert_runs(f, "export --weights c c.onnx", 0, "");
    assert_runs(f, "train --model lr --dataset words --data .", 1,
                "a text needs a model of tokens");
    assert_runs(f, "train --model @model.txt --dataset words --data . --augment flip=1", 1,
                "--augment is for pictures");
    assert_runs(f, "train --model @model.txt --dataset words --data . --normalise", 1,
                "--normalise is for numbers, which a text");
}

static void write_line_table(const fed_program *f) {
    char text[200 * 40];
    size_t len = (size_t)snprintf(text, sizeof text, "a,b,y\n");
    for (int k = 0; k < 200; k++) {
        const double a = k % 21 / 10.0 - 1, b = k % 13 / 6.0 - 1;
        len += (size_t)snprintf(text + len, sizeof text - len, "%.4f,%.4f,%.4f\n", a, b,
                                3 * a - 2 * b + 0.5);
    }
    fed_test_put(f->directory, "train.csv", text, len);
    fed_test_put(f->directory, "test.csv", text, len);
}

FED_TEST_WITH(a_model_learns_to_predict_a_number, fed_program *f) {
    double loss = 1;
    write_line_table(f);
    assert_runs(f,
                "train --model 'input 2 | dense 1 | mse' --data . --dataset csv:target=y "
                "--epochs 30 --optimizer sgd:lr=0.1 --checkpoint y.safetensors --csv y.csv",
                0, "");
    assert_runs(f, "evaluate --weights y.safetensors --data . --dataset csv:target=y", 0, "");
    assert_int_equal(sscanf(f->out, "mean squared error %lf (200 samples)", &loss), 1);
    assert_true(loss < 1e-4);
    assert_null(strstr(f->out, "accuracy"));
}

FED_TEST_WITH(targets_and_classes_need_models_of_their_kind, fed_program *f) {
    write_line_table(f);
    assert_runs(
        f, "train --model 'input 2 | dense 2' --data . --dataset csv:target=y", 1,
        "the data has numbers to predict, the model tells classes apart: end the model with");
    assert_runs(f, "train --model 'input 2 | dense 3 | mse' --data . --dataset csv:target=y", 1,
                "one number to predict for each sample, the model gives 3");
    assert_runs(f, "train --model 'input 784 | dense 1 | mse' --data .", 1,
                "the data has classes, the model predicts numbers (mse): open a table as");
}

FED_TEST_WITH(models_are_listed_with_their_sizes, fed_program *f) {
    assert_runs(f, "models --batch 2 lr lenet5-caffe 'input 3 | dense 2'", 0, "784        7850");
    assert_says(f, "1x28x28      431080");
    assert_says(f, "input 3 | dense 2                  3           8");
}

FED_TEST_WITH(what_is_wrong_on_the_command_line_is_named, fed_program *f) {
    static const struct {
        const char *args, *words;
        int status;
    } wrong[] = {
        {"", "a command is missing", 2},
        {"trian", "unknown command trian", 2},
        {"train --wrong", "unknown option --wrong", 2},
        {"train --device abacus --data .", "--device abacus: a device is called gpu", 2},
        {"train --device gpu --backend fast --data .", "give only one of them", 2},
        {"train --model", "a value is missing after --model", 2},
        {"train --model lr --data . --batch 0",
         "--batch is a whole number from 1 to 4294967295, not 0", 2},
        {"train --model lr --data . --batch 3x", "not 3x", 2},
        {"train --model lr --data . --epochs 1 --steps 1", "give only one of them", 2},
        {"train --model lr --data . --resume", "--resume needs --checkpoint", 2},
        {"train --model lr --data . more", "\"more\" is one argument too many", 2},
        {"evaluate --csv x", "evaluate has no option --csv", 2},
        {"train --data .", "--model is missing", 1},
        {"train --model lr", "--data DIR is missing", 1},
        {"train --model lr --data none", "none/train-images-idx3-ubyte", 1},
        {"train --model nothing --data .", "nothing", 1},
        {"train --model lr --data . --optimizer adm", "adm", 1},
        {"train --model lr --data . --augment corp=1", "corp", 1},
        {"train --model 'input 3 | dense 10' --data .",
         "784 values (1x28x28), the model takes 3 (3x1x1)", 1},
        {"train --model lr --data . --checkpoint none/c", "none/c", 1},
        {"train --model lr --data . --csv none/c", "none/c", 1},
        {"train --model mlp --data . --optimizer sgd:lr=1e20", "training may diverge", 1},
        {"evaluate --data .", "--weights FILE is missing", 1},
        {"evaluate --weights none --data .", "none", 1},
        {"export --weights none", "export needs a file to write", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_runs(f, wrong[i].args, wrong[i].status, wrong[i].words);
        assert_says(f, "fedtrain: ");
    }
}

FED_TEST_WITH(help_and_version_are_printed, fed_program *f) {
    assert_runs(f, "--help", 0, "Usage: fedtrain train");
    assert_runs(f, "train --model lr --help", 0, "Usage: fedtrain train");
    assert_runs(f, "--version", 0, "fedtrain ");
}

int main(void) {
    return fed_cases_run_each(set_up, fed_program_teardown);
}
