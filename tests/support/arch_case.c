/* Checks of model descriptions, valid and invalid. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "arch_case.h"

#include "fed_test.h"

fed_arch arch_case_parse(const char *text) {
    fed_arch arch;
    fed_error err = {0};
    if (fed_arch_parse(text, &arch, &err) != FED_OK) {
        fail_msg("\"%.200s\": %s", text, err.text);
    }
    return arch;
}

void arch_case_refused(const char *text, const char *words) {
    fed_arch arch = {.classes = 77};
    fed_error err = {0};
    if (fed_arch_parse(text, &arch, &err) != FED_EFORMAT || strstr(err.text, words) == NULL) {
        fail_msg("\"%.200s\": the error \"%s\" does not contain \"%s\"", text, err.text, words);
    }
    assert_int_equal(arch.classes, 77); /* arch is unchanged */
}

void arch_case_gives(const char *text, size_t l, const char *shape) {
    fed_arch arch = arch_case_parse(text);
    assert_in_range(l, 0, arch.layer_count - 1);
    char out[40];
    snprintf(out, sizeof out, "%ux%ux%u", arch.layers[l].out.c, arch.layers[l].out.h,
             arch.layers[l].out.w);
    if (strcmp(out, shape) != 0) {
        fail_msg("\"%s\": the output of layer %zu has the shape %s, not %s", text, l, out, shape);
    }
    fed_arch_free(&arch);
}

void arch_case_longest(char text[FED_ARCH_TEXT]) {
    static const char first[] = "input 4", dense[] = " | dense 1", relu[] = " | relu";
    const size_t lengths[2] = {sizeof dense - 1, sizeof relu - 1};
    size_t left = FED_ARCH_TEXT - sizeof first;
    char *at = stpcpy(text, first);
    while (left > 0) {
        const bool fills = left % lengths[0] == 0;
        at = stpcpy(at, fills ? dense : relu);
        left -= lengths[fills ? 0 : 1];
    }
}
