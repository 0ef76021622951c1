/* The directory of results that a run leaves: written from a log, and read into one. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_RESULTS_H
#define FEDSIM_RESULTS_H

#include "deploy/sim/report/sim_log.h"
#include "deploy/sim/scenario/scenario.h"

/*
 *   scenario.txt   every key, with defaults: `fedsim run` takes it again
 *   task.json      what the coordinator was given
 *   version        of the program that ran, with its commit; and the machine that it ran on
 *   rounds.csv, clients.csv, attended.txt (a line a round, a digit a client), summary.json
 *   report.html    report.h
 *
 * Each file is replaced atomically, summary.json after the other figures: a directory without it is
 * of a run that was killed.
 */

enum { SIM_PATH = 4096 };

/** "DIRECTORY/NAME", cut where it is too long. dst */
const char *sim_path(char dst[SIM_PATH], const char *directory, const char *name);

typedef struct sim_result {
    char name[256];    /* of the run among others: its directory's */
    char version[128]; /* of the program, with its commit */
    char machine[128]; /* "": not known */
    sim_scenario scenario;
    sim_log log;
} sim_result;

/** All clients together. */
typedef struct sim_totals {
    uint64_t counted, refused, broken, up_bytes, down_bytes, update_bytes, delta_bytes;
    size_t present, identical;
    double virtual_s;          /* of the last round */
    double up_bits, down_bits; /* for each value: of the counted updates, of the deltas */
    double compression, compression_both; /* against float32 at every step: up, and both ways */
    double compression_round;             /* against float32 once for each update that counted */
} sim_totals;

sim_totals sim_log_totals(const sim_log *log);

/** Write scenario.txt, task.json and version, before the run. */
fed_status sim_result_begin(const char *directory, const sim_scenario *scenario,
                            fed_error *err) FED_CHECKED;
/** Write the log's files; it may be of a run that was stopped. */
fed_status sim_result_write(const char *directory, const sim_log *log, fed_error *err) FED_CHECKED;
/** Read a directory into a result that is all 0; sim_result_free in every case. FED_ENOTFOUND: no
 * results are there; FED_EFORMAT: with file and line. */
fed_status sim_result_read(const char *directory, sim_result *result, fed_error *err) FED_CHECKED;
void sim_result_free(sim_result *result);

/** Does the directory hold a run that came to its end? FED_ENOTFOUND: none that was stopped either.
 */
fed_status sim_result_finished(const char *directory, bool *finished, fed_error *err) FED_CHECKED;

/** "fedsim 0.2.0 (2d9f797ab0), protocol 2" */
void sim_version_text(char *dst, size_t cap);

/** "AMD EPYC 9R45, 2 processors" */
void sim_machine_text(char *dst, size_t cap);

/** The first lines of the files of rounds and of clients. */
extern const char sim_rounds_header[], sim_clients_header[];

#endif
