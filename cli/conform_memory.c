/* SPDX-License-Identifier: Apache-2.0 */
/* What hooks and passes do when memory is short, and what they leave behind. */
#include "conform.h"

#include <malloc.h>
#include <string.h>

enum { SECONDS = 60, ROUNDS = 64, SETTLED = 4, MOST_FAILURES = 24 };

static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* create, all passes, destroy. */
static weft_status round_trip(const conform *c, const conform_case *k, weft_error *err)
{
    conform_plan p;
    weft_status s = conform_plan_init(&p, c, k, err);
    conform_plan_release(&p);
    return s;
}

/* Bytes that every round leaves. The first ones set things up for good, and the C library keeps
 * what is freed, some pieces of each size, as if it were in use: what does not leak has a round
 * that leaves nothing sooner or later. */
static size_t leaks(const conform *c, const conform_case *k, int *rounds)
{
    size_t least = SIZE_MAX, before = 0;
    *rounds = 0;
    for (int i = 0; i < ROUNDS && least > 0; i++) {
        weft_error err = {0};
        round_trip(c, k, &err);
        weft_error_release(&err);
        size_t now = in_use(), more = now > before ? now - before : 0;
        if (i >= SETTLED)
            least = more < least ? more : least;
        before = now;
        ++*rounds;
    }
    return least;
}

static void check_leak(const conform *c, const conform_case *k)
{
    conform_now(c, "plugin: create, passes and destroy, again and again");
    int rounds;
    size_t bytes = leaks(c, k, &rounds);
    if (bytes > 0)
        conform_fail(c,
                     "plugin: leak: each round of create, passes and destroy leaves %zu bytes; "
                     "destroy undoes what create does",
                     bytes);
    conform_count(c, "rounds of create and destroy", rounds);
}

/* The n-th allocation fails: the run is refused with an error, and nothing stays. */
static bool check_failure(const conform *c, const conform_case *k, long n)
{
    weft_error err = {0};
    size_t more = 0;
    conform_now(c, "plugin: create and passes, allocation %ld of the plugin fails", n);
    more = 1;
    for (int i = 0; more > 0 && i < ROUNDS; i++) {
        size_t before = in_use();
        weft_alloc_fail_within(c->plugin);
        weft_alloc_fail_at(n);
        weft_status s = round_trip(c, k, &err);
        weft_alloc_fail_at(0);
        weft_alloc_fail_within(NULL);
        if (i == 0 && s && s != WEFT_ERR_MEMORY && !strstr(weft_error_text(&err), "memory"))
            conform_fail(c,
                         "plugin: memory: where allocation %ld of it fails, it says: %s; return "
                         "weft_fail_memory(err)",
                         n, weft_error_text(&err));
        weft_error_release(&err);
        size_t now = in_use();
        more = now > before ? now - before : 0;
    }
    if (more > 0)
        conform_fail(c,
                     "plugin: leak: where allocation %ld of it fails, %zu bytes stay; a hook that "
                     "fails leaves nothing behind",
                     n, more);
    return more == 0;
}

static long count_own(const conform *c, const conform_case *k)
{
    weft_error err = {0};
    weft_alloc_fail_within(c->plugin);
    weft_alloc_fail_at(0);
    round_trip(c, k, &err);
    long n = weft_alloc_count();
    weft_alloc_fail_within(NULL);
    weft_error_release(&err);
    return n;
}

static void check_case(const conform *c, void *self)
{
    const conform_case *k = self;
    weft_error err = {0};
    conform_now(c, "plugin: create and passes");
    weft_status s = round_trip(c, k, &err);
    weft_error_release(&err);
    if (s)
        return; /* not at this place */
    check_leak(c, k);
    long total = count_own(c, k), stride = c->whole ? 1 : 1 + total / MOST_FAILURES, n = 1;
    int tried = 0;
    for (bool sound = true; sound && n <= total; n += stride, tried++)
        sound = check_failure(c, k, n);
    conform_count(c, "failing allocations", tried);
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
