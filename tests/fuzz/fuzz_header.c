/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of .safetensors files. */
#include "fuzz.h"
#include "io/internal.h"

#include <stdlib.h>

static const char *const seeds[] = {
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
    "\"__metadata__\":{\"format\":\"pt\"}}",
    "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"a\\\":{\\\"saved_offsets\\\":[2,0],"
    "\\\"whole\\\":[4,3]}}\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
    "{\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
    "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]}}",
    NULL};
static const char *const words[] = {"9223372036854775807",
                                    "18446744073709551616",
                                    "-1",
                                    "1e5",
                                    "[",
                                    "]",
                                    "{",
                                    "}",
                                    "\"",
                                    "\\\"",
                                    "\\u0000",
                                    ",",
                                    "null",
                                    "F8_E4M3",
                                    "[2,3]",
                                    "\"shape\"",
                                    NULL};

static weft_status parse(const char *data, size_t n)
{
    weft_error err = {0};
    weft_pool pool = {0};
    store_header header = {0};
    weft_status s = store_header_parse("x.safetensors", data, n, 32, &pool, &header, &err);
    fuzz_check(s, &err);
    for (int i = 0; !s && i < header.n; i++)
        if (!header.entries[i].name)
            abort();
    weft_pool_release(&pool);
    weft_error_release(&err);
    return s;
}

int main(int argc, char **argv)
{
    return fuzz_main(&(fuzz_target){"fuzz_header", seeds, words, parse}, argc, argv);
}
