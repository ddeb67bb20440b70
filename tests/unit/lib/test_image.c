/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read in pieces is what its bytes are: SHA-256, and the build-id wherever it
 * stands. */
#include "vet/image.h"

#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { SIZE = 300000, FAR = 250000 };

static void assert_identified(const void *bytes, size_t size, weft_file_id *id)
{
    weft_error err = {0};
    weft_file_id whole;
    char path[] = "/tmp/weft-image-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(close(fd), 0);
    assert_int_equal(weft_image_identify(bytes, size, &whole, &err), WEFT_OK);
    assert_int_equal(weft_image_identify_file(path, WEFT_NOWHERE, id, &err), WEFT_OK);
    assert_string_equal(id->sha256, whole.sha256);
    assert_string_equal(id->build_id, whole.build_id);
    unlink(path);
}

static void every_size(void **state)
{
    static const size_t sizes[] = {0,     1,      63,     64,     65,     65535, 65536,
                                   65537, 131071, 131072, 131073, 200000, SIZE};
    static unsigned char bytes[SIZE];
    (void)state;
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * i * 31 + i / 7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        weft_file_id id;
        assert_identified(bytes, sizes[i], &id);
        assert_string_equal(id.build_id, "");
    }
}

/* An object of one segment, a note at this place. */
static void write_object(unsigned char *bytes, size_t at)
{
    static const uint32_t words[3] = {4, 4, NT_GNU_BUILD_ID};
    ElfW(Ehdr) head = {
        .e_type = ET_DYN, .e_phoff = sizeof head, .e_phentsize = sizeof(ElfW(Phdr)), .e_phnum = 1};
    ElfW(Phdr) segment = {.p_type = PT_NOTE, .p_offset = at, .p_filesz = 20};
    memset(bytes, 0, SIZE);
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, &segment, sizeof segment);
    memcpy(bytes + at, words, sizeof words);
    memcpy(bytes + at + 12, "GNU\0\xab\xcd\xef\x01", 8);
}

static void build_id_anywhere(void **state)
{
    static const size_t places[] = {4096, 65520, 65536, FAR};
    static unsigned char bytes[SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        weft_file_id id;
        write_object(bytes, places[i]);
        assert_identified(bytes, SIZE, &id);
        assert_string_equal(id.build_id, "abcdef01");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_size),
                                       cmocka_unit_test(build_id_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
