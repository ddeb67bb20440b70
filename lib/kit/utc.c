/* SPDX-License-Identifier: Apache-2.0 */
/* The time of day, for records. */
#include <weft/base.h>

#include <time.h>

int64_t weft_utc(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_REALTIME, &t) == 0 ? (int64_t)t.tv_sec * 1000000000 + t.tv_nsec : 0;
}

void weft_text_add_utc(weft_text *text, int64_t ns)
{
    const time_t seconds = (time_t)(ns / 1000000000);
    struct tm utc;
    char words[32];
    if (gmtime_r(&seconds, &utc) && strftime(words, sizeof words, "%Y-%m-%dT%H:%M:%S", &utc))
        weft_text_print(text, "%s.%03dZ", words, (int)(ns / 1000000 % 1000));
}
