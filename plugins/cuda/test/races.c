/* SPDX-License-Identifier: Apache-2.0 */
/* Of each byte: who wrote it last, and two that have read it. That is enough: what came before has
 * been compared with the last write, and of three threads that read without a barrier between
 * them, two are chosen so that whatever thread writes next conflicts with one of them. */
#include "races.h"

#include <stdlib.h>

enum { LANES = 32, MOST_WARPS = 32, WHOLE_WARP = 1024, SEVERAL = -1 };

typedef struct access {
    uint32_t interval;      /* between two barriers of a block; 0: never */
    uint32_t warp_interval; /* between two of the warp's, inside an interval */
    uint32_t code;          /* where, in bytes from the program's start */
    int16_t thread;         /* or WHOLE_WARP + warp: any of its threads; or SEVERAL */
    bool atomic;
} access;

typedef struct cell {
    access write, reads[2];
    /* The last block that did, and one before it; counted over all launches. */
    uint32_t writing_block, written_before, reading_block, read_before;
} cell;

enum { PAGE = 256 };

typedef struct page {
    uintptr_t number; /* address / PAGE */
    cell *cells;
} page;

/* One launch at a time, as the emulator. */
static struct {
    page *pages; /* by hash */
    size_t n_pages, room;
    page last;
    uint32_t interval, block, first_block; /* of this launch */
    uint32_t warp_intervals[MOST_WARPS];
    const unsigned char *shared; /* of the size that the launch says */
    size_t shared_bytes;
    uint64_t seen;
} g;

/* Of the linker: variables, shared memory of fixed size among them. */
extern const unsigned char __executable_start[], __data_start[], _end[];

uint64_t races_seen(void)
{
    return g.seen;
}

/* ---- cells ---- */

static page *find_slot(uintptr_t number)
{
    size_t i = (size_t)(number * 0x9e3779b97f4a7c15u >> 20) & (g.room - 1);
    while (g.pages[i].cells && g.pages[i].number != number)
        i = (i + 1) & (g.room - 1);
    return &g.pages[i];
}

static bool grow(void)
{
    page *old = g.pages;
    size_t was = g.room;
    page *larger = calloc(was ? 2 * was : 1024, sizeof *larger);
    if (!larger)
        return false;
    g.pages = larger;
    g.room = was ? 2 * was : 1024;
    for (size_t i = 0; i < was; i++)
        if (old[i].cells)
            *find_slot(old[i].number) = old[i];
    free(old);
    return true;
}

static cell *cell_of(uintptr_t at)
{
    uintptr_t number = at / PAGE;
    if (g.last.cells && g.last.number == number)
        return &g.last.cells[at % PAGE];
    if (2 * g.n_pages >= g.room && !grow())
        return NULL;
    page *slot = find_slot(number);
    if (!slot->cells) {
        slot->cells = calloc(PAGE, sizeof *slot->cells);
        slot->number = number;
        g.n_pages++;
    }
    g.last = *slot;
    return slot->cells ? &slot->cells[at % PAGE] : NULL;
}

/* ---- what may not happen ---- */

static int warp_of(int thread)
{
    return thread >= WHOLE_WARP ? thread - WHOLE_WARP : thread / LANES;
}

/* Has nothing ordered this one before what happens now? */
static bool is_open(const access *a, const access *now)
{
    if (a->interval != now->interval || (a->thread == now->thread && a->thread < WHOLE_WARP))
        return false;
    return a->thread == SEVERAL || now->thread == SEVERAL ||
           warp_of(a->thread) != warp_of(now->thread) || a->warp_interval >= now->warp_interval;
}

static bool is_dynamic(uintptr_t at)
{
    return at - (uintptr_t)g.shared < g.shared_bytes;
}

static bool is_shared(uintptr_t at)
{
    return is_dynamic(at) || (at >= (uintptr_t)__data_start && at < (uintptr_t)_end);
}

static void complain(const char *what, uintptr_t at, const access *now, const access *before)
{
    const emulate_size *b = emulate_block_index();
    emulate_fail("%s: byte %#zx of %s memory, thread %d (code at +%#x) and thread %d (+%#x), block "
                 "%u %u %u",
                 what, (size_t)(is_dynamic(at) ? at - (uintptr_t)g.shared : at),
                 is_shared(at) ? "shared" : "global", (int)now->thread, (unsigned)now->code,
                 (int)before->thread, (unsigned)before->code, b->x, b->y, b->z);
}

/* Another block of this launch, whose part may come before or behind. */
static bool is_other(uint32_t block)
{
    return block >= g.first_block && block != g.block;
}

static void check_write(const cell *c, uintptr_t at, const access *now)
{
    bool both = now->atomic && c->write.atomic;
    if (is_open(&c->write, now) && !both)
        complain("two threads write with no barrier between", at, now, &c->write);
    for (int i = 0; i < 2; i++)
        if (is_open(&c->reads[i], now))
            complain("written where it was read, with no barrier between", at, now, &c->reads[i]);
    if (is_shared(at))
        return;
    if (is_other(c->writing_block) && !both)
        complain("two blocks write", at, now, &c->write);
    if (is_other(c->reading_block) || is_other(c->read_before))
        complain("written where another block has read", at, now, &c->reads[0]);
}

static void check_read(const cell *c, uintptr_t at, const access *now)
{
    if (is_open(&c->write, now))
        complain("read where it was written, with no barrier between", at, now, &c->write);
    if (!is_shared(at)) {
        if (is_other(c->writing_block) || is_other(c->written_before))
            complain("read where another block has written", at, now, &c->write);
    } else if (c->writing_block != g.block) {
        complain("read and never written", at, now, &c->write);
    }
}

/* ---- what has happened ---- */

static void keep_write(cell *c, const access *now)
{
    bool joins = now->atomic && is_open(&c->write, now);
    c->write = *now;
    if (joins)
        c->write.thread = SEVERAL;
    if (c->writing_block != g.block)
        c->written_before = c->writing_block;
    c->writing_block = g.block;
}

static void keep_read(cell *c, const access *now)
{
    access *r = c->reads;
    if (c->reading_block != g.block)
        c->read_before = c->reading_block;
    c->reading_block = g.block;
    for (int i = 0; i < 2; i++)
        if (r[i].interval != now->interval || r[i].thread == now->thread) {
            r[i] = *now;
            return;
        }
    if (warp_of(r[0].thread) != warp_of(r[1].thread))
        return; /* every writer conflicts with one of them already */
    int older = r[0].warp_interval <= r[1].warp_interval ? 0 : 1;
    r[older] = *now;
}

static void look_at_byte(cell *c, uintptr_t at, const access *now, bool writes)
{
    if (writes) {
        check_write(c, at, now);
        keep_write(c, now);
    } else {
        check_read(c, at, now);
        keep_read(c, now);
    }
}

static void look(uintptr_t from, size_t size, access now, bool writes)
{
    g.seen++;
    for (uintptr_t at = from, end = from + size; at < end;) {
        cell *c = cell_of(at);
        if (!c) {
            emulate_fail("out of memory for what is known of each byte");
            return;
        }
        do
            look_at_byte(c++, at++, &now, writes);
        while (at < end && at % PAGE != 0);
    }
}

static void happens(const void *p, size_t size, bool writes, bool atomic, const void *code)
{
    uintptr_t at = (uintptr_t)p;
    int thread = emulate_thread();
    if (emulate_is_private(p))
        return;
    access now = {.interval = g.interval,
                  .warp_interval = g.warp_intervals[thread / LANES],
                  .code = (uint32_t)((uintptr_t)code - (uintptr_t)__executable_start),
                  .thread = (int16_t)thread,
                  .atomic = atomic};
    look(at, size, now, writes);
}

/* ---- what the emulator tells ---- */

static void begin_interval(void)
{
    g.interval++;
    for (int i = 0; i < MOST_WARPS; i++)
        g.warp_intervals[i] = 0;
}

static void begin_launch(const emulate_launch *launch, const unsigned char *shared)
{
    g.first_block = g.block + 1;
    g.shared = shared;
    g.shared_bytes = launch->shared_bytes;
}

static void begin_block(void)
{
    g.block++;
    begin_interval();
}

static void pass_warp_barrier(int warp)
{
    g.warp_intervals[warp]++;
}

/* What a lane names all lanes get. */
static void read_matrix_row(const void *row, int warp)
{
    access now = {.interval = g.interval,
                  .warp_interval = g.warp_intervals[warp],
                  .thread = (int16_t)(WHOLE_WARP + warp)};
    look((uintptr_t)row, 16, now, false);
}

static void change_atomically(const void *to, size_t size)
{
    happens(to, size, true, true, __builtin_return_address(0));
}

static void copy_ahead(const void *to, const void *from, size_t size)
{
    if (from)
        happens(from, size, false, false, __builtin_return_address(0));
    happens(to, size, true, false, __builtin_return_address(0));
}

const emulate_watch races_watch = {.launch = begin_launch,
                                   .block = begin_block,
                                   .barrier = begin_interval,
                                   .warp_barrier = pass_warp_barrier,
                                   .matrix_row = read_matrix_row,
                                   .atomic = change_atomically,
                                   .copy = copy_ahead};

/* ---- what the compiler calls ---- */

#define ACCESS(name, size, writes)                                                                 \
    void __tsan_##name(const void *p);                                                             \
    void __tsan_##name(const void *p)                                                              \
    {                                                                                              \
        happens(p, size, writes, false, __builtin_return_address(0));                              \
    }
#define BOTH(size)                                                                                 \
    ACCESS(read##size, size, false)                                                                \
    ACCESS(write##size, size, true)
BOTH(1)
BOTH(2)
BOTH(4)
BOTH(8)
BOTH(16)
#define UNALIGNED(size)                                                                            \
    ACCESS(unaligned_read##size, size, false)                                                      \
    ACCESS(unaligned_write##size, size, true)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

#define RANGE(name, writes)                                                                        \
    void __tsan_##name##_range(const void *p, size_t size);                                        \
    void __tsan_##name##_range(const void *p, size_t size)                                         \
    {                                                                                              \
        happens(p, size, writes, false, __builtin_return_address(0));                              \
    }
RANGE(read, false)
RANGE(write, true)

void __tsan_init(void), __tsan_func_entry(void *caller), __tsan_func_exit(void);

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void)
{
}
