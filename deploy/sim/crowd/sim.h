/* A run's parts, whatever carries its requests: the clients, their training, the log. */
#ifndef FEDSIM_SIM_H
#define FEDSIM_SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "deploy/sim/flash/flash.h"
#include "deploy/sim/report/sim_log.h"
#include "deploy/sim/run.h"
#include "deploy/sim/scenario/options.h"
#include "fed/crypto.h"
#include "fed/error.h"
#include "fed/rng.h"
#include "fedclient/fedclient.h"
#include "fedserver/fedserver.h"
#include "fedtrain/data.h"

/** Who is away in a round: exactly floor(fraction * clients) of them, drawn from the seed.
 *    away  bool[clients], written */
void sim_draw_away(uint64_t seed, uint32_t round, uint32_t clients, double fraction, bool *away);

struct sim_crowd;
/** Is client k away in a round? Under the crowd's mutex. */
bool sim_is_away(struct sim_crowd *crowd, uint32_t round, uint32_t k);

/** A place to work at: as many turns are under way at a time as there are places. */
typedef struct sim_place {
    fedtrain_net *net;
    fed_arch arch; /* what net was made for; its text is NULL before the first task */
    size_t batch;  /* likewise */
    float *state;  /* a stateless optimizer's, float32[state_floats] */
    size_t state_floats;
    struct sim_place *next;
} sim_place;

/** What a transport does to its uploads. */
typedef struct sim_line {
    fedclient_transport inner;
    struct sim_client *client;
    /** An answer has come, before the client hears of it; NULL: not wanted. */
    void (*answered)(struct sim_client *client, const fedclient_request *request);
    uint32_t uploads; /* tried so far: with the client, names the dice */
} sim_line;

typedef struct sim_client {
    struct sim_crowd *crowd;
    uint32_t k;
    bool evaluates;
    bool takes_part; /* has worked at least once, so the run waits for its end; the evaluator too */
    bool finished;   /* has learnt that the task is over */
    pthread_t thread; /* HTTPS */
    bool started;
    fedclient_platform platform;
    fedclient_transport transport; /* the line's */
    sim_line line;
    fedtrain_share share;        /* what it trains on */
    uint32_t round, again;       /* the last one trained in, and how often before */
    sim_place *place;            /* held during a turn */
    pthread_cond_t turn;         /* HTTPS: this one's place is there */
    fedclient_traffic enrolment; /* what enrolling cost, kept out of the rounds' figures */
    fedclient_traffic traffic;
    fedclient_traffic charged; /* so much of it is in the log's rounds */
    uint64_t train_cpu_us;
    int64_t busy_us;                                 /* time spent training: virtual, or CPU time */
    uint32_t counted, refused, broken, last_counted; /* the last: a round */
    uint32_t local_steps;                            /* of its last training */
    uint64_t steps;                                  /* of those that were counted */
    uint32_t broken_charged;
    uint64_t digest; /* of the final model */
    fed_error error; /* why it gave up; FED_OK if it did not */
} sim_client;

/** All clients of a run, and what they share. */
typedef struct sim_crowd {
    const sim_options *options;
    const char *server;        /* the front's URL */
    const char *ca;            /* HTTPS: whom to trust */
    struct sim_inproc *inproc; /* NULL: over HTTPS */
    sim_flash *flash;          /* what the clients keep */
    double earlier_cpu_s;      /* of this run before it was resumed, less what was not of it */
    fedtrain_data train, test;
    sim_client *client; /* [options->clients + 1]; the last one evaluates */
    size_t client_count;
    atomic_int stop;

    pthread_mutex_t mutex;  /* guards what follows */
    pthread_cond_t changed; /* a round, the end, a kill */
    sim_place *places;      /* free ones */
    sim_client **waiting;   /* who waits for one, in no order */
    size_t waiting_count;
    fed_rng dice; /* of who comes next */
    sim_place *all_places;
    bool *away;          /* [options->clients]: in the round that was last asked for ... */
    uint32_t away_round; /* ... this one; 0: none was */
    uint32_t round;      /* the newest that any client was asked to train in */
    uint32_t reported;   /* updates counted in it */
    uint32_t version;    /* the final one, once finished */
    uint32_t rounds;     /* of the task */
    uint32_t committed;  /* the newest round of the log that was committed */
    uint32_t evaluated;  /* version that the accuracy is of */
    double accuracy;     /* NAN: the model predicts numbers, and its loss says all */
    double test_loss;
    float loss;
    bool finished;
    int64_t began_ms, began_wall_ms; /* the first check-in: Unix, or virtual; monotonic. 0: none */
    bool kill_due;                   /* the coordinator is to be killed now; no new turn begins */
    bool kill_done;
    size_t running; /* client threads that have not ended, of those that take part */
    size_t failed;
    sim_log *log;
    uint64_t evaluate_cpu_us; /* the evaluator's thread writes it, its end makes it readable */
    size_t parameters;
} sim_crowd;

/** Load the data, deal it out, make the places. The rounds go into log. */
fed_status sim_crowd_open(sim_crowd *crowd, const sim_options *options, sim_log *log,
                          fed_error *err) FED_CHECKED;
void sim_crowd_close(sim_crowd *crowd);
/** How far it is, for the watcher. */
void sim_crowd_show(sim_crowd *crowd, const sim_watch *watch, double virtual_s);
/** CPU time of this process and its children. */
double sim_cpu_s(void);
/** The first client that gave up, as an error; FED_OK: none did. */
fed_status sim_crowd_failure(const sim_crowd *crowd, fed_error *err) FED_CHECKED;

/** A client's options but for its transport. */
fedclient_options sim_client_options(sim_client *client);
/** Take in the digest of the model that the client holds at its end. */
fed_status sim_client_finish(sim_client *client, fedclient *fed, fed_error *err) FED_CHECKED;

/** The callback: train, or measure, on client->place. */
fed_status sim_work(void *user, fedclient_round *round, fed_error *err) FED_CHECKED;
/** From now on the run waits for this client's end. */
void sim_take_up(sim_client *client);
/** Is that model to be measured? The last one is, too, when the task is over. */
bool sim_wants_measured(const sim_options *options, uint32_t version);

/* The log; under the mutex. */

/** A turn has ended with this event. *over: the client has nothing more to do. */
fed_status sim_note_event(sim_client *client, const fedclient_event *event, bool *over) FED_CHECKED;
/** A check-in: the first one is where time begins. */
void sim_note_checkin(sim_crowd *crowd, int64_t now_ms);
/** A model was measured. */
fed_status sim_note_measured(sim_crowd *crowd, uint32_t version, const fedclient_round *round);
/** Take the rounds that the coordinator has committed into the log: the newest `most`. */
fed_status sim_note_rounds(sim_crowd *crowd, fedserver *server, uint32_t most,
                           fed_error *err) FED_CHECKED;
/** What the clients have to say of the run, at its end. Rounds that were not committed go. */
void sim_note_end(sim_crowd *crowd, uint64_t digest);

/** Wrap a client's transport, line->inner, so that some uploads break (options->broken). */
void sim_line_open(sim_line *line, sim_client *client, fedclient_transport *outer);

/* The two ways, each from a prepared crowd to its end; options->transport says which. The digest is
 * of the coordinator's last model. */

fed_status sim_https_run(sim_crowd *crowd, const sim_watch *watch, uint64_t *digest,
                         fed_error *err) FED_CHECKED;
fed_status sim_inproc_run(sim_crowd *crowd, const sim_watch *watch, uint64_t *digest,
                          fed_error *err) FED_CHECKED;

#endif
