/* SPDX-License-Identifier: Apache-2.0 */
/* The device mesh and layouts: who holds which part of a value. Nothing here knows ops or plugins.
 */
#ifndef WEFT_MESH_H
#define WEFT_MESH_H

#include <weft/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_MAX_AXES 8
#define WEFT_MAX_DIMS 6

/* Named axes, innermost (fastest links) first. Axes of size 1 are not in a mesh. A rank is a
 * coordinate on every axis: rank = c[0] + size[0] * (c[1] + size[1] * (...)). */
typedef struct weft_axis {
    char name[24];
    int size;
    const char *by;   /* the plugin that declared it */
    weft_where at;    /* where its degree is set; nowhere: not known */
    const char *cuts; /* the dim of all inputs that it will cut; NULL: nobody said so */
} weft_axis;

typedef struct weft_mesh {
    int n_axes;
    weft_axis axis[WEFT_MAX_AXES];
} weft_mesh;

typedef uint32_t weft_axes; /* a set of axes: bit i is axis i of the mesh */

/* Product of all sizes. */
int weft_mesh_ranks(const weft_mesh *mesh);
/* The axis' number, -1 if the mesh has none of this name (size 1, or unknown). */
int weft_mesh_find(const weft_mesh *mesh, const char *name);
/* Product of the sizes of a set of axes. */
int64_t weft_mesh_count(const weft_mesh *mesh, weft_axes axes);
/* Ranks from one coordinate of `axis` to the next: the product of the sizes of those before it. */
int weft_mesh_stride(const weft_mesh *mesh, int axis);
/* coord[i] of `rank` on axis i. */
void weft_mesh_coord(const weft_mesh *mesh, int rank, int coord[WEFT_MAX_AXES]);

/* A named dim of a value. size counts elements. A composite dim (heads x head_dim as one) has grain
 * > 1: size is a multiple of grain, and axes cut it only between grains, except storage axes, which
 * cut anywhere. */
typedef struct weft_dim {
    const char *name;
    int64_t size, grain;
} weft_dim;

/* A layout: one byte per mesh axis, so that equal layouts are equal numbers.
 *
 *     0                           replicated
 *     WEFT_OPEN_SUM, _MAX         open: every rank of the axis holds a term still to be combined
 *     0x40 | c                    at c: only ranks whose coordinate on the axis is c hold the value
 *     0x80 | fine | dim | place   cuts dim `dim`; `place` orders the axes of one dim, outermost 0;
 *                                 fine: ignores the grain (storage)
 *
 * Invariant: all open axes have the same kind; the places of a dim are 0, 1, ... without gaps. */
typedef struct weft_layout {
    uint64_t bits;
} weft_layout;

enum { WEFT_OPEN_SUM = 1, WEFT_OPEN_MAX = 2 };
/* Coordinates that a layout can name are below this: an axis that values are `at` is no longer. */
enum { WEFT_MAX_AT = 64 };

/* The byte of an axis, as above. */
static inline unsigned weft_layout_byte(weft_layout l, int axis)
{
    return (unsigned)(l.bits >> (8 * axis)) & 0xffu;
}
/* Does the axis cut a dim? */
static inline bool weft_layout_cuts(weft_layout l, int axis)
{
    return (weft_layout_byte(l, axis) & 0x80u) != 0;
}
/* The dim that an axis cuts; only if weft_layout_cuts. */
static inline int weft_layout_dim(weft_layout l, int axis)
{
    return (int)(weft_layout_byte(l, axis) >> 3) & 7;
}
/* Does it cut anywhere, whatever the grain? */
static inline bool weft_layout_fine(weft_layout l, int axis)
{
    return (weft_layout_byte(l, axis) & 0x40u) != 0;
}
/* 0, WEFT_OPEN_SUM or WEFT_OPEN_MAX. */
static inline int weft_layout_open(weft_layout l, int axis)
{
    unsigned b = weft_layout_byte(l, axis);
    return b & 0xc0u ? 0 : (int)b;
}
/* The coordinate that alone holds the value; -1: all do. */
static inline int weft_layout_at(weft_layout l, int axis)
{
    unsigned b = weft_layout_byte(l, axis);
    return (b & 0xc0u) == 0x40u ? (int)(b & 0x3fu) : -1;
}
/* All axes that are open. */
weft_axes weft_layout_open_axes(weft_layout l);
/* All axes that cut some dim. */
weft_axes weft_layout_cut_axes(weft_layout l);
/* The axes that cut dim d, outermost first, into list; returns how many. */
int weft_layout_list(weft_layout l, int d, int list[WEFT_MAX_AXES]);
/* Into how many pieces these cut it. */
int weft_layout_pieces(const weft_mesh *mesh, weft_layout l, int d);
/* Appends `axis` (replicated so far) to the end of dim d's list. */
weft_layout weft_layout_cut(weft_layout l, int d, int axis, bool fine);
/* Opens `axis` (replicated so far); kind: WEFT_OPEN_*. */
weft_layout weft_layout_set_open(weft_layout l, int axis, int kind);
/* Only coordinate `at` of `axis` (replicated so far) holds the value. */
weft_layout weft_layout_set_at(weft_layout l, int axis, int at);
/* Does the rank at coord hold the value? One that does not has neither memory for it nor the nodes
 * that make it. */
bool weft_layout_held(weft_layout l, const int coord[WEFT_MAX_AXES]);
/* Makes `axis` replicated; later axes of its dim move up. */
weft_layout weft_layout_clear(weft_layout l, int axis);

/* The half-open range [lo, hi) of a dim that a rank holds, and the nominal chunk (size of the
 * largest shard). Nested ceil: every axis cuts the previous one's nominal chunk, so that gathering
 * the last axis of the list gives exactly the shorter list's range. Last shards may be short or
 * empty. */
typedef struct weft_span {
    int64_t lo, hi, chunk;
} weft_span;

/* Of dim d, whose name and sizes are *dim, for the rank at coord. */
weft_span weft_layout_span(const weft_mesh *mesh, weft_layout l, const weft_dim *dim, int d,
                           const int coord[WEFT_MAX_AXES]);
/* The coordinates whose shard of dim d the rank at `coord` holds after `turn` shifts along the axes
 * that cut it: those of the rank that many places before it. */
void weft_layout_turn(const weft_mesh *mesh, weft_layout l, int d, int turn,
                      const int coord[WEFT_MAX_AXES], int out[WEFT_MAX_AXES]);
/* Elements in the largest shard: what buffers and collectives are sized by. */
int64_t weft_layout_elements(const weft_mesh *mesh, weft_layout l, int n_dims,
                             const weft_dim *dims);
/* Appends "[batch/dp_shard, seq/cp/tp, embed] +tp" to text; with_sizes adds global sizes. */
void weft_layout_print(const weft_mesh *mesh, weft_layout l, int n_dims, const weft_dim *dims,
                       bool with_sizes, weft_text *text);

/* ---- from one layout to another ---- */

typedef enum weft_move {
    WEFT_ALL_GATHER,     /* dim: the dim made whole over `axes` */
    WEFT_REDUCE_SCATTER, /* dim: the dim cut by the axes that were open */
    WEFT_ALL_REDUCE,
    WEFT_ALL_TO_ALL, /* dim: the dim made whole; to: the dim cut instead */
    WEFT_SLICE,      /* no communication: keep the part of `dim` that this rank owns */
    WEFT_ZERO, /* no communication: replicated, or held at one coordinate, becomes open; all but the
                  first rank of the axis, or the one that holds it, hold zero */
    WEFT_SEND, /* held at `dim` before, at `to` behind: those ranks send, these receive */
    WEFT_BROADCAST, /* held at `dim` becomes replicated */
    WEFT_KEEP,      /* no communication: replicated is held at `to` alone */
    WEFT_SHIFT      /* dim: every shard of it goes to the next rank of the axes that cut it, the
                       last to the first; not between layouts, which stay as they are */
} weft_move;

typedef struct weft_step {
    weft_move move;
    int n_axes,
        axes[WEFT_MAX_AXES]; /* in list order, the first slowest: the rank order of the group */
    int dim, to;             /* dims, or coordinates; -1 */
    weft_layout after;
} weft_step;

#define WEFT_MAX_STEPS 16

/* "all_gather", ... */
const char *weft_move_name(weft_move move);
/* The steps that turn layout `from` into `to`, into steps[]; returns how many, or -1 if there is no
 * way (open maximum to open sum, a cut over an axis to one of its coordinates). */
int weft_layout_steps(weft_layout from, weft_layout to, int n_dims,
                      weft_step steps[WEFT_MAX_STEPS]);
/* How many ranks have a part in a step. */
int weft_step_members(const weft_mesh *mesh, const weft_step *step);
/* Bytes that one rank sends in a step (ring algorithms, nominal chunks): PLACEMENT's table of
 * prices. */
int64_t weft_step_bytes(const weft_mesh *mesh, const weft_step *step, weft_layout before,
                        int n_dims, const weft_dim *dims, weft_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
