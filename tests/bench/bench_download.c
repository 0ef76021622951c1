/* Measure the size of downloads for devices with old versions of the model, and the CPU time to
 * make and apply them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "fed/clock.h"
#include "fed/hash.h"
#include "fedcodec/patch.h"
#include "fedserver/rounds/closing.h"
#include "fedserver/server.h"
#include "fedserver/versions/old_versions.h"

/*
 *     bench_download DIRECTORY [BEHIND ...]
 *
 * DIRECTORY: the directory of a coordinator that does not run now, such as one that fedsim run with
 * transport=https has made. BEHIND: by how many versions the device's model is older than the
 * newest; "all": the device has no model. The sizes of the chain of deltas and of the patch are
 * fractions of a snapshot of plain values. Times are medians of a few runs, in ms of CPU time per
 * million values: to compute the device's old version ("to bring back"), to write the patch, and to
 * apply it.
 */

enum { TRIES = 9 };

#define CPU_TIME(times, work)                                                                      \
    do {                                                                                           \
        int64_t start_us_ = fed_clock_thread_cpu_us();                                             \
        work;                                                                                      \
        (times)->s[(times)->count++] = 1e-6 * (double)(fed_clock_thread_cpu_us() - start_us_);     \
    } while (0)

typedef struct costs {
    bench_times past, write, apply;
    size_t bytes;
} costs;

/* Measure the patch to the newest version from version *have, or from zeros (have = NULL). */
static void once(fedserver *server, const uint32_t *have, float *values, costs *c) {
    const fedserver_training *t = fedserver_rounds_front(&server->rounds);
    const fedserver_versions *v = &t->versions;
    const size_t n = v->layout->size;
    fed_error err = {0};
    float *old = NULL;
    fed_writer patch;
    fed_writer_growing(&patch);
    memset(values, 0, n * sizeof *values);
    if (have != NULL) {
        fed_status status;
        fedserver_archive archive = fedserver_rounds_archive(&server->rounds, t);
        CPU_TIME(&c->past, status = fedserver_old_versions_values(&archive, *have, &old, &err));
        bench_require(status, err.text);
        memcpy(values, old, n * sizeof *values);
    }
    CPU_TIME(&c->write, bench_require(fedcodec_patch_write(old, v->values, n, &patch), "a patch"));
    CPU_TIME(&c->apply,
             bench_require(fedcodec_patch_apply(patch.data, patch.len, values, n), "the patch"));
    bench_require(fed_digest(values, n) == v->digest ? FED_OK : FED_EFORMAT, "the patch's values");
    c->bytes = patch.len;
    fed_writer_free(&patch);
    free(old);
}

static void print_row(fedserver *server, const char *behind) {
    const fedserver_versions *v = &fedserver_rounds_front(&server->rounds)->versions;
    const double values = 4.0 * (double)v->layout->size, scale = 4e9 / values;
    const uint32_t have = v->version - (uint32_t)strtoul(behind, NULL, 10);
    const bool any = strcmp(behind, "all") == 0;
    float *work = bench_alloc(v->layout->size * sizeof *work);
    costs *c = bench_alloc(sizeof *c);
    for (int k = 0; k < TRIES; k++) {
        once(server, any ? NULL : &have, work, c);
    }
    printf("| %s | ", behind);
    if (!any && fedserver_versions_leads(v, have, v->version, true)) {
        printf("%.3f", (double)fedserver_versions_chain_len(v, have, v->version) / values);
    }
    printf(" | %.3f | %.1f | %.1f | %.1f |\n", (double)c->bytes / values,
           bench_median_s(&c->past) * scale, bench_median_s(&c->write) * scale,
           bench_median_s(&c->apply) * scale);
    free(c);
    free(work);
}

int main(int argc, char **argv) {
    fed_error err = {0};
    fedserver *server;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_download DIRECTORY [BEHIND ...]\n");
        return 2;
    }
    bench_require(fedserver_open(argv[1], NULL, &server, &err), err.text);
    bench_require(fedserver_begin(server, &err), err.text);
    const fedserver_training *t = fedserver_rounds_front(&server->rounds);
    bench_require(t != NULL ? FED_OK : FED_ENOTFOUND, "a task that has run");
    printf("%s, %s: version %u, %zu values\n\n", t->task.wire.model, t->task.codec_down,
           t->versions.version, t->versions.layout->size);
    printf("| versions behind | chain | patch | ms to bring back | to write | to apply |\n");
    printf("|---|---|---|---|---|---|\n");
    for (int k = 2; k < argc; k++) {
        print_row(server, argv[k]);
    }
    print_row(server, "all");
    fedserver_close(server);
    return 0;
}
