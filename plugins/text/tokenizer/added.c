/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens in text: of those that begin leftmost the longest, each with the conditions and
 * blanks that it asks for. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

static int compare_bytes(const char *a, size_t n_a, const char *b, size_t n_b)
{
    int order = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return order ? order : n_a < n_b ? -1 : n_a > n_b;
}

static int compare(const void *a_, const void *b_)
{
    const added_token *a = a_, *b = b_;
    int order = compare_bytes(a->text, a->n, b->text, b->n);
    return order ? order : a->order - b->order;
}

void added_set_init(added_set *set, added_token *list, size_t n)
{
    qsort(list, n, sizeof *list, compare);
    *set = (added_set){.list = list};
    for (size_t i = 0; i < n; i++) {
        set->first[(unsigned char)list[i].text[0]] = true;
        if (set->n &&
            !compare_bytes(list[i].text, list[i].n, list[set->n - 1].text, list[set->n - 1].n))
            continue; /* of equal ones the first counts */
        list[set->n++] = list[i];
    }
}

/* The first of list[low..high) whose byte at `depth` is at least c; all share the bytes before. */
static size_t lower_bound(const added_set *set, size_t low, size_t high, size_t depth, unsigned c)
{
    while (low < high) {
        size_t middle = (low + high) / 2;
        const added_token *a = &set->list[middle];
        if (a->n <= depth || (unsigned char)a->text[depth] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that text starts with. */
static const added_token *longest(const added_set *set, const char *text, size_t n)
{
    const added_token *best = NULL;
    size_t low = 0, high = set->n;
    for (size_t depth = 0; depth < n; depth++) {
        unsigned c = (unsigned char)text[depth];
        low = lower_bound(set, low, high, depth, c);
        high = lower_bound(set, low, high, depth, c + 1);
        if (low == high)
            break;
        if (set->list[low].n == depth + 1)
            best = &set->list[low];
    }
    return best;
}

static size_t character_before(const char *text, size_t at)
{
    do
        at--;
    while (((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

static bool stands_alone(const char *text, size_t n, size_t start, size_t end)
{
    size_t length;
    if (start > 0 && unicode_is_word(unicode_get(text + character_before(text, start), &length)))
        return false;
    return end == n || !unicode_is_word(unicode_get(text + end, &length));
}

static size_t blanks_before(const char *text, size_t start, size_t done)
{
    size_t length;
    while (start > done) {
        size_t at = character_before(text, start);
        if (at < done || !unicode_is_space(unicode_get(text + at, &length)))
            break;
        start = at;
    }
    return start;
}

static size_t blanks_after(const char *text, size_t n, size_t end)
{
    size_t length;
    while (end < n && unicode_is_space(unicode_get(text + end, &length)))
        end += length;
    return end;
}

bool added_set_next(const added_set *set, const char *text, size_t n, size_t at, size_t done,
                    bool no_special, const added_token **token, size_t *start, size_t *end,
                    size_t *match_end)
{
    while (at < n) {
        const added_token *found =
            set->first[(unsigned char)text[at]] ? longest(set, text + at, n - at) : NULL;
        if (!found) {
            at++;
            continue;
        }
        size_t from = at;
        at += found->n;
        if ((no_special && found->special) ||
            (found->single_word && !stands_alone(text, n, from, at)))
            continue;
        *token = found;
        *start = found->lstrip ? blanks_before(text, from, done) : from;
        *end = found->rstrip ? blanks_after(text, n, at) : at;
        *match_end = at;
        return true;
    }
    return false;
}
