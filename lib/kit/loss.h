/* SPDX-License-Identifier: Apache-2.0 */
/* What heads and other losses share. */
#ifndef WEFT_LIB_KIT_LOSS_H
#define WEFT_LIB_KIT_LOSS_H

#include "compile/graph/graph.h"

/* Adds to the list of terms alone. */
void weft_loss_push_term(weft_graph *g, const char *name, weft_value *v);
weft_status weft_loss_check_name(weft_graph *g, const char *name);
/* weft_add_loss of a sum over tokens, unchecked, at the spot and in the mode of the graph. */
void weft_loss_add_sum(weft_graph *g, const char *name, weft_value *sum, double weight);
/* When training: over the labels that lie so many places behind. */
void weft_loss_add_shifted(weft_graph *g, const char *name, weft_value *sum, double weight,
                           int shift);

#endif
