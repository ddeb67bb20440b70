/* SPDX-License-Identifier: Apache-2.0 */
/* The vector kernels for any processor. */
#define CPU_VECTOR 4
#define CPU_NAME   cpu_launchers_generic
#include "isa_kernels.h"
