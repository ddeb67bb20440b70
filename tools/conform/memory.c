/* SPDX-License-Identifier: Apache-2.0 */
/* What hooks and passes do when memory is short, and what they leave behind. */
#include "conform.h"

#include "host/enter.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 60, ROUNDS = 12, SETTLED = 4, MOST_FAILURES = 24 };

void conform_count_exactly(char **argv)
{
    static const char key[] = "GLIBC_TUNABLES", none[] = "glibc.malloc.tcache_count=0";
    const char *given = getenv(key);
    if (given && strstr(given, "glibc.malloc.tcache_count"))
        return; /* somebody knows better, or we have been here */
    char *all = weft_format("%s%s%s", given ? given : "", given ? ":" : "", none);
    if (all && setenv(key, all, 1) == 0)
        execv("/proc/self/exe", argv); /* if this fails, more is said to be in use */
    weft_free(all);
}

static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* What is done again and again: where it may be short of memory, and what it leaves behind. */
typedef struct work {
    const char *who;   /* "plugin" */
    const char *what;  /* "create, passes and destroy" */
    const char *undo;  /* what to mend where something stays */
    const char *count; /* "rounds of create and destroy" */
    weft_status (*round)(const struct work *w, weft_error *err);
    const conform *c;
    const conform_case *k; /* of a run; NULL: the kernel's prepare */
    const weft_kernel *kernel;
    const weft_call *call;
} work;

/* create, all passes, destroy. */
static weft_status plan_once(const work *w, weft_error *err)
{
    conform_plan p;
    weft_status s = conform_plan_init(&p, w->c, w->k, err);
    conform_plan_release(&p);
    return s;
}

static weft_status prepare_once(const work *w, weft_error *err)
{
    void *state = NULL;
    const weft_entry entry = weft_enter_op(w->c->plugin, "prepare", w->kernel->op, err);
    weft_status s = weft_leave(&entry, w->kernel->prepare(w->call, &state, err));
    if (!s && w->kernel->release)
        w->kernel->release(state);
    return s;
}

static void run_round(const work *w)
{
    weft_error err = {0};
    w->round(w, &err);
    weft_error_release(&err);
}

/* Bytes that each round leaves. The first ones set things up for good. */
static size_t leaks(const work *w, int *rounds)
{
    size_t least = SIZE_MAX;
    for (*rounds = 0; *rounds < SETTLED; ++*rounds)
        run_round(w);
    for (size_t before = in_use(); *rounds < SETTLED + ROUNDS && least > 0; ++*rounds) {
        run_round(w);
        const size_t now = in_use(), more = now > before ? now - before : 0;
        least = more < least ? more : least;
        before = now;
    }
    return least;
}

static void check_leak(const work *w)
{
    conform_now(w->c, "%s: %s, again and again", w->who, w->what);
    int rounds;
    size_t bytes = leaks(w, &rounds);
    if (bytes > 0)
        conform_fail(w->c, "%s: leak: each round of %s leaves %zu bytes; %s", w->who, w->what,
                     bytes, w->undo);
    conform_count(w->c, w->count, rounds);
}

/* The n-th allocation fails: an error, and nothing stays. */
static bool check_failure(const work *w, long n)
{
    weft_error err = {0};
    size_t more = 1;
    conform_now(w->c, "%s: %s, allocation %ld of the plugin fails", w->who, w->what, n);
    for (int i = 0; more > 0 && i < ROUNDS; i++) {
        size_t before = in_use();
        weft_alloc_fail_within(w->c->plugin);
        weft_alloc_fail_at(n);
        weft_status s = w->round(w, &err);
        weft_alloc_fail_at(0);
        weft_alloc_fail_within(NULL);
        if (i == 0 && s && s != WEFT_ERR_MEMORY && !strstr(weft_error_text(&err), "memory"))
            conform_fail(w->c,
                         "%s: memory: where allocation %ld of it fails, it says: %s; say "
                         "weft_fail_memory(err), in a pass weft_fail_memory(weft_graph_error(g))",
                         w->who, n, weft_error_text(&err));
        weft_error_release(&err);
        size_t now = in_use();
        more = now > before ? now - before : 0;
    }
    if (more > 0)
        conform_fail(w->c,
                     "%s: leak: where allocation %ld of it fails, %zu bytes stay; what fails "
                     "leaves nothing behind",
                     w->who, n, more);
    return more == 0;
}

static long count_own(const work *w)
{
    weft_error err = {0};
    weft_alloc_fail_within(w->c->plugin);
    weft_alloc_fail_at(0);
    w->round(w, &err);
    long n = weft_alloc_count();
    weft_alloc_fail_within(NULL);
    weft_error_release(&err);
    return n;
}

static void check_work(const work *w)
{
    check_leak(w);
    long total = count_own(w), stride = w->c->whole ? 1 : 1 + total / MOST_FAILURES, n = 1;
    int tried = 0;
    for (bool sound = true; sound && n <= total; n += stride, tried++)
        sound = check_failure(w, n);
    conform_count(w->c, "failing allocations", tried);
}

void conform_check_prepare(const conform *c, const weft_kernel *k, const weft_call *call)
{
    char who[CONFORM_NOW];
    if (!k->prepare)
        return;
    snprintf(who, sizeof who, "kernel %s of op %s", k->name, k->op);
    const work w = {.who = who,
                    .what = "prepare and release",
                    .undo = "release frees what prepare made",
                    .count = "rounds of prepare and release",
                    .round = prepare_once,
                    .c = c,
                    .kernel = k,
                    .call = call};
    check_work(&w);
}

static void check_case(const conform *c, void *self)
{
    const work w = {.who = "plugin",
                    .what = "create, passes and destroy",
                    .undo = "destroy undoes what create does",
                    .count = "rounds of create and destroy",
                    .round = plan_once,
                    .c = c,
                    .k = self};
    weft_error err = {0};
    conform_now(c, "plugin: create and passes");
    weft_status s = plan_once(&w, &err);
    weft_error_release(&err);
    if (!s) /* else: not at this place */
        check_work(&w);
}

void conform_memory(const conform *c, void *module)
{
    (void)module;
    if (!c->plugin)
        return;
    conform_case k = {
        .model = strcmp(c->plugin, "gpt2") ? "llama3" : "gpt2", .ranks = 1, .threads = 1};
    for (int mesh = 0; mesh < 2; mesh++) {
        const char *places[CONFORM_MOST_PLACES];
        k.others = mesh ? "bf16 tp fsdp ac" : "bf16";
        k.ranks = mesh ? 4 : 1;
        int n = conform_find_places(c, &k, places);
        for (int p = 0; p < (c->whole ? n : n < 2 ? n : 2); p++) {
            k.place = places[p];
            conform_isolate(c, SECONDS, check_case, &k);
        }
    }
}
