/* A build with FED_SMALL must refuse the layers and optimizers that it lacks.
 * deploy/client-memory.py builds and runs this program. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/small.h"
#include "fedtrain/train.h"

_Static_assert(FED_SMALL, "build with FED_SMALL=ON");

static size_t failures;

static void check(const char *what, fed_status status, fed_status wanted, const fed_error *err,
                  const char *sentence) {
    if (status != wanted || strstr(err->text, sentence) == NULL) {
        failures++;
        printf("%s: %s, \"%s\"\n", what, fed_status_name(status), err->text);
    }
}

static void check_models(void) {
    static const char *const texts[] = {
        "input 4 | tanh | dense 2",
        "input 3x8x8 | conv 4 3 | bn | dense 2",
        "input 3x8x8 | conv 4 3 | avgpool | dense 2",
        "input 3x8x8 | a: conv 3 3 pad 1 | add in | dense 2",
        "input 6x1x1 | dense 3 each | dense 2",
        "let pair(c) = dense c | relu; input 4 | pair(3) | dense 2",
        "input tokens 5 of 9 | embedding 4 | lstm 3 | dense 9 each",
    };
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        fed_arch arch = {0};
        fed_error err = {0};
        check(texts[k], fed_arch_parse(texts[k], &arch, &err), FED_EFORMAT, &err, "built small");
        fed_arch_free(&arch);
    }
}

static void check_specs(void) {
    static const char *const specs[] = {"adam:lr=0.1", "momentum:lr=0.1",
                                        "sgd:lr=0.1+cosine:steps=9", "sgd:lr=0.1+clip:norm=1"};
    for (size_t k = 0; k < sizeof specs / sizeof specs[0]; k++) {
        fed_optimizer rule;
        fed_error err = {0};
        check(specs[k], fed_optimizer_parse(specs[k], 0, &rule, &err), FED_EINVAL, &err,
              "built small");
    }
}

static void check_jobs(void) {
    static const uint32_t token[9];
    const fedtrain_job jobs[] = {{.optimizer = {.rule = FED_ADAM}, .steps = 1},
                                 {.optimizer = {.clip_norm = 1}, .steps = 1},
                                 {.augment = {.flip = true}, .steps = 1},
                                 {.token = token, .token_count = 9, .steps = 1}};
    for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
        fed_error err = {0};
        float loss = 0;
        check("a job", fedtrain_run(&jobs[k], NULL, NULL, &loss, &err), FED_EINVAL, &err,
              "built small");
    }
}

int main(void) {
    check_models();
    check_specs();
    check_jobs();
    printf("small refusals: %zu failures\n", failures);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
