/* Clients over HTTPS: one thread each, every one a whole libfedclient of its own. */
#include "deploy/sim/real/lives.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fed/clock.h"

enum { STACK_BYTES = 512 * 1024, ENROL_TRIES = 100, ENROL_PAUSE_MS = 300 };

void sim_lives_hand_out(sim_crowd *crowd) {
    while (crowd->places != NULL && crowd->waiting_count > 0 && !crowd->kill_due) {
        uint32_t next = fed_rng_below(&crowd->dice, (uint32_t)crowd->waiting_count);
        sim_client *client = crowd->waiting[next];
        crowd->waiting[next] = crowd->waiting[--crowd->waiting_count];
        client->place = crowd->places;
        crowd->places = client->place->next;
        pthread_cond_signal(&client->turn);
    }
}

/** Wait for a place. Who comes next is left to chance, as among devices of unequal speed: else the
 * same ones would come too late in every round. */
static void place_take(sim_client *client) {
    sim_crowd *crowd = client->crowd;
    pthread_mutex_lock(&crowd->mutex);
    crowd->waiting[crowd->waiting_count++] = client;
    sim_lives_hand_out(crowd);
    while (client->place == NULL) {
        pthread_cond_wait(&client->turn, &crowd->mutex);
    }
    pthread_mutex_unlock(&crowd->mutex);
}

static void place_give_back(sim_client *client) {
    if (client->place == NULL) {
        return;
    }
    sim_crowd *crowd = client->crowd;
    pthread_mutex_lock(&crowd->mutex);
    client->place->next = crowd->places;
    crowd->places = client->place;
    client->place = NULL;
    sim_lives_hand_out(crowd);
    pthread_mutex_unlock(&crowd->mutex);
}

static struct timespec after_ms(uint32_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    return until;
}

/** Sleep, but wake up when the run stops. */
static void pause_for(sim_crowd *crowd, uint32_t ms) {
    struct timespec until = after_ms(ms);
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->stop == 0 &&
           pthread_cond_timedwait(&crowd->changed, &crowd->mutex, &until) == 0) {
    }
    pthread_mutex_unlock(&crowd->mutex);
}

void sim_lives_wait(sim_crowd *crowd, uint32_t ms) {
    struct timespec until = after_ms(ms);
    pthread_mutex_lock(&crowd->mutex);
    if (!crowd->kill_due) {
        (void)pthread_cond_timedwait(&crowd->changed, &crowd->mutex, &until);
    }
    pthread_mutex_unlock(&crowd->mutex);
}

/** Stay away, line closed, from every round that the schedule says so. */
static void stay_away(sim_client *client) {
    sim_crowd *crowd = client->crowd;
    bool was_here = true;
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->stop == 0 && !crowd->finished) {
        const uint32_t last = client->last_counted;
        uint32_t next = crowd->round > last ? crowd->round : last + 1;
        if (!sim_is_away(crowd, next, client->k)) {
            break;
        }
        if (was_here) {
            was_here = false;
            client->transport.disconnect(client->transport.user);
        }
        while (crowd->stop == 0 && !crowd->finished && crowd->round <= next) {
            pthread_cond_wait(&crowd->changed, &crowd->mutex);
        }
    }
    pthread_mutex_unlock(&crowd->mutex);
}

/** Let the models go by that are not to be measured. In round r the newest one is of version r - 1.
 */
static void await_model(sim_client *client) {
    sim_crowd *crowd = client->crowd;
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->stop == 0 && !crowd->finished && crowd->round > 0 &&
           !sim_wants_measured(crowd->options, crowd->round - 1)) {
        pthread_cond_wait(&crowd->changed, &crowd->mutex);
    }
    pthread_mutex_unlock(&crowd->mutex);
}

static fed_status take_turn(sim_client *client, fedclient *fed, fedclient_event *event, bool *over,
                            fed_error *err) {
    fed_status status = fedclient_step(fed, event, err);
    place_give_back(client);
    FED_TRY(status);
    FED_REQUIRE(event->outcome != FEDCLIENT_DECLINED, err->status); /* so would all the others */
    pthread_mutex_lock(&client->crowd->mutex);
    status = sim_note_event(client, event, over);
    pthread_mutex_unlock(&client->crowd->mutex);
    return status;
}

static fed_status take_part(sim_client *client, fedclient *fed, fed_error *err) {
    for (bool over = false; client->crowd->stop == 0 && !over;) {
        fedclient_event event = {0};
        if (client->evaluates) {
            await_model(client);
        } else {
            stay_away(client);
        }
        FED_TRY(take_turn(client, fed, &event, &over, err));
        if (event.wait_ms > 0 && !over) {
            pause_for(client->crowd, event.wait_ms);
        }
    }
    return FED_OK;
}

/** A turn begins with the answer to a check-in: from here on it needs a place to work at. */
static void answered(sim_client *client, const fedclient_request *request) {
    if (client->place == NULL && strstr(request->url, "/v1/checkin") != NULL) {
        pthread_mutex_lock(&client->crowd->mutex);
        sim_note_checkin(client->crowd, fed_clock_unix_ms());
        pthread_mutex_unlock(&client->crowd->mutex);
        place_take(client);
    }
}

/** A few at a time: hundreds of handshakes at once on the cores of one machine would all take as
 * long as all of them together, and none may take half a minute. */
static fed_status enrol_once(sim_client *client, fedclient *fed, const char *token,
                             fed_error *err) {
    place_take(client);
    fed_status status = fedclient_enrol(fed, token, err);
    place_give_back(client);
    return status;
}

/** The coordinator may be killed just then. */
static fed_status enrol(sim_client *client, fedclient *fed, const char *token, fed_error *err) {
    fed_status status = enrol_once(client, fed, token, err);
    for (int tries = 0; tries < ENROL_TRIES && client->crowd->stop == 0 &&
                        (status == FED_ENET || status == FED_ETIMEOUT);
         tries++) {
        pause_for(client->crowd, ENROL_PAUSE_MS);
        status = enrol_once(client, fed, token, err);
    }
    return status;
}

static fed_status live(sim_client *client, const char *token, fed_error *err) {
    FED_TRY(fedclient_transport_open(NULL,
                                     &(fedclient_transport_options){.ca_pem = client->crowd->ca},
                                     &client->line.inner, err));
    client->line.answered = answered;
    sim_line_open(&client->line, client, &client->transport);
    const fedclient_options options = sim_client_options(client);
    fedclient *fed = NULL;
    fed_status status = fedclient_open(&options, &fed, err);
    if (status == FED_OK) {
        status = enrol(client, fed, token, err);
    }
    client->transport.traffic(client->transport.user, &client->enrolment);
    client->charged = client->enrolment;
    if (status == FED_OK) {
        status = take_part(client, fed, err);
    }
    if (status == FED_OK && client->finished) {
        status = sim_client_finish(client, fed, err);
    }
    client->transport.traffic(client->transport.user, &client->traffic);
    fedclient_close(fed);
    fedclient_transport_close(&client->line.inner);
    return status;
}

/** What a thread is started with. */
typedef struct birth {
    sim_client *client;
    char token[FEDSERVER_TOKEN];
} birth;

static void *client_main(void *argument) {
    birth born = *(birth *)argument;
    free(argument);
    sim_client *client = born.client;
    sim_crowd *crowd = client->crowd;
    fed_error err = {0};
    fed_status status = live(client, born.token, &err);
    pthread_mutex_lock(&crowd->mutex);
    if (status != FED_OK && crowd->stop == 0) {
        client->error = err;
        client->error.status = status;
        crowd->failed++;
    }
    crowd->running -= client->takes_part ? 1U : 0U;
    pthread_cond_broadcast(&crowd->changed);
    pthread_mutex_unlock(&crowd->mutex);
    return NULL;
}

static fed_status start_client(sim_client *client, const char *token, fed_error *err) {
    birth *born = malloc(sizeof *born);
    FED_REQUIRE(born != NULL, FED_ENOMEM);
    born->client = client;
    memcpy(born->token, token, FEDSERVER_TOKEN);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_mutex_lock(&client->crowd->mutex);
    int failed = pthread_create(&client->thread, &attributes, client_main, born);
    client->started = failed == 0;
    pthread_mutex_unlock(&client->crowd->mutex);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
        free(born);
        return fed_fail(err, FED_ENOMEM,
                        "can't start a thread for client %u: %s; use fewer clients", client->k,
                        strerror(failed));
    }
    return FED_OK;
}

fed_status sim_lives_start(sim_crowd *crowd, char (*token)[FEDSERVER_TOKEN], fed_error *err) {
    for (size_t k = 0; k < crowd->client_count; k++) {
        FED_TRY(start_client(&crowd->client[k], token[k], err));
    }
    return FED_OK;
}

void sim_lives_end(sim_crowd *crowd) {
    for (size_t k = 0; k < crowd->client_count; k++) {
        if (crowd->client[k].started) {
            pthread_join(crowd->client[k].thread, NULL);
            crowd->client[k].started = false;
        }
    }
}

void sim_lives_stop(sim_crowd *crowd) {
    pthread_mutex_lock(&crowd->mutex);
    crowd->stop = 1;
    pthread_cond_broadcast(&crowd->changed);
    pthread_mutex_unlock(&crowd->mutex);
}
