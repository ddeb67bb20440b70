/* SPDX-License-Identifier: Apache-2.0 */
/* How processes that are ranks of one run find each other. */
#ifndef WEFT_RUN_RENDEZVOUS_H
#define WEFT_RUN_RENDEZVOUS_H

#include "run/control.h"

/* Connected sockets, the caller's to close. Rank 0: fds[ranks], its own -1; others: fds[0]. On
 * error there are none. */
weft_status weft_rendezvous(const weft_join *join, int *fds, weft_error *err);

#endif
