/* fednic: a host's NIC in software, which compresses marked connections. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "fed/version.h"
#include "fedclient/apps/fednic_options.h"
#include "fedclient/apps/option_table.h"

static const char usage[] =
    "Usage: fednic --wire IFACE [--tun NAME] [--bound 2^-E] [options]\n"
    "       fednic --stats [--tun NAME] [--prometheus]\n"
    "       fednic --help | --version\n"
    "\n"
    "A NIC in software, as INCEPTIONN has it: TCP connections that are marked by their\n"
    "ToS (0x28) and carry float32 values leave compressed, and the NIC at the other end restores\n"
    "them. All other frames pass as they are. It runs until SIGINT or SIGTERM, and needs root (or\n"
    "CAP_NET_ADMIN and CAP_NET_RAW).\n"
    "\n"
    "  --wire IFACE       the line: an Ethernet interface without an address, such as eth0\n"
    "  --tun NAME         the host's interface, which has the address; made if it is not there\n"
    "                     (nic0)\n"
    "  --bound 2^-E       largest error of a value, E from 1 to 15 (2^-10)\n"
    "  --bypass           the kernel forwards unmarked frames itself: faster, and not counted;\n"
    "                     needs Linux 6.6, and a network that leaves the ToS as it is\n"
    "  --control PATH     socket of --stats (/run/fednic-NAME.sock)\n"
    "  --stats            ask a running NIC what it has done\n"
    "  --prometheus       print --stats in Prometheus' text format\n"
    "\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage.\n";

enum { EXIT_USAGE = 2 };

static void say(void *user, const char *sentence) {
    (void)user;
    printf("fednic: %s\n", sentence);
    (void)fflush(stdout);
}

static fed_status run(const fednic_options *options, fed_error *err) {
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    const int stop = signalfd(-1, &ends, SFD_NONBLOCK | SFD_CLOEXEC);
    if (stop < 0) {
        return fed_fail(err, FED_EIO, "can't wait for signals: %s", strerror(errno));
    }
    return fednic_run(options, stop, say, NULL, err);
}

static fed_status stats(const fednic_words *words, fed_error *err) {
    fed_writer text;
    fed_writer_growing(&text);
    fed_status status = fednic_ask(
        words->nic.control, words->prometheus ? FEDNIC_PROMETHEUS : FEDNIC_TABLE, &text, err);
    if (status == FED_OK &&
        (fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout) != 0)) {
        status = fed_fail(err, FED_EIO, "can't write to standard output: %s", strerror(errno));
    }
    fed_writer_free(&text);
    return status;
}

int main(int argc, char **argv) {
    fednic_words words;
    fed_error err = {0};
    (void)signal(SIGPIPE, SIG_IGN); /* the program that reads the output may end first */
    if (option_is_given("--help", argc, argv) || option_is_given("-h", argc, argv)) {
        fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    if (option_is_given("--version", argc, argv)) {
        printf("fednic %s (%s)\n", FED_VERSION, fed_build_id());
        return EXIT_SUCCESS;
    }
    if (fednic_words_read(argc, argv, &words, &err) != FED_OK) {
        fprintf(stderr, "fednic: %s (fednic --help tells more)\n", err.text);
        return EXIT_USAGE;
    }
    const fed_status status = words.stats ? stats(&words, &err) : run(&words.nic, &err);
    if (status != FED_OK) {
        fprintf(stderr, "fednic: %s\n", err.text[0] != '\0' ? err.text : fed_status_text(status));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
