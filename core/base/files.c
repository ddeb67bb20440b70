/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/files.h>

#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static weft_status make_dir(const char *path, weft_error *err)
{
    if (mkdir(path, 0777) == 0)
        return WEFT_OK;
    int error = errno;
    if (is_folder(path))
        return WEFT_OK;
    errno = error == EEXIST ? ENOTDIR : error; /* of mkdir, not of what was asked since */
    return weft_fail_errno(err, path, "create this folder");
}

weft_status weft_make_dirs(const char *path, weft_error *err)
{
    char *copy = weft_strdup(path);
    if (!copy)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    for (char *p = copy + 1; *copy && *p && status == WEFT_OK; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        status = make_dir(copy, err);
        *p = '/';
    }
    if (status == WEFT_OK)
        status = make_dir(copy, err);
    weft_free(copy);
    return status;
}

/* Reads to the end, whatever size the file claims to have (pipes and /proc say 0). */
static weft_status read_all(int fd, const char *path, weft_text *text, weft_error *err)
{
    size_t room = 64 * 1024;
    char *chunk = weft_alloc(room);
    if (!chunk)
        return weft_fail_memory(err);
    weft_status status = WEFT_OK;
    ssize_t n = 0;
    while ((n = read(fd, chunk, room)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            status = weft_fail_errno(err, path, "read this file");
            break;
        }
        weft_text_add_bytes(text, chunk, (size_t)n);
        if (text->out_of_memory) {
            status = weft_fail_memory(err);
            break;
        }
    }
    weft_free(chunk);
    return status;
}

weft_status weft_read_file(const char *path, char **data, size_t *size, weft_error *err)
{
    *data = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return weft_fail_errno(err, path, "open this file");
    weft_text text = {0};
    weft_status status = read_all(fd, path, &text, err);
    close(fd);
    if (status == WEFT_OK && !text.data)
        weft_text_add_bytes(&text, "", 0);
    if (status == WEFT_OK && !text.data)
        status = weft_fail_memory(err);
    if (status != WEFT_OK) {
        weft_text_release(&text);
        return status;
    }
    *data = text.data;
    *size = text.size;
    return WEFT_OK;
}

weft_status weft_write_file(const char *path, const void *data, size_t size, weft_error *err)
{
    weft_atomic_file file;
    weft_status status = weft_atomic_file_open(&file, path, err);
    if (status != WEFT_OK)
        return status;
    status = weft_atomic_file_write(&file, data, size, err);
    if (status == WEFT_OK)
        return weft_atomic_file_commit(&file, err);
    weft_atomic_file_abandon(&file);
    return status;
}
