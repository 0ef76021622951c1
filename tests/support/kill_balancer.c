/* Starts a load balancer for the kill matrix. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "kill_balancer.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fed_test.h"

static const char haproxy[] = "/usr/sbin/haproxy", nginx[] = "/usr/sbin/nginx";
static const char stream[] = "/usr/lib/nginx/modules/ngx_stream_module.so";

bool kill_balancer_is_there(kill_balancer which) {
    switch (which) {
    case KILL_HAPROXY:
        return access(haproxy, X_OK) == 0;
    case KILL_NGINX:
        return access(nginx, X_OK) == 0 && access(stream, R_OK) == 0;
    default:
        return true;
    }
}

/* As in deploy/conf/haproxy.cfg, a health check moves the devices of a coordinator that hangs. */
static void configure_haproxy(FILE *conf, const char *directory, const char *address,
                              const unsigned ports[2], unsigned first, unsigned count) {
    fprintf(conf,
            "defaults\n mode tcp\n timeout connect 2s\n timeout client 2m\n timeout server 2m\n"
            " timeout check 300ms\n option redispatch\n retries 3\n"
            " option httpchk GET /healthz\n http-check expect status 200\n"
            " default-server check check-ssl check-send-proxy port %u verify required\n"
            " default-server ca-file %s/coordinator/ca.pem\n"
            " default-server inter 500ms fall 5 rise 2 on-marked-down shutdown-sessions\n",
            ports[0], directory);
    for (int p = 0; p < 2; p++) {
        fprintf(conf, "listen port%u\n bind %s:%u\n balance roundrobin\n", ports[p], address,
                ports[p]);
        for (unsigned k = 0; k < count; k++) {
            fprintf(conf, " server c%u 127.0.0.%u:%u send-proxy-v2\n", k, first + k, ports[p]);
        }
    }
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
    snprintf(path, sizeof path, "%s/balancer.conf", directory);
    FILE *conf = fopen(path, "w");
    assert_non_null(conf);
    if (which == KILL_HAPROXY) {
        configure_haproxy(conf, directory, address, ports, first, count);
    } else {
        configure_nginx(conf, directory, address, ports, first, count);
    }
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
        execl(haproxy, haproxy, "-db", "-f", conf, (char *)NULL);
    } else {
        execl(nginx, nginx, "-p", directory, "-c", conf, (char *)NULL);
    }
    _exit(127);
}
