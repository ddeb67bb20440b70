/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/mesh.h>

#include <string.h>

int weft_mesh_find(const weft_mesh *mesh, const char *name)
{
    for (int i = 0; i < mesh->n_axes; i++)
        if (strcmp(mesh->axis[i].name, name) == 0)
            return i;
    return -1;
}

int64_t weft_mesh_count(const weft_mesh *mesh, weft_axes axes)
{
    int64_t n = 1;
    for (int i = 0; i < mesh->n_axes; i++)
        if (axes >> i & 1u)
            n *= mesh->axis[i].size;
    return n;
}

void weft_mesh_coord(const weft_mesh *mesh, int rank, int coord[WEFT_MAX_AXES])
{
    memset(coord, 0, sizeof(int) * WEFT_MAX_AXES);
    for (int i = 0; i < mesh->n_axes; i++) {
        coord[i] = rank % mesh->axis[i].size;
        rank /= mesh->axis[i].size;
    }
}
