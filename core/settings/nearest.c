/* SPDX-License-Identifier: Apache-2.0 */
#include "settings/settings.h"

#include <string.h>

enum { LONGEST = 64 }; /* longer words are compared by prefix only */

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edits between two words; swapping neighbours is one edit, case counts for nothing. */
static int distance(const char *a, int n, const char *b, int m)
{
    int rows[3][LONGEST + 1];

    for (int j = 0; j <= m; j++)
        rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];

        row[0] = i;
        for (int j = 1; j <= m; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);

            row[j] = least(least(up[j], row[j - 1]) + 1, up[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least(row[j], up2[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

static bool is_prefix(const char *a, size_t n, const char *b, size_t m)
{
    size_t shorter = n < m ? n : m;

    return shorter >= 3 && strncmp(a, b, shorter) == 0;
}

/* Is each part of a name the beginning of the other's, as in valid_path and validation_path? */
static bool is_shortened(const char *a, const char *b)
{
    for (;;) {
        size_t n = strcspn(a, "_"), m = strcspn(b, "_");

        if (n < 3 || n > m || strncmp(a, b, n) != 0)
            return false;
        if (!a[n] || !b[m])
            return !a[n] && !b[m];
        a += n + 1;
        b += m + 1;
    }
}

const char *weft_nearest(const char *word, const char *const *candidates, int n)
{
    const char *best = NULL, *prefix = NULL;
    size_t size = strlen(word), difference = 0;
    int best_edits = 0;

    for (int i = 0; i < n; i++) {
        size_t m = strlen(candidates[i]), longer = size > m ? size : m,
               apart = longer - (size < m ? size : m);
        int limit = size / 3 > 2 ? (int)(size / 3) : 2;

        if ((is_prefix(word, size, candidates[i], m) || is_shortened(word, candidates[i])) &&
            (!prefix || apart < difference)) {
            prefix = candidates[i];
            difference = apart;
        }
        if (longer <= LONGEST) {
            int edits = distance(word, (int)size, candidates[i], (int)m);

            /* more than half of a word changed is another word */
            if (edits <= limit && 2 * (size_t)edits <= longer && (!best || edits < best_edits)) {
                best = candidates[i];
                best_edits = edits;
            }
        }
    }
    return best ? best : prefix;
}
