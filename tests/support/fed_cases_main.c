/* The main of a test program that has none of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

int main(void) {
    return fed_cases_run(NULL, NULL);
}
