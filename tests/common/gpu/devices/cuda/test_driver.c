/* Loading CUDA's libraries: if they are missing, the error says what to install. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu/devices/cuda/driver.h"
#include "fed_cases.h"

#include <dlfcn.h>

FED_TEST(without_a_driver_it_says_where_it_comes_from) {
    cuda_calls cuda;
    fed_error err = {0};
    void *there = dlopen("libcuda.so.1", RTLD_NOW);
    if (there != NULL) { /* with a real driver, loading succeeds or the error says why not */
        const fed_status status = fed_cuda_load(&cuda, &err);
        assert_true(status == FED_OK || err.text[0] != '\0');
        fed_cuda_unload(&cuda);
        dlclose(there);
        return;
    }
    assert_fed_status(fed_cuda_load(&cuda, &err), FED_ENOTFOUND);
    assert_fed_says(err, "libcuda.so.1 is not installed; it comes with NVIDIA's driver");
    assert_null(cuda.library);
    fed_cuda_unload(&cuda);
}

FED_TEST(without_a_compiler_it_names_the_packages) {
    nvrtc_calls nvrtc;
    fed_error err = {0};
    const fed_status status = fed_nvrtc_load(&nvrtc, 12040, &err);
    if (status == FED_OK) {
        assert_true(nvrtc.major >= 11);
    } else {
        assert_fed_status(status, FED_ENOTFOUND);
        assert_fed_says(err, "cuda-nvrtc-12");
        assert_fed_says(err, "nvidia-cuda-nvrtc");
    }
    fed_nvrtc_unload(&nvrtc);
    assert_null(nvrtc.library);
}
