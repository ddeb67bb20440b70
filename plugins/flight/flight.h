/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the flight plugin: what is recorded, where, and what is read from it. */
#ifndef WEFT_FLIGHT_H
#define WEFT_FLIGHT_H

#include <weft/plugin.h>

/* ---- the file of a rank: a head, its groups with their tables, a ring of entries ----
 *
 * It is memory that the rank shares with the file, so whatever ends the rank, and without its help,
 * the file has all that it did. Numbers are as the machine has them; the magic says if another one
 * reads. */

#define FLIGHT_MAGIC 0x3274686769666c77ull /* "wlfight2" */
enum { FLIGHT_NAME = 40, FLIGHT_SHORT = 16 };

typedef enum flight_kind {
    FLIGHT_ALL_GATHER,
    FLIGHT_REDUCE_SCATTER,
    FLIGHT_ALL_REDUCE,
    FLIGHT_ALL_TO_ALL,
    FLIGHT_BROADCAST,
    FLIGHT_SEND,
    FLIGHT_RECV,
    FLIGHT_KINDS
} flight_kind;

const char *flight_kind_name(int kind);
bool flight_is_transfer(int kind);

typedef enum flight_state {
    FLIGHT_BEGUN,   /* of transfers: nobody waits for it yet */
    FLIGHT_WAITING, /* the rank is inside */
    FLIGHT_DONE,
    FLIGHT_FAILED
} flight_state;

/* For what an operation is, or where a rank is. */
typedef struct flight_place {
    char what[FLIGHT_NAME];  /* op; of a rank outside of instructions: words */
    char value[FLIGHT_NAME]; /* that it makes or moves */
    char by[FLIGHT_SHORT];   /* the plugin that caused it */
    char part[FLIGHT_SHORT]; /* "forward" */
    int32_t block, stage;
    int64_t micro_batch, step; /* micro_batch: -1: none */
} flight_place;

typedef struct flight_entry {
    uint64_t number;   /* of this rank's operations, from 1; 0: empty */
    uint64_t in_group; /* of the group's collectives, or of the transfers this way, from 1 */
    int32_t group, kind, dtype, state;
    int32_t peer; /* place in the group: of transfers the other end, of a broadcast the root */
    int32_t pad;
    int64_t count, bytes; /* as the transport was told; what this rank sends of it */
    int64_t enqueued_ns, started_ns, ended_ns; /* since 1970; 0: not yet */
    flight_place place;
} flight_entry;

typedef struct flight_group {
    int32_t n, me;
    uint64_t entered; /* collectives */
    uint64_t tables;  /* where in the file: int32 ranks[n], padded to 8, uint64 sent[n], received[n]
                         transfers begun, by member */
} flight_group;

typedef struct flight_head {
    uint64_t magic;
    uint32_t head_bytes, entry_bytes;
    int32_t rank, ranks, n_groups, pad;
    uint64_t capacity, entries; /* of the ring; where it begins in the file */
    uint64_t written;           /* operations ever */
    int64_t pid, process_start; /* the kernel's time of its start, so that a number is not taken for
                                   another process */
    int64_t run_ns;             /* when rank 0 opened, since 1970: on all ranks of a run the same */
    int64_t began_ns, at_ns;    /* since 1970: the record; since when the rank is at `at` */
    int32_t ended, status;      /* the run has ended for this rank, with this weft_status */
    char host[72];
    flight_place at;
} flight_head;

/* ---- writing (ring.c) ---- */

typedef struct flight_ring {
    flight_head *head; /* NULL: nothing is recorded */
    flight_entry *entries;
    size_t bytes;
    int64_t offset_ns; /* what makes a time since 1970 of weft_now() */
} flight_ring;

/* What a rank knows of a group before there is a file. */
typedef struct flight_member {
    void *inner; /* the group of what is wrapped */
    int *ranks;
    int n, me;
    int index; /* in the file; -1: it has none */
    struct flight_member *next;
} flight_member;

/* Makes the file and lets the members' groups, the oldest last in the list, have their tables in
 * it. */
weft_status flight_ring_create(flight_ring *ring, const char *path, int rank, int ranks,
                               int64_t capacity, int64_t run_ns, flight_member *members,
                               weft_error *err);
void flight_ring_release(flight_ring *ring);
int64_t flight_now(const flight_ring *ring);
flight_group *flight_ring_group(const flight_ring *ring, int index);
uint64_t *flight_group_sent(const flight_head *head, const flight_group *group);
uint64_t *flight_group_received(const flight_head *head, const flight_group *group);
/* Copies as much as there is room for. */
void flight_set_text(char *to, size_t size, const char *text);
/* When a process began, by the kernel's clock; 0: unknown, or there is none, or it is dead and
 * nobody has asked for its exit code yet. stopped may be NULL. */
int64_t flight_process_start(int64_t pid, bool *stopped);

/* ---- the wrap (wrap.c) ---- */

typedef struct flight_pending {
    weft_request *request;
    uint64_t number; /* of its entry */
} flight_pending;

enum { FLIGHT_PENDING = 256 };

typedef struct flight {
    const weft_host *host;
    const weft_transport *next;
    void *next_self;
    flight_member *members;
    flight_ring ring;
    flight_place at; /* of the instruction under way */
    flight_pending pending[FLIGHT_PENDING];
    int n_pending;
    bool grouped; /* collectives are begun as one, from number `first` on */
    uint64_t first;
    char id[32]; /* of the run: the folder's name */
    int64_t run_ns, capacity, keep;
} flight;

extern const weft_transport flight_transport;
weft_status flight_wrap(void *self, const void *next, void *next_self, weft_error *err);

/* ---- reading one rank's (read.c) ---- */

/* What became of its process, where that can be known: on the host that it is on. */
typedef enum flight_fate {
    FLIGHT_LIVES,
    FLIGHT_STOPPED,
    FLIGHT_GONE,  /* without having ended */
    FLIGHT_ENDED, /* with the status in the head */
    FLIGHT_ELSEWHERE
} flight_fate;

typedef struct flight_rank {
    char *data;              /* the whole file */
    const flight_head *head; /* NULL: there is none, or it cannot be read */
    flight_fate fate;
} flight_rank;

weft_status flight_rank_read(const char *path, flight_rank *out, weft_error *err);
void flight_rank_release(flight_rank *rank);
/* It lives, as far as is known. */
bool flight_may_run(const flight_rank *rank);
/* Has it gone on since it was read? */
bool flight_rank_moves(const flight_rank *rank, const char *path);
const flight_group *flight_rank_group(const flight_rank *rank, int index);
const int32_t *flight_rank_members(const flight_rank *rank, int index);
/* The entry of this number; NULL: it is overwritten, or was never made. */
const flight_entry *flight_rank_entry(const flight_rank *rank, uint64_t number);
/* Which group of `other` is group `index` of `rank`: the one of the same members, made as the same
 * of those; -1: none. */
int flight_rank_find_group(const flight_rank *rank, int index, const flight_rank *other);

/* ---- reading all of them (record.c) ---- */

typedef struct flight_record {
    char *folder;
    flight_rank *ranks;
    int n, here;     /* ranks of the run; those that have left a record */
    int64_t read_ns; /* when, since 1970 */
} flight_record;

/* As records are called: "20261122T130118Z-1234". */
bool flight_is_record(const char *name);
/* DIR: a run folder, of which the newest record is taken, or the folder of a record. What is of no
 * use is said to the log and left out. */
weft_status flight_record_read(const char *dir, const weft_log *log, flight_record *out,
                               weft_error *err);
void flight_record_release(flight_record *record);
/* Does a rank go on within so many seconds? */
bool flight_record_moves(const flight_record *record, int64_t within_s);

/* ---- what follows (analyse.c) ---- */

/* An operation that some rank is in, or was when it failed. */
typedef struct flight_stall {
    int rank; /* of those who entered it the first */
    const flight_entry *entry;
    int *entered, *missing, *unknown; /* ranks, in order; unknown: have left no record */
    int n_entered, n_missing, n_unknown;
    bool is_root;     /* of who is missing somebody waits for nobody */
    bool has_culprit; /* one is inside */
    int differs;      /* a rank whose operation of this number is another one; -1: none */
} flight_stall;

typedef struct flight_analysis {
    flight_stall *stalls; /* the one that all others wait for first */
    int n;
    /* By rank: it is stopped, gone or has failed by itself, and others are not. */
    bool *is_culprit;
    int n_culprits;
    int *circle; /* ranks that live, of which each waits for the next and the last for the first */
    int n_circle;
} flight_analysis;

weft_status flight_analyse(const flight_record *record, flight_analysis *out, weft_error *err);
void flight_analysis_release(flight_analysis *analysis);
/* What the rank waits in, or failed in; NULL: nothing. */
const flight_entry *flight_waiting_in(const flight_rank *rank);

/* ---- saying it (words.c, report.c) ---- */

enum { FLIGHT_LISTED = 16 }; /* of more ranks it is said how many */

/* "rank 2"; "ranks 2, 3, 5" */
void flight_add_ranks(weft_text *text, const int *ranks, int n);
/* "attention of llama3, block 3, forward, micro-batch 2, step 7" */
void flight_add_place(weft_text *text, const flight_place *place, const char *what);
const char *flight_fate_words(const flight_rank *rank);
/* "send of pp, block 1, ... to rank 3: 4096 f32" */
void flight_add_entry(weft_text *text, const flight_rank *rank, const flight_entry *entry);
/* "    rank 2: process 4244 on node7, the process lives; last in ..." and the end of the line. */
void flight_add_fate(weft_text *text, const flight_rank *rank);
void flight_report(const flight_record *record, const flight_analysis *analysis, weft_text *text);
/* Of a run that goes on: where each rank is, and for how long. */
void flight_report_moving(const flight_record *record, weft_text *text);

extern const weft_command flight_command;

#endif
