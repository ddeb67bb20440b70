/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of plugins, and shared objects that are read as bytes: the input is a lock's text, and says
 * what is changed in a plugin's file. */
#include "fuzz.h"
#include "vet/elf.h"
#include "vet/image.h"
#include "vet/vetted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/files.h>

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *const seeds[] = {
    "weft-lock 2\nmachine x86_64\nprogram " SHA " - - /usr/bin/weft\nplugin llama3 0.1.0 0.1 " SHA
    " aabb /usr/lib/weft/llama3.so\nlibrary libc.so.6 " SHA " 00ff 1:2:3:4.5 /lib/libc.so.6\n",
    "weft-lock 2\n# a comment\n\nmachine aarch64\nplugin a 1 0.1 " SHA
    " - /a b/c.so\n  library d " SHA " 01 - /d\n",
    NULL};
static const char *const words[] = {
    "\nplugin ", "\nlibrary ", "\nprogram ", "\nmachine ",    SHA, " -",
    "\n",        " ",          "\t",         "weft-lock 2\n", NULL};

static char *object;
static size_t object_size;

static weft_status parse_lock(const char *data, size_t n)
{
    char path[4096];
    weft_error err = {0};
    weft_vetted *v = NULL;
    weft_file_id id = {.sha256 = SHA, .build_id = "aabb"};
    snprintf(path, sizeof path, "%s/lock", fuzz_folder());
    if (weft_write_file(path, data, n, &err))
        abort();
    weft_status s = weft_vetted_read(path, WEFT_NOWHERE, false, NULL, &v, &err);
    fuzz_check(s, &err);
    if (!s) {
        weft_vetted_check_plugin(v, "llama3", "llama3.so", &id, WEFT_NOWHERE, &err);
        weft_vetted_check_file(v, "/d", WEFT_NOWHERE, &err);
    }
    weft_vetted_destroy(v);
    weft_error_release(&err);
    return s;
}

/* Every five bytes say where what is written; most hits are wanted in the tables at both ends. */
static void change(unsigned char *bytes, const char *data, size_t n)
{
    for (size_t i = 0; i + 5 <= n; i += 5) {
        uint32_t at;
        memcpy(&at, data + i, sizeof at);
        size_t range = at & 1 ? object_size : object_size < 1024 ? object_size : 1024;
        bytes[(at >> 1) % range] = (unsigned char)data[i + 4];
    }
}

static void read_object(const char *data, size_t n)
{
    weft_elf e;
    weft_error err = {0};
    weft_file_id id;
    /* of its own size, so that a sanitizer sees the end */
    unsigned char *bytes = malloc(object_size);
    if (!bytes)
        abort();
    memcpy(bytes, object, object_size);
    change(bytes, data, n);
    size_t size = n && data[0] & 1
                      ? object_size - (size_t)(unsigned char)data[n / 2] * 16 % object_size
                      : object_size;
    unsigned char *cut = realloc(bytes, size ? size : 1);
    if (!cut)
        abort();
    if (weft_image_identify(cut, size, &id, &err))
        abort();
    if (weft_elf_init(&e, cut, size)) {
        for (int i = 0; i < 1000 && weft_elf_needed(&e, i); i++)
            ;
        weft_elf_soname(&e);
        const unsigned char *found = weft_elf_object(&e, "good_a_LTX_plugin", 64);
        for (size_t k = 0; found && k + 8 <= 64; k += 8)
            weft_elf_text(&e, found + k);
    }
    free(cut);
    weft_error_release(&err);
}

static weft_status parse(const char *data, size_t n)
{
    read_object(data, n);
    return parse_lock(data, n);
}

int main(int argc, char **argv)
{
    weft_error err = {0};
    char path[4096];
    const char *fixtures = getenv("WEFT_TEST_FIXTURES");
    snprintf(path, sizeof path, "%s/good_a.so", fixtures ? fixtures : ".");
    if (weft_read_file(path, &object, &object_size, &err) || object_size == 0) {
        weft_error_clear(&err); /* started by hand */
        if (weft_read_file("/proc/self/exe", &object, &object_size, &err))
            abort();
    }
    int code = fuzz_main(&(fuzz_target){"fuzz_vetted", seeds, words, parse}, argc, argv);
    weft_free(object);
    weft_error_release(&err);
    return code;
}
