/* SPDX-License-Identifier: Apache-2.0 */
/* Rings and folders, and files that are damaged, cannot be read or are of another run. */
#include "ranks.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/files.h>

/* ---- rings and files ---- */

static void the_ring_turns(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\nentries = 16\n");
    for (int i = 0; i < 40; i++)
        for (int r = 0; r < RANKS; r++)
            collective(f, r, f->all[r], i);
    for (int r = 1; r < RANKS; r++)
        enters(f, r, f->all[r], 99);
    assert_int_equal(command(f, "--rank", "0"), WEFT_OK);
    assert_null(strstr(weft_text_get(&f->out), "step 7: 23 f32"));
    says(f, "step 7: 24 f32");
    says(f, "step 7: 39 f32");
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "missing: rank 0\n");
}

static void old_records_go(void **state)
{
    fixture *f = *state;
    char path[192];
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/flight/2020010%dT000000Z-1", f->dir, i + 1);
        assert_int_equal(weft_make_dirs(path, NULL), WEFT_OK);
    }
    snprintf(path, sizeof path, "%s/flight/mine", f->dir);
    assert_int_equal(weft_make_dirs(path, NULL), WEFT_OK);
    begin(f, "[flight]\nkeep = 2\n");
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/flight/2020010%dT000000Z-1", f->dir, i + 1);
        assert_int_equal(access(path, F_OK), i == 4 ? 0 : -1);
    }
    snprintf(path, sizeof path, "%s/flight/mine", f->dir);
    assert_int_equal(access(path, F_OK), 0);
}

static void write_file(const char *path, const char *data, size_t size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    fclose(file);
}

/* Whatever a byte is changed to, the command says something that can be read, and of the others
 * what is to be said of them. */
static void damage_hides_nothing_else(void **state)
{
    fixture *f = *state;
    char path[192], *data, *copy;
    size_t size;
    begin(f, "[flight]\nentries = 16\n");
    enters(f, 0, f->all[0], 99);
    for (int r = 2; r < RANKS; r++)
        enters(f, r, f->all[r], 99);
    path_of(f, 1, path, sizeof path);
    end_rank(f, 1);
    assert_int_equal(weft_read_file(path, &data, &size, NULL), WEFT_OK);
    copy = weft_alloc(size);
    int refused = 0;
    for (size_t i = 0; i < size; i = i < 900 ? i + 1 : i + 61) {
        memcpy(copy, data, size);
        copy[i] = (char)~copy[i];
        write_file(path, copy, size);
        assert_int_equal(command(f, NULL, NULL), WEFT_OK);
        says(f, "all_gather, step 7: 99 f32\n");
        refused += strstr(weft_text_get(&f->lines), path) != NULL;
        command(f, "--rank", "1");
    }
    assert_true(refused > 50);
    for (size_t cut = 0; cut < size; cut += 97) {
        write_file(path, data, cut);
        assert_int_equal(command(f, NULL, NULL), WEFT_OK);
        warns(f, path);
        warns(f, cut ? "it is not a record that this weft can read; left out\n"
                     : "it is empty: this rank could not make its record");
        says(f, "3 of 4 ranks");
        says(f, "without a record: rank 1\n");
    }
    weft_free(copy);
    weft_free(data);
}

static void what_is_no_file_is_left_out(void **state)
{
    fixture *f = *state;
    char path[192];
    begin(f, "[flight]\n");
    enters(f, 0, f->all[0], 8);
    path_of(f, 1, path, sizeof path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    path_of(f, 2, path, sizeof path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    alarm(20); /* a pipe keeps its reader waiting */
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    alarm(0);
    warns(f, "rank-1: ");
    warns(f, "rank-2: ");
    says(f, "2 of 4 ranks");
    says(f, "without a record: ranks 1, 2\n");
    path_of(f, 0, path, sizeof path);
    write_file(path, "", 0);
    path_of(f, 3, path, sizeof path);
    write_file(path, "weft", 4);
    assert_int_equal(command(f, NULL, NULL), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&f->err), "no rank has left a record that can be read"));
    assert_int_equal(f->err.n_items, 5);
}

static void another_run_is_left_out(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        enters(f, r, f->all[r], 8);
    f->rank[2]->ring.head->run_ns -= 1000000000;
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    warns(f, "rank-2: it is of another run, of 4 ranks, begun at 20");
    says(f, "3 of 4 ranks");
    says(f, "without a record: rank 2\n");
    f->rank[2]->ring.head->run_ns += 1000000000;
    f->rank[0]->ring.head->run_ns++; /* most know better than the first */
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    warns(f, "rank-0: it is of another run");
    says(f, "without a record: rank 0\n");
}

/* As whoever is no root. */
static weft_status command_of_others(fixture *f)
{
    bool root = geteuid() == 0;
    if (root)
        assert_int_equal(seteuid(65534), 0);
    weft_status s = command(f, NULL, NULL);
    if (root)
        assert_int_equal(seteuid(0), 0);
    return s;
}

static void what_may_not_be_read_is_told(void **state)
{
    fixture *f = *state;
    char path[192], folder[160];
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        enters(f, r, f->all[r], 8);
    assert_int_equal(chmod(f->dir, 0755), 0);
    path_of(f, 3, path, sizeof path);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(command_of_others(f), WEFT_OK);
    warns(f, "rank-3: ");
    warns(f, "Permission denied");
    snprintf(folder, sizeof folder, "%s/flight", f->dir);
    assert_int_equal(chmod(folder, 0), 0);
    assert_int_equal(command_of_others(f), WEFT_ERR_INPUT);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_non_null(strstr(weft_error_text(&f->err), "/flight: cannot read this folder: "
                                                     "Permission denied"));
}

/* A name that is cut within a letter, and bytes that are no letters. */
static void what_is_said_is_utf8(void **state)
{
    fixture *f = *state;
    begin(f, "[flight]\n");
    for (int r = 0; r < RANKS; r++)
        enters(f, r, f->all[r], 8);
    flight_set_text(f->rank[0]->ring.entries[0].place.value, FLIGHT_NAME, "gew\xc3");
    flight_set_text(f->rank[0]->ring.head->at.what, FLIGHT_NAME, "\xff\xfe");
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    says(f, "(gew\xef\xbf\xbd)");
    says(f, "last in \xef\xbf\xbd\xef\xbf\xbd");
    flight_set_text(f->rank[3]->ring.head->at.what, FLIGHT_NAME, "\x1b[2J");
    assert_int_equal(command(f, NULL, NULL), WEFT_OK);
    warns(f, "rank-3: its head is damaged");
}

static void nothing_there(void **state)
{
    fixture *f = *state;
    assert_int_equal(command(f, NULL, NULL), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&f->err), "has no flight/"));
}

static void processes_are_known(void **state)
{
    (void)state;
    bool stopped = true;
    assert_true(flight_process_start(getpid(), &stopped) > 0);
    assert_false(stopped);
    assert_true(flight_process_start(1 << 30, NULL) == 0);
    /* dead, and nobody has asked for its exit code */
    siginfo_t info;
    pid_t pid = forked();
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(flight_process_start(pid, NULL) == 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_ring_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(old_records_go, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_hides_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(another_run_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(what_may_not_be_read_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_said_is_utf8, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_there, setup, teardown),
        cmocka_unit_test(processes_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
