/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a block are fibers: each has a stack and runs until it waits. Shuffles and matrix
 * instructions wait for the 32 lanes of a warp; the last one to come does the work of all. */
#include "emulate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* Stacks do not begin a power of two apart: those of a warp would share the cache's sets. */
enum { MOST_THREADS = 1024, LANES = 32, STACK = (64 << 10) + 11 * 64, TOP = 2 << 10 };
enum { MOST_COPIES = 128, COPIED = 16 };

typedef enum state { READY, AT_BARRIER, AT_WARP, DONE } state;

typedef struct place {
    const char *file;
    int line;
} place;

/* Of a thread, under way. */
typedef struct copies {
    struct {
        void *to;
        const void *from; /* NULL: zeros */
    } list[MOST_COPIES];
    int n;
    place at; /* of the last */
} copies;

typedef struct fiber {
#ifdef __x86_64__
    void *sp;
#else
    ucontext_t context;
#endif
    void *fake_stack;
    state state;
    place at;
    emulate_size index;
} fiber;

/* What the lanes of a warp bring to the operation at hand. */
typedef struct warp {
    int arrived, what;
    place at;
    const void *mine[LANES];
    void *theirs[LANES];
    int lane[LANES];
    uint32_t b[LANES][2];
    size_t size;
} warp;

enum { BARRIER, SHUFFLE, MATRIX, MATRIX_TRANSPOSED, PRODUCT };

static const emulate_watch nobody; /* all NULL */

/* What touches nothing but the emulator's own, and what the lanes' brought, which was checked when
 * they did: the sanitizers would take most of a test's time. */
#define PLAINLY __attribute__((no_sanitize("address", "undefined")))

/* One launch at a time. */
static struct {
    const emulate_launch *launch;
    emulate_watch watch;
    emulate_size block;
    int n, now, left; /* threads of a block; which runs; how many have not ended */
    fiber fibers[MOST_THREADS], scheduler;
    warp warps[MOST_THREADS / LANES];
    copies copies[MOST_THREADS];
    int order[MOST_THREADS];
    unsigned char *stacks, *shared;
    const void *outer_stack; /* of whoever called emulate_run */
    size_t outer_size;
    uint64_t seed;
    bool gave_up; /* fibers have not ended */
    bool told;    /* AddressSanitizer, of each switch */
    double flops; /* of matrix instructions, of all launches */
    char error[256];
} g;

/* ---- switching ---- */

PLAINLY static unsigned char *stack_of(const fiber *f)
{
    return g.stacks + (size_t)(f - g.fibers) * STACK;
}

#ifdef __x86_64__
/* Saves what a called function must keep, and goes on where `to` was saved. */
void emulate_switch(void **from, void *to);
__asm__(".text\n"
        ".globl emulate_switch\n"
        ".hidden emulate_switch\n"
        ".type emulate_switch, @function\n"
        "emulate_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size emulate_switch, . - emulate_switch\n");
#endif

/* AddressSanitizer is told of the switch where it keeps frames apart from the stack
 * (detect_stack_use_after_return); else it would only describe an address better, and takes a
 * fourth of the time. */
PLAINLY static void jump(fiber *from, fiber *to)
{
#ifdef __SANITIZE_ADDRESS__
    bool out = to == &g.scheduler;
    if (g.told)
        __sanitizer_start_switch_fiber(from->state == DONE ? NULL : &from->fake_stack,
                                       out ? g.outer_stack : stack_of(to),
                                       out ? g.outer_size : STACK);
#endif
#ifdef __x86_64__
    emulate_switch(&from->sp, to->sp);
#else
    swapcontext(&from->context, &to->context);
#endif
#ifdef __SANITIZE_ADDRESS__
    if (g.told)
        __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

/* Where lanes take turns, the next one of the warp that can go on; else the scheduler, which
 * chooses among all. */
PLAINLY static fiber *next_lane(void)
{
    const int first = g.now / LANES * LANES, step = g.launch->order == 1 ? LANES - 1 : 1;
    for (int i = g.launch->order > 1 ? LANES : 1, lane = g.now % LANES; i < LANES; i++) {
        lane = (lane + step) % LANES;
        if (g.fibers[first + lane].state == READY) {
            g.now = first + lane;
            return &g.fibers[g.now];
        }
    }
    return &g.scheduler;
}

PLAINLY static void wait_as(state s)
{
    fiber *f = &g.fibers[g.now];
    f->state = s;
    jump(f, *g.error ? &g.scheduler : next_lane());
}

static void complain(const char *what, place a, place b);

static void body(void)
{
#ifdef __SANITIZE_ADDRESS__
    if (g.told)
        __sanitizer_finish_switch_fiber(NULL, &g.outer_stack, &g.outer_size);
#endif
    g.launch->kernel(g.launch->args);
    g.fibers[g.now].at = (place){NULL, 0};
    if (g.copies[g.now].n)
        complain("a thread ends before what it copies is there", g.copies[g.now].at, (place){0});
    g.left--;
    wait_as(DONE);
}

static void begin_fiber(int i)
{
    fiber *f = &g.fibers[i];
    emulate_size size = g.launch->block;
    unsigned u = (unsigned)i;
    f->state = READY;
    f->fake_stack = NULL;
    f->at = (place){NULL, 0};
    g.copies[i].n = 0;
    f->index = (emulate_size){u % size.x, u / size.x % size.y, u / size.x / size.y};
#ifdef __SANITIZE_ADDRESS__
    /* What ended left only its first frames; what was given up may have left any. */
    size_t used = g.gave_up ? STACK : TOP;
    __asan_unpoison_memory_region(stack_of(f) + STACK - used, used);
#endif
#ifdef __x86_64__
    void **top = (void **)(void *)(stack_of(f) + STACK);
    top -= 2; /* so that the stack is aligned as behind a call */
    *top = (void *)body;
    top -= 6;
    memset(top, 0, 6 * sizeof *top);
    f->sp = top;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack_of(f);
    f->context.uc_stack.ss_size = STACK;
    makecontext(&f->context, body, 0);
#endif
}

/* ---- what threads ask ---- */

PLAINLY const emulate_size *emulate_thread_index(void)
{
    return &g.fibers[g.now].index;
}

const emulate_size *emulate_block_index(void)
{
    return &g.block;
}

const emulate_size *emulate_block_size(void)
{
    return &g.launch->block;
}

const emulate_size *emulate_grid_size(void)
{
    return &g.launch->grid;
}

unsigned char *emulate_dynamic_shared(void)
{
    return g.shared;
}

static void complain(const char *what, place a, place b)
{
    if (!*g.error)
        snprintf(g.error, sizeof g.error, "%s: %s:%d and %s:%d, block %u %u %u", what,
                 a.file ? a.file : "the end", a.line, b.file ? b.file : "the end", b.line,
                 g.block.x, g.block.y, g.block.z);
}

void emulate_fail(const char *format, ...)
{
    va_list values;
    if (*g.error)
        return;
    va_start(values, format);
    vsnprintf(g.error, sizeof g.error, format, values);
    va_end(values);
}

int emulate_thread(void)
{
    return g.now;
}

static bool lies_in(const void *p, const void *memory, size_t size)
{
    return (uintptr_t)p - (uintptr_t)memory < size;
}

bool emulate_is_private(const void *p)
{
    return lies_in(p, g.stacks, (size_t)MOST_THREADS * STACK) || lies_in(p, &g, sizeof g) ||
           lies_in(p, g.launch, sizeof *g.launch) ||
           lies_in(p, g.launch->args, g.launch->args_bytes);
}

int32_t emulate_atomic_min(int32_t *to, int32_t x)
{
    int32_t was = *to;
    if (g.watch.atomic)
        g.watch.atomic(to, sizeof *to);
    *to = x < was ? x : was;
    return was;
}

PLAINLY void emulate_barrier(const char *file, int line)
{
    g.fibers[g.now].at = (place){file, line};
    wait_as(AT_BARRIER);
}

void emulate_copy_ahead(void *to, const void *from, bool there, int line)
{
    copies *c = &g.copies[g.now];
    const place here = {"copy_ahead", line};
    if ((uintptr_t)to % COPIED || (there && (uintptr_t)from % COPIED))
        complain("what is copied is not aligned to 16 bytes", here, here);
    if (c->n == MOST_COPIES) {
        complain("a thread copies more than the emulator remembers", here, here);
        return;
    }
    if (g.watch.copy)
        g.watch.copy(to, there ? from : NULL, COPIED);
    memset(to, 0xff, COPIED); /* NaN */
    c->list[c->n].to = to;
    c->list[c->n++].from = there ? from : NULL;
    c->at = here;
}

void emulate_copies_wait(void)
{
    copies *c = &g.copies[g.now];
    for (int i = 0; i < c->n; i++)
        if (c->list[i].from)
            memcpy(c->list[i].to, c->list[i].from, COPIED);
        else
            memset(c->list[i].to, 0, COPIED);
    c->n = 0;
}

/* ---- warps ---- */

PLAINLY static inline float half(const void *row, int i)
{
    union {
        uint32_t u;
        float f;
    } v = {(uint32_t)((const uint16_t *)row)[i] << 16};
    return v.f;
}

PLAINLY static void do_matrix(warp *w, bool transposed)
{
    for (int lane = 0; lane < LANES; lane++)
        for (int m = 0; m < 4; m++) {
            uint16_t pair[2];
            for (int k = 0; k < 2; k++) {
                int row = transposed ? 2 * (lane % 4) + k : lane / 4;
                int column = transposed ? lane / 4 : 2 * (lane % 4) + k;
                memcpy(&pair[k], (const unsigned char *)w->mine[8 * m + row] + 2 * column, 2);
            }
            ((uint32_t *)w->theirs[lane])[m] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
        }
}

PLAINLY static void do_product(warp *w)
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < LANES; lane++)
        for (int r = 0; r < 4; r++)
            for (int k = 0; k < 2; k++) {
                int row = lane / 4 + 8 * (r & 1), column = 2 * (lane % 4) + k + 8 * (r >> 1);
                a[row][column] = half((const uint32_t *)w->mine[lane] + r, k);
                if (r < 2)
                    b[2 * (lane % 4) + k + 8 * r][lane / 4] = half(&w->b[lane][r], k);
            }
    for (int lane = 0; lane < LANES; lane++)
        for (int r = 0; r < 4; r++) {
            int row = lane / 4 + 8 * (r >> 1), column = 2 * (lane % 4) + (r & 1);
            float *c = (float *)w->theirs[lane] + r;
            for (int k = 0; k < 16; k++)
                *c += a[row][k] * b[k][column];
        }
}

PLAINLY static void do_shuffle(warp *w)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (w->size == 4) /* nearly all; a call for each would be most of it */
            memcpy(w->theirs[lane], w->mine[w->lane[lane]], 4);
        else
            memcpy(w->theirs[lane], w->mine[w->lane[lane]], w->size);
    }
}

PLAINLY static void do_together(warp *w)
{
    switch (w->what) {
    case SHUFFLE:
        do_shuffle(w);
        break;
    case MATRIX:
    case MATRIX_TRANSPOSED:
        do_matrix(w, w->what == MATRIX_TRANSPOSED);
        break;
    case PRODUCT:
        do_product(w);
        break;
    default:
        break;
    }
}

/* The calling lane has brought its part: waits for the others. What a lane brings lies on its own
 * stack, where it stays until all have come. */
PLAINLY static void meet(int what, const char *file, int line)
{
    warp *w = &g.warps[g.now / LANES];
    place here = {file, line};
    if (w->arrived && (w->what != what || w->at.line != line || w->at.file != file))
        complain("lanes of a warp do different things together", w->at, here);
    w->what = what;
    w->at = here;
    /* not a copy of what was just written: that waits for the processor's stores */
    g.fibers[g.now].at.file = file;
    g.fibers[g.now].at.line = line;
    if (++w->arrived < LANES) {
        wait_as(AT_WARP);
        return;
    }
    do_together(w);
    if (what == BARRIER && g.watch.warp_barrier)
        g.watch.warp_barrier(g.now / LANES);
    w->arrived = 0;
    for (int i = g.now / LANES * LANES, end = i + LANES; i < end; i++)
        g.fibers[i].state = READY;
}

void emulate_warp_barrier(const char *file, int line)
{
    meet(BARRIER, file, line);
}

PLAINLY void emulate_shuffle(const void *mine, void *theirs, size_t size, int lane,
                             const char *file, int line)
{
    warp *w = &g.warps[g.now / LANES];
    int me = g.now % LANES;
    w->mine[me] = mine;
    w->theirs[me] = theirs;
    w->lane[me] = lane;
    w->size = size;
    meet(SHUFFLE, file, line);
}

void emulate_ldmatrix(uint32_t *r, const void *row, bool transposed, int line)
{
    warp *w = &g.warps[g.now / LANES];
    if ((uintptr_t)row % 16 != 0)
        complain("a row of ldmatrix is not aligned to 16 bytes", (place){"ldmatrix", line},
                 (place){"ldmatrix", line});
    for (int i = 0; i < 16; i += 15) /* where the sanitizer sees it */
        (void)((const volatile unsigned char *)row)[i];
    if (g.watch.matrix_row)
        g.watch.matrix_row(row, g.now / LANES);
    w->mine[g.now % LANES] = row;
    w->theirs[g.now % LANES] = r;
    meet(transposed ? MATRIX_TRANSPOSED : MATRIX, "ldmatrix", line);
}

void emulate_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int line)
{
    warp *w = &g.warps[g.now / LANES];
    int me = g.now % LANES;
    g.flops += 2.0 * 16 * 8 * 16 / LANES;
    w->mine[me] = a;
    w->theirs[me] = c;
    w->b[me][0] = b0;
    w->b[me][1] = b1;
    meet(PRODUCT, "mma", line);
}

double emulate_flops(void)
{
    return g.flops;
}

/* ---- a block ---- */

/* All wait for each other at one place, or something is wrong. */
PLAINLY static void open_barrier(void)
{
    for (int i = 1; i < g.n; i++)
        if (g.fibers[i].state != AT_BARRIER || g.fibers[0].state != AT_BARRIER ||
            g.fibers[i].at.line != g.fibers[0].at.line ||
            g.fibers[i].at.file != g.fibers[0].at.file) {
            complain("threads of a block do not meet", g.fibers[0].at, g.fibers[i].at);
            return;
        }
    for (int i = 0; i < g.n; i++)
        g.fibers[i].state = READY;
    if (g.watch.barrier)
        g.watch.barrier();
}

PLAINLY static uint64_t next_random(void)
{
    g.seed = g.seed * 6364136223846793005u + 1442695040888963407u;
    return g.seed >> 33;
}

static void set_order(void)
{
    for (int i = 0; i < g.n; i++)
        g.order[i] = g.launch->order == 1 ? g.n - 1 - i : i;
}

PLAINLY static bool is_shuffled(void)
{
    return g.launch->order > 1;
}

PLAINLY static void shuffle(void)
{
    for (int i = g.n - 1; i > 0; i--) {
        int j = (int)(next_random() * (uint64_t)(i + 1) >> 31), t = g.order[i];
        g.order[i] = g.order[j];
        g.order[j] = t;
    }
}

/* Threads of these warps that can go on do so until they wait; how many did. */
PLAINLY static int run_warps(uint32_t warps)
{
    int ran = 0;
    for (int i = 0; i < g.n && !*g.error; i++) {
        fiber *f = &g.fibers[g.order[i]];
        if (f->state != READY || !(warps >> g.order[i] / LANES & 1))
            continue;
        ran++;
        g.now = g.order[i];
        jump(&g.scheduler, f);
    }
    return ran;
}

static void run_block(void)
{
    g.left = g.n;
    for (int i = 0; i < g.n; i++)
        begin_fiber(i);
    for (int i = 0; i < MOST_THREADS / LANES; i++)
        g.warps[i].arrived = 0;
    g.gave_up = false;
    while (g.left > 0 && !*g.error) {
        if (is_shuffled()) {
            shuffle();
            run_warps((uint32_t)next_random());
        }
        if (run_warps(is_shuffled() ? (uint32_t)next_random() : UINT32_MAX) == 0 &&
            run_warps(UINT32_MAX) == 0 && g.left > 0 && !*g.error)
            open_barrier();
    }
    g.gave_up = g.left > 0;
}

/* A walk over all blocks in steps that have no divisor in common with their number. */
static uint64_t block_step(uint64_t blocks)
{
    for (;;) {
        uint64_t step = 1 + next_random() % blocks, a = step, b = blocks;
        while (b > 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

static bool begin(const emulate_launch *launch)
{
    g.launch = launch;
    g.watch = launch->watch ? *launch->watch : nobody;
    g.n = (int)(launch->block.x * launch->block.y * launch->block.z);
    g.seed = launch->order;
#ifdef __SANITIZE_ADDRESS__
    g.told = __asan_get_current_fake_stack() != NULL;
#endif
    *g.error = '\0';
    if (!g.stacks) {
        g.stacks = mmap(NULL, (size_t)MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (g.stacks == MAP_FAILED)
            return false;
    }
    g.shared = aligned_alloc(128, (launch->shared_bytes + 127) / 128 * 128 + 128);
    return g.shared != NULL;
}

static const char *reason(const emulate_launch *l)
{
    unsigned n = l->block.x * l->block.y * l->block.z;
    if (n == 0 || n > MOST_THREADS || n % LANES != 0)
        return "a block must have 32 to 1024 threads, in whole warps";
    if (l->grid.x == 0 || l->grid.y == 0 || l->grid.z == 0)
        return "an empty grid";
    return NULL;
}

const char *emulate_run(const emulate_launch *launch)
{
    emulate_size grid = launch->grid;
    uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    const char *wrong = reason(launch);
    if (wrong)
        return wrong;
    if (!begin(launch))
        return "out of memory";
#ifdef __SANITIZE_ADDRESS__
    unsigned char *end = g.shared + launch->shared_bytes;
    __asan_poison_memory_region(end, 128);
#endif
    uint64_t step = is_shuffled() ? block_step(blocks) : 1, from = is_shuffled() ? g.seed : 0;
    uint64_t some = launch->last_blocks;
    if (g.watch.launch)
        g.watch.launch(launch, g.shared);
    for (uint64_t i = some && some < blocks ? blocks - some : 0; i < blocks && !*g.error; i++) {
        uint64_t b = launch->order == 1 ? blocks - 1 - i : (from % blocks + i * step) % blocks;
        g.block = (emulate_size){(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y),
                                 (unsigned)(b / grid.x / grid.y)};
        memset(g.shared, 0xff, launch->shared_bytes); /* NaN */
        set_order();
        if (g.watch.block)
            g.watch.block();
        run_block();
    }
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(end, 128);
#endif
    free(g.shared);
    return *g.error ? g.error : NULL;
}
