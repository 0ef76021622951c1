/* fedclientd's settings, and the functions of its files. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_FEDCLIENTD_H
#define FEDCLIENT_APPS_FEDCLIENTD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fed/gpu.h"
#include "fed/log.h"
#include "fedclient/apps/option_table.h"
#include "fedclient/apps/workshop.h"
#include "fedclient/eligibility.h"
#include "fedclient/fedclient.h"

typedef struct fedclientd_settings {
    char server[1024]; /* addresses, separated by commas */
    const char *ca, *state;
    const char *token, *token_file; /* NULL: none */
    const char *name;               /* the device's name at the coordinator */
    const char *software;           /* the program and its version, such as "fedclientd/0.2.0" */
    const char *downloads_ca;       /* the caches' CA certificate; NULL: the system's CAs */
    const char *transport;          /* NULL: the first transport that this build has */
    const char *personal;           /* file for this device's own model; NULL: none */
    const char *device;             /* the GPU of --device, also in work.backend; NULL: none */
    workshop_settings work;
    fedclient_conditions when;
    uint32_t hold_ms;
    uint32_t slots;         /* most tasks at a time; 0 is the same as 1 */
    uint32_t memory_mb;     /* the option --memory; 0: not given */
    uint64_t memory_bytes;  /* most memory for a task; 0: no limit */
    const char *helper;     /* file with the key of the helper that the device trusts; NULL: none */
    uint32_t least_devices; /* of a private round; 0: any number */
    float most_epsilon;     /* of a task's promise; 0: any task will do */
    bool private_;          /* train for private tasks with that helper only */
    bool no_caches;         /* all downloads come from the coordinator */
    bool until_finished, verbose;
    fed_log log;
    const atomic_int *stop; /* not 0: end soon */
} fedclientd_settings;

/** fedclientd_options.c: read the options of a device, and a program's additional options, the rows
 * `more`. Each row of `more` has commands = FEDCLIENTD_COMMAND, and an offset in the program's own
 * struct, whose first member is *settings. */
enum { FEDCLIENTD_COMMAND = 1 };
fed_status fedclientd_read_options(const option_row *more, size_t count, int argc, char **argv,
                                   fedclientd_settings *settings, fed_error *err) FED_CHECKED;

/** fedclientd_device.c: write to text what the device computes on, such as "opencl:0 pthread-Xeon",
 * or "" for the processor. With a worker group text is only the value of --device, because the
 * workers open the GPU. Errors: those of fed_gpu_open. */
enum { FEDCLIENTD_COMPUTES = 128 };
fed_status fedclientd_find_device(const workshop_settings *work, char text[FEDCLIENTD_COMPUTES],
                                  fed_error *err) FED_CHECKED;
void fedclientd_computes_on(const fed_gpu_info *info, char text[FEDCLIENTD_COMPUTES]);

/** fedclientd_serve.c: catch SIGINT and SIGTERM. Such a signal sets the returned number to 1; the
 * same signal again ends the program at once. */
const atomic_int *fedclientd_catch_signals(void);

/** fedclientd_serve.c: enrol if necessary, then take part until the program is told to stop, or
 * with until_finished until there is nothing more to do. */
fed_status fedclientd_serve(const fedclientd_settings *settings, fed_error *err) FED_CHECKED;

/** fedclientd_personal.c: after this event write the device's personal model, if it has one, to the
 * file that the settings name. A failure is logged. */
void fedclientd_keep_personal(const fedclientd_settings *settings, fedclient *client,
                              const fedclient_event *event);

/** fedclientd_report.c: write why the program ends, to stderr as "PROGRAM: why", or to the log if
 * that is JSON. */
void fedclientd_say_why(const fed_log *log, const char *program, const char *why);

#endif
