/* SPDX-License-Identifier: Apache-2.0 */
/* What tells runs apart, from the record that weft train leaves of its settings: a line a key, and
 * behind the last blank and semicolon where it was set; a list may have a line for each word. */
#include "tensorboard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct line {
    const char *at, *source; /* what it says; where that was set; both end at a blank */
    int size, source_size;
} line;

static line cut(const char *at, int size)
{
    line l = {.at = at, .size = size};
    for (int i = size - 2; i > 0 && !l.source; i--)
        if (at[i] == ';' && at[i - 1] == ' ' && at[i + 1] == ' ') {
            l.source = at + i + 2;
            l.source_size = size - i - 2;
            l.size = i;
        }
    while (l.size > 0 && l.at[l.size - 1] == ' ')
        l.size--;
    return l;
}

static bool was_set(const line *l)
{
    return l->source && !(l->source_size == 7 && memcmp(l->source, "default", 7) == 0);
}

/* Of no use to tell runs apart: every run has another folder, and keeps what it was told. */
static bool says_where(const char *name)
{
    return strcmp(name, "weft.dir") == 0 || strcmp(name, "weft.defaults") == 0;
}

static void give_type(tensorboard_setting *s)
{
    char *end;
    const double number = strtod(s->text, &end);
    if (*s->text && !*end && isfinite(number)) {
        s->type = TENSORBOARD_NUMBER;
        s->value = number;
    } else if (strcmp(s->text, "yes") == 0 || strcmp(s->text, "no") == 0) {
        s->type = TENSORBOARD_BOOL;
        s->value = *s->text == 'y';
    }
}

/* Where the lines are: the section, and the setting that a line with a blank before it goes on. */
typedef struct place {
    const char *section;
    int section_size;
    char *name;
    weft_text words;
    bool given; /* one of its lines says where it was set */
} place;

static bool finish(place *p, weft_pool *pool, tensorboard_setting *list, int *n)
{
    bool good = !p->words.out_of_memory;
    if (p->name && p->given && !says_where(p->name)) {
        tensorboard_setting *s = &list[(*n)++];
        *s = (tensorboard_setting){p->name, weft_pool_strdup(pool, weft_text_get(&p->words)),
                                   TENSORBOARD_TEXT, 0};
        if ((good = good && s->text))
            give_type(s);
    }
    p->name = NULL;
    p->given = false;
    weft_text_clear(&p->words);
    return good;
}

static bool take(place *p, const line *l, weft_pool *pool, tensorboard_setting *list, int *n)
{
    const int blanks = (int)strspn(l->at, " ");
    if (l->size > blanks && blanks > 0) {
        weft_text_print(&p->words, "%s%.*s", p->words.size ? " " : "", l->size - blanks,
                        l->at + blanks);
        p->given = p->given || was_set(l);
        return true;
    }
    if (!finish(p, pool, list, n))
        return false;
    if (l->size > 2 && *l->at == '[') {
        p->section = l->at + 1;
        p->section_size = l->size - 2;
    }
    const char *equals = memchr(l->at, '=', (size_t)l->size);
    if (!equals || *l->at == '[' || *l->at == ';')
        return true;
    const int end = (int)(equals - l->at), name = end > 0 ? end - 1 : 0;
    const int from = end + 1 < l->size ? end + 2 : l->size;
    p->name = weft_pool_format(pool, "%.*s.%.*s", p->section_size, p->section ? p->section : "",
                               name, l->at);
    weft_text_print(&p->words, "%.*s", l->size - from, l->at + from);
    p->given = was_set(l);
    return p->name != NULL;
}

bool tensorboard_read_settings(const char *ini, weft_pool *pool, tensorboard_setting **list, int *n)
{
    int most = 1;
    for (const char *at = ini; *at; at++)
        most += *at == '\n';
    place p = {0};
    *n = 0;
    *list = weft_pool_alloc(pool, (size_t)most * sizeof **list);
    bool good = *list != NULL;
    for (const char *at = ini; good && *at;) {
        const int size = (int)strcspn(at, "\n");
        const line l = cut(at, size);
        good = take(&p, &l, pool, *list, n);
        at += size + (at[size] == '\n');
    }
    good = good && finish(&p, pool, *list, n);
    weft_text_release(&p.words);
    return good;
}
