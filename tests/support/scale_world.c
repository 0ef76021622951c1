/* A coordinator process with many enrolled devices, and an nginx to compare with. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "scale_world.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed_operator.h"
#include "fed_port.h"
#include "fed_test.h"
#include "fedserver/server.h"

static void read_ca(const scale_world *w, const char *name, fed_pem *pem) {
    fed_error err = {0};
    char path[400];
    uint8_t *text;
    size_t len;
    snprintf(path, sizeof path, "%s/%s", w->home, name);
    assert_fed_ok_err(fed_file_read(path, sizeof pem->text - 1, &text, &len, &err));
    memcpy(pem->text, text, len + 1);
    free(text);
}

static void enrol(scale_world *w, fedserver *server) {
    fed_error err = {0};
    fed_pem ca_key, ca, csr;
    int64_t now_ms = fed_clock_unix_ms();
    read_ca(w, "ca.key", &ca_key);
    read_ca(w, "ca.pem", &ca);
    const fed_cert_options options = {.purpose = FED_CERT_CLIENT,
                                      .common_name = "device",
                                      .not_before = now_ms / 1000 - 3600,
                                      .not_after = now_ms / 1000 + 86400};
    for (size_t k = 0; k < w->devices; k++) {
        fedserver_device device = {.enrolled_ms = now_ms, .expires_ms = now_ms + 86400000};
        assert_fed_ok_err(fed_key_new(&w->keys[k], &err));
        assert_fed_ok_err(fed_csr_new(&w->keys[k], "device", &csr, &err));
        assert_fed_ok_err(fed_cert_issue(&ca_key, &ca, csr.text, &options, &w->certs[k], &err));
        assert_fed_ok_err(fed_cert_key_fingerprint(w->certs[k].text, device.fingerprint, &err));
        assert_fed_ok_err(server->store->device_add(server->db, &device, &err));
    }
    assert_fed_ok_err(server->store->commit(server->db, &err));
}

void scale_world_open(scale_world *w, size_t devices) {
    static const char *const hosts[] = {"127.0.0.1", NULL};
    fed_error err = {0};
    fedserver *server;
    *w = (scale_world){.devices = devices,
                       .keys = malloc(devices * sizeof *w->keys),
                       .certs = malloc(devices * sizeof *w->certs)};
    assert_non_null(w->keys);
    assert_non_null(w->certs);
    fed_test_tmpdir(w->directory, sizeof w->directory);
    snprintf(w->home, sizeof w->home, "%s/home", w->directory);
    assert_fed_ok_err(fedserver_init(w->home, &(fedserver_init_options){.hosts = hosts}, &err));
    assert_fed_ok_err(fedserver_open(w->home, NULL, &server, &err));
    enrol(w, server);
    fedserver_close(server);
}

void scale_world_task(const scale_world *w, const char *task) {
    (void)fed_operator_task(w->home, w->directory, task);
}

void scale_world_close(scale_world *w) {
    if (w->coordinator.pid != 0) {
        scale_server_stop(&w->coordinator);
    }
    free(w->keys);
    free(w->certs);
    fed_test_rmdir(w->directory);
}

void scale_world_start(scale_world *w) {
    int out[2];
    char line[300] = "";
    unsigned front, devices;
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* end with the test's process */
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        execl(FED_BIN_DIR "/fedserver", "fedserver", "run", "--dir", w->home, "--front-port", "0",
              "--devices-port", "0", "--requests", "1000000", "--quiet", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *pipe_end = fdopen(out[0], "r");
    assert_non_null(fgets(line, sizeof line, pipe_end));
    fclose(pipe_end);
    assert_int_equal(
        sscanf(line, "front https://127.0.0.1:%u/ devices https://127.0.0.1:%u/", &front, &devices),
        2);
    w->coordinator = (scale_server){.pid = pid, .port = (uint16_t)devices};
}

void scale_server_stop(scale_server *server) {
    kill(server->pid, SIGTERM);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

size_t scale_server_pss_bytes(const scale_server *server) {
    char path[64], line[256];
    size_t kb = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)server->pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && kb == 0 && fgets(line, sizeof line, file) != NULL) {
        kb = strncmp(line, "Pss:", 4) == 0 ? strtoull(line + 4, NULL, 10) : 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return kb * 1024;
}

double scale_server_cpu_s(const scale_server *server) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)server->pid);
    FILE *file = fopen(path, "r");
    size_t len = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[len] = '\0';
    char *field = strrchr(text, ')'); /* the 2nd field may contain blanks */
    unsigned long long ticks = 0;
    for (int k = 3; field != NULL && k <= 15; k++) {
        field = strchr(field + 1, ' ');
        ticks += field != NULL && k >= 14 ? strtoull(field + 1, NULL, 10) : 0;
    }
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static const char nginx_conf[] =
    "%sworker_processes 1;\nmaster_process off;\ndaemon off;\npid nginx.pid;\n"
    "error_log error.log warn;\nworker_rlimit_nofile 20000;\n"
    "events { worker_connections 16384; }\n"
    "http { access_log off; keepalive_timeout 600s; keepalive_requests 100000000;\n"
    "  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n"
    "  uwsgi_temp_path uwsgi; scgi_temp_path scgi; sendfile on; tcp_nopush on; "
    "reset_timedout_connection on;\n"
    "  server { listen 127.0.0.1:%u ssl backlog=4096; root .;\n"
    "    ssl_certificate %s/server.pem; ssl_certificate_key %s/server.key;\n"
    "    ssl_client_certificate %s/ca.pem; ssl_verify_client on; ssl_protocols TLSv1.3;\n"
    "    location = /v1/checkin { return 200 \"%s\"; }\n"
    "    location = /v1/model { try_files /model =404; }\n"
    "  }\n}\n";

static bool answers(uint16_t port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool up = connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return up;
}

int scale_world_nginx(const scale_world *w, size_t checkin_len, size_t model_len,
                      scale_server *nginx) {
    static const char program[] = "/usr/sbin/nginx";
    char home[300], text[4096], letters[1024];
    if (access(program, X_OK) != 0 || checkin_len >= sizeof letters) {
        return 0;
    }
    fed_error err = {0};
    const uint16_t port = fed_port_keep();
    snprintf(home, sizeof home, "%s/nginx", w->directory);
    assert_fed_ok_err(fed_dir_make(home, 0700, &err));
    memset(letters, 'x', checkin_len);
    letters[checkin_len] = '\0';
    snprintf(text, sizeof text, nginx_conf, geteuid() == 0 ? "user root;\n" : "", port, w->home,
             w->home, w->home, letters);
    fed_test_put(home, "nginx.conf", text, strlen(text));
    uint8_t *model = malloc(model_len);
    assert_non_null(model);
    assert_fed_ok(fed_random(model, model_len));
    fed_test_put(home, "model", model, model_len);
    free(model);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execl(program, "nginx", "-p", home, "-c", "nginx.conf", (char *)NULL);
        _exit(127);
    }
    *nginx = (scale_server){.pid = pid, .port = port};
    for (int k = 0; k < 500 && !answers(port); k++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    assert_true(answers(port));
    return 1;
}
