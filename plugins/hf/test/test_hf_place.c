/* SPDX-License-Identifier: Apache-2.0 */
/* Where a conversion goes: what it may replace, what is left where it fails, and how tensors are
 * shared out between files. */
#include "hf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

static char dir[] = "/tmp/weft-place-XXXXXX";

static char *at(const char *name)
{
    static char path[2][200];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void put(const char *name)
{
    FILE *f = fopen(at(name), "w");
    assert_non_null(f);
    fclose(f);
}

static bool is_there(const char *name)
{
    return access(at(name), F_OK) == 0;
}

static int enter(void **state)
{
    (void)state;
    memset(dir + strlen(dir) - 6, 'X', 6);
    return !mkdtemp(dir);
}

static int leave(void **state)
{
    weft_error err = {0};
    (void)state;
    weft_status s = weft_io_remove_tree(weft_io_system(), dir, &err);
    weft_error_release(&err);
    return s;
}

static void only_models_are_replaced(void **state)
{
    hf_place p;
    weft_error err = {0};
    (void)state;
    assert_int_equal(mkdir(at("to"), 0777), 0);
    put("to/thesis.tex");
    assert_int_equal(hf_place_begin(&p, at("to"), false, &err), WEFT_ERR_INPUT);
    hf_place_end(&p);
    assert_int_equal(hf_place_begin(&p, at("to"), true, &err), WEFT_ERR_INPUT);
    hf_place_end(&p);
    assert_true(is_there("to/thesis.tex") && !is_there("to.partial"));
    put("to/config.json");
    weft_error_clear(&err);
    assert_int_equal(hf_place_begin(&p, at("to"), true, &err), WEFT_OK);
    put("to.partial/new");
    assert_int_equal(hf_place_commit(&p, &err), WEFT_OK);
    hf_place_end(&p);
    assert_true(is_there("to/new") && !is_there("to/config.json"));
    assert_false(is_there("to.partial") || is_there("to.replaced"));
    weft_error_release(&err);
}

/* No folder can take a place inside of itself. */
static void what_cannot_be_replaced_stays(void **state)
{
    hf_place p;
    weft_error err = {0};
    (void)state;
    assert_int_equal(mkdir(at("to"), 0777), 0);
    put("to/config.json");
    assert_int_equal(hf_place_begin(&p, at("to"), true, &err), WEFT_OK);
    char *temporary = p.temporary;
    p.temporary = dir;
    assert_int_equal(hf_place_commit(&p, &err), WEFT_ERR_IO);
    p.temporary = temporary;
    hf_place_end(&p);
    assert_true(is_there("to/config.json"));
    assert_false(is_there("to.replaced"));
    weft_error_release(&err);
}

static bool says(const weft_error *err, const char *words)
{
    return err->n_items > 0 && strstr(err->items[err->n_items - 1].text, words);
}

/* Of several conversions one goes on, the others say why they do not, and leave its files alone. */
static void one_writes_at_a_time(void **state)
{
    hf_place first, second;
    weft_error err = {0};
    (void)state;
    assert_int_equal(mkdir(at("to.partial"), 0777), 0);
    put("to.partial/rubbish"); /* of one that was killed */
    assert_int_equal(hf_place_begin(&first, at("to"), false, &err), WEFT_OK);
    assert_false(is_there("to.partial/rubbish"));
    put("to.partial/new");
    assert_int_equal(hf_place_begin(&second, at("to"), true, &err), WEFT_ERR_IO);
    assert_true(says(&err, "another conversion is writing it at this moment"));
    hf_place_end(&second);
    assert_true(is_there("to.partial/new"));
    assert_int_equal(hf_place_commit(&first, &err), WEFT_OK);
    /* The next one has begun before the first is done with the folder. */
    assert_int_equal(hf_place_begin(&second, at("to"), false, &err), WEFT_ERR_INPUT);
    assert_true(says(&err, "is there, and not empty"));
    hf_place_end(&second);
    put("to/config.json");
    assert_int_equal(hf_place_begin(&second, at("to"), true, &err), WEFT_OK);
    put("to.partial/newer");
    hf_place_end(&first);
    assert_true(is_there("to/new") && is_there("to.partial/newer"));
    assert_int_equal(hf_place_commit(&second, &err), WEFT_OK);
    hf_place_end(&second);
    assert_true(is_there("to/newer") && !is_there("to.partial") && !is_there("to.replaced"));
    weft_error_release(&err);
}

static void files_hold_what_they_may(void **state)
{
    static const int64_t sizes[] = {6, 4, 1, 9, 30, 2, 8};
    static const int64_t first[] = {0, 2, 4, 5, 7}; /* 10, 10, 30 alone, 10 */
    enum { N = sizeof sizes / sizeof *sizes };
    weft_piece pieces[N];
    int at = 0;
    (void)state;
    for (int i = 0; i < N; i++)
        pieces[i] = (weft_piece){
            .name = "t", .dtype = WEFT_F32, .n_dims = 1, .whole = {sizes[i]}, .size = {sizes[i]}};
    for (int i = 1; i <= 4; i++) {
        at = hf_end_of_file(pieces, N, at, 40);
        assert_int_equal(at, first[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_models_are_replaced, enter, leave),
        cmocka_unit_test_setup_teardown(what_cannot_be_replaced_stays, enter, leave),
        cmocka_unit_test_setup_teardown(one_writes_at_a_time, enter, leave),
        cmocka_unit_test(files_hold_what_they_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
