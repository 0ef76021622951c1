/* Contract of every link of links.def. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_cases.h"

#include <unistd.h>

#include "faulty_link.h"
#include "link_case.h"
#include "link_group.h"

static const link_case *playing;

static void play(void *entry) {
    link_case_run(playing, entry);
}

static void check(const feddc_link_vtable *link, const link_case *one, uint32_t size) {
    link_group group;
    link_entry entry[LINK_GROUP_RANKS];
    link_group_open(&group, link, size);
    for (uint32_t r = 0; r < size; r++) {
        entry[r] = (link_entry){.link = link, .place = group.place[r]};
    }
    playing = one;
    link_group_run(size, play, entry, sizeof entry[0]);
    link_group_close(&group);
    for (uint32_t r = 0; r < size; r++) {
        if (entry[r].fault[0] != 0) {
            print_error("link %s, \"%s\": rank %u of %u: %s\n", link->name, one->name, r, size,
                        entry[r].fault);
        }
    }
    for (uint32_t r = 0; r < size; r++) {
        assert_string_equal(entry[r].fault, "");
    }
}

/* Links that need a process for each rank, such as mpi, are left out. */
FED_TEST(each_link_keeps_each_promise) {
    const feddc_link_vtable *link;
    const link_case *one;
    for (size_t l = 0; (link = feddc_link_at(l)) != NULL; l++) {
        for (size_t k = 0; link_group_fits(link) && (one = link_case_at(k)) != NULL; k++) {
            for (uint32_t size = one->abrupt ? 2 : 1; size <= 5; size++) {
                check(link, one, size);
            }
        }
    }
}

/* A link with faults (faulty_link.h) must keep the contract, too. */
FED_TEST(a_link_whose_events_are_late_and_mixed_is_a_link) {
    const feddc_link_vtable *link;
    const link_case *one;
    for (size_t l = 0; (link = feddc_link_at(l)) != NULL; l++) {
        for (size_t k = 0; link_group_fits(link) && (one = link_case_at(k)) != NULL; k++) {
            faulty_plan plan = {.inner = link, .delay_us = 50, .mix = 7, .seed = k};
            check(faulty_link(&plan), one, 4);
        }
    }
}

typedef struct chatter {
    link_entry entry;
    fed_error err;
    bool told;
} chatter;

static void chat(void *arg) {
    chatter *c = arg;
    const feddc_link_vtable *link = c->entry.link;
    feddc_event event = {.kind = FEDDC_SENT};
    fed_status status = link->open(&c->entry.place, &c->entry.self, &c->err);
    if (status != FED_OK) {
        return;
    }
    for (int k = 0; status == FED_OK && event.kind != FEDDC_GONE && k < 100000; k++) {
        uint32_t next = (c->entry.place.rank + 1) % c->entry.place.size;
        if (event.kind == FEDDC_SENT) {
            status = link->send(c->entry.self, next, &(feddc_head){0}, "word", 4, 0, &c->err);
        }
        status = status == FED_OK ? link->wait(c->entry.self, 20000, &event, &c->err) : status;
        if (status == FED_OK && event.kind == FEDDC_ARRIVED) {
            link->release(c->entry.self, &event);
        }
    }
    c->told = event.kind == FEDDC_GONE && event.peer == 1 && !event.orderly;
    link->close(c->entry.self, true);
}

FED_TEST(a_rank_is_lost_at_the_kth_event) {
    for (uint64_t at = 1; at < 20; at += 6) {
        link_group group;
        chatter c[3] = {0};
        faulty_plan plan = {.inner = feddc_link_named("threads"), .victim = 1, .at = at};
        link_group_open(&group, plan.inner, 3);
        for (uint32_t r = 0; r < 3; r++) {
            c[r].entry = (link_entry){.link = faulty_link(&plan), .place = group.place[r]};
        }
        link_group_run(3, chat, c, sizeof c[0]);
        link_group_close(&group);
        assert_int_equal(plan.events[1], at);
        assert_fed_says(c[1].err, "lost rank 1");
        assert_true(c[0].told || c[2].told);
    }
}

FED_TEST(a_rank_that_does_not_come_is_named) {
    const feddc_link_vtable *link;
    for (size_t l = 0; (link = feddc_link_at(l)) != NULL; l++) {
        if (link_group_fits(link)) {
            link_group group;
            void *self = NULL;
            fed_error err = {0};
            link_group_open(&group, link, 2);
            group.place[0].patience_ms = 50;
            assert_fed_fails(link->open(&group.place[0], &self, &err), FED_EBUSY, "rank 1");
            assert_null(self);
            if (group.place[1].listener >= 0) {
                close(group.place[1].listener);
            }
            link_group_close(&group);
        }
    }
}

int main(void) {
    alarm(500);
    return fed_cases_run(NULL, NULL);
}
