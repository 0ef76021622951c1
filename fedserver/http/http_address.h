/* A peer's address: as text for the log, as a key for the limits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_HTTP_ADDRESS_H
#define FEDSERVER_HTTP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "fed/hash.h"

/** An IPv6 address in network byte order, or an IPv4 address as ::ffff:a.b.c.d. */
typedef struct http_address {
    bool known;
    uint8_t bytes[16];
} http_address;

/** Get the address of a connected socket's peer. `known` is false if it can't be found out. */
http_address http_address_of(int fd);

/** Get a socket's own address. */
http_address http_address_of_socket(int fd);

/** Read "192.0.2.1" or "2001:db8::1". False: the text is neither, and *address keeps its value. */
bool http_address_read(const char *text, http_address *address);

/** Make an address of the four bytes of an IPv4 address, in network order. */
http_address http_address_v4(const uint8_t bytes[4]);

/** Write the address as text for the log; "?" if it is not known. */
enum { HTTP_ADDRESS_TEXT = 64 };
void http_address_write(const http_address *address, char text[HTTP_ADDRESS_TEXT]);

/** Hash the address. Of an IPv6 address only the first 64 bits count, because one customer may have
 * a whole network of addresses. */
void http_address_key(const http_address *address, uint8_t key[FED_SHA256_SIZE]);

/** Is it a loopback address, such as 127.0.0.1 or ::1? */
bool http_address_loopback(const http_address *address);

#endif
