/* LeNet and a narrow ResNet learn on a GPU as on the reference backend. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "curve_case.h"
#include "fed/rng.h"
#include "fed_cases.h"
#include "fed_digits.h"
#include "fed_test_gpu.h"
#include "fedtrain/backend.h"
#include "fedtrain/data.h"

enum { MOST = 40 };

static char device[FED_GPU_NAME];

/* Sums differ in their last bits, and each step increases the difference. So the tolerance grows
 * from `first` at the first step to `last` at the last one. */
static void assert_same_curve(const curve_case *c, double first, double last) {
    fed_error err = {0};
    float loss[2][MOST], *params = calloc(c->arch->layout.size, sizeof *params);
    assert_non_null(params);
    assert_true(c->steps <= MOST);
    assert_fed_ok_err(fedtrain_backend_fits(device, c->arch, &err));
    curve_case_run(c, "reference", loss[0], params);
    curve_case_run(c, device, loss[1], params);
    for (size_t k = 0; k < c->steps; k++) {
        const double allowed = first * pow(last / first, (double)k / (double)(c->steps - 1));
        const double off = fabs((double)loss[1][k] - (double)loss[0][k]);
        if (!(off <= allowed * fmax(1, (double)loss[0][k]))) {
            fail_msg("step %zu: the loss is %.7g, the reference's %.7g: %.3g apart, but %.3g are "
                     "allowed",
                     k, (double)loss[1][k], (double)loss[0][k], off, allowed);
        }
    }
    assert_true(loss[1][c->steps - 1] < 0.8F * loss[1][0]);
    free(params);
}

FED_TEST(lenet_learns_digits_as_the_reference_does) {
    char made[256] = "";
    const char *directory = getenv("FED_MNIST_DIR");
    fed_error err = {0};
    fed_arch arch;
    fedtrain_data data;
    if (directory == NULL) {
        fed_test_tmpdir(made, sizeof made);
        fed_digits_write(made, 500, 100);
        directory = made;
    }
    assert_fed_ok_err(fed_arch_parse("lenet5-caffe", &arch, &err));
    assert_fed_ok_err(fedtrain_data_open("mnist", directory, "train", "train", &data, &err));
    assert_same_curve(&(curve_case){.arch = &arch,
                                    .set = &data.set,
                                    .optimizer = "momentum:lr=0.005",
                                    .steps = 24,
                                    .batch = 8,
                                    .seed = 1},
                      1e-5, 1e-3);
    fedtrain_data_free(&data);
    fed_arch_free(&arch);
    if (made[0] != '\0') {
        fed_test_rmdir(made);
    }
}

/* The three stages of ResNet-20, with one block each and a quarter of its width. */
static const char narrow[] =
    "let basic(c) = conv1: conv c 3 pad 1 nobias | bn1: bn | relu | conv2: conv c 3 pad 1 nobias "
    "| bn2: bn | add in | relu; "
    "let down(c) = conv1: conv c 3 stride 2 pad 1 nobias | bn1: bn | relu "
    "| conv2: conv c 3 pad 1 nobias | bn2: bn "
    "| from in | maxpool 1 stride 2 | widen c | add bn2 | relu; "
    "input 3x32x32 init he | conv1: conv 4 3 pad 1 nobias | bn1: bn | relu "
    "| layer1: 1 basic(4) | layer2.0: down(8) | layer3.0: down(16) | avgpool | linear: dense 4";

/* Four classes: in each, another quarter of the picture is bright, in one colour. */
FED_TEST(a_narrow_resnet_learns_pictures_as_the_reference_does) {
    enum { SAMPLES = 64, SIDE = 32, PIXELS = 3 * SIDE * SIDE, CLASSES = 4 };
    uint8_t *pixel = malloc((size_t)SAMPLES * PIXELS), label[SAMPLES];
    fed_error err = {0};
    fed_arch arch;
    fedtrain_dataset set;
    fed_rng rng;
    assert_non_null(pixel);
    fed_rng_init(&rng, 3, 1, 4);
    for (size_t i = 0; i < (size_t)SAMPLES * PIXELS; i++) {
        const size_t class = i / PIXELS % CLASSES, p = i % PIXELS;
        const bool bright = p % SIDE * CLASSES / SIDE == class && p / SIDE / SIDE == class % 3;
        label[i / PIXELS] = (uint8_t) class;
        pixel[i] = (uint8_t)(fed_rng_below(&rng, 90) + (bright ? 150 : 0));
    }
    assert_fed_ok(fedtrain_dataset_wrap(pixel, label, SAMPLES, (fed_shape){3, SIDE, SIDE}, &set));
    assert_fed_ok_err(fed_arch_parse(narrow, &arch, &err));
    assert_same_curve(&(curve_case){.arch = &arch,
                                    .set = &set,
                                    .optimizer = "momentum:lr=0.05,decay=1e-4,nesterov=1",
                                    .steps = 20,
                                    .batch = 8,
                                    .seed = 1},
                      1e-5, 1e-3);
    fedtrain_dataset_free(&set);
    fed_arch_free(&arch);
    free(pixel);
}

int main(void) {
    int status = 0;
    fed_gpu *gpu = fed_test_gpu(&status);
    if (gpu == NULL) {
        return status;
    }
    snprintf(device, sizeof device, "%s", fed_gpu_info_of(gpu)->name);
    fed_gpu_close(gpu);
    return fed_cases_run(NULL, NULL);
}
