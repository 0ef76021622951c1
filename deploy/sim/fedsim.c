/* fedsim: a real coordinator and hundreds of real HTTPS clients on one machine. */
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "deploy/sim/report.h"
#include "deploy/sim/run.h"

static const char usage[] =
    "usage: fedsim --task FILE --data DIR [options]\n"
    "\n"
    "Starts a coordinator and trains with many clients, each with its own identity, data and "
    "state,\n"
    "over real mutual-TLS connections.\n"
    "\n"
    "  --task FILE          the training task, as for `fedserver task`\n"
    "  --data DIR           where the samples are\n"
    "  --dataset NAME       what they are: mnist, fashion-mnist, cifar10, cifar100, csv,\n"
    "                       csv:label=COLUMN, ptb, shakespeare, words or chars, under their usual\n"
    "                       file names, packed or not (mnist)\n"
    "  --clients N          how many clients (400)\n"
    "  --split SPEC         iid, classes:k=2 (or two-class), dirichlet:alpha=0.5; of a text iid "
    "or\n"
    "                       group, by its speakers (iid)\n"
    "  --offline F          fraction of the clients that are away in a round (0)\n"
    "  --broken F           fraction of the uploads that break midway or lose their answer (0)\n"
    "  --hostile F          fraction of the clients that add noise to what they learnt (0)\n"
    "  --kill-round N       kill the coordinator in this round and start it again (never)\n"
    "  --seed N             of the split, of absences and breaks (1)\n"
    "  --threads N          trainings at a time (one for each core)\n"
    "  --dir DIR            keep the coordinator's directory here (a temporary one)\n"
    "  --front-port N, --devices-port N   where the coordinator listens (any free port)\n"
    "  --fedserver FILE     the coordinator's program (beside this one)\n"
    "  --result FILE        write the figures as JSON\n";

static atomic_int interrupted;

static void on_signal(int signal) {
    (void)signal;
    interrupted = 1;
}

/* --- The command line --- */

typedef struct arguments {
    sim_options run;
    const char *result; /* JSON file to write; NULL: none */
} arguments;

static fed_status parse_number(const char *name, const char *text, double low, double high,
                               double *value, fed_error *err) {
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || !(v >= low && v <= high)) {
        return fed_fail(err, FED_EINVAL, "--%s %s: must be a number from %g to %g", name, text, low,
                        high);
    }
    *value = v;
    return FED_OK;
}

static const struct option long_options[] = {{"task", required_argument, NULL, 't'},
                                             {"data", required_argument, NULL, 'd'},
                                             {"dataset", required_argument, NULL, 'n'},
                                             {"clients", required_argument, NULL, 'c'},
                                             {"split", required_argument, NULL, 's'},
                                             {"offline", required_argument, NULL, 'o'},
                                             {"broken", required_argument, NULL, 'b'},
                                             {"hostile", required_argument, NULL, 'H'},
                                             {"kill-round", required_argument, NULL, 'k'},
                                             {"seed", required_argument, NULL, 'S'},
                                             {"threads", required_argument, NULL, 'T'},
                                             {"dir", required_argument, NULL, 'D'},
                                             {"front-port", required_argument, NULL, 'f'},
                                             {"devices-port", required_argument, NULL, 'p'},
                                             {"fedserver", required_argument, NULL, 'F'},
                                             {"result", required_argument, NULL, 'r'},
                                             {"help", no_argument, NULL, 'h'},
                                             {NULL, 0, NULL, 0}};

static fed_status take_option(int letter, const char *name, const char *text, arguments *args,
                              fed_error *err) {
    sim_options *o = &args->run;
    double v = 0;
    switch (letter) {
    case 't':
        o->task = text;
        return FED_OK;
    case 'd':
        o->data = text;
        return FED_OK;
    case 'n':
        o->dataset = text;
        return FED_OK;
    case 'D':
        o->directory = text;
        return FED_OK;
    case 'F':
        o->fedserver = text;
        return FED_OK;
    case 'r':
        args->result = text;
        return FED_OK;
    case 's':
        return fedtrain_split_parse(text, &o->split, err);
    case 'o':
        return parse_number(name, text, 0, 0.99, &o->offline, err);
    case 'b':
        return parse_number(name, text, 0, 0.9, &o->broken, err);
    case 'H':
        return parse_number(name, text, 0, 1, &o->hostile, err);
    case 'c':
        FED_TRY(parse_number(name, text, 1, 20000, &v, err));
        o->clients = (uint32_t)v;
        return FED_OK;
    case 'k':
        FED_TRY(parse_number(name, text, 1, 1e6, &v, err));
        o->kill_round = (uint32_t)v;
        return FED_OK;
    case 'S':
        FED_TRY(parse_number(name, text, 0, 4294967295.0, &v, err));
        o->seed = (uint64_t)v;
        return FED_OK;
    case 'T':
        FED_TRY(parse_number(name, text, 1, 1024, &v, err));
        o->threads = (uint32_t)v;
        return FED_OK;
    case 'f':
        FED_TRY(parse_number(name, text, 0, 65535, &v, err));
        o->front_port = (uint16_t)v;
        return FED_OK;
    case 'p':
        FED_TRY(parse_number(name, text, 0, 65535, &v, err));
        o->devices_port = (uint16_t)v;
        return FED_OK;
    default:
        return fed_fail(err, FED_EINVAL, "unknown option; `fedsim --help` lists them");
    }
}

static fed_status parse_options(int argc, char **argv, arguments *args, fed_error *err) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *args = (arguments){.run = {.transport = SIM_HTTPS,
                                .dataset = "mnist",
                                .clients = 400,
                                .seed = 1,
                                .evaluate_every = 1,
                                .threads = cores > 0 ? (uint32_t)cores : 1}};
    sim_options *o = &args->run;
    int which = 0;
    for (int letter = 0; (letter = getopt_long(argc, argv, "", long_options, &which)) != -1;) {
        if (letter == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        FED_TRY(take_option(letter, long_options[which].name, optarg, args, err));
    }
    if (optind < argc) {
        return fed_fail(err, FED_EINVAL, "\"%s\" is not an option; `fedsim --help` lists them",
                        argv[optind]);
    }
    if (o->task == NULL || o->data == NULL) {
        return fed_fail(err, FED_EINVAL, "--task and --data are needed; see `fedsim --help`");
    }
    return FED_OK;
}

/** fedserver lies where fedsim lies. */
static void find_fedserver(sim_options *o, const char *self, char *path, size_t cap) {
    if (o->fedserver != NULL) {
        return;
    }
    const char *slash = strrchr(self, '/');
    int folder = slash == NULL ? 0 : (int)(slash - self + 1);
    snprintf(path, cap, "%.*sfedserver", folder, self);
    o->fedserver = path;
}

/** What the callbacks of a run are given. */
typedef struct screen {
    sim_bar bar;
    uint32_t clients;
} screen;

static void say_progress(void *user, const sim_progress *progress) {
    screen *on = user;
    sim_bar_show(&on->bar, progress);
}

static void say_listening(void *user, uint16_t front_port, const char *directory) {
    const screen *on = user;
    printf("%u clients; watch the rounds at https://127.0.0.1:%u/ (CA certificate: %s/ca.pem)\n",
           on->clients, front_port, directory);
    fflush(stdout);
}

static fed_status simulate(const sim_options *o, const char *result, fed_error *err) {
    screen on = {.clients = o->clients};
    const sim_watch watch = {
        .user = &on, .progress = say_progress, .listening = say_listening, .stop = &interrupted};
    sim_log log = {0};
    sim_bar_open(&on.bar);
    fed_status status = sim_run(o, &watch, &log, err);
    sim_bar_close(&on.bar);
    if (status == FED_OK && result != NULL) {
        status = sim_log_write(&log, result, err);
    }
    if (status == FED_OK) {
        sim_log_print(&log);
    }
    sim_log_free(&log);
    return status;
}

int main(int argc, char **argv) {
    /* Model-sized blocks come and go with each turn: keep them, instead of giving them back to the
     * system and clearing them anew each time. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGPIPE, SIG_IGN);
    fed_error err = {0};
    arguments args;
    if (parse_options(argc, argv, &args, &err) != FED_OK) {
        fprintf(stderr, "fedsim: %s\n", err.text);
        return 2;
    }
    char path[1024];
    find_fedserver(&args.run, argv[0], path, sizeof path);
    fed_status status = simulate(&args.run, args.result, &err);
    if (status != FED_OK) {
        fprintf(stderr, "fedsim: %s: %s\n", fed_status_text(status), err.text);
        return 1;
    }
    return 0;
}
