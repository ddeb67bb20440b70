/* SPDX-License-Identifier: Apache-2.0 */
/* progress.jsonl has two lines of a fixed size, whose room on the disk is taken at the start: the
 * last step, and, blank while the run goes on, how it ended. run.json takes the end from there, now
 * or at the next start. */
#include "record.h"
#include "console/crash.h"
#include "folder.h"
#include "forecast/forecast.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>

enum { LINE = 2048, MOST_WHY = 300 };

struct weft_record {
    char *dir;
    int64_t number; /* of this start, from 1 */
    int fd;         /* progress.jsonl */
};

/* Where the end of this process' run goes; -1: it has none, or that was said. */
static pthread_mutex_t end_lock = PTHREAD_MUTEX_INITIALIZER;
static int end_fd = -1;

/* ---- lines ---- */

/* Takes what it is given. A line that is too long would be no JSON: it is left out. */
static void write_line(int fd, int line, json_t *o)
{
    char room[LINE];
    size_t n = o ? json_dumpb(o, room, LINE - 1, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : 0;
    json_decref(o);
    if (n == 0 || n >= LINE)
        return;
    memset(room + n, ' ', LINE - n - 1);
    room[LINE - 1] = '\n';
    if (pwrite(fd, room, LINE, line * (off_t)LINE) != LINE)
        return; /* it is not the run that fails */
}

static json_t *now(void)
{
    weft_text text = {0};
    weft_text_add_utc(&text, weft_utc());
    json_t *time = json_string(weft_text_get(&text));
    weft_text_release(&text);
    return time;
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

void weft_record_step(void *record, const weft_run_view *run)
{
    const weft_record *r = record;
    char rate[32];
    snprintf(rate, sizeof rate, "%s_per_s", run->unit);
    write_line(r->fd, 0,
               json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:I}", "start", (json_int_t)r->number,
                         "step", (json_int_t)run->step, "time", now(), "loss", real(run->loss),
                         "step_s", real(run->step_s), rate,
                         real(run->step_s > 0 ? (double)run->tokens / run->step_s : NAN), "skipped",
                         (json_int_t)run->skipped));
}

static const char *outcome_of(int code)
{
    return code == 0 ? "done" : code == 3 ? "stopped" : "failed";
}

void weft_record_end(int code, const char *why)
{
    char text[MOST_WHY + 1] = "";
    weft_text plain = {0};
    weft_text_add_utf8(&plain, why, strlen(why));
    size_t n = plain.size < MOST_WHY ? plain.size : MOST_WHY;
    while (n < plain.size && n > 0 && (plain.data[n] & 0xc0) == 0x80) /* inside a character */
        n--;
    memcpy(text, weft_text_get(&plain), n);
    weft_text_release(&plain);
    pthread_mutex_lock(&end_lock);
    if (end_fd >= 0)
        write_line(end_fd, 1,
                   json_pack("{s:o, s:s, s:i, s:s}", "ended", now(), "outcome", outcome_of(code),
                             "exit_code", code, "why", text));
    end_fd = -1;
    pthread_mutex_unlock(&end_lock);
}

static weft_status reset_progress(weft_record *r, int64_t from, weft_error *err)
{
    char *path = weft_format("%s/progress.jsonl", r->dir), blank[2 * LINE];
    memset(blank, ' ', sizeof blank);
    blank[LINE - 1] = blank[2 * LINE - 1] = '\n';
    weft_status s =
        path ? weft_create_file(path, WEFT_WRITE_SHARED, &r->fd, err) : weft_fail_memory(err);
    if (!s && pwrite(r->fd, blank, sizeof blank, 0) != (ssize_t)sizeof blank)
        s = weft_fail(err, WEFT_ERR_IO, (weft_where){path, 0}, "cannot write: %s", strerror(errno));
    weft_free(path);
    if (s)
        return s;
    write_line(r->fd, 0,
               json_pack("{s:I, s:I, s:o}", "start", (json_int_t)r->number, "step",
                         (json_int_t)from, "time", now()));
    pthread_mutex_lock(&end_lock);
    end_fd = r->fd;
    pthread_mutex_unlock(&end_lock);
    weft_crash_set_record(r->fd, LINE);
    return WEFT_OK;
}

/* ---- run.json ---- */

bool weft_record_exists(const char *dir)
{
    char *path = weft_format("%s/run.json", dir);
    bool there = path && access(path, F_OK) == 0;
    weft_free(path);
    return there;
}

/* Tells the last start how it ended, unless it knows. */
static void finish_last(const char *dir, json_t *starts)
{
    json_t *last = json_array_get(starts, json_array_size(starts) - 1), *progress;
    weft_error unsaid = {0};
    if (!last || json_is_string(json_object_get(last, "outcome")))
        return;
    const json_int_t number = json_integer_value(json_object_get(last, "start"));
    if (weft_folder_read_progress(dir, &progress, &unsaid) || !progress ||
        json_integer_value(json_object_get(progress, "start")) != number) {
        json_decref(progress);
        progress = json_object();
    }
    static const char *const keys[] = {"step", "ended", "outcome", "exit_code", "why"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_object_get(progress, keys[i]))
            json_object_set(last, keys[i], json_object_get(progress, keys[i]));
    if (!json_is_string(json_object_get(last, "outcome"))) {
        json_object_set_new(last, "outcome", json_string("lost"));
        json_object_set_new(last, "why", json_string(WEFT_FOLDER_LOST));
    }
    json_decref(progress);
    weft_error_release(&unsaid);
}

/* The starts that DIR/run.json knows; what cannot be read is as none. */
static json_t *read_starts(const char *dir)
{
    json_t *about = NULL;
    weft_error unsaid = {0};
    json_t *starts = weft_folder_read_about(dir, &about, &unsaid)
                         ? NULL
                         : json_incref(json_object_get(about, "starts"));
    json_decref(about);
    weft_error_release(&unsaid);
    return json_is_array(starts) ? starts : json_array();
}

static weft_status write_run(const char *dir, const char *head, const json_t *starts,
                             weft_error *err)
{
    weft_text text = {0};
    char *path = weft_format("%s/run.json", dir);
    weft_text_print(&text, "%s, \"starts\": [", head);
    for (size_t i = 0; i < json_array_size(starts); i++) {
        char *line = json_dumps(json_array_get(starts, i), JSON_PRESERVE_ORDER);
        weft_text_print(&text, "%s\n%s", i ? "," : "", line ? line : "{}");
        free(line); /* jansson's */
    }
    weft_text_add(&text, "\n]}\n");
    weft_status s = path && !text.out_of_memory ? weft_write_file(path, text.data, text.size, err)
                                                : weft_fail_memory(err);
    weft_free(path);
    weft_text_release(&text);
    return s;
}

/* All members but the starts, as they stand there. */
static weft_status read_head(const char *dir, char **out, weft_error *err)
{
    char *path = weft_format("%s/run.json", dir), *data = NULL, *at = NULL;
    size_t n;
    weft_status s = path ? weft_read_file(path, &data, &n, err) : weft_fail_memory(err);
    if (!s && (at = strstr(data, ", \"starts\": [")))
        *at = '\0';
    *out = data;
    weft_free(path);
    return s;
}

static json_t *this_start(const weft_record *r, const weft_about *about, int64_t from)
{
    weft_text job = {0}, time = {0};
    const bool has_job = weft_about_job(&job);
    weft_text_add_utc(&time, about->started_ns);
    json_t *o = json_pack(
        "{s:I, s:s, s:s, s:s?, s:i, s:s, s:I, s:n}", "start", (json_int_t)r->number, "started",
        weft_text_get(&time), "version", WEFT_VERSION, "job", has_job ? weft_text_get(&job) : NULL,
        "ranks", about->n, "host", about->ranks[0].host, "from", (json_int_t)from, "outcome");
    weft_text_release(&job);
    weft_text_release(&time);
    return o;
}

/* ---- files of earlier starts ---- */

/* Writes DIR/NAME.END; what stood there with another text is DIR/NAME-N.END from now on. */
static weft_status replace(const char *dir, const char *name, const char *end, int64_t n,
                           const weft_text *text, weft_error *err)
{
    char *path = weft_format("%s/%s.%s", dir, name, end), *data = NULL, *old = NULL;
    weft_error unsaid = {0};
    size_t size = 0;
    weft_status s = path && !text->out_of_memory ? WEFT_OK : weft_fail_memory(err);
    struct stat info; /* a link is left to who writes, and refused */
    bool there = !s && lstat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                 weft_read_file(path, &data, &size, &unsaid) == WEFT_OK,
         same = there && size == text->size && memcmp(data, weft_text_get(text), size) == 0;
    for (; !s && there && !same && !old; n++) {
        if (!(old = weft_format("%s/%s-%" PRId64 ".%s", dir, name, n, end)))
            s = weft_fail_memory(err);
        else if (access(old, F_OK) == 0) {
            weft_free(old);
            old = NULL;
        } else if (rename(path, old) != 0) {
            s = weft_fail(err, WEFT_ERR_IO, (weft_where){path, 0}, "cannot be renamed to %s: %s",
                          old, strerror(errno));
        }
    }
    if (!s && !same)
        s = weft_write_file(path, weft_text_get(text), text->size, err);
    weft_error_release(&unsaid);
    weft_free(data);
    weft_free(old);
    weft_free(path);
    return s;
}

static weft_status write_files(const weft_session *session, const weft_plan *plan, int64_t before,
                               weft_error *err)
{
    weft_text text = {0};
    weft_settings_print(session->settings, true, false, &text);
    weft_status s = replace(session->host.dir, "config", "ini", before, &text, err);
    weft_text_clear(&text);
    weft_plan_print(plan, false, &text);
    s = s ? s : replace(session->host.dir, "plan", "txt", before, &text, err);
    weft_text_release(&text);
    return s;
}

static void warn_anew(const weft_session *session, const json_t *starts, bool saves)
{
    const json_t *last = json_array_get(starts, json_array_size(starts) - 1);
    const json_int_t step = json_integer_value(json_object_get(last, "step"));
    if (step > 0)
        weft_log_print(session->host.log, WEFT_LOG_WARN,
                       "%s has had a run before, of %lld steps, and this one begins anew%s; what "
                       "that one wrote is kept there under other names",
                       session->host.dir, (long long)step,
                       saves ? "" : ": no listed plugin keeps the state, as ckpt does");
}

/* ---- from begin to end ---- */

weft_status weft_record_begin(const weft_session *session, const weft_plan *plan,
                              const weft_about *about, int64_t from, weft_record **out,
                              weft_error *err)
{
    const char *dir = session->host.dir;
    void *self;
    weft_record *r = *out = weft_alloc_zero(1, sizeof *r);
    if (r)
        r->fd = -1; /* before anything can fail: 0 is a file */
    if (!r || !(r->dir = weft_strdup(dir)))
        return weft_fail_memory(err);
    json_t *starts = read_starts(dir);
    const json_int_t before = (json_int_t)json_array_size(starts);
    finish_last(dir, starts);
    if (from == 0)
        warn_anew(session, starts, weft_plugins_service(session->plugins, "store", &self));
    r->number = before + 1;
    weft_status s = write_files(session, plan, before > 0 ? before : 1, err);
    weft_text head = {0};
    weft_about_print_json(about, &head);
    if (!s && (head.out_of_memory || json_array_append_new(starts, this_start(r, about, from))))
        s = weft_fail_memory(err);
    s = s ? s : write_run(dir, weft_text_get(&head), starts, err);
    s = s ? s : reset_progress(r, from, err);
    weft_text_release(&head);
    json_decref(starts);
    return s;
}

void weft_record_close(weft_record *r, const weft_log *log)
{
    if (!r)
        return;
    weft_error err = {0};
    weft_crash_set_record(-1, 0);
    pthread_mutex_lock(&end_lock);
    bool began = r->fd >= 0;
    end_fd = -1;
    pthread_mutex_unlock(&end_lock);
    if (began) {
        char *head = NULL;
        json_t *starts = read_starts(r->dir);
        finish_last(r->dir, starts);
        if (read_head(r->dir, &head, &err) || write_run(r->dir, head, starts, &err))
            weft_log_print(log, WEFT_LOG_WARN,
                           "run.json does not say how the run ended, progress.jsonl does: %s",
                           weft_error_text(&err));
        weft_free(head);
        json_decref(starts);
        close(r->fd);
    }
    weft_error_release(&err);
    weft_free(r->dir);
    weft_free(r);
}
