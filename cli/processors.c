/* SPDX-License-Identifier: Apache-2.0 */
#include "processors.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/base.h>
#include <weft/files.h>
#include <weft/random.h>

/* ---- quotas ---- */

/* What the file of a control group begins with: up to two words. */
static int read_words(const char *folder, const char *name, double *first, double *second)
{
    char words[2][32];
    char *path = weft_format("%s/%s", folder, name);
    FILE *f = path ? fopen(path, "re") : NULL;
    int got = f ? fscanf(f, "%31s %31s", words[0], words[1]) : 0;
    if (f)
        fclose(f);
    weft_free(path);
    if (got >= 1 && sscanf(words[0], "%lf", first) != 1)
        got = 0; /* "max" */
    if (got == 2 && sscanf(words[1], "%lf", second) != 1)
        got = 1;
    return got > 0 ? got : 0;
}

static weft_quota lesser(weft_quota a, weft_quota b)
{
    return a.processors == 0 || (b.processors > 0 && b.processors < a.processors) ? b : a;
}

/* What one group allows. Its path is not the same in every container that sees it, its number is.
 */
static void read_quota(void *ctx, const char *folder, bool version_1)
{
    weft_quota *least = ctx;
    double quota = 0, period = 0;
    struct stat info;
    const bool has = version_1 ? read_words(folder, "cpu.cfs_quota_us", &quota, &period) > 0 &&
                                     read_words(folder, "cpu.cfs_period_us", &period, &period) > 0
                               : read_words(folder, "cpu.max", &quota, &period) == 2;
    if (has && quota > 0 && period > 0)
        *least = lesser(*least, (weft_quota){quota / period,
                                             stat(folder, &info) == 0 ? (uint64_t)info.st_ino : 0});
}

weft_quota weft_cli_quota(const char *root)
{
    weft_quota least = {0};
    weft_visit_groups(root, "cpu", read_quota, &least);
    return least;
}

/* ---- the mask ---- */

static uint64_t add_file(uint64_t id, const char *path)
{
    char line[4096];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        id = weft_hash_bytes(id, line, strlen(line));
    if (f)
        fclose(f);
    return id;
}

/* Machines may have more processors than a cpu_set_t holds: the kernel says when it is too small.
 */
static int count_mask(uint64_t *id)
{
    for (int most = CPU_SETSIZE; most <= 1 << 20; most *= 2) {
        size_t size = CPU_ALLOC_SIZE(most);
        cpu_set_t *set = CPU_ALLOC(most);
        if (!set)
            break;
        CPU_ZERO_S(size, set);
        int code = sched_getaffinity(0, size, set), n = code == 0 ? CPU_COUNT_S(size, set) : 0;
        if (n > 0)
            *id = weft_hash_bytes(*id, set, size);
        CPU_FREE(set);
        if (n > 0)
            return n;
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* 0: it is not set, or says nothing that can be understood. */
static int read_task(void)
{
    const char *text = getenv("SLURM_CPUS_PER_TASK");
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;
    return text && end != text && !*end && n > 0 && n <= 1 << 20 ? (int)n : 0;
}

uint64_t weft_cli_host_id(void)
{
    return add_file(weft_hash_name("processors"), "/proc/sys/kernel/random/boot_id");
}

weft_processors weft_cli_processors(void)
{
    const uint64_t host = weft_cli_host_id();
    weft_processors p = {.mask_id = host, .task = read_task()};
    p.mask = count_mask(&p.mask_id);
    const weft_quota q = weft_cli_quota("");
    p.quota = (int)ceil(fmin(q.processors, 1 << 20));
    p.quota_id = weft_hash_bytes(host, &q.id, sizeof q.id);
    return p;
}

static int least(int a, int limit, int sharers)
{
    return limit > 0 && limit / sharers < a ? limit / sharers : a;
}

int weft_processors_share(const weft_processors *p, int by_mask, int by_quota, int by_task)
{
    int n = least(least(p->mask / by_mask, p->quota, by_quota), p->task, by_task);
    return n > 1 ? n : 1;
}
