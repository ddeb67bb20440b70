/* SPDX-License-Identifier: Apache-2.0 */
/* Where a long document may be cut: between "a" and " b". Normalization joins them never, and there
 * is always the end of a word, whatever stands around: none of the known patterns has a word that
 * goes on from an ASCII letter to a blank, and none looks behind itself; Metaspace and vocabularies
 * that write blanks as U+2581 part words there. */
#include "engine.h"

#include <string.h>

static const char blank[] = "\xE2\x96\x81";

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_place(const char *s)
{
    return is_letter(s[0]) && s[1] == ' ' && is_letter(s[2]);
}

/* Blanks become U+2581: *replaced. Nothing else is told of but what is put in front. */
static bool normalizers_allow(const tokenizer *t, bool *replaced)
{
    *replaced = false;
    for (size_t i = 0; i < t->n_normalizers; i++) {
        const normalizer *step = &t->normalizers[i];
        if (step->kind == NORMALIZER_STRIP)
            return false;
        if (step->kind != NORMALIZER_REPLACE)
            continue;
        if (step->pattern.code || step->pattern.n_literal != 1 || step->pattern.literal[0] != ' ' ||
            step->n_content != 3 || memcmp(step->content, blank, 3) != 0)
            return false;
        *replaced = true;
    }
    return true;
}

/* A part that begins with a blank gets no other from Metaspace. */
static bool metaspace_allows(const tokenizer *t)
{
    const splitter *s = &t->splitters[0];
    bool same = s->n_replacement == 3 && !memcmp(s->replacement, blank, 3);
    return t->n_splitters == 1 && s->kind == SPLIT_METASPACE && same && (s->split || t->parts);
}

static bool patterns_allow(const tokenizer *t)
{
    bool known = false;
    for (size_t i = 0; i < t->n_splitters; i++) {
        const splitter *s = &t->splitters[i];
        if (s->kind == SPLIT_METASPACE)
            return false;
        bool cuts = (s->kind == SPLIT_PATTERN && s->behaviour == SPLIT_ISOLATED && !s->invert) ||
                    (s->kind == SPLIT_BYTE_LEVEL && s->split);
        if (cuts && s->pattern.known)
            known = true;
        else if (!known && s->kind == SPLIT_PATTERN) /* once words are cut, what happens inside them
                                                        does not matter */
            return false;
    }
    return known;
}

static bool words_allow(const tokenizer *t)
{
    bool replaced;
    if (!normalizers_allow(t, &replaced))
        return false;
    if (t->n_splitters == 0)
        return replaced && t->parts;
    return metaspace_allows(t) || (!replaced && patterns_allow(t));
}

static bool prepends(const tokenizer *t)
{
    for (size_t i = 0; i < t->n_normalizers; i++)
        if (t->normalizers[i].kind == NORMALIZER_PREPEND)
            return true;
    return false;
}

/* An added token must neither reach over such a place nor look beyond itself. Ending there is wrong
 * too if something is put in front of what follows it. */
static bool added_allow(const added_set *set, bool prepends)
{
    for (size_t i = 0; i < set->n; i++) {
        const added_token *a = &set->list[i];
        if (a->single_word || a->lstrip || a->rstrip ||
            (prepends && a->n && is_letter(a->text[a->n - 1])))
            return false;
        for (size_t k = 0; k + 1 < a->n; k++)
            if (is_letter(a->text[k]) &&
                (a->text[k + 1] == ' ' || (a->n - k > 3 && !memcmp(a->text + k + 1, blank, 3))))
                return false;
    }
    return true;
}

size_t tokenizer_cut(const tokenizer *t, const char *text, size_t n, size_t from)
{
    if (!words_allow(t) || !added_allow(&t->added, prepends(t)) ||
        !added_allow(&t->added_normalized, false))
        return n;
    from = from ? from : 1;
    for (size_t i = n - 1; n && i-- > from;)
        if (is_place(text + i - 1))
            return i;
    return n;
}
