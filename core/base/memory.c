/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/base.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The one exception to "nothing is global": tests make the n-th allocation of the process fail. */
static atomic_long fail_in;
static atomic_long made;
static _Atomic(const char *) within; /* a plugin: only what its calls allocate counts */

static bool counts(void)
{
    const char *plugin = atomic_load_explicit(&within, memory_order_relaxed);
    const char *now = plugin ? weft_blame_get().plugin : NULL;
    return !plugin || (now && strcmp(now, plugin) == 0);
}

static bool must_fail(void)
{
    if (!counts())
        return false;
    atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    if (atomic_load_explicit(&fail_in, memory_order_relaxed) <= 0)
        return false;
    return atomic_fetch_sub_explicit(&fail_in, 1, memory_order_relaxed) == 1;
}

void weft_alloc_fail_at(long n)
{
    atomic_store(&made, 0);
    atomic_store(&fail_in, n);
}

void weft_alloc_fail_within(const char *plugin)
{
    atomic_store(&within, plugin);
}

long weft_alloc_count(void)
{
    return atomic_load(&made);
}

void *weft_alloc(size_t bytes)
{
    return must_fail() ? NULL : malloc(bytes ? bytes : 1);
}

void *weft_alloc_zero(size_t count, size_t bytes)
{
    size_t total;
    if (must_fail() || __builtin_mul_overflow(count, bytes, &total))
        return NULL;
    return calloc(1, total ? total : 1);
}

void *weft_realloc(void *old, size_t bytes)
{
    return must_fail() ? NULL : realloc(old, bytes ? bytes : 1);
}

void weft_free(void *p)
{
    free(p);
}

void *weft_alloc_aligned(size_t alignment, size_t bytes)
{
    void *p = NULL;
    if (must_fail() || posix_memalign(&p, alignment, bytes ? bytes : 1) != 0)
        return NULL;
    return p;
}

void weft_free_aligned(void *p)
{
    free(p);
}

char *weft_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = weft_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *weft_vformat(const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0)
        return NULL;
    char *text = weft_alloc((size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, args);
    return text;
}

char *weft_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = weft_vformat(format, args);
    va_end(args);
    return text;
}
