/* fedcodec: encode raw float32 files, decode and inspect envelopes, list the codecs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/file.h"
#include "fed/version.h"
#include "fedcodec/envelope.h"

enum { EXIT_USAGE = 2, FILE_MODE = 0644 };

static const char usage[] =
    "usage: fedcodec encode --codec SPEC IN OUT   raw little-endian float32 values to an envelope\n"
    "       fedcodec decode IN OUT                an envelope to raw values, tensor after tensor\n"
    "       fedcodec info FILE                    what an envelope holds\n"
    "       fedcodec list                         the codecs and their parameters\n"
    "       fedcodec --help | --version\n"
    "\n"
    "SPEC is a codec's name with its parameters, such as float32, 3lc:s=1.75 or sbc:p=0.01.\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

static int fail(const fed_error *err) {
    fprintf(stderr, "fedcodec: %s\n", err->text);
    return EXIT_FAILURE;
}

static int fail_file(const char *path, const fed_error *err) {
    fprintf(stderr, "fedcodec: %s: %s\n", path, err->text);
    return EXIT_FAILURE;
}

static int fail_memory(void) {
    fputs("fedcodec: out of memory\n", stderr);
    return EXIT_FAILURE;
}

static int fail_usage(const char *what, const char *word) {
    fprintf(stderr, "fedcodec: %s%s%s\nTry fedcodec --help.\n", what, word[0] ? " " : "", word);
    return EXIT_USAGE;
}

/* What is printed is a result: it must arrive. */
static int finish_output(void) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "fedcodec: writing to standard output failed: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* encode */

/* The file's values, through float32's own decoder, which also refuses NaN and infinity. */
static float *read_values(const char *path, size_t *n, fed_error *err) {
    uint8_t *data = NULL;
    size_t len = 0;
    if (fed_file_read(path, SIZE_MAX - 1, &data, &len, err) != FED_OK) {
        return NULL;
    }
    float *values = NULL;
    const fedcodec_vtable *raw = fedcodec_by_id(1);
    if (len % sizeof *values != 0) {
        fed_fail(err, FED_EFORMAT,
                 "%s: %zu bytes are not a whole number of float32 values (4 bytes each)", path,
                 len);
    } else if (len / sizeof *values > UINT32_MAX) {
        fed_fail(err, FED_ERANGE, "%s: a tensor has at most %u values", path, UINT32_MAX);
    } else if ((values = malloc(len + 1)) == NULL) {
        fed_fail(err, FED_ENOMEM, "%s: out of memory for %zu bytes", path, len);
    } else if (fedcodec_decode(raw, data, len, values, len / sizeof *values) != FED_OK) {
        fed_fail(err, FED_ENONFINITE, "%s: holds NaN or infinity, which no codec can carry", path);
        free(values);
        values = NULL;
    }
    *n = len / sizeof *values;
    free(data);
    return values;
}

static fed_status encode_values(const fedcodec *codec, float *values, size_t n, fed_writer *out) {
    fed_tensor tensor = {.name = "values", .rank = 1, .dims = {(uint32_t)n}, .size = n};
    fed_layout layout = {.tensors = &tensor, .count = 1, .size = n};
    void *work = malloc(fedcodec_envelope_work_size(codec, &layout, 0) + 1);
    FED_REQUIRE(work != NULL, FED_ENOMEM);
    fed_status status = fedcodec_envelope_encode(codec, &layout, 0, values, NULL, work, out);
    free(work);
    return status;
}

static void print_size(uint64_t n, size_t len) {
    printf("%llu values, %zu bytes", (unsigned long long)n, len);
    if (n > 0) {
        printf(", x%.2f smaller, %.4f bits per value", 4.0 * (double)n / (double)len,
               8.0 * (double)len / (double)n);
    }
}

static int encode(const char *spec, const char *in, const char *out) {
    fed_error err = {.status = FED_OK};
    fedcodec codec;
    if (fedcodec_parse(spec, &codec, &err) != FED_OK) {
        fail(&err);
        return EXIT_USAGE;
    }
    size_t n = 0;
    float *values = read_values(in, &n, &err);
    if (values == NULL) {
        return fail(&err);
    }
    int result = EXIT_FAILURE;
    fed_writer message;
    fed_writer_growing(&message);
    if (encode_values(&codec, values, n, &message) != FED_OK) {
        result = fail_memory(); /* everything else was checked above */
    } else if (fed_file_replace(out, message.data, message.len, FILE_MODE, &err) != FED_OK) {
        result = fail(&err);
    } else {
        char canonical[FEDCODEC_SPEC];
        fedcodec_format(&codec, canonical);
        printf("%s: ", canonical);
        print_size(n, message.len);
        putchar('\n');
        result = finish_output();
    }
    fed_writer_free(&message);
    free(values);
    return result;
}

/* decode, info */

static fed_status next_frame(fedcodec_envelope *envelope, fedcodec_frame *frame, fed_error *err) {
    FED_TRY(fedcodec_envelope_next(envelope, frame, err));
    float max_abs;
    if (frame->codec->check(frame->data, frame->len, (size_t)frame->n, &max_abs) != FED_OK) {
        return fed_fail(err, FED_EFORMAT,
                        "tensor %llu: its %zu bytes are not a valid %s message of %llu values",
                        (unsigned long long)envelope->next, frame->len, frame->codec->name,
                        (unsigned long long)frame->n);
    }
    return FED_OK;
}

/* Append the frame's values as float32's own bytes. */
static fed_status put_values(const fedcodec_frame *frame, fed_writer *out, fed_error *err) {
    size_t n = (size_t)frame->n;
    const fedcodec raw = {.vtable = fedcodec_by_id(1)};
    float *values = malloc(n * sizeof *values + 1);
    uint8_t *dst = values != NULL ? fed_writer_reserve(out, fedcodec_bound(&raw, n)) : NULL;
    fed_status status = FED_ENOMEM;
    if (dst != NULL) {
        size_t len = 0;
        status = fedcodec_decode(frame->codec, frame->data, frame->len, values, n);
        if (status == FED_OK) {
            status =
                fedcodec_encode(&raw, values, NULL, n, NULL, dst, fedcodec_bound(&raw, n), &len);
        }
        fed_writer_advance(out, len);
    }
    free(values);
    return status == FED_OK ? FED_OK : fed_fail(err, status, "no memory for %zu values", n);
}

/* What is done with an envelope's frames; number counts from 1. */
typedef fed_status visit_frame(void *user, uint64_t number, const fedcodec_frame *frame,
                               fed_error *err);

static int on_each_frame(const char *path, visit_frame *visit, void *user) {
    fed_error err = {.status = FED_OK};
    uint8_t *data = NULL;
    size_t len = 0;
    if (fed_file_read(path, SIZE_MAX - 1, &data, &len, &err) != FED_OK) {
        return fail(&err);
    }
    fedcodec_envelope envelope;
    fedcodec_frame frame;
    fed_status status = fedcodec_envelope_open(&envelope, data, len, &err);
    while (status == FED_OK) {
        status = next_frame(&envelope, &frame, &err);
        if (status == FED_OK) {
            status = visit(user, envelope.next, &frame, &err);
        }
    }
    free(data);
    return status == FED_ENOTFOUND ? EXIT_SUCCESS : fail_file(path, &err); /* that is the end */
}

static fed_status visit_decode(void *user, uint64_t number, const fedcodec_frame *frame,
                               fed_error *err) {
    (void)number;
    return put_values(frame, user, err);
}

static int decode(const char *in, const char *out) {
    fed_writer values;
    fed_writer_growing(&values);
    int result = on_each_frame(in, visit_decode, &values);
    fed_error err = {.status = FED_OK};
    if (result == EXIT_SUCCESS &&
        fed_file_replace(out, values.data, values.len, FILE_MODE, &err) != FED_OK) {
        result = fail(&err);
    }
    fed_writer_free(&values);
    return result;
}

static fed_status visit_info(void *user, uint64_t number, const fedcodec_frame *frame,
                             fed_error *err) {
    (void)user;
    (void)err;
    printf("tensor %llu: %s, ", (unsigned long long)number, frame->codec->name);
    print_size(frame->n, frame->len);
    putchar('\n');
    return FED_OK;
}

static int info(const char *path) {
    int result = on_each_frame(path, visit_info, NULL);
    return result == EXIT_SUCCESS ? finish_output() : result;
}

/* list */

static void list_names(const fedcodec_param *param) {
    printf("         %s=%s  %s;", param->key, param->names[(size_t)param->preset], param->help);
    for (size_t k = 0; param->names[k] != NULL; k++) {
        printf("%s %s", k > 0 ? "," : "", param->names[k]);
    }
    putchar('\n');
}

static int list(void) {
    const fedcodec_vtable *codec;
    for (size_t k = 0; (codec = fedcodec_at(k)) != NULL; k++) {
        printf("%-8s %s\n", codec->name, codec->about);
        for (const fedcodec_param *param = codec->params; param->key != NULL; param++) {
            if (param->names != NULL) {
                list_names(param);
            } else {
                printf("         %s=%g  %s; %g to %g\n", param->key, param->preset, param->help,
                       param->low, param->high);
            }
        }
    }
    return finish_output();
}

static int run_encode(int argc, char **argv) {
    const char *spec = NULL, *file[2] = {NULL, NULL};
    int files = 0;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--codec") == 0) {
            if (++i == argc) {
                return fail_usage("--codec needs a SPEC", "");
            }
            spec = argv[i];
        } else if (argv[i][0] == '-') {
            return fail_usage("encode has no option", argv[i]);
        } else if (files == 2) {
            return fail_usage("encode takes two files; one too many is", argv[i]);
        } else {
            file[files++] = argv[i];
        }
    }
    if (spec == NULL || files < 2) {
        return fail_usage("encode needs --codec SPEC, IN and OUT", "");
    }
    return encode(spec, file[0], file[1]);
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        fputs(usage, stdout);
        return finish_output();
    }
    if (strcmp(command, "--version") == 0) {
        printf("fedcodec %s\n", FED_VERSION);
        return finish_output();
    }
    if (strcmp(command, "encode") == 0) {
        return run_encode(argc, argv);
    }
    if (strcmp(command, "decode") == 0) {
        return argc == 4 ? decode(argv[2], argv[3]) : fail_usage("decode takes IN and OUT", "");
    }
    if (strcmp(command, "info") == 0) {
        return argc == 3 ? info(argv[2]) : fail_usage("info takes one FILE", "");
    }
    if (strcmp(command, "list") == 0) {
        return argc == 2 ? list() : fail_usage("list takes nothing", "");
    }
    return fail_usage(argc > 1 ? "unknown command" : "a command is missing", command);
}
