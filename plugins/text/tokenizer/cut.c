/* SPDX-License-Identifier: Apache-2.0 */
/* Where a long document may be cut. None of the known patterns has a word that goes on from an ASCII letter to a blank, and none looks behind itself:
 * between "a" and " b" there is always the end of a word, whatever stands around it. No normalization joins the two. */
#include "engine.h"
#include "tiktoken.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_place(const char *s)
{
    return is_letter(s[0]) && s[1] == ' ' && is_letter(s[2]);
}

static bool is_known(const pattern *p)
{
    static const char *const names[] = {"gpt2", "llama3", "qwen2"};
    for (int i = 0; p->scan && i < 3; i++)
        if (p->scan == pattern_find_scan(tokenizer_pattern(names[i])))
            return true;
    return false;
}

static bool normalizers_allow(const tokenizer *t)
{
    for (size_t i = 0; i < t->n_normalizers; i++)
        if (t->normalizers[i].kind > NORMALIZER_LOWERCASE)
            return false;
    return true;
}

static bool splitters_allow(const tokenizer *t)
{
    bool known = false;
    for (size_t i = 0; i < t->n_splitters; i++) {
        const splitter *s = &t->splitters[i];
        if (s->kind == SPLIT_METASPACE || (s->kind == SPLIT_BYTE_LEVEL && s->prefix))
            return false;
        bool cuts = (s->kind == SPLIT_PATTERN && s->behaviour == SPLIT_ISOLATED && !s->invert) || (s->kind == SPLIT_BYTE_LEVEL && s->split);
        if (cuts && is_known(&s->pattern))
            known = true;
        else if (!known && s->kind == SPLIT_PATTERN) /* once words are cut, what happens inside them does not matter */
            return false;
    }
    return known;
}

/* An added token must neither reach over such a place nor look beyond itself. */
static bool added_allow(const added_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        const added_token *a = &set->list[i];
        if (a->single_word || a->lstrip || a->rstrip)
            return false;
        for (size_t k = 0; k + 1 < a->n; k++)
            if (is_letter(a->text[k]) && a->text[k + 1] == ' ')
                return false;
    }
    return true;
}

size_t tokenizer_cut(const tokenizer *t, const char *text, size_t n, size_t from)
{
    if (!normalizers_allow(t) || !splitters_allow(t) || !added_allow(&t->added) || !added_allow(&t->added_normalized))
        return n;
    for (size_t i = from ? from : 1; i + 1 < n; i++)
        if (is_place(text + i - 1))
            return i;
    return n;
}
