/* Times and bytes, as a person reads them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSIM_AMOUNTS_H
#define FEDSIM_AMOUNTS_H

/** Write a time for people: "12 s", "4 min 10 s", "1 h 3 min", "2 d 4 h". Returns dst. */
const char *sim_time_text(double seconds, char dst[24]);
/** Write bytes for people, in powers of 1000: "512 B", "1.20 MB". Returns dst. */
const char *sim_bytes_text(double bytes, char dst[24]);

#endif
