/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a case, one after the other, and the first thing that is wrong. */
#include "random.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void random_say(random_verdict *v, random_fault fault, const char *format, ...)
{
    va_list list;
    v->fault = fault;
    va_start(list, format);
    vsnprintf(v->text, sizeof v->text, format, list);
    va_end(list);
}

static void write_ini(const random_case *c, unsigned run, bool bare, const char *path)
{
    weft_text text = {0};
    random_print(c, run, bare, &text);
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(weft_text_get(&text), file);
        fclose(file);
    }
    weft_text_release(&text);
}

/* The line that says what is wrong. */
static const char *complaint(const char *said)
{
    static const char *const begins[] = {"crashed", "error:", "PARTED", "warning:"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        const char *found = strstr(said, begins[i]);
        if (found)
            return found;
    }
    return said;
}

/* Numbers and what is named differ from case to case. */
static void note_like(random_verdict *v, const char *text)
{
    size_t n = 0;
    for (const char *s = text; *s && *s != '\n' && n + 1 < 40; s++)
        if (!isdigit((unsigned char)*s))
            v->like[n++] = *s;
    v->like[n] = '\0';
}

/* A mesh may not fit a model, and this generator does not know which do; all else that it draws
 * goes together. Ranks of one command cannot differ through any fault of the user. */
static bool is_ordinary(const char *said)
{
    static const char *const may[] = {
        "[pp] ", "[tp] degree", "[cp] degree: ", "[fsdp] two_level", "[mesh] rule", "[overlap] "};
    const char *error = strstr(said, "error: "), *section = error ? strchr(error, '[') : NULL;
    bool mesh = false;
    for (size_t i = 0; i < sizeof may / sizeof *may && section; i++)
        mesh = mesh || strncmp(section, may[i], strlen(may[i])) == 0;
    return mesh && !strstr(said, "internal") && !strstr(said, " differ in ");
}

/* What an exit code that is not 0 means. */
static void judge_code(int code, random_fault fault, const char *what, random_verdict *v)
{
    char said[1800];
    random_tail("out", said, sizeof said);
    if (code == 2 && is_ordinary(said)) {
        random_say(v, RANDOM_REFUSED, "%s", complaint(said));
        return;
    }
    note_like(v, code == 128 + SIGALRM ? "it hangs" : complaint(said));
    random_say(v, fault, "%s: exit code %d\n%s", what, code, said);
}

static void run_oracle(const random_case *c, random_verdict *v)
{
    write_ini(c, RANDOM_ONE, true, "one.ini");
    write_ini(c, RANDOM_MANY, true, "many.ini");
    const char *const arguments[] = {
        "oracle", "one.ini", "many.ini", "--steps", random_get(c, RANDOM_ONE, "train", "steps"),
        NULL};
    int code = random_run(arguments, "out");
    if (code)
        judge_code(code, RANDOM_ORACLE, "weft oracle", v);
}

static void train(const random_case *c, unsigned run, const char *name, random_fault fault,
                  random_verdict *v)
{
    char ini[RANDOM_VALUE], folder[RANDOM_VALUE], ranks[RANDOM_VALUE];
    snprintf(ini, sizeof ini, "%s.ini", name);
    snprintf(folder, sizeof folder, "weft.dir=%s", name);
    snprintf(ranks, sizeof ranks, "%d", random_ranks(c, run));
    write_ini(c, run, false, ini);
    random_remove(name);
    bool loads = run == RANDOM_OTHER;
    const char *const arguments[] = {"train",
                                     ini,
                                     "-n",
                                     ranks,
                                     "-o",
                                     folder,
                                     loads ? "-o" : NULL,
                                     loads ? "ckpt.load=many/ckpt/step-2" : NULL,
                                     NULL};
    int code = random_run(arguments, "out");
    if (code)
        judge_code(code, fault, name, v);
}

static void compare(const random_case *c, random_verdict *v)
{
    random_compare_metrics(c, "one", "many", 0, v);
    bool wide = strcmp(random_get(c, RANDOM_ONE, "train", "dtype"), "f64") == 0;
    if (!v->fault && wide && random_lists(c, RANDOM_ALL, "sample"))
        random_compare_texts("one", "many", v);
    if (!v->fault && !isinf(random_bound(c, 1)) && random_lists(c, RANDOM_ALL, "dump"))
        random_compare_dumps(c, "one", "many", v);
}

static void go_on(const random_case *c, random_verdict *v)
{
    train(c, RANDOM_OTHER, "other", RANDOM_RESUMES, v);
    if (v->fault)
        return;
    random_compare_metrics(c, "one", "other", 2, v);
    v->fault = v->fault ? RANDOM_RESUMED : RANDOM_FINE;
}

void random_judge(const random_case *c, random_verdict *v)
{
    *v = (random_verdict){.fault = RANDOM_FINE};
    run_oracle(c, v);
    if (!v->fault)
        train(c, RANDOM_ONE, "one", RANDOM_FAILS, v);
    if (!v->fault)
        train(c, RANDOM_MANY, "many", RANDOM_FAILS, v);
    if (!v->fault)
        compare(c, v);
    if (!v->fault && c->goes_on)
        go_on(c, v);
}

void random_command(const random_case *c, random_fault fault, weft_text *out)
{
    if (fault == RANDOM_ORACLE) {
        weft_text_print(out, "weft oracle one.ini many.ini --steps %s",
                        random_get(c, RANDOM_ONE, "train", "steps"));
        return;
    }
    weft_text_print(out,
                    "weft train one.ini -o weft.dir=one; weft train many.ini -n %d -o "
                    "weft.dir=many",
                    random_ranks(c, RANDOM_MANY));
    if (fault >= RANDOM_RESUMES)
        weft_text_print(out,
                        "; weft train other.ini -n %d -o weft.dir=other -o "
                        "ckpt.load=many/ckpt/step-2",
                        random_ranks(c, RANDOM_OTHER));
}
