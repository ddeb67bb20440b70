/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the machine and control groups leave, read from trees of files made here, and what
 * ranks take of it together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/room.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/files.h>

enum { MIB = 1 << 20 };

static char root[32];

static void put(const char *path, const char *text)
{
    char *file = weft_format("%s/%s", root, path), *slash;
    assert_non_null(file);
    slash = strrchr(file, '/');
    *slash = '\0';
    assert_int_equal(weft_make_dirs(file, NULL), WEFT_OK);
    *slash = '/';
    assert_int_equal(weft_write_file(file, text, strlen(text), NULL), WEFT_OK);
    weft_free(file);
}

static int make_tree(void **state)
{
    (void)state;
    memcpy(root, "/tmp/weft-memory-XXXXXX", 24);
    return mkdtemp(root) ? 0 : 1;
}

static int remove_tree(void **state)
{
    (void)state;
    char *command = weft_format("rm -rf '%s'", root);
    int code = command ? system(command) : 1;
    weft_free(command);
    return code;
}

static void assert_room(size_t mib, bool of_group)
{
    const weft_host_room room = weft_find_host_room(root);
    assert_int_equal(of_group ? room.group : room.machine, mib * MIB);
    assert_int_equal(room.group < room.machine, of_group);
}

static void test_machine(void **state)
{
    (void)state;
    assert_true(weft_find_host_room(root).machine == SIZE_MAX);
    assert_true(weft_find_host_room(root).group == SIZE_MAX);
    put("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable:  65536 kB\nSwapFree: 1024 kB\n");
    assert_room(65, false);
    put("proc/self/cgroup", "3:cpu:/a\n0::/\n"); /* groups without limits, or out of sight */
    assert_room(65, false);
}

static void test_version_2(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable: 65536 kB\n");
    put("proc/self/cgroup", "0::/job/step\n");
    put("sys/fs/cgroup/job/memory.max", "33554432\n");
    put("sys/fs/cgroup/job/memory.current", "12582912\n");
    put("sys/fs/cgroup/job/memory.stat",
        "anon 1048576\nfile 9437184\nshmem 2097152\ninactive_file 4194304\nactive_file 3145728\n");
    assert_room(32 - 12 + 7, true); /* what lies in a tmpfs is not given back */
    put("sys/fs/cgroup/job/step/memory.max", "20971520\n"); /* the least on the way */
    put("sys/fs/cgroup/job/step/memory.current", "1048576\n");
    assert_room(19, true);
    put("sys/fs/cgroup/job/step/memory.max", "max\n");
    assert_room(27, true);
    assert_int_equal(weft_find_host_room(root).group_limit, 32 * MIB);
    put("sys/fs/cgroup/memory.max", "4194304\n"); /* as a container sees its own */
    put("sys/fs/cgroup/memory.current", "5242880\n");
    assert_room(0, true);
    put("proc/self/cgroup", "0::/not/mounted/here\n");
    assert_room(0, true);
}

static void test_version_1(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable: 65536 kB\n");
    put("proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/job\n0::/\n");
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "12582912\n");
    assert_room(64, false);
    assert_true(weft_find_host_room(root).group == SIZE_MAX); /* that is no limit */
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "33554432\n");
    put("sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file 4194304\ntotal_active_file 1048576\n");
    assert_room(32 - 12 + 5, true);
    put("proc/self/cgroup", "4:cpu:/job\n");
    assert_room(64, false);
}

static void test_nonsense(void **state)
{
    char line[6000];
    (void)state;
    put("proc/meminfo", "MemAvailable: 65536 kB\n");
    put("sys/fs/cgroup/a/memory.max", "much\n");
    put("sys/fs/cgroup/a/memory.current", "");
    put("proc/self/cgroup", "0\n::\n:memory\n0::/a\n");
    assert_room(64, false);
    memset(line, 'x', sizeof line - 1); /* longer than any path */
    line[sizeof line - 1] = '\0';
    memcpy(line, "0::/", 4);
    put("proc/self/cgroup", line);
    assert_room(64, false);
}

/* Groups of two hosts may have the same number. */
static void test_sums(void **state)
{
    const weft_room_share all[] = {{1, 7, 1}, {2, 7, 10}, {2, 8, 100}, {2, 7, 1000}};
    (void)state;
    weft_room_sums s = weft_cli_room_sums(all, 4, 3);
    assert_int_equal(s.in_group, 1010);
    assert_int_equal(s.n_in_group, 2);
    assert_int_equal(s.on_host, 1110);
    assert_int_equal(s.n_on_host, 3);
    assert_int_equal(s.first_on_host, 1);
    s = weft_cli_room_sums(all, 4, 0);
    assert_int_equal(s.in_group, 1);
    assert_int_equal(s.on_host, 1);
    assert_int_equal(s.first_on_host, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_machine, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_version_2, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_version_1, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_nonsense, make_tree, remove_tree),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
