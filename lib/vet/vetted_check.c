/* SPDX-License-Identifier: Apache-2.0 */
/* A lock, held against what runs: plugins before they are opened, and the process. */
#include "host/host.h"
#include "vet/vetted.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <weft/files.h>

/* ---- plugins ---- */

weft_status weft_vetted_check_plugin(const weft_vetted *v, const char *name, const char *path,
                                     const weft_file_id *id, weft_where where, weft_error *err)
{
    const weft_vetted_line *known = NULL;
    for (int i = 0; i < v->n; i++) {
        const weft_vetted_line *line = &v->lines[i];
        if (line->kind != WEFT_VETTED_PLUGIN || strcmp(line->name, name) != 0)
            continue;
        if (strcmp(line->id.sha256, id->sha256) == 0)
            return WEFT_OK;
        known = line;
    }
    if (known)
        return weft_fail(err, WEFT_ERR_INPUT, where,
                         "plugin '%s' (%s) is not what was vetted: its SHA-256 is %.12s..., and "
                         "%s:%d has %.12s...; put the vetted file back, or vet this one (`weft vet "
                         "--update %s %s`)",
                         name, path, id->sha256, v->file, known->number, known->id.sha256, name,
                         v->file);
    return weft_fail(err, WEFT_ERR_INPUT, where,
                     "plugin '%s' (%s) is not among the vetted ones in %s; vet it (`weft vet "
                     "--update %s %s`) or take it off the list",
                     name, path, v->file, name, v->file);
}

/* ---- files ---- */

/* The next line from i on that says what may lie at this path, past the end: v->n. */
static int next_of(const weft_vetted *v, const char *path, int i)
{
    while (i < v->n &&
           (v->lines[i].kind == WEFT_VETTED_PLUGIN || strcmp(v->lines[i].path, path) != 0))
        i++;
    return i;
}

weft_status weft_vetted_check_file(weft_vetted *v, const char *path, weft_where where,
                                   weft_error *err)
{
    char stamp[WEFT_STAMP];
    weft_file_id id;
    const int first = next_of(v, path, 0);
    bool sound = false;
    for (int i = first; i < v->n; i = next_of(v, path, i + 1))
        if (v->lines[i].sound)
            return WEFT_OK;
    if (first == v->n)
        return weft_fail(
            err, WEFT_ERR_INPUT, where,
            "library %s is not in %s; vet again (`weft vet`), or find out what loads it", path,
            v->file);
    weft_image_stamp(path, stamp);
    for (int i = first; i < v->n && stamp[1]; i = next_of(v, path, i + 1))
        sound = sound || (v->lines[i].sound = strcmp(v->lines[i].stamp, stamp) == 0);
    if (sound)
        return WEFT_OK;
    if (!weft_loader_identify(path, &id)) {
        const void *bytes; /* not copied: NVIDIA's have hundreds of megabytes */
        size_t size;
        weft_status s = weft_image_map(path, where, &bytes, &size, err);
        s = s ? s : weft_image_identify(bytes ? bytes : "", size, &id, err);
        weft_image_unmap(bytes, size);
        if (s)
            return s;
    }
    for (int i = first; i < v->n; i = next_of(v, path, i + 1))
        sound = sound || (v->lines[i].sound = strcmp(v->lines[i].id.sha256, id.sha256) == 0);
    if (!sound)
        return weft_fail(err, WEFT_ERR_INPUT, where,
                         "%s %s is not what %s was made with: its SHA-256 is %.12s..., and %s:%d "
                         "has %.12s...; put the vetted one back, or vet again (`weft vet`)",
                         v->lines[first].kind == WEFT_VETTED_PROGRAM ? "the program" : "library",
                         path, v->file, id.sha256, v->file, v->lines[first].number,
                         v->lines[first].id.sha256);
    return weft_loader_note(path, &id) ? WEFT_OK : weft_fail_memory(err);
}

/* ---- the process ---- */

/* What makes a library, weft's own or one that plugins bring, open code that is named elsewhere. */
static const char *const doors[] = {
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "GCONV_PATH", /* the C library */
    "ACC_PROFLIB",
    "OMP_TOOL_LIBRARIES", /* OpenMP: GCC's opens the first as soon as it is there itself */
    "INTEL_LIBITTNOTIFY*",
    "INTEL_JIT_PROFILER*", /* oneDNN */
    "OCL_ICD_*",
    "OPENCL_LAYERS*",
    "OPENCL_VENDOR_PATH",
    "HWLOC_PLUGINS_PATH", /* what those open */
    "*_MCA_*component_path",
    "*_MCA_*param_file*",
    "*_MCA_*envar_file*", /* Open MPI, PMIx */
    "OPAL_*PREFIX",
    "OPAL_*DIR",
    "PMIX_*PREFIX", /* the same; mpirun itself sets PMIX_*TMPDIR */
    "PMIX_*LIBDIR",
    "PMIX_SYSCONFDIR",
    "PMIX_DESTDIR",
    "UCX_MODULE_DIR",
    "UCX_CONFIG_DIR",
    "UCC_COMPONENT_PATH",
    "UCC_CONFIG_FILE",
    "FI_PROVIDER_PATH", /* UCX, UCC, libfabric */
    "IBV_DRIVERS",
    "RDMAV_DRIVERS", /* libibverbs */
    "NCCL_*_PLUGIN",
    "NCCL_CONF_FILE",
    "NCCL_CUDA_PATH", /* NCCL */
    "CUDA_INJECTION*_PATH",
    "NVTX_INJECTION*_PATH", /* NVIDIA's driver */
};

/* text: NAME=VALUE. */
static weft_status check_variable(const weft_vetted *v, const char *text, weft_error *err)
{
    const int n = (int)strcspn(text, "=");
    char name[128];
    snprintf(name, sizeof name, "%.*s", n, text);
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++)
        if (text[n] && text[n + 1] && fnmatch(doors[i], name, 0) == 0)
            return weft_fail(err, WEFT_ERR_INPUT, v->where,
                             "%s is set (%s), which puts code into weft that %s does not know; "
                             "unset it",
                             name, text + n + 1, v->file);
    return WEFT_OK;
}

/* As weft was started, too: what has run since may have unset them. */
static weft_status check_environment(const weft_vetted *v, weft_error *err)
{
    char *text = NULL;
    size_t size = 0;
    weft_status s = weft_read_file("/proc/self/environ", &text, &size, err);
    for (const char *p = text; !s && p < text + size; p += strlen(p) + 1)
        s = check_variable(v, p, err);
    for (char **p = environ; !s && *p; p++)
        s = check_variable(v, *p, err);
    weft_free(text);
    return s;
}

/* Of a line of /proc/self/maps, "7f00-7f10 r-xp 00000000 08:01 42   /lib/x.so": the file, if it may
 * be executed; else NULL. */
static char *executable_of(char *line, unsigned long *inode)
{
    const char *flags = line + strcspn(line, " ");
    char *path = strchr(line, '/');
    if (strnlen(flags, 5) < 5 || flags[3] != 'x' || !path ||
        sscanf(flags, "%*s %*s %*s %lu", inode) != 1)
        return NULL;
    path[strcspn(path, "\n")] = '\0';
    return path;
}

static weft_status check_mapping(weft_vetted *v, const char *path, unsigned long inode,
                                 weft_error *err)
{
    if (strncmp(path, "/memfd:", 7) == 0 && weft_loader_has_copy(inode))
        return WEFT_OK;
    int i = next_of(v, path, 0);
    if (i < v->n && v->lines[i].mapped)
        return WEFT_OK;
    weft_status s = weft_vetted_check_file(v, path, v->where, err);
    for (; !s && i < v->n; i = next_of(v, path, i + 1))
        v->lines[i].mapped = true;
    return s;
}

weft_status weft_vetted_check_mapped(weft_vetted *v, weft_error *err)
{
    char *line = NULL;
    size_t room = 0;
    weft_status first = WEFT_OK;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return weft_fail(err, WEFT_ERR_INPUT, v->where,
                         "/proc/self/maps, which says what has been mapped: %s", strerror(errno));
    while (getline(&line, &room, maps) > 0) {
        unsigned long inode;
        const char *path = executable_of(line, &inode);
        weft_status s = path ? check_mapping(v, path, inode, err) : WEFT_OK;
        first = first ? first : s;
    }
    free(line); /* getline's */
    fclose(maps);
    return first;
}

weft_status weft_vetted_check_process(const weft_vetted *v, weft_error *err)
{
    struct utsname here;
    if (uname(&here) == 0 && strcmp(here.machine, v->machine) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, v->where, "lock '%s' is for %s, and this is %s",
                         v->file, v->machine, here.machine);
    return check_environment(v, err);
}
