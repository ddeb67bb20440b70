/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as people write them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weft/base.h>

void weft_print_enough(weft_text *text, int64_t bytes)
{
    const bool large = bytes >= (int64_t)1 << 30;
    const int shift = large ? 20 : 10;
    weft_text_print(text, "%lld %s", (long long)((bytes - 1) >> shift) + 1, large ? "MiB" : "KiB");
}

bool weft_parse_number(const char *text, double *number)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1},     {"k", 1e3},      {"M", 1e6},      {"G", 1e9},
                 {"T", 1e12}, {"Ki", 0x1p+10}, {"Mi", 0x1p+20}, {"Gi", 0x1p+30}};
    char *end;
    const double n = strtod(text, &end);
    /* neither hexadecimal numbers nor "inf" and "nan" */
    if (end == text || end != text + strspn(text, "0123456789+-.eE"))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].suffix) == 0 && isfinite(n * units[i].factor)) {
            *number = n * units[i].factor;
            return true;
        }
    return false;
}

bool weft_parse_bytes(const char *text, double *bytes)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},          {"B", 1},         {"kB", 1e3},      {"MB", 1e6},
                 {"GB", 1e9},      {"TB", 1e12},     {"KiB", 0x1p+10}, {"MiB", 0x1p+20},
                 {"GiB", 0x1p+30}, {"TiB", 0x1p+40}, {"PiB", 0x1p+50}};
    char *end;
    const double n = strtod(text, &end);
    if (end == text || !(n >= 0) || !isfinite(n))
        return false;
    end += strspn(end, " \t");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcasecmp(end, units[i].name) == 0 && n * units[i].bytes < 0x1p+62) {
            *bytes = n * units[i].bytes;
            return true;
        }
    return false;
}
