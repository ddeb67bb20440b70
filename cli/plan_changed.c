/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_changed.h"
#include "compile/graph/map.h"

#include <ctype.h>
#include <string.h>

/* ---- lines ---- */

/* A walk over the nodes' lines of a graph's text. */
typedef struct cursor {
    const char *head, *line, *next;
    int head_size, size;
} cursor;

static bool next_line(cursor *c)
{
    while (*c->next) {
        c->line = c->next;
        c->size = (int)strcspn(c->line, "\n");
        c->next += c->size + (c->line[c->size] == '\n');
        if (*c->line == ' ')
            return true;
        c->head = c->line;
        c->head_size = c->size;
    }
    return false;
}

/* How wide the columns are says nothing: of blanks one is kept. */
static void add_squeezed(weft_text *text, const char *line, int size)
{
    for (int i = 0; i < size; i++)
        if (line[i] != ' ' || (i + 1 < size && line[i + 1] != ' '))
            weft_text_add_bytes(text, line + i, 1);
}

/* What makes a line the same: its section and its words. */
static void make_key(const cursor *c, weft_text *key)
{
    weft_text_clear(key);
    weft_text_print(key, "%.*s\n", c->head_size, c->head);
    add_squeezed(key, c->line, c->size);
}

/* What makes it a line about the same node: its section and its first result. */
static void make_name(const cursor *c, weft_text *name)
{
    int from = (int)strspn(c->line, " "), end = from;
    while (end < c->size && !strchr(": ", c->line[end]))
        end++;
    weft_text_clear(name);
    weft_text_print(name, "%.*s\n%.*s", c->head_size, c->head, end - from, c->line + from);
}

/* ---- words ---- */

enum { MOST_WORDS = 400 }; /* longer lines are shown as two */

typedef struct words {
    const char *at[MOST_WORDS + 1]; /* word i ends where i + 1 begins */
    int n;
} words;

static bool is_of_a_word(char c)
{
    return isalnum((unsigned char)c) || strchr("_.%@", c);
}

static bool cut(const weft_text *line, words *w)
{
    const char *p = weft_text_get(line);
    for (w->n = 0; *p && w->n < MOST_WORDS; w->n++) {
        w->at[w->n] = p;
        bool long_word = is_of_a_word(*p++);
        while (long_word && *p && is_of_a_word(*p))
            p++;
    }
    w->at[w->n] = p;
    return !*p;
}

static bool same_word(const words *a, int i, const words *b, int k)
{
    const size_t n = (size_t)(a->at[i + 1] - a->at[i]);
    return n == (size_t)(b->at[k + 1] - b->at[k]) && memcmp(a->at[i], b->at[k], n) == 0;
}

/* common[i][k]: the longest common subsequence of the words from i and from k on. */
typedef short table[MOST_WORDS + 1][MOST_WORDS + 1];

static void measure(const words *a, const words *b, table common)
{
    for (int i = a->n; i >= 0; i--)
        for (int k = b->n; k >= 0; k--) {
            if (i == a->n || k == b->n)
                common[i][k] = 0;
            else if (same_word(a, i, b, k))
                common[i][k] = (short)(common[i + 1][k + 1] + 1);
            else
                common[i][k] =
                    common[i + 1][k] >= common[i][k + 1] ? common[i + 1][k] : common[i][k + 1];
        }
}

static void add_words(weft_text *out, const char *open, const words *w, int from, int end,
                      const char *close)
{
    if (from == end)
        return;
    weft_text_add(out, open);
    weft_text_add_bytes(out, w->at[from], (size_t)(w->at[end] - w->at[from]));
    weft_text_add(out, close);
}

/* What was taken away and brought since the last word in common is shown before the next one. */
static void merge(const words *a, const words *b, table common, weft_text *out)
{
    int i = 0, k = 0, i0 = 0, k0 = 0;
    while (i < a->n || k < b->n) {
        if (i < a->n && k < b->n && same_word(a, i, b, k)) {
            add_words(out, "[-", a, i0, i, "-]");
            add_words(out, "{+", b, k0, k, "+}");
            add_words(out, "", a, i, i + 1, "");
            i0 = ++i;
            k0 = ++k;
        } else if (k == b->n || (i < a->n && common[i + 1][k] >= common[i][k + 1])) {
            i++;
        } else {
            k++;
        }
    }
    add_words(out, "[-", a, i0, i, "-]");
    add_words(out, "{+", b, k0, k, "+}");
}

/* ---- both texts ---- */

typedef struct known {
    weft_map lines, /* by what they say */
        names;      /* by the node that they are about: the line, squeezed */
} known;

typedef struct changes {
    weft_pool pool;
    known before, after;
    weft_text key, old, new;
    words a, b;
    table *common;
    weft_text *out;
    bool failed;      /* out of memory for a line, which is cleared for the next */
    const char *head; /* the section that the last line printed is of */
} changes;

static bool add_line(changes *d, known *to, const cursor *c)
{
    weft_text_clear(&d->old);
    add_squeezed(&d->old, c->line, c->size);
    char *line = weft_pool_strdup(&d->pool, weft_text_get(&d->old));
    make_key(c, &d->key);
    if (!line || d->old.out_of_memory || d->key.out_of_memory ||
        !weft_map_set(&to->lines, &d->pool, weft_text_get(&d->key), d->key.size, line))
        return false;
    make_name(c, &d->key);
    return !d->key.out_of_memory &&
           weft_map_set(&to->names, &d->pool, weft_text_get(&d->key), d->key.size, line);
}

static bool fill(changes *d, known *to, const weft_text *text)
{
    bool good = true;
    for (cursor c = {.next = weft_text_get(text)}; good && next_line(&c);)
        good = add_line(d, to, &c);
    return good;
}

static void print_line(changes *d, const cursor *c, char sign)
{
    if (d->head != c->head)
        weft_text_print(d->out, "  %.*s\n", c->head_size, c->head);
    d->head = c->head;
    weft_text_print(d->out, "%c  ", sign); /* and one blank that is the line's own */
    if (sign != '~')
        add_squeezed(d->out, c->line, c->size);
    else
        merge(&d->a, &d->b, *d->common, d->out);
    weft_text_add(d->out, "\n");
}

/* The line before is known by its node's name; false: the two are too long to be shown as one. */
static bool compare(changes *d, const char *before, const cursor *c)
{
    weft_text_clear(&d->old);
    weft_text_clear(&d->new);
    weft_text_add(&d->old, before);
    add_squeezed(&d->new, c->line, c->size);
    d->failed = d->failed || d->old.out_of_memory || d->new.out_of_memory;
    if (!cut(&d->old, &d->a) || !cut(&d->new, &d->b))
        return false;
    measure(&d->a, &d->b, *d->common);
    return true;
}

/* The lines of `text` that the other one does not have; `sign`: what they are if it has no line
 * about the same node. A change is shown where the new text is walked. */
static bool print_missing(changes *d, const weft_text *text, const known *other, char sign)
{
    d->head = NULL;
    for (cursor c = {.next = weft_text_get(text)}; next_line(&c);) {
        make_key(&c, &d->key);
        if (d->key.out_of_memory)
            return false;
        if (weft_map_get(&other->lines, weft_text_get(&d->key), d->key.size))
            continue;
        make_name(&c, &d->key);
        d->failed = d->failed || d->key.out_of_memory;
        const char *same = weft_map_get(&other->names, weft_text_get(&d->key), d->key.size);
        if (!same)
            print_line(d, &c, sign);
        else if (sign == '+')
            print_line(d, &c, compare(d, same, &c) ? '~' : '+');
    }
    return true;
}

bool weft_cli_print_changed(const weft_text *before, const weft_text *after, weft_text *out)
{
    changes d = {.out = out, .common = weft_alloc_zero(1, sizeof(table))};
    bool good = d.common && fill(&d, &d.before, before) && fill(&d, &d.after, after) &&
                print_missing(&d, before, &d.after, '-') &&
                print_missing(&d, after, &d.before, '+') && !d.failed && !out->out_of_memory;
    weft_free(d.common);
    weft_text_release(&d.key);
    weft_text_release(&d.old);
    weft_text_release(&d.new);
    weft_pool_release(&d.pool);
    return good;
}
