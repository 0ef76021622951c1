/* The coordinator's command line. */
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fed/clock.h"
#include "fed/version.h"
#include "fedserver/fedserver.h"
#include "fedserver/http.h"

enum { OK = 0, FAILURE = 1, USAGE = 2 };
enum { HOSTS = 32 };

/* What the options of all commands say; each command allows some of them. */
typedef struct arguments {
    const char *command; /* its name and help */
    const char *help;
    const char *directory;
    const char *hosts[HOSTS + 1];
    size_t host_count;
    const char *bind;
    uint16_t front_port, devices_port;
    bool quiet, no_front;
    long count, hours, requests, connections, parent;
    int front_socket;
    double device_days;
    fedserver_role role;
    const char *tag;
    unsigned long long task;
    const char *file; /* what follows the options, a fingerprint too */
} arguments;

static int usage_error(const arguments *args, const char *what, const char *value) {
    fprintf(stderr, "fedserver %s: %s%s%s\n%s", args->command, what, value[0] != '\0' ? ": " : "",
            value, args->help);
    return USAGE;
}

static int failure(const arguments *args, const fed_error *err) {
    fprintf(stderr, "fedserver %s: %s\n", args->command, err->text);
    return FAILURE;
}

/* -- init -- */

static int command_init(const arguments *args) {
    char machine[256] = "";
    const char *hosts[HOSTS + 5] = {"localhost", "127.0.0.1", "::1"};
    size_t count = 3;
    if (gethostname(machine, sizeof machine - 1) == 0 && machine[0] != '\0') {
        hosts[count++] = machine;
    }
    if (args->host_count > 0) {
        memcpy(hosts, args->hosts, args->host_count * sizeof *hosts);
        count = args->host_count;
    }
    hosts[count] = NULL;
    fed_error err = {0};
    if (fedserver_init(args->directory, &(fedserver_init_options){.hosts = hosts}, &err)) {
        return failure(args, &err);
    }
    printf("%s is ready. Devices need %s/ca.pem and a token (fedserver token).\n", args->directory,
           args->directory);
    return OK;
}

/* -- run and front -- */

static atomic_int stop, children; /* lock-free, so a signal handler may set them */

static void on_signal(int number) {
    *(number == SIGCHLD ? &children : &stop) = 1;
}

/* "[::1]", as it stands in a URL */
static void print_url(const char *what, const char *host, uint16_t port) {
    const bool v6 = strchr(host, ':') != NULL;
    printf("%s https://%s%s%s:%u", what, v6 ? "[" : "", host, v6 ? "]" : "", port);
}

/* Every connected device is an open file. */
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* where refused, the old limit is good enough */
    }
}

/* The process at the front, as its parent sees it. */
typedef struct front {
    const arguments *args;
    const fed_log *log;
    pid_t pid;  /* 0: none runs */
    int socket; /* listens, here too: while the process is started again, people only wait */
    uint16_t port, devices_port;
    int64_t started_ms;
    fed_status status; /* of opening it */
    fed_error err;
} front;

/* In the child: become `fedserver front`, with nothing of this process but that socket. */
static void exec_front(const front *f, pid_t parent_pid) {
    char socket_text[16], port[16], days[32], requests[32], parent[32];
    const char *words[20] = {"fedserver",        "front",  "--dir",
                             f->args->directory, "--bind", f->args->bind};
    size_t n = 6;
    snprintf(socket_text, sizeof socket_text, "%d", f->socket);
    snprintf(port, sizeof port, "%u", f->devices_port);
    snprintf(days, sizeof days, "%.9g", f->args->device_days);
    snprintf(requests, sizeof requests, "%ld", f->args->requests);
    snprintf(parent, sizeof parent, "%ld", (long)parent_pid);
    const char *const more[] = {"--front-socket", socket_text, "--devices-port", port,
                                "--device-days",  days,        "--requests",     requests,
                                "--parent",       parent};
    memcpy(words + n, more, sizeof more);
    n += sizeof more / sizeof more[0];
    words[n] = f->args->quiet ? "--quiet" : NULL;
    (void)fcntl(f->socket, F_SETFD, 0);
    execv("/proc/self/exe", (char *const *)(uintptr_t)words);
    _exit(127);
}

static void start_front(front *f) {
    const pid_t self = getpid(); /* asked here: the child's parent may have been killed by then */
    f->started_ms = fed_clock_monotonic_ms();
    f->pid = fork();
    if (f->pid == 0) {
        exec_front(f, self);
    }
    f->pid = f->pid < 0 ? 0 : f->pid; /* tried again, a second later */
    children = f->pid == 0;
}

/* A child has ended, or could not be started: start it anew, but not more than once a second. */
static void tend_front(void *user) {
    enum { RESTART_MS = 1000 };
    front *f = user;
    int how = 0;
    children = 0;
    if (f->pid > 0 && waitpid(f->pid, &how, WNOHANG) == f->pid) {
        f->pid = 0;
        fed_logf(f->log, FED_LOG_ERROR, "the front ended with %s %d; it is started again",
                 WIFSIGNALED(how) ? "signal" : "exit status",
                 WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
    }
    if (f->pid == 0 && fed_clock_monotonic_ms() - f->started_ms >= RESTART_MS) {
        start_front(f);
    }
    children = children != 0 || f->pid == 0;
}

/* It is told more than once: what comes between its fork and its exec is lost. */
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
}

/* The devices' listener is up: open the front too, and say so. */
static void open_front(void *user, uint16_t front_port, uint16_t devices_port) {
    front *f = user;
    (void)front_port;
    f->devices_port = devices_port;
    if (!f->args->no_front) {
        f->port = f->args->front_port;
        f->status = fedserver_http_listen(f->args->bind, &f->port, &f->socket, &f->err);
        if (f->status != FED_OK) {
            stop = 1;
            return;
        }
        start_front(f);
        print_url("front", f->args->bind, f->port);
        printf("/  ");
    }
    print_url("devices", f->args->bind, devices_port);
    putchar('\n');
    fflush(stdout);
}

static void announce_front(void *user, uint16_t front_port, uint16_t devices_port) {
    const arguments *args = user;
    (void)devices_port;
    if (args->front_socket == 0) {
        print_url("front", args->bind, front_port);
        puts("/");
        fflush(stdout);
    }
}

static void catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGCHLD, &action, NULL);
}

static fed_status serve(const arguments *args, fedserver_part part,
                        const fedserver_http_options *options, const fed_log *log, fed_error *err) {
    fedserver *server = NULL;
    fed_status status = fedserver_open(args->directory, log, &server, err);
    if (status == FED_OK) {
        const double day_s = 24 * 3600;
        fedserver_configure(
            server, &(fedserver_setup){
                        .part = part, .device_life_s = (int64_t)(args->device_days * day_s + 0.5)});
        status = fedserver_http_serve(server, options, log, err);
    }
    fedserver_close(server);
    return status;
}

static int command_run(const arguments *args) {
    const fed_log log = {.write = fed_log_stderr,
                         .level = args->quiet ? FED_LOG_WARN : FED_LOG_INFO};
    front f = {.args = args, .log = &log};
    const fedserver_http_options options = {.bind = args->bind,
                                            .devices_port = args->devices_port,
                                            .doors = FEDSERVER_DOOR_DEVICES,
                                            .requests_per_s = (uint32_t)args->requests,
                                            .connections = (uint32_t)args->connections,
                                            .stop = &stop,
                                            .children = &children,
                                            .tend = tend_front,
                                            .ready = open_front,
                                            .user = &f};
    fed_error err = {0};
    catch_signals();
    raise_file_limit();
    fed_status status = serve(args, FEDSERVER_ROUNDS, &options, &log, &err);
    stop_front(&f);
    if (f.status != FED_OK) {
        return failure(args, &f.err);
    }
    return status == FED_OK ? OK : failure(args, &err);
}

/* People and enrolment; the only process that reads the CA's key. */
static int command_front(const arguments *args) {
    if (args->parent != 0 &&
        (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != (pid_t)args->parent)) {
        return FAILURE; /* it has ended already */
    }
    const fed_log log = {.write = fed_log_stderr,
                         .level = args->quiet ? FED_LOG_WARN : FED_LOG_INFO};
    const fedserver_http_options options = {.bind = args->bind,
                                            .front_port = args->front_port,
                                            .devices_port = args->devices_port,
                                            .doors = FEDSERVER_DOOR_FRONT,
                                            .front_socket = args->front_socket,
                                            .requests_per_s = (uint32_t)args->requests,
                                            .stop = &stop,
                                            .ready = announce_front,
                                            .user = (void *)(uintptr_t)args};
    fed_error err = {0};
    catch_signals();
    raise_file_limit();
    fed_status status = serve(args, FEDSERVER_GATE, &options, &log, &err);
    return status == FED_OK ? OK : failure(args, &err);
}

/* -- token, task, export -- */

static int command_token(const arguments *args) {
    const fedserver_grant grant = {
        .ttl_s = args->hours * 3600, .role = args->role, .tag = args->tag};
    fed_error err = {0};
    fedserver *server = NULL;
    fed_status status = fedserver_open(args->directory, NULL, &server, &err);
    for (long k = 0; k < args->count && status == FED_OK; k++) {
        char token[FEDSERVER_TOKEN];
        status = fedserver_token_grant(server, fed_clock_unix_ms(), &grant, token, &err);
        if (status == FED_OK) {
            puts(token);
        }
    }
    fedserver_close(server);
    return status == FED_OK ? OK : failure(args, &err);
}

static int command_task(const arguments *args) {
    fed_error err = {0};
    fedserver *server = NULL;
    uint64_t id = 0;
    fed_status status = fedserver_open(args->directory, NULL, &server, &err);
    if (status == FED_OK) {
        status = fedserver_task_add(server, fed_clock_unix_ms(), args->file, &id, &err);
    }
    fedserver_close(server);
    if (status != FED_OK) {
        return failure(args, &err);
    }
    printf("task %llu is queued\n", (unsigned long long)id);
    return OK;
}

static void print_time(const char *what, int64_t ms) {
    char text[32];
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", gmtime_r(&seconds, &utc));
    printf("  %s %s", what, text);
}

static fed_status print_device(void *user, const fedserver_entry *entry, fed_error *err) {
    (void)err;
    ++*(size_t *)user;
    printf("%s", entry->fingerprint);
    print_time("enrolled", entry->enrolled_ms);
    if (entry->revoked_ms != 0) {
        print_time("revoked", entry->revoked_ms);
    } else {
        bool over = entry->expires_ms <= fed_clock_unix_ms();
        print_time(over ? "expired" : "expires", entry->expires_ms);
    }
    printf("  %s%s%s\n", fedserver_role_name(entry->role), entry->tag[0] != '\0' ? " " : "",
           entry->tag);
    return FED_OK;
}

static int command_devices(const arguments *args) {
    fed_error err = {0};
    fedserver *server = NULL;
    size_t count = 0;
    fed_status status = fedserver_open(args->directory, NULL, &server, &err);
    if (status == FED_OK) {
        status = fedserver_device_each(server, print_device, &count, &err);
    }
    fedserver_close(server);
    if (status != FED_OK) {
        return failure(args, &err);
    }
    if (count == 0) {
        fprintf(stderr, "no device is enrolled yet; `fedserver token` admits one\n");
    }
    return OK;
}

static int command_status(const arguments *args) {
    fed_error err = {0};
    fedserver *server = NULL;
    char text[1024] = "";
    fed_status status = fedserver_open(args->directory, NULL, &server, &err);
    if (status == FED_OK) {
        status = fedserver_status(server, fed_clock_unix_ms(), text, sizeof text, &err);
    }
    fedserver_close(server);
    fputs(text, stdout);
    return status == FED_OK ? OK : failure(args, &err);
}

static int command_revoke(const arguments *args) {
    fed_error err = {0};
    fedserver *server = NULL;
    fedserver_entry entry;
    size_t count = 0;
    fed_status status = fedserver_open(args->directory, NULL, &server, &err);
    if (status == FED_OK) {
        status = fedserver_device_revoke(server, fed_clock_unix_ms(), args->file, &entry, &err);
    }
    fedserver_close(server);
    if (status == FED_OK) {
        status = print_device(&count, &entry, &err);
    }
    return status == FED_OK ? OK : failure(args, &err);
}

static int command_export(const arguments *args) {
    fed_error err = {0};
    fedserver *server = NULL;
    fed_status status = fedserver_open(args->directory, NULL, &server, &err);
    if (status == FED_OK) {
        status = fedserver_model_export(server, args->task, args->file, &err);
    }
    fedserver_close(server);
    return status == FED_OK ? OK : failure(args, &err);
}

static int command_backup(const arguments *args) {
    fed_error err = {0};
    fedserver *server = NULL;
    fed_status status = fedserver_open(args->directory, NULL, &server, &err);
    if (status == FED_OK) {
        status = fedserver_backup(server, args->file, &err);
    }
    fedserver_close(server);
    if (status != FED_OK) {
        return failure(args, &err);
    }
    printf("%s is a backup of %s\n", args->file, args->directory);
    return OK;
}

static int command_restore(const arguments *args) {
    fed_error err = {0};
    if (fedserver_restore(args->file, args->directory, &err) != FED_OK) {
        return failure(args, &err);
    }
    printf("%s is restored from %s\n", args->directory, args->file);
    return OK;
}

static void print_check(void *user, fedserver_check_kind kind, const char *text) {
    static const char *const marks[] = {"ok      ", "note    ", "BROKEN  "};
    (void)user;
    printf("%s%s\n", marks[kind], text);
}

static int command_check(const arguments *args) {
    fed_error err = {0};
    fedserver *server = NULL;
    size_t findings = 0;
    fed_status status = fedserver_open(args->directory, NULL, &server, &err);
    if (status == FED_OK) {
        status = fedserver_check(server, print_check, NULL, &findings, &err);
    }
    fedserver_close(server);
    if (status != FED_OK) {
        return failure(args, &err);
    }
    printf("%s: %zu rules broken\n", args->directory, findings);
    return findings == 0 ? OK : FAILURE;
}

/* -- the commands and their options -- */

typedef struct command {
    const char *name;
    int (*run)(const arguments *args);
    const char *options; /* the letters of those that it takes */
    const char *operand; /* what must follow the options; NULL: nothing */
    const char *help;
} command;

static const command commands[] = {
    {"init", command_init, "dH", NULL,
     "usage: fedserver init --dir DIR [--host NAME]...\n"
     "Make a coordinator: a CA, a server certificate, an empty database.\n"
     "  --dir DIR     where it lives; DIR is made\n"
     "  --host NAME   a name or address by which devices reach it; may be repeated\n"
     "                (default: localhost, 127.0.0.1, ::1 and this machine's name)\n"},
    {"run", command_run, "dbfpqynkN", NULL,
     "usage: fedserver run --dir DIR [--bind ADDRESS] [--front-port N] [--devices-port N] "
     "[--quiet]\n"
     "Serve until SIGINT or SIGTERM. Prints one line once both ports are open.\n"
     "  --bind ADDRESS     address to listen on (default 127.0.0.1)\n"
     "  --front-port N     page, status, metrics, enrolment (default 8443; 0: any free one)\n"
     "  --devices-port N   enrolled devices (default 8444; 0: any free one)\n"
     "  --device-days D    how long devices' certificates are valid (default 730)\n"
     "  --requests N       a second, of one device (default 100)\n"
     "  --connections N    at a time, of one device (default 16)\n"
     "  --no-front         leave the front to a `fedserver front` started otherwise\n"
     "  --quiet            log warnings and errors only\n"},
    {"front", command_front, "dbfpqynsP", NULL,
     "usage: fedserver front --dir DIR --devices-port N [--bind ADDRESS] [--front-port N] "
     "[--quiet]\n"
     "Serve the front alone: people and enrolment. Only this process reads ca.key. `fedserver "
     "run`\n"
     "starts one by itself; by hand it can be another user's (deploy/systemd).\n"
     "  --devices-port N    where `fedserver run --no-front` serves devices\n"
     "  --bind, --front-port, --device-days, --requests, --quiet    as of run\n"
     "  --front-socket FD   an open listening socket, instead of --bind and --front-port\n"
     "  --parent PID        end when that process, the parent, ends\n"},
    {"token", command_token, "dchrg", NULL,
     "usage: fedserver token --dir DIR [--count N] [--hours H] [--role ROLE] [--tag TAG]\n"
     "Print one-time enrolment tokens, one a line.\n"
     "  --count N     how many (default 1)\n"
     "  --hours H     how long they are valid (default 24)\n"
     "  --role ROLE   device, evaluator or operator (default device)\n"
     "  --tag TAG     of which group the device is, for tasks that ask for one\n"},
    {"task", command_task, "d", "file",
     "usage: fedserver task --dir DIR FILE.json\n"
     "Queue a training task; it starts when no other runs. Keys: docs/protocol.md#task.\n"},
    {"devices", command_devices, "d", NULL,
     "usage: fedserver devices --dir DIR\n"
     "List the devices: fingerprint, since when, until when or when revoked (UTC).\n"},
    {"revoke", command_revoke, "d", "fingerprint",
     "usage: fedserver revoke --dir DIR FINGERPRINT\n"
     "Shut a device out, from its next request on. Its acknowledged updates stay counted.\n"
     "FINGERPRINT may be cut to its first 8 digits or more.\n"},
    {"status", command_status, "d", NULL,
     "usage: fedserver status --dir DIR\n"
     "Say what goes on: the task, for whom its round waits, until when, what happens then.\n"},
    {"export", command_export, "dt", "file",
     "usage: fedserver export --dir DIR [--task N] OUT.safetensors\n"
     "Write the newest model.\n"
     "  --task N   of that task (default: the one that runs or ran last)\n"},
    {"backup", command_backup, "d", "directory",
     "usage: fedserver backup --dir DIR DIRECTORY\n"
     "Copy the coordinator as it is now, served or not, into DIRECTORY, which is made. The copy "
     "is\n"
     "a whole coordinator, with the CA's key: keep it as safe.\n"},
    {"restore", command_restore, "d", "backup",
     "usage: fedserver restore --dir DIR BACKUP\n"
     "Make a coordinator in DIR, which must hold none, from a backup. What happened since is\n"
     "forgotten, revocations too: revoke those devices again. Devices go on by themselves.\n"},
    {"check", command_check, "d", NULL,
     "usage: fedserver check --dir DIR\n"
     "Verify all that is stored, while nobody serves DIR; to check a coordinator that serves,\n"
     "check a backup. Prints what was checked and what is broken; exits with 1 if anything is.\n"},
};

static const struct option long_options[] = {
    {"dir", required_argument, NULL, 'd'},
    {"host", required_argument, NULL, 'H'},
    {"bind", required_argument, NULL, 'b'},
    {"front-port", required_argument, NULL, 'f'},
    {"devices-port", required_argument, NULL, 'p'},
    {"count", required_argument, NULL, 'c'},
    {"hours", required_argument, NULL, 'h'},
    {"quiet", no_argument, NULL, 'q'},
    {"task", required_argument, NULL, 't'},
    {"role", required_argument, NULL, 'r'},
    {"tag", required_argument, NULL, 'g'},
    {"device-days", required_argument, NULL, 'y'},
    {"requests", required_argument, NULL, 'n'},
    {"connections", required_argument, NULL, 'k'},
    {"no-front", no_argument, NULL, 'N'},
    {"front-socket", required_argument, NULL, 's'},
    {"parent", required_argument, NULL, 'P'},
    {"help", no_argument, NULL, '?' + 128},
    {NULL, 0, NULL, 0},
};

/* A whole number from low to high, or false. */
static bool number(const char *text, unsigned long long low, unsigned long long high,
                   unsigned long long *value) {
    char *end;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    unsigned long long read = strtoull(text, &end, 10);
    if (*end != '\0' || read < low || read > high) {
        return false;
    }
    *value = read;
    return true;
}

static bool days(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= 1e-5 && *value <= 36500;
}

static bool role(const char *text, fedserver_role *value) {
    const char *name;
    for (int k = 0; (name = fedserver_role_name((fedserver_role)k)) != NULL; k++) {
        if (strcmp(name, text) == 0) {
            *value = (fedserver_role)k;
            return true;
        }
    }
    return false;
}

/* Take one option's value; false: it makes no sense. */
static bool take_option(arguments *args, int letter, const char *value) {
    unsigned long long n = 0;
    switch (letter) {
    case 'd':
        args->directory = value;
        return value[0] != '\0';
    case 'H':
        if (args->host_count == HOSTS) {
            return false;
        }
        args->hosts[args->host_count++] = value;
        return value[0] != '\0';
    case 'q':
    case 'N':
        *(letter == 'q' ? &args->quiet : &args->no_front) = true;
        return true;
    case 'r':
        return role(value, &args->role);
    case 'g':
        args->tag = value;
        return value[0] != '\0';
    case 'y':
        return days(value, &args->device_days);
    case 'b':
        args->bind = value;
        return value[0] != '\0';
    case 'f':
    case 'p':
        if (!number(value, 0, UINT16_MAX, &n)) {
            return false;
        }
        *(letter == 'f' ? &args->front_port : &args->devices_port) = (uint16_t)n;
        return true;
    case 's':
        if (!number(value, 3, INT_MAX, &n)) {
            return false;
        }
        args->front_socket = (int)n;
        return true;
    case 'c':
    case 'h':
    case 'n':
    case 'k':
    case 'P':
        if (!number(value, 1, letter == 'P' ? INT_MAX : 1000000, &n)) {
            return false;
        }
        *(letter == 'c'   ? &args->count
          : letter == 'h' ? &args->hours
          : letter == 'n' ? &args->requests
          : letter == 'k' ? &args->connections
                          : &args->parent) = (long)n;
        return true;
    default:
        return number(value, 1, UINT64_MAX / 2, &args->task);
    }
}

/* Returns -1 to go on, or the exit code. */
static int parse(const command *cmd, arguments *args, int argc, char **argv) {
    opterr = 0;
    int index = 0;
    for (int c; (c = getopt_long(argc, argv, "", long_options, &index)) != -1;) {
        if (c == '?' + 128) {
            fputs(cmd->help, stdout);
            return OK;
        }
        if (c == '?' || strchr(cmd->options, c) == NULL) {
            return usage_error(args, "this option is unknown or lacks its value", argv[optind - 1]);
        }
        if (!take_option(args, c, optarg)) {
            return usage_error(args, "this value is not allowed here", optarg);
        }
    }
    if (args->directory == NULL) {
        return usage_error(args, "--dir is missing", "");
    }
    if (argc - optind != (cmd->operand != NULL ? 1 : 0)) {
        return cmd->operand != NULL ? usage_error(args, "exactly one is needed", cmd->operand)
                                    : usage_error(args, "this is too much", argv[optind]);
    }
    args->file = argv[optind]; /* NULL where there is none */
    return -1;
}

static void print_commands(FILE *to) {
    fputs("usage: fedserver COMMAND --dir DIR ...\n"
          "  init     make a coordinator        run      serve\n"
          "  front    serve people and enrolment, apart from run\n"
          "  token    admit devices             task     queue a training task\n"
          "  devices  list them                 revoke    shut one out\n"
          "  status   what a round waits for    export    write the newest model\n"
          "  backup   copy it while it serves   restore   make one from a backup\n"
          "  check    verify what is stored\n"
          "fedserver COMMAND --help says more.\n",
          to);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++) {
        if (strcmp(commands[k].name, name) == 0) {
            arguments args = {.command = name,
                              .help = commands[k].help,
                              .bind = "127.0.0.1",
                              .front_port = 8443,
                              .devices_port = 8444,
                              .requests = 100,
                              .connections = 16,
                              .device_days = 730,
                              .count = 1,
                              .hours = 24};
            int code = parse(&commands[k], &args, argc - 1, argv + 1);
            return code >= 0 ? code : commands[k].run(&args);
        }
    }
    if (strcmp(name, "--version") == 0) {
        puts("fedserver " FED_VERSION);
        return OK;
    }
    bool asked = strcmp(name, "--help") == 0 || strcmp(name, "help") == 0;
    print_commands(asked ? stdout : stderr);
    return asked ? OK : USAGE;
}
