/* The fedcodec program: messages to its user, arguments, input tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "codecs/tool/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/checkpoint.h"
#include "fed/file.h"
#include "fedcodec/array.h"
#include "fedcodec/codec.h"
#include "fedcodec/ring.h"

int tool_fail(const fed_error *err) {
    fprintf(stderr, "fedcodec: %s\n", err->text);
    return EXIT_FAILURE;
}

int tool_fail_file(const char *path, const fed_error *err) {
    fprintf(stderr, "fedcodec: %s: %s\n", path, err->text);
    return EXIT_FAILURE;
}

int tool_fail_usage(const char *what, const char *word) {
    fprintf(stderr, "fedcodec: %s%s%s\nTry fedcodec --help.\n", what, word[0] ? " " : "", word);
    return TOOL_EXIT_USAGE;
}

int tool_finish_output(void) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "fedcodec: writing to standard output failed: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

fed_status tool_parse(const char *spec, fedcodec *codec, fed_error *err) {
    fedcodec parsed;
    FED_TRY(fedcodec_parse(spec, &parsed, err));
    if (fedcodec_is_ring(parsed.vtable)) {
        return fed_fail(err, FED_EINVAL,
                        "codec ring makes no file: its messages say nothing without the clip, the "
                        "cohort and the round of a private task, and only their sum is read; "
                        "fedsim runs such tasks");
    }
    *codec = parsed;
    return FED_OK;
}

static tool_option *find_option(tool_option *options, const char *name) {
    for (; options->name != NULL; options++) {
        if (strcmp(options->name, name) == 0) {
            return options;
        }
    }
    return NULL;
}

int tool_read_args(int argc, char **argv, tool_option *options, const char **files, int count) {
    int found = 0;
    char what[100];
    for (int i = 2; i < argc; i++) {
        tool_option *option = find_option(options, argv[i]);
        if (option != NULL && i + 1 == argc) {
            return tool_fail_usage("a value is missing after", argv[i]);
        }
        if (option != NULL) {
            option->value = argv[++i];
        } else if (argv[i][0] == '-') {
            snprintf(what, sizeof what, "%s has no option", argv[1]);
            return tool_fail_usage(what, argv[i]);
        } else if (found == count) {
            snprintf(what, sizeof what, "%s takes %d file(s); one too many is", argv[1], count);
            return tool_fail_usage(what, argv[i]);
        } else {
            files[found++] = argv[i];
        }
    }
    snprintf(what, sizeof what, "%s takes %d file(s); found %d", argv[1], count, found);
    return found == count ? EXIT_SUCCESS : tool_fail_usage(what, "");
}

int tool_read_number(const tool_option *option, uint64_t most, uint64_t *number) {
    const char *text = option->value;
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value > most) {
        char what[80];
        snprintf(what, sizeof what, "%s is a whole number from 0 to %llu, not", option->name,
                 (unsigned long long)most);
        return tool_fail_usage(what, text);
    }
    *number = value;
    return EXIT_SUCCESS;
}

/* Make a model of one matrix, as square as n allows: some codecs factor matrices. fed_layout_add is
 * not used, as it refuses an empty tensor. */
static fed_status one_tensor(size_t n, fed_model *model) {
    *model = (fed_model){.layout = {.count = 1, .size = n}};
    model->layout.tensors = malloc(sizeof *model->layout.tensors);
    model->values = malloc(n * sizeof *model->values + 1);
    if (model->layout.tensors == NULL || model->values == NULL) {
        fed_model_free(model);
        return FED_ENOMEM;
    }
    const size_t rows = fedcodec_array_rows(n), columns = n > 0 ? n / rows : 0;
    model->layout.tensors[0] = (fed_tensor){
        .name = "values", .rank = 2, .dims = {(uint32_t)rows, (uint32_t)columns}, .size = n};
    return FED_OK;
}

/* Decode the raw bytes with float32's decoder, which also refuses NaN and infinity. */
static fed_status parse_raw(const char *path, const uint8_t *data, size_t len, fed_model *model,
                            fed_error *err) {
    size_t n = len / sizeof *model->values;
    if (len % sizeof *model->values != 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s: %zu bytes are not a whole number of float32 values (4 bytes each)",
                        path, len);
    }
    if (n > UINT32_MAX) {
        return fed_fail(err, FED_ERANGE, "%s: too many values: a tensor has at most %u", path,
                        UINT32_MAX);
    }
    if (one_tensor(n, model) != FED_OK) {
        return fed_fail(err, FED_ENOMEM, "%s: out of memory for %zu bytes", path, len);
    }
    if (fedcodec_decode(fedcodec_by_id(1), data, len, model->values, n) != FED_OK) {
        fed_model_free(model);
        return fed_fail(err, FED_ENONFINITE, "%s: holds NaN or infinity, which no codec can carry",
                        path);
    }
    return FED_OK;
}

fed_status tool_read_tensors(const char *path, fed_model *model, fed_error *err) {
    static const char ending[] = ".safetensors";
    const size_t path_len = strlen(path), end = sizeof ending - 1;
    if (path_len >= end && strcmp(path + path_len - end, ending) == 0) {
        return fed_checkpoint_load(path, model, err);
    }
    uint8_t *data = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read(path, SIZE_MAX - 1, &data, &len, err));
    fed_status status = parse_raw(path, data, len, model, err);
    free(data);
    return status;
}
