/* A device without an operating system: a Cortex-M3 that takes part over lwIP and
 * mbedTLS. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fedclient/examples/baremetal/board.h"
#include "fedclient/examples/baremetal/semihosting.h"

/** The board's settings. A product has them in flash, from the factory. */
typedef struct settings {
    char words[512]; /* the emulator's arguments, each NAME=VALUE */
    const char *server, *token, *ca, *flash, *cut;
} settings;

static void read_settings(settings *s) {
    semihosting_command_line(s->words, sizeof s->words);
    for (char *word = strtok(s->words, " "); word != NULL; word = strtok(NULL, " ")) {
        const char **const places[] = {&s->server, &s->token, &s->ca, &s->flash, &s->cut};
        static const char *const names[] = {"server=", "token=", "ca=", "flash=", "cut="};
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            if (strncmp(word, names[k], strlen(names[k])) == 0) {
                *places[k] = word + strlen(names[k]);
            }
        }
    }
}

static char *read_text(const char *path) {
    const int file = path != NULL ? semihosting_open(path, SEMIHOSTING_READ) : -1;
    const size_t len = file >= 0 ? semihosting_length(file) : 0;
    char *text = len > 0 ? calloc(1, len + 1) : NULL;
    if (text != NULL && !semihosting_read(file, 0, text, len)) {
        free(text);
        text = NULL;
    }
    if (file >= 0) {
        semihosting_close(file);
    }
    return text;
}

static void tell(const fedclient_event *event, const fed_error *err) {
    switch (event->outcome) {
    case FEDCLIENT_COUNTED:
        printf("round %u: counted, loss %.4f\n", (unsigned)event->round, (double)event->loss);
        break;
    case FEDCLIENT_FINISHED:
        puts("finished");
        break;
    case FEDCLIENT_WAITED:
        break;
    default:
        printf("outcome %d: %s\n", (int)event->outcome, err->text);
    }
}

static fed_status take_part(fedclient *client, const char *token, fed_error *err) {
    FED_TRY(fedclient_token_give(client, token, err));
    puts("enrolled");
    for (fedclient_event event = {0}; !event.over;) {
        FED_TRY(fedclient_step(client, &event, err));
        tell(&event, err);
        fed_sleep_ms(event.wait_ms);
    }
    return FED_OK;
}

static fed_status run(const settings *s, const fedclient_flash *flash, const char *ca,
                      fed_error *err) {
    fedclient_platform platform = {0};
    fedclient_transport transport = {0};
    fedclient *client = NULL;
    const fedclient_options options = {.server = s->server,
                                       .platform = &platform,
                                       .transport = &transport,
                                       .name = "board",
                                       .software = "baremetal",
                                       .hold_ms = 25000,
                                       .train = board_train};
    const fedclient_transport_options line = {.ca_pem = ca};
    fed_status status = fedclient_platform_flash_open(flash, &platform, err);
    if (status == FED_OK) {
        status = fedclient_transport_open("mbedtls", &line, &transport, err);
    }
    if (status == FED_OK) {
        status = fedclient_open(&options, &client, err);
    }
    if (status == FED_OK) {
        status = take_part(client, s->token != NULL ? s->token : "", err);
    }
    fedclient_close(client);
    fedclient_transport_close(&transport);
    fedclient_platform_flash_close(&platform);
    return status;
}

static void report_memory(void) {
    const board_memory m = board_memory_used();
    printf("memory: fixed %zu, heap %zu of %zu, stack %zu of %zu\n", m.fixed, m.heap, m.heap_limit,
           m.stack, m.stack_limit);
}

int main(void) {
    static settings s;
    static fed_error err;
    fedclient_flash flash = {0};
    board_clock_start();
    read_settings(&s);
    char *ca = read_text(s.ca);
    if (s.server == NULL || ca == NULL || !board_flash_open(s.flash, s.cut, &flash)) {
        puts("usage: server=https://ADDRESS:PORT ca=FILE flash=FILE token=TOKEN");
        return 2;
    }
    if (!board_network_start()) {
        puts("the board has no network: no address came by DHCP in half a minute");
        return 1;
    }
    const fed_status status = run(&s, &flash, ca, &err);
    if (status != FED_OK) {
        printf("board: %s: %s\n", fed_status_name(status), err.text);
    }
    report_memory();
    free(ca);
    return status == FED_OK ? 0 : 1;
}
