/* Conditions of training on Linux: power supplies from /sys, network and use from D-Bus. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/eligibility.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"

extern char **environ;

static bool is_word(const char *text, size_t len, const char *word) {
    return len == strlen(word) && strncmp(text, word, len) == 0;
}

static fed_status parse_one(const char *text, size_t len, fedclient_conditions *c, fed_error *err) {
    static const char file[] = "file:";
    const size_t prefix = sizeof file - 1;
    if (is_word(text, len, "charging")) {
        c->charging = true;
    } else if (is_word(text, len, "unmetered")) {
        c->unmetered = true;
    } else if (is_word(text, len, "idle")) {
        c->idle = true;
    } else if (len > prefix && len - prefix < sizeof c->file && strncmp(text, file, prefix) == 0) {
        memcpy(c->file, text + prefix, len - prefix);
        c->file[len - prefix] = '\0';
    } else {
        return fed_fail(err, FED_EINVAL,
                        "\"%.*s\" is no condition: write charging, unmetered, idle or file:PATH, "
                        "with commas between them",
                        (int)(len < 100 ? len : 100), text);
    }
    return FED_OK;
}

fed_status fedclient_conditions_parse(const char *text, fedclient_conditions *conditions,
                                      fed_error *err) {
    for (;;) {
        size_t len = strcspn(text, ",");
        FED_TRY(parse_one(text, len, conditions, err));
        if (text[len] == '\0') {
            return FED_OK;
        }
        text += len + 1;
    }
}

/* --- Power: https://docs.kernel.org/power/power_supply_class.html --- */

/** Read the first line of a supply's attribute; word becomes "" if there is no such attribute. */
static void read_attribute(const char *directory, const char *supply, const char *name,
                           char word[32]) {
    char path[600];
    word[0] = '\0';
    snprintf(path, sizeof path, "%.300s/%.200s/%s", directory, supply, name);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        size_t len = fread(word, 1, 31, file);
        word[len] = '\0';
        word[strcspn(word, "\n")] = '\0';
        fclose(file);
    }
}

typedef struct power {
    bool external, battery, charging;
    char level[32]; /* charge in per cent of a battery that is not charging */
} power;

static void add_supply(power *p, const char *directory, const char *supply) {
    char type[32], scope[32], word[32];
    read_attribute(directory, supply, "type", type);
    read_attribute(directory, supply, "scope", scope);
    if (strcmp(scope, "Device") == 0) { /* the battery of another device, such as a mouse */
        return;
    }
    if (strcmp(type, "Battery") != 0) { /* an external supply: Mains, USB or Wireless */
        read_attribute(directory, supply, "online", word);
        p->external = p->external || (word[0] != '\0' && word[0] != '0');
        return;
    }
    read_attribute(directory, supply, "status", word);
    p->battery = true;
    if (strcmp(word, "Charging") == 0 || strcmp(word, "Full") == 0) {
        p->charging = true;
    } else {
        read_attribute(directory, supply, "capacity", p->level);
    }
}

static fed_status check_power(const fedclient_conditions *c, fed_error *err) {
    const char *directory = c->power != NULL ? c->power : "/sys/class/power_supply";
    power p = {0};
    DIR *supplies = opendir(directory);
    if (supplies == NULL) { /* there is no such directory on a machine without power supplies */
        return FED_OK;
    }
    for (const struct dirent *entry; (entry = readdir(supplies)) != NULL;) {
        if (entry->d_name[0] != '.') {
            add_supply(&p, directory, entry->d_name);
        }
    }
    closedir(supplies);
    if (p.external || p.charging || !p.battery) {
        return FED_OK;
    }
    return fed_fail(err, FED_EBUSY, "this device is not charging%s%s%s",
                    p.level[0] != '\0' ? " (its battery is at " : "", p.level,
                    p.level[0] != '\0' ? " %)" : "");
}

/** Start busctl. Returns the reading end of a pipe with its output; -1: busctl could not be
 * started. */
static int start_busctl(char *const *arguments, pid_t *pid) {
    int ends[2];
    if (pipe(ends) != 0) {
        return -1;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    int failed = posix_spawnp(pid, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed != 0) {
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

/** answer becomes busctl's output, such as "u 4" or "b true"; "" after a failure. */
static void ask_bus(const char *service, const char *path, const char *interface,
                    const char *property, char answer[16]) {
    const char *const arguments[] = {"busctl",       "--system", "--timeout=5",
                                     "get-property", service,    path,
                                     interface,      property,   NULL};
    pid_t pid = 0;
    size_t len = 0;
    answer[0] = '\0';
    int from = start_busctl((char *const *)(uintptr_t)arguments, &pid);
    if (from < 0) {
        return;
    }
    for (ssize_t got = 1; got > 0 && len<15; len += got> 0 ? (size_t)got : 0) {
        got = read(from, answer + len, 15 - len);
    }
    close(from);
    int how = 0;
    bool well = waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0;
    answer[well ? len : 0] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
}

static void ask_buses(fedclient_conditions *c) {
    enum { EVERY_MS = 15000 };
    int64_t now_ms = fed_clock_monotonic_ms();
    if (c->asked_ms != 0 && now_ms - c->asked_ms < EVERY_MS) {
        return;
    }
    c->asked_ms = now_ms;
    if (c->unmetered) {
        ask_bus("org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager",
                "org.freedesktop.NetworkManager", "Metered", c->metered);
    }
    if (c->idle) {
        ask_bus("org.freedesktop.login1", "/org/freedesktop/login1",
                "org.freedesktop.login1.Manager", "IdleHint", c->unused);
    }
}

/** NetworkManager's NMMetered is 1 for yes, 2 no, 3 probably yes, 4 probably no, 0 unknown. */
static fed_status check_network(const fedclient_conditions *c, fed_error *err) {
    if (strcmp(c->metered, "u 2") == 0 || strcmp(c->metered, "u 4") == 0) {
        return FED_OK;
    }
    bool is_metered = strcmp(c->metered, "u 1") == 0 || strcmp(c->metered, "u 3") == 0;
    return fed_fail(err, FED_EBUSY,
                    is_metered ? "the network is metered"
                               : "NetworkManager does not say whether the network is metered: let "
                                 "a script decide, with file:PATH");
}

static fed_status check_use(const fedclient_conditions *c, fed_error *err) {
    if (strcmp(c->unused, "b true") == 0) {
        return FED_OK;
    }
    return fed_fail(err, FED_EBUSY,
                    strcmp(c->unused, "b false") == 0
                        ? "somebody uses this device"
                        : "systemd-logind does not say whether somebody uses this device: let a "
                          "script decide, with file:PATH");
}

fed_status fedclient_conditions_hold(fedclient_conditions *c, fed_error *err) {
    if (c->charging) {
        FED_TRY(check_power(c, err));
    }
    if (c->file[0] != '\0' && access(c->file, F_OK) != 0) {
        return fed_fail(err, FED_EBUSY, "the file %s is not there", c->file);
    }
    if (c->unmetered || c->idle) {
        ask_buses(c);
    }
    FED_TRY(c->unmetered ? check_network(c, err) : FED_OK);
    return c->idle ? check_use(c, err) : FED_OK;
}
