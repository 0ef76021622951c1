/* Reads a public key from a file, as a helper of private sums hands it out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fed/file.h"
#include "fed/hash.h"
#include "fed/point.h"

fed_status fed_point_load(const char *path, uint8_t public_key[FED_POINT], fed_error *err) {
    char word[4 * FED_POINT];
    uint8_t point[FED_POINT];
    fed_error why = {0};
    fed_status status = fed_file_read_word(path, word, sizeof word, &why);
    if (status != FED_OK && status != FED_ERANGE && status != FED_EFORMAT) {
        return fed_fail(err, status, "%s", why.text);
    }
    if (status == FED_OK) {
        status = fed_unhex(word, point, sizeof point);
    }
    if (status != FED_OK || fed_point_check(point, &why) != FED_OK) {
        return fed_fail(err, FED_EFORMAT,
                        "%s has no helper's key: its 130 hex digits, as in the helper's helper.pem",
                        path);
    }
    memcpy(public_key, point, sizeof point);
    return FED_OK;
}
