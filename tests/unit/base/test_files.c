/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <weft/files.h>
#include <weft/store.h>

/* Every test works in a fresh folder, which must hold no stray temporary file in the end. */
static int enter(void **state)
{
    char name[] = "/tmp/weft-files-XXXXXX";
    if (!mkdtemp(name) || chdir(name) != 0)
        return -1;
    *state = strdup(name);
    return *state ? 0 : -1;
}

static int count_files(const char *folder, const char *part)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strstr(entry->d_name, part) != NULL;
    closedir(dir);
    return n;
}

static int leave(void **state)
{
    int strays = count_files(".", ".tmp-");
    char *command = weft_format("rm -rf '%s'", (char *)*state);
    int rc = chdir("/") == 0 && command ? system(command) : -1;
    weft_free(command);
    free(*state);
    return strays || rc ? -1 : 0;
}

static void expect_content(const char *path, const void *want, size_t size)
{
    char *data;
    size_t n;
    assert_int_equal(weft_read_file(path, &data, &n, NULL), WEFT_OK);
    assert_int_equal(n, size);
    assert_memory_equal(data, want, size);
    assert_int_equal(data[n], 0);
    weft_free(data);
}

static void make_dirs(void **state)
{
    weft_error err = {0};
    assert_int_equal(weft_make_dirs("a/b//c/", &err), WEFT_OK);
    assert_int_equal(weft_make_dirs("a/b/c", &err), WEFT_OK);
    assert_int_equal(access("a/b/c", W_OK), 0);
    assert_int_equal(weft_make_dirs(*state, &err), WEFT_OK); /* absolute */
    assert_int_equal(weft_write_file("a/file", "", 0, &err), WEFT_OK);
    assert_int_equal(err.n_items, 0);
    assert_int_equal(weft_make_dirs("a/file/x", &err), WEFT_ERR_INPUT);
    assert_non_null(
        strstr(weft_error_text(&err), "a/file: cannot create this folder: Not a directory"));
    assert_int_equal(weft_make_dirs("", NULL), WEFT_ERR_INPUT);
    weft_error_release(&err);
}

static void write_then_read(void **state)
{
    (void)state;
    static char big[300001];
    memset(big, 'x', sizeof big);
    assert_int_equal(weft_write_file("f", "one\0two", 7, NULL), WEFT_OK);
    expect_content("f", "one\0two", 7);
    assert_int_equal(weft_write_file("f", big, sizeof big, NULL), WEFT_OK);
    expect_content("f", big, sizeof big);
    assert_int_equal(weft_write_file("f", "", 0, NULL), WEFT_OK);
    expect_content("f", "", 0);
    struct stat info;
    mode_t mask = umask(022);
    umask(mask);
    assert_int_equal(stat("f", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
}

static void bad_paths(void **state)
{
    (void)state;
    weft_error err = {0};
    char *data;
    size_t size;
    assert_int_equal(weft_read_file("none", &data, &size, &err), WEFT_ERR_INPUT);
    assert_null(data);
    assert_string_equal(weft_error_text(&err),
                        "none: cannot open this file: No such file or directory");
    assert_int_equal(weft_read_file(".", &data, &size, &err), WEFT_ERR_INPUT);
    assert_int_equal(weft_write_file("none/f", "x", 1, &err), WEFT_ERR_INPUT);
    assert_int_equal(weft_make_dirs("d", &err), WEFT_OK);
    assert_int_equal(err.n_items, 3);
    assert_int_not_equal(weft_write_file("d", "x", 1, &err), WEFT_OK); /* a folder is in the way */
    assert_int_equal(err.n_items, 4);
    weft_error_release(&err);
}

/* The old content must survive whatever allocation fails. */
static void out_of_memory_leaves_the_old_file(void **state)
{
    (void)state;
    assert_int_equal(weft_write_file("f", "old", 3, NULL), WEFT_OK);
    weft_alloc_fail_at(1);
    assert_int_equal(weft_write_file("f", "new", 3, NULL), WEFT_ERR_MEMORY);
    char *data;
    size_t size;
    for (long n = 1;; n++) {
        weft_alloc_fail_at(n);
        weft_status status = weft_read_file("f", &data, &size, NULL);
        if (status == WEFT_OK)
            break;
        assert_int_equal(status, WEFT_ERR_MEMORY);
        assert_null(data);
    }
    weft_alloc_fail_at(0);
    assert_memory_equal(data, "old", 4);
    weft_free(data);
}

static void safetensors_bytes(void **state)
{
    (void)state;
    const uint8_t u8[3] = {1, 2, 3};
    const uint16_t bf16[2] = {0x3f80, 0x4000};
    const double f64[1] = {1.5};
    const weft_safetensor tensors[] = {
        {"b", WEFT_U8, 1, {3}, u8},
        {"h\"", WEFT_BF16, 2, {1, 2}, bf16},
        {"d", WEFT_F64, 0, {0}, f64},
        {"none", WEFT_F32, 2, {0, 4}, NULL},
    };
    const char *const metadata[] = {"format", "pt", "step", "7", NULL};
    assert_int_equal(weft_write_safetensors("t", tensors, 4, metadata, NULL), WEFT_OK);
    char *data;
    size_t size;
    assert_int_equal(weft_read_file("t", &data, &size, NULL), WEFT_OK);
    uint64_t length;
    memcpy(&length, data, 8);
    assert_true(length % 8 == 0);
    assert_true(size == 8 + length + 15);
    const char *want = "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"7\"},"
                       "\"d\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                       "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[8,8]},"
                       "\"h\\\"\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[8,12]},"
                       "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[12,15]}}";
    assert_memory_equal(data + 8, want, strlen(want));
    for (size_t i = 8 + strlen(want); i < 8 + length; i++)
        assert_int_equal(data[i], ' ');
    assert_memory_equal(data + 8 + length, f64, 8);
    assert_memory_equal(data + 8 + length + 8, bf16, 4);
    assert_memory_equal(data + 8 + length + 12, u8, 3);
    weft_free(data);
}

static void safetensors_refusals(void **state)
{
    (void)state;
    const float one[1] = {1};
    const weft_safetensor twice[] = {{"a", WEFT_F32, 1, {1}, one}, {"a", WEFT_F32, 1, {1}, one}};
    const weft_safetensor negative = {"a", WEFT_F32, 1, {-1}, one};
    const weft_safetensor huge = {"a", WEFT_F32, 3, {INT64_MAX, INT64_MAX, 4}, one};
    const weft_safetensor reserved = {"__metadata__", WEFT_F32, 1, {1}, one};
    assert_int_equal(weft_write_safetensors("t", twice, 2, NULL, NULL), WEFT_ERR_INTERNAL);
    assert_int_equal(weft_write_safetensors("t", &negative, 1, NULL, NULL), WEFT_ERR_INTERNAL);
    assert_int_equal(weft_write_safetensors("t", &huge, 1, NULL, NULL), WEFT_ERR_INTERNAL);
    assert_int_equal(weft_write_safetensors("t", &reserved, 1, NULL, NULL), WEFT_ERR_INTERNAL);
    assert_int_equal(access("t", F_OK), -1);
    long n = 0;
    do
        weft_alloc_fail_at(++n);
    while (weft_write_safetensors("t", twice, 1, NULL, NULL) == WEFT_ERR_MEMORY &&
           access("t", F_OK) != 0);
    weft_alloc_fail_at(0);
    assert_true(n > 2);
    assert_int_equal(access("t", F_OK), 0);
}

/* ---- files that are written ---- */

static void put(const char *path, const char *text)
{
    assert_int_equal(weft_write_file(path, text, strlen(text), NULL), WEFT_OK);
}

static void assert_holds(const char *path, const char *text)
{
    expect_content(path, text, strlen(text));
}

static void links_are_not_followed(void **state)
{
    (void)state;
    static const weft_write_as all[] = {WEFT_WRITE_NEW, WEFT_WRITE_AGAIN, WEFT_WRITE_SHARED,
                                        WEFT_WRITE_APPEND};
    put("precious", "old");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        weft_error err = {0};
        int fd = -1;
        assert_int_equal(symlink("precious", "link"), 0);
        weft_status status = weft_create_file("link", all[i], &fd, &err);
        assert_int_equal(status, all[i] == WEFT_WRITE_AGAIN ? WEFT_OK : WEFT_ERR_INPUT);
        if (fd >= 0) {
            assert_int_equal(write(fd, "new", 3), 3);
            assert_int_equal(close(fd), 0);
        }
        if (all[i] == WEFT_WRITE_SHARED || all[i] == WEFT_WRITE_APPEND)
            assert_non_null(strstr(weft_error_text(&err), "link: cannot write: it is a symbolic"));
        assert_holds("precious", "old");
        assert_int_equal(unlink("link"), 0);
        weft_error_release(&err);
    }
    assert_int_equal(symlink("precious", "link"), 0);
    assert_int_equal(weft_write_file("link", "new", 3, NULL), WEFT_ERR_INPUT);
    assert_holds("precious", "old");
    assert_int_equal(readlink("link", (char[8]){0}, 8), 8);
}

static void files_are_taken_as_asked(void **state)
{
    (void)state;
    put("f", "old");
    assert_int_equal(weft_open_to_write("f", WEFT_WRITE_NEW), -1);
    assert_int_equal(errno, EEXIST);
    int fd = weft_open_to_write("f", WEFT_WRITE_SHARED);
    assert_true(fd >= 0);
    close(fd);
    assert_holds("f", "old");
    fd = weft_open_to_write("f", WEFT_WRITE_APPEND);
    assert_int_equal(write(fd, "er", 2), 2);
    close(fd);
    assert_holds("f", "older");
    fd = weft_open_to_write("f", WEFT_WRITE_AGAIN);
    assert_true(fd >= 0);
    close(fd);
    assert_holds("f", "");
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    weft_error err = {0};
    int fd;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(weft_create_file("pipe", WEFT_WRITE_APPEND, &fd, &err), WEFT_ERR_INPUT);
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(weft_create_file("folder", WEFT_WRITE_SHARED, &fd, &err), WEFT_ERR_INPUT);
    assert_int_equal(weft_create_file("none/f", WEFT_WRITE_NEW, &fd, &err), WEFT_ERR_INPUT);
    assert_int_equal(weft_write_file("pipe", "new", 3, &err), WEFT_ERR_INPUT);
    assert_int_equal(weft_write_file("folder", "new", 3, &err), WEFT_ERR_INPUT);
    assert_int_equal(err.n_items, 5);
    assert_non_null(strstr(err.items[0].text, "pipe"));
    assert_non_null(strstr(err.items[3].text, "it is a pipe"));
    struct stat info;
    assert_int_equal(lstat("pipe", &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    weft_error_release(&err);
}

static void exposed_folders_are_told(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        bool told;
    } cases[] = {{0700, false}, {0755, false}, {0757, true}, {01777, false}, {0777, true}};
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_null(weft_folder_exposed("none"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(chmod("folder", cases[i].mode), 0);
        assert_int_equal(weft_folder_exposed("folder") != NULL, cases[i].told);
    }
}

/* Whoever meets an error of the system, the same one is the user's. */
static void one_error_has_one_code(void **state)
{
    char name[301];
    (void)state;
    memset(name, 'n', 300);
    name[300] = '\0';
    assert_int_equal(weft_write_file(name, "x", 1, NULL), WEFT_ERR_INPUT);
    assert_int_equal(weft_io_write_file(weft_io_system(), name, "x", 1, NULL), WEFT_ERR_INPUT);
    assert_int_equal(weft_write_file("/dev/null/x", "x", 1, NULL), WEFT_ERR_INPUT);
    assert_int_equal(weft_io_write_file(weft_io_system(), "/dev/null/x", "x", 1, NULL),
                     WEFT_ERR_INPUT);
}

static void expect_checkpoint(const char *folder, const char *want)
{
    char *path;
    assert_int_equal(weft_checkpoint_find(weft_io_system(), folder, &path, NULL), WEFT_OK);
    if (want)
        assert_string_equal(path, want);
    else
        assert_null(path);
    weft_free(path);
}

static void checkpoints_are_found(void **state)
{
    static const char *const whole[] = {"run/step-9", "run/ckpt/step-2", "run/ckpt/step-10"};
    (void)state;
    expect_checkpoint("run", NULL);
    assert_int_equal(weft_make_dirs("run/ckpt/step-11", NULL), WEFT_OK); /* unfinished */
    assert_int_equal(weft_make_dirs("run/ckpt/step-12x", NULL), WEFT_OK);
    assert_int_equal(weft_write_file("run/ckpt/step-12x/manifest.json", "", 0, NULL), WEFT_OK);
    expect_checkpoint("run", NULL);
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        char *manifest = weft_format("%s/manifest.json", whole[i]);
        assert_int_equal(weft_make_dirs(whole[i], NULL), WEFT_OK);
        assert_int_equal(weft_write_file(manifest, "", 0, NULL), WEFT_OK);
        weft_free(manifest);
        expect_checkpoint("run", whole[i]);
    }
    expect_checkpoint("run/ckpt", "run/ckpt/step-10");
    expect_checkpoint("run/step-9", "run/step-9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(make_dirs, enter, leave),
        cmocka_unit_test_setup_teardown(write_then_read, enter, leave),
        cmocka_unit_test_setup_teardown(bad_paths, enter, leave),
        cmocka_unit_test_setup_teardown(out_of_memory_leaves_the_old_file, enter, leave),
        cmocka_unit_test_setup_teardown(safetensors_bytes, enter, leave),
        cmocka_unit_test_setup_teardown(safetensors_refusals, enter, leave),
        cmocka_unit_test_setup_teardown(links_are_not_followed, enter, leave),
        cmocka_unit_test_setup_teardown(files_are_taken_as_asked, enter, leave),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, enter, leave),
        cmocka_unit_test_setup_teardown(exposed_folders_are_told, enter, leave),
        cmocka_unit_test_setup_teardown(one_error_has_one_code, enter, leave),
        cmocka_unit_test_setup_teardown(checkpoints_are_found, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
