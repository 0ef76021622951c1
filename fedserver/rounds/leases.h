/* Leases: who holds a slot of the open round, who gets one next, and when one is free again. */
#ifndef FEDSERVER_LEASES_H
#define FEDSERVER_LEASES_H

#include "fedserver/rounds/rounds.h"

/** A device checks in: *action says what to answer. For LEASE it has its new lease already; for
 * WAIT_TURN it may ask again at *turn_ms. */
fed_status fedserver_leases_checkin(fedserver_rounds *rounds, fedserver_device *device,
                                    int64_t now_ms, fedserver_round_action *action,
                                    int64_t *turn_ms, fed_error *err) FED_CHECKED;

/** A device can't serve the task in memory: store its reason, and end its lease if that stands.
 * Without a reason it only gives its place back, and may be asked again. */
fed_status fedserver_leases_decline(fedserver_rounds *rounds, fedserver_device *device,
                                    const char *reason, int64_t now_ms, fed_error *err) FED_CHECKED;

/** Has it said so? A decline stands for FEDSERVER_DECLINE_MS. */
bool fedserver_declined(const fedserver_training *training, const fedserver_device *device,
                        int64_t now_ms);
#define FEDSERVER_DECLINE_MS (INT64_C(24) * 3600 * 1000)

/** What an update is to the round: the event that fedserver_round_step wants. digest: of the whole
 * message. */
fedserver_round_event fedserver_leases_update_event(const fedserver_training *training,
                                                    const fedserver_device *device,
                                                    const fed_update *head, uint64_t digest,
                                                    int64_t now_ms);

/** Another copy of the device's state has reported: say so in the log and in its row. */
fed_status fedserver_device_cloned(fedserver_rounds *rounds, fedserver_device *device,
                                   int64_t now_ms, fed_error *err) FED_CHECKED;

/** Would an update with the device's lease count? */
bool fedserver_lease_stands(const fedserver_training *training, const fedserver_device *device,
                            int64_t now_ms);

/** When the lease that stands ends, Unix milliseconds. */
int64_t fedserver_lease_deadline(const fedserver_training *training,
                                 const fedserver_device *device);

/** Take places back from leases that no longer stand, where it is time to look. */
void fedserver_leases_advance(fedserver_rounds *rounds, int64_t now_ms);

/** After a restart: how many places are taken. */
uint32_t fedserver_leases_count(const fedserver_rounds *rounds, const fedserver_training *training);

/** A round or an attempt has opened: draw who may have its places, and wake who waits. */
void fedserver_places_open(fedserver_rounds *rounds, int64_t now_ms);

/** A place is free again: likewise, but many of these become one awakening. */
void fedserver_places_freed(fedserver_rounds *rounds, int64_t now_ms);

/** Move the epoch if it is due. Returns when it will be, or INT64_MAX. */
int64_t fedserver_places_wake(fedserver_rounds *rounds, int64_t now_ms);

/** Has it checked in to train within the last 20 minutes, and may it still? */
bool fedserver_seen_lately(const fedserver_device *device, int64_t now_ms);

/** How many devices checked in lately. */
uint64_t fedserver_devices_active(fedserver_rounds *rounds, int64_t now_ms);

#endif
