/* The program bad_line: joins two network interfaces, and damages frames between them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bad_line.h"

static atomic_bool stop;

static void on_signal(int number) {
    (void)number;
    atomic_store(&stop, true);
}

static const char usage[] =
    "usage: bad_line [OPTION...] INTERFACE INTERFACE\n"
    "  --KIND P            chance of a frame, 0 to 1. KIND: cut, drop, bleach, congest, flip,\n"
    "                      truncate, pad, duplicate, reorder, delay\n"
    "  --hold-frames N     a reordered frame is overtaken by at most N others (8),\n"
    "  --hold-ms N         and waits at most so long (20)\n"
    "  --delay-ms N        a delayed frame waits so long (10)\n"
    "  --least N --most N  payload of the pieces of a cut frame (1 to 1400)\n"
    "  --tos N             DSCP of bleached frames, as bits of ToS (0)\n"
    "  --quiet N           nothing happens to the first N frames of each direction\n"
    "  --packets           as on a wire: segments of many are cut, and checksums complete\n"
    "  --seed N\n"
    "SIGINT or SIGTERM ends it. It prints what it did, a line a direction.\n";

enum {
    HOLD_FRAMES = BAD_KINDS,
    HOLD_MS,
    DELAY_MS,
    LEAST,
    MOST,
    TOS,
    QUIET,
    SEED,
    PACKETS,
    OPTIONS
};

static void list_options(struct option *o) {
    static const char *const more[] = {"hold-frames", "hold-ms", "delay-ms", "least",  "most",
                                       "tos",         "quiet",   "seed",     "packets"};
    for (int k = 0; k < OPTIONS; k++) {
        o[k] = (struct option){.name =
                                   k < BAD_KINDS ? bad_luck_name((bad_luck)k) : more[k - BAD_KINDS],
                               .has_arg = k == PACKETS ? no_argument : required_argument,
                               .val = k};
    }
    o[OPTIONS] = (struct option){0};
}

static atomic_uint *whole_number(bad_rates *r, int option) {
    switch (option) {
    case HOLD_FRAMES:
        return &r->hold_frames;
    case HOLD_MS:
        return &r->hold_ms;
    case DELAY_MS:
        return &r->delay_ms;
    case LEAST:
        return &r->least;
    case MOST:
        return &r->most;
    default:
        return &r->quiet;
    }
}

static bool read_options(int argc, char **argv, bad_rates *rates, uint64_t *seed) {
    struct option options[OPTIONS + 1];
    list_options(options);
    for (int k; (k = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end = NULL;
        double value = k != '?' && k != PACKETS ? strtod(optarg, &end) : 0;
        if (k == '?' || (end != NULL && *end != 0) || value < 0 || value > 1e9) {
            return false;
        }
        if (k < BAD_KINDS) {
            atomic_store(&rates->chance[k], (unsigned)(value * BAD_SURE));
        } else if (k == PACKETS) {
            atomic_store(&rates->packets, true);
        } else if (k == SEED) {
            *seed = (uint64_t)value;
        } else {
            atomic_store(whole_number(rates, k), (unsigned)value);
        }
    }
    return optind + BAD_SIDES == argc && atomic_load(&rates->least) > 0 &&
           atomic_load(&rates->least) <= atomic_load(&rates->most);
}

static int run(bad_line *line, char **interfaces, fed_error *err) {
    int sockets[BAD_SIDES] = {-1, -1};
    for (int k = 0; k < BAD_SIDES; k++) {
        sockets[k] = bad_line_socket(interfaces[k], err);
        if (sockets[k] < 0) {
            return 1;
        }
    }
    const struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    bad_line_run(line, sockets, &stop);
    char text[2000];
    bad_line_report(line, text, sizeof text);
    fputs(text, stdout);
    close(sockets[0]);
    close(sockets[1]);
    return 0;
}

int main(int argc, char **argv) {
    static bad_line line;
    static bad_rates rates;
    fed_error err = {0};
    uint64_t seed = 1;
    atomic_store(&rates.hold_frames, 8);
    atomic_store(&rates.hold_ms, 20);
    atomic_store(&rates.delay_ms, 10);
    atomic_store(&rates.least, 1);
    atomic_store(&rates.most, 1400);
    if (!read_options(argc, argv, &rates, &seed)) {
        fputs(usage, stderr);
        return 2;
    }
    int code = 1;
    if (bad_line_open(&line, &rates, seed, NULL, NULL, &err) == FED_OK) {
        code = run(&line, argv + optind, &err);
        bad_line_close(&line);
    }
    if (code != 0) {
        fprintf(stderr, "bad_line: %s\n", err.text);
    }
    return code;
}
