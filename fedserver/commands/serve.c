/* The commands run and front: the two processes that serve. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* for pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/host_port.h"
#include "fed/machine.h"
#include "fedserver/commands/command.h"
#include "fedserver/commands/notify.h"
#include "fedserver/commands/upstream.h"
#include "fedserver/http.h"

/* The signal handler sets these, which is allowed because atomic_int is lock-free. */
static atomic_int stop, children, reload, hangup;

static void on_signal(int number) {
    if (number == SIGHUP) {
        reload = hangup = 1;
    } else {
        *(number == SIGCHLD ? &children : &stop) = 1;
    }
}

static void print_url(const char *what, const char *host, uint16_t port) {
    const bool v6 = strchr(host, ':') != NULL;
    printf("%s https://%s%s%s:%u", what, v6 ? "[" : "", host, v6 ? "]" : "", port);
}

typedef struct front {
    const arguments *args;
    const fed_log *log;
    pid_t pid; /* 0: none runs */
    /* The front's listening socket. This process keeps it open, too, so that connections wait while
     * the front starts again. */
    int socket;
    int ready; /* a pipe: the front writes a byte once it serves; -1: none */
    bool served;
    uint16_t port, devices_port;
    int64_t started_ms;
    unsigned failures; /* consecutive starts that ended before the front served */
    fed_status status; /* FED_OK, or why open_front or upstream_tend has failed */
    fed_error err;
    upstream *edge; /* NULL: this coordinator is no edge aggregator */
} front;

/* In the child process: become `fedserver front`, which inherits the listening socket and the end
 * `ready` of a pipe. */
static void exec_front(const front *f, int ready, pid_t parent_pid) {
    char socket_text[16], ready_text[16], ports[2][16], days[32], requests[32], parent[32];
    snprintf(socket_text, sizeof socket_text, "%d", f->socket);
    snprintf(ready_text, sizeof ready_text, "%d", ready);
    snprintf(ports[0], sizeof ports[0], "%u", f->port);
    snprintf(ports[1], sizeof ports[1], "%u", f->devices_port);
    snprintf(days, sizeof days, "%.9g", f->args->device_days);
    snprintf(requests, sizeof requests, "%ld", f->args->requests);
    snprintf(parent, sizeof parent, "%ld", (long)parent_pid);
    const char *const more[] = {"--front-socket", socket_text,   "--front-port",  ports[0],
                                "--devices-port", ports[1],      "--device-days", days,
                                "--requests",     requests,      "--parent",      parent,
                                "--page",         f->args->page, "--ready",       ready_text,
                                "--log",          f->args->log};
    /* SPARE: --proxy-protocol and its value, --quiet, and the NULL at the end */
    enum { FIRST = 6, MORE = sizeof more / sizeof more[0], SPARE = 4 };
    const char *words[FIRST + MORE + SPARE] = {"fedserver-front", "front",  "--dir",
                                               f->args->dir,      "--bind", f->args->bind};
    memcpy(words + FIRST, more, sizeof more);
    size_t n = FIRST + MORE;
    if (f->args->proxies != NULL) {
        words[n++] = "--proxy-protocol";
        words[n++] = f->args->proxies;
    }
    words[n] = f->args->quiet ? "--quiet" : NULL;
    (void)fcntl(f->socket, F_SETFD, 0);
    (void)fcntl(ready, F_SETFD, 0);
    /* only the parent talks to the service manager, about both processes */
    (void)unsetenv("NOTIFY_SOCKET");
    execv("/proc/self/exe", (char *const *)(uintptr_t)words);
    _exit(127);
}

static void close_ready(front *f) {
    if (f->ready >= 0) {
        close(f->ready);
        f->ready = -1;
    }
}

static void start_front(front *f) {
    /* read before the fork, because later the child's parent may be another process */
    const pid_t self = getpid();
    int ends[2] = {-1, -1};
    close_ready(f);
    f->served = false;
    f->started_ms = fed_clock_monotonic_ms();
    f->pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (f->pid == 0) {
        exec_front(f, ends[1], self);
    }
    f->ready = ends[0];
    if (ends[1] >= 0) {
        close(ends[1]);
    }
    if (f->pid < 0) {
        f->pid = 0;
        children = 1;
    }
}

/* Wait until the front serves or has ended, or this process is told to stop. Returns whether the
 * front has told that it serves. */
static bool has_served(front *f) {
    char byte;
    ssize_t got = 0;
    do {
        got = f->ready >= 0 ? read(f->ready, &byte, 1) : 0;
    } while (got < 0 && errno == EINTR && stop == 0);
    close_ready(f);
    f->served = f->served || got == 1;
    return f->served;
}

/* The least time between two starts of the front, in milliseconds. It doubles with each failure,
 * from 1 s to 64 s. */
static int64_t pause_of(const front *f) {
    enum { RESTART_MS = 1000, DOUBLINGS = 6 };
    return (int64_t)RESTART_MS << (f->failures < DOUBLINGS ? f->failures : DOUBLINGS);
}

static void tend_children(front *f) {
    int how = 0;
    children = 0;
    if (f->pid > 0 && waitpid(f->pid, &how, WNOHANG) == f->pid) {
        f->pid = 0;
        f->failures = has_served(f) ? 0 : f->failures + 1;
        fed_logf(f->log, FED_LOG_ERROR,
                 "the front ended with %s %d; it is started again, at most once in %lld s",
                 WIFSIGNALED(how) ? "signal" : "exit status",
                 WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how),
                 (long long)(pause_of(f) / 1000));
    }
    if (f->pid == 0 && fed_clock_monotonic_ms() - f->started_ms >= pause_of(f)) {
        start_front(f);
    }
    children = children != 0 || f->pid == 0;
}

static void tend_run(void *user) {
    front *f = user;
    notify_alive();
    if (children != 0) {
        tend_children(f);
    }
    if (f->pid > 0 && atomic_exchange(&hangup, 0) != 0) {
        kill(f->pid, SIGHUP);
    }
    if (f->edge != NULL && f->status == FED_OK) {
        f->status = upstream_tend(f->edge, &f->err);
        stop = f->status != FED_OK ? 1 : stop;
    }
}

static void tend_front(void *user) {
    (void)user;
    notify_alive();
}

/* Stop the front. A signal between the child's fork and exec is lost, so the signal is repeated. */
static void stop_front(front *f) {
    enum { PAUSE_MS = 5, TRIES = 1000 };
    for (int k = 0; f->pid > 0; k++) {
        kill(f->pid, k < TRIES ? SIGTERM : SIGKILL);
        fed_sleep_ms(PAUSE_MS);
        f->pid = waitpid(f->pid, NULL, WNOHANG) == f->pid ? 0 : f->pid;
    }
    if (f->socket > 0) {
        close(f->socket);
    }
    close_ready(f);
}

static uint16_t front_port_of(const arguments *args) {
    return (uint16_t)(args->front_port >= 0 ? args->front_port : COMMAND_FRONT_PORT);
}

/* Called when the devices' listener is open: start the front, unless --no-front was given, and
 * print the addresses. */
static void open_front(void *user, uint16_t front_port, uint16_t devices_port) {
    front *f = user;
    (void)front_port;
    f->devices_port = devices_port;
    if (!f->args->no_front) {
        f->port = front_port_of(f->args);
        f->status = fedserver_http_listen(f->args->bind, &f->port, &f->socket, &f->err);
        if (f->status != FED_OK) {
            stop = 1;
            return;
        }
        start_front(f);
        if (!has_served(f) && stop == 0) {
            f->status = fed_fail(&f->err, FED_EIO,
                                 "the front can't serve; its own error says why. Mend that, or "
                                 "serve devices alone with --no-front");
            stop = 1;
        }
        if (stop != 0) {
            return;
        }
        print_url("front", f->args->bind, f->port);
        printf("/  ");
    }
    print_url("devices", f->args->bind, devices_port);
    putchar('\n');
    fflush(stdout);
    notify_send("READY=1");
}

static void announce_front(void *user, uint16_t front_port, uint16_t devices_port) {
    const arguments *args = user;
    (void)devices_port;
    if (args->ready != 0) {
        (void)!write((int)args->ready, "", 1);
        close((int)args->ready);
    }
    if (args->front_socket == 0) {
        print_url("front", args->bind, front_port);
        puts("/");
        fflush(stdout);
    }
    notify_send("READY=1");
}

static void prepare_process(void) {
    struct rlimit limit;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGCHLD, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Bytes of memory for tasks. The default is half of the machine's. */
static uint64_t task_memory(const arguments *args) {
    const double gb = 1e9;
    return args->task_memory > 0 ? (uint64_t)(args->task_memory * gb) : fed_machine_bytes() / 2;
}

/* *edge: set to the device of an edge aggregator; edge NULL: there is none. */
static fed_status serve(const arguments *args, fedserver_part part,
                        const fedserver_http_options *options, const fed_log *log, upstream **edge,
                        fed_error *err) {
    fedserver *server = NULL;
    /* a front never upgrades: the process that serves the rounds may be of the older release */
    fed_status status = part == FEDSERVER_GATE ? FED_OK : fedserver_upgrade(args->dir, err);
    if (status == FED_OK) {
        status = fedserver_open(args->dir, log, &server, err);
    }
    if (status == FED_OK) {
        const double day_s = 24 * 3600;
        fedserver_setup setup = {.part = part,
                                 .address = part == FEDSERVER_ROUNDS ? args->cluster : NULL,
                                 .apart_values = FEDSERVER_APART_VALUES,
                                 .device_life_s = (int64_t)(args->device_days * day_s + 0.5),
                                 .task_memory = task_memory(args)};
        /* run and serve_front checked it */
        (void)command_find_page(args->page, &setup.page, &setup.page_reads);
        fedserver_configure(server, &setup);
        status = edge != NULL ? upstream_open(server, args, log, edge, err) : FED_OK;
    }
    if (status == FED_OK) {
        status = fedserver_http_serve(server, options, log, err);
        notify_send("STOPPING=1");
    }
    if (edge != NULL) {
        upstream_close(*edge);
    }
    fedserver_close(server);
    return status;
}

static fed_status listen_for_others(const char *address, int *fd, fed_error *err) {
    fed_host_port at;
    fed_error why = {0};
    if (fed_host_port_read(address, 1, &at, &why) != FED_OK) {
        return fed_fail(err, FED_EINVAL, "--cluster: %s", why.text);
    }
    if (strcmp(at.host, "0.0.0.0") == 0 || strcmp(at.host, "::") == 0) {
        return fed_fail(err, FED_EINVAL,
                        "--cluster %s: write the one IP address by which the other coordinators "
                        "reach this one, such as 192.0.2.1:8445 or [2001:db8::1]:8445",
                        address);
    }
    return fedserver_http_listen(at.host, &at.port, fd, err);
}

static int fail(const fed_log *log, const fed_error *err) {
    fed_logf(log, FED_LOG_ERROR, "%s", err->text);
    return COMMAND_FAILED;
}

/* Read the options of both commands that are words of a list. part: which process writes the log.
 * False: the error is printed. */
static bool read_words(const arguments *args, const char *part, fed_log *log) {
    fedserver_page page;
    bool reads;
    fed_error err = {0};
    *log = (fed_log){.level = args->quiet ? FED_LOG_WARN : FED_LOG_INFO};
    if (!command_find_page(args->page, &page, &reads)) {
        command_usage(args,
                      "--page must be loopback, operators, all or read, or such as all,read, not",
                      args->page);
        return false;
    }
    if (fed_log_choose(args->log, part, log, &err) != FED_OK) {
        command_usage(args, err.text, "");
        return false;
    }
    return true;
}

static int run(const arguments *args) {
    fed_log log;
    if (!read_words(args, "rounds", &log)) {
        return COMMAND_USAGE;
    }
    if (args->cluster != NULL && args->upstream != NULL) {
        return command_usage(
            args, "an edge aggregator runs as one coordinator, so --cluster does not go with",
            "--upstream");
    }
    front f = {.args = args, .log = &log, .ready = -1};
    fedserver_http_options options = {.bind = args->bind,
                                      .devices_port = (uint16_t)args->devices_port,
                                      .doors = FEDSERVER_DOOR_DEVICES,
                                      .requests_per_s = (uint32_t)args->requests,
                                      .proxies = args->proxies,
                                      .connections = (uint32_t)args->connections,
                                      .shared_tickets = args->cluster != NULL,
                                      .stop = &stop,
                                      .reload = &reload,
                                      .tend = tend_run,
                                      .ready = open_front,
                                      .user = &f};
    fed_error err = {0};
    prepare_process();
    fed_status status = args->cluster != NULL
                            ? listen_for_others(args->cluster, &options.cluster_socket, &err)
                            : FED_OK;
    if (status == FED_OK) {
        status = serve(args, FEDSERVER_ROUNDS, &options, &log,
                       args->upstream != NULL ? &f.edge : NULL, &err);
    }
    stop_front(&f);
    return f.status != FED_OK ? fail(&log, &f.err)
           : status != FED_OK ? fail(&log, &err)
                              : COMMAND_OK;
}

/* Of the two processes that serve, only the front reads the CA's key. */
static int serve_front(const arguments *args) {
    fed_log log;
    if (!read_words(args, "front", &log)) {
        return COMMAND_USAGE;
    }
    if (args->parent != 0 &&
        (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != (pid_t)args->parent)) {
        return COMMAND_FAILED; /* the parent has ended already, so end silently */
    }
    const fedserver_http_options options = {.bind = args->bind,
                                            .front_port = front_port_of(args),
                                            .devices_port = (uint16_t)args->devices_port,
                                            .doors = FEDSERVER_DOOR_FRONT,
                                            .front_socket = (int)args->front_socket,
                                            .requests_per_s = (uint32_t)args->requests,
                                            .proxies = args->proxies,
                                            .stop = &stop,
                                            .reload = &reload,
                                            .tend = tend_front,
                                            .ready = announce_front,
                                            .user = (void *)(uintptr_t)args};
    fed_error err = {0};
    prepare_process();
    (void)prctl(PR_SET_NAME, "fedserver-front"); /* for ps and top, which would show "exe" */
    fed_status status = serve(args, FEDSERVER_GATE, &options, &log, NULL, &err);
    return status == FED_OK ? COMMAND_OK : fail(&log, &err);
}

const command command_run = {
    .name = "run",
    .run = run,
    .options = "bind front-port devices-port device-days requests connections task-memory page "
               "proxy-protocol no-front cluster quiet log upstream upstream-ca upstream-token "
               "upstream-token-file edge-cohort edge-goal edge-minimum "
               "site-cohort site-goal site-minimum name",
    .brief = "serve",
    .help =
        "usage: fedserver run --dir DIR [--bind ADDRESS] [--front-port N] [--devices-port N] "
        "[--quiet]\n"
        "Serve until SIGINT or SIGTERM. Prints one line once both ports are open. SIGHUP: read "
        "the\n"
        "certificates again. Upgrades the store of an older release first.\n"
        "  --bind ADDRESS     address to listen on (default 127.0.0.1)\n"
        "  --front-port N     page, status, metrics, enrolment (default 8443; 0: any free one)\n"
        "  --devices-port N   enrolled devices (default 8444; 0: any free one)\n"
        "  --device-days D    how long devices' certificates are valid (default 730)\n"
        "  --requests N       requests a second that one device may send (default 100)\n"
        "  --connections N    connections that one device may have at a time (default 16)\n"
        "  --task-memory GB   memory that running tasks may take together (default: half of this\n"
        "                     machine's);\n"
        "                     a task that does not fit waits in the queue\n"
        "  --proxy-protocol ADDRESS[,ADDRESS]\n"
        "                     proxies that pass TLS on, and say with a PROXY header (version 1 or\n"
        "                     2) who the client is; PROXY headers of others are refused\n"
        "  --page WHO         who may read page, status and metrics: loopback (this machine, and\n"
        "                     operators from elsewhere; the default), operators, or all.\n"
        "                     Operators who have logged in may act, too; not with read, which is\n"
        "                     loopback,read, with operators,read or with all,read\n"
        "  --no-front         leave the front to a `fedserver front` started otherwise\n"
        "  --cluster HOST:PORT\n"
        "                     serve beside other coordinators with the same keys and PostgreSQL:\n"
        "                     one leads, the others pass requests on and take over from it. They\n"
        "                     reach this coordinator at that IP address and port\n"
        "  --quiet            log warnings and errors only\n"
        "  --log text|json    text (default), or one JSON object a line\n"
        "As an edge aggregator: a device of another coordinator, upstream, whose trainings are "
        "rounds here\n"
        "  --upstream URL     upstream's front, https://HOST:8443\n"
        "  --upstream-ca FILE upstream's ca.pem\n"
        "  --upstream-token T, --upstream-token-file FILE\n"
        "                     a token that `fedserver token` made upstream: needed once\n"
        "  --edge-cohort N    slots of a round (default: one for every device that checks in)\n"
        "  --edge-goal N      a round closes with N updates (default: as many as the cohort), or "
        "when\n"
        "                     three quarters of its time are over\n"
        "  --edge-minimum N   fewer updates are never sent upstream (default 1)\n"
        "  --site-cohort N, --site-goal N, --site-minimum N\n"
        "                     earlier names of the three, which 0.3.0 drops\n"
        "  --name NAME        this edge aggregator's name for upstream's operator\n"};

const command command_front = {
    .name = "front",
    .run = serve_front,
    .options = "bind front-port devices-port device-days requests page proxy-protocol "
               "front-socket parent ready quiet log",
    .brief = "serve people and enrolment, apart from run",
    .help = "usage: fedserver front --dir DIR --devices-port N [--bind ADDRESS] [--front-port N] "
            "[--quiet]\n"
            "Serve the front alone: people and enrolment. Only this process reads ca.key. "
            "`fedserver run`\n"
            "starts one by itself; by hand it can be another user's (deploy/systemd).\n"
            "  --devices-port N    where `fedserver run --no-front` serves devices\n"
            "  --bind, --front-port, --device-days, --requests, --page,\n"
            "  --proxy-protocol, --quiet, --log    as for `fedserver run`\n"
            "  --front-socket FD   an open listening socket, instead of --bind and --front-port\n"
            "  --parent PID        end when that process, the parent, ends\n"
            "  --ready FD          write a byte to this open pipe once the port is served\n"};
