/* Link "tcp": connect the ranks. Higher ranks open the connections to lower ones ("call" them). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fedclient/datacenter/links/tcp/tcp_link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fed/clock.h"
#include "fed/crypto.h"
#include "fedclient/datacenter/links/tcp/tcp_socket.h"

/* A guest is a connection to this rank whose peer has not proved its rank yet. The number of guests
 * ("seats") and their time are limited. If all seats are taken, the oldest guest is closed. So a
 * flood of foreign connections cannot use up this rank's sockets. */
enum {
    PATIENCE_MS = 30000,
    ENTRY_MS = 2000,
    ENTRIES_MORE = 64, /* seats beyond one for each rank */
    ACCEPTS = 32,
    TRY_MS = 3000, /* time for one try, from connecting to the record READY */
    PAUSE_MS = 5,  /* after the first failed call; doubles each time, up to PAUSE_MAX_MS */
    PAUSE_MAX_MS = 200,
    LOOK_MS = 20
};

typedef struct guest {
    int fd; /* -1: a free seat */
    int64_t since;
    size_t got, want;
    bool challenged;
    uint8_t challenge[TCP_NONCE];
    uint8_t in[TCP_TICKET];
} guest;

typedef enum call_state {
    CALL_PAUSES,
    CALL_CONNECTS,
    CALL_CHALLENGE,
    CALL_WELCOME,
    CALL_FLOATS,
    CALL_READY,
    CALL_DONE
} call_state;

typedef struct meeting {
    call_state state; /* only for lower ranks, which this rank calls */
    int64_t at;       /* time at which the pause or the try ends */
    int pause;
    size_t got;
    uint8_t in[TCP_WELCOME];
    uint8_t challenge[TCP_NONCE], hello[TCP_HELLO];
    uint8_t ticket[TCP_TICKET];

    fed_status why;
    char reason[160];
} meeting;

typedef struct room {
    tcp_link *link;
    const feddc_place *place;
    tcp_hello me;
    int listener;
    meeting *with;
    guest *seat;
    size_t seats;
    struct pollfd *door;
    size_t doors;
    fed_status broken; /* a permanent error, for which trying again is no use */
    fed_error error;
} room;

static int *fd_of(room *r, uint32_t rank, unsigned stream) {
    return &r->link->peer[rank].stream[stream].fd;
}

static void remember(meeting *m, fed_status why, const char *reason) {
    m->why = why;
    const size_t len = strlen(reason) < sizeof m->reason ? strlen(reason) : sizeof m->reason - 1;
    memcpy(m->reason, reason, len);
    m->reason[len] = '\0';
}

static guest *free_entry(room *r) {
    guest *oldest = &r->seat[0];
    for (size_t k = 0; k < r->seats; k++) {
        if (r->seat[k].fd < 0) {
            return &r->seat[k];
        }
        if (r->seat[k].since < oldest->since) {
            oldest = &r->seat[k];
        }
    }
    feddc_tcp_close_fd(&oldest->fd);
    return oldest;
}

static void let_in(room *r) {
    for (int k = 0; k < ACCEPTS; k++) {
        int fd = feddc_tcp_accept(r->listener);
        if (fd < 0) {
            return;
        }
        /* the socket stays unmarked until its peer has sent a valid ticket */
        if (r->place->mark && !feddc_tcp_mark(fd, false)) {
            feddc_tcp_close_fd(&fd);
            continue;
        }
        guest *g = free_entry(r);
        *g = (guest){.fd = fd, .since = fed_clock_monotonic_ms(), .want = TCP_KNOCK};
    }
}

static void answer_hello(room *r, guest *g, const tcp_hello *hello) {
    tcp_verdict verdict = feddc_tcp_judge(&r->me, hello);
    if (verdict == TCP_WELCOME_HERE && *fd_of(r, hello->from, TCP_HEADS_STREAM) >= 0) {
        verdict = TCP_RANK_TAKEN;
    }
    tcp_hello welcome = r->me;
    uint8_t bytes[TCP_WELCOME];
    welcome.to = verdict;
    feddc_tcp_welcome_write(&welcome, r->place->secret, g->challenge, g->in, bytes);
    const bool sent = feddc_tcp_write(g->fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
    if (verdict == TCP_WELCOME_HERE && sent) {
        feddc_tcp_ticket(r->place->secret, g->challenge, g->in, r->with[hello->from].ticket);
        *fd_of(r, hello->from, TCP_HEADS_STREAM) = g->fd;
        g->fd = -1;
        return;
    }
    if (hello->from < r->me.size && hello->from > r->me.from && verdict != TCP_RANK_TAKEN) {
        remember(&r->with[hello->from], FED_EAUTH, feddc_tcp_verdict_text(verdict));
    }
    feddc_tcp_close_fd(&g->fd);
}

static void take_ticket(room *r, guest *g) {
    for (uint32_t k = r->me.from + 1; k < r->me.size; k++) {
        int *heads = fd_of(r, k, TCP_HEADS_STREAM), *floats = fd_of(r, k, TCP_FLOATS_STREAM);
        if (*heads >= 0 && *floats < 0 &&
            fed_secret_compare(g->in, r->with[k].ticket, TCP_TICKET) == 0) {
            const tcp_record ready = {.type = TCP_READY};
            uint8_t bytes[TCP_RECORD];
            feddc_tcp_record_write(&ready, bytes);
            if ((!r->place->mark || feddc_tcp_mark(g->fd, true)) &&
                feddc_tcp_write(*heads, bytes, sizeof bytes) == (ssize_t)sizeof bytes) {
                *floats = g->fd;
                g->fd = -1;
                return;
            }
        }
    }
    feddc_tcp_close_fd(&g->fd);
}

static void challenge(guest *g) {
    if (memcmp(g->in, feddc_tcp_knock, TCP_KNOCK) == 0 &&
        fed_random(g->challenge, TCP_NONCE) == FED_OK &&
        feddc_tcp_write(g->fd, g->challenge, TCP_NONCE) == TCP_NONCE) {
        g->challenged = true;
        g->got = 0;
        g->want = TCP_HELLO;
    } else {
        feddc_tcp_close_fd(&g->fd);
    }
}

static void hear(room *r, guest *g) {
    tcp_hello hello;
    if (g->challenged) {
        if (feddc_tcp_hello_read(g->in, r->place->secret, g->challenge, &hello) == FED_OK) {
            answer_hello(r, g, &hello);
            return;
        }
        /* the rank is only claimed: use it only to explain why that rank did not come */
        const uint32_t claimed = (uint32_t)g->in[0] | (uint32_t)g->in[1] << 8;
        if (claimed > r->me.from && claimed < r->me.size) {
            remember(&r->with[claimed], FED_EAUTH,
                     "a process that claims to be this rank does not know the worker group's "
                     "secret: give all ranks the same");
        }
        feddc_tcp_close_fd(&g->fd);
    } else if (g->want == TCP_TICKET) {
        take_ticket(r, g);
    } else if (feddc_tcp_is_ticket(g->in)) {
        g->want = TCP_TICKET;
    } else {
        challenge(g);
    }
}

static void listen_to(room *r, guest *g) {
    while (g->fd >= 0) {
        const ssize_t n = feddc_tcp_read(g->fd, g->in + g->got, g->want - g->got);
        if (n < 0) {
            feddc_tcp_close_fd(&g->fd);
        }
        if (n <= 0) {
            return;
        }
        g->got += (size_t)n;
        if (g->got == g->want) {
            hear(r, g);
        }
    }
}

/* On this connection a caller sends nothing before READY. Bytes or an end mean that the caller has
 * failed. */
static void lose(room *r, uint32_t rank) {
    uint8_t byte;
    if (feddc_tcp_read(*fd_of(r, rank, TCP_HEADS_STREAM), &byte, 1) != 0) {
        feddc_tcp_close_fd(fd_of(r, rank, TCP_HEADS_STREAM));
    }
}

static void hang_up(room *r, uint32_t rank, fed_status why, const char *reason) {
    meeting *m = &r->with[rank];
    feddc_tcp_close_fd(fd_of(r, rank, TCP_HEADS_STREAM));
    feddc_tcp_close_fd(fd_of(r, rank, TCP_FLOATS_STREAM));
    if (why != FED_ENET || m->why == FED_OK || m->why == FED_ENET) {
        remember(m, why, reason);
    }
    m->state = CALL_PAUSES;
    m->pause = m->pause == 0 ? PAUSE_MS : 2 * m->pause;
    m->pause = m->pause > PAUSE_MAX_MS ? PAUSE_MAX_MS : m->pause;
    m->at = fed_clock_monotonic_ms() + m->pause;
}

static void call(room *r, uint32_t rank, unsigned stream) {
    meeting *m = &r->with[rank];
    fed_error err = {0};
    const fed_status status =
        feddc_tcp_call(r->place->address[rank], r->place->congestion,
                       r->place->mark && stream == TCP_FLOATS_STREAM, fd_of(r, rank, stream), &err);
    if (status == FED_EINVAL || status == FED_EIO) {
        r->broken = status;
        r->error = err;
    } else if (status != FED_OK) {
        hang_up(r, rank, FED_ENET, err.text);
    } else {
        m->got = 0;
        m->state = stream == TCP_HEADS_STREAM ? CALL_CONNECTS : CALL_FLOATS;
    }
}

static void connected(room *r, uint32_t rank) {
    meeting *m = &r->with[rank];
    const bool heads = m->state == CALL_CONNECTS;
    const int fd = *fd_of(r, rank, heads ? TCP_HEADS_STREAM : TCP_FLOATS_STREAM);
    const int why = feddc_tcp_called(fd);
    if (why != 0) {
        hang_up(r, rank, FED_ENET, strerror(why));
        return;
    }
    const uint8_t *bytes = heads ? feddc_tcp_knock : m->ticket;
    const size_t len = heads ? TCP_KNOCK : TCP_TICKET;
    if (feddc_tcp_write(fd, bytes, len) != (ssize_t)len) {
        hang_up(r, rank, FED_ENET, "the connection broke");
    } else {
        m->state = heads ? CALL_CHALLENGE : CALL_READY;
    }
}

static void say_hello(room *r, uint32_t rank) {
    meeting *m = &r->with[rank];
    tcp_hello hello = r->me;
    hello.to = rank;
    memcpy(m->challenge, m->in, TCP_NONCE);
    if (fed_random(hello.nonce, TCP_NONCE) != FED_OK) {
        r->broken = fed_fail(&r->error, FED_EIO, "the system has no random bytes");
        return;
    }
    feddc_tcp_hello_write(&hello, r->place->secret, m->challenge, m->hello);
    if (feddc_tcp_write(*fd_of(r, rank, TCP_HEADS_STREAM), m->hello, TCP_HELLO) != TCP_HELLO) {
        hang_up(r, rank, FED_ENET, "the connection broke");
        return;
    }
    m->state = CALL_WELCOME;
    m->got = 0;
}

static void read_welcome(room *r, uint32_t rank) {
    meeting *m = &r->with[rank];
    tcp_hello who;
    if (feddc_tcp_welcome_read(m->in, r->place->secret, m->challenge, m->hello, &who) != FED_OK) {
        hang_up(r, rank, FED_EAUTH,
                "the process at this address does not know the worker group's secret: give all "
                "ranks the same");
    } else if (who.to != TCP_WELCOME_HERE) {
        hang_up(r, rank, FED_EAUTH, feddc_tcp_verdict_text(who.to));
    } else if (who.from != rank || who.size != r->me.size || who.generation != r->me.generation ||
               who.order != r->me.order) {
        hang_up(r, rank, FED_EAUTH, feddc_tcp_verdict_text(TCP_WRONG_RANK));
    } else {
        feddc_tcp_ticket(r->place->secret, m->challenge, m->hello, m->ticket);
        call(r, rank, TCP_FLOATS_STREAM);
    }
}

static void read_ready(room *r, uint32_t rank) {
    meeting *m = &r->with[rank];
    tcp_record record;
    if (feddc_tcp_record_read(m->in, &record) != FED_OK || record.type != TCP_READY) {
        hang_up(r, rank, FED_ENET, "it sent another record than READY");
    } else {
        m->state = CALL_DONE;
    }
}

static void hear_called(room *r, uint32_t rank) {
    meeting *m = &r->with[rank];
    const size_t want = m->state == CALL_CHALLENGE ? (size_t)TCP_NONCE
                        : m->state == CALL_WELCOME ? (size_t)TCP_WELCOME
                                                   : (size_t)TCP_RECORD;
    const ssize_t n =
        feddc_tcp_read(*fd_of(r, rank, TCP_HEADS_STREAM), m->in + m->got, want - m->got);
    if (n < 0) {
        hang_up(r, rank, m->state == CALL_WELCOME ? FED_EAUTH : FED_ENET,
                m->state == CALL_WELCOME ? "it closed the connection after this rank's proof: give "
                                           "both ranks the same secret and worker group"
                                         : "it closed the connection");
        return;
    }
    m->got += n > 0 ? (size_t)n : 0;
    if (m->got < want) {
        return;
    }
    if (m->state == CALL_CHALLENGE) {
        say_hello(r, rank);
    } else if (m->state == CALL_WELCOME) {
        read_welcome(r, rank);
    } else {
        read_ready(r, rank);
    }
}

static void watch_for(room *r, int fd, short events) {
    r->door[r->doors++] = (struct pollfd){.fd = fd, .events = events};
}

static void watch_rank(room *r, uint32_t rank) {
    int heads = *fd_of(r, rank, TCP_HEADS_STREAM), floats = *fd_of(r, rank, TCP_FLOATS_STREAM);
    const call_state state = r->with[rank].state;
    if (rank > r->me.from) {
        watch_for(r, floats < 0 ? heads : -1, POLLIN);
        watch_for(r, -1, 0);
    } else {
        const bool reads = state == CALL_CHALLENGE || state == CALL_WELCOME || state == CALL_READY;
        watch_for(r, reads || state == CALL_CONNECTS ? heads : -1, reads ? POLLIN : POLLOUT);
        watch_for(r, state == CALL_FLOATS ? floats : -1, POLLOUT);
    }
}

static void serve_rank(room *r, uint32_t rank, bool heads, bool floats) {
    const call_state state = r->with[rank].state;
    if (rank > r->me.from) {
        if (heads) {
            lose(r, rank);
        }
    } else if (state == CALL_CONNECTS ? heads : floats) {
        connected(r, rank);
    } else if (heads) {
        hear_called(r, rank);
    }
}

static void keep_time(room *r, int64_t now) {
    for (size_t k = 0; k < r->seats; k++) {
        if (r->seat[k].fd >= 0 && now - r->seat[k].since >= ENTRY_MS) {
            feddc_tcp_close_fd(&r->seat[k].fd);
        }
    }
    for (uint32_t k = 0; k < r->me.from; k++) {
        meeting *m = &r->with[k];
        if (m->state == CALL_DONE || now < m->at) {
            continue;
        }
        if (m->state != CALL_PAUSES) {
            hang_up(r, k, FED_ENET, "it does not answer");
        } else {
            m->at = now + TRY_MS;
            call(r, k, TCP_HEADS_STREAM);
        }
    }
}

static void turn(room *r, int64_t left) {
    r->doors = 0;
    watch_for(r, r->listener, POLLIN);
    for (size_t k = 0; k < r->seats; k++) {
        watch_for(r, r->seat[k].fd, POLLIN);
    }
    for (uint32_t k = 0; k < r->me.size; k++) {
        watch_rank(r, k);
    }
    if (poll(r->door, (nfds_t)r->doors, left < LOOK_MS ? (int)left : LOOK_MS) <= 0) {
        return;
    }
    const struct pollfd *door = r->door + 1;
    for (size_t k = 0; k < r->seats; k++, door++) {
        if (door->revents != 0) {
            listen_to(r, &r->seat[k]);
        }
    }
    for (uint32_t k = 0; k < r->me.size; k++, door += 2) {
        if (door[0].revents != 0 || door[1].revents != 0) {
            serve_rank(r, k, door[0].revents != 0, door[1].revents != 0);
        }
    }
    if (r->door[0].revents != 0) {
        let_in(r);
    }
}

/* Return the lowest rank that is not connected, or me.size if all are. */
static uint32_t missing(room *r) {
    uint32_t k = 0;
    while (k < r->me.size &&
           (k == r->me.from || (k < r->me.from ? r->with[k].state == CALL_DONE
                                               : *fd_of(r, k, TCP_FLOATS_STREAM) >= 0))) {
        k++;
    }
    return k;
}

static fed_status meet_all(room *r, fed_error *err) {
    const uint32_t patience = r->place->patience_ms != 0 ? r->place->patience_ms : PATIENCE_MS;
    const int64_t start = fed_clock_monotonic_ms();
    uint32_t absent = missing(r);
    for (int64_t now = start; absent < r->me.size && now < start + patience;
         now = fed_clock_monotonic_ms()) {
        keep_time(r, now);
        if (r->broken != FED_OK) {
            return fed_fail(err, r->broken, "%s", r->error.text);
        }
        turn(r, start + patience - now);
        absent = missing(r);
    }
    if (absent == r->me.size) {
        return FED_OK;
    }
    const meeting *m = &r->with[absent];
    return fed_fail(err, m->why == FED_EAUTH ? FED_EAUTH : FED_EBUSY,
                    "rank %u at %s did not come within %g s%s%s", absent, r->place->address[absent],
                    patience / 1000.0, m->why != FED_OK ? ": " : "", m->reason);
}

static fed_status open_door(room *r, fed_error *err) {
    FED_TRY(r->place->listener >= 0 ? feddc_tcp_prepare(r->listener, r->place->congestion, err)
                                    : feddc_tcp_listen(r->place->address[r->me.from],
                                                       r->place->congestion, &r->listener, err));
    if (r->place->mark && !feddc_tcp_mark(r->listener, true)) {
        return fed_fail(err, FED_EIO, "the listening socket can't be marked for NICs: %s",
                        strerror(errno));
    }
    return FED_OK;
}

static bool furnish(room *r) {
    r->seats = r->me.size + ENTRIES_MORE;
    r->with = calloc(r->me.size, sizeof *r->with);
    r->seat = calloc(r->seats, sizeof *r->seat);
    r->door = calloc(1 + r->seats + 2 * (size_t)r->me.size, sizeof *r->door);
    for (size_t k = 0; r->seat != NULL && k < r->seats; k++) {
        r->seat[k].fd = -1;
    }
    return r->with != NULL && r->seat != NULL && r->door != NULL;
}

static void clear(room *r) {
    for (size_t k = 0; r->seat != NULL && k < r->seats; k++) {
        feddc_tcp_close_fd(&r->seat[k].fd);
    }
    feddc_tcp_close_fd(&r->listener);
    free(r->with);
    free(r->seat);
    free(r->door);
}

fed_status feddc_tcp_meet(tcp_link *link, const feddc_place *place, fed_error *err) {
    room r = {.link = link, .place = place, .listener = place->listener};
    r.me = (tcp_hello){.from = place->rank,
                       .size = place->size,
                       .generation = place->generation,
                       .order = feddc_tcp_order()};
    fed_status status = FED_OK;
    if (place->size > 1 && !furnish(&r)) {
        status = FED_ENOMEM;
        (void)fed_fail(err, status, "out of memory to connect with %u ranks", place->size);
    } else if (place->size > 1) {
        status = open_door(&r, err);
        if (status == FED_OK) {
            status = meet_all(&r, err);
        }
    }
    clear(&r);
    return status;
}
