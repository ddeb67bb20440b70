/* SPDX-License-Identifier: Apache-2.0 */
/* What rounding_f8.c records and bound.c reads. */
#ifndef WEFT_TOOLS_ORACLE_ROUNDING_H
#define WEFT_TOOLS_ORACLE_ROUNDING_H

#include "oracle.h"

/* What one instruction has rounded, of all ranks, in one micro-batch of one step. */
typedef struct oracle_rounding {
    const char *name;    /* of what is rounded, and how */
    const char *by;      /* name of the result; a recomputed one does not count again */
    int64_t step, micro; /* micro -1: once a step, of what the step began with */
    int place;           /* of its node in the graph */
    int64_t count, rows; /* elements, and rows of the last dim */
    /* the reference */
    float *values;   /* what was read of the result: unscaled again */
    float *distance; /* from the next halfway point, relative to the value's own size and the root
                        mean square of all */
    float *gap;      /* between the two neighbours there */
    double size;     /* sum of the values' squares */
    /* the other run */
    int64_t compared;  /* elements */
    int64_t turned;    /* of them those that were rounded to another value */
    double difference; /* the sum of what those differ by, squared */
    double farthest;   /* the largest distance of one of those */
} oracle_rounding;

/* NULL: nothing of that name was rounded then. A weight is rounded once a step (micro -1), or,
 * where that is done behind its gather, in every micro-batch. */
oracle_rounding *oracle_find_rounding(const oracle_record *r, const char *name, int64_t step,
                                      int64_t micro);

#endif
