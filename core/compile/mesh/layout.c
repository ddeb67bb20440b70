/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/mesh.h>

#include <string.h>

static weft_layout set_byte(weft_layout l, int axis, unsigned byte)
{
    l.bits &= ~((uint64_t)0xff << (8 * axis));
    l.bits |= (uint64_t)byte << (8 * axis);
    return l;
}

static int place_of(weft_layout l, int axis)
{
    return (int)weft_layout_byte(l, axis) & 7;
}

weft_axes weft_layout_open_axes(weft_layout l)
{
    weft_axes set = 0;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(l, a))
            set |= 1u << a;
    return set;
}

weft_axes weft_layout_cut_axes(weft_layout l)
{
    weft_axes set = 0;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_cuts(l, a))
            set |= 1u << a;
    return set;
}

int weft_layout_list(weft_layout l, int d, int list[WEFT_MAX_AXES])
{
    int n = 0;
    for (int a = 0; a < WEFT_MAX_AXES; a++) {
        if (!weft_layout_cuts(l, a) || weft_layout_dim(l, a) != d)
            continue;
        list[place_of(l, a)] = a;
        n++;
    }
    return n;
}

int weft_layout_pieces(const weft_mesh *mesh, weft_layout l, int d)
{
    int list[WEFT_MAX_AXES], pieces = 1;
    for (int i = weft_layout_list(l, d, list) - 1; i >= 0; i--)
        pieces *= mesh->axis[list[i]].size;
    return pieces;
}

weft_layout weft_layout_cut(weft_layout l, int d, int axis, bool fine)
{
    int list[WEFT_MAX_AXES], place = weft_layout_list(l, d, list);
    return set_byte(l, axis, 0x80u | (fine ? 0x40u : 0) | (unsigned)d << 3 | (unsigned)place);
}

weft_layout weft_layout_set_open(weft_layout l, int axis, int kind)
{
    return set_byte(weft_layout_clear(l, axis), axis, (unsigned)kind);
}

weft_layout weft_layout_set_at(weft_layout l, int axis, int at)
{
    return set_byte(weft_layout_clear(l, axis), axis, 0x40u | (unsigned)at);
}

bool weft_layout_held(weft_layout l, const int coord[WEFT_MAX_AXES])
{
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_at(l, a) >= 0 && weft_layout_at(l, a) != coord[a])
            return false;
    return true;
}

weft_layout weft_layout_clear(weft_layout l, int axis)
{
    if (weft_layout_cuts(l, axis)) {
        int d = weft_layout_dim(l, axis), place = place_of(l, axis);
        for (int a = 0; a < WEFT_MAX_AXES; a++)
            if (weft_layout_cuts(l, a) && weft_layout_dim(l, a) == d && place_of(l, a) > place)
                l = set_byte(l, a, weft_layout_byte(l, a) - 1);
    }
    return set_byte(l, axis, 0);
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The nominal chunk after one more axis: whole grains, unless the cut is fine. */
static int64_t cut_chunk(int64_t chunk, const weft_dim *dim, bool fine, int size)
{
    if (fine || dim->grain <= 1)
        return ceil_div(chunk, size);
    return ceil_div(ceil_div(chunk, dim->grain), size) * dim->grain;
}

weft_span weft_layout_span(const weft_mesh *mesh, weft_layout l, const weft_dim *dim, int d,
                           const int coord[WEFT_MAX_AXES])
{
    int list[WEFT_MAX_AXES], n = weft_layout_list(l, d, list);
    weft_span s = {0, dim->size, dim->size};
    for (int i = 0; i < n; i++) {
        s.chunk = cut_chunk(s.chunk, dim, weft_layout_fine(l, list[i]), mesh->axis[list[i]].size);
        s.lo += coord[list[i]] * s.chunk;
        if (s.hi > s.lo + s.chunk)
            s.hi = s.lo + s.chunk;
    }
    if (s.lo > s.hi)
        s.lo = s.hi;
    return s;
}

void weft_layout_turn(const weft_mesh *mesh, weft_layout l, int d, int turn,
                      const int coord[WEFT_MAX_AXES], int out[WEFT_MAX_AXES])
{
    int list[WEFT_MAX_AXES], n = weft_layout_list(l, d, list), place = 0, count = 1;
    memcpy(out, coord, sizeof(int) * WEFT_MAX_AXES);
    for (int i = 0; i < n; i++) {
        place = place * mesh->axis[list[i]].size + coord[list[i]];
        count *= mesh->axis[list[i]].size;
    }
    place = ((place - turn) % count + count) % count;
    for (int i = n - 1; i >= 0; i--) {
        out[list[i]] = place % mesh->axis[list[i]].size;
        place /= mesh->axis[list[i]].size;
    }
}

int64_t weft_layout_elements(const weft_mesh *mesh, weft_layout l, int n_dims, const weft_dim *dims)
{
    static const int origin[WEFT_MAX_AXES];
    int64_t total = 1;
    for (int d = 0; d < n_dims; d++)
        total *= weft_layout_span(mesh, l, &dims[d], d, origin).chunk;
    return total;
}
