/* SPDX-License-Identifier: Apache-2.0 */
/* How processes that are ranks of one run find each other, and find out that they are. */
#ifndef WEFT_LIB_NET_RENDEZVOUS_H
#define WEFT_LIB_NET_RENDEZVOUS_H

#include "execute/control.h"
#include "net/link.h"

/* Links to ranks that have proved that they know the token and, over a name, run as the same user;
 * the caller's to close. Rank 0: links[ranks], its own without a connection; others: links[0]. On
 * error there are none. */
weft_status weft_rendezvous(const weft_join *join, weft_link *links, weft_error *err);

/* ---- between the two sides ---- */

/* STOPPED: whoever says it was asked to end, and so is the other one */
enum { WEFT_WELCOME = 1, WEFT_REFUSED, WEFT_STOPPED };
/* The tag of a welcome is rank 0's patience, in parts of a second. */
enum { WEFT_PATIENCE_UNIT = 1000 };
/* Nobody waits longer than that without a look at join->stop. */
static const double weft_stop_look_s = 0.2;
enum { WEFT_HANDSHAKE_LIMIT_S = 5 }; /* from connecting to the last proof, however it trickles */

bool weft_rendezvous_is_stopped(const weft_join *join);
/* who: "rank 0" */
weft_status weft_rendezvous_fail_stopped(const char *who, weft_error *err);
/* Rank 0's side. */
weft_status weft_rendezvous_host(const weft_join *join, weft_link *links, weft_error *err);

#endif
