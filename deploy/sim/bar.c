/* The progress of a run, and amounts as a person reads them. */
#include "deploy/sim/bar.h"

#include <math.h>
#include <stdio.h>

static const double plain_every_s = 10;

const char *sim_time_text(double seconds, char dst[24]) {
    const double s = floor(seconds + 0.5);
    if (!(seconds < 1e12)) {
        snprintf(dst, 24, "-");
    } else if (seconds < 9.95) {
        snprintf(dst, 24, "%.1f s", seconds);
    } else if (s < 60) {
        snprintf(dst, 24, "%.0f s", s);
    } else if (s < 3600) {
        snprintf(dst, 24, "%.0f min %.0f s", floor(s / 60), fmod(s, 60));
    } else if (s < 86400) {
        snprintf(dst, 24, "%.0f h %.0f min", floor(s / 3600), floor(fmod(s, 3600) / 60));
    } else {
        snprintf(dst, 24, "%.0f d %.0f h", floor(s / 86400), floor(fmod(s, 86400) / 3600));
    }
    return dst;
}

const char *sim_bytes_text(double bytes, char dst[24]) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    size_t k = 0;
    while (bytes >= 999.5 && k + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1000;
        k++;
    }
    const int places = k == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
    snprintf(dst, 24, "%.*f %s", places, bytes, units[k]);
    return dst;
}

void sim_bar_open(sim_bar *bar, size_t cells) {
    *bar = (sim_bar){.cells = cells};
    fed_progress_open(&bar->line, 0);
}

void sim_bar_next(sim_bar *bar, size_t cell) {
    bar->cell = cell;
    bar->run_begun = false;
    bar->shown_s = 0;
}

/** What a run has done, 0 to 1. */
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

/** Time left is counted from the first share that is seen: what --resume found is not its work. */
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
