/* The log is kept: what a client moved is charged to rounds, rounds come from the coordinator. */
#include <math.h>

#include "deploy/sim/crowd/sim.h"
#include "fed/clock.h"

/** The log's row of a round. NULL: no memory for it. Under the mutex. */
static sim_round *row_of(sim_crowd *crowd, uint32_t round) {
    sim_log *log = crowd->log;
    while (log->round_count < round) {
        sim_round *fresh = NULL;
        if (sim_log_add(log, &fresh) != FED_OK) {
            return NULL;
        }
        fresh->round = (uint32_t)log->round_count;
    }
    return &log->rounds[round - 1];
}

/** What the client has moved since it was last asked is the round's. */
static void charge(sim_client *client, sim_round *row) {
    fedclient_traffic now;
    client->transport.traffic(client->transport.user, &now);
    row->up_bytes += now.sent_bytes - client->charged.sent_bytes;
    row->down_bytes += now.received_bytes - client->charged.received_bytes;
    client->charged = now;
    row->broken += client->broken - client->broken_charged;
    client->broken_charged = client->broken;
}

static void note_counted(sim_client *client, sim_round *row) {
    sim_crowd *crowd = client->crowd;
    client->counted++;
    client->steps += client->local_steps;
    client->last_counted = row->round;
    row->counted++;
    sim_log_attend(crowd->log, row->round - 1, client->k);
    crowd->reported += row->round == crowd->round ? 1U : 0U;
    if (crowd->inproc == NULL && row->round == crowd->options->kill_round && !crowd->kill_done) {
        crowd->kill_due = true;
        pthread_cond_broadcast(&crowd->changed);
    }
}

/** What a turn of a client that trains has come to. */
static fed_status note_turn(sim_client *client, const fedclient_event *event) {
    sim_crowd *crowd = client->crowd;
    const bool word = event->outcome == FEDCLIENT_COUNTED || event->outcome == FEDCLIENT_REFUSED;
    const uint32_t round = word && event->round != 0 ? event->round : crowd->round;
    if (round == 0) {
        return FED_OK; /* the task has not started */
    }
    sim_round *row = row_of(crowd, round);
    FED_REQUIRE(row != NULL, FED_ENOMEM);
    charge(client, row);
    if (event->outcome == FEDCLIENT_COUNTED) {
        note_counted(client, row);
    } else if (event->outcome == FEDCLIENT_REFUSED) {
        client->refused++;
        row->refused++;
    }
    return FED_OK;
}

fed_status sim_note_event(sim_client *client, const fedclient_event *event, bool *over) {
    sim_crowd *crowd = client->crowd;
    if (!client->evaluates) {
        FED_TRY(note_turn(client, event));
    }
    /* who has the last model already hears of the end by being told to wait */
    *over = event->outcome == FEDCLIENT_FINISHED ||
            (event->outcome == FEDCLIENT_WAITED && event->reason == FED_WAIT_FINISHED);
    if (event->outcome == FEDCLIENT_FINISHED) {
        crowd->finished = true;
        crowd->version = event->version;
        pthread_cond_broadcast(&crowd->changed);
    }
    client->finished = client->finished || *over;
    return FED_OK;
}

void sim_note_checkin(sim_crowd *crowd, int64_t now_ms) {
    if (crowd->began_wall_ms == 0) {
        crowd->began_ms = now_ms;
        crowd->began_wall_ms = fed_clock_monotonic_ms();
    }
}

fed_status sim_note_measured(sim_crowd *crowd, uint32_t version, const fedclient_round *round) {
    crowd->evaluated = version;
    crowd->accuracy = round->arch->loss == FED_LOSS_SQUARED
                          ? (double)NAN
                          : (double)round->correct / (double)round->samples;
    crowd->test_loss = (double)round->loss;
    if (version > 0) { /* that model is of no round */
        sim_round *row = row_of(crowd, version);
        FED_REQUIRE(row != NULL, FED_ENOMEM);
        row->accuracy = crowd->accuracy;
        row->test_loss = crowd->test_loss;
    }
    return FED_OK;
}

static fed_status take_round(void *user, const fedserver_round_entry *entry, fed_error *err) {
    sim_crowd *crowd = user;
    (void)err;
    sim_round *row = row_of(crowd, entry->number);
    FED_REQUIRE(row != NULL, FED_ENOMEM);
    row->virtual_s = 1e-3 * (double)(entry->committed_ms - crowd->began_ms);
    row->wall_s = crowd->inproc == NULL
                      ? row->virtual_s
                      : 1e-3 * (double)(fed_clock_monotonic_ms() - crowd->began_wall_ms);
    row->update_bytes = entry->update_bytes;
    row->delta_bytes = entry->delta_bytes;
    row->train_loss = entry->loss;
    crowd->committed = entry->number > crowd->committed ? entry->number : crowd->committed;
    return FED_OK;
}

fed_status sim_note_rounds(sim_crowd *crowd, fedserver *server, uint32_t most, fed_error *err) {
    return fedserver_round_each(server, 0, most, take_round, crowd, err);
}

static void note_client(const sim_client *client, uint64_t digest, sim_account *account) {
    *account = (sim_account){.up_bytes = client->traffic.sent_bytes - client->enrolment.sent_bytes,
                             .down_bytes =
                                 client->traffic.received_bytes - client->enrolment.received_bytes,
                             .counted = client->counted,
                             .refused = client->refused,
                             .broken = client->broken,
                             .samples = (uint32_t)client->share.size,
                             .busy_s = 1e-6 * (double)client->busy_us,
                             .present = client->finished,
                             .identical = client->finished && client->digest == digest};
}

void sim_note_end(sim_crowd *crowd, uint64_t digest) {
    sim_log *log = crowd->log;
    log->digest = digest;
    for (size_t k = 0; k < log->client_count; k++) {
        const sim_client *client = &crowd->client[k];
        note_client(client, digest, &log->clients[k]);
        log->steps += client->steps;
        log->train_cpu_s += 1e-6 * (double)client->train_cpu_us;
    }
    log->parameters = crowd->parameters;
    log->evaluate_cpu_s = 1e-6 * (double)crowd->evaluate_cpu_us;
    log->round_count = log->round_count < crowd->committed ? log->round_count : crowd->committed;
}
