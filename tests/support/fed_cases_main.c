/* The main of test programs without a main of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

int main(void) {
    return fed_cases_run(NULL, NULL);
}
