/* SPDX-License-Identifier: Apache-2.0 */
/* weft disk DIR: what a plan wants to know of the disk. */
#include "disk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/options.h>
#include <weft/random.h>

enum { ROUNDS = 3, MIB = 1 << 20, AT_ONCE = 64 * MIB };

typedef struct probe {
    disk_queue q;
    int64_t bytes, threads;
    char *memory;           /* AT_ONCE */
    double rate[2][ROUNDS]; /* read, written; ascending in the end */
} probe;

/* No controller makes it smaller... */
static void fill(char *memory)
{
    for (int64_t i = 0; i < AT_ONCE / 8; i++) {
        const uint64_t bits = weft_random_bits(1, 0, (uint64_t)i);
        memcpy(memory + i * 8, &bits, 8);
    }
}

/* ... or finds a block twice. */
static void number_blocks(char *memory, int64_t number)
{
    for (int64_t i = 0; i < AT_ONCE; i += DISK_BLOCK, number++)
        memcpy(memory + i, &number, 8);
}

static weft_status pass(probe *p, int round, bool writes, weft_error *err)
{
    double all = 0, seconds = 0;
    weft_status s = WEFT_OK;
    for (int64_t at = 0; at < p->bytes && !s; at += AT_ONCE, all += seconds) {
        const int64_t left = p->bytes - at;
        if (writes)
            number_blocks(p->memory, (round * p->bytes + at) / DISK_BLOCK);
        s = disk_queue_time(&p->q, writes, at, p->memory, left < AT_ONCE ? left : AT_ONCE, &seconds,
                            err);
    }
    p->rate[writes][round] = (double)p->bytes / (all + 1e-9);
    return s;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static weft_status measure(probe *p, weft_error *err)
{
    weft_status s = WEFT_OK;
    fill(p->memory);
    for (int round = 0; round < ROUNDS && !s; round++) {
        s = pass(p, round, true, err);
        s = s ? s : pass(p, round, false, err);
    }
    for (int k = 0; k < 2; k++)
        qsort(p->rate[k], ROUNDS, sizeof *p->rate[k], ascending);
    return s;
}

static void print_range(const double *rate, const char *what, weft_text *text)
{
    weft_text_print(text, ", %s %.0f to %.0f MB/s", what, rate[0] / 1e6, rate[ROUNDS - 1] / 1e6);
}

/* Lines for an INI. */
static void print_rates(const probe *p, const char *dir, weft_text *text)
{
    weft_text_print(text, "# %s: %d times %" PRId64 " MiB by %" PRId64 " threads, %s", dir, ROUNDS,
                    p->bytes / MIB, p->threads,
                    p->q.direct ? "past the page cache" : "dropped from the page cache");
    print_range(p->rate[0], "read", text);
    print_range(p->rate[1], "written", text);
    weft_text_print(text, "\n[disk]\nread_rate = %.1f MB\nwrite_rate = %.1f MB\n",
                    p->rate[0][ROUNDS / 2] / 1e6, p->rate[1][ROUNDS / 2] / 1e6);
}

static weft_status probe_folder(probe *p, const char *dir, weft_error *err)
{
    p->memory = weft_alloc_pages(AT_ONCE);
    weft_status s = p->memory ? WEFT_OK : weft_fail_memory(err);
    s = s ? s : disk_file_open(&p->q, dir, DISK_AUTO, WEFT_NOWHERE, err);
    s = s ? s : disk_file_reserve(&p->q, p->bytes, WEFT_NOWHERE, err);
    s = s ? s : disk_queue_start(&p->q, (int)p->threads, err);
    s = s ? s : measure(p, err);
    disk_queue_stop(&p->q);
    if (p->q.fd >= 0)
        close(p->q.fd);
    weft_free_aligned(p->memory);
    return s;
}

static weft_status run(const weft_command_host *host, int argc, char **argv, weft_error *err)
{
    const char *dir = NULL;
    int64_t mib = 1024;
    int n = 0;
    probe p = {.q.fd = -1, .threads = 2};
    const weft_option list[] = {
        {.name = "size", .argument = "MIB", .number = &mib, .min = 1, .max = 1 << 20},
        {.name = "threads",
         .argument = "N",
         .number = &p.threads,
         .min = 1,
         .max = DISK_MOST_THREADS},
        {.name = NULL}};
    const weft_options options = {
        .command = "disk", .list = list, .arguments = &dir, .max_arguments = 1, .n_arguments = &n};
    weft_status s = weft_options_parse(&options, argc, argv, err);
    if (!s && n < 1)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "weft disk takes a folder on the disk: weft disk DIR");
    p.bytes = mib * MIB;
    s = s ? s : probe_folder(&p, dir, err);
    if (s)
        return s;
    weft_text text = {0};
    print_rates(&p, dir, &text);
    s = text.out_of_memory ? weft_fail_memory(err)
                           : host->write(host, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    return s;
}

const weft_command disk_command = {
    "disk", "measure how fast a disk reads and writes, for [disk] read_rate and write_rate",
    "usage: weft disk DIR [--size MIB] [--threads N]\n"
    "\n"
    "Writes a scratch file in DIR and reads it, three times, as a run with the plugin disk does:\n"
    "by threads, and not from the page cache. Prints the two lines that a plan wants, for the "
    "INI:\n"
    "medians of the three; a comment says how far these are apart. Nothing is left in DIR.\n"
    "  --size MIB   of the file (default: 1024); more for a disk that is fast only for a while\n"
    "  --threads N  as [disk] threads of the run (default: 2)\n",
    run};
