/* SPDX-License-Identifier: Apache-2.0 */
/* The file that a rank records in: memory that the kernel keeps when the rank is gone. */
#include "flight.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <weft/files.h>

int64_t flight_now(const flight_ring *r)
{
    return r->offset_ns + (int64_t)(weft_now() * 1e9);
}

void flight_set_text(char *to, size_t size, const char *text)
{
    size_t n = text ? strnlen(text, size - 1) : 0;
    memcpy(to, text ? text : "", n);
    to[n] = '\0';
}

int64_t flight_process_start(int64_t pid, bool *stopped)
{
    char path[64], line[1024], *at;
    long long start = 0;
    char state = '?';
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *f = fopen(path, "r");
    at = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL; /* names may have blanks */
    if (f)
        fclose(f);
    if (!at ||
        sscanf(at + 1,
               " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
               "%*d %*d %lld",
               &state, &start) != 2 ||
        state == 'Z' || state == 'X')
        return 0;
    if (stopped)
        *stopped = state == 'T' || state == 't';
    return start;
}

/* ---- where things are ---- */

static size_t padded(size_t n)
{
    return (n + 7) / 8 * 8;
}

static size_t tables_bytes(int n)
{
    return padded((size_t)n * sizeof(int32_t)) + 2 * (size_t)n * sizeof(uint64_t);
}

flight_group *flight_ring_group(const flight_ring *r, int index)
{
    return (flight_group *)(void *)((char *)r->head + sizeof *r->head) + index;
}

uint64_t *flight_group_sent(const flight_head *head, const flight_group *g)
{
    size_t at = (size_t)g->tables + padded((size_t)g->n * sizeof(int32_t));
    return (uint64_t *)(void *)((char *)(uintptr_t)head + at);
}

uint64_t *flight_group_received(const flight_head *head, const flight_group *g)
{
    return flight_group_sent(head, g) + g->n;
}

/* ---- making it ---- */

static weft_status failed(const char *path, const char *what, int code, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "flight: %s: cannot %s: %s", path, what,
                     strerror(code));
}

/* Room that the file system has promised: or a full disk would kill the rank. */
static weft_status map(flight_ring *r, const char *path, size_t bytes, weft_error *err)
{
    int fd;
    weft_status s = weft_create_file(path, WEFT_WRITE_AGAIN, &fd, err);
    if (s)
        return s;
    int code = posix_fallocate(fd, 0, (off_t)bytes);
    void *memory = code ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    code = code ? code : memory == MAP_FAILED ? errno : 0;
    close(fd);
    if (code)
        return failed(path, "be taken as memory", code, err);
    r->head = memory;
    r->bytes = bytes;
    return WEFT_OK;
}

static void fill_head(flight_ring *r, int rank, int ranks, int groups, int64_t capacity,
                      size_t entries)
{
    *r->head = (flight_head){.head_bytes = sizeof *r->head,
                             .entry_bytes = sizeof *r->entries,
                             .rank = rank,
                             .ranks = ranks,
                             .n_groups = groups,
                             .capacity = (uint64_t)capacity,
                             .entries = entries,
                             .pid = getpid(),
                             .process_start = flight_process_start(getpid(), NULL),
                             .began_ns = flight_now(r),
                             .at_ns = flight_now(r)};
    if (gethostname(r->head->host, sizeof r->head->host - 1) != 0)
        r->head->host[0] = '\0';
    flight_set_text(r->head->at.what, sizeof r->head->at.what, "the start");
    r->head->at.block = r->head->at.stage = -1;
    r->head->at.micro_batch = -1;
    r->entries = (flight_entry *)(void *)((char *)r->head + entries);
}

weft_status flight_ring_create(flight_ring *r, const char *path, int rank, int ranks,
                               int64_t capacity, int64_t run_ns, flight_member *members,
                               weft_error *err)
{
    struct timespec utc = {0};
    size_t tables = 0;
    int n = 0;
    for (const flight_member *m = members; m; m = m->next, n++)
        tables += tables_bytes(m->n);
    size_t first = sizeof(flight_head) + (size_t)n * sizeof(flight_group), entries = first + tables;
    weft_status s = map(r, path, entries + (size_t)capacity * sizeof(flight_entry), err);
    if (s)
        return s;
    if (clock_gettime(CLOCK_REALTIME, &utc) == 0)
        r->offset_ns = (int64_t)utc.tv_sec * 1000000000 + utc.tv_nsec - (int64_t)(weft_now() * 1e9);
    fill_head(r, rank, ranks, n, capacity, entries);
    r->head->run_ns = run_ns;
    for (flight_member *m = members; m; m = m->next) {
        m->index = --n; /* the oldest is group 0 on every rank */
        *flight_ring_group(r, n) = (flight_group){m->n, m->me, 0, first};
        memcpy((char *)r->head + first, m->ranks, (size_t)m->n * sizeof(int32_t));
        first += tables_bytes(m->n);
    }
    r->head->magic = FLIGHT_MAGIC;
    return WEFT_OK;
}

void flight_ring_release(flight_ring *r)
{
    if (r->head)
        munmap(r->head, r->bytes);
    *r = (flight_ring){0};
}
