/* SPDX-License-Identifier: Apache-2.0 */
/* A micro-batch in pieces that are computed apart, so that one is sent while another computes. */
#ifndef WEFT_OVERLAP_H
#define WEFT_OVERLAP_H

#include <weft/marks.h>
#include <weft/weft.h>

enum { OVERLAP_MOST = 16 };

typedef enum overlap_along { ALONG_AUTO, ALONG_BATCH, ALONG_SEQ } overlap_along;

typedef struct overlap {
    const weft_host *host;
    int64_t pieces; /* below 0: auto */
    int along;
    double least, flops_per_byte;
    bool gathers_maxima; /* an amax of float8 was there before: it joins the pieces */
} overlap;

/* cut.c: what blocks compute of tokens becomes n nodes each, of every n-th place of `dim`. Returns
 * how many nodes were cut. */
int overlap_cut(weft_graph *g, int n, const char *dim);

/* order.c: in each part of each stage, the pieces' nodes in an order in which one computes while
 * another is sent over one of these axes (a set), and those sends marked. */
void overlap_order(weft_graph *g, double flops_per_byte, weft_axes axes);

#endif
