/* Draws the devices whose turn it is to take free slots, and wakes them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_TURNS_H
#define FEDSERVER_TURNS_H

#include "fedserver/rounds/rounds.h"

/*
 * When slots are free, as many devices are drawn as there are slots. It is their turn: they are
 * admitted at once, and those whose check-ins are held are asked again. Nobody else is. Who does
 * not come within a second loses its turn to a device of the next draw, and is drawn again only
 * after its next check-in.
 */

/** A round or an attempt has opened: draw the devices for its free slots, and wake them. */
void fedserver_slots_open(fedserver_rounds *rounds, fedserver_training *training, int64_t now_ms);

/** Slots of an open round are free again. Those drawn for them are woken by fedserver_slots_wake, a
 * little later, because more slots may become free meanwhile. were_full: there was no free slot
 * before. */
void fedserver_slots_freed(fedserver_rounds *rounds, fedserver_training *training, bool were_full,
                           int64_t now_ms);

/** Draw and wake devices for slots that became free, or that were not taken. Returns when to call
 * this again, in Unix milliseconds; INT64_MAX: no call is needed until a slot becomes free. */
int64_t fedserver_slots_wake(fedserver_rounds *rounds, int64_t now_ms);

/** Is it the device's turn to take a slot of the task? */
bool fedserver_has_its_turn(const fedserver_training *training, const fedserver_device *device);

/** Find the devices whose turn it is, after the task and the devices have got their turns. */
fed_status fedserver_drawn_find(const fedserver_rounds *rounds,
                                fedserver_training *training) FED_CHECKED;

/** Handle the held requests with this key again (fedserver_response.hold_key). */
void fedserver_wake(fedserver_rounds *rounds, uint64_t key);

/** Take a key of fedserver_wake. 0: there is none left. */
uint64_t fedserver_wakes_take(fedserver_rounds *rounds);

#endif
