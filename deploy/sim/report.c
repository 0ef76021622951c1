/* What a person sees of a simulation: the progress line and the table at the end. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "deploy/sim/sim.h"
#include "fed/clock.h"

enum { PLAIN_EVERY_MS = 10000 };

void sim_progress_open(sim_progress *progress) {
    *progress = (sim_progress){.terminal = isatty(STDERR_FILENO) != 0,
                               .start_ms = fed_clock_monotonic_ms()};
}

void sim_progress_show(sim_progress *progress, sim_crowd *crowd, uint32_t rounds) {
    pthread_mutex_lock(&crowd->mutex);
    uint32_t round = crowd->round, reported = crowd->reported, evaluated = crowd->evaluated;
    double accuracy = 100 * crowd->accuracy;
    pthread_mutex_unlock(&crowd->mutex);
    int64_t now = fed_clock_monotonic_ms();
    bool due = round != progress->shown_round && now - progress->shown_ms >= PLAIN_EVERY_MS;
    if (!progress->terminal && !due) {
        return;
    }
    progress->shown_ms = now;
    progress->shown_round = round;
    fprintf(stderr, "%s%4" PRId64 " s  round %u of %u, %u updates in; ",
            progress->terminal ? "\r\033[K" : "", (now - progress->start_ms) / 1000, round, rounds,
            reported);
    if (evaluated > 0) {
        fprintf(stderr, "test accuracy %.2f %% after round %u", accuracy, evaluated);
    } else {
        fprintf(stderr, "no model measured yet");
    }
    fputs(progress->terminal ? "" : "\n", stderr);
    fflush(stderr);
}

void sim_progress_close(sim_progress *progress) {
    if (progress->terminal) {
        fputs("\r\033[K", stderr);
    }
}

static void print_cpu(const char *what, double part_s, double whole_s) {
    printf("  CPU time, %-14s %.1f s (%.0f %%)\n", what, part_s,
           whole_s > 0 ? 100 * part_s / whole_s : 0);
}

void sim_result_print(const sim_result *r) {
    double rest_s = r->total_cpu_s - r->train_cpu_s - r->evaluate_cpu_s;
    printf("\n");
    printf("  test accuracy            %.2f %%\n", 100 * r->test_accuracy);
    printf("  rounds                   %u\n", r->rounds);
    printf("  clients                  %u; %u took part, %zu hold the coordinator's model bit for "
           "bit\n",
           r->clients, r->present, r->identical);
    printf("  updates                  %" PRIu64 " counted, %" PRIu64 " refused and kept, %" PRIu64
           " uploads broken and resent\n",
           r->updates, r->refused, r->broken);
    printf("  up, per client           %.1f KB\n", r->uplink_bytes_per_client / 1000);
    printf("  down, per client         %.1f KB\n", r->downlink_bytes_per_client / 1000);
    printf("  uplink compression       x%.0f against float32 gradients every step\n",
           r->uplink_compression);
    printf("  wall time                %.1f s\n", r->wall_s);
    print_cpu("training", r->train_cpu_s, r->total_cpu_s);
    print_cpu("testing models", r->evaluate_cpu_s, r->total_cpu_s);
    print_cpu("all the rest", rest_s, r->total_cpu_s);
    printf("\n  Bytes are HTTP requests and answers with their heads, after enrolment; TLS adds "
           "its own.\n");
}

fed_status sim_result_write(const sim_result *r, const char *path, fed_error *err) {
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, r->digest);
    json_t *json = json_pack(
        "{s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:f}",
        "test_accuracy", r->test_accuracy, "rounds", (json_int_t)r->rounds, "clients",
        (json_int_t)r->clients, "uplink_bytes_per_client", r->uplink_bytes_per_client,
        "downlink_bytes_per_client", r->downlink_bytes_per_client, "uplink_compression",
        r->uplink_compression, "wall_s", r->wall_s, "train_cpu_s", r->train_cpu_s, "total_cpu_s",
        r->total_cpu_s, "updates_counted", (json_int_t)r->updates, "updates_refused",
        (json_int_t)r->refused, "uploads_broken", (json_int_t)r->broken, "model_digest", digest,
        "clients_present", (json_int_t)r->present, "clients_identical", (json_int_t)r->identical,
        "coordinator_kills", (json_int_t)r->kills, "evaluate_cpu_s", r->evaluate_cpu_s);
    int failed =
        json == NULL || json_dump_file(json, path, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0;
    json_decref(json);
    return failed
               ? fed_fail(err, FED_EIO, "%s: can't write the result; is the directory there?", path)
               : FED_OK;
}
