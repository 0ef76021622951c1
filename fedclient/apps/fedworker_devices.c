/* fedworker devices: list the GPUs of this machine, and say why some can't be used. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_commands.h"

#include "fed/gpu.h"

const char fedworker_devices_usage[] =
    "devices: list the GPUs of this machine, their names for --device, and why one can't be used\n";

static size_t write_devices(fed_writer *out) {
    fed_gpu_info info;
    size_t count = 0;
    while (fed_gpu_list(count, &info) == FED_OK) {
        if (count++ == 0) {
            fed_write_printf(out, "%-10s %9s %6s  %s\n", "device", "GiB", "units", "card");
        }
        fed_write_printf(out, "%-10s %9.1f %6u  %s\n", info.name, (double)info.memory / (1 << 30),
                         info.units, info.card);
        if (info.lacks[0] != '\0') {
            fed_write_printf(out, "%-10s can't be used: %s\n", "", info.lacks);
        }
    }
    return count;
}

fed_status fedworker_devices(int argc, char **argv, fed_writer *out, fed_error *err) {
    if (argc > 1) {
        return fed_fail(err, FED_EINVAL,
                        "\"%.200s\" is not expected here: devices takes no arguments", argv[1]);
    }
    if (write_devices(out) == 0) {
        fed_write_printf(out, "no GPU is on this machine\n");
    }
    const char *kind = NULL;
    fed_error missing = {0};
    for (size_t k = 0; fed_gpu_kind(k, &kind, &missing) == FED_OK; k++) {
        if (missing.text[0] != '\0') {
            fed_write_printf(out, "%s\n", missing.text);
        }
    }
    return out->status == FED_OK
               ? FED_OK
               : fed_fail(err, out->status, "out of memory for the table of devices");
}
