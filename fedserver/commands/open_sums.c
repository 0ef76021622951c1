/* The command helper: opens the sums of private tasks, for another party than the coordinator's. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/file.h"
#include "fed/hash.h"
#include "fed/log.h"
#include "fed/version.h"
#include "fedclient/app.h"
#include "fedserver/commands/command.h"
#include "fedserver/private_helper.h"

enum {
    HOLD_MS = 50000,
    FIRST_MS = 1000, /* also after a refusal: the coordinator asks about another task first */
    MOST_MS = 60000,
    PATH = 1024,
    TOKEN_MOST = 256,
    CA_MOST = 1 << 20,
    ROSTER_MOST = 64 << 20,
    PIECE = 512 * 1024,
    TICK_MS = 100,
    PIECES_ASTRAY = 8 /* pieces in a row after which no more has arrived */
};

/* Whom a signal stops. */
static fedclient_app *running;

static void on_signal(int number) {
    (void)number;
    fedclient_app_stop(running);
}

typedef struct helping {
    const arguments *args;
    const fed_log *log;
    uint8_t secret[FED_POINT_SECRET], key[FED_SEAL_KEY];
    fed_pem identity; /* the same key, with which the helper enrols: it is known by it */
    fedclient_app *app;
    fedserver_helper *helper;
    /* the last set with seals that can't be opened; zeros: there was none */
    uint8_t unopened[FED_SHA256_SIZE];
} helping;

static void path_of(const helping *h, const char *name, char path[PATH]) {
    snprintf(path, PATH, "%s/%s", h->args->dir, name);
}

/* Read a secret from a file, or make one. */
static fed_status load_secret(const char *path, uint8_t secret[FED_POINT_SECRET],
                              uint8_t key[FED_SEAL_KEY], fed_error *err) {
    char word[2 * FED_POINT_SECRET + 2];
    fed_error absent = {0};
    fed_status status = fed_file_read_word(path, word, sizeof word, &absent);
    if (status == FED_OK) {
        status = fed_unhex(word, secret, FED_POINT_SECRET) == FED_OK
                     ? fed_point_of(secret, key, err)
                     : fed_fail(err, FED_EFORMAT, "%s is no seal key: 64 hex digits", path);
        fed_wipe(word, sizeof word);
        return status;
    }
    if (status != FED_ENOTFOUND) {
        return fed_fail(err, status, "%s", absent.text);
    }
    FED_TRY(fed_point_new(secret, key, err));
    fed_hex(secret, FED_POINT_SECRET, word);
    status = fed_file_replace(path, word, strlen(word), 0600, err);
    fed_wipe(word, sizeof word);
    return status;
}

/* What helper.pem says: this helper's key, and the spare one that an earlier start has named. */
static void read_points(const helping *h, fed_points *points) {
    char path[PATH];
    fed_points before;
    fed_error why;
    path_of(h, "helper.pem", path);
    *points = (fed_points){.count = 1};
    memcpy(points->at[0], h->key, sizeof h->key);
    if (fed_points_load(path, &before, &why) == FED_OK && before.count == 2 &&
        memcmp(before.at[0], h->key, sizeof h->key) == 0) {
        *points = before;
    }
}

static fed_status write_points(const helping *h, const fed_points *points, fed_error *err) {
    char path[PATH], text[FED_POINTS_TEXT];
    path_of(h, "helper.pem", path);
    fed_points_write(points, text);
    return fed_file_replace(path, text, strlen(text), 0644, err);
}

/* Load the seal key: helper.key has the secret, helper.pem what the task names. Each start writes
 * helper.pem, for an earlier one may have ended between the two. */
static fed_status load_key(helping *h, fed_error *err) {
    char path[PATH];
    fed_points points;
    path_of(h, "helper.key", path);
    FED_TRY(load_secret(path, h->secret, h->key, err));
    FED_TRY(fed_key_of(h->secret, &h->identity, err));
    read_points(h, &points);
    return write_points(h, &points, err);
}

/* Make a spare key, whose secret lies elsewhere, and name it in helper.pem. Run again after a
 * failure, it goes on with the same key. */
static fed_status make_spare(helping *h, fed_error *err) {
    uint8_t secret[FED_POINT_SECRET], spare[FED_SEAL_KEY];
    fed_points points;
    FED_TRY(fed_dir_make(h->args->dir, 0700, err));
    FED_TRY(load_key(h, err));
    read_points(h, &points);
    const fed_status status = load_secret(h->args->make_spare, secret, spare, err);
    fed_wipe(secret, sizeof secret);
    FED_TRY(status);
    if (memcmp(spare, h->key, sizeof spare) == 0 ||
        (points.count == 2 && memcmp(spare, points.at[1], sizeof spare) != 0)) {
        return fed_fail(err, FED_EINVAL,
                        "%s is the key in use, or helper.pem names another spare key; give a new "
                        "file, and if the other spare key is lost, remove it from helper.pem",
                        h->args->make_spare);
    }
    points.count = 2;
    memcpy(points.at[1], spare, sizeof spare);
    FED_TRY(write_points(h, &points, err));
    printf("%s/helper.pem names the spare key now: give it to the coordinator's operator, and to "
           "devices. Keep %s where this helper's disk is not\n",
           h->args->dir, h->args->make_spare);
    return FED_OK;
}

/* Read a line's fingerprint, 64 hex digits. What follows a blank or '#' is for people. */
static fed_status read_line(const char *line, uint8_t digest[FED_SHA256_SIZE]) {
    char hex[FED_SHA256_HEX];
    snprintf(hex, sizeof hex, "%.64s", line);
    FED_REQUIRE(line[strlen(hex)] == '\0' || strchr(" \t\r#", line[strlen(hex)]) != NULL,
                FED_EFORMAT);
    return fed_unhex(hex, digest, FED_SHA256_SIZE);
}

static fed_status read_roster(const char *path, uint8_t (**roster)[FED_SHA256_SIZE], size_t *count,
                              fed_error *err) {
    char *text = NULL, *rest = NULL;
    size_t len = 0, line = 0;
    FED_TRY(fed_file_read_text(path, ROSTER_MOST, &text, &len, err));
    *count = 0;
    *roster = calloc(len / (FED_SHA256_HEX - 1) + 1, sizeof **roster);
    fed_status status = *roster != NULL ? FED_OK : FED_ENOMEM;
    for (char *at = strtok_r(text, "\n", &rest); at != NULL && status == FED_OK;
         at = strtok_r(NULL, "\n", &rest)) {
        line++;
        if (at[0] == '#' || at[0] == '\r') {
            continue;
        }
        status = read_line(at, (*roster)[*count]);
        *count += status == FED_OK;
    }
    free(text);
    return status == FED_OK
               ? FED_OK
               : fed_fail(err, status,
                          "%s, line %zu: it must begin with a device's fingerprint, 64 "
                          "hex digits",
                          path, line);
}

static fed_status open_helper(helping *h, fed_error *err) {
    char path[PATH];
    uint8_t(*roster)[FED_SHA256_SIZE] = NULL;
    fedserver_helper_options options = {.path = path, .least = (uint32_t)h->args->least};
    path_of(h, "helper.db", path);
    if (h->args->roster != NULL) {
        const fed_status read = read_roster(h->args->roster, &roster, &options.roster_count, err);
        if (read != FED_OK) {
            free(roster);
            return read;
        }
        options.roster = (const uint8_t(*)[FED_SHA256_SIZE])roster;
    }
    memcpy(options.secret, h->secret, sizeof options.secret);
    const fed_status status = fedserver_helper_open(&options, &h->helper, err);
    fed_wipe(options.secret, sizeof options.secret);
    free(roster);
    return status;
}

/* A helper never checks in, so it is never asked to train. */
static fed_status train(void *user, fedclient_round *round, fed_error *err) {
    (void)user;
    (void)round;
    return fed_fail(err, FED_ESTATE, "a helper trains nothing");
}

static fed_status open_app(helping *h, fed_error *err) {
    char state[PATH], *ca = NULL;
    size_t len = 0;
    const fedclient_options options = {.server = h->args->upstream,
                                       .log = h->log,
                                       .train = train,
                                       .name = h->args->name,
                                       .key = &h->identity,
                                       .software = "fedserver/" FED_VERSION};
    path_of(h, "identity", state);
    FED_TRY(fed_dir_make(state, 0700, err));
    FED_TRY(fed_file_read_text(h->args->upstream_ca, CA_MOST, &ca, &len, err));
    const fed_status status = fedclient_app_open(&options, ca, state, &h->app, err);
    free(ca);
    return status;
}

static fed_status enrol(helping *h, fed_error *err) {
    char token[TOKEN_MOST] = "";
    fedclient *client = fedclient_app_client(h->app);
    if (h->args->upstream_token_file != NULL) {
        const fed_status read =
            fed_file_read_word(h->args->upstream_token_file, token, sizeof token, err);
        if (read != FED_OK && !fedclient_enrolled(client)) {
            return read;
        }
    } else if (h->args->upstream_token != NULL) {
        snprintf(token, sizeof token, "%s", h->args->upstream_token);
    }
    if (fedclient_enrolled(client)) {
        return FED_OK;
    }
    if (token[0] == '\0') {
        return fed_fail(err, FED_ESTATE,
                        "this helper is not enrolled yet: make a token at the coordinator with "
                        "`fedserver token --role helper`, and give it with --upstream-token or "
                        "--upstream-token-file");
    }
    return fedclient_enrol(client, token, err);
}

/* Send a reply in pieces until the coordinator has it, or does not want it. */
static fed_status send_reply(helping *h, const fedserver_reply *reply, const fed_writer *whole,
                             fed_error *err) {
    fed_piece head = {.task = reply->task,
                      .round = reply->round,
                      .lease = 1,
                      .digest = fed_digest_bytes(whole->data, whole->len),
                      .total = whole->len};
    int status = 202;
    char word[32] = "";
    for (unsigned astray = 0; status == 202 && astray < PIECES_ASTRAY;) {
        const size_t left = whole->len - (size_t)head.offset, n = left < PIECE ? left : PIECE;
        fed_writer piece, answer;
        fed_writer_growing(&piece);
        fed_writer_growing(&answer);
        fed_piece_write(&piece, &head);
        fed_write_bytes(&piece, whole->data + head.offset, n);
        fed_status sent = piece.status;
        if (sent == FED_OK) {
            sent = fedclient_post(fedclient_app_client(h->app), "/v1/opening", piece.data,
                                  piece.len, 0, &status, word, &answer, err);
        }
        fed_reader r;
        fed_reader_init(&r, answer.data, answer.len);
        const uint64_t there = status == 202 && sent == FED_OK ? fed_read_u64(&r) : 0;
        astray = there > head.offset ? 0 : astray + 1;
        head.offset = there < whole->len ? there : 0;
        fed_writer_free(&piece);
        fed_writer_free(&answer);
        FED_TRY(sent);
    }
    return status == 200 ? FED_OK
                         : fed_fail(err, FED_EBUSY, "the coordinator did not take the opening (%s)",
                                    word[0] != '\0' ? word : "it keeps losing pieces");
}

static void say_opened(const helping *h, const fedserver_reply *reply,
                       const fedserver_inquiry *of) {
    char groups[48] = "a sum";
    if (of->groups > 1) {
        snprintf(groups, sizeof groups, "the sums of %u groups", of->groups);
    }
    fed_logf(h->log, FED_LOG_INFO, "task %llu: opened round %u, %s of %zu devices",
             (unsigned long long)reply->task, reply->round, groups, of->count);
}

static void say(const helping *h, const fedserver_reply *reply, const fedserver_inquiry *of) {
    if (reply->renewed) {
        fed_logf(h->log, FED_LOG_WARN,
                 "task %llu: its coordinator was restored, or its round voided: round %u and later "
                 "ones are opened anew; if nobody told you so, ask",
                 (unsigned long long)reply->task, reply->round);
    }
    if (reply->word[0] == '\0') {
        say_opened(h, reply, of);
    } else {
        fed_logf(h->log, FED_LOG_ERROR, "task %llu: round %u is not opened (%s): %s",
                 (unsigned long long)reply->task, reply->round, reply->word, reply->sentence);
    }
}

/* Is there something to do at once? After seals that can't be opened the coordinator asks about the
 * rest, unless it asks about the same set again and again. */
static bool goes_on(helping *h, const fedserver_reply *reply) {
    if (strcmp(reply->word, FEDSERVER_REPLY_SEALS) != 0) {
        return reply->word[0] == '\0';
    }
    const bool again = memcmp(h->unopened, reply->set, sizeof h->unopened) == 0;
    memcpy(h->unopened, reply->set, sizeof h->unopened);
    return !again;
}

/* Wait until a multiple of TICK_MS after the question: how long noise takes to draw says something
 * of the noise (Jin et al., "Are we there yet? Timing and floating-point attacks on differential
 * privacy systems", 2022). */
static void await_tick(int64_t asked_ms) {
    const int64_t passed_ms = fed_clock_monotonic_ms() - asked_ms;
    fed_sleep_ms((uint32_t)(TICK_MS - passed_ms % TICK_MS));
}

static fed_status answer_inquiry(helping *h, const fed_writer *body, bool *calm, fed_error *err) {
    fedserver_inquiry inquiry;
    fedserver_reply reply;
    fed_reader r;
    fed_writer whole;
    const int64_t asked_ms = fed_clock_monotonic_ms();
    fed_reader_init(&r, body->data, body->len);
    if (fedserver_inquiry_read(&r, &inquiry) != FED_OK || fed_reader_end(&r) != FED_OK) {
        return fed_fail(err, FED_EFORMAT, "the coordinator's question makes no sense");
    }
    fed_status status = fedserver_helper_answer(h->helper, &inquiry, &reply, err);
    if (status == FED_OK) {
        say(h, &reply, &inquiry);
        *calm = goes_on(h, &reply);
        fed_writer_growing(&whole);
        fedserver_reply_write(&whole, &reply);
        if (inquiry.terms.privacy.sigma2 > 0) {
            await_tick(asked_ms);
        }
        status = whole.status == FED_OK ? send_reply(h, &reply, &whole, err) : whole.status;
        fed_writer_free(&whole);
        fedserver_reply_free(&reply);
    }
    fedserver_inquiry_free(&inquiry);
    return status;
}

/* Ask once what is owed, and answer it. *calm: there is no reason to rest before the next time. */
static fed_status ask_once(helping *h, bool *calm, fed_error *err) {
    uint8_t text[sizeof(uint32_t)];
    char word[32] = "";
    int status = 0;
    fed_writer body, answer;
    fed_writer_fixed(&body, text, sizeof text);
    fed_write_u32(&body, HOLD_MS);
    fed_writer_growing(&answer);
    fed_status asked = fedclient_post(fedclient_app_client(h->app), "/v1/helper", text, body.len,
                                      HOLD_MS, &status, word, &answer, err);
    *calm = status == 204;
    if (asked == FED_OK && status == 200) {
        asked = answer_inquiry(h, &answer, calm, err);
    } else if (asked == FED_OK && status != 204) {
        asked = fed_fail(err, FED_EFORMAT, "the coordinator answers %d (%s)", status, word);
    }
    fed_writer_free(&answer);
    return asked;
}

static void rest(const helping *h, uint32_t ms) {
    for (uint32_t slept = 0; slept < ms && !fedclient_app_stopped(h->app); slept += 200) {
        fed_sleep_ms(200);
    }
}

static fed_status work(helping *h, fed_error *err) {
    uint32_t wait_ms = FIRST_MS;
    while (!fedclient_app_stopped(h->app)) {
        bool calm = false;
        fed_error why = {0};
        const fed_status status = ask_once(h, &calm, &why);
        if (fedclient_app_stopped(h->app)) {
            break;
        }
        if (status == FED_EAUTH) {
            return fed_fail(err, status, "%s", why.text);
        }
        if (status != FED_OK) {
            fed_logf(h->log, FED_LOG_WARN, "%.500s; trying again in %u s", why.text,
                     wait_ms / 1000);
        }
        wait_ms = status == FED_OK ? FIRST_MS : wait_ms;
        if (!calm || status != FED_OK) {
            rest(h, wait_ms);
        }
        if (status != FED_OK) {
            wait_ms = wait_ms < MOST_MS / 2 ? 2 * wait_ms : MOST_MS;
        }
    }
    return FED_OK;
}

static fed_status open_all(helping *h, fed_error *err) {
    FED_TRY(fed_dir_make(h->args->dir, 0700, err));
    FED_TRY(load_key(h, err));
    FED_TRY(open_helper(h, err));
    FED_TRY(open_app(h, err));
    return enrol(h, err);
}

static int make_spare_key(helping *h) {
    fed_error err = {0};
    const fed_status status = make_spare(h, &err);
    fed_wipe(h->secret, sizeof h->secret);
    fed_wipe(&h->identity, sizeof h->identity);
    return status == FED_OK ? COMMAND_OK : command_fail(h->args, &err);
}

static int helper(const arguments *args) {
    fed_log log = {.level = FED_LOG_INFO};
    helping h = {.args = args, .log = &log};
    fed_error err = {0};
    char hex[2 * FED_SEAL_KEY + 1];
    if (args->make_spare != NULL) {
        return make_spare_key(&h);
    }
    if (args->upstream == NULL || args->upstream_ca == NULL) {
        return command_usage(args,
                             "--upstream URL and --upstream-ca FILE say where the "
                             "coordinator is, and whom to trust for it; missing:",
                             args->upstream == NULL ? "--upstream" : "--upstream-ca");
    }
    fed_status status = fed_log_choose(args->log, "helper", &log, &err);
    if (status == FED_OK) {
        status = open_all(&h, &err);
    }
    if (status == FED_OK) {
        struct sigaction action = {.sa_handler = on_signal};
        running = h.app;
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        fed_hex(h.key, sizeof h.key, hex);
        printf("helper: %s\n", hex);
        fflush(stdout);
        status = work(&h, &err);
    }
    fedserver_helper_close(h.helper);
    fedclient_app_close(h.app);
    fed_wipe(h.secret, sizeof h.secret);
    fed_wipe(&h.identity, sizeof h.identity);
    return status == FED_OK ? COMMAND_OK : command_fail(args, &err);
}

const command command_helper = {
    .name = "helper",
    .run = helper,
    .options = "upstream upstream-ca upstream-token upstream-token-file name least roster log "
               "make-spare",
    .brief = "open the sums of private tasks, for another party",
    .help =
        "usage: fedserver helper --dir DIR --upstream URL --upstream-ca FILE [...]\n"
        "       fedserver helper --dir DIR --make-spare FILE\n"
        "Help a coordinator of another party: open the sum of each round of its private tasks,\n"
        "so that neither of the two reads an update. DIR gets helper.pem, the key that a task\n"
        "names as its helper, and must have no backup: an old one would open a round twice.\n"
        "  --upstream URL             the coordinator, such as https://HOST:8443\n"
        "  --upstream-ca FILE         its ca.pem\n"
        "  --upstream-token TOKEN     of `fedserver token --role helper`, at the first start\n"
        "  --upstream-token-file FILE the same, from a file\n"
        "  --name NAME                what people call this helper\n"
        "  --log FORM                 json, or text (the default)\n"
        "  --least N                  open no sum of fewer devices (default 20)\n"
        "  --roster FILE              only of these devices: a fingerprint a line\n"
        "  --make-spare FILE          make a second key, with which the helper is started again "
        "if\n"
        "                             its disk is lost: FILE, which is kept elsewhere, becomes "
        "the\n"
        "                             helper.key of its new directory. helper.pem names both\n"};
