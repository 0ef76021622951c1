/* Updates that a coordinator refuses stay with the device: real clients, which reach the
 * coordinator without a network. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fed/rng.h"
#include "fed_device.h"
#include "fed_inproc.h"
#include "fedcodec/envelope.h"
#include "fedserver/rounds/intake.h"

enum { PARAMETERS = 330 };

typedef struct member {
    coordinator *c;
    fedclient *client;
    fedclient_platform platform;
    fed_inproc line;
    const fed_layout *layout;
    int64_t takes_ms, piece_takes_ms; /* durations of a training, and of a piece's transfer */
    uint8_t message[16384];
    uint32_t pieces;
    void (*meanwhile)(struct member *member);
    struct member *others;
    float trained[PARAMETERS], counted[PARAMETERS];
    uint32_t calls, refused;
    char word[32];
} member;

static void note_counted(member *m, const uint8_t *message, size_t len) {
    fedserver_update update;
    fed_error err = {0};
    assert_fed_ok(fedserver_intake_read(message, len, &update, NULL));
    assert_fed_ok_err(fedcodec_envelope_axpy(update.envelope, update.envelope_len, m->layout, 1,
                                             m->counted, &err));
}

static size_t read_piece(const uint8_t *body, size_t len, fed_piece *head) {
    fed_reader r;
    fed_reader_init(&r, body, len);
    assert_fed_ok(fed_piece_read(&r, head));
    return r.pos;
}

/* Let a piece travel for a while, so that the coordinator's clock advances. */
static void carry_piece(void *user, const char *path, const uint8_t *body, size_t len) {
    member *m = user;
    fed_piece head;
    if (strcmp(path, "/v1/piece") != 0) {
        return;
    }
    const size_t at = read_piece(body, len, &head);
    if (len > at) {
        memcpy(m->message + head.offset, body + at, len - at);
        m->pieces++;
        coordinator_wait(m->c, m->piece_takes_ms);
    }
}

static void note_answer(void *user, const char *path, const uint8_t *body, size_t len, int status,
                        const fed_writer *reply) {
    member *m = user;
    const bool piece = strcmp(path, "/v1/piece") == 0;
    if (!piece && strcmp(path, "/v1/update") != 0) {
        return;
    }
    if (status == 200) {
        fed_piece head = {.total = len};
        (void)(piece ? read_piece(body, len, &head) : 0);
        note_counted(m, piece ? m->message : body, (size_t)head.total);
    } else if (status != 202) {
        m->refused++;
        (void)sscanf((const char *)reply->data, "{\"error\":\"%31[a-z_]\"", m->word);
    }
}

static fed_status member_train(void *user, fedclient_round *round, fed_error *err) {
    member *m = user;
    fed_rng rng;
    (void)err;
    fed_rng_init(&rng, 5, m->line.fingerprint[0], m->calls++);
    for (int i = 0; i < PARAMETERS; i++) {
        float x = ((float)fed_rng_below(&rng, 9) - 4) / 1024;
        m->trained[i] += x;
        round->values[i] += x;
    }
    round->samples = 3;
    round->loss = 0.5f;
    m->c->now_ms += m->takes_ms;
    if (m->meanwhile != NULL) {
        m->meanwhile(m);
    }
    return FED_OK;
}

static void member_open(member *m, coordinator *c) {
    fed_error err = {0};
    char token[FEDSERVER_TOKEN];
    *m = (member){.c = c, .layout = &fedserver_rounds_front(&c->server->rounds)->arch.layout};
    fed_inproc_open(&m->line, c);
    m->line.before = carry_piece;
    m->line.after = note_answer;
    m->line.user = m;
    assert_fed_ok_err(fedclient_platform_memory_open(&m->platform, &err));
    const fedclient_options options = {.server = "https://here:8443",
                                       .platform = &m->platform,
                                       .transport = &m->line.transport,
                                       .train = member_train,
                                       .piece_bytes = 250,
                                       .user = m};
    coordinator_commit(c);
    assert_fed_ok_err(fedserver_token_new(c->server, c->now_ms, 3600, token, &err));
    assert_fed_ok_err(fedclient_open(&options, &m->client, &err));
    assert_fed_ok_err(fedclient_enrol(m->client, token, &err));
}

static fedclient_event member_step(member *m) {
    fed_error err = {0};
    fedclient_event event;
    assert_fed_ok_err(fedclient_step(m->client, &event, &err));
    if (event.outcome == FEDCLIENT_RETRY) {
        fail_msg("the client has to try again: %s", err.text);
    }
    return event;
}

/* D4 in docs/durability.md: everything trained is counted, or is still in the device's residual. */
static void member_close(member *m) {
    float *owed = fed_owed(&m->platform, m->layout);
    for (int i = 0; i < PARAMETERS; i++) {
        assert_true(fabsf(m->trained[i] - m->counted[i] - owed[i]) < 1e-5f);
    }
    free(owed);
    fedclient_close(m->client);
    fedclient_platform_memory_close(&m->platform);
}

static void others_go_on(member *m) {
    for (int k = 0; k < 9 && m->calls == 2; k++) {
        assert_int_equal(member_step(&m->others[k % 3]).outcome, FEDCLIENT_COUNTED);
    }
}

static const char endless[] = "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"sbc:p=0.1\","
                              " \"codec_down\": \"3lc:s=1\", \"small_tensor\": 0, \"rounds\": 99,"
                              " \"cohort\": 4, \"goal\": 3, \"deadline_s\": 10, \"staleness\": 2}";

static void what_comes_too_late_or_too_old_stays_with_its_client(void **state) {
    coordinator *c = *state;
    member others[3], slow;
    coordinator_task(c, endless);
    for (int k = 0; k < 3; k++) {
        member_open(&others[k], c);
    }
    member_open(&slow, c);
    slow.others = others;
    slow.meanwhile = others_go_on;
    assert_int_equal(member_step(&slow).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(member_step(&slow).outcome, FEDCLIENT_REFUSED);
    assert_string_equal(slow.word, "too_stale");
    slow.takes_ms = 10001;
    assert_int_equal(member_step(&slow).outcome, FEDCLIENT_REFUSED);
    assert_string_equal(slow.word, "lease_expired");
    slow.takes_ms = 0;
    assert_int_equal(member_step(&slow).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(slow.calls, 4);
    assert_int_equal(slow.refused, 2);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(others[k].refused, 0);
        member_close(&others[k]);
    }
    member_close(&slow);
}

static void others_finish(member *m) {
    for (int k = 0; k < 2; k++) {
        assert_int_equal(member_step(&m->others[k]).outcome, FEDCLIENT_COUNTED);
    }
}

static void a_surplus_report_of_a_synchronous_round_stays_with_its_client(void **state) {
    coordinator *c = *state;
    static const char task[] = "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"sbc:p=0.1\","
                               " \"codec_down\": \"3lc:s=1\", \"small_tensor\": 0, \"rounds\": 9,"
                               " \"goal\": 2, \"deadline_s\": 10}";
    member others[2], slow;
    coordinator_task(c, task);
    assert_int_equal(fedserver_rounds_front(&c->server->rounds)->task.rules.cohort, 3);
    member_open(&others[0], c);
    member_open(&others[1], c);
    member_open(&slow, c);
    slow.others = others;
    slow.meanwhile = others_finish;
    assert_int_equal(member_step(&slow).outcome, FEDCLIENT_REFUSED);
    assert_string_equal(slow.word, "round_closed");
    slow.meanwhile = NULL;
    assert_int_equal(member_step(&slow).outcome, FEDCLIENT_COUNTED);
    member_close(&others[0]);
    member_close(&others[1]);
    member_close(&slow);
}

/* Even an upload that makes progress must end at the round's deadline, because others wait for
 * the round. */
static void of_an_upload_whose_deadline_is_over_no_more_is_sent(void **state) {
    coordinator *c = *state;
    for (int staleness = 0; staleness <= 2; staleness += 2) {
        char task[300];
        member slow;
        snprintf(task, sizeof task,
                 "{\"model\": \"input 32 | dense 10\", \"codec_up\": \"float32\","
                 " \"rounds\": 1, \"cohort\": 1, \"goal\": 1, \"deadline_s\": 10,"
                 " \"staleness\": %d}",
                 staleness);
        coordinator_task(c, task);
        member_open(&slow, c);
        slow.piece_takes_ms = 3000;
        assert_int_equal(member_step(&slow).outcome, FEDCLIENT_REFUSED);
        assert_string_equal(slow.word, "lease_expired");
        assert_int_equal(slow.pieces, 4);
        slow.piece_takes_ms = 1000;
        fedclient_event event = member_step(&slow);
        if (event.outcome == FEDCLIENT_WAITED) {
            coordinator_wait(c, event.wait_ms);
            event = member_step(&slow);
        }
        assert_int_equal(event.outcome, FEDCLIENT_COUNTED);
        assert_int_equal(slow.pieces, 10);
        assert_int_equal(slow.refused, 1);
        member_close(&slow);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_COORDINATOR(what_comes_too_late_or_too_old_stays_with_its_client),
        WITH_COORDINATOR(of_an_upload_whose_deadline_is_over_no_more_is_sent),
        WITH_COORDINATOR(a_surplus_report_of_a_synchronous_round_stays_with_its_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
