/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in large pages. A disk takes one for what else are 512 small ones, each with an address
 * of its own, and a processor looks up as many fewer. */
#include <weft/base.h>

#include <sys/mman.h>

enum { SMALL = 4096, LARGE = 2 << 20, MANY = 32 << 20 };

void *weft_alloc_pages(size_t bytes)
{
    /* the allocator gives what is that large back to the system, so nobody else comes by them */
    const bool large = bytes > MANY;
    void *p = weft_alloc_aligned(large ? LARGE : SMALL, bytes);
#ifdef MADV_HUGEPAGE
    if (p && large) /* as many as there are; else small ones */
        madvise(p, bytes / LARGE * LARGE, MADV_HUGEPAGE);
#endif
    return p;
}
