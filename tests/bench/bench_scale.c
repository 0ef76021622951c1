/* Measure a coordinator with thousands of connected devices, compared with nginx. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "scale_run.h"

/*
 *     bench_scale [DEVICES]
 *
 * DEVICES (default 4000) connect with a certificate each and mostly wait; a quarter of them sends
 * an update. The coordinator and nginx (where it is installed) take turns: each gets requests on 32
 * connections of its own. The programs share the processors, so compare the CPU time per request.
 */

static void print_row(const char *what, const char *server, const scale_times *t, size_t rounds) {
    double rps[SCALE_ROUNDS], p50[SCALE_ROUNDS], p99[SCALE_ROUNDS];
    for (size_t k = 0; k < rounds; k++) {
        rps[k] = (double)t->round[k].answers / t->round[k].seconds;
        p50[k] = t->round[k].p50_ms;
        p99[k] = t->round[k].p99_ms;
    }
    printf("| %-18s | %-11s | %8.0f | %6.0f | %6.2f | %6.2f |\n", what, server,
           bench_median(rps, rounds), bench_median(t->cpu_us, rounds), bench_median(p50, rounds),
           bench_median(p99, rounds));
}

int main(int argc, char **argv) {
    enum { ROUNDS = 5 };
    static scale_figures f;
    const size_t devices = argc > 1 ? strtoul(argv[1], NULL, 10) : 4000;
    if (devices < 64 || devices > 8000) {
        fprintf(stderr, "usage: bench_scale [DEVICES], 64 to 8000\n");
        return 2;
    }
    const scale_plan plan = {.devices = devices,
                             .updates = devices / 4,
                             .active = 32,
                             .checkins = 10000,
                             .models = 1000,
                             .rounds = ROUNDS,
                             .nginx = 1};
    scale_run(&plan, &f);
    const double mb = 1e6;
    printf("%zu devices connected in %.1f s, %zu failures, %zu waited for a round\n", f.connected,
           f.connect_s, f.failures, f.waiting);
    printf("%zu updates of %zu bytes in %.1f s; then %zu got the next round's places\n\n",
           f.updates[SCALE_STAGES - 1] + 1, f.update_bytes, f.updates_s, f.woken);
    printf("| coordinator's memory (PSS) | MB |\n|---|---|\n| idle | %.1f |\n"
           "| all connected | %.1f |\n| all waiting | %.1f |\n",
           (double)f.pss_idle / mb, (double)f.pss_connected / mb, (double)f.pss_waiting / mb);
    for (int k = 0; k < SCALE_STAGES; k++) {
        printf("| %zu updates | %.1f |\n", f.updates[k], (double)f.pss_updates[k] / mb);
    }
    printf("| the bound: 3 models + 64 KB a connection | %.1f |\n",
           (3.0 * (double)f.model_bytes + 65536.0 * (double)devices) / mb);
    if (f.with_nginx) {
        printf("| nginx, all connected | %.1f |\n", (double)f.nginx_pss / mb);
    }
    printf("\n| request, answer | server | requests/s | CPU us | p50 ms | p99 ms |\n"
           "|---|---|---|---|---|---|\n");
    char what[2][40];
    snprintf(what[0], sizeof what[0], "check-in, %zu B", f.checkin_bytes);
    snprintf(what[1], sizeof what[1], "model, %zu B", f.model_bytes);
    print_row(what[0], "coordinator", &f.checkin, ROUNDS);
    if (f.with_nginx) {
        print_row(what[0], "nginx", &f.nginx_checkin, ROUNDS);
    }
    print_row(what[1], "coordinator", &f.model, ROUNDS);
    if (f.with_nginx) {
        print_row(what[1], "nginx", &f.nginx_model, ROUNDS);
    }
    return f.failures == 0 && f.connected == devices ? 0 : 1;
}
