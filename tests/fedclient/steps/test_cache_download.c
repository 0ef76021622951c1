/* Downloads from a cache: only bytes that the coordinator named are accepted, and a failing cache
 * costs no round. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"
#include "fed_device.h"
#include "fedclient/state/record.h"

enum { PIECES = 3, KEPT = 64, PAUSE_MS = 5 * 60 * 1000 };

typedef enum cache_trouble {
    NONE,
    GONE,      /* status 404 */
    BROKEN,    /* status 502 */
    NOBODY,    /* the cache does not answer: FED_ENET */
    TOO_SLOW,  /* no byte comes: FED_ETIMEOUT */
    TAMPERED,  /* one bit is wrong */
    SWAPPED,   /* the bytes of another piece come */
    SHORT,     /* the end is missing, and Content-Length agrees with the shorter answer */
    LONG,      /* more bytes come than the coordinator has named */
    ELSEWHERE, /* another range comes than was asked for */
    EMPTY,     /* status 200 without a byte */
    DRIPPING,
    /* These are no failures of the cache: */
    MIDWAY,       /* the connection breaks after half of the bytes */
    WHOLE,        /* ranges are ignored: the answer is 200 with all bytes */
    WHOLE_MIDWAY, /* likewise, and the connection breaks after half of the bytes that are missing */
} cache_trouble;

typedef enum address_trouble {
    SOUND,
    CUT_OFF,
    NO_ADDRESS,
    TOO_MANY,
    TOO_LONG,
    TOO_MUCH
} address_trouble;

typedef struct kept_piece {
    char name[FED_SEALED_NAME];
    fed_writer bytes;
} kept_piece;

typedef struct world {
    fed_device device;
    fedclient_transport coordinator, cache;
    kept_piece kept[KEPT];
    size_t count;
    cache_trouble trouble;
    unsigned times; /* `trouble` happens to so many of the cache's next answers */
    uint64_t asked, sent_bytes, named;
    uint64_t stops_at; /* number of the request at which the program ends; 0: none */
    address_trouble addresses;
    size_t limit; /* the transport's limit in the last download */
    char last_url[400];
} world;

static void keep(world *w, const uint8_t *data, size_t len, fed_writer *addresses) {
    kept_piece *k = &w->kept[w->count++];
    fed_address address = {.len = len};
    assert_true(w->count <= KEPT);
    fed_writer_growing(&k->bytes);
    fed_write_bytes(&k->bytes, data, len);
    fed_sha256(data, len, address.key);
    fed_sealed_name(address.key, k->name);
    assert_fed_ok(fed_sealed_crypt(address.key, 0, k->bytes.data, len));
    fed_address_write(addresses, &address);
}

/** Damage the addresses. len: length of all pieces; limit: what the device accepts. */
static void spoil_addresses(address_trouble trouble, size_t len, size_t limit,
                            fed_writer *addresses) {
    if (trouble == CUT_OFF) {
        addresses->len -= 1;
    } else if (trouble == NO_ADDRESS) {
        addresses->len = 0;
    } else if (trouble == TOO_LONG) { /* the lengths' sum overflows to a small number */
        fed_address_write(addresses, &(fed_address){.len = UINT64_MAX});
    }
    if (trouble == TOO_MUCH) { /* all pieces together are one byte too long */
        assert_in_range(limit, len, 1 << 20);
        fed_address_write(addresses, &(fed_address){.len = limit - len + 1});
    }
    for (int k = 0; trouble == TOO_MANY && k < FED_ADDRESSES; k++) {
        fed_address_write(addresses, &(fed_address){.len = 1});
    }
}

static void name_pieces(world *w, fed_writer *answer) {
    fed_writer addresses;
    fed_writer_growing(&addresses);
    size_t done = 0;
    const size_t all = answer->len;
    for (size_t k = 0; k < PIECES; k++) {
        const size_t len = k + 1 < PIECES ? answer->len / PIECES : answer->len - done;
        keep(w, answer->data + done, len, &addresses);
        done += len;
    }
    spoil_addresses(w->addresses, all, w->limit, &addresses);
    answer->len = 0;
    fed_part_write(answer, &(fed_part){.kind = FED_PART_CACHE,
                                       .envelope = addresses.data,
                                       .envelope_len = addresses.len});
    fed_writer_free(&addresses);
    w->named++;
}

static fed_status coordinator_send(void *user, const fedclient_request *request, int *status,
                                   fed_writer *answer, fed_error *err) {
    world *w = user;
    fedclient_transport *fake = &w->device.fake.transport;
    const char *can = strstr(request->url, "can=");
    if (can == NULL || (strtoul(can + 4, NULL, 10) & FED_CAN_URL) == 0) {
        return fake->send(fake->user, request, status, answer, err);
    }
    w->limit = request->answer_limit;
    fedclient_request whole = *request;
    whole.range = NULL;
    fed_status sent = fake->send(fake->user, &whole, status, answer, err);
    if (sent == FED_OK && *status == 200) {
        name_pieces(w, answer);
        request->range->begin = 0;
        request->range->total = answer->len;
        request->range->tag = fed_digest_bytes(answer->data, answer->len);
    }
    return sent;
}

static fed_status coordinator_identify(void *user, const fed_pem *key, const fed_pem *cert,
                                       fed_error *err) {
    world *w = user;
    return w->device.fake.transport.identify(w->device.fake.transport.user, key, cert, err);
}

static const kept_piece *find(const world *w, const char *url) {
    const char *name = strrchr(url, '/') + 1;
    for (size_t k = w->count; k > 0; k--) {
        if (strcmp(w->kept[k - 1].name, name) == 0) {
            return &w->kept[k - 1];
        }
    }
    fail_msg("the device asked the cache for an unknown piece: %s", url);
    return NULL;
}

static void spoil(cache_trouble trouble, fedclient_range *range, int *status, fed_writer *answer) {
    switch (trouble) {
    case TAMPERED:
        answer->data[answer->len / 2] ^= 4;
        break;
    case SWAPPED:
        memset(answer->data, 0x5a, answer->len);
        break;
    case SHORT:
        answer->len -= 1;
        break;
    case LONG:
        fed_write_u8(answer, 0);
        break;
    case ELSEWHERE:
        range->begin += 1;
        *status = 206;
        break;
    case EMPTY:
        answer->len = 0;
        break;
    case DRIPPING:
        answer->len = 1;
        break;
    case MIDWAY:
        answer->len = (answer->len + 1) / 2;
        break;
    case WHOLE_MIDWAY:
        answer->len = (size_t)range->first + (answer->len - (size_t)range->first + 1) / 2;
        break;
    default:
        assert_true(trouble == NONE || trouble == WHOLE);
        break;
    }
}

static void give(const world *w, const fedclient_request *request, cache_trouble trouble,
                 int *status, fed_writer *answer) {
    const fed_writer *bytes = &find(w, request->url)->bytes;
    fedclient_range *range = request->range;
    const bool whole = trouble == WHOLE || trouble == WHOLE_MIDWAY;
    const bool part = !whole && (range->first != 0 || range->most != 0);
    const size_t first = part ? (size_t)range->first : 0;
    size_t len = bytes->len - first;
    len = part && range->most != 0 && range->most < len ? (size_t)range->most : len;
    fed_write_bytes(answer, bytes->data + first, len);
    range->begin = first;
    range->total = bytes->len;
    *status = part ? 206 : 200;
    spoil(trouble, range, status, answer);
}

static fed_status cache_send(void *user, const fedclient_request *request, int *status,
                             fed_writer *answer, fed_error *err) {
    world *w = user;
    const cache_trouble trouble = w->times > 0 ? w->trouble : NONE;
    w->times -= w->times > 0 ? 1 : 0;
    w->asked++;
    snprintf(w->last_url, sizeof w->last_url, "%s", request->url);
    assert_string_equal(request->method, "GET");
    assert_true(request->bearer == NULL && request->body == NULL && request->software == NULL &&
                request->device_name == NULL && request->computes_on == NULL &&
                request->classes == NULL);
    if (trouble == GONE || trouble == BROKEN) {
        *status = trouble == GONE ? 404 : 502;
        fed_write_printf(answer, "<html>");
        return FED_OK;
    }
    if (w->asked == w->stops_at) {
        return fed_fail(err, FED_ECANCELED, "the program ends");
    }
    if (trouble == NOBODY || trouble == TOO_SLOW) {
        return fed_fail(err, trouble == NOBODY ? FED_ENET : FED_ETIMEOUT,
                        "the cache does not answer (planned by the test)");
    }
    give(w, request, trouble, status, answer);
    w->sent_bytes += answer->len;
    if (answer->len > request->answer_limit) {
        return fed_fail(err, FED_ERANGE, "the cache's answer exceeds the limit of the request");
    }
    return trouble == MIDWAY || trouble == WHOLE_MIDWAY || trouble == DRIPPING
               ? fed_fail(err, FED_ENET, "the cache's connection broke")
               : FED_OK;
}

static int64_t now_ms;

static int64_t read_clock(void *user) {
    (void)user;
    return now_ms;
}

static int setup(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    fed_device *device = &w->device;
    fed_device_open(device, "3lc:s=1", 20);
    snprintf(device->fake.task.downloads, sizeof device->fake.task.downloads,
             "https://cache.example/fed/");
    w->coordinator = (fedclient_transport){
        .user = w, .send = coordinator_send, .identify = coordinator_identify};
    w->cache = (fedclient_transport){.user = w, .send = cache_send};
    device->options.transport = &w->coordinator;
    device->options.downloads = &w->cache;
    now_ms = 1000;
    device->flash.platform.monotonic_ms = read_clock;
    fed_device_restart(device);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    fed_device_close(&w->device);
    for (size_t k = 0; k < w->count; k++) {
        fed_writer_free(&w->kept[k].bytes);
    }
    free(w);
    return 0;
}

static bool stored(world *w) {
    fedclient_download_head head;
    fedclient_record record;
    bool found = fedclient_download_load(&w->device.flash.inner, 0, &head, &record, NULL) == FED_OK;
    fedclient_record_free(&record);
    return found;
}

static void assert_no_byte_came_twice(const world *w) {
    uint64_t sealed = 0;
    for (size_t k = 0; k < w->count; k++) {
        sealed += w->kept[k].bytes.len;
    }
    assert_int_equal(w->count, PIECES);
    assert_int_equal(w->sent_bytes, sealed);
}

static void use_small_pieces(world *w) {
    w->device.options.piece_bytes = 4;
    fed_device_restart(&w->device);
}

FED_TEST_WITH(snapshots_and_deltas_come_from_the_cache, world *w) {
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
        assert_int_equal(w->named, round + 1);
        assert_int_equal(w->asked, PIECES * (round + 1));
    }
    assert_int_equal(w->device.fake.downloads, 3);
    assert_int_equal(strncmp(w->last_url, "https://cache.example/fed/", 26), 0);
    assert_int_equal(strlen(w->last_url), 26 + FED_SEALED_NAME - 1);
    fed_device_check(&w->device, 0);
}

FED_TEST(whatever_the_cache_does_the_round_goes_on) {
    for (cache_trouble trouble = GONE; trouble < MIDWAY; trouble++) {
        world *w;
        setup((void **)&w);
        w->trouble = trouble;
        w->times = 100;
        const fedclient_event event = fed_device_event(&w->device);
        if (event.outcome != FEDCLIENT_COUNTED || w->device.fake.downloads != 2) {
            fail_msg("cache_trouble %d: outcome %d after %d downloads", trouble, event.outcome,
                     (int)w->device.fake.downloads);
        }
        assert_false(stored(w));
        fed_device_check(&w->device, 0);
        teardown((void **)&w);
    }
}

FED_TEST_WITH(after_a_failure_the_cache_is_left_alone_for_a_while, world *w) {
    w->trouble = BROKEN;
    w->times = 1;
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    now_ms += PAUSE_MS - 1;
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->asked, 1);
    assert_int_equal(w->named, 1);
    now_ms += 1;
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->asked, 1 + PIECES);
    assert_int_equal(w->named, 2);
}

FED_TEST_WITH(a_line_that_breaks_but_carries_bytes_is_no_failure, world *w) {
    w->trouble = MIDWAY;
    w->times = 6;
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->device.fake.downloads, 1);
    assert_true(w->asked > PIECES);
    assert_no_byte_came_twice(w);
    fed_device_check(&w->device, 0);
}

FED_TEST_WITH(a_cache_without_ranges_is_good_enough, world *w) {
    use_small_pieces(w);
    w->trouble = WHOLE;
    w->times = 100;
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->device.fake.downloads, 1);
    fed_device_check(&w->device, 0);
}

FED_TEST_WITH(a_whole_answer_that_breaks_carries_bytes_too, world *w) {
    w->trouble = WHOLE_MIDWAY;
    w->times = 6;
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->device.fake.downloads, 1);
    assert_true(w->asked > PIECES);
    fed_device_check(&w->device, 0);
}

static void reboot_midway(world *w) {
    w->stops_at = w->asked + 3;
    fed_device_fail(&w->device, FED_ECANCELED);
    assert_true(stored(w));
    fed_device_restart(&w->device);
}

FED_TEST_WITH(a_download_goes_on_after_a_reboot, world *w) {
    use_small_pieces(w);
    for (int k = 0; k < 3; k++) {
        reboot_midway(w);
    }
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_no_byte_came_twice(w);
    assert_false(stored(w));
    fed_device_check(&w->device, 0);
}

FED_TEST_WITH(what_a_cache_has_sent_is_of_no_use_to_the_coordinator, world *w) {
    use_small_pieces(w);
    reboot_midway(w);
    w->trouble = NOBODY;
    w->times = 1;
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_false(stored(w));
    fed_device_check(&w->device, 0);
}

FED_TEST_WITH(a_program_that_lost_its_line_to_caches_begins_anew, world *w) {
    use_small_pieces(w);
    reboot_midway(w);
    w->device.options.downloads = NULL;
    fed_device_restart(&w->device);
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_false(stored(w));
    fed_device_check(&w->device, 0);
}

FED_TEST(addresses_that_make_no_sense_are_no_cache) {
    for (address_trouble trouble = CUT_OFF; trouble <= TOO_MUCH; trouble++) {
        world *w;
        setup((void **)&w);
        w->addresses = trouble;
        assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
        assert_int_equal(w->asked, 0);
        assert_int_equal(w->device.fake.downloads, 2);
        teardown((void **)&w);
    }
}

FED_TEST_WITH(a_device_without_a_line_to_caches_says_so, world *w) {
    w->device.options.downloads = NULL;
    fed_device_restart(&w->device);
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->named, 0);
}

FED_TEST_WITH(a_task_without_a_cache_is_as_ever, world *w) {
    w->device.fake.task.downloads[0] = '\0';
    assert_int_equal(fed_device_event(&w->device).outcome, FEDCLIENT_COUNTED);
    assert_int_equal(w->named, 0);
}

int main(void) {
    return fed_cases_run_each(setup, teardown);
}
