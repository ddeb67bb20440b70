/* SPDX-License-Identifier: Apache-2.0 */
/* Files that grow by whole records, whatever the disk does meanwhile. */
#include <weft/files.h>

#include "base/files.h"
#include "io/atomic_file.h"

#include <unistd.h>

weft_status weft_journal_init(weft_journal *j, const char *path, weft_error *err)
{
    *j = (weft_journal){.fd = -1, .path = weft_strdup(path)};
    return j->path ? WEFT_OK : weft_fail_memory(err);
}

void weft_journal_release(weft_journal *j)
{
    if (j->path && j->fd >= 0)
        close(j->fd);
    weft_free(j->path);
    weft_text_release(&j->waiting);
    *j = (weft_journal){.fd = -1};
}

weft_status weft_journal_open(weft_journal *j, weft_error *err)
{
    return j->fd >= 0 ? WEFT_OK : weft_create_file(j->path, WEFT_WRITE_APPEND, &j->fd, err);
}

/* What of it was written, if not all, is taken back: nobody is to read half a record. */
static weft_status write_all(const weft_journal *j, const weft_text *text, weft_error *err)
{
    weft_atomic_file file = {.path = j->path, .fd = j->fd};
    const off_t before = lseek(j->fd, 0, SEEK_END);
    weft_status s = weft_atomic_file_write(&file, text->data, text->size, err);
    if (s && before >= 0 && ftruncate(j->fd, before) != 0)
        weft_fail_errno(err, j->path, "cut this file back");
    return s;
}

weft_status weft_journal_add(weft_journal *j, const weft_text *records, weft_error *err)
{
    weft_text *w = &j->waiting;
    if (w->size > 0 && w->size + records->size > WEFT_JOURNAL_BYTES)
        j->lost++;
    else if (!records->out_of_memory)
        weft_text_add_bytes(w, weft_text_get(records), records->size);
    if (!records->out_of_memory && !w->out_of_memory)
        return WEFT_OK;
    if (w->out_of_memory)
        weft_text_release(w); /* it may end inside a record */
    return weft_fail_memory(err);
}

weft_status weft_journal_write(weft_journal *j, weft_error *err)
{
    if (j->waiting.size == 0)
        return WEFT_OK;
    weft_status s = weft_journal_open(j, err);
    s = s ? s : write_all(j, &j->waiting, err);
    if (!s)
        weft_text_clear(&j->waiting);
    return s;
}
