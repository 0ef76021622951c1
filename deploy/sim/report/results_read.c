/* Reads a run's files back into a log. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deploy/sim/report/results.h"
#include "fed/file.h"

enum { FILE_LIMIT = 1 << 30, MOST_FIELDS = 17 };

typedef fed_status (*take_row)(sim_log *log, const double *field);

static fed_status read_text(const char *directory, const char *name, char path[SIM_PATH],
                            char **text, fed_error *err) {
    size_t len = 0;
    uint8_t *data = NULL;
    FED_TRY(fed_file_read(sim_path(path, directory, name), FILE_LIMIT, &data, &len, err));
    *text = (char *)data;
    return FED_OK;
}

/** Read a line's fields, NAN for an empty one. Returns the next line; NULL: not `count` fields. */
static char *read_fields(char *line, size_t count, double *field) {
    for (size_t k = 0; k < count; k++) {
        char *end = line;
        field[k] = *line == ',' || *line == '\n' ? (double)NAN : strtod(line, &end);
        if (*end != (k + 1 < count ? ',' : '\n')) {
            return NULL;
        }
        line = end + 1;
    }
    return line;
}

/** Return how many columns the text has by its first line, which is `header`, or what an older
 * build knew of it: its first columns, and `least` at least. 0: it is another file. */
static size_t known_columns(const char *text, const char *header, size_t least) {
    const size_t len = strcspn(text, "\n");
    const bool begins = text[len] == '\n' && strncmp(text, header, len) == 0;
    if (!begins || (header[len] != ',' && header[len] != '\n')) {
        return 0;
    }
    size_t count = 1;
    for (size_t k = 0; k < len; k++) {
        count += header[k] == ',';
    }
    return count >= least ? count : 0;
}

static fed_status read_csv(const char *directory, const char *name, const char *header,
                           size_t least, take_row take, sim_log *log, fed_error *err) {
    char path[SIM_PATH], *text = NULL;
    double field[MOST_FIELDS];
    FED_TRY(read_text(directory, name, path, &text, err));
    for (size_t k = 0; k < MOST_FIELDS; k++) {
        field[k] = (double)NAN;
    }
    unsigned line = 1;
    const size_t count = known_columns(text, header, least);
    fed_status status = count > 0 ? FED_OK : FED_EFORMAT;
    for (char *at = text + strcspn(text, "\n") + 1; status == FED_OK && *at != '\0';) {
        line++;
        at = read_fields(at, count, field);
        status = at != NULL ? take(log, field) : FED_EFORMAT;
    }
    free(text);
    return status == FED_EFORMAT
               ? fed_fail(
                     err, FED_EFORMAT,
                     "%s:%u: this is not a file that fedsim writes; such a file's first line is %s",
                     path, line, header)
               : status;
}

static uint64_t whole(double value) {
    return value >= 0 && value < 1.8e19 ? (uint64_t)value : 0;
}

static fed_status take_round(sim_log *log, const double *field) {
    sim_round *round = NULL;
    FED_TRY(sim_log_add(log, &round));
    *round = (sim_round){.round = (uint32_t)whole(field[0]),
                         .virtual_s = field[1],
                         .wall_s = field[2],
                         .accuracy = field[3],
                         .test_loss = field[4],
                         .train_loss = field[5],
                         .counted = (uint32_t)whole(field[6]),
                         .refused = (uint32_t)whole(field[7]),
                         .broken = (uint32_t)whole(field[8]),
                         .up_bytes = whole(field[9]),
                         .down_bytes = whole(field[10]),
                         .update_bytes = whole(field[11]),
                         .delta_bytes = whole(field[12]),
                         .clip = field[15] > 0 ? field[15] : 0,
                         .worst_tenth = field[16]};
    return FED_OK;
}

static fed_status take_client(sim_log *log, const double *field) {
    const size_t n = log->client_count;
    if ((n & (n - 1)) == 0) {
        sim_account *more = realloc(log->clients, (n == 0 ? 1 : 2 * n) * sizeof *more);
        FED_REQUIRE(more != NULL, FED_ENOMEM);
        log->clients = more;
    }
    log->clients[log->client_count++] = (sim_account){.up_bytes = whole(field[1]),
                                                      .down_bytes = whole(field[2]),
                                                      .counted = (uint32_t)whole(field[3]),
                                                      .refused = (uint32_t)whole(field[4]),
                                                      .broken = (uint32_t)whole(field[5]),
                                                      .samples = (uint32_t)whole(field[6]),
                                                      .busy_s = field[7],
                                                      .present = field[8] == 1,
                                                      .identical = field[9] == 1};
    return FED_OK;
}

static fed_status take_personal(sim_log *log, const double *field) {
    FED_REQUIRE(field[0] >= 0 && field[0] < (double)log->client_count, FED_EFORMAT);
    sim_account *a = &log->clients[(size_t)field[0]];
    a->held = whole(field[1]);
    a->shared = field[2];
    a->personal = field[3];
    return FED_OK;
}

/** Only a run with personal models has the file. */
static fed_status read_personal(const char *directory, sim_log *log, fed_error *err) {
    char path[SIM_PATH];
    return access(sim_path(path, directory, "personal.csv"), F_OK) == 0
               ? read_csv(directory, "personal.csv", sim_personal_header, 4, take_personal, log,
                          err)
               : FED_OK;
}

static fed_status read_attended(const char *directory, sim_log *log, fed_error *err) {
    char path[SIM_PATH], *text = NULL;
    FED_TRY(read_text(directory, "attended.txt", path, &text, err));
    const size_t columns = log->client_count;
    const bool fits = strlen(text) == log->round_count * (columns + 1);
    for (size_t r = 0; fits && r < log->round_count; r++) {
        for (size_t k = 0; k < columns; k++) {
            if (text[r * (columns + 1) + k] == '1') {
                sim_log_attend(log, r, k);
            }
        }
    }
    free(text);
    return fits ? FED_OK
                : fed_fail(err, FED_EFORMAT,
                           "%s: the file must have a line for each of %zu rounds, with a digit for "
                           "each of %zu clients",
                           path, log->round_count, columns);
}

static fed_status load_summary(const char *directory, json_t **json, fed_error *err) {
    char path[SIM_PATH], *text = NULL;
    json_error_t wrong;
    FED_TRY(read_text(directory, "summary.json", path, &text, err));
    *json = json_loads(text, 0, &wrong);
    free(text);
    return *json != NULL ? FED_OK
                         : fed_fail(err, FED_EFORMAT, "%s:%d: %s", path, wrong.line, wrong.text);
}

static fed_status read_summary(const char *directory, sim_log *log, fed_error *err) {
    json_t *json = NULL;
    FED_TRY(load_summary(directory, &json, err));
    const char *digest = json_string_value(json_object_get(json, "model_digest"));
    log->finished = json_is_true(json_object_get(json, "finished"));
    log->parameters = (size_t)json_integer_value(json_object_get(json, "parameters"));
    log->steps = (uint64_t)json_integer_value(json_object_get(json, "local_steps_counted"));
    log->digest = digest != NULL ? strtoull(digest, NULL, 16) : 0;
    log->kills = (uint32_t)json_integer_value(json_object_get(json, "coordinator_kills"));
    log->wall_s = json_number_value(json_object_get(json, "wall_s"));
    log->train_cpu_s = json_number_value(json_object_get(json, "train_cpu_s"));
    log->evaluate_cpu_s = json_number_value(json_object_get(json, "evaluate_cpu_s"));
    log->helper_cpu_s = json_number_value(json_object_get(json, "helper_cpu_s"));
    log->total_cpu_s = json_number_value(json_object_get(json, "total_cpu_s"));
    json_decref(json);
    return FED_OK;
}

fed_status sim_result_finished(const char *directory, bool *finished, fed_error *err) {
    json_t *json = NULL;
    FED_TRY(load_summary(directory, &json, err));
    *finished = json_is_true(json_object_get(json, "finished"));
    json_decref(json);
    return FED_OK;
}

static fed_status read_version(const char *directory, sim_result *result, fed_error *err) {
    char path[SIM_PATH], *text = NULL;
    FED_TRY(read_text(directory, "version", path, &text, err));
    const size_t first = strcspn(text, "\n");
    const char *second = text + first + (text[first] != '\0');
    snprintf(result->version, sizeof result->version, "%.*s", (int)first, text);
    snprintf(result->machine, sizeof result->machine, "%.*s", (int)strcspn(second, "\n"), second);
    free(text);
    return FED_OK;
}

static void name_of(const char *path, char *dst, size_t cap) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    snprintf(dst, cap, "%.*s", (int)(end - start), path + start);
}

fed_status sim_result_read(const char *directory, sim_result *result, fed_error *err) {
    char path[SIM_PATH];
    name_of(directory, result->name, sizeof result->name);
    FED_TRY(read_summary(directory, &result->log, err));
    FED_TRY(read_version(directory, result, err));
    FED_TRY(sim_scenario_read(sim_path(path, directory, "scenario.txt"), &result->scenario, err));
    FED_TRY(sim_scenario_fill(&result->scenario, err));
    FED_TRY(
        read_csv(directory, "clients.csv", sim_clients_header, 10, take_client, &result->log, err));
    FED_TRY(read_personal(directory, &result->log, err));
    FED_TRY(
        read_csv(directory, "rounds.csv", sim_rounds_header, 15, take_round, &result->log, err));
    return read_attended(directory, &result->log, err);
}

void sim_result_free(sim_result *result) {
    sim_scenario_free(&result->scenario);
    sim_log_free(&result->log);
}
