/* SPDX-License-Identifier: Apache-2.0 */
/* A micro-batch in pieces that are computed apart, so that one is sent while another computes. */
#ifndef WEFT_OVERLAP_H
#define WEFT_OVERLAP_H

#include <weft/marks.h>
#include <weft/review.h>
#include <weft/weft.h>

enum { OVERLAP_MOST = 16 };

typedef enum overlap_along { ALONG_AUTO, ALONG_BATCH, ALONG_SEQ } overlap_along;

typedef struct overlap {
    const weft_host *host;
    int64_t pieces; /* below 0: auto */
    int along;
    double least, flops_per_byte;
    int tried; /* auto: pieces of the last plan; below 0: it is decided */
    int best;  /* auto: pieces of the fastest plan so far */
    double best_s;
} overlap;

/* cut.c: what blocks compute of tokens becomes n nodes each, of every n-th place of `dim`. Returns
 * how many nodes were cut. */
int overlap_cut(weft_graph *g, int n, const char *dim);

/* order.c: in each part of each stage, the pieces' nodes in an order in which one computes while
 * another is sent over one of these axes (a set), and those sends marked. */
void overlap_order(weft_graph *g, double flops_per_byte, weft_axes axes);

/* auto.c: of pieces = auto, those of the plan at hand; and what to try next, or to keep. */
int overlap_pieces(const overlap *o);
weft_status overlap_review(overlap *o, weft_plan *plan, weft_error *err);
/* overlap.c: do n pieces divide what every rank has? */
bool overlap_fits(const overlap *o, const weft_graph *g, int64_t n);
bool overlap_is_over(const overlap *o, const weft_mesh *mesh, const weft_node *n);

#endif
