/* Reads, checks and writes the certificates in a coordinator's directory, and finds their CA. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FEDSERVER_CERTIFICATES_H
#define FEDSERVER_CERTIFICATES_H

#include "fed/crypto.h"
#include "fed/error.h"
#include "fedserver/fedserver.h"
#include "fedserver/stores/store.h"

/** Read a file of the directory: a key, or certificates. */
fed_status fedserver_pem_read(const char *directory, const char *name, fed_pem *pem,
                              fed_error *err) FED_CHECKED;
/** Replace a file of the directory. */
fed_status fedserver_pem_write(const char *directory, const char *name, const char *text,
                               unsigned mode, fed_error *err) FED_CHECKED;

/** The subject of a server's certificate: the first host, unless it is longer than a common name
 * may be. Clients look at the hosts, not at the subject. */
const char *fedserver_certificate_subject(const char *const *hosts);

/** When the first certificate of a file in the directory expires, Unix time; 0: unreadable. */
int64_t fedserver_certificate_expires_s(const char *directory, const char *file);

/** Find the certificate in the bundle (ca.pem) for the key (ca.key). FED_EINVAL: there is none. */
fed_status fedserver_ca_pick(const fed_pem *bundle, const fed_pem *key, fed_pem *cert,
                             fed_error *err) FED_CHECKED;

/** The id of the first CA in that text: the first 8 bytes of its subject key id. Certificates that
 * the CA has signed name the same id. 0: the CA has none. */
uint64_t fedserver_ca_id(const char *pem);

/** The id of the first CA in the directory's ca.pem. 0: the file can't be read. */
uint64_t fedserver_ca_id_at(const char *directory);

/** Do what fedserver_ca_look does, for a directory and the devices in that store. */
fed_status fedserver_ca_look_at(const char *directory, const fedserver_store *store, void *db,
                                int64_t now_ms, fedserver_ca_change *change,
                                fed_error *err) FED_CHECKED;

/** Does the private key in the file `key` belong to the first certificate in the file `chain`? Key
 * and certificate may be of any kind that the listeners can serve. FED_EFORMAT: it does not. */
fed_status fedserver_certificate_fits(const char *chain, const char *key,
                                      fed_error *err) FED_CHECKED;

#endif
