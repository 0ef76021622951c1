/* The keys of a scenario, and the search among them. */
#include "deploy/sim/scenario/keys.h"

#include <string.h>

/* What a kind of the coordinator's table is in this one. */
#define KIND_TEXT    SIM_TASK_TEXT
#define KIND_CHOICE  SIM_TASK_TEXT
#define KIND_PATH    SIM_TASK_PATH
#define KIND_INTEGER SIM_TASK_NUMBER
#define KIND_NUMBER  SIM_TASK_NUMBER
#define KIND_SECONDS SIM_TASK_NUMBER
#define KIND_LIST    SIM_TASK_PHASES

const sim_key sim_keys[SIM_KEYS] = {
    [SIM_NAME] = {"name", SIM_TASK_TEXT, "", "for people: the report's title", 0, 0, false},
    [SIM_TRANSPORT] = {"transport", SIM_TEXT, "inproc",
                       "inproc: calls in one process, virtual time; https: a coordinator process "
                       "and real connections",
                       0, 0, false},
    [SIM_CLIENTS] = {"clients", SIM_INTEGER, "400", "how many", 1, 1000000, false},
    [SIM_DATA] = {"data", SIM_TEXT, NULL, "directory with the samples", 0, 0, false},
    [SIM_DATASET] = {"dataset", SIM_TEXT, "mnist",
                     "mnist, fashion-mnist, cifar10, cifar100, csv, csv:label=COLUMN, "
                     "csv:target=COLUMN, ptb, shakespeare, words, chars",
                     0, 0, false},
    [SIM_TRAIN_PART] =
        {"train_part", SIM_TEXT, "train",
         "of the data: what the clients train on; test is what models are measured on", 0, 0,
         false},
    [SIM_NORMALISE] = {"normalise", SIM_INTEGER, "0",
                       "1: each channel, or column, has mean 0 and deviation 1 over the training "
                       "set",
                       0, 1, false},
    [SIM_SPLIT] = {"split", SIM_TEXT, "iid",
                   "who holds what: iid, classes:k=2, dirichlet:alpha=0.5, group", 0, 0, false},
    [SIM_ITERATIONS] = {"iterations", SIM_INTEGER, "0",
                        "optimizer steps of a client in all, which make the rounds; 0: rounds says "
                        "how many",
                        0, 1e9, false},
    [SIM_EVALUATE_EVERY] = {"evaluate_every", SIM_INTEGER, "1",
                            "measure each so-many-th model, and the last", 1, 1000000, false},
    [SIM_THREADS] = {"threads", SIM_INTEGER, "0",
                     "turns at a time; 0: one for each core, over https two", 0, 1024, true},
    [SIM_OFFLINE] = {"offline", SIM_NUMBER, "0", "fraction of the clients away in a round", 0, 0.99,
                     false},
    [SIM_BROKEN] = {"broken", SIM_NUMBER, "0",
                    "fraction of the uploads that break midway or lose their answer", 0, 0.9,
                    false},
    [SIM_HOSTILE] = {"hostile", SIM_NUMBER, "0",
                     "fraction of the clients that send noise instead of what they learnt", 0, 1,
                     false},
    [SIM_LINE] =
        {"line", SIM_TEXT, "",
         "inproc: the clients' lines: 3g, 4g, lte, wifi, lan, several such as 3g:0.5+wifi:0.5, or "
         "up=1e6,down=5e6,latency=0.05; none: lan",
         0, 0, false},
    [SIM_SPEED] = {"speed", SIM_TEXT, "",
                   "inproc: how fast they train: sample_s=0.01,spread=0.5; none: in no time", 0, 0,
                   false},
    [SIM_PRESENCE] =
        {"presence", SIM_TEXT, "",
         "inproc: when they are there: day:hours=8,spread=24, dropout:on=3600,off=600, "
         "charging, wifi, joined by +, or trace:FILE; none: always",
         0, 0, false},
    [SIM_KILL_ROUND] = {"kill_round", SIM_INTEGER, "0",
                        "kill the coordinator in this round and start it again; 0: never", 0,
                        1000000, false},
    [SIM_FRONT_PORT] = {"front_port", SIM_INTEGER, "0", "https: of the page; 0: any free one", 0,
                        65535, true},
    [SIM_DEVICES_PORT] = {"devices_port", SIM_INTEGER, "0",
                          "https: of the clients; 0: any free "
                          "one",
                          0, 65535, true},
    [SIM_FEDSERVER] = {"fedserver", SIM_TEXT, "",
                       "https: the coordinator's program; none: the one beside fedsim", 0, 0, true},
#define FEDSERVER_TASK_KEY(id, name, where, kind, member, room, low, high, preset, right, meaning) \
    [SIM_##id] = {#name, KIND_##kind, preset, meaning, 0, 0, false},
#define FEDSERVER_TASK_KEY_APART(...)
#include "fedserver/task_keys.def"
    [SIM_SEED] = {"seed", SIM_INTEGER, "1",
                  "of the weights, the order of samples, the split, who is away, what breaks", 0,
                  4294967295.0, false},
};

/** How many of the first letters are alike. */
static size_t likeness(const char *a, const char *b, size_t len) {
    size_t k = 0;
    while (k < len && a[k] != '\0' && a[k] == b[k]) {
        k++;
    }
    return k;
}

fed_status sim_key_find(const char *name, size_t len, sim_key_id *id, fed_error *err) {
    sim_key_id nearest = 0;
    for (sim_key_id k = 0; k < SIM_KEYS; k++) {
        if (strlen(sim_keys[k].name) == len && memcmp(sim_keys[k].name, name, len) == 0) {
            *id = k;
            return FED_OK;
        }
        nearest =
            likeness(sim_keys[k].name, name, len) > likeness(sim_keys[nearest].name, name, len)
                ? k
                : nearest;
    }
    const bool like = likeness(sim_keys[nearest].name, name, len) >= 2;
    return fed_fail(err, FED_ENOTFOUND, "key \"%.*s\" is unknown%s%s%s; `fedsim keys` lists them",
                    len < 60 ? (int)len : 60, name, like ? "; did you mean \"" : "",
                    like ? sim_keys[nearest].name : "", like ? "\"?" : "");
}

bool sim_key_of_task(sim_key_id id) {
    return sim_keys[id].kind >= SIM_TASK_TEXT || id == SIM_SEED;
}
