/* A prefix sum over the tiles of an array, by one work-group. */
/* SPDX-License-Identifier: Apache-2.0 */

/* Divide count items among the work-items of a single work-group. This work-item handles *first to
 * *end - 1. */
FUNC void lane_part(u32 count, u32 *first, u32 *end) {
    const u32 each = (count + GROUP_SIZE - 1) / GROUP_SIZE;
    *first = LANE * each < count ? LANE * each : count;
    *end = *first + each < count ? *first + each : count;
}

/* Run by one work-group: replace each of count numbers by the sum of those before it. Returns the
 * sum of all. */
FUNC u32 scan_tiles(LOCALP u32 *room, GLOBAL u32 *tiles, u32 count) {
    u32 first = 0, end = 0, sum = 0, total = 0;
    lane_part(count, &first, &end);
    for (u32 k = first; k < end; k++) {
        sum += tiles[k];
    }
    sum = wg_scan(room, sum, &total);
    for (u32 k = first; k < end; k++) {
        const u32 size = tiles[k];
        tiles[k] = sum;
        sum += size;
    }
    return total;
}
