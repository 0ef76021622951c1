/* The commands of fedworker other than train: their texts for --help, and their functions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDCLIENT_APPS_FEDWORKER_COMMANDS_H
#define FEDCLIENT_APPS_FEDWORKER_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/bytes.h"
#include "fed/error.h"
#include "feddc/link.h"

extern const char fedworker_devices_usage[], fedworker_predict_usage[], fedworker_launch_usage[];

/** fedworker devices: argv[0] is "devices". Appends a table to *out: each device with its card,
 * memory and compute units, and the reason if it can't be used. Lines follow with what is missing
 * for each kind of GPU (OpenCL, CUDA) that has no device. FED_EINVAL: the command line. */
fed_status fedworker_devices(int argc, char **argv, fed_writer *out, fed_error *err) FED_CHECKED;

/** fedworker predict: argv[0] is "predict". Appends the tables to *out. What the command line does
 * not give is measured: the time of a forward and backward pass, and the codec's ratios and speed
 * with gradients of made-up samples. FED_EINVAL: the command line. Others: those of fed_arch_load,
 * fedtrain_net_new and the codec. */
fed_status fedworker_predict(int argc, char **argv, fed_writer *out, fed_error *err) FED_CHECKED;

/**
 * fedworker launch: argv[0] is "launch", its options follow, then "--" and the job's command. The
 * job's processes find the failure detector by fedworker_launched. After a verdict the job is
 * ended, and started again without the workers that failed, as long as --min workers are left.
 *
 * code    the exit status to end with, where FED_OK is returned
 * Errors  FED_EINVAL the command line; FED_EIO the job ended: the error's text is the verdict
 */
fed_status fedworker_launch(int argc, char **argv, int *code, fed_error *err) FED_CHECKED;

/** Return whether this process belongs to a job of fedworker launch. If so, fill in where the
 * failure detector listens and the worker group's secret, from environment variables of the
 * launcher. */
bool fedworker_launched(char address[128], uint8_t secret[FEDDC_SECRET]);

#endif
