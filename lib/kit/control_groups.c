/* SPDX-License-Identifier: Apache-2.0 */
/* The control groups that a process is in, up to the root, version 1 and 2. */
#include <weft/files.h>

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 5000 };

typedef struct visit {
    const char *root;
    weft_visit_group *visit;
    void *ctx;
} visit;

/* Is a word one of those between commas? */
static bool lists(const char *words, const char *word)
{
    const size_t n = strlen(word);
    for (; words; words = strchr(words, ',')) {
        words += *words == ',';
        if (strncmp(words, word, n) == 0 && (words[n] == ',' || !words[n]))
            return true;
    }
    return false;
}

/* From a group up to the root, which is all that a container may see. */
static void climb(const visit *v, const char *mount, const char *group, bool version_1)
{
    char path[PATH_BYTES];
    const int above = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", v->root, mount);
    const size_t n = strcmp(group, "/") == 0 ? 0 : strlen(group);
    if (above < 0 || (size_t)above + n >= sizeof path)
        return;
    memcpy(path + above, group, n);
    for (size_t i = n + 1; i-- > 0;) {
        if (i < n && group[i] != '/')
            continue;
        path[(size_t)above + i] = '\0';
        v->visit(v->ctx, path, version_1);
    }
}

/* A line is "number:controllers:path"; version 2 has no controllers. */
static void read_line(const visit *v, const char *controller, char *line)
{
    char mount[256];
    line[strcspn(line, "\n")] = '\0';
    char *words = strchr(line, ':'), *path = words ? strchr(words + 1, ':') : NULL;
    if (!path)
        return;
    *path++ = '\0';
    if (!*++words) {
        climb(v, "", path, false);
        climb(v, "/unified", path, false); /* where most controllers are version 1's */
    } else if (lists(words, controller)) {
        snprintf(mount, sizeof mount, "/%s", words);
        climb(v, mount, path, true);
        snprintf(mount, sizeof mount, "/%s", controller);
        if (strcmp(words, controller) != 0)
            climb(v, mount, path, true);
    }
}

void weft_visit_groups(const char *root, const char *controller, weft_visit_group *each, void *ctx)
{
    const visit v = {root, each, ctx};
    char line[4096], path[PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof line, f))
        read_line(&v, controller, line);
    if (f)
        fclose(f);
}
