/* SPDX-License-Identifier: Apache-2.0 */
/* The disk that fails: first that it does what it says, then what lib/io makes of it: an error
 * that names the file and nothing half done. */
#include "../../lib/store_run.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* ---- the disk itself ---- */

static void put(const char *path, const char *text, bool flush)
{
    int fd = io->open(io->ctx, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(io->pwrite(io->ctx, fd, text, strlen(text), 0), strlen(text));
    if (flush)
        assert_int_equal(io->fsync(io->ctx, fd), 0);
    assert_int_equal(io->close(io->ctx, fd), 0);
}

/* What is in it, "-" if there is none; until the next call. */
static const char *get(const char *path)
{
    static char text[100];
    char *data = NULL;
    size_t n = 0;
    if (weft_io_read_file(io, path, &data, &n, NULL) != WEFT_OK)
        return "-";
    snprintf(text, sizeof text, "%s", data);
    weft_free(data);
    return text;
}

#define fails(call, error)                                                                         \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(errno, error);                                                            \
    } while (0)

static void behaves_as_posix(void **state)
{
    (void)state;
    void *c = io->ctx;
    char **names = NULL, byte = 0;
    assert_int_equal(io->mkdir(c, "a", 0777), 0);
    assert_int_equal(io->mkdir(c, "/a/b", 0777), 0);
    put("a/x", "1", false);
    fails(io->mkdir(c, "a", 0777), EEXIST);
    fails(io->mkdir(c, "none/b", 0777), ENOENT);
    fails(io->mkdir(c, "a/x/b", 0777), ENOTDIR);
    fails(io->open(c, "a/none", O_RDONLY, 0), ENOENT);
    fails(io->open(c, "a/x", O_RDONLY | O_DIRECTORY, 0), ENOTDIR);
    fails(io->open(c, "a", O_WRONLY, 0), EISDIR);
    fails(io->open(c, "a/x", O_WRONLY | O_CREAT | O_EXCL, 0666), EEXIST);
    fails(io->unlink(c, "a/b"), EISDIR);
    fails(io->unlink(c, "a/none"), ENOENT);
    fails(io->rmdir(c, "a"), ENOTEMPTY);
    fails(io->rmdir(c, "a/x"), ENOTDIR);
    fails(io->rename(c, "a", "a/b/c"), EINVAL);
    fails(io->rename(c, "a/x", "a/b"), EISDIR);
    fails(io->rename(c, "a/b", "a/x"), ENOTDIR);
    fails(io->close(c, 5), EBADF);
    fails(io->list(c, "a/x", &names), ENOTDIR);
    int fd = io->open(c, "a/x", O_RDONLY, 0);
    fails(io->pwrite(c, fd, "2", 1, 0), EBADF);
    assert_int_equal(io->rename(c, "a/x", "a/b/y"), 0);
    assert_int_equal(io->pread(c, fd, &byte, 1, 0), 1); /* it is still open */
    assert_int_equal(byte, '1');
    assert_int_equal(io->pread(c, fd, &byte, 1, 1), 0);
    io->close(c, fd);
    put("a/z", "2", false);
    assert_int_equal(io->rename(c, "a/z", "a/b/y"), 0);
    assert_string_equal(get("a/b/y"), "2");
    put("a/c", "", false);
    assert_int_equal(io->list(c, "/a/", &names), 0);
    assert_string_equal(names[0], "b");
    assert_string_equal(names[1], "c");
    assert_null(names[2]);
    weft_names_free(names);
    ok(weft_io_remove_tree(io, "a", err));
    ok(weft_io_remove_tree(io, "a", err));
    fails(io->open(c, "a", O_RDONLY, 0), ENOENT);
}

static void loses_what_was_not_flushed(void **state)
{
    (void)state;
    io->mkdir(io->ctx, "d", 0777);
    put("d/both", "1", true);
    put("d/name", "1", false);
    ok(weft_io_sync_dir(io, "d", err));
    put("d/data", "1", true);
    fault_fs_reboot(disk, 0);
    assert_string_equal(get("d/both"), "-"); /* d itself was lost */
    io->mkdir(io->ctx, "d", 0777);
    ok(weft_io_sync_dir(io, "/", err));
    put("d/both", "1", true);
    put("d/name", "1", false);
    ok(weft_io_sync_dir(io, "d", err));
    put("d/data", "1", true);
    fault_fs_reboot(disk, 0);
    assert_string_equal(get("d/both"), "1");
    assert_string_equal(get("d/name"), "");
    assert_string_equal(get("d/data"), "-");
    /* Renames and removals, too, last with their folder only. */
    put("d/new", "2", true);
    assert_int_equal(io->rename(io->ctx, "d/new", "d/both"), 0);
    assert_int_equal(io->unlink(io->ctx, "d/name"), 0);
    fault_fs_reboot(disk, 0);
    assert_string_equal(get("d/both"), "1");
    assert_string_equal(get("d/name"), "");
    put("d/new", "2", true);
    assert_int_equal(io->rename(io->ctx, "d/new", "d/both"), 0);
    assert_int_equal(io->unlink(io->ctx, "d/name"), 0);
    ok(weft_io_sync_dir(io, "d", err));
    put("d/both", "3", false);
    fault_fs_reboot(disk, 0);
    assert_string_equal(get("d/both"), "2");
    assert_string_equal(get("d/new"), "-");
    assert_string_equal(get("d/name"), "-");
    /* A missing parent is made so that it lasts. */
    ok(weft_io_make_dirs(io, "p/q//r", err));
    fault_fs_reboot(disk, 0);
    ok(weft_io_sync_dir(io, "p/q/r", err));
}

static void fails_where_it_is_told(void **state)
{
    (void)state;
    char bytes[8];
    put("x", "12345678", true);
    int fd = io->open(io->ctx, "x", O_RDWR, 0);
    fault_fs_arm(disk, FAULT_SHORT, 2, 0);
    assert_int_equal(io->pread(io->ctx, fd, bytes, 8, 0), 8);
    assert_int_equal(io->pread(io->ctx, fd, bytes, 8, 0), 4);
    assert_int_equal(io->pread(io->ctx, fd, bytes, 8, 0), 8);
    assert_int_equal(fault_fs_calls(disk), 3);
    fault_fs_arm(disk, FAULT_ERROR, 1, EIO);
    fails(io->pwrite(io->ctx, fd, "x", 1, 0), EIO);
    assert_int_equal(io->pwrite(io->ctx, fd, "x", 1, 0), 1);
    fault_fs_arm(disk, FAULT_REFUSE, 1, ENOSPC);
    fails(io->pwrite(io->ctx, fd, "x", 1, 0), ENOSPC);
    fails(io->open(io->ctx, "y", O_WRONLY | O_CREAT, 0), ENOSPC);
    assert_int_equal(io->pread(io->ctx, fd, bytes, 8, 0), 8);
    assert_true(fault_fs_fired(disk));
    fault_fs_arm(disk, FAULT_CRASH, 2, 0);
    assert_false(fault_fs_fired(disk));
    assert_int_equal(io->pread(io->ctx, fd, bytes, 8, 0), 8);
    fails(io->fsync(io->ctx, fd), EIO);
    fails(io->close(io->ctx, fd), EIO);
    fails(io->unlink(io->ctx, "x"), EIO);
    fault_fs_reboot(disk, 0);
    assert_string_equal(get("x"), "-");
}

/* The usual way to replace a file, with one step left out or none. */
static void replace(int leave_out)
{
    int fd = io->open(io->ctx, "new", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || io->pwrite(io->ctx, fd, "new text", 8, 0) != 8)
        return;
    if (leave_out != 1 && io->fsync(io->ctx, fd) != 0)
        return;
    if (io->close(io->ctx, fd) != 0 || io->rename(io->ctx, "new", "x") != 0)
        return;
    if (leave_out != 2)
        weft_io_sync_dir(io, "", NULL);
}

/* How often a crash somewhere left neither the old nor the new text, and how often the new one was
 * lost though replace was done. */
static void count_damage(int leave_out, int *broken, int *lost)
{
    *broken = *lost = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        bool fired = true;
        for (long n = 1; fired; n++) {
            fault_fs *old = disk;
            disk = fault_fs_create();
            io = fault_fs_io(disk);
            put("x", "old text", true);
            fault_fs_sync_all(disk);
            fault_fs_arm(disk, FAULT_CRASH, n, 0);
            replace(leave_out);
            fired = fault_fs_fired(disk);
            fault_fs_reboot(disk, seed);
            const char *text = get("x");
            *broken += strcmp(text, "old text") != 0 && strcmp(text, "new text") != 0;
            *lost += !fired && strcmp(text, "new text") != 0;
            fault_fs_destroy(disk);
            disk = old;
            io = fault_fs_io(disk);
        }
    }
}

static void finds_missing_flushes(void **state)
{
    (void)state;
    int broken = 0, lost = 0;
    count_damage(0, &broken, &lost);
    assert_true(broken == 0 && lost == 0);
    count_damage(1, &broken, &lost);
    assert_true(broken > 0);
    count_damage(2, &broken, &lost);
    assert_true(broken == 0 && lost > 0);
}

/* ---- lib/io on it ---- */

static const weft_piece pieces[] = {{"a", WEFT_F32, 2, {4, 3}, {2, 0}, {2, 3}},
                                    {"b", WEFT_BF16, 1, {5}, {0}, {5}}};
static const weft_piece rest = {"a", WEFT_F32, 2, {4, 3}, {0, 0}, {2, 3}};
static const float floats[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static const uint16_t halves[5] = {1, 2, 3, 4, 5};

static weft_status write_first(weft_sums *sums, weft_error *err)
{
    weft_shard *shard = NULL;
    weft_status status = weft_io_make_dirs(io, "top/dir", err);
    if (status == WEFT_OK)
        status = weft_shard_create(io, "top/dir/1.safetensors", pieces, 2, true,
                                   (const char *const[]){"k", "v", NULL}, &shard, err);
    if (status == WEFT_OK)
        status = weft_shard_write(shard, 1, 0, halves, sizeof halves, err); /* out of order */
    if (status == WEFT_OK)
        status = weft_shard_write(shard, 0, 0, floats + 6, 24, err);
    if (status == WEFT_OK)
        status = weft_shard_finish(shard, sums, err);
    weft_shard_destroy(shard);
    return status;
}

static weft_status write_second(weft_error *err)
{
    weft_shard *shard = NULL;
    weft_status status =
        weft_shard_create(io, "top/dir/2.safetensors", &rest, 1, true, NULL, &shard, err);
    if (status == WEFT_OK)
        status = weft_shard_write(shard, 0, 0, floats, 24, err);
    if (status == WEFT_OK)
        status = weft_shard_finish(shard, NULL, err);
    weft_shard_destroy(shard);
    return status;
}

static weft_status read_back(const weft_sums *sums, weft_error *err)
{
    weft_folder *folder = NULL;
    float a[12];
    float b[5];
    weft_sums again = {0};
    weft_status status = weft_folder_open(io, "top/dir", &folder, err);
    if (status != WEFT_OK)
        return status;
    status = weft_folder_verify(folder, "1.safetensors", sums, err);
    if (status == WEFT_OK)
        status =
            weft_folder_read(folder, "a", (int64_t[]){0, 0}, (int64_t[]){4, 3}, WEFT_F32, a, err);
    if (status == WEFT_OK)
        status = weft_folder_read(folder, "b", (int64_t[]){0}, (int64_t[]){5}, WEFT_F32, b, err);
    if (status == WEFT_OK)
        status = weft_sums_of_file(io, "top/dir/1.safetensors", &again, err);
    if (status == WEFT_OK) {
        assert_memory_equal(a, floats, sizeof a);
        assert_true(b[4] == weft_bf16_to_f32(5));
        assert_memory_equal(again.sum, sums->sum, 8);
    }
    weft_sums_release(&again);
    weft_folder_destroy(folder);
    return status;
}

static weft_status do_all(weft_error *err)
{
    weft_sums sums = {0};
    weft_status status = write_first(&sums, err);
    if (status == WEFT_OK)
        status = write_second(err);
    if (status == WEFT_OK)
        status = read_back(&sums, err);
    weft_sums_release(&sums);
    return status;
}

/* A file that is there is whole, though the other one with the rest of its tensor may be missing.
 */
static void check_whole(const char *path)
{
    weft_folder *folder = NULL;
    if (strcmp(get(path), "-") == 0)
        return;
    refused(weft_folder_open(io, path, &folder, err),
            "of tensor \"a\" 6 of 12 elements are there: a file is missing");
}

static void goes_on_after_signals_and_short_transfers(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        bool fired = true;
        for (long n = 1; fired; n++) {
            fault_fs_arm(disk, kind ? FAULT_SHORT : FAULT_ERROR, n, EINTR);
            weft_error error = {0};
            weft_status status = do_all(&error);
            fired = fault_fs_fired(disk);
            fault_fs_arm(disk, FAULT_NONE, 0, 0);
            /* Only asking for a size, and listing, know no signals. */
            if (status != WEFT_OK && !strstr(weft_error_text(&error), "Interrupted"))
                fail_msg("call %ld: %s", n, weft_error_text(&error));
            if (status != WEFT_OK)
                assert_true(strstr(weft_error_text(&error), "size") ||
                            strstr(weft_error_text(&error), "list"));
            weft_error_release(&error);
            assert_int_equal(fault_fs_open_files(disk), 0);
            ok(weft_io_remove_tree(io, "top", err));
        }
    }
}

static void names_what_failed(void **state)
{
    (void)state;
    static const int errors[] = {ENOSPC, EROFS, EIO, EDQUOT};
    for (int kind = 0; kind < 8; kind++) {
        bool fired = true, refuse = kind >= 4;
        for (long n = 1; fired; n++) {
            int error = errors[kind % 4];
            weft_error noted = {0};
            fault_fs_arm(disk, refuse ? FAULT_REFUSE : FAULT_ERROR, n, error);
            weft_status status = do_all(&noted);
            fired = fault_fs_fired(disk);
            fault_fs_arm(disk, FAULT_NONE, 0, 0);
            const char *text = weft_error_text(&noted);
            if (status != WEFT_OK &&
                (!strstr(text, "top") && !strstr(text, ".:") && !strstr(text, "/:")))
                fail_msg("call %ld: no path in \"%s\"", n, text);
            if (status != WEFT_OK && !strstr(text, strerror(error)))
                fail_msg("call %ld: \"%s\" does not say \"%s\"", n, text, strerror(error));
            if (refuse && status != WEFT_OK && !strstr(text, "; nothing older was touched"))
                fail_msg("call %ld: \"%s\"", n, text);
            if (!fired)
                assert_int_equal(status, WEFT_OK);
            weft_error_release(&noted);
            assert_int_equal(fault_fs_open_files(disk), 0);
            if (error != EROFS)
                check_whole("top/dir/1.safetensors");
            ok(weft_io_remove_tree(io, "top", err));
        }
    }
}

static void removes_what_was_not_finished(void **state)
{
    (void)state;
    bool fired = true;
    for (long n = 1; fired; n++) {
        weft_sums sums = {0};
        ok(weft_io_make_dirs(io, "top/dir", err));
        fault_fs_arm(disk, FAULT_REFUSE, n, ENOSPC);
        weft_status status = write_first(&sums, NULL);
        fired = fault_fs_fired(disk);
        fault_fs_arm(disk, FAULT_NONE, 0, 0);
        assert_true((status == WEFT_OK) == (strcmp(get("top/dir/1.safetensors"), "-") != 0));
        weft_sums_release(&sums);
        ok(weft_io_remove_tree(io, "top", err));
    }
}

/* Finished, its folder flushed: it is there after any crash. */
static void a_finished_file_lasts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        weft_sums sums = {0};
        ok(write_first(&sums, err));
        ok(write_second(err));
        ok(weft_io_sync_dir(io, "top/dir", err));
        fault_fs_reboot(disk, seed);
        ok(read_back(&sums, err));
        weft_sums_release(&sums);
        ok(weft_io_remove_tree(io, "top", err));
    }
}

static void survives_failed_allocations(void **state)
{
    (void)state;
    weft_status status = WEFT_ERR_MEMORY;
    long n = 1;
    for (; status != WEFT_OK; n++) {
        weft_error error = {0};
        weft_alloc_fail_at(n);
        status = do_all(&error);
        weft_alloc_fail_at(0);
        if (status != WEFT_OK && status != WEFT_ERR_MEMORY)
            fail_msg("allocation %ld: %s", n, weft_error_text(&error));
        weft_error_release(&error);
        assert_int_equal(fault_fs_open_files(disk), 0);
        ok(weft_io_remove_tree(io, "top", err));
    }
    assert_true(n > 30);
}

/* The same on the system's own disk, in the folder the tests run in. */
static void works_on_the_system(void **state)
{
    (void)state;
    char top[] = "/tmp/weft-test-store-XXXXXX", path[64], link[64];
    const weft_io *system = weft_io_system();
    assert_non_null(mkdtemp(top));
    char **names = NULL, *text = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/a/b", top);
    ok(weft_io_make_dirs(system, path, err));
    ok(weft_io_make_dirs(system, path, err));
    snprintf(path, sizeof path, "%s/a/b/x", top);
    ok(weft_io_write_file(system, path, "12345", 5, err));
    ok(weft_io_write_file(system, path, "123", 3, err));
    ok(weft_io_read_file(system, path, &text, &n, err));
    assert_int_equal(n, 3);
    assert_string_equal(text, "123");
    weft_free(text);
    refused(weft_io_make_dirs(system, path, err), "/a/b/x: cannot create this folder: File exists");
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/a/%02d", top, 19 - i);
        ok(weft_io_write_file(system, path, "", 0, err));
    }
    snprintf(link, sizeof link, "%s/a/link", top);
    snprintf(path, sizeof path, "%s/a", top);
    assert_int_equal(symlink(path, link), 0); /* a loop: removed, not followed */
    ok(weft_io_list(system, path, &names, err));
    assert_string_equal(names[0], "00");
    assert_string_equal(names[19], "19");
    assert_string_equal(names[20], "b");
    assert_string_equal(names[21], "link");
    assert_null(names[22]);
    weft_names_free(names);
    const weft_io *memory = io;
    io = system;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(top), 0);
    ok(do_all(err));
    assert_int_equal(chdir(before), 0);
    io = memory;
    ok(weft_io_remove_tree(system, top, err));
    refused(weft_io_list(system, top, &names, err), "cannot list this folder: No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_disk(behaves_as_posix),
        with_disk(loses_what_was_not_flushed),
        with_disk(fails_where_it_is_told),
        with_disk(finds_missing_flushes),
        with_disk(goes_on_after_signals_and_short_transfers),
        with_disk(names_what_failed),
        with_disk(removes_what_was_not_finished),
        with_disk(a_finished_file_lasts),
        with_disk(survives_failed_allocations),
        with_disk(works_on_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
