/* fedworker train --server: a worker group that is one device of a federation. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/apps/fedworker_serve.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fed/version.h"
#include "feddc/exchange.h"

const char *const fedworker_serve_usage =
    "train --server URL --ca FILE --state DIR --data DIR [options]: the worker group is one "
    "device\n"
    "  --workers, --link, --collective, --sync, --codec, --pull   as above; tcp: processes of\n"
    "                     this machine. The task says model, batch of each worker, steps and\n"
    "                     optimizer\n"
    "  --min N            with tcp: the worker group goes on while N workers are left (all)\n"
    "  --dataset, --token, --token-file, --name, --shard, --split, --when, --hold, --slots,\n"
    "  --memory, --most-epsilon, --transport, --downloads-ca, --no-caches, --backend, --device,\n"
    "  --until-finished, --normalise, --verbose, --log   see fedclientd --help\n"
    "\n";

static fed_status read_options(int argc, char **argv, fedworker_cluster *c, fed_error *err) {
    enum { ANY = FEDCLIENTD_COMMAND };
#define AT(member) offsetof(fedworker_cluster, member)
    static const option_row rows[] = {
        {"workers", OPTION_NUMBER, AT(workers), 1, FEDDC_RANKS, ANY, NULL},
        {"min", OPTION_NUMBER, AT(min), 1, FEDDC_RANKS, ANY, NULL},
        {"link", OPTION_TEXT, AT(link), .commands = ANY},
        {"collective", OPTION_TEXT, AT(collective), .commands = ANY},
        {"sync", OPTION_TEXT, AT(sync), .commands = ANY},
        {"codec", OPTION_TEXT, AT(codec), .commands = ANY},
        {"pull", OPTION_TEXT, AT(pull), .commands = ANY},
        {"pull-as", OPTION_TEXT, AT(pull_as), .commands = ANY},
    };
#undef AT
    FED_TRY(
        fedclientd_read_options(rows, sizeof rows / sizeof rows[0], argc, argv, &c->device, err));
    if (c->device.work.evaluate) {
        return fed_fail(err, FED_EINVAL,
                        "--evaluate is not for a worker group: use fedclientd --evaluate, which "
                        "measures models");
    }
    return FED_OK;
}

static fed_status make_worker_group(fedworker_cluster *c, fed_error *err) {
    const fedworker_words words = {.link = c->link,
                                   .collective = c->collective,
                                   .sync = c->sync,
                                   .codec = c->codec,
                                   .pull = c->pull,
                                   .pull_as = c->pull_as,
                                   .workers = c->workers};
    FED_TRY(fedworker_choose(&words, &c->choice, err));
    c->processes = strcmp(c->link, "tcp") == 0;
    if (c->min > c->choice.ranks || c->choice.ranks > FEDDC_RANKS ||
        (c->min > 0 && !c->processes)) {
        return fed_fail(err, FED_EINVAL,
                        "--min can be at most --workers, and needs --link tcp: threads and ranks "
                        "of MPI can't fail alone");
    }
    return FED_OK;
}

static fed_status serve(fedworker_cluster *c, fed_error *err) {
    fed_error ignored = {0};
    if (c->choice.place.size > 0 && c->choice.place.rank > 0) {
        return fedworker_ranks_follow(c, err);
    }
    const fed_status status = fedclientd_serve(&c->device, err);
    if (c->choice.place.size > 1) { /* also after a failure the other ranks must end */
        (void)!fedworker_ranks_order(c, NULL, 0, NULL, &ignored);
    }
    return *c->device.stop != 0 ? FED_OK : status;
}

fed_status fedworker_serve(int argc, char **argv, bool *wrong, fed_error *err) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    fedworker_cluster c = {.device = {.name = host,
                                      .software = "fedworker/" FED_VERSION,
                                      .work = {.dataset = "mnist", .shards = 1},
                                      .hold_ms = 25000,
                                      .log = {.write = fed_log_stderr}},
                           .link = "threads",
                           .collective = "owners",
                           .sync = "ssgd",
                           .codec = "float32",
                           .pull = "float32",
                           .workers = 1};
    *wrong = true;
    FED_TRY(read_options(argc, argv, &c, err));
    FED_TRY(make_worker_group(&c, err));
    *wrong = false;
    c.device.work.group = fedworker_round;
    c.device.work.worker_group_user = &c;
    c.device.stop = fedclientd_catch_signals();
    const fed_status status = serve(&c, err);
    if (status != FED_OK && status != FED_ECANCELED && c.device.log.write_about != NULL) {
        fedclientd_say_why(&c.device.log, "fedworker", err->text);
        exit(EXIT_FAILURE); /* main would print the error as text */
    }
    return status;
}
