/* What every link must keep, later ones too: the tests walk links.def. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fed_test.h"

#include <unistd.h>

#include "link_case.h"
#include "link_gang.h"

static const link_case *playing;

static void play(void *seat) {
    link_case_run(playing, seat);
}

static void check(const feddc_link_vtable *link, const link_case *one, uint32_t size) {
    link_gang gang;
    link_seat seat[LINK_GANG_RANKS];
    link_gang_open(&gang, link, size);
    for (uint32_t r = 0; r < size; r++) {
        seat[r] = (link_seat){.link = link, .place = gang.place[r]};
    }
    playing = one;
    link_gang_run(size, play, seat, sizeof seat[0]);
    link_gang_close(&gang);
    for (uint32_t r = 0; r < size; r++) {
        if (seat[r].fault[0] != 0) {
            print_error("link %s, \"%s\": rank %u of %u: %s\n", link->name, one->name, r, size,
                        seat[r].fault);
        }
    }
    for (uint32_t r = 0; r < size; r++) {
        assert_string_equal(seat[r].fault, "");
    }
}

/* A link that takes one rank a process is tested where its processes are started. */
static void each_link_keeps_each_promise(void **state) {
    (void)state;
    const feddc_link_vtable *link;
    const link_case *one;
    for (size_t l = 0; (link = feddc_link_at(l)) != NULL; l++) {
        for (size_t k = 0; link_gang_fits(link) && (one = link_case_at(k)) != NULL; k++) {
            for (uint32_t size = one->abrupt ? 2 : 1; size <= 5; size++) {
                check(link, one, size);
            }
        }
    }
}

static void a_rank_that_does_not_come_is_named(void **state) {
    (void)state;
    const feddc_link_vtable *link;
    for (size_t l = 0; (link = feddc_link_at(l)) != NULL; l++) {
        if (link_gang_fits(link)) {
            link_gang gang;
            void *self = NULL;
            fed_error err = {0};
            link_gang_open(&gang, link, 2);
            gang.place[0].patience_ms = 50;
            assert_fed_status(link->open(&gang.place[0], &self, &err), FED_EBUSY);
            assert_fed_says(err, "rank 1");
            assert_null(self);
            if (gang.place[1].listener >= 0) {
                close(gang.place[1].listener);
            }
            link_gang_close(&gang);
        }
    }
}

int main(void) {
    alarm(300); /* a link that hangs ends here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_link_keeps_each_promise),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
