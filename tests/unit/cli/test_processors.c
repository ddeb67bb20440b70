/* SPDX-License-Identifier: Apache-2.0 */
/* Processors that cgroups allow, read from trees of files made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/processors.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/base.h>
#include <weft/files.h>

typedef struct tree {
    char root[32];
} tree;

static int make_tree(void **state)
{
    tree *t = malloc(sizeof *t);
    assert_non_null(t);
    memcpy(t->root, "/tmp/weft-cgroups-XXXXXX", 25);
    assert_non_null(mkdtemp(t->root));
    *state = t;
    return 0;
}

static int remove_tree(void **state)
{
    tree *t = *state;
    char *command = weft_format("rm -rf '%s'", t->root);
    assert_non_null(command);
    int code = system(command);
    weft_free(command);
    free(t);
    return code;
}

static void put(const tree *t, const char *path, const char *text)
{
    char *file = weft_format("%s/%s", t->root, path), *slash;
    assert_non_null(file);
    slash = strrchr(file, '/');
    *slash = '\0';
    assert_int_equal(weft_make_dirs(file, NULL), WEFT_OK);
    *slash = '/';
    assert_int_equal(weft_write_file(file, text, strlen(text), NULL), WEFT_OK);
    weft_free(file);
}

static double quota(const tree *t, const char *groups)
{
    put(t, "proc/self/cgroup", groups);
    return weft_cli_quota(t->root).processors;
}

static void test_version_2(void **state)
{
    const tree *t = *state;
    put(t, "sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    assert_true(quota(t, "0::/a/b\n") == 1.5);
    assert_true(quota(t, "0::/a\n") == 0);
    put(t, "sys/fs/cgroup/a/cpu.max", "50000 100000\n"); /* counts for all below */
    assert_true(quota(t, "0::/a/b\n") == 0.5);
    put(t, "sys/fs/cgroup/a/cpu.max", "max 100000\n");
    assert_true(quota(t, "0::/a/b\n") == 1.5);
    put(t, "sys/fs/cgroup/cpu.max", "100000 100000\n"); /* as a container sees its own */
    assert_true(quota(t, "0::/\n") == 1);
    assert_true(quota(t, "0::/not/mounted/here\n") == 1);
}

static void test_version_1(void **state)
{
    const tree *t = *state;
    put(t, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "300000\n");
    put(t, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    assert_true(quota(t, "4:cpuset:/job\n3:cpu,cpuacct:/job\n0::/\n") == 3);
    put(t, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    assert_true(quota(t, "3:cpu,cpuacct:/job\n") == 0);
    put(t, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "25000\n");
    put(t, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n");
    assert_true(quota(t, "1:cpu:/job/step\n") == 0.5);
    assert_true(quota(t, "1:cpuset:/job\n") == 0);
}

static void test_nonsense(void **state)
{
    const tree *t = *state;
    put(t, "sys/fs/cgroup/cpu.max", "much 0\n");
    assert_true(quota(t, "0::/\n") == 0);
    put(t, "sys/fs/cgroup/cpu.max", "100 0\n");
    assert_true(quota(t, "0::/\n") == 0);
    put(t, "sys/fs/cgroup/cpu.max", "");
    assert_true(quota(t, "0::/\n") == 0);
    assert_true(quota(t, "0\n::\n:cpu\n") == 0);
    assert_true(weft_cli_quota("/tmp/weft-no-such-folder").processors == 0);
}

/* A mask of one processor gives one, and is another than the one before. */
static void test_mask(void **state)
{
    cpu_set_t before, one;
    weft_processors all = weft_cli_processors();
    (void)state;
    assert_true(all.mask >= 1 && all.mask <= sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(all.mask_id == weft_cli_processors().mask_id);
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    weft_processors few = weft_cli_processors();
    assert_int_equal(few.mask, 1);
    if (CPU_COUNT(&before) > 1)
        assert_true(few.mask_id != all.mask_id);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void test_share(void **state)
{
    weft_processors p = {.mask = 8};
    (void)state;
    assert_int_equal(weft_processors_share(&p, 1, 1, 1), 8);
    assert_int_equal(weft_processors_share(&p, 3, 1, 1), 2);
    assert_int_equal(weft_processors_share(&p, 9, 1, 1), 1);
    p.quota = 3; /* of 0.5: 1 */
    assert_int_equal(weft_processors_share(&p, 2, 1, 1), 3);
    assert_int_equal(weft_processors_share(&p, 2, 2, 1), 1);
    p.task = 2;
    assert_int_equal(weft_processors_share(&p, 1, 1, 1), 2);
    assert_int_equal(weft_processors_share(&p, 1, 1, 2), 1);
}

/* The group that has the least is named, whatever the path to it. */
static void test_groups(void **state)
{
    const tree *t = *state;
    put(t, "sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    put(t, "sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    put(t, "sys/fs/cgroup/c/cpu.max", "50000 100000\n");
    put(t, "proc/self/cgroup", "0::/a/b\n");
    weft_quota one = weft_cli_quota(t->root);
    put(t, "proc/self/cgroup", "0::/a\n");
    weft_quota above = weft_cli_quota(t->root);
    put(t, "proc/self/cgroup", "0::/c\n");
    weft_quota other = weft_cli_quota(t->root);
    assert_true(one.id == above.id && one.id != other.id && one.processors == 0.5);
}

static void test_slurm(void **state)
{
    (void)state;
    assert_int_equal(setenv("SLURM_CPUS_PER_TASK", "1", 1), 0);
    assert_int_equal(weft_cli_processors().task, 1);
    assert_int_equal(setenv("SLURM_CPUS_PER_TASK", "1x", 1), 0);
    assert_int_equal(weft_cli_processors().task, 0);
    assert_int_equal(unsetenv("SLURM_CPUS_PER_TASK"), 0);
    assert_int_equal(weft_cli_processors().task, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_version_2, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_version_1, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_nonsense, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(test_groups, make_tree, remove_tree),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_slurm),
    };
    return cmocka_run_group_tests_name("processors", tests, NULL, NULL);
}
