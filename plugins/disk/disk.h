/* SPDX-License-Identifier: Apache-2.0 */
/* Far memory on a disk: what the plugin's files share. */
#ifndef DISK_H
#define DISK_H

#include <pthread.h>
#include <weft/plugin.h>
#include <weft/service.h>
#include <weft/store.h>

enum { DISK_BLOCK = 4096, DISK_PIECE = 1 << 20, DISK_MOST_THREADS = 16 };

/* ---- queue.c: threads that move pieces between a file and memory ---- */

/* A transfer: pieces are handed out from `next` on. */
typedef struct disk_move {
    int64_t at, n, next;
    char *memory;
    bool writes;
    int moving;               /* pieces that threads are at */
    char *failed;             /* why; NULL: not. weft_free */
    bool no_memory;           /* not even for that */
    struct disk_move *behind; /* of those that have pieces left */
} disk_move;

typedef struct disk_queue {
    const weft_io *io;
    int fd;
    const char *name; /* for messages */
    bool direct;      /* the file is open so; else what was moved leaves the page cache */
    uint64_t *sums;   /* by block; 0: never written; NULL: nobody compares */
    int n_threads;
    pthread_t threads[DISK_MOST_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locks; /* lock and changed are there */
    bool quit;
    disk_move *first, *last;
    int moving;            /* pieces, of all transfers */
    int64_t read, written; /* bytes so far */
    double waited_s;       /* for them */
    double busy_s, since;  /* in which a piece moved; and from when on one does */
} disk_queue;

/* io, fd, name and direct are set (disk_file_open), and sums. Starts n threads, or as many as there
 * may be. */
weft_status disk_queue_start(disk_queue *q, int n, weft_error *err);
/* Behind this nothing is under way. Fine if it was not started. */
void disk_queue_stop(disk_queue *q);
/* Takes back what no thread is at, and waits for the rest. */
void disk_queue_drain(disk_queue *q);
/* The move is the caller's until disk_queue_wait. */
void disk_queue_add(disk_queue *q, disk_move *m);
weft_status disk_queue_wait(disk_queue *q, disk_move *m, weft_error *err);
/* One transfer, begun and waited for, and how long that takes. */
weft_status disk_queue_time(disk_queue *q, bool writes, int64_t at, char *memory, int64_t n,
                            double *seconds, weft_error *err);

/* ---- file.c ---- */

/* Past the page cache: where that can be; or it is refused; or never. */
typedef enum disk_direct { DISK_AUTO, DISK_DIRECT, DISK_CACHED } disk_direct;

/* Opens a scratch file in a folder. at: where the INI names it. */
weft_status disk_file_open(disk_queue *q, const char *dir, disk_direct direct, weft_where at,
                           weft_error *err);
/* All of its room now, so that no later write finds the disk full. */
weft_status disk_file_reserve(const disk_queue *q, int64_t bytes, weft_where at, weft_error *err);

/* ---- command.c ---- */

extern const weft_command disk_command;

#endif
