/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may still take of the host's memory: by the machine, and by each of the control
 * groups that it is in, version 1 and 2. */
#include "cpu.h"

#include <stdio.h>
#include <string.h>

/* A number of the first line of a file that begins with `key`; SIZE_MAX if there is none. The file
 * is at root, folder, the first n bytes of group, and name. */
static size_t read_number(const char *root, const char *folder, const char *group, size_t n,
                          const char *name, const char *key)
{
    char line[256], path[5000];
    unsigned long long number;
    size_t found = SIZE_MAX;
    const int length =
        snprintf(path, sizeof path, "%s%s%.*s/%s", root, folder, (int)n, group, name);
    FILE *f = (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    while (f && found == SIZE_MAX && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0 &&
            sscanf(line + strlen(key), "%llu", &number) == 1)
            found = (size_t)number;
    if (f)
        fclose(f);
    return found;
}

static cpu_room lesser(cpu_room a, cpu_room b)
{
    return b.bytes < a.bytes ? b : a;
}

/* ---- control groups ---- */

typedef struct hierarchy {
    const char *folder, *most, *used, *caches[2];
} hierarchy;

static const hierarchy unified = {
    "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}};
static const hierarchy of_memory = {"/sys/fs/cgroup/memory",
                                    "memory.limit_in_bytes",
                                    "memory.usage_in_bytes",
                                    {"total_inactive_file ", "total_active_file "}};

/* Of one group. What files occupy is given back. */
static cpu_room room_of(const char *root, const hierarchy *h, const char *group, size_t n)
{
    const size_t most = read_number(root, h->folder, group, n, h->most, "");
    size_t used = read_number(root, h->folder, group, n, h->used, "");
    if (most == SIZE_MAX || used == SIZE_MAX)
        return (cpu_room){SIZE_MAX, false};
    for (int i = 0; i < 2; i++) {
        const size_t cache = read_number(root, h->folder, group, n, "memory.stat", h->caches[i]);
        used -= cache < used ? cache : 0;
    }
    return (cpu_room){most > used ? most - used : 0, true};
}

/* The least from a group up to the root, which is all that a container may see. */
static cpu_room least_room(const char *root, const hierarchy *h, const char *group)
{
    size_t n = strcmp(group, "/") == 0 ? 0 : strlen(group);
    cpu_room least = room_of(root, h, group, n);
    while (n > 0)
        if (group[--n] == '/')
            least = lesser(least, room_of(root, h, group, n));
    return least;
}

/* A line is "number:controllers:path"; version 2 has no controllers. */
static cpu_room room_of_line(const char *root, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return (cpu_room){SIZE_MAX, false};
    *path++ = '\0';
    if (!*++controllers)
        return least_room(root, &unified, path);
    return strcmp(controllers, "memory") == 0 ? least_room(root, &of_memory, path)
                                              : (cpu_room){SIZE_MAX, false};
}

static cpu_room groups_room(const char *root)
{
    char line[4096], path[5000];
    const int length = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = (size_t)length < sizeof path ? fopen(path, "re") : NULL;
    cpu_room least = {SIZE_MAX, false};
    while (f && fgets(line, sizeof line, f))
        least = lesser(least, room_of_line(root, line));
    if (f)
        fclose(f);
    return least;
}

/* ---- the machine ---- */

cpu_room cpu_find_room(const char *root)
{
    const size_t unused = read_number(root, "/proc", "", 0, "meminfo", "MemAvailable:"),
                 swap = read_number(root, "/proc", "", 0, "meminfo", "SwapFree:"),
                 all = unused == SIZE_MAX ? SIZE_MAX
                                          : 1024 * (unused + (swap == SIZE_MAX ? 0 : swap));
    return lesser((cpu_room){all, false}, groups_room(root));
}
