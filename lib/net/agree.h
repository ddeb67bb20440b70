/* SPDX-License-Identifier: Apache-2.0 */
/* What all ranks come to know over the control channel, whatever its kind. */
#ifndef WEFT_NET_AGREE_H
#define WEFT_NET_AGREE_H

#include "execute/control.h"

/* Everyone gets what rank 0 has: text is read there and written everywhere else. */
weft_status weft_control_broadcast(weft_control *control, int rank, weft_text *text,
                                   weft_error *err);
/* Ends a phase: every rank's status is made known to all. WEFT_OK if all are; a rank that was fine
 * itself gets WEFT_ERR_PEER and is told who failed and why. */
weft_status weft_control_agree(weft_control *control, int rank, const char *phase, weft_status mine,
                               weft_error *err);

#endif
