/* SPDX-License-Identifier: Apache-2.0 */
/* A set of plugins, read as bytes, and the lock that follows. */
#include "vet.h"

#include "vet/elf.h"
#include "vet/image.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <weft/files.h>

enum { MOST_KEYS = 8 }; /* of a plugin, that name libraries */

static bool is_there(const weft_vetted *set, const weft_vetted_line *line)
{
    for (int i = 0; i < set->n; i++) {
        const weft_vetted_line *l = &set->lines[i];
        if (l->kind == line->kind && strcmp(l->id.sha256, line->id.sha256) == 0 &&
            strcmp(l->path, line->path) == 0 &&
            strcmp(l->name ? l->name : "", line->name ? line->name : "") == 0)
            return true;
    }
    return false;
}

weft_status weft_vet_add(weft_vetted *set, const weft_vetted_line *line, weft_error *err)
{
    return is_there(set, line) ? WEFT_OK : weft_vetted_add(set, line, err);
}

/* ---- program and libraries ---- */

/* What has changed just now may change again within the same tick of the file system's clock. */
static void take_stamp(const char *path, char stamp[WEFT_STAMP])
{
    enum { SETTLED_S = 2 };
    struct stat info;
    weft_image_stamp(path, stamp);
    if (stat(path, &info) != 0 || time(NULL) < info.st_ctim.tv_sec + SETTLED_S)
        snprintf(stamp, WEFT_STAMP, "-");
}

/* Under a lock a library is opened by its path before it is asked for, and is then found by the
 * name that it has itself. */
static weft_status check_name(const char *name, const char *real, weft_error *err)
{
    const void *bytes;
    size_t size;
    weft_elf e;
    weft_status s = weft_image_map(real, WEFT_NOWHERE, &bytes, &size, err);
    bool is = !s && weft_elf_init(&e, bytes ? bytes : "", size);
    const char *own = is ? weft_elf_soname(&e) : NULL;
    if (!s && (!own || strcmp(own, name) != 0))
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "%s is asked for as %s, and %s%s: another file could take its place, so it "
                      "cannot be vetted; link it with -Wl,-soname,%s",
                      real, name, own ? "calls itself " : "has no name (SONAME)", own ? own : "",
                      name);
    weft_image_unmap(bytes, size);
    return s;
}

static weft_status add_library(void *self, const char *name, bool bare, const char *real,
                               weft_error *err)
{
    weft_vetted *set = self;
    char stamp[WEFT_STAMP];
    weft_vetted_line line = {
        .kind = WEFT_VETTED_LIBRARY, .name = name, .stamp = stamp, .path = real};
    for (int i = 0; i < set->n; i++)
        if (set->lines[i].kind == WEFT_VETTED_LIBRARY && !set->lines[i].number &&
            strcmp(set->lines[i].path, real) == 0 && strcmp(set->lines[i].name, name) == 0)
            return WEFT_OK;
    if (strpbrk(name, " \t"))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the library '%s' has a name that cannot stand in a lock", name);
    weft_status s = bare ? check_name(name, real, err) : WEFT_OK;
    take_stamp(real, stamp);
    s = s ? s : weft_image_identify_file(real, WEFT_NOWHERE, &line.id, err);
    return s ? s : weft_vet_add(set, &line, err);
}

weft_status weft_vet_add_program(weft_vetted *set, weft_error *err)
{
    char real[PATH_MAX], stamp[WEFT_STAMP];
    weft_vetted_line line = {.kind = WEFT_VETTED_PROGRAM, .stamp = stamp, .path = real};
    if (!realpath("/proc/self/exe", real))
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "/proc/self/exe: %s", strerror(errno));
    take_stamp(real, stamp);
    weft_status s = weft_image_identify_file(real, WEFT_NOWHERE, &line.id, err);
    s = s ? s : weft_vet_add(set, &line, err);
    return s ? s : weft_vet_libraries(real, NULL, add_library, set, err);
}

/* ---- libraries that are opened by name ---- */

typedef struct by_name {
    weft_vetted *set;
    const char *name;
    bool found;
} by_name;

/* What the program itself needs is there already. */
static weft_status add_found(void *self, const char *name, bool bare, const char *real,
                             weft_error *err)
{
    by_name *b = self;
    b->found = b->found || strcmp(b->name, strchr(b->name, '/') ? real : name) == 0;
    return add_library(b->set, name, bare, real, err);
}

weft_status weft_vet_add_named(weft_vetted *set, const char *name, bool *found, weft_error *err)
{
    char real[PATH_MAX], program[PATH_MAX];
    const char *path = strchr(name, '/') ? realpath(name, real) : name;
    by_name b = {.set = set, .name = path};
    *found = false;
    if (!path || !*path || strpbrk(path, " \t\r\n:"))
        return WEFT_OK; /* not there, or nothing that the linker could be asked for */
    if (!realpath("/proc/self/exe", program))
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "/proc/self/exe: %s", strerror(errno));
    weft_status s = weft_vet_libraries(program, path, add_found, &b, err);
    *found = b.found;
    return s;
}

/* ---- plugins ---- */

/* Their descriptor as it lies in the file, pointers unrelocated. */
typedef struct descriptor {
    weft_elf elf;
    const unsigned char *at; /* weft_plugin */
} descriptor;

static bool gives_device(const descriptor *d)
{
    weft_contribution c;
    const unsigned char *list =
        weft_elf_target(&d->elf, d->at + offsetof(weft_plugin, contributions), sizeof c);
    for (; list && (size_t)(list - d->elf.bytes) <= d->elf.size - sizeof c; list += sizeof c) {
        memcpy(&c, list, sizeof c);
        if (c.kind == WEFT_END)
            break;
        const char *service = weft_elf_text(&d->elf, list + offsetof(weft_contribution, service));
        if (c.kind == WEFT_SERVICE && service && strcmp(service, "device") == 0)
            return true;
    }
    return false;
}

static weft_status find_descriptor(descriptor *d, const char *name, const char *path,
                                   const char *bytes, size_t size, weft_where at, weft_error *err)
{
    char symbol[80];
    snprintf(symbol, sizeof symbol, "%s_LTX_plugin", name);
    d->at = weft_elf_init(&d->elf, bytes, size)
                ? weft_elf_object(&d->elf, symbol, sizeof(weft_plugin))
                : NULL;
    if (d->at)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, at,
                     "%s is not a weft plugin called '%s' for this weft: it has no %s", path, name,
                     symbol);
}

/* Fields of a line are separated by blanks. */
static weft_status check_word(const char *word, const char *path, weft_where at, weft_error *err)
{
    if (word && *word && !word[strcspn(word, " \t\r\n")])
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, at, "%s: its version cannot be told from the file", path);
}

/* The keys that name libraries, as they lie in the file. */
static void find_keys(const descriptor *d, weft_param keys[MOST_KEYS + 1])
{
    weft_param p;
    int n = 0;
    const unsigned char *list =
        weft_elf_target(&d->elf, d->at + offsetof(weft_plugin, params), sizeof p);
    memset(keys, 0, (MOST_KEYS + 1) * sizeof *keys);
    for (; list && (size_t)(list - d->elf.bytes) <= d->elf.size - sizeof p && n < MOST_KEYS;
         list += sizeof p) {
        const char *name = weft_elf_text(&d->elf, list + offsetof(weft_param, name));
        memcpy(&p, list, sizeof p);
        if (!name)
            break;
        if (p.flags & WEFT_PARAM_LIBRARY)
            keys[n++] =
                (weft_param){.name = name,
                             .type = WEFT_PARAM_STRING,
                             .flags = p.flags & WEFT_PARAM_LIST,
                             .value = weft_elf_text(&d->elf, list + offsetof(weft_param, value))};
    }
}

weft_status weft_vet_add_plugin(weft_vetted *set, const char *name, const char *path, weft_where at,
                                bool *device, weft_vet_named *named, void *ctx, weft_error *err)
{
    weft_param keys[MOST_KEYS + 1];
    char *bytes = NULL, abi[32];
    size_t size = 0;
    weft_plugin head;
    descriptor d;
    weft_vetted_line line = {.kind = WEFT_VETTED_PLUGIN, .name = name, .abi = abi, .path = path};
    weft_status s = weft_read_file(path, &bytes, &size, err);
    s = s ? s : find_descriptor(&d, name, path, bytes, size, at, err);
    if (s)
        goto done;
    memcpy(&head, d.at, sizeof head);
    snprintf(abi, sizeof abi, "%u.%u", head.abi_major, head.abi_minor);
    line.version = weft_elf_text(&d.elf, d.at + offsetof(weft_plugin, version));
    *device = *device || gives_device(&d);
    s = check_word(line.version, path, at, err);
    s = s ? s : weft_image_identify(bytes, size, &line.id, err);
    s = s ? s : weft_vet_add(set, &line, err);
    s = s ? s : weft_vet_libraries(path, NULL, add_library, set, err);
    find_keys(&d, keys);
    s = s || !keys[0].name ? s : named(ctx, name, keys, err);
done:
    weft_free(bytes);
    return s;
}

/* ---- text ---- */

void weft_vet_print(const weft_vetted *set, weft_text *text)
{
    static const char *const words[] = {"program", "plugin", "library"};
    struct utsname here;
    weft_text_print(
        text, WEFT_VETTED_HEAD "\n# weft %s; bytes that may run. Made by weft vet.\nmachine %s\n",
        WEFT_VERSION, uname(&here) == 0 ? here.machine : "unknown");
    for (int i = 0; i < set->n; i++) {
        const weft_vetted_line *l = &set->lines[i];
        weft_text_add(text, words[l->kind]);
        if (l->kind == WEFT_VETTED_PLUGIN)
            weft_text_print(text, " %s %s %s", l->name, l->version, l->abi);
        if (l->kind == WEFT_VETTED_LIBRARY)
            weft_text_print(text, " %s", l->name);
        weft_text_print(text, " %s %s", l->id.sha256, l->id.build_id[0] ? l->id.build_id : "-");
        weft_text_print(text, "%s%s %s\n", l->stamp ? " " : "", l->stamp ? l->stamp : "", l->path);
    }
}
