/* What a person sees of a run: the progress line and the table at the end. */
#include "deploy/sim/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

static const double plain_every_s = 10;

void sim_bar_open(sim_bar *bar) {
    *bar = (sim_bar){.terminal = isatty(STDERR_FILENO) != 0};
}

void sim_bar_show(void *user, const sim_progress *p) {
    sim_bar *bar = user;
    bool due = p->round != bar->shown_round && p->wall_s - bar->shown_s >= plain_every_s;
    if (!bar->terminal && !due) {
        return;
    }
    bar->shown_s = p->wall_s;
    bar->shown_round = p->round;
    fprintf(stderr, "%s%4.0f s  round %u of %u, %u updates in; ", bar->terminal ? "\r\033[K" : "",
            p->wall_s, p->round, p->rounds, p->reported);
    if (p->evaluated > 0) {
        fprintf(stderr, "test accuracy %.2f %% after round %u", 100 * p->accuracy, p->evaluated);
    } else {
        fprintf(stderr, "no model measured yet");
    }
    fputs(bar->terminal ? "" : "\n", stderr);
    fflush(stderr);
}

void sim_bar_close(sim_bar *bar) {
    if (bar->terminal) {
        fputs("\r\033[K", stderr);
    }
}

/** All clients together. */
typedef struct totals {
    uint64_t counted, refused, broken, up_bytes, down_bytes;
    size_t present, identical;
} totals;

static totals add_up(const sim_log *log) {
    totals t = {0};
    for (size_t k = 0; k < log->client_count; k++) {
        const sim_account *a = &log->clients[k];
        t.counted += a->counted;
        t.refused += a->refused;
        t.broken += a->broken;
        t.up_bytes += a->up_bytes;
        t.down_bytes += a->down_bytes;
        t.present += a->present;
        t.identical += a->identical;
    }
    return t;
}

static void print_cpu(const char *what, double part_s, double whole_s) {
    printf("  CPU time, %-14s %.1f s (%.0f %%)\n", what, part_s,
           whole_s > 0 ? 100 * part_s / whole_s : 0);
}

void sim_log_print(const sim_log *log) {
    const totals t = add_up(log);
    const double n = (double)log->client_count;
    printf("\n");
    printf("  test accuracy            %.2f %%\n", 100 * sim_log_accuracy(log));
    printf("  rounds                   %zu\n", log->round_count);
    printf(
        "  clients                  %zu; %zu took part, %zu hold the coordinator's model bit for "
        "bit\n",
        log->client_count, t.present, t.identical);
    printf("  updates                  %" PRIu64 " counted, %" PRIu64 " refused and kept, %" PRIu64
           " uploads broken and resent\n",
           t.counted, t.refused, t.broken);
    printf("  up, per client           %.1f KB\n", (double)t.up_bytes / n / 1000);
    printf("  down, per client         %.1f KB\n", (double)t.down_bytes / n / 1000);
    printf("  uplink compression       x%.0f against float32 gradients every step\n",
           sim_log_compression(log));
    printf("  wall time                %.1f s\n", log->wall_s);
    print_cpu("training", log->train_cpu_s, log->total_cpu_s);
    print_cpu("testing models", log->evaluate_cpu_s, log->total_cpu_s);
    print_cpu("all the rest", log->total_cpu_s - log->train_cpu_s - log->evaluate_cpu_s,
              log->total_cpu_s);
    printf("\n  Bytes are HTTP requests and answers with their heads, after enrolment; TLS adds "
           "its own.\n");
}

fed_status sim_log_write(const sim_log *log, const char *path, fed_error *err) {
    const totals t = add_up(log);
    const double n = (double)log->client_count;
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, log->digest);
    json_t *json = json_pack(
        "{s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:f}",
        "test_accuracy", sim_log_accuracy(log), "rounds", (json_int_t)log->round_count, "clients",
        (json_int_t)log->client_count, "uplink_bytes_per_client", (double)t.up_bytes / n,
        "downlink_bytes_per_client", (double)t.down_bytes / n, "uplink_compression",
        sim_log_compression(log), "wall_s", log->wall_s, "train_cpu_s", log->train_cpu_s,
        "total_cpu_s", log->total_cpu_s, "updates_counted", (json_int_t)t.counted,
        "updates_refused", (json_int_t)t.refused, "uploads_broken", (json_int_t)t.broken,
        "model_digest", digest, "clients_present", (json_int_t)t.present, "clients_identical",
        (json_int_t)t.identical, "coordinator_kills", (json_int_t)log->kills, "evaluate_cpu_s",
        log->evaluate_cpu_s);
    int failed =
        json == NULL || json_dump_file(json, path, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0;
    json_decref(json);
    return failed
               ? fed_fail(err, FED_EIO, "%s: can't write the result; is the directory there?", path)
               : FED_OK;
}
