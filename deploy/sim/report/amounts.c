/* Times and bytes, as a person reads them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy/sim/report/amounts.h"

#include <math.h>
#include <stdio.h>

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
