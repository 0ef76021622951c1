/* Starts a load balancer for the kill matrix. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "kill_balancer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fed_haproxy.h"
#include "fed_test.h"

static const char nginx[] = "/usr/sbin/nginx";
static const char stream[] = "/usr/lib/nginx/modules/ngx_stream_module.so";

bool kill_balancer_is_there(kill_balancer which) {
    switch (which) {
    case KILL_HAPROXY:
        return fed_haproxy_is_there();
    case KILL_NGINX:
        return access(nginx, X_OK) == 0 && access(stream, R_OK) == 0;
    default:
        return true;
    }
}

static void configure_haproxy(const char *directory, const char *address, const unsigned ports[2],
                              unsigned first, unsigned count) {
    char ca[400];
    snprintf(ca, sizeof ca, "%s/coordinator/ca.pem", directory);
    const fed_haproxy h = {.address = address,
                           .ca = ca,
                           .front = ports[0],
                           .devices = ports[1],
                           .first = first,
                           .count = count};
    fed_haproxy_configure(&h, directory, "balancer.conf");
}

static void configure_nginx(FILE *conf, const char *directory, const char *address,
                            const unsigned ports[2], unsigned first, unsigned count) {
    fprintf(conf, "load_module %s;\ndaemon off;\nmaster_process off;\npid %s/nginx.pid;\n", stream,
            directory);
    fprintf(conf, "error_log %s/nginx.log;\nevents { worker_connections 512; }\nstream {\n",
            directory);
    fprintf(conf, " proxy_protocol on;\n proxy_connect_timeout 2s;\n proxy_timeout 2m;\n");
    for (int p = 0; p < 2; p++) {
        fprintf(conf, " upstream port%u {\n", ports[p]);
        for (unsigned k = 0; k < count; k++) {
            fprintf(conf, "  server 127.0.0.%u:%u max_fails=1 fail_timeout=1s;\n", first + k,
                    ports[p]);
        }
        fprintf(conf, " }\n server { listen %s:%u; proxy_pass port%u; }\n", address, ports[p],
                ports[p]);
    }
    fprintf(conf, "}\n");
}

void kill_balancer_configure(kill_balancer which, const char *directory, const char *address,
                             const unsigned ports[2], unsigned first, unsigned count) {
    char path[400];
    if (which == KILL_HAPROXY) {
        configure_haproxy(directory, address, ports, first, count);
        return;
    }
    snprintf(path, sizeof path, "%s/balancer.conf", directory);
    FILE *conf = fopen(path, "w");
    assert_non_null(conf);
    configure_nginx(conf, directory, address, ports, first, count);
    assert_int_equal(fclose(conf), 0);
}

void kill_balancer_log(const char *directory, char *dst, size_t cap) {
    snprintf(dst, cap, "%s/balancer.log", directory);
}

void kill_balancer_become(kill_balancer which, const char *directory) {
    char conf[400], log[400];
    snprintf(conf, sizeof conf, "%s/balancer.conf", directory);
    kill_balancer_log(directory, log, sizeof log);
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    if (which == KILL_HAPROXY) {
        execl(FED_HAPROXY, FED_HAPROXY, "-db", "-f", conf, (char *)NULL);
    } else {
        execl(nginx, nginx, "-p", directory, "-c", conf, (char *)NULL);
    }
    _exit(127);
}
