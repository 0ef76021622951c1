/* The options --backend and --device, for each program that has both. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/device_option.h"

#include "fed/gpu.h"
#include "fedtrain/backend.h"

fed_status device_option_settle(const char *device, const char **backend, fed_error *err) {
    if (device != NULL && *backend != NULL) {
        return fed_fail(err, FED_EINVAL,
                        "--backend and --device both say what computes: give only one of them");
    }
    if (device != NULL && !fed_gpu_is_name(device)) {
        return fed_fail(err, FED_EINVAL,
                        "--device %.40s: a device is called gpu, opencl:0 or cuda:0; `fedworker "
                        "devices` lists those of this machine",
                        device);
    }
    *backend = device != NULL ? device : *backend;
    return fedtrain_backend_fits(*backend, NULL, err);
}
