/* SPDX-License-Identifier: Apache-2.0 */
/* Passes that put a model on a mesh in their smallest form, against the public headers alone, for
 * what no plugin does yet. */
#ifndef WEFT_TESTS_MESH_PASSES_H
#define WEFT_TESTS_MESH_PASSES_H

#include <weft/weft.h>

/* Axis cp: cuts the sequence of the inputs, in order. */
extern const weft_plugin mesh_cp;

#endif
