/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint's manifest.json, with a sum that is right: what stands in front of it is damaged. */
#include "fuzz.h"
#include <weft/files.h>
#include <weft/store.h>

#include <stdlib.h>

#define BEGIN "{\"format\": \"" WEFT_MANIFEST_FORMAT "\", \"step\": 12, \"files\": ["
#define FILE_OF(name, bytes, sums)                                                                 \
    "{\"name\": \"" name "\", \"bytes\": " bytes ", \"chunk\": 4194304, \"sums\": [" sums "]}"

static const char *const seeds[] = {
    BEGIN FILE_OF("model-00000.safetensors", "4194305",
                  "\"0123456789abcdef\", \"fedcba9876543210\"") "]",
    BEGIN FILE_OF("a", "9223372036854775807", "") "," FILE_OF("optim/b", "0", "") "]", BEGIN "]",
    "{\"version\":1,\"files\":[]", NULL};
static const char *const words[] = {"9223372036854775807",
                                    "-1",
                                    "\"",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    ",",
                                    "../",
                                    "/",
                                    "1e300",
                                    "null",
                                    ":",
                                    "\\u0",
                                    NULL};

static weft_status parse(const char *data, size_t n)
{
    char *path = weft_format("%s/manifest.json", fuzz_folder());
    weft_error err = {0};
    weft_manifest manifest = {0};
    weft_text text = {0};
    weft_text_add_bytes(&text, data, n);
    weft_manifest_seal(&text);
    if (!path || weft_write_file(path, weft_text_get(&text), text.size, NULL))
        abort();
    weft_status s = weft_manifest_read(weft_io_system(), fuzz_folder(), &manifest, &err);
    fuzz_check(s, &err);
    weft_manifest_release(&manifest);
    weft_error_release(&err);
    weft_text_release(&text);
    weft_free(path);
    return s;
}

int main(int argc, char **argv)
{
    return fuzz_main(&(fuzz_target){"fuzz_manifest", seeds, words, parse}, argc, argv);
}
