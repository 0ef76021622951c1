/* Writes a run's log: charges clients' bytes to rounds, and copies the coordinator's figures. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/clients/run_log.h"

#include <math.h>
#include <stdlib.h>

#include "fed/clock.h"

/** Return the log's row of a round; NULL: out of memory. */
static sim_round *row_of(sim_clients *clients, uint32_t round) {
    sim_log *log = clients->log;
    while (log->round_count < round) {
        sim_round *fresh = NULL;
        if (sim_log_add(log, &fresh) != FED_OK) {
            return NULL;
        }
        fresh->round = (uint32_t)log->round_count;
    }
    return &log->rounds[round - 1];
}

/** Add the client's traffic and broken uploads since the last call to the round. */
static void charge(sim_client *client, sim_round *row) {
    fedclient_traffic now;
    client->transport.traffic(client->transport.user, &now);
    row->up_bytes += now.sent_bytes - client->kept.charged.sent_bytes;
    row->down_bytes += now.received_bytes - client->kept.charged.received_bytes;
    client->kept.charged = now;
    row->broken += client->lossy.kept.broken - client->kept.broken_charged;
    client->kept.broken_charged = client->lossy.kept.broken;
}

static void note_counted(sim_client *client, sim_round *row) {
    sim_clients *clients = client->clients;
    client->kept.counted++;
    client->kept.steps += client->kept.local_steps;
    client->kept.last_counted = row->round;
    row->counted++;
    sim_log_attend(clients->log, row->round - 1, client->k);
    clients->kept.reported += row->round == clients->kept.round ? 1U : 0U;
    if (clients->virtual_time == NULL && row->round == clients->options->kill_round &&
        clients->log->kills == 0) {
        clients->kill_due = true;
        pthread_cond_broadcast(&clients->changed);
    }
}

/** After so many updates a client that did not count, a round will not end. By then the coordinator
 * has asked each client again after its declines, which takes a day of virtual time. */
enum { REFUSALS_MOST = 10 };

static fed_status note_refused(sim_client *client, sim_round *row, fed_error *err) {
    client->kept.refused++;
    row->refused++;
    if (row->refused < (uint64_t)REFUSALS_MOST * client->clients->options->clients) {
        return FED_OK;
    }
    return fed_fail(
        err, FED_ERANGE,
        "round %u does not end: %u updates were refused, or had NaN or infinity; %u counted."
        " If the training diverges, try a smaller learning_rate, or a codec_up that adds"
        " less noise",
        row->round, row->refused, row->counted);
}

static fed_status note_step(sim_client *client, const sim_step_end *end, fed_error *err) {
    sim_clients *clients = client->clients;
    const bool answered = end->outcome == FEDCLIENT_COUNTED || end->outcome == FEDCLIENT_REFUSED;
    const uint32_t round = answered && end->round != 0 ? end->round : clients->kept.round;
    if (round == 0) {
        return FED_OK; /* the task has not started */
    }
    sim_round *row = row_of(clients, round);
    FED_REQUIRE(row != NULL, FED_ENOMEM);
    charge(client, row);
    if (end->outcome == FEDCLIENT_COUNTED) {
        note_counted(client, row);
    } else if (end->outcome == FEDCLIENT_REFUSED || end->outcome == FEDCLIENT_DECLINED) {
        FED_TRY(note_refused(client, row, err));
    }
    return FED_OK;
}

fed_status sim_note_event(sim_client *client, const sim_step_end *end, bool *over, fed_error *err) {
    sim_clients *clients = client->clients;
    if (!client->evaluates) {
        FED_TRY(note_step(client, end, err));
    }
    *over = sim_step_is_last(end);
    if (end->outcome == FEDCLIENT_FINISHED) {
        clients->kept.finished = true;
        clients->kept.version = end->version;
        pthread_cond_broadcast(&clients->changed);
    }
    client->kept.finished = client->kept.finished || *over;
    return FED_OK;
}

void sim_note_checkin(sim_clients *clients, int64_t now_ms) {
    if (clients->began_wall_ms == 0) {
        clients->kept.began_ms = now_ms;
        clients->began_wall_ms = fed_clock_monotonic_ms();
    }
}

/** Return the mean accuracy of the worst tenth of the clients on what they hold back; NAN: models
 * are not measured there. */
static fed_status worst_tenth(const sim_clients *clients, double *worst) {
    const uint32_t count = clients->options->clients;
    *worst = (double)NAN;
    if (!sim_measures_clients(clients->options)) {
        return FED_OK;
    }
    double *accuracy = malloc(count * sizeof *accuracy + 1);
    FED_REQUIRE(accuracy != NULL, FED_ENOMEM);
    size_t n = 0;
    for (uint32_t k = 0; k < count; k++) {
        if (clients->client[k].kept.held > 0) {
            accuracy[n++] = clients->client[k].kept.shared;
        }
    }
    if (n > 0) {
        (void)sim_mean_of(accuracy, n, worst);
    }
    free(accuracy);
    return FED_OK;
}

fed_status sim_note_measured(sim_clients *clients, uint32_t version, double accuracy, double loss) {
    clients->kept.evaluated = version;
    clients->kept.accuracy = accuracy;
    clients->kept.test_loss = loss;
    if (version > 0) { /* version 0 is the initial model, which no round made */
        sim_round *row = row_of(clients, version);
        FED_REQUIRE(row != NULL, FED_ENOMEM);
        row->accuracy = clients->kept.accuracy;
        row->test_loss = clients->kept.test_loss;
        FED_TRY(worst_tenth(clients, &row->worst_tenth));
    }
    return FED_OK;
}

static fed_status take_round(void *user, const fedserver_round_entry *entry, fed_error *err) {
    sim_clients *clients = user;
    (void)err;
    sim_round *row = row_of(clients, entry->number);
    FED_REQUIRE(row != NULL, FED_ENOMEM);
    row->virtual_s = 1e-3 * (double)(entry->committed_ms - clients->kept.began_ms);
    row->wall_s = clients->virtual_time == NULL
                      ? row->virtual_s
                      : 1e-3 * (double)(fed_clock_monotonic_ms() - clients->began_wall_ms);
    row->update_bytes = entry->update_bytes;
    row->delta_bytes = entry->delta_bytes;
    row->train_loss = entry->loss;
    row->clip = entry->clip;
    clients->kept.committed =
        entry->number > clients->kept.committed ? entry->number : clients->kept.committed;
    return FED_OK;
}

fed_status sim_note_rounds(sim_clients *clients, fedserver *server, uint32_t most, fed_error *err) {
    return fedserver_round_each(server, 0, most, take_round, clients, err);
}

fed_status sim_note_seen(sim_clients *clients) {
    const sim_clients_kept *kept = &clients->kept;
    const uint32_t over = kept->finished ? kept->version : kept->round != 0 ? kept->round - 1 : 0;
    while (clients->kept.committed < over) {
        sim_round *row = row_of(clients, clients->kept.committed + 1);
        FED_REQUIRE(row != NULL, FED_ENOMEM);
        row = &clients->log->rounds[clients->kept.committed++];
        row->virtual_s = row->wall_s = 1e-3 * (double)(fed_clock_unix_ms() - kept->began_ms);
        row->train_loss = (double)NAN;
    }
    return FED_OK;
}

static void note_client(const sim_client *client, uint64_t digest, sim_account *account) {
    *account = (sim_account){
        .up_bytes = client->traffic.sent_bytes - client->kept.enrolment.sent_bytes,
        .down_bytes = client->traffic.received_bytes - client->kept.enrolment.received_bytes,
        .counted = client->kept.counted,
        .refused = client->kept.refused,
        .broken = client->lossy.kept.broken,
        .samples = (uint32_t)client->share.size,
        .busy_s = 1e-6 * (double)client->kept.busy_us,
        .held = client->kept.held,
        .shared = client->kept.shared,
        .personal = client->kept.personal,
        .present = client->kept.finished && client->kept.has_model,
        .identical = client->kept.has_model && client->kept.digest == digest};
}

void sim_note_end(sim_clients *clients, uint64_t digest) {
    sim_log *log = clients->log;
    log->digest = digest;
    for (size_t k = 0; k < log->client_count; k++) {
        const sim_client *client = &clients->client[k];
        note_client(client, digest, &log->clients[k]);
        log->steps += client->kept.steps;
        log->train_cpu_s += 1e-6 * (double)client->kept.train_cpu_us;
    }
    log->parameters = clients->kept.parameters;
    log->evaluate_cpu_s = 1e-6 * (double)clients->kept.evaluate_cpu_us;
    log->round_count =
        log->round_count < clients->kept.committed ? log->round_count : clients->kept.committed;
}
