/* SPDX-License-Identifier: Apache-2.0 */
/* A set of plugins, read as bytes, and the lock that follows. */
#include "vet.h"

#include "plugin/elf.h"
#include "plugin/image.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <weft/files.h>

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

static weft_status add_library(void *self, const char *real, weft_error *err)
{
    weft_vetted *set = self;
    weft_vetted_line line = {.kind = WEFT_VETTED_LIBRARY, .path = real};
    for (int i = 0; i < set->n; i++)
        if (set->lines[i].kind == WEFT_VETTED_LIBRARY && strcmp(set->lines[i].path, real) == 0)
            return WEFT_OK;
    weft_status s = weft_image_identify_file(real, WEFT_NOWHERE, &line.id, err);
    return s ? s : weft_vet_add(set, &line, err);
}

weft_status weft_vet_add_program(weft_vetted *set, weft_error *err)
{
    char real[PATH_MAX];
    weft_vetted_line line = {.kind = WEFT_VETTED_PROGRAM, .path = real};
    if (!realpath("/proc/self/exe", real))
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "/proc/self/exe: %s", strerror(errno));
    weft_status s = weft_image_identify_file(real, WEFT_NOWHERE, &line.id, err);
    s = s ? s : weft_vet_add(set, &line, err);
    return s ? s : weft_vet_libraries(real, add_library, set, err);
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

weft_status weft_vet_add_plugin(weft_vetted *set, const char *name, const char *path, weft_where at,
                                bool *device, weft_error *err)
{
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
    s = s ? s : weft_vet_libraries(path, add_library, set, err);
done:
    weft_free(bytes);
    return s;
}

/* ---- text ---- */

void weft_vet_print(const weft_vetted *set, weft_text *text)
{
    static const char *const words[] = {"program", "plugin", "library"};
    struct utsname here;
    weft_text_print(text,
                    "weft-lock 1\n# weft %s; bytes that may run. Made by weft vet.\nmachine %s\n",
                    WEFT_VERSION, uname(&here) == 0 ? here.machine : "unknown");
    for (int i = 0; i < set->n; i++) {
        const weft_vetted_line *l = &set->lines[i];
        weft_text_add(text, words[l->kind]);
        if (l->kind == WEFT_VETTED_PLUGIN)
            weft_text_print(text, " %s %s %s", l->name, l->version, l->abi);
        weft_text_print(text, " %s %s %s\n", l->id.sha256, l->id.build_id[0] ? l->id.build_id : "-",
                        l->path);
    }
}
