/* SPDX-License-Identifier: Apache-2.0 */
/* Time per op and per block, beside what the machine would take at its limits. */
#include "profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void profile_table_release(profile_table *t)
{
    weft_free(t->rows);
    weft_pool_release(&t->pool);
    *t = (profile_table){0};
}

static profile_row *find_row(profile_table *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->rows[i].name, name) == 0)
            return &t->rows[i];
    if (t->n == t->capacity) {
        int more = t->capacity ? 2 * t->capacity : 32;
        profile_row *fresh = weft_realloc(t->rows, (size_t)more * sizeof *fresh);
        if (!fresh)
            return NULL;
        t->rows = fresh;
        t->capacity = more;
    }
    const char *kept = weft_pool_strdup(&t->pool, name);
    if (!kept)
        return NULL;
    t->rows[t->n] = (profile_row){.name = kept, .bounded = true};
    return &t->rows[t->n++];
}

weft_status profile_table_add(profile_table *t, const profile_limits *l, const char *name,
                              double seconds, double flops, double bytes, bool sends,
                              weft_error *err)
{
    profile_row *r = find_row(t, name);
    if (!r)
        return weft_fail_memory(err);
    double rate = sends ? l->sent_per_s : l->bytes_per_s;
    double computing = l->flops_per_s > 0 ? flops / l->flops_per_s : 0;
    double moving = rate > 0 ? bytes / rate : 0;
    r->times++;
    r->seconds += seconds;
    r->bound_seconds += computing > moving ? computing : moving;
    r->bounded = r->bounded && (rate > 0 || bytes == 0) && (l->flops_per_s > 0 || flops == 0);
    r->flops += flops;
    *(sends ? &r->sent : &r->bytes) += bytes;
    return WEFT_OK;
}

void profile_block_name(int block, char *name, size_t size)
{
    if (block == WEFT_BLOCK_EMBEDDING)
        snprintf(name, size, "embedding");
    else if (block == WEFT_BLOCK_HEAD)
        snprintf(name, size, "head");
    else if (block < 0)
        snprintf(name, size, "none");
    else
        snprintf(name, size, "%d", block);
}

static int slower(const void *a, const void *b)
{
    const profile_row *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* What takes no time has no rate. */
static void add_rate(weft_text *text, double amount, double seconds)
{
    if (amount > 0 && seconds > 0)
        weft_text_print(text, "  %10.4g", amount / seconds / 1e9);
    else
        weft_text_print(text, "  %10s", "-");
}

static void print_row(const profile_row *r, double whole, double per, int width, weft_text *text)
{
    weft_text_print(text, "  %-*s  %8.4g  %10.4g  %5.1f%%", width, r->name, (double)r->times / per,
                    1000 * r->seconds / per, whole > 0 ? 100 * r->seconds / whole : 0);
    if (r->bounded && r->bound_seconds > 0 && r->seconds > 0)
        weft_text_print(text, "  %6.1f%%", 100 * r->bound_seconds / r->seconds);
    else
        weft_text_print(text, "  %7s", "-");
    add_rate(text, r->flops, r->seconds);
    add_rate(text, r->bytes + r->sent, r->seconds);
    weft_text_add(text, "\n");
}

void profile_table_print(const profile_table *t, const char *title, double per, int most,
                         weft_text *text)
{
    profile_row rest = {.bounded = false};
    double whole = 0;
    int width = (int)strlen(title), n = most > 0 && most < t->n ? most : t->n;
    qsort(t->rows, (size_t)t->n, sizeof *t->rows, slower);
    for (int i = 0; i < t->n; i++) {
        int length = (int)strlen(t->rows[i].name);
        width = length > width ? length : width;
        whole += t->rows[i].seconds;
    }
    weft_text_print(text, "  %-*s  %8s  %10s  %6s  %7s  %10s  %10s\n", width, title, "times",
                    "ms a step", "share", "of limit", "GFLOP/s", "GB/s");
    for (int i = 0; i < n; i++)
        print_row(&t->rows[i], whole, per, width, text);
    for (int i = n; i < t->n; i++) {
        rest.times += t->rows[i].times;
        rest.seconds += t->rows[i].seconds;
        rest.flops += t->rows[i].flops;
        rest.bytes += t->rows[i].bytes + t->rows[i].sent;
    }
    rest.name = "others";
    if (n < t->n)
        print_row(&rest, whole, per, width, text);
}

static void add_limit(weft_text *text, const char *what, double rate, const char *unit)
{
    if (rate > 0)
        weft_text_print(text, "%s %.4g G%s/s", what, rate / 1e9, unit);
    else
        weft_text_print(text, "%s not known", what);
}

void profile_limits_print(const profile_limits *l, weft_text *text)
{
    weft_text_add(text, "limits of a rank: ");
    add_limit(text, "products", l->flops_per_s, "FLOP");
    add_limit(text, ", memory", l->bytes_per_s, "B");
    add_limit(text, ", sent", l->sent_per_s, "B");
}
