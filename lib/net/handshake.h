/* SPDX-License-Identifier: Apache-2.0 */
/* How rank 0 and another rank prove to each other that they know the same token, which neither of
 * them sends:
 *
 *     rank r to rank 0    introduction: its rank, the ranks it was told of, its version, a nonce
 *     rank 0 to rank r    its own introduction, and its proof
 *     rank r to rank 0    its proof
 *
 * A proof is an HMAC, keyed with the token, of who proves and of both introductions. One that was
 * heard before, or that comes back to where it was made, proves nothing. The keys of the messages
 * that follow are made in the same way, one for each direction. */
#ifndef WEFT_LIB_NET_HANDSHAKE_H
#define WEFT_LIB_NET_HANDSHAKE_H

#include "execute/control.h"
#include "net/link.h"

enum { WEFT_NONCE_BYTES = 32 };

typedef struct weft_introduction { /* as it travels: without gaps */
    uint32_t magic;
    int32_t rank, ranks;
    char version[16];
    weft_host_name host;
    unsigned char nonce[WEFT_NONCE_BYTES];
} weft_introduction;

typedef struct weft_proof {
    unsigned char bytes[WEFT_MAC_BYTES];
} weft_proof;

typedef struct weft_handshake {
    weft_introduction mine, theirs;
} weft_handshake;

/* Makes `mine`, with a nonce that nobody has seen. */
void weft_handshake_init(weft_handshake *h, const weft_join *join);
/* Is what came an introduction, whatever it claims? */
bool weft_handshake_is_introduction(const weft_introduction *i);
/* Once both introductions are there. */
void weft_handshake_prove(const weft_handshake *h, const char *token, weft_proof *out);
bool weft_handshake_check(const weft_handshake *h, const char *token, const weft_proof *theirs);
void weft_handshake_finish(const weft_handshake *h, const char *token, int fd, weft_link *out);

#endif
