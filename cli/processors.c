/* SPDX-License-Identifier: Apache-2.0 */
#include "processors.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weft/base.h>
#include <weft/random.h>

/* ---- quotas ---- */

/* What the file of a cgroup begins with: up to two words. */
static int read_words(const char *root, const char *controller, const char *group, size_t n,
                      const char *name, double *first, double *second)
{
    char words[2][32];
    char *path = weft_format("%s%s%.*s/%s", root, controller, (int)n, group, name);
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

/* Processors that one cgroup allows, 0: no limit. group: the first n bytes of a path. */
static double quota_of(const char *root, const char *controller, const char *group, size_t n)
{
    double quota = 0, period = 0;
    if (!*controller && read_words(root, "", group, n, "cpu.max", &quota, &period) == 2 &&
        period > 0)
        return quota / period;
    if (*controller &&
        read_words(root, controller, group, n, "cpu.cfs_quota_us", &quota, &period) > 0 &&
        read_words(root, controller, group, n, "cpu.cfs_period_us", &period, &period) > 0 &&
        quota > 0 && period > 0)
        return quota / period;
    return 0;
}

/* Of two limits, 0 being none. */
static double lesser(double a, double b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* The smallest from a group up to the root. */
static double least_quota(const char *root, const char *controller, const char *group)
{
    size_t n = strlen(group);
    double least = quota_of(root, controller, group, n);
    while (n > 0)
        if (group[--n] == '/')
            least = lesser(least, quota_of(root, controller, group, n));
    return least;
}

/* Is a word one of those between commas? */
static bool lists(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (; words; words = strchr(words, ',')) {
        words += *words == ',';
        if (strncmp(words, word, n) == 0 && (words[n] == ',' || !words[n]))
            return true;
    }
    return false;
}

/* A line is "number:controllers:path"; version 2 has no controllers. */
static double quota_of_line(char *line, const char *root)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return 0;
    *path++ = '\0';
    controllers++;
    const char *group = strcmp(path, "/") == 0 ? "" : path;
    if (!*controllers)
        return least_quota(root, "", group);
    if (lists(controllers, "cpu"))
        return lesser(least_quota(root, "/cpu", group), least_quota(root, "/cpu,cpuacct", group));
    return 0;
}

double weft_cli_quota(const char *groups, const char *root)
{
    char line[4096];
    double least = 0;
    FILE *f = fopen(groups, "re");
    while (f && fgets(line, sizeof line, f))
        least = lesser(least, quota_of_line(line, root));
    if (f)
        fclose(f);
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

weft_processors weft_cli_processors(void)
{
    weft_processors p = {.id = add_file(weft_hash_name("processors"), "/proc/self/cgroup")};
    p.id = add_file(p.id, "/proc/sys/kernel/random/boot_id");
    p.n = count_mask(&p.id);
    double quota = weft_cli_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota <= 0)
        quota = weft_cli_quota("/proc/self/cgroup", "/sys/fs/cgroup/unified");
    if (quota > 0 && ceil(quota) < p.n)
        p.n = (int)ceil(quota);
    return p;
}
