/* SPDX-License-Identifier: Apache-2.0 */
/* A lock, held against what runs: plugins before they are opened, and the process. */
#include "plugin/elf.h"
#include "plugin/image.h"
#include "plugin/vetted.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

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

/* ---- the process ---- */

static weft_status check_environment(const weft_vetted *v, weft_error *err)
{
    static const char *const names[] = {"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"};
    weft_status s = WEFT_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            s = weft_fail(err, WEFT_ERR_INPUT, v->where,
                          "%s is set (%s), which puts code into weft that %s does not know; unset "
                          "it",
                          names[i], value, v->file);
    }
    return s;
}

typedef struct mapped {
    weft_vetted *v;
    int i; /* objects come in the order in which they were mapped */
    weft_error *err;
    weft_status status;
} mapped;

static bool is_known(const weft_vetted *v, const char *real, const weft_file_id *id)
{
    for (int i = 0; i < v->n; i++) {
        const weft_vetted_line *line = &v->lines[i];
        if (line->kind == WEFT_VETTED_PLUGIN || strcmp(line->path, real) != 0)
            continue;
        /* What is mapped says its build-id; who has none is read. */
        if (id->build_id[0] ? strcmp(line->id.build_id, id->build_id) == 0
                            : strcmp(line->id.sha256, id->sha256) == 0)
            return true;
    }
    return false;
}

static weft_status check_object(const weft_vetted *v, const struct dl_phdr_info *object,
                                weft_error *err)
{
    char real[PATH_MAX];
    weft_file_id id = {0};
    bool program = !object->dlpi_name[0];
    if (!program && object->dlpi_name[0] != '/')
        return WEFT_OK; /* the kernel's own page, which is no file */
    if (strncmp(object->dlpi_name, "/proc/self/fd/", 14) == 0)
        return WEFT_OK; /* a sealed copy: known before it was mapped */
    if (!realpath(program ? "/proc/self/exe" : object->dlpi_name, real))
        return weft_fail(err, WEFT_ERR_INPUT, v->where, "%s is mapped, and cannot be found: %s",
                         object->dlpi_name, strerror(errno));
    for (int i = 0; i < object->dlpi_phnum && !id.build_id[0]; i++)
        if (object->dlpi_phdr[i].p_type == PT_NOTE)
            weft_elf_note_build_id(
                (const void *)(uintptr_t)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr),
                object->dlpi_phdr[i].p_memsz, id.build_id);
    if (!id.build_id[0]) {
        weft_status s = weft_image_identify_file(real, v->where, &id, err);
        if (s)
            return s;
    }
    if (is_known(v, real, &id))
        return WEFT_OK;
    return weft_fail(
        err, WEFT_ERR_INPUT, v->where,
        "%s %s (build-id %.12s) is not what %s was made with; put the vetted one back, "
        "or vet again (`weft vet`)",
        program ? "the program" : "library", real, id.build_id[0] ? id.build_id : "none", v->file);
}

static int visit(struct dl_phdr_info *object, size_t size, void *ctx)
{
    mapped *m = ctx;
    (void)size;
    if (m->i++ < m->v->n_checked)
        return 0;
    weft_status s = check_object(m->v, object, m->err);
    m->status = m->status ? m->status : s;
    return 0;
}

weft_status weft_vetted_check_mapped(weft_vetted *v, weft_error *err)
{
    mapped m = {.v = v, .err = err};
    dl_iterate_phdr(visit, &m);
    v->n_checked = m.i;
    return m.status;
}

weft_status weft_vetted_check_process(weft_vetted *v, weft_error *err)
{
    struct utsname here;
    if (uname(&here) == 0 && strcmp(here.machine, v->machine) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, v->where, "lock '%s' is for %s, and this is %s",
                         v->file, v->machine, here.machine);
    weft_status s = check_environment(v, err);
    return s ? s : weft_vetted_check_mapped(v, err);
}
