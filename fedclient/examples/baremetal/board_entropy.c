/* Random bytes for mbedTLS. The emulated board has no source of random bytes, so the host's is
 * used. A real board must read its hardware random number generator here, since the device's key
 * is made from these bytes. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mbedtls/entropy.h>

#include "fedclient/examples/baremetal/arch/cc.h"
#include "fedclient/examples/baremetal/semihosting.h"

/* mbedTLS declares this function in a private header of its library folder. */
int mbedtls_hardware_poll(void *user, unsigned char *dst, size_t len, size_t *got);

int mbedtls_hardware_poll(void *user, unsigned char *dst, size_t len, size_t *got) {
    (void)user;
    const int file = semihosting_open("/dev/urandom", SEMIHOSTING_READ);
    const bool ok = file >= 0 && semihosting_read_on(file, dst, len);
    if (file >= 0) {
        semihosting_close(file);
    }
    *got = ok ? len : 0;
    return ok ? 0 : MBEDTLS_ERR_ENTROPY_SOURCE_FAILED;
}

unsigned board_random(void) {
    unsigned number = 0;
    size_t got = 0;
    (void)mbedtls_hardware_poll(NULL, (unsigned char *)&number, sizeof number, &got);
    return number;
}
