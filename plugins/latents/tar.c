/* SPDX-License-Identifier: Apache-2.0 */
/* A shard of tar, as webdataset makes them: the files KEY.latents.npy, KEY.t5.npy and KEY.clip.npy
 * that follow each other are a sample. Others are passed over, but what would have to be unpickled
 * is refused. */
#include "latents.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 512, MOST_NAME = 256, MOST_HEAD = 4096 };

/* Where numbers are, and bytes of one: 2, 4 or 8. */
typedef struct array {
    off_t at;
    int bytes;
} array;

typedef struct entry {
    array of[LATENTS_KINDS];
} entry;

struct latents_tar {
    char *path;
    weft_where where;
    int fd;
    off_t size;
    entry *entries;
    int64_t n, capacity;
    latents_sizes sizes; /* of the first sample */
    char key[MOST_NAME];
};

static weft_status bad(const latents_tar *t, const char *member, const char *why, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, t->where, "[latents] %s: %s%s%s", t->path, member,
                     *member ? ": " : "", why);
}

static weft_status read_at(const latents_tar *t, void *to, size_t n, off_t at, weft_error *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(t->fd, (char *)to + done, n - done, at + (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s: cannot read: %s", t->path,
                             strerror(errno));
        if (got == 0)
            return bad(t, "", "it ends too early", err);
        done += (size_t)got;
    }
    return WEFT_OK;
}

/* ---- .npy: a text in front says type, order and shape ---- */

/* What stands behind 'key': in the head. */
static const char *value_of(const char *head, const char *key)
{
    const char *at = strstr(head, key);
    at = at ? strchr(at, ':') : NULL;
    for (at = at ? at + 1 : NULL; at && *at == ' ';)
        at++;
    return at;
}

static weft_status read_shape(const latents_tar *t, const char *member, const char *head, int kind,
                              latents_sizes *out, weft_error *err)
{
    const char *p = value_of(head, "'shape'");
    int n = 0;
    int64_t total = 1;
    if (!p || *p != '(')
        return bad(t, member, "its head says no shape", err);
    for (p++; *p && *p != ')';) {
        char *end;
        const long long size = strtoll(p, &end, 10);
        if (end == p || size < 1 || size > INT32_MAX || n == latents_dims[kind])
            return bad(t, member, "its shape is not that of one sample", err);
        out->size[kind][n++] = size;
        total *= size;
        for (p = end; *p == ',' || *p == ' ';)
            p++;
        if (total > (int64_t)1 << 40)
            return bad(t, member, "its shape is not that of one sample", err);
    }
    if (n != latents_dims[kind])
        return bad(t, member, "its shape is not that of one sample", err);
    out->there[kind] = true;
    return WEFT_OK;
}

static weft_status read_npy(const latents_tar *t, const char *member, off_t at, off_t size,
                            int kind, array *out, latents_sizes *sizes, weft_error *err)
{
    unsigned char magic[12] = {0};
    char head[MOST_HEAD + 1];
    if (size < (off_t)sizeof magic)
        return bad(t, member, "it is no .npy file", err);
    weft_status s = read_at(t, magic, sizeof magic, at, err);
    if (s)
        return s;
    const bool first = magic[6] == 1;
    const size_t from = first ? 10 : 12,
                 n = magic[8] | (size_t)magic[9] << 8 |
                     (first ? 0 : (size_t)magic[10] << 16 | (size_t)magic[11] << 24);
    if (memcmp(magic, "\x93NUMPY", 6) != 0 || magic[6] < 1 || magic[6] > 3 || n > MOST_HEAD ||
        (off_t)(from + n) > size)
        return bad(t, member, "it is no .npy file", err);
    s = read_at(t, head, n, at + (off_t)from, err);
    if (s)
        return s;
    head[n] = '\0';
    const char *type = value_of(head, "'descr'"), *order = value_of(head, "'fortran_order'");
    if (type && strstr(head, "|O"))
        return bad(t, member, "it holds pickled objects; pickle would run whatever they say", err);
    if (!type || strncmp(type, "'<f", 3) != 0 || !strchr("248", type[3]) || type[4] != '\'')
        return bad(t, member, "its numbers are not little-endian f16, f32 or f64", err);
    if (!order || strncmp(order, "False", 5) != 0)
        return bad(t, member, "it lies in Fortran's order", err);
    *out = (array){at + (off_t)(from + n), type[3] - '0'};
    s = read_shape(t, member, head, kind, sizes, err);
    if (!s && out->at + (off_t)latents_elements(sizes, kind) * out->bytes > at + size)
        s = bad(t, member, "it ends before its numbers do", err);
    return s;
}

/* ---- members ---- */

static bool is_pickle(const char *name)
{
    static const char *const ends[] = {".pt", ".pth", ".pkl", ".pickle", ".ckpt"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(dot, ends[i]) == 0)
            return true;
    return false;
}

/* Which kind a name is of, and where it ends without that; -1: of none. */
static int kind_of(const char *name, size_t *key)
{
    for (int k = 0; k < LATENTS_KINDS; k++) {
        char end[32];
        snprintf(end, sizeof end, ".%s.npy", latents_names[k]);
        const size_t n = strlen(name), m = strlen(end);
        if (n > m && strcmp(name + n - m, end) == 0) {
            *key = n - m;
            return k;
        }
    }
    return -1;
}

static weft_status begin_entry(latents_tar *t, weft_error *err)
{
    if (t->n == t->capacity) {
        const int64_t capacity = t->capacity ? 2 * t->capacity : 64;
        entry *longer = weft_realloc(t->entries, (size_t)capacity * sizeof *longer);
        if (!longer)
            return weft_fail_memory(err);
        t->entries = longer;
        t->capacity = capacity;
    }
    t->entries[t->n++] = (entry){.of = {{0, 0}}};
    return WEFT_OK;
}

static weft_status add_member(latents_tar *t, const char *name, off_t at, off_t size,
                              weft_error *err)
{
    size_t n = 0;
    latents_sizes sizes = {.there = {false}};
    if (is_pickle(name))
        return bad(t, name, "pickle would run whatever it says; save it as .npy or safetensors",
                   err);
    const int kind = kind_of(name, &n);
    if (kind < 0)
        return WEFT_OK;
    if (t->n == 0 || strlen(t->key) != n || strncmp(t->key, name, n) != 0) {
        weft_status s = begin_entry(t, err);
        if (s)
            return s;
        snprintf(t->key, sizeof t->key, "%.*s", (int)n, name);
    }
    array *to = &t->entries[t->n - 1].of[kind];
    if (to->bytes)
        return bad(t, name, "it is there twice", err);
    weft_status s = read_npy(t, name, at, size, kind, to, &sizes, err);
    if (s)
        return s;
    if (t->n == 1) {
        memcpy(t->sizes.size[kind], sizes.size[kind], sizeof sizes.size[kind]);
        t->sizes.there[kind] = true;
    } else if (!t->sizes.there[kind] ||
               memcmp(t->sizes.size[kind], sizes.size[kind], sizeof sizes.size[kind]) != 0)
        return bad(t, name, "its shape is not that of the first sample's", err);
    return WEFT_OK;
}

/* An octal number of a head; -1: it is none. */
static off_t octal(const char *p, size_t n)
{
    off_t x = 0;
    size_t i = 0;
    while (i < n && p[i] == ' ')
        i++;
    if (i == n || p[i] < '0' || p[i] > '7')
        return -1;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        x = x * 8 + (p[i] - '0');
    return x;
}

/* Does an extended head say another name or size than the plain one? Times are all that most say.
 */
static bool renames(const latents_tar *t, off_t at, off_t size)
{
    char text[MOST_HEAD + 1];
    weft_error err = {0};
    const bool unread = size > MOST_HEAD || read_at(t, text, (size_t)size, at, &err) != WEFT_OK;
    text[unread ? 0 : size] = '\0';
    weft_error_release(&err);
    return unread || strstr(text, " path=") || strstr(text, " size=") ||
           strstr(text, " GNU.sparse");
}

static weft_status read_members(latents_tar *t, weft_error *err)
{
    weft_status s = WEFT_OK;
    bool ended = false; /* an archive ends in zeros: one that was cut off does not */
    for (off_t at = 0; !s && !ended && at + BLOCK <= t->size;) {
        char head[BLOCK], name[MOST_NAME];
        if ((s = read_at(t, head, sizeof head, at, err)) || (ended = !head[0]))
            break;
        const off_t size = octal(head + 124, 12);
        const char type = head[156];
        if (size < 0 || at + BLOCK + size > t->size)
            return bad(t, "", "it is no tar file, or ends too early", err);
        if (type == 'L' || type == 'S' || (type == 'x' && renames(t, at + BLOCK, size)))
            return bad(t, "", "it has names of more than 100 bytes, sparse files or huge ones",
                       err);
        const bool has_prefix = memcmp(head + 257, "ustar", 5) == 0 && head[345];
        snprintf(name, sizeof name, "%.*s%s%.*s", has_prefix ? 155 : 0, head + 345,
                 has_prefix ? "/" : "", 100, head);
        if (type == '0' || type == '\0')
            s = add_member(t, name, at + BLOCK, size, err);
        at += BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
    }
    if (!s && !ended)
        s = bad(t, "", "it ends too early", err);
    for (int64_t i = 0; !s && i < t->n; i++)
        for (int k = 0; k < LATENTS_KINDS && !s; k++)
            if (t->sizes.there[k] && !t->entries[i].of[k].bytes)
                s = weft_fail(err, WEFT_ERR_INPUT, t->where,
                              "[latents] %s: its sample %lld has no %s", t->path, (long long)i + 1,
                              latents_names[k]);
    if (!s && t->n == 0)
        s = bad(t, "", "it has no sample; a sample is KEY.latents.npy, KEY.t5.npy, KEY.clip.npy",
                err);
    return s;
}

weft_status latents_tar_open(const char *path, weft_where at, latents_tar **out, int64_t *n,
                             latents_sizes *sizes, weft_error *err)
{
    latents_tar *t = weft_alloc_zero(1, sizeof *t);
    *out = NULL;
    if (!t)
        return weft_fail_memory(err);
    t->fd = -1;
    t->where = at;
    weft_status s = (t->path = weft_format("%s", path)) ? weft_open_file(path, at, &t->fd, err)
                                                        : weft_fail_memory(err);
    if (!s)
        t->size = lseek(t->fd, 0, SEEK_END);
    if (!s && t->size < 0)
        s = bad(t, "", "it cannot be read at any place", err);
    s = s ? s : read_members(t, err);
    if (s) {
        latents_tar_close(t);
        return s;
    }
    *n = t->n;
    *sizes = t->sizes;
    *out = t;
    return WEFT_OK;
}

void latents_tar_close(latents_tar *t)
{
    if (!t)
        return;
    if (t->fd >= 0)
        close(t->fd);
    weft_free(t->entries);
    weft_free(t->path);
    weft_free(t);
}

/* ---- reading ---- */

static float from_half(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexpf((float)fraction, -24)
                                       : ldexpf((float)(fraction + 1024), exponent - 25);
    return h >> 15 ? -size : size;
}

weft_status latents_tar_read(latents_tar *t, int kind, int64_t i, float *to, weft_error *err)
{
    const array *a = &t->entries[i].of[kind];
    const size_t n = (size_t)latents_elements(&t->sizes, kind);
    if (a->bytes == 4)
        return read_at(t, to, n * 4, a->at, err);
    void *room = weft_alloc(n * (size_t)a->bytes);
    if (!room)
        return weft_fail_memory(err);
    weft_status s = read_at(t, room, n * (size_t)a->bytes, a->at, err);
    for (size_t k = 0; !s && k < n; k++)
        to[k] = a->bytes == 2 ? from_half(((uint16_t *)room)[k]) : (float)((double *)room)[k];
    weft_free(room);
    return s;
}
