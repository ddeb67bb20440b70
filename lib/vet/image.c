/* SPDX-License-Identifier: Apache-2.0 */
#include "vet/image.h"
#include "vet/elf.h"
#include "vet/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* A piece of a file, of whole blocks; most build-ids stand in the first. */
enum { MOST_BYTES = 1 << 30, PIECE = 64 << 10 };

static weft_status begin(weft_file_id *id, weft_sha256_sum *sum, weft_error *err)
{
    memset(id, 0, sizeof *id);
    if (sodium_init() < 0)
        return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "libsodium does not start");
    weft_sha256_init(sum);
    return WEFT_OK;
}

static void end(weft_file_id *id, weft_sha256_sum *sum, const void *rest, size_t size)
{
    unsigned char digest[WEFT_SHA256_BYTES];
    weft_sha256_end(sum, rest, size, digest);
    sodium_bin2hex(id->sha256, sizeof id->sha256, digest, sizeof digest);
}

static bool find_build_id(const void *bytes, size_t size, weft_file_id *id)
{
    weft_elf elf;
    return weft_elf_init(&elf, bytes, size) && weft_elf_build_id(&elf, id->build_id);
}

weft_status weft_image_identify(const void *bytes, size_t size, weft_file_id *id, weft_error *err)
{
    weft_sha256_sum sum;
    weft_status s = begin(id, &sum, err);
    if (s)
        return s;
    end(id, &sum, bytes, size);
    find_build_id(bytes, size, id);
    return WEFT_OK;
}

static weft_status fail_file(const char *path, weft_where where, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, where, "%s: %s: %s", path, what, strerror(errno));
}

static weft_status check_size(int fd, const char *path, weft_where where, size_t *size,
                              weft_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return fail_file(path, where, "cannot be read", err);
    if (!S_ISREG(info.st_mode) || info.st_size > MOST_BYTES)
        return weft_fail(err, WEFT_ERR_INPUT, where,
                         "%s: this is not a regular file, or has more than 1 GiB", path);
    *size = (size_t)info.st_size;
    return WEFT_OK;
}

/* *n: how many bytes to read, and how many there were. Into memory of this process: a file that
 * shrinks while it is mapped would kill it. */
static weft_status read_piece(int fd, const char *path, weft_where where, size_t from, char *bytes,
                              size_t *n, weft_error *err)
{
    const size_t most = *n;
    for (*n = 0; *n < most;) {
        ssize_t got = pread(fd, bytes + *n, most - *n, (off_t)(from + *n));
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return fail_file(path, where, "cannot be read", err);
        *n += got > 0 ? (size_t)got : 0;
    }
    return WEFT_OK;
}

/* A piece at a time: memory for all of a file costs more than its sum. */
static weft_status identify_pieces(int fd, const char *path, weft_where where, size_t size,
                                   char *piece, weft_file_id *id, weft_error *err)
{
    weft_sha256_sum sum;
    weft_status s = begin(id, &sum, err);
    for (size_t done = 0; !s;) {
        size_t n = size - done < PIECE ? size - done : PIECE;
        s = read_piece(fd, path, where, done, piece, &n, err);
        if (done == 0)
            find_build_id(piece, n, id);
        done += n;
        if (!s && (n < PIECE || done == size)) {
            end(id, &sum, piece, n);
            return WEFT_OK;
        }
        weft_sha256_add(&sum, piece, n / WEFT_SHA256_BLOCK);
    }
    return s;
}

/* One that stands behind the first piece. */
static weft_status find_in_whole(int fd, const char *path, weft_where where, size_t size,
                                 weft_file_id *id, weft_error *err)
{
    char *bytes = weft_alloc(size);
    weft_status s =
        bytes ? read_piece(fd, path, where, 0, bytes, &size, err) : weft_fail_memory(err);
    if (!s)
        find_build_id(bytes, size, id);
    weft_free(bytes);
    return s;
}

static weft_status identify_open(int fd, const char *path, weft_where where, weft_file_id *id,
                                 weft_error *err)
{
    size_t size;
    weft_status s = check_size(fd, path, where, &size, err);
    char *piece = s ? NULL : weft_alloc(PIECE);
    if (!s && !piece)
        s = weft_fail_memory(err);
    s = s ? s : identify_pieces(fd, path, where, size, piece, id, err);
    weft_free(piece);
    if (!s && !*id->build_id && size > PIECE)
        s = find_in_whole(fd, path, where, size, id, err);
    return s;
}

/* Inside the kernel. A file that grows meanwhile is copied as far as it was long, one that shrinks
 * as far as it is. */
static weft_status copy_open(int from, int to, const char *path, weft_where where, weft_error *err)
{
    size_t size;
    weft_status s = check_size(from, path, where, &size, err);
    for (size_t done = 0; !s && done < size;) {
        ssize_t n = sendfile(to, from, NULL, size - done);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            s = fail_file(path, where, "cannot be copied into memory", err);
        done += n > 0 ? (size_t)n : 0;
    }
    return s;
}

static int open_memory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char name[64]; /* what /proc and debuggers show */
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

weft_status weft_image_identify_file(const char *path, weft_where where, weft_file_id *id,
                                     weft_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_file(path, where, "cannot be read", err);
    weft_status s = identify_open(fd, path, where, id, err);
    close(fd);
    return s;
}

static weft_status map(int fd, int flags, const char *path, weft_where where, const void **bytes,
                       size_t *size, weft_error *err)
{
    *bytes = NULL;
    weft_status s = check_size(fd, path, where, size, err);
    void *at = s || *size == 0 ? NULL : mmap(NULL, *size, PROT_READ, MAP_PRIVATE | flags, fd, 0);
    if (at == MAP_FAILED)
        return fail_file(path, where, "it cannot be mapped", err);
    *bytes = at;
    return s;
}

weft_status weft_image_map(const char *path, weft_where where, const void **bytes, size_t *size,
                           weft_error *err)
{
    *bytes = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_file(path, where, "cannot be read", err);
    weft_status s = map(fd, 0, path, where, bytes, size, err);
    close(fd);
    return s;
}

void weft_image_unmap(const void *bytes, size_t size)
{
    if (bytes)
        munmap((void *)(uintptr_t)bytes, size);
}

void weft_image_stamp(const char *path, char stamp[WEFT_STAMP])
{
    struct stat info;
    snprintf(stamp, WEFT_STAMP, "-");
    if (stat(path, &info) == 0)
        snprintf(stamp, WEFT_STAMP, "%llx:%llx:%llx:%llx.%lx", (unsigned long long)info.st_dev,
                 (unsigned long long)info.st_ino, (unsigned long long)info.st_size,
                 (unsigned long long)info.st_ctim.tv_sec, (unsigned long)info.st_ctim.tv_nsec);
}

/* What can no longer change is looked at, not what it was made from. */
static weft_status identify_sealed(int fd, const char *path, weft_where where, weft_file_id *id,
                                   weft_error *err)
{
    const void *bytes;
    size_t size;
    weft_status s = map(fd, MAP_POPULATE, path, where, &bytes, &size, err);
    s = s ? s : weft_image_identify(bytes ? bytes : "", size, id, err);
    weft_image_unmap(bytes, size);
    return s;
}

weft_status weft_image_seal(const char *path, weft_where where, int *fd, weft_file_id *id,
                            weft_error *err)
{
    static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    weft_status s = WEFT_OK;
    *fd = -1;
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (from < 0)
        return fail_file(path, where, "cannot be read", err);
    if ((*fd = open_memory(path)) < 0)
        s = weft_fail(err, WEFT_ERR_INPUT, where,
                      "%s: a lock asks for a copy in sealed memory (memfd), which this system does "
                      "not have: %s; allow memfd_create",
                      path, strerror(errno));
    s = s ? s : copy_open(from, *fd, path, where, err);
    if (!s && fcntl(*fd, F_ADD_SEALS, seals) != 0)
        s = fail_file(path, where, "its copy in memory cannot be sealed", err);
    s = s ? s : identify_sealed(*fd, path, where, id, err);
    close(from);
    if (s && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return s;
}
