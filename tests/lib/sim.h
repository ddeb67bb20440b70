/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated machine: all ranks of a mesh in one thread, each with its own arrays. Ops run their
 * plain kernels on local shards; only the steps of redistributes carry anything from one rank to
 * another. Floating-point values are f64 whatever their dtype says, so that what is compared is the
 * algebra. Failures are cmocka's. */
#ifndef WEFT_TESTS_SIM_H
#define WEFT_TESTS_SIM_H

#include "compile/graph/graph.h"

/* ---- parts of values (sim_step.c) ---- */

/* What `rank` holds of a value: extents and place; no data. */
weft_tensor sim_local(const weft_mesh *mesh, weft_layout layout, int n_dims, const weft_dim *dims,
                      weft_dtype dtype, int rank);
void sim_allocate(weft_tensor *t, weft_pool *pool);

typedef enum sim_combine { SIM_SET, SIM_ADD, SIM_MAX } sim_combine;
/* Puts what both tensors hold of their value into `to`; returns how many elements that were. */
int64_t sim_paste(const weft_tensor *to, const weft_tensor *from, sim_combine how);

/* Carries out one step: from[] and to[] are the tensors of all ranks, to[] allocated. A rank reads
 * only tensors of its own group, in the order of the group. */
void sim_step(const weft_mesh *mesh, const weft_step *step, weft_layout before,
              const weft_tensor *from, const weft_tensor *to);

/* ---- whole tensors ---- */

/* The global tensor that the ranks' parts make, in f64, in pool memory; what replicas of a part
 * hold must agree to `tolerance` of the largest element. */
weft_tensor sim_assemble(const weft_mesh *mesh, weft_layout layout, int n_dims,
                         const weft_dim *dims, const weft_tensor *parts, double tolerance,
                         const char *name, weft_pool *pool);

/* ---- the machine (sim.c) ---- */

typedef struct sim {
    weft_graph *g;
    weft_pool pool;
    uint64_t seed; /* of parameters and data: functions of (seed, name, global index) */
    int ranks;
    int64_t micro_batches, step;
    weft_tensor *parts; /* parts[id * ranks + rank] */
    double tolerance;   /* between replicas, of the largest element; sim_init sets one for f64;
                           INFINITY: not looked at */
    bool (*stuck)(const weft_node *redistribute); /* NULL, or which ones do nothing: every rank
                                                     keeps what it holds of the result */
} sim;

/* Takes a placed graph (joint or not), gives parameters and state their first values. */
void sim_init(sim *s, weft_graph *g, uint64_t seed);
void sim_release(sim *s);
/* One step: step_begin, every micro-batch, step_end. */
void sim_run(sim *s);
/* The global value, replicas checked. */
weft_tensor sim_value(sim *s, const weft_value *v);
/* The same of a scalar. */
double sim_scalar(sim *s, const weft_value *v);

#endif
