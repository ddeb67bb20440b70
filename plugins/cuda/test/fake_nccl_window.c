/* SPDX-License-Identifier: Apache-2.0 */
/* Symmetric windows of the fake NCCL. They are made by all ranks of a communicator together, on
 * memory that can be exported and of one size on all; their handles are there when
 * ncclCommGetAsyncError says so. Inside a window every collective must use the same places on all
 * ranks: NCCL believes that, and this one looks. */
#include "fake_nccl.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { SYMMETRIC = 1, ALIGNMENT = 4096, PAGE = 2 << 20 /* of NCCL 2.27 */ };

static int refuse(comm *c, int result, const char *why)
{
    c->why = why;
    fake_refuse(CUDA_ERROR_INVALID_VALUE, why);
    return result;
}

static void name_of(char *out, size_t size, const comm *c, const window *w, int rank)
{
    snprintf(out, size, "%s.w%d.%d", c->path, w->number, rank);
}

/* The n-th window at one of the ranks, of all that the process makes. */
static bool fails(const comm *c)
{
    static long asked;
    fake_count(&asked, 1);
    return c->world == fake_number("WEFT_FAKE_NCCL_RANK", 0) &&
           asked == fake_number("WEFT_FAKE_NCCL_WINDOW", 0);
}

EXPORT int ncclCommWindowRegister(comm *c, void *memory, size_t bytes, window **out, int flags)
{
    char name[256];
    *out = NULL;
    if (!fake_is_ready(c))
        return refuse(c, USAGE, "the communicator is not done with the last call");
    if (!fake_has_context() || !memory || !bytes || flags != SYMMETRIC)
        return refuse(c, ARGUMENT, "a window of nothing");
    if (fake_number("WEFT_FAKE_NCCL_WINDOWS", 1) == 0)
        return SUCCESS;
    if ((uintptr_t)memory % ALIGNMENT)
        return refuse(c, ARGUMENT, "a window that is not aligned");
    if (!fake_virtual_owns(memory, bytes, true))
        return refuse(c, UNHANDLED, "a window on memory that cannot be exported");
    if (!fake_virtual_begins(memory, PAGE))
        return refuse(c, ARGUMENT, "a window on memory that begins in the middle of a page");
    if (fails(c))
        return refuse(c, c->error = UNHANDLED, "this window fails, as it was told to");
    window *w = calloc(1, sizeof *w);
    *w = (window){.at = memory, .bytes = bytes, .number = c->n_windows++, .out = out};
    const head h = {.count = bytes};
    name_of(name, sizeof name, c, w, c->me);
    fake_write(name, &h, NULL, 0);
    c->opening = w;
    return PROGRESS;
}

/* Who aborts is heard of by those that wait for it. */
static bool is_gone(const comm *c, int rank)
{
    char name[256];
    snprintf(name, sizeof name, "%s.gone.%d", c->path, rank);
    return access(name, F_OK) == 0;
}

/* Are all there, and with the same size? */
int fake_open_window(comm *c)
{
    window *w = c->opening;
    char name[256];
    for (int r = 0; r < c->n; r++) {
        head h;
        size_t bytes;
        name_of(name, sizeof name, c, w, r);
        char *data = fake_read(name, &h, &bytes);
        if (!data)
            return is_gone(c, r) ? c->error = REMOTE : PROGRESS;
        free(data);
        if (h.count != w->bytes)
            return refuse(c, c->error = ARGUMENT, "a window of different sizes");
    }
    c->opening = NULL;
    w->next = c->windows;
    c->windows = w;
    *w->out = w;
    fake_count(&fake.windows, 1);
    fake_count(&fake.most_windows, 1);
    return SUCCESS;
}

EXPORT int ncclCommWindowDeregister(comm *c, window *w)
{
    window **at = &c->windows;
    while (*at && *at != w)
        at = &(*at)->next;
    if (!*at)
        return refuse(c, ARGUMENT, "a window that is none of this communicator's");
    if (c->issued != c->done || c->waits)
        return refuse(c, USAGE, "a window is closed under a collective");
    if (!fake_virtual_owns(w->at, w->bytes, true))
        return refuse(c, ARGUMENT, "memory was given back before its window was closed");
    *at = w->next;
    free(w);
    fake_count(&fake.windows, -1);
    return SUCCESS;
}

void fake_drop_windows(comm *c)
{
    for (window *w = c->windows, *next; w; w = next) {
        next = w->next;
        free(w);
        fake.windows--;
    }
    c->windows = NULL;
}

place fake_place(const comm *c, const void *memory, size_t bytes)
{
    const char *at = memory;
    for (const window *w = c->windows; w && bytes; w = w->next)
        if (at < w->at + w->bytes && at + bytes > w->at)
            return (place){w->number, at - w->at};
    return (place){-1, 0};
}
