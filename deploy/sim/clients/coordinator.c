/* The coordinator of a run: its directory, and over HTTPS its process. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deploy/sim/clients/coordinator.h"
#include "fed/checkpoint.h"
#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"

enum { START_LIMIT_MS = 30000, TOKEN_LIFE_S = 24 * 3600, ROOM_BYTES = 1 << 30 };

/** A file system in memory, where fsync is cheap. */
static const char MEMORY[] = "/dev/shm";
/** A temporary directory's name: this, and what mkdtemp puts for the six letters. */
static const char TEMPORARY[] = "fedsim-run-XXXXXX";

static bool roomy(const char *directory) {
    struct statvfs found;
    return access(directory, W_OK) == 0 && statvfs(directory, &found) == 0 &&
           (uint64_t)found.f_bavail * found.f_frsize >= ROOM_BYTES;
}

/** Open a directory and lock it. -1: it is gone, or another process has locked it. */
static int lock(const char *path) {
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void empty(const char *directory) {
    DIR *dir = opendir(directory);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        (void)unlink(path); /* fails for "." and ".." */
    }
    if (dir != NULL) {
        closedir(dir);
    }
    (void)rmdir(directory);
}

static bool is_temporary(const char *path, const char *name) {
    struct stat info;
    return strlen(name) == sizeof TEMPORARY - 1 &&
           strncmp(name, TEMPORARY, strcspn(TEMPORARY, "X")) == 0 && lstat(path, &info) == 0 &&
           S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

/** Remove what killed runs of this user left in `base`: the system has freed their locks. */
static void sweep(const char *base) {
    static const char *const parts[] = {"coordinator", "coordinator-helper"};
    DIR *dir = opendir(base);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        char path[600], inner[640];
        snprintf(path, sizeof path, "%s/%.255s", base, e->d_name);
        const int fd = is_temporary(path, e->d_name) ? lock(path) : -1;
        if (fd >= 0) {
            for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
                snprintf(inner, sizeof inner, "%s/%s", path, parts[k]);
                empty(inner);
            }
            (void)rmdir(path);
            close(fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/** Make a temporary directory, and lock it. Until it is locked, another run may remove it. */
static bool make_temporary(sim_coordinator *c, const char *base) {
    enum { TRIES = 100 };
    for (int k = 0; k < TRIES; k++) {
        struct stat named, locked;
        snprintf(c->directory, sizeof c->directory, "%s/%s", base, TEMPORARY);
        if (mkdtemp(c->directory) == NULL) {
            return false;
        }
        c->lock = lock(c->directory);
        if (c->lock >= 0 && fstat(c->lock, &locked) == 0 && stat(c->directory, &named) == 0 &&
            named.st_ino == locked.st_ino && named.st_dev == locked.st_dev) {
            return true;
        }
        if (c->lock >= 0) {
            close(c->lock);
        }
    }
    return false;
}

fed_status sim_coordinator_place(sim_coordinator *c, const sim_options *options, fed_error *err) {
    c->program = options->fedserver;
    c->aggregator = options->aggregator;
    c->front_port = options->front_port;
    c->devices_port = options->devices_port;
    c->held[0] = c->held[1] = 0;
    c->pid = -1;
    c->output = -1;
    if (options->directory != NULL) {
        if (strlen(options->directory) >= sizeof c->directory) {
            return fed_fail(err, FED_EINVAL,
                            "the coordinator's directory has a path of more than %zu characters; "
                            "choose a shorter --out",
                            sizeof c->directory - 1);
        }
        snprintf(c->directory, sizeof c->directory, "%s", options->directory);
        return FED_OK;
    }
    const char *base =
        options->transport == SIM_INPROC && roomy(MEMORY) ? MEMORY : getenv("TMPDIR");
    base = base != NULL ? base : "/tmp";
    sweep(base);
    if (!make_temporary(c, base)) {
        return fed_fail(err, FED_EIO, "%s: can't make a temporary directory: %s; set TMPDIR",
                        c->directory, strerror(errno));
    }
    c->temporary = true;
    strncat(c->directory, "/coordinator", sizeof c->directory - strlen(c->directory) - 1);
    return FED_OK;
}

static fed_status make_tokens(fedserver *server, int64_t now_ms, size_t tokens,
                              char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    fedserver_grant grant = {.ttl_s = TOKEN_LIFE_S};
    for (size_t i = 0; i < tokens; i++) {
        grant.role = i + 1 == tokens ? FEDSERVER_ROLE_EVALUATOR : FEDSERVER_ROLE_DEVICE;
        FED_TRY(fedserver_token_grant(server, now_ms, &grant, token[i], err));
    }
    return FED_OK;
}

static fed_status read_ca(sim_coordinator *c, fed_error *err) {
    char path[600];
    snprintf(path, sizeof path, "%s/ca.pem", c->directory);
    uint8_t *data = NULL;
    size_t len = 0;
    FED_TRY(fed_file_read(path, sizeof c->ca.text - 1, &data, &len, err));
    memcpy(c->ca.text, data, len + 1);
    free(data);
    return FED_OK;
}

static int64_t now_of(const sim_options *options) {
    return options->transport == SIM_INPROC ? SIM_EPOCH_MS : fed_clock_unix_ms();
}

fed_status sim_coordinator_make(const sim_coordinator *c, const sim_options *options, size_t tokens,
                                char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    static const char *const hosts[] = {"localhost", "127.0.0.1", "::1", NULL};
    FED_TRY(fedserver_init(c->directory, &(fedserver_init_options){.hosts = hosts}, err));
    fedserver *server = NULL;
    FED_TRY(fedserver_open(c->directory, NULL, &server, err));
    fed_status status = make_tokens(server, now_of(options), tokens, token, err);
    fedserver_close(server);
    return status;
}

fed_status sim_coordinator_queue(const sim_coordinator *c, const sim_options *options,
                                 fed_error *err) {
    uint64_t id = 0;
    fedserver *server = NULL;
    FED_TRY(fedserver_open(c->directory, NULL, &server, err));
    fed_status status = fedserver_task_add(server, now_of(options), options->task, &id, err);
    fedserver_close(server);
    return status;
}

fed_status sim_coordinator_link(const sim_coordinator *c, fed_error *err) {
    char path[sizeof c->directory + 16];
    if (c->aggregator == NULL || c->aggregator[0] == '\0') {
        return FED_OK;
    }
    snprintf(path, sizeof path, "%s/strategy.sock", c->directory);
    return symlink(c->aggregator, path) == 0 || errno == EEXIST
               ? FED_OK
               : fed_file_fail(err, "make the link", path);
}

fed_status sim_coordinator_prepare(sim_coordinator *c, const sim_options *options, size_t tokens,
                                   char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    FED_TRY(sim_coordinator_place(c, options, err));
    FED_TRY(sim_coordinator_make(c, options, tokens, token, err));
    FED_TRY(sim_coordinator_queue(c, options, err));
    FED_TRY(sim_coordinator_link(c, err));
    return read_ca(c, err);
}

/** In the child process: run the coordinator, with its standard output going into the pipe. */
static void exec_coordinator(const sim_coordinator *c, int output) {
    char front[16], devices[16];
    snprintf(front, sizeof front, "%u", c->front_port);
    snprintf(devices, sizeof devices, "%u", c->devices_port);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* however the simulation ends, the coordinator ends, too */
    dup2(output, STDOUT_FILENO);
    execlp(c->program, "fedserver", "run", "--dir", c->directory, "--bind", "127.0.0.1", "--quiet",
           "--front-port", front, "--devices-port", devices, (char *)NULL);
    fprintf(stderr, "fedsim: can't run %s: %s\n", c->program, strerror(errno));
    _exit(127);
}

static uint16_t port_after(const char *line, const char *word) {
    const char *url = strstr(line, word);
    url = url == NULL ? NULL : strstr(url, "://127.0.0.1:");
    return url == NULL ? 0 : (uint16_t)strtoul(url + strlen("://127.0.0.1:"), NULL, 10);
}

static fed_status await_listening(sim_coordinator *c, fed_error *err) {
    char line[512] = "";
    size_t len = 0;
    int64_t limit = fed_clock_monotonic_ms() + START_LIMIT_MS;
    while (strchr(line, '\n') == NULL && len + 1 < sizeof line) {
        struct pollfd p = {.fd = c->output, .events = POLLIN};
        int64_t left = limit - fed_clock_monotonic_ms();
        const int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR) { /* Ctrl-C: the run stops later */
            continue;
        }
        if (ready <= 0) {
            return fed_fail(err, FED_ETIMEOUT, "%s did not say within %d s that it listens",
                            c->program, START_LIMIT_MS / 1000);
        }
        ssize_t got = read(c->output, line + len, sizeof line - len - 1);
        if (got <= 0) {
            return fed_fail(err, FED_EIO,
                            "%s ended before it listened on its ports; its message above says why",
                            c->program);
        }
        len += (size_t)got;
        line[len] = '\0';
    }
    c->front_port = port_after(line, "front");
    c->devices_port = port_after(line, "devices");
    if (c->front_port == 0 || c->devices_port == 0) {
        return fed_fail(err, FED_EFORMAT,
                        "%s printed \"%s\" instead of the addresses where it listens; use the "
                        "fedserver of fedsim's own release",
                        c->program, line);
    }
    return FED_OK;
}

/** If no port is given, choose a free one and keep it bound. Otherwise the system could give the
 * port to another socket while the coordinator is down. The kept socket never listens, so the
 * coordinator can listen on the port. */
static fed_status keep_port(uint16_t *port, int *held, fed_error *err) {
    if (*port != 0) {
        return FED_OK;
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    const int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (const struct sockaddr *)&at, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        const int error = errno;
        if (fd >= 0) {
            close(fd);
        }
        return fed_fail(err, FED_EIO, "can't get a port on 127.0.0.1 for the coordinator: %s",
                        strerror(error));
    }
    *port = ntohs(at.sin_port);
    *held = fd + 1;
    return FED_OK;
}

fed_status sim_coordinator_start(sim_coordinator *c, fed_error *err) {
    FED_TRY(keep_port(&c->front_port, &c->held[0], err));
    FED_TRY(keep_port(&c->devices_port, &c->held[1], err));
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) {
        return fed_fail(err, FED_EIO, "can't make a pipe for the coordinator's output: %s",
                        strerror(errno));
    }
    c->pid = fork();
    if (c->pid == 0) {
        close(pipe_ends[0]);
        exec_coordinator(c, pipe_ends[1]);
    }
    close(pipe_ends[1]);
    c->output = pipe_ends[0];
    if (c->pid < 0) {
        return fed_fail(err, FED_EIO, "can't start %s: %s", c->program, strerror(errno));
    }
    return await_listening(c, err);
}

static fed_status ended(sim_coordinator *c, int how, int wanted_signal, fed_error *err) {
    c->pid = -1;
    close(c->output);
    c->output = -1;
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) {
        return FED_OK;
    }
    if (WIFSIGNALED(how) && WTERMSIG(how) == wanted_signal) {
        return FED_OK;
    }
    return fed_fail(err, FED_EIO, "the coordinator ended with %s %d",
                    WIFSIGNALED(how) ? "signal" : "exit status",
                    WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
}

fed_status sim_coordinator_stop(sim_coordinator *c, int signal, fed_error *err) {
    if (c->pid <= 0) {
        return FED_OK;
    }
    int how = 0;
    kill(c->pid, signal);
    while (waitpid(c->pid, &how, 0) < 0 && errno == EINTR) {
    }
    return ended(c, how, signal, err);
}

fed_status sim_coordinator_alive(sim_coordinator *c, fed_error *err) {
    int how = 0;
    if (waitpid(c->pid, &how, WNOHANG) != c->pid) {
        return FED_OK;
    }
    FED_TRY(ended(c, how, 0, err));
    return fed_fail(err, FED_EIO, "the coordinator ended before the task did");
}

fed_status sim_coordinator_result(const sim_coordinator *c, const char *path, uint64_t *digest,
                                  fed_error *err) {
    char own[600];
    snprintf(own, sizeof own, "%s/final.safetensors", c->directory);
    path = path != NULL ? path : own;
    fedserver *server = NULL;
    FED_TRY(fedserver_open(c->directory, NULL, &server, err));
    fed_status status = fedserver_model_export(server, 0, path, err);
    fedserver_close(server);
    FED_TRY(status);
    fed_model model = {0};
    FED_TRY(fed_checkpoint_load(path, &model, err));
    *digest = fed_digest(model.values, model.layout.size);
    fed_model_free(&model);
    return FED_OK;
}

void sim_coordinator_empty(const sim_coordinator *c) {
    empty(c->directory);
}

void sim_coordinator_clean(sim_coordinator *c) {
    for (int k = 0; k < 2; k++) {
        if (c->held[k] > 0) {
            close(c->held[k] - 1);
        }
        c->held[k] = 0;
    }
    if (!c->temporary) {
        return;
    }
    sim_coordinator_empty(c);
    char *end = strrchr(c->directory, '/');
    *end = '\0';
    (void)rmdir(c->directory);
    close(c->lock);
}

static fed_status copy_file(const char *from, const char *to, const char *name, fed_error *err) {
    char path[1024];
    struct stat info;
    const uint8_t *data = NULL;
    size_t len = 0;
    snprintf(path, sizeof path, "%s/%s", from, name);
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return FED_OK; /* "." and "..", a socket */
    }
    FED_TRY(fed_file_map(path, SIZE_MAX / 2, &data, &len, err));
    snprintf(path, sizeof path, "%s/%s", to, name);
    const fed_status status = fed_file_replace(path, data, len, 0600, err);
    fed_file_unmap(data, len);
    return status;
}

fed_status sim_coordinator_copy(const char *from, const char *to, fed_error *err) {
    fed_status status = FED_OK;
    FED_TRY(fed_dir_make(to, 0700, err));
    DIR *dir = opendir(from);
    if (dir == NULL) {
        return fed_file_fail(err, "open", from);
    }
    for (struct dirent *e = readdir(dir); e != NULL && status == FED_OK; e = readdir(dir)) {
        status = copy_file(from, to, e->d_name, err);
    }
    closedir(dir);
    return status;
}

fed_status sim_coordinator_resume(sim_coordinator *c, const sim_options *options, const char *saved,
                                  fed_error *err) {
    FED_TRY(sim_coordinator_place(c, options, err));
    return c->temporary ? sim_coordinator_copy(saved, c->directory, err) : FED_OK;
}
