/* Writes deploy/conf/haproxy.cfg with the addresses of a test. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_haproxy.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/bytes.h"
#include "fed/file.h"
#include "fed_test.h"

bool fed_haproxy_is_there(void) {
    return access(FED_HAPROXY, X_OK) == 0;
}

static char *read_text(const char *path) {
    uint8_t *text = NULL;
    size_t len = 0;
    fed_error err = {0};
    assert_fed_ok_err(fed_file_read(path, 1 << 20, &text, &len, &err));
    return (char *)text;
}

/* Replace `old` in *text wherever it is. It must be there. */
static void replace(char **text, const char *old, const char *fresh) {
    fed_writer w;
    fed_writer_growing(&w);
    const char *at = *text;
    const char *found = strstr(at, old);
    assert_non_null(found);
    for (; found != NULL; found = strstr(at, old)) {
        fed_write_printf(&w, "%.*s%s", (int)(found - at), at, fresh);
        at = found + strlen(old);
    }
    fed_write_printf(&w, "%s", at);
    fed_write_u8(&w, 0);
    assert_fed_ok(w.status);
    free(*text);
    *text = (char *)w.data;
}

static void replace_port(const fed_haproxy *h, char **text, const char *port, unsigned fresh) {
    static const char *const names[] = {"one", "two", "three"};
    char old[80], line[1000];
    int len = 0;
    for (unsigned k = 0; k < h->count; k++) {
        len += snprintf(line + len, sizeof line - (size_t)len, "    server c%u 127.0.0.%u:%u\n", k,
                        h->first + k, fresh);
    }
    for (unsigned k = 0; k < sizeof names / sizeof names[0]; k++) {
        snprintf(old, sizeof old, "    server %s 192.0.2.%u:%s\n", names[k], k + 1, port);
        replace(text, old, k == 0 ? line : "");
    }
    snprintf(old, sizeof old, "bind :%s", port);
    snprintf(line, sizeof line, "bind %s:%u", h->address, fresh);
    replace(text, old, line);
}

void fed_haproxy_configure(const fed_haproxy *h, const char *directory, const char *name) {
    char *text = read_text(FED_SOURCE_DIR "/deploy/conf/haproxy.cfg");
    char line[40];
    replace_port(h, &text, "8443", h->front);
    replace_port(h, &text, "8444", h->devices);
    snprintf(line, sizeof line, " port %u ", h->front);
    replace(&text, " port 8443 ", line);
    replace(&text, "/etc/haproxy/ca.pem", h->ca);
    replace(&text, "maxconn 65536", "maxconn 100");
    fed_test_put(directory, name, text, strlen(text));
    free(text);
}
