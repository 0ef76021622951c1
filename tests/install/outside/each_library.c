/* Calls each library except the client's. each_library DIR makes a coordinator in DIR. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fed/gpu.h"
#include "fed/version.h"
#include "fedcodec/codec.h"
#include "fedcodec/gpu_codecs.h"
#include "fedserver/fedserver.h"
#include "fedserver/http.h"
#include "fedserver/operator.h"
#include "fedtrain/split.h"

static fed_status call_codecs(fed_error *err) {
    enum { N = 3 };
    const float values[N] = {1.0f, -2.0f, 0.5f};
    float back[N] = {0};
    uint8_t message[256], work[4096];
    size_t len = 0;
    fedcodec codec;
    FED_TRY(fedcodec_parse("float32", &codec, err));
    if (fedcodec_bound(&codec, N) > sizeof message || fedcodec_work_size(&codec, N) > sizeof work) {
        return fed_fail(err, FED_ENOSPC,
                        "the codec float32 needs more room than this program's buffers have");
    }
    FED_TRY(fedcodec_encode(&codec, NULL, values, N, work, message, sizeof message, &len));
    FED_TRY(fedcodec_decode(codec.vtable, message, len, back, N));
    return memcmp(values, back, sizeof back) == 0
               ? FED_OK
               : fed_fail(err, FED_EFORMAT,
                          "the codec float32 decodes other values than it encoded");
}

/* Call the libraries for GPUs, which must work without a GPU. */
static fed_status call_gpu(fed_error *err) {
    fed_gpu_info info;
    fed_gpu *gpu = NULL;
    fedcodec codec;
    FED_TRY(fedcodec_parse("twobit", &codec, err));
    if (!fedcodec_gpu_has(codec.vtable) || !fed_gpu_is_name("gpu")) {
        return fed_fail(err, FED_ESTATE,
                        "the codec twobit can't run on GPUs, or \"gpu\" is not a device's name");
    }
    if (fed_gpu_list(0, &info) == FED_OK && info.lacks[0] == '\0') {
        FED_TRY(fed_gpu_open(info.name, NULL, &gpu, err));
        fed_gpu_close(gpu);
    }
    return FED_OK;
}

static fed_status call_server(const char *directory, fed_error *err) {
    static const char *const hosts[] = {"127.0.0.1", NULL};
    const fedserver_init_options options = {.hosts = hosts};
    fedserver *server = NULL;
    FED_TRY(fedserver_init(directory, &options, err));
    FED_TRY(fedserver_open(directory, NULL, &server, err));
    fedserver_close(server);
    return FED_OK;
}

int main(int argc, char **argv) {
    fed_error err = {.text = ""};
    fedtrain_split split;
    if (argc != 2 || call_codecs(&err) != FED_OK || call_gpu(&err) != FED_OK ||
        fedtrain_split_parse("dirichlet:alpha=0.5", &split, &err) != FED_OK ||
        call_server(argv[1], &err) != FED_OK) {
        fprintf(stderr, "each_library: %s\n", err.text);
        return 1;
    }
    printf("%s, built for %s\n", fed_version(), FED_VERSION);
    return strcmp(fed_version(), FED_VERSION) != 0;
}
