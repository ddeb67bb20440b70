/* SPDX-License-Identifier: Apache-2.0 */
/* What a few paired numbers say. */
#ifndef WEFT_TOOLS_ABLATE_STATS_H
#define WEFT_TOOLS_ABLATE_STATS_H

#include <stddef.h>

/* NaN where there are too few numbers for it. */
typedef struct ablate_sample {
    int n, below, above; /* numbers; of these, below and above 0 */
    double mean, sd;     /* sd: of a sample, n - 1 below */
    double low, high;    /* 95 % interval of the mean, by Student's t */
    double p;            /* two-sided, of a mean of 0 */
    double least;        /* that mean which so many numbers with this sd would tell from 0 at 5 %
                            four times of five: (t(0.975) + t(0.8)) sd / sqrt(n) */
} ablate_sample;

ablate_sample ablate_describe(const double *x, int n);
/* Student's t with df degrees of freedom: the probability of less than t, and its inverse. */
double ablate_t_cdf(double t, double df);
double ablate_t_quantile(double p, double df);

#endif
