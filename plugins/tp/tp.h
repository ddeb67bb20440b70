/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_TP_H
#define WEFT_TP_H

#include <weft/weft.h>

/* repeat_kv(k, q): the heads of k, each as often as q's heads share it, so that they can be cut
 * with q's where k's own are too few. Only q's layout counts. */
extern const weft_op *const tp_ops[];
/* Puts repeat_kv before every attention whose key heads are fewer than the ranks of the axis; is
 * there such a one? */
bool tp_repeat_kv(weft_graph *g, int64_t degree);

#endif
