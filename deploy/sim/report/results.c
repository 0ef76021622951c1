/* Writes a run's files from its log. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/results.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "deploy/sim/scenario/task_file.h"
#include "fed/file.h"
#include "fed/version.h"

const char sim_rounds_header[] =
    "round,virtual_s,wall_s,accuracy,test_loss,train_loss,counted,refused,broken,up_bytes,"
    "down_bytes,update_bytes,delta_bytes,bits_per_value_up,bits_per_value_down,clip,worst_tenth\n";
const char sim_clients_header[] =
    "client,up_bytes,down_bytes,counted,refused,broken,samples,busy_s,present,identical\n";
const char sim_personal_header[] = "client,held,shared_accuracy,personal_accuracy\n";

static double ratio(double a, double b) {
    return b > 0 ? a / b : (double)NAN;
}

/** NAN for no bytes: those of a coordinator of one's own are not known. */
static double bits_of(uint64_t bytes, double values) {
    return bytes > 0 ? ratio(8 * (double)bytes, values) : (double)NAN;
}

sim_totals sim_log_totals(const sim_log *log) {
    sim_totals t = {0};
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
    uint64_t counted = 0;
    for (size_t k = 0; k < log->round_count; k++) {
        counted += log->rounds[k].counted;
        t.update_bytes += log->rounds[k].update_bytes;
        t.delta_bytes += log->rounds[k].delta_bytes;
        t.virtual_s = log->rounds[k].virtual_s;
    }
    const double n = (double)log->parameters, plain = 4 * n * (double)log->steps;
    t.up_bits = bits_of(t.update_bytes, n * (double)counted);
    t.down_bits = bits_of(t.delta_bytes, n * (double)log->round_count);
    t.compression = ratio(plain, (double)t.up_bytes);
    t.compression_round = ratio(4 * n * (double)counted, (double)t.up_bytes);
    t.compression_both = ratio(2 * plain, (double)(t.up_bytes + t.down_bytes));
    return t;
}

const char *sim_path(char dst[SIM_PATH], const char *directory, const char *name) {
    snprintf(dst, SIM_PATH, "%s/%s", directory, name);
    return dst;
}

static fed_status put(const char *directory, const char *name, fed_writer *w, fed_error *err) {
    char path[SIM_PATH];
    fed_status status = w->status;
    if (status == FED_OK) {
        status = fed_file_replace(sim_path(path, directory, name), w->data, w->len, 0644, err);
    }
    fed_writer_free(w);
    return status;
}

void sim_version_text(char *dst, size_t cap) {
    snprintf(dst, cap, "fedsim %s (%s), protocol %d", FED_VERSION, fed_build_id(), FED_PROTOCOL);
}

static void processor_name(char *dst, size_t cap) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    dst[0] = '\0';
    while (file != NULL && dst[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) == 0 && colon != NULL) {
            snprintf(dst, cap, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

void sim_machine_text(char *dst, size_t cap) {
    char name[128];
    struct utsname system = {0};
    processor_name(name, sizeof name);
    (void)uname(&system);
    snprintf(dst, cap, "%.80s, %ld processors", name[0] != '\0' ? name : system.machine,
             sysconf(_SC_NPROCESSORS_ONLN));
}

static fed_status put_task(const char *directory, const sim_scenario *scenario, fed_error *err) {
    fed_writer w;
    const char *server = scenario->value[SIM_SERVER];
    if (server != NULL && server[0] != '\0') {
        return FED_OK; /* the coordinator has the task */
    }
    fed_writer_growing(&w);
    fed_status status = sim_task_write(scenario, &w, err);
    if (status != FED_OK) {
        fed_writer_free(&w);
        return status;
    }
    return put(directory, "task.json", &w, err);
}

fed_status sim_result_begin(const char *directory, const sim_scenario *scenario, fed_error *err) {
    fed_writer w;
    FED_TRY(fed_dir_make(directory, 0755, err));
    FED_TRY(put_task(directory, scenario, err));
    fed_writer_growing(&w);
    char version[128], machine[128];
    sim_version_text(version, sizeof version);
    sim_machine_text(machine, sizeof machine);
    fed_write_printf(&w, "%s\n%s\n", version, machine);
    FED_TRY(put(directory, "version", &w, err));
    fed_writer_growing(&w);
    sim_scenario_write(scenario, &w);
    return put(directory, "scenario.txt", &w, err);
}

static void write_number(fed_writer *w, double value) {
    if (isfinite(value)) {
        fed_write_printf(w, ",%.9g", value);
    } else {
        fed_write_printf(w, ",");
    }
}

static void write_rounds(const sim_log *log, fed_writer *w) {
    const double n = (double)log->parameters;
    fed_write_printf(w, "%s", sim_rounds_header);
    for (size_t k = 0; k < log->round_count; k++) {
        const sim_round *r = &log->rounds[k];
        fed_write_printf(w, "%u,%.3f,%.3f", r->round, r->virtual_s, r->wall_s);
        write_number(w, r->accuracy);
        write_number(w, r->test_loss);
        write_number(w, r->train_loss);
        fed_write_printf(w, ",%u,%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, r->counted,
                         r->refused, r->broken, r->up_bytes, r->down_bytes, r->update_bytes,
                         r->delta_bytes);
        write_number(w, bits_of(r->update_bytes, n * r->counted));
        write_number(w, bits_of(r->delta_bytes, n));
        write_number(w, r->clip > 0 ? r->clip : (double)NAN);
        write_number(w, r->worst_tenth);
        fed_write_printf(w, "\n");
    }
}

static void write_clients(const sim_log *log, fed_writer *w) {
    fed_write_printf(w, "%s", sim_clients_header);
    for (size_t k = 0; k < log->client_count; k++) {
        const sim_account *a = &log->clients[k];
        fed_write_printf(w, "%zu,%" PRIu64 ",%" PRIu64 ",%u,%u,%u,%u,%.6g,%d,%d\n", k, a->up_bytes,
                         a->down_bytes, a->counted, a->refused, a->broken, a->samples, a->busy_s,
                         a->present, a->identical);
    }
}

/** Nothing is written where no client holds anything back. */
static void write_personal(const sim_log *log, fed_writer *w) {
    for (size_t k = 0; k < log->client_count; k++) {
        const sim_account *a = &log->clients[k];
        if (a->held > 0) {
            fed_write_printf(w, "%s%zu,%" PRIu64 ",%.9g", w->len == 0 ? sim_personal_header : "", k,
                             a->held, a->shared);
            write_number(w, a->personal);
            fed_write_printf(w, "\n");
        }
    }
}

static void write_attended(const sim_log *log, fed_writer *w) {
    for (size_t r = 0; r < log->round_count; r++) {
        uint8_t *row = fed_writer_reserve(w, log->client_count + 1);
        if (row == NULL) {
            return;
        }
        for (size_t k = 0; k < log->client_count; k++) {
            row[k] = sim_log_attended(log, r, k) ? '1' : '0';
        }
        row[log->client_count] = '\n';
        fed_writer_advance(w, log->client_count + 1);
    }
}

static json_t *real(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *summary_of(const sim_log *log) {
    const sim_totals t = sim_log_totals(log);
    const double n = (double)log->client_count;
    char digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, log->digest);
    return json_pack(
        "{s:b, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, "
        "s:I, "
        "s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f}",
        "finished", log->finished, "test_accuracy", real(sim_log_accuracy(log)), "rounds",
        (json_int_t)log->round_count, "clients", (json_int_t)log->client_count, "parameters",
        (json_int_t)log->parameters, "local_steps_counted", (json_int_t)log->steps,
        "uplink_bytes_per_client", real((double)t.up_bytes / n), "downlink_bytes_per_client",
        real((double)t.down_bytes / n), "uplink_compression", real(t.compression),
        "uplink_compression_each_round", real(t.compression_round), "both_ways_compression",
        real(t.compression_both), "uplink_bits_per_value", real(t.up_bits),
        "downlink_bits_per_value", real(t.down_bits), "uplink_bytes", (json_int_t)t.up_bytes,
        "downlink_bytes", (json_int_t)t.down_bytes, "virtual_s", real(t.virtual_s), "wall_s",
        real(log->wall_s), "updates_counted", (json_int_t)t.counted, "updates_refused",
        (json_int_t)t.refused, "uploads_broken", (json_int_t)t.broken, "clients_present",
        (json_int_t)t.present, "clients_identical", (json_int_t)t.identical, "coordinator_kills",
        (json_int_t)log->kills, "model_digest", digest, "train_cpu_s", log->train_cpu_s,
        "evaluate_cpu_s", log->evaluate_cpu_s, "helper_cpu_s", log->helper_cpu_s, "total_cpu_s",
        log->total_cpu_s, "updates_per_s", log->wall_s > 0 ? (double)t.counted / log->wall_s : 0.0);
}

static json_t *personal_of(const sim_personal *p) {
    return json_pack("{s:I, s:f, s:f, s:f, s:o, s:o}", "clients", (json_int_t)p->clients,
                     "shared_accuracy", p->shared, "shared_worst_tenth", p->shared_worst,
                     "shared_variance", p->shared_variance, "personal_accuracy", real(p->personal),
                     "personal_worst_tenth", real(p->personal_worst));
}

static fed_status write_summary(const sim_log *log, fed_writer *w) {
    sim_personal p;
    FED_TRY(sim_log_personal(log, &p));
    json_t *json = summary_of(log);
    if (p.clients > 0 && json_object_set_new(json, "personal", personal_of(&p)) != 0) {
        json_decref(json);
        return FED_ENOMEM;
    }
    char *text = json != NULL ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    FED_REQUIRE(text != NULL, FED_ENOMEM);
    fed_write_printf(w, "%s\n", text);
    free(text);
    return FED_OK;
}

fed_status sim_result_write(const char *directory, const sim_log *log, fed_error *err) {
    fed_writer w;
    fed_writer_growing(&w);
    write_rounds(log, &w);
    FED_TRY(put(directory, "rounds.csv", &w, err));
    fed_writer_growing(&w);
    write_clients(log, &w);
    FED_TRY(put(directory, "clients.csv", &w, err));
    fed_writer_growing(&w);
    write_personal(log, &w);
    if (w.len > 0) {
        FED_TRY(put(directory, "personal.csv", &w, err));
    }
    fed_writer_growing(&w);
    write_attended(log, &w);
    FED_TRY(put(directory, "attended.txt", &w, err));
    fed_writer_growing(&w);
    FED_TRY(write_summary(log, &w));
    return put(directory, "summary.json", &w, err);
}
