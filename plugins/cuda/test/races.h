/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a GPU may do in another order than the emulator did. Kernels are compiled with
 * -fsanitize=thread and linked with functions of our own in place of the sanitizer's: each access
 * to memory is compared with those before it. Two accesses to a byte, one of which writes, by
 * threads of a block need a barrier between them; __syncwarp is one for its warp, a shuffle and
 * ldmatrix are none. Threads of two blocks cannot wait for each other at all; atomic accesses get
 * along among themselves. And a byte of shared memory must be written before it is read.
 *
 * What is said of a race has two places in the code; addr2line -e PROGRAM PLACE names their lines.
 */
#ifndef WEFT_CUDA_RACES_H
#define WEFT_CUDA_RACES_H

#include "emulate.h"

extern const emulate_watch races_watch;

/* Accesses that were looked at so far: 0 where the kernels were compiled otherwise. */
uint64_t races_seen(void);

#endif
