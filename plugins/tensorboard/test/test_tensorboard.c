/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the observer, and reads its files back with a reader that knows the format from its
 * description and shares nothing with the writer. */
#include "../tensorboard.h"
#include "settings/settings.h"
#include "tests/lib/created.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

extern const weft_plugin tensorboard_LTX_plugin;

typedef struct fixture {
    weft_settings *settings;
    weft_host host;
    weft_log log;
    weft_text lines;
    weft_error err;
    void *self;
    char dir[64];
} fixture;

static void keep_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    snprintf(f->dir, sizeof f->dir, "/tmp/weft-tensorboard-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    f->log = (weft_log){keep_line, &f->lines};
    *state = f;
    return 0;
}

static void end(fixture *f)
{
    created_release(&tensorboard_LTX_plugin, &f->host, f->self);
    f->self = NULL;
    weft_settings_destroy(f->settings);
    f->settings = NULL;
}

static int teardown(void **state)
{
    fixture *f = *state;
    char command[128];
    end(f);
    snprintf(command, sizeof command, "rm -r '%s'", f->dir);
    int code = system(command);
    weft_text_release(&f->lines);
    weft_error_release(&f->err);
    free(f);
    return code;
}

static void begin(fixture *f, const char *ini)
{
    f->host = (weft_host){.log = &f->log, .dir = f->dir, .ranks = 2};
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "tensorboard",
                                           tensorboard_LTX_plugin.params, &f->host.params, &f->err),
                     WEFT_OK);
    assert_int_equal(created_init(&tensorboard_LTX_plugin, &f->host, &f->self, &f->err), WEFT_OK);
}

static weft_status event(fixture *f, weft_event which, weft_run_view run)
{
    run.dir = f->dir;
    run.unit = "tokens";
    run.ranks = 2;
    run.steps = 30;
    return tensorboard_LTX_plugin.contributions[0].observe(f->self, which, &run, &f->err);
}

static const weft_report reports[] = {{"grad_norm", 1.5}, {"lr", 3e-4}, {"loss.head", 4.25}};

static weft_run_view step_view(int64_t step)
{
    return (weft_run_view){.step = step,
                           .tokens = 2048,
                           .total_tokens = 2048 * step,
                           .loss = 4.5,
                           .grad_norm = 1.5,
                           .step_s = 0.5,
                           .data_s = 0.125,
                           .flops = 1e12,
                           .peak_flops = 4e12,
                           .planned_bytes = 1 << 30,
                           .peak_bytes = 3 << 29,
                           .reports = reports,
                           .n_reports = 3};
}

/* ---- a reader ---- */

typedef struct reader {
    const unsigned char *at, *end;
} reader;

typedef struct found {
    int records, starts, scalars;
    int64_t start_step, last_step;
    double wall_s;
    char text[4096]; /* "STEP TAG VALUE\n" */
} found;

static uint64_t little(const unsigned char *p, int n)
{
    uint64_t x = 0;
    while (n > 0)
        x = x << 8 | p[--n];
    return x;
}

static uint64_t varint(reader *r)
{
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        assert_true(r->at < r->end);
        x |= (uint64_t)(*r->at & 0x7f) << shift;
        if (!(*r->at++ & 0x80))
            return x;
    }
    fail_msg("a number is too long");
    return 0;
}

/* The next field: its number; of bytes their range, of a number its bits. */
static int field(reader *r, reader *inside, uint64_t *bits)
{
    const uint64_t key = varint(r);
    const int type = (int)(key & 7);
    const size_t left = (size_t)(r->end - r->at), fixed = type == 1 ? 8 : 4;
    if (type == 0) {
        *bits = varint(r);
        return (int)(key >> 3);
    }
    if (type == 2) {
        const uint64_t n = varint(r);
        assert_true(n <= (uint64_t)(r->end - r->at));
        *inside = (reader){r->at, r->at + n};
        r->at += n;
        return (int)(key >> 3);
    }
    assert_true((type == 1 || type == 5) && fixed <= left);
    *bits = little(r->at, (int)fixed);
    r->at += fixed;
    return (int)(key >> 3);
}

/* The message that is inside by this path of fields, 0-ended; nothing: not there. */
static reader inside_of(reader r, const int *path)
{
    while (*path && r.at < r.end) {
        reader inside = {0};
        uint64_t bits;
        if (field(&r, &inside, &bits) != *path)
            continue;
        r = inside;
        path++;
    }
    return *path ? (reader){0} : r;
}

static void add(found *f, const char *label, reader r)
{
    size_t n = strlen(f->text);
    snprintf(f->text + n, sizeof f->text - n, "%s %.*s\n", label, (int)(r.end - r.at),
             r.at ? (const char *)r.at : "");
}

/* "hparam NAME number X", "... bool X", "... text X"; "status X". */
static void read_hparams(reader content, found *f)
{
    reader start = inside_of(content, (const int[]){3, 0}),
           end = inside_of(content, (const int[]){4, 0});
    while (start.at < start.end) {
        reader entry = {0};
        uint64_t bits = 0;
        if (field(&start, &entry, &bits) != 1)
            continue;
        char line[256];
        const reader key = inside_of(entry, (const int[]){1, 0});
        reader value = inside_of(entry, (const int[]){2, 0}), words = {0};
        const int kind = field(&value, &words, &bits);
        double number;
        memcpy(&number, &bits, sizeof number);
        snprintf(line, sizeof line, "hparam %.*s %s", (int)(key.end - key.at), key.at,
                 kind == 2   ? "number"
                 : kind == 4 ? "bool"
                             : "text");
        char digits[32];
        if (kind == 2)
            snprintf(digits, sizeof digits, "%.7g", number);
        else
            snprintf(digits, sizeof digits, "%d", (int)bits);
        if (kind != 3)
            words = (reader){(const unsigned char *)digits,
                             (const unsigned char *)digits + strlen(digits)};
        add(f, line, words);
    }
    if (end.at) {
        uint64_t status = 0;
        reader unused = {0};
        assert_int_equal(field(&end, &unused, &status), 1);
        add(f,
            status == 1   ? "status success"
            : status == 2 ? "status failure"
                          : "status ?",
            (reader){0});
    }
}

static void read_page(reader tensor, reader metadata, found *f)
{
    const reader name = inside_of(metadata, (const int[]){1, 1, 0});
    if (name.end - name.at == 7 && memcmp(name.at, "hparams", 7) == 0) {
        read_hparams(inside_of(metadata, (const int[]){1, 2, 0}), f);
        return;
    }
    assert_int_equal(name.end - name.at, 4);
    assert_memory_equal(name.at, "text", 4);
    uint64_t dtype = 0, size = 0;
    reader unused = {0}, t = tensor, dim = inside_of(tensor, (const int[]){2, 2, 0});
    assert_int_equal(field(&t, &unused, &dtype), 1);
    assert_int_equal(dtype, 7); /* DT_STRING */
    assert_int_equal(field(&dim, &unused, &size), 1);
    assert_int_equal(size, 1);
    add(f, "page text", inside_of(tensor, (const int[]){8, 0}));
}

static void read_value(reader r, found *f, int64_t step)
{
    char tag[128] = "";
    double value = NAN;
    reader tensor = {0}, metadata = {0};
    while (r.at < r.end) {
        reader inside = {0};
        uint64_t bits = 0;
        int number = field(&r, &inside, &bits);
        if (number == 1)
            snprintf(tag, sizeof tag, "%.*s", (int)(inside.end - inside.at), inside.at);
        if (number == 2) {
            uint32_t low = (uint32_t)bits;
            float x;
            memcpy(&x, &low, sizeof x);
            value = (double)x;
        }
        if (number == 8)
            tensor = inside;
        if (number == 9)
            metadata = inside;
    }
    if (metadata.at) {
        read_page(tensor, metadata, f);
        return;
    }
    f->scalars++;
    size_t n = strlen(f->text);
    snprintf(f->text + n, sizeof f->text - n, "%lld %s %.7g\n", (long long)step, tag, value);
}

static void read_event(reader r, found *f)
{
    int64_t step = 0;
    reader summary = {0}, log = {0};
    while (r.at < r.end) {
        reader inside = {0};
        uint64_t bits = 0;
        switch (field(&r, &inside, &bits)) {
        case 1:
            memcpy(&f->wall_s, &bits, sizeof bits);
            break;
        case 2:
            step = (int64_t)bits;
            break;
        case 3:
            assert_int_equal(f->records, 0);
            assert_int_equal(inside.end - inside.at, 13);
            assert_memory_equal(inside.at, "brain.Event:2", 13);
            break;
        case 5:
            summary = inside;
            break;
        case 7:
            log = inside;
            break;
        default:
            fail_msg("a field that events do not have here");
        }
    }
    f->last_step = step;
    if (log.at) {
        uint64_t status = 0;
        assert_int_equal(field(&log, &log, &status), 1);
        assert_int_equal(status, 1);
        f->starts++;
        f->start_step = step;
    }
    while (summary.at < summary.end) {
        reader inside = {0};
        uint64_t bits = 0;
        assert_int_equal(field(&summary, &inside, &bits), 1);
        read_value(inside, f, step);
    }
}

/* The checksum once more, by its definition: the remainder of a division of polynomials. */
static uint32_t crc_of(const unsigned char *p, size_t n)
{
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] & 1 ? table[i] >> 1 ^ 0x82f63b78u : table[i] >> 1;
    }
    while (n--)
        crc = table[(crc ^ *p++) & 0xff] ^ crc >> 8;
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void read_records(const char *data, size_t size, found *f)
{
    reader r = {(const unsigned char *)data, (const unsigned char *)data + size};
    while (r.at < r.end) {
        assert_true(r.end - r.at >= 16);
        const uint64_t n = little(r.at, 8);
        assert_int_equal(little(r.at + 8, 4), crc_of(r.at, 8));
        assert_true(n <= (uint64_t)(r.end - r.at) - 16);
        assert_int_equal(little(r.at + 12 + n, 4), crc_of(r.at + 12, n));
        read_event((reader){r.at + 12, r.at + 12 + n}, f);
        f->records++;
        r.at += n + 16;
    }
}

/* The one file below DIR/tb. */
static found read_file(const fixture *f, const char *folder)
{
    char path[512], *data;
    size_t size;
    found x = {0};
    snprintf(path, sizeof path, "%s/%s", f->dir, folder);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, "events.out.tfevents.", 20) == 0)
            snprintf(path, sizeof path, "%s/%s/%s", f->dir, folder, e->d_name);
    closedir(d);
    assert_int_equal(weft_read_file(path, &data, &size, NULL), WEFT_OK);
    read_records(data, size, &x);
    weft_free(data);
    return x;
}

static void has(const found *x, const char *line)
{
    if (!strstr(x->text, line))
        fail_msg("'%s' is not in:\n%s", line, x->text);
}

/* ---- tests ---- */

static void the_checksum_is_castagnolis(void **state)
{
    (void)state;
    assert_int_equal(tensorboard_crc("123456789", 9), 0xe3069283u);
    assert_int_equal(tensorboard_crc("", 0), 0);
    static const char zeros[32];
    assert_int_equal(tensorboard_crc(zeros, 32), 0x8a9136aau);
}

static void steps_are_read_back(void **state)
{
    fixture *f = *state;
    begin(f, "[tensorboard]\n");
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){0}), WEFT_OK);
    for (int64_t step = 1; step <= 3; step++)
        assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(step)), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_EVALUATE, (weft_run_view){.step = 3, .eval_loss = 4.75}),
                     WEFT_OK);
    found x = read_file(f, "tb"); /* before STOP: it is all there at once */
    assert_int_equal(x.records, 6);
    assert_int_equal(x.starts, 1);
    assert_int_equal(x.start_step, 1);
    assert_true(fabs(x.wall_s - 1e-9 * (double)weft_utc()) < 100);
    has(&x, "2 loss_metrics/global_avg_loss 4.5\n");
    has(&x, "2 grad_norm 1.5\n");
    has(&x, "2 throughput(tps) 2048\n");
    has(&x, "2 tflops 2\n");
    has(&x, "2 mfu(%) 50\n");
    has(&x, "2 time_metrics/end_to_end(s) 0.5\n");
    has(&x, "2 time_metrics/data_loading(s) 0.125\n");
    has(&x, "2 time_metrics/data_loading(%) 25\n");
    has(&x, "3 n_tokens_seen 6144\n");
    has(&x, "2 lr 0.0003\n");
    has(&x, "2 loss.head 4.25\n");
    has(&x, "2 memory/process_peak(GiB) 1.5\n");
    has(&x, "3 validation_metrics/loss 4.75\n");
    assert_null(strstr(strstr(x.text, "1 grad_norm") + 1, "1 grad_norm"));
}

static void not_finite_is_left_out(void **state)
{
    fixture *f = *state;
    begin(f, "[tensorboard]\n");
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){0}), WEFT_OK);
    weft_run_view run = step_view(1);
    run.loss = NAN;
    run.grad_norm = INFINITY;
    run.step_s = run.peak_flops = 0;
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, run), WEFT_OK);
    found x = read_file(f, "tb");
    assert_null(strstr(x.text, "loss_metrics"));
    assert_null(strstr(x.text, "grad_norm"));
    assert_null(strstr(x.text, "tps"));
    assert_null(strstr(x.text, "mfu"));
    has(&x, "1 n_tokens_seen 2048\n");
}

static void a_resume_says_from_where(void **state)
{
    fixture *f = *state;
    begin(f, "[tensorboard]\nfolder = /proc/none\nevery = 5\n");
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){.step = 7}) == WEFT_OK, 0);
    end(f);
    char ini[160];
    snprintf(ini, sizeof ini, "[tensorboard]\nfolder = %s/there\nevery = 5\n", f->dir);
    begin(f, ini);
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){.step = 7}), WEFT_OK);
    for (int64_t step = 8; step <= 11; step++)
        assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(step)), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STOP, (weft_run_view){.step = 11}), WEFT_OK);
    found x = read_file(f, "there");
    assert_int_equal(x.start_step, 8);
    assert_int_equal(x.records, 4); /* version, start, the first step, and 10 */
    assert_int_equal(x.last_step, 10);
}

static void the_settings_that_somebody_set_are_there(void **state)
{
    static const char ini[] = "[weft]\n"
                              "plugins =\n"
                              "    cpu                                 ; run.ini:2\n"
                              "    llama3                              ; --with\n"
                              "defaults = ops check ; built-in.ini:2\n"
                              "dir = runs/a                            ; run.ini:3\n"
                              ";lock =                                 ; default\n"
                              "\n"
                              "[text]\n"
                              "bos = no                                ; run.ini:5\n"
                              "eos = yes                               ; default\n"
                              "mix =                                   ; run.ini:6\n"
                              "pattern = a ; b = c                     ; run.ini:7\n"
                              "other = a ; b = c                       ; default\n"
                              "\n"
                              "[adamw]\n"
                              "lr = 3e-3                               ; -o\n"
                              "warmup = 10%                            ; -o";
    fixture *f = *state;
    char path[96];
    snprintf(path, sizeof path, "%s/config.ini", f->dir);
    assert_int_equal(weft_write_file(path, ini, sizeof ini - 1, &f->err), WEFT_OK);
    begin(f, "[tensorboard]\n");
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){0}), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STOP, (weft_run_view){.status = WEFT_ERR_IO}), WEFT_OK);
    found x = read_file(f, "tb");
    has(&x, "hparam weft.plugins text cpu llama3\n"
            "hparam text.bos bool 0\n"
            "hparam text.mix text \n"
            "hparam text.pattern text a ; b = c\n"
            "hparam adamw.lr number 0.003\n"
            "hparam adamw.warmup text 10%\n"
            "page text     [weft]\n"
            "    plugins =\n");
    has(&x, "    warmup = 10%                            ; -o\n");
    has(&x, "status failure");
    assert_int_equal(x.records, 5);
    assert_int_equal(f->lines.size, 0);
}

static void without_a_record_of_settings_it_goes_on(void **state)
{
    fixture *f = *state;
    begin(f, "[tensorboard]\n");
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){0}), WEFT_OK);
    assert_non_null(strstr(weft_text_get(&f->lines), "HParams will not know this run's settings"));
    assert_int_equal(event(f, WEFT_EVENT_STOP, (weft_run_view){0}), WEFT_OK);
    assert_int_equal(read_file(f, "tb").records, 2);
}

static void only_rank_0_writes(void **state)
{
    fixture *f = *state;
    begin(f, "[tensorboard]\n");
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){.rank = 1}), WEFT_OK);
    char path[96];
    snprintf(path, sizeof path, "%s/tb", f->dir);
    assert_int_equal(access(path, F_OK), -1);
}

static void long_texts_are_whole(void **state)
{
    (void)state;
    char tag[100];
    found x = {0};
    weft_text text = {0};
    memset(tag, 'x', sizeof tag - 1);
    tag[sizeof tag - 1] = '\0';
    tensorboard_scalar list[20];
    for (int i = 0; i < 20; i++)
        list[i] = (tensorboard_scalar){tag, i};
    tensorboard_add_scalars(&text, 1, INT64_MAX, list, 20);
    tensorboard_add_scalars(&text, 1, 3, list, 0);
    read_records(text.data, text.size, &x);
    assert_int_equal(x.records, 1);
    assert_int_equal(x.scalars, 20);
    assert_true(x.last_step == INT64_MAX);
    weft_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_checksum_is_castagnolis),
        cmocka_unit_test_setup_teardown(steps_are_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(not_finite_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_resume_says_from_where, setup, teardown),
        cmocka_unit_test_setup_teardown(the_settings_that_somebody_set_are_there, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_record_of_settings_it_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(only_rank_0_writes, setup, teardown),
        cmocka_unit_test(long_texts_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
