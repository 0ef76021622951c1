/* The directory of results that a run leaves: written from a log, and read back into a log. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_RESULTS_H
#define FEDSIM_RESULTS_H

#include "deploy/sim/report/sim_log.h"
#include "deploy/sim/scenario/scenario.h"

/*
 *   scenario.txt   every key, also those with defaults; `fedsim run` can read it
 *   task.json      the task that the coordinator got; a coordinator of one's own has its own
 *   version        the program's version and commit, and the machine
 *   rounds.csv     a line for each round
 *   clients.csv    a line for each client
 *   personal.csv   with personal models a line for each client: how good its models are for it
 *   attended.txt   a line for each round, with a digit for each client: 1 if its update counted
 *   summary.json   totals of the run
 *   report.html    the page of report.h
 *
 * Each file is replaced atomically. summary.json is written last of the figures, so a directory
 * without it has no complete results.
 */

enum { SIM_PATH = 4096 };

/** Write the path "DIRECTORY/NAME", cut if it is too long. Returns dst. */
const char *sim_path(char dst[SIM_PATH], const char *directory, const char *name);

typedef struct sim_result {
    char name[256]; /* the name of the run's directory */
    char version[128];
    char machine[128]; /* "": not known */
    sim_scenario scenario;
    sim_log log;
} sim_result;

typedef struct sim_totals {
    uint64_t counted, refused, broken, up_bytes, down_bytes, update_bytes, delta_bytes;
    size_t present, identical;
    double virtual_s;          /* when the last round was committed */
    double up_bits, down_bits; /* bits per value: of the counted updates, of the deltas */
    /* Ratios: the bytes of float32 gradients at every step to the bytes up, and twice those bytes
     * to the bytes up and down. */
    double compression, compression_both;
    double compression_round; /* ratio: the bytes of float32 updates to the bytes up */
} sim_totals;

sim_totals sim_log_totals(const sim_log *log);

/** Write scenario.txt, task.json and version, before the run. */
fed_status sim_result_begin(const char *directory, const sim_scenario *scenario,
                            fed_error *err) FED_CHECKED;
/** Write the files of a log, which may be of a run that was stopped. */
fed_status sim_result_write(const char *directory, const sim_log *log, fed_error *err) FED_CHECKED;
/** Read a directory into a result that is all 0. Call sim_result_free even after an error.
 * FED_ENOTFOUND: the directory has no results. FED_EFORMAT: *err names the wrong file. */
fed_status sim_result_read(const char *directory, sim_result *result, fed_error *err) FED_CHECKED;
void sim_result_free(sim_result *result);

/** Find out whether the directory's run came to its end; it may also have been stopped.
 * FED_ENOTFOUND: the directory has no summary.json. */
fed_status sim_result_finished(const char *directory, bool *finished, fed_error *err) FED_CHECKED;

/** Write this program's version, such as "fedsim 0.2.0 (2d9f797ab0), protocol 2". */
void sim_version_text(char *dst, size_t cap);

/** Write a description of this machine, such as "AMD EPYC 9R45, 2 processors". */
void sim_machine_text(char *dst, size_t cap);

/** The first lines of rounds.csv, clients.csv and personal.csv. */
extern const char sim_rounds_header[], sim_clients_header[], sim_personal_header[];

#endif
