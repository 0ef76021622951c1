/* Code that the listing commands share: lists as text or as JSON. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <time.h>

#include "fedserver/commands/command.h"

fed_status command_json_item(size_t *count, json_t *item, fed_error *err) {
    if (item == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for a line of the list");
    }
    fputs((*count)++ == 0 ? "[\n" : ",\n", stdout);
    const int failed = json_dumpf(item, stdout, JSON_COMPACT);
    json_decref(item);
    return failed == 0 ? FED_OK
                       : fed_fail(err, FED_EIO, "the list can't be written to the standard output");
}

fed_status command_json(json_t *object, fed_error *err) {
    if (object == NULL) {
        return fed_fail(err, FED_ENOMEM, "out of memory for the answer as JSON");
    }
    const int failed = json_dumpf(object, stdout, JSON_COMPACT);
    json_decref(object);
    putchar('\n');
    return failed == 0 ? FED_OK
                       : fed_fail(err, FED_EIO, "JSON can't be written to the standard output");
}

void command_list_end(const arguments *args, size_t count, const char *none) {
    if (args->json) {
        puts(count == 0 ? "[]" : "\n]");
    } else if (count == 0 && none != NULL) {
        fprintf(stderr, "%s\n", none);
    }
}

json_t *command_json_time(int64_t ms) {
    return ms != 0 ? json_integer(ms) : json_null();
}

void command_time(int64_t ms, char text[32]) {
    const time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    text[0] = '\0';
    if (ms != 0 && gmtime_r(&seconds, &utc) != NULL) {
        strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
}
