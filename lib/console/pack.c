/* SPDX-License-Identifier: Apache-2.0 */
/* The files of settings, from one rank to another. */
#include "console/settings.h"
#include "settings/values.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

weft_status weft_settings_pack(const weft_settings *settings, weft_text *pack, weft_error *err)
{
    for (const weft_kept_file *f = settings->files; f; f = f->next) {
        weft_text_print(pack, "%zu %zu %zu\n%s%s", strlen(f->name), strlen(f->real), f->size,
                        f->name, f->real);
        weft_text_add_bytes(pack, f->text, f->size);
    }
    return pack->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

/* One file off the piece. */
static weft_status unpack_file(weft_pool *pool, const char **pack, size_t *size,
                               weft_kept_file **out, weft_error *err)
{
    size_t n[3], head;
    const char *line = memchr(*pack, '\n', *size);
    char text[80];
    weft_kept_file *file;

    head = line ? (size_t)(line - *pack) + 1 : 0;
    if (head == 0 || head >= sizeof(text))
        goto broken;
    memcpy(text, *pack, head);
    text[head] = '\0';
    if (sscanf(text, "%zu %zu %zu", &n[0], &n[1], &n[2]) != 3 || n[0] > PATH_MAX ||
        n[1] > PATH_MAX || n[2] > WEFT_INI_FILE)
        goto broken;
    if (n[0] + n[1] + n[2] > *size - head)
        goto broken;
    *out = file = weft_pool_alloc(pool, sizeof(*file));
    if (!file)
        return weft_fail_memory(err);
    file->name = weft_pool_format(pool, "%.*s", (int)n[0], *pack + head);
    file->real = weft_pool_format(pool, "%.*s", (int)n[1], *pack + head + n[0]);
    if (!file->name || !file->real)
        return weft_fail_memory(err);
    head += n[0] + n[1];
    file->text = *pack + head;
    file->size = n[2];
    *pack += head + n[2];
    *size -= head + n[2];
    return WEFT_OK;
broken:
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "rank 0 has sent a text that is not an INI");
}

weft_status weft_settings_unpack(const char *pack, size_t size, weft_settings **out,
                                 weft_error *err)
{
    weft_pool pool = {0};
    weft_kept_file *files = NULL, **end = &files;
    weft_status status;

    *out = NULL;
    do {
        status = unpack_file(&pool, &pack, &size, end, err);
        end = status == WEFT_OK ? &(*end)->next : end;
    } while (status == WEFT_OK && size > 0);
    if (status == WEFT_OK)
        status = weft_settings_read_kept(files, out, err);
    weft_pool_release(&pool);
    return status;
}
