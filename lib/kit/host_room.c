/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may still take of the host's memory: by the machine, and by each of the control
 * groups that it is in. */
#include <weft/files.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A number of the first line of a file that begins with `key`; SIZE_MAX if there is none. */
static size_t read_number(const char *folder, const char *name, const char *key)
{
    char line[256], path[5200];
    unsigned long long number;
    size_t found = SIZE_MAX;
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    while (f && found == SIZE_MAX && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0 &&
            sscanf(line + strlen(key), "%llu", &number) == 1)
            found = (size_t)number;
    if (f)
        fclose(f);
    return found;
}

/* Of one group. What files occupy is given back. */
static void read_group(void *ctx, const char *folder, bool version_1)
{
    static const char *const caches[2][2] = {{"inactive_file ", "active_file "},
                                             {"total_inactive_file ", "total_active_file "}};
    weft_host_room *room = ctx;
    struct stat info;
    const size_t most = read_number(folder, version_1 ? "memory.limit_in_bytes" : "memory.max", "");
    size_t used = read_number(folder, version_1 ? "memory.usage_in_bytes" : "memory.current", "");
    if (most == SIZE_MAX || used == SIZE_MAX)
        return;
    for (int i = 0; i < 2; i++) {
        const size_t cache = read_number(folder, "memory.stat", caches[version_1][i]);
        used -= cache < used ? cache : 0;
    }
    const size_t left = most > used ? most - used : 0;
    if (left >= room->group)
        return;
    room->group = left;
    room->group_limit = most;
    room->group_id = stat(folder, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

weft_host_room weft_find_host_room(const char *root)
{
    char proc[4096];
    weft_host_room room = {.machine = SIZE_MAX, .group = SIZE_MAX, .group_limit = SIZE_MAX};
    snprintf(proc, sizeof proc, "%s/proc", root);
    const size_t unused = read_number(proc, "meminfo", "MemAvailable:"),
                 swap = read_number(proc, "meminfo", "SwapFree:");
    if (unused != SIZE_MAX)
        room.machine = 1024 * (unused + (swap == SIZE_MAX ? 0 : swap));
    weft_visit_groups(root, "memory", read_group, &room);
    return room;
}
