/* In a build without OpenCL every call for an "opencl" device fails with a sentence that says what
 * to install. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "common/gpu/device_vtable.h"
#include "fed_cases.h"

extern const fed_gpu_device fed_gpu_device_no_opencl;

FED_TEST(each_way_to_a_device_says_what_to_do) {
    const fed_gpu_device *kind = &fed_gpu_device_no_opencl;
    fed_gpu_info info = {.lacks = ""};
    fed_gpu *gpu = NULL;
    int queue = 0;
    for (int way = 0; way < 3; way++) {
        fed_error err = {0};
        const fed_status status = way == 0   ? kind->look(0, &info, &err)
                                  : way == 1 ? kind->open(0, &gpu, &err)
                                             : kind->open_native(&queue, &gpu, &err);
        assert_int_equal(status, FED_ENOTFOUND);
        assert_fed_says(err, "opencl: this program was built without it; install CL/cl.h");
        assert_null(gpu);
    }
}

FED_TEST(it_answers_to_the_name_of_opencl) {
    assert_string_equal(fed_gpu_device_no_opencl.name, "opencl");
}
