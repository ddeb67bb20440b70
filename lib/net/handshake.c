/* SPDX-License-Identifier: Apache-2.0 */
#include "net/handshake.h"

#include <sodium.h>
#include <string.h>
#include <unistd.h>

enum { MAGIC = 0x74667769 };

_Static_assert(sizeof(weft_introduction) == 3 * 4 + 16 + WEFT_HOST_BYTES + WEFT_NONCE_BYTES,
               "it has gaps");

void weft_handshake_init(weft_handshake *h, const weft_join *join)
{
    memset(h, 0, sizeof *h);
    h->mine.magic = MAGIC;
    h->mine.rank = join->rank;
    h->mine.ranks = join->ranks;
    strncpy(h->mine.version, WEFT_VERSION, sizeof h->mine.version - 1);
    if (gethostname(h->mine.host, sizeof h->mine.host - 1) != 0)
        *h->mine.host = '\0';
    randombytes_buf(h->mine.nonce, sizeof h->mine.nonce);
}

bool weft_handshake_is_introduction(const weft_introduction *i)
{
    return i->magic == MAGIC;
}

/* What only somebody with the token can compute. by_0: on behalf of rank 0, which is the one that
 * listens, whatever rank the other one claims to be. */
static void derive(const weft_handshake *h, const char *token, const char *what, bool by_0,
                   unsigned char *out)
{
    static const char context[] = "weft control channel 1";
    const char *who = by_0 ? "rank 0" : "other rank";
    bool is_0 = h->mine.rank == 0;
    const weft_introduction *zero = is_0 ? &h->mine : &h->theirs;
    const weft_introduction *other = is_0 ? &h->theirs : &h->mine;
    crypto_auth_hmacsha512256_state state;
    crypto_auth_hmacsha512256_init(&state, (const unsigned char *)token, strlen(token));
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)context, sizeof context);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)what, strlen(what) + 1);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)who, strlen(who) + 1);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)zero, sizeof *zero);
    crypto_auth_hmacsha512256_update(&state, (const unsigned char *)other, sizeof *other);
    crypto_auth_hmacsha512256_final(&state, out);
    sodium_memzero(&state, sizeof state);
}

void weft_handshake_prove(const weft_handshake *h, const char *token, weft_proof *out)
{
    derive(h, token, "proof", h->mine.rank == 0, out->bytes);
}

bool weft_handshake_check(const weft_handshake *h, const char *token, const weft_proof *theirs)
{
    weft_proof due;
    derive(h, token, "proof", h->mine.rank != 0, due.bytes);
    bool well = sodium_memcmp(&due, theirs, sizeof due) == 0;
    sodium_memzero(&due, sizeof due);
    return well;
}

void weft_handshake_finish(const weft_handshake *h, const char *token, int fd, weft_link *out)
{
    bool is_0 = h->mine.rank == 0;
    *out = (weft_link){.fd = fd};
    derive(h, token, "messages", is_0, out->send_key);
    derive(h, token, "messages", !is_0, out->receive_key);
}
