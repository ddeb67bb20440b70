/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may still take of the host's memory: by the machine, and by each of the control
 * groups that it is in. */
#include <weft/files.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A number of each first line of a file that begins with a key; SIZE_MAX if there is none. Once:
 * the kernel counts anew for whoever opens memory.stat. */
static void read_numbers(const char *folder, const char *name, const char *const *keys, int n,
                         size_t *found)
{
    char line[256], path[5200];
    unsigned long long number;
    int missing = n;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    for (int i = 0; i < n; i++)
        found[i] = SIZE_MAX;
    while (f && missing > 0 && fgets(line, sizeof line, f))
        for (int i = 0; i < n; i++)
            if (found[i] == SIZE_MAX && strncmp(line, keys[i], strlen(keys[i])) == 0 &&
                sscanf(line + strlen(keys[i]), "%llu", &number) == 1) {
                found[i] = (size_t)number;
                missing--;
            }
    if (f)
        fclose(f);
}

static size_t read_number(const char *folder, const char *name)
{
    static const char *const any[] = {""};
    size_t found;
    read_numbers(folder, name, any, 1, &found);
    return found;
}

/* Version 1 says 2^63 less a page, of up to 64 KiB, where there is none. */
#define NO_LIMIT (SIZE_MAX / 2 - 65535)

/* Of one group. What files occupy is given back. */
static void read_group(void *ctx, const char *folder, bool version_1)
{
    static const char *const caches[2][2] = {{"inactive_file ", "active_file "},
                                             {"total_inactive_file ", "total_active_file "}};
    weft_host_room *room = ctx;
    struct stat info;
    size_t cache[2];
    const size_t most = read_number(folder, version_1 ? "memory.limit_in_bytes" : "memory.max");
    if (most >= NO_LIMIT)
        return;
    size_t used = read_number(folder, version_1 ? "memory.usage_in_bytes" : "memory.current");
    if (used == SIZE_MAX)
        return;
    read_numbers(folder, "memory.stat", caches[version_1], 2, cache);
    for (int i = 0; i < 2; i++)
        used -= cache[i] < used ? cache[i] : 0;
    const size_t left = most > used ? most - used : 0;
    if (left >= room->group)
        return;
    room->group = left;
    room->group_limit = most;
    room->group_id = stat(folder, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

weft_host_room weft_find_host_room(const char *root)
{
    static const char *const keys[2] = {"MemAvailable:", "SwapFree:"};
    char proc[4096];
    size_t kib[2];
    weft_host_room room = {.machine = SIZE_MAX, .group = SIZE_MAX, .group_limit = SIZE_MAX};
    snprintf(proc, sizeof proc, "%s/proc", root);
    read_numbers(proc, "meminfo", keys, 2, kib);
    if (kib[0] != SIZE_MAX)
        room.machine = 1024 * (kib[0] + (kib[1] == SIZE_MAX ? 0 : kib[1]));
    weft_visit_groups(root, "memory", read_group, &room);
    return room;
}
