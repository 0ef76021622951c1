/* Shows the progress of a run: a bar at a terminal, elsewhere lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/progress_bar.h"

#include <math.h>
#include <stdio.h>

#include "deploy/sim/report/amounts.h"

static const double plain_every_s = 10;

void sim_bar_open(sim_bar *bar, size_t cells) {
    *bar = (sim_bar){.cells = cells};
    fed_progress_open(&bar->line, 0);
}

void sim_bar_next(sim_bar *bar, size_t cell) {
    bar->cell = cell;
    bar->run_begun = false;
    bar->shown_s = 0;
}

/** The fraction of the run that is done, 0 to 1. */
static double share_of(const sim_progress *p) {
    return p->rounds == 0 ? 0 : (double)(p->round - 1) / (double)p->rounds;
}

static void say_accuracy(const sim_progress *p, char *dst, size_t cap) {
    if (p->evaluated > 0 && isnan(p->accuracy)) {
        snprintf(dst, cap, "mean squared error %.4g", p->test_loss);
    } else if (p->evaluated > 0) {
        snprintf(dst, cap, "accuracy %.2f %%", 100 * p->accuracy);
    } else {
        snprintf(dst, cap, "no model measured yet");
    }
}

static void show_plain(sim_bar *bar, const sim_progress *p, const char *cell, double share,
                       const char *accuracy) {
    char left[24], wall[24];
    if (p->wall_s - bar->shown_s < plain_every_s) {
        return;
    }
    bar->shown_s = p->wall_s;
    fprintf(stderr, "%sround %u of %u, %s; after %s", cell, p->round, p->rounds, accuracy,
            sim_time_text(p->wall_s, wall));
    if (share > bar->first_share) {
        const double pace = (p->wall_s - bar->first_s) / (share - bar->first_share);
        fprintf(stderr, ", %s left", sim_time_text(pace * (1 - share), left));
    }
    fputc('\n', stderr);
    fflush(stderr);
}

/** Note where this process takes the run up. The time left is estimated from there, as another
 * process did the first part of a resumed run. */
static void begin(sim_bar *bar, const sim_progress *p, double share, double all) {
    if (!bar->begun) {
        bar->begun = true;
        fed_progress_open(&bar->line, all);
    }
    if (!bar->run_begun) {
        bar->run_begun = true;
        bar->first_share = share;
        bar->first_s = p->wall_s;
    }
}

void sim_bar_show(void *user, const sim_progress *p) {
    sim_bar *bar = user;
    const double share = share_of(p), all = ((double)bar->cell + share) / (double)bar->cells;
    char cell[48] = "", accuracy[48];
    if (p->round == 0) {
        return;
    }
    begin(bar, p, share, all);
    if (bar->cells > 1) {
        snprintf(cell, sizeof cell, "run %zu of %zu: ", bar->cell + 1, bar->cells);
    }
    say_accuracy(p, accuracy, sizeof accuracy);
    if (bar->line.terminal) {
        fed_progress_show(&bar->line, all, "%sround %u of %u, %s", cell, p->round, p->rounds,
                          accuracy);
    } else {
        show_plain(bar, p, cell, share, accuracy);
    }
}

void sim_bar_wipe(sim_bar *bar) {
    fed_progress_wipe(&bar->line);
}
