/* Writes the text of a model with many tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "long_text.h"

#include "fed/bytes.h"
#include "fed_test.h"

const char *long_text(const char *name, int tensors) {
    static char text[40 * LONG_TEXT_MOST];
    fed_writer w;
    fed_writer_fixed(&w, text, sizeof text);
    fed_write_printf(&w, "tensors ");
    for (int k = 0; k < tensors; k++) {
        fed_write_printf(&w, "%s%s.%d.weight %d", k > 0 ? " | " : "", name, k, 1 + k % 2);
    }
    fed_write_u8(&w, 0);
    assert_fed_ok(w.status);
    return text;
}
