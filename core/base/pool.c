/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/base.h>

#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_PAGE = 1024, LARGEST_PAGE = 64 * 1024 };

struct weft_pool_page {
    struct weft_pool_page *next;
    size_t used, capacity;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

void weft_pool_release(weft_pool *pool)
{
    struct weft_pool_page *page = pool->pages;
    while (page) {
        struct weft_pool_page *next = page->next;
        weft_free_aligned(page);
        page = next;
    }
    *pool = (weft_pool){0};
}

static struct weft_pool_page *new_page(size_t capacity)
{
    struct weft_pool_page *page = weft_alloc_aligned(ALIGNMENT, sizeof *page + capacity);
    if (page)
        *page = (struct weft_pool_page){.capacity = capacity};
    return page;
}

/* The page to take `bytes` from. Something large gets a page to itself behind the first one, whose
 * rest stays usable. */
static struct weft_pool_page *page_for(weft_pool *pool, size_t bytes)
{
    struct weft_pool_page *first = pool->pages;
    if (first && first->capacity - first->used >= bytes)
        return first;
    size_t capacity = first ? 2 * first->capacity : FIRST_PAGE;
    if (capacity > LARGEST_PAGE)
        capacity = LARGEST_PAGE;
    bool alone = bytes > capacity / 4;
    struct weft_pool_page *page = new_page(alone ? bytes : capacity);
    if (!page)
        return NULL;
    if (alone && first) {
        page->next = first->next;
        first->next = page;
    } else {
        page->next = first;
        pool->pages = page;
    }
    return page;
}

void *weft_pool_alloc(weft_pool *pool, size_t bytes)
{
    const bool fits = bytes <= SIZE_MAX / 2;
    bytes = (bytes + !bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    struct weft_pool_page *page = fits ? page_for(pool, bytes) : NULL;
    if (!page) {
        pool->out_of_memory = true;
        return NULL;
    }
    void *p = page->bytes + page->used;
    page->used += bytes;
    return memset(p, 0, bytes);
}

char *weft_pool_strdup(weft_pool *pool, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = weft_pool_alloc(pool, bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

char *weft_pool_format(weft_pool *pool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return NULL;
    char *text = weft_pool_alloc(pool, (size_t)length + 1);
    if (!text)
        return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}
