/* fedcodec: encode files of float32 values, decode and inspect envelopes, compare codecs. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/tool/tool.h"
#include "fed/checkpoint.h"
#include "fed/command_line.h"
#include "fed/file.h"
#include "fed/threads.h"
#include "fed/version.h"
#include "fedcodec/codec_vtable.h"
#include "fedcodec/envelope.h"

static const char usage[] =
    "usage: fedcodec encode --codec SPEC [--small N] [--threads N] IN OUT\n"
    "                                              float32 values to an envelope\n"
    "       fedcodec decode [--like FILE] [--max-bytes N] IN OUT\n"
    "                                              an envelope to values, frame after frame\n"
    "       fedcodec info [--max-bytes N] FILE     show what an envelope holds\n"
    "       fedcodec compare FILE [--codecs SPEC,SPEC...] [--small N] [--format text|csv|json]\n"
    "                [--since FILE] [--tensor NAME] [--cohort N]\n"
    "                                              size, loss and speed of codecs on your tensors\n"
    "       fedcodec list                          the codecs and their parameters\n"
    "       fedcodec --help | --version\n"
    "\n"
    "SPEC is a codec's name with its parameters, such as float32, 3lc:s=1.75 or sbc:p=0.01;\n"
    "+runs, +entropy or +zstd after it packs its message once more, if that makes the message\n"
    "shorter.\n"
    "Files of values are safetensors (float32, float16 or bfloat16) if their name ends in\n"
    ".safetensors; all others are raw float32, little-endian, and one matrix, as square as\n"
    "it can be. Each tensor is a frame of the envelope; but those of fewer than N values\n"
    "(" TOOL_SMALL
    "; 0: none) are one frame together, without a shape, the last. decode writes raw\n"
    "values; with --like, a safetensors file with that one's names and shapes. A few bytes can\n"
    "declare billions of values: decode and info stop before an envelope's values would take\n"
    "more than N bytes (" TOOL_MAX_BYTES
    "). Threads (1; 0: as many as there are processors) encode\n"
    "parts of large tensors side by side, to the same bytes.\n"
    "compare --since FILE takes what has changed since that file: an update, as a device sends\n"
    "it; --tensor NAME takes that tensor alone. Its columns are\n"
    "  bytes        of one message\n"
    "  smaller      times smaller than float32\n"
    "  bits/value   bits of the message for each value\n"
    "  L2 error     2-norm of one message's error, divided by that of the values\n"
    "  of mean      the same of the mean of N messages (--cohort, " TOOL_COHORT "):\n"
    "               what a server gets from N devices with these values, each with its own seed\n"
    "  bias         squared distance from the values to the mean of endless draws, divided by\n"
    "               the values' squared 2-norm. N messages estimate it; below 0 is no bias\n"
    "  variance     squared distance of one message from that mean, divided likewise\n"
    "  MB/s         1,000,000 bytes of float32 values a second\n"
    "All are of first messages. What a residual sends later is not in them.\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

/* Encode the model's values. This overwrites the values. */
static fed_status encode_values(const fedcodec *codec, const fed_model *model, uint32_t small,
                                fed_writer *out) {
    fedcodec unguarded = *codec;
    unguarded.unguarded = true;
    void *work = malloc(fedcodec_envelope_work_size(codec, &model->layout, small) + 1);
    FED_REQUIRE(work != NULL, FED_ENOMEM);
    fed_status status =
        fedcodec_envelope_encode(&unguarded, &model->layout, small, model->values, NULL, work, out);
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

static int encode(const fedcodec *codec, uint32_t small, const char *in, const char *out) {
    fed_error err = {.status = FED_OK};
    fed_model model;
    if (tool_read_tensors(in, &model, &err) != FED_OK) {
        return tool_fail(&err);
    }
    int result = EXIT_FAILURE;
    fed_writer message;
    fed_writer_growing(&message);
    fed_status status = encode_values(codec, &model, small, &message);
    if (status != FED_OK) {
        fed_fail(&err, status, "the values can't be encoded: %s", fed_status_text(status));
        result = tool_fail_file(in, &err);
    } else if (fed_file_replace(out, message.data, message.len, TOOL_FILE_MODE, &err) != FED_OK) {
        result = tool_fail(&err);
    } else {
        char canonical[FEDCODEC_SPEC];
        fedcodec_format(codec, canonical);
        printf("%s: ", canonical);
        print_size(model.layout.size, message.len);
        putchar('\n');
        result = tool_finish_output();
    }
    fed_writer_free(&message);
    fed_model_free(&model);
    return result;
}

/* A frame as it was sent, and the codec's checked message in it. */
typedef struct part {
    uint32_t small; /* the envelope's limit of small tensors */
    fedcodec_frame sent, plain;
    uint8_t *unpacked; /* memory of an unpacked frame, or NULL */
} part;

/* Read and check the next frame. *left: how many bytes of values may still be decoded. */
static fed_status next_part(fedcodec_envelope *envelope, uint64_t *left, part *p, fed_error *err) {
    p->unpacked = NULL;
    FED_TRY(fedcodec_envelope_next(envelope, &p->sent, err));
    const uint64_t bytes = p->sent.n * sizeof(float);
    if (bytes > *left) {
        return fed_fail(
            err, FED_ERANGE,
            "frame %llu declares %llu values, %llu bytes; %llu more are allowed. If you "
            "trust the file, allow more with --max-bytes",
            (unsigned long long)p->sent.number, (unsigned long long)p->sent.n,
            (unsigned long long)bytes, (unsigned long long)*left);
    }
    *left -= bytes;
    p->small = envelope->small;
    p->unpacked = malloc(p->sent.plain_len + 1);
    if (p->unpacked == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for %zu bytes of an unpacked frame",
                        p->sent.plain_len);
    }
    fed_status status = fedcodec_frame_unpack(&p->sent, p->unpacked, &p->plain);
    float max_abs;
    if (status == FED_OK) {
        status = p->plain.codec->check(p->plain.data, p->plain.len, (size_t)p->plain.n, &max_abs);
    }
    if (status != FED_OK) {
        free(p->unpacked);
        p->unpacked = NULL;
        return fed_fail(err, status,
                        "frame %llu: its %zu bytes are not a valid %s message of %llu values",
                        (unsigned long long)p->sent.number, p->sent.len, p->sent.codec->name,
                        (unsigned long long)p->sent.n);
    }
    return FED_OK;
}

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
    return status == FED_OK ? FED_OK : fed_fail(err, status, "out of memory for %zu values", n);
}

typedef fed_status visit_part(void *user, const part *p, fed_error *err);

static int on_each_part(const char *path, uint64_t max_bytes, visit_part *visit, void *user) {
    fed_error err = {.status = FED_OK};
    uint8_t *data = NULL;
    size_t len = 0;
    if (fed_file_read(path, SIZE_MAX - 1, &data, &len, &err) != FED_OK) {
        return tool_fail(&err);
    }
    fedcodec_envelope envelope;
    part p;
    fed_status status = fedcodec_envelope_open(&envelope, data, len, &err);
    while (status == FED_OK) {
        status = next_part(&envelope, &max_bytes, &p, &err);
        if (status == FED_OK) {
            status = visit(user, &p, &err);
            free(p.unpacked);
        }
    }
    free(data);
    return status == FED_ENOTFOUND ? EXIT_SUCCESS : tool_fail_file(path, &err); /* no frame left */
}

static fed_status visit_decode(void *user, const part *p, fed_error *err) {
    return put_values(&p->plain, user, err);
}

static int decode(const char *in, const char *out, uint64_t max_bytes) {
    fed_writer values;
    fed_writer_growing(&values);
    int result = on_each_part(in, max_bytes, visit_decode, &values);
    fed_error err = {.status = FED_OK};
    if (result == EXIT_SUCCESS &&
        fed_file_replace(out, values.data, values.len, TOOL_FILE_MODE, &err) != FED_OK) {
        result = tool_fail(&err);
    }
    fed_writer_free(&values);
    return result;
}

static int decode_into(const char *in, const char *out, const fed_model *model) {
    fed_error err = {.status = FED_OK};
    uint8_t *data = NULL;
    size_t len = 0;
    if (fed_file_read(in, SIZE_MAX - 1, &data, &len, &err) != FED_OK) {
        return tool_fail(&err);
    }
    fed_status status = fedcodec_envelope_decode(data, len, &model->layout, model->values, &err);
    free(data);
    if (status != FED_OK) {
        return tool_fail_file(in, &err);
    }
    status = fed_checkpoint_save(out, &model->layout, model->values, NULL, &err);
    return status == FED_OK ? EXIT_SUCCESS : tool_fail(&err);
}

static int decode_like(const char *like, const char *in, const char *out) {
    fed_error err = {.status = FED_OK};
    fed_model model;
    if (fed_checkpoint_load(like, &model, &err) != FED_OK) {
        return tool_fail(&err);
    }
    int result = decode_into(in, out, &model);
    fed_model_free(&model);
    return result;
}

static fed_status visit_info(void *user, const part *p, fed_error *err) {
    (void)user;
    (void)err;
    printf("frame %llu", (unsigned long long)p->sent.number);
    if (p->sent.group) {
        printf(", all %s under %u values", p->sent.variates ? "control variates" : "tensors",
               p->small);
    } else if (p->sent.statistics) {
        printf(", running statistics");
    } else if (p->sent.variates) {
        printf(", control variates");
    }
    printf(": %s%s%s, ", p->sent.codec->name, p->sent.stage != 0 ? "+" : "",
           fedcodec_stage_name(p->sent.stage));
    print_size(p->sent.n, p->sent.len);
    putchar('\n');
    return FED_OK;
}

static int info(const char *path, uint64_t max_bytes) {
    int result = on_each_part(path, max_bytes, visit_info, NULL);
    return result == EXIT_SUCCESS ? tool_finish_output() : result;
}

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
            } else if (param->preset < param->low || param->preset > param->high) {
                printf("         %s=?  %s; no preset, %g to %g\n", param->key, param->help,
                       param->low, param->high);
            } else {
                printf("         %s=%g  %s; %g to %g\n", param->key, param->preset, param->help,
                       param->low, param->high);
            }
        }
    }
    return tool_finish_output();
}

static int encode_with(const char *spec, uint32_t small, uint32_t width, const char *const *file) {
    fed_error err = {.status = FED_OK};
    fedcodec codec;
    fed_threads *threads = NULL;
    if (tool_parse(spec, &codec, &err) != FED_OK ||
        fed_threads_open(width, &threads, &err) != FED_OK) {
        tool_fail(&err);
        return TOOL_EXIT_USAGE;
    }
    codec.pool = fed_threads_pool(threads);
    int result = encode(&codec, small, file[0], file[1]);
    fed_threads_close(threads);
    return result;
}

static int run_encode(int argc, char **argv) {
    tool_option options[] = {
        {"--codec", NULL}, {"--small", TOOL_SMALL}, {"--threads", "1"}, {NULL, NULL}};
    const char *file[2];
    uint64_t small = 0, width = 0;
    int result = tool_read_args(argc, argv, options, file, 2);
    if (result == EXIT_SUCCESS && options[0].value == NULL) {
        return tool_fail_usage("encode needs --codec SPEC", "");
    }
    if (result == EXIT_SUCCESS) {
        result = tool_read_number(&options[1], UINT32_MAX, &small);
    }
    if (result == EXIT_SUCCESS) {
        result = tool_read_number(&options[2], UINT32_MAX, &width);
    }
    return result == EXIT_SUCCESS
               ? encode_with(options[0].value, (uint32_t)small, (uint32_t)width, file)
               : result;
}

static int run_decode(int argc, char **argv) {
    tool_option options[] = {{"--max-bytes", TOOL_MAX_BYTES}, {"--like", NULL}, {NULL, NULL}};
    const char *file[2];
    uint64_t max_bytes = 0;
    int result = tool_read_args(argc, argv, options, file, 2);
    if (result == EXIT_SUCCESS) {
        result = tool_read_number(&options[0], UINT64_MAX, &max_bytes);
    }
    if (result != EXIT_SUCCESS) {
        return result;
    }
    const char *like = options[1].value; /* with --like, that file's size is the limit */
    return like != NULL ? decode_like(like, file[0], file[1]) : decode(file[0], file[1], max_bytes);
}

static int run_info(int argc, char **argv) {
    tool_option options[] = {{"--max-bytes", TOOL_MAX_BYTES}, {NULL, NULL}};
    const char *file;
    uint64_t max_bytes = 0;
    int result = tool_read_args(argc, argv, options, &file, 1);
    if (result == EXIT_SUCCESS) {
        result = tool_read_number(&options[0], UINT64_MAX, &max_bytes);
    }
    return result == EXIT_SUCCESS ? info(file, max_bytes) : result;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    (void)signal(SIGPIPE, SIG_IGN); /* the reader of the output may end first */
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        fputs(usage, stdout);
        return tool_finish_output();
    }
    if (strcmp(command, "--version") == 0) {
        printf("fedcodec %s (%s)\n", FED_VERSION, fed_build_id());
        return tool_finish_output();
    }
    if (strcmp(command, "encode") == 0) {
        return run_encode(argc, argv);
    }
    if (strcmp(command, "decode") == 0) {
        return run_decode(argc, argv);
    }
    if (strcmp(command, "info") == 0) {
        return run_info(argc, argv);
    }
    if (strcmp(command, "compare") == 0) {
        return tool_compare(argc, argv);
    }
    if (strcmp(command, "list") == 0) {
        return argc == 2 ? list() : tool_fail_usage("the command list takes no arguments", "");
    }
    static const char *const names[] = {"encode", "decode", "info", "compare", "list", NULL};
    fed_error err = {0};
    fed_command_refuse(command, names, &err);
    return tool_fail_usage(err.text, "");
}
