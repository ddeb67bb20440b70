/* SPDX-License-Identifier: Apache-2.0 */
/* What can be told of a shared object from its bytes, without the dynamic linker: it is not mapped
 * as an object, and nothing of it runs. The bytes are not trusted. */
#ifndef WEFT_LIB_VET_ELF_H
#define WEFT_LIB_VET_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEFT_BUILD_ID = 65 }; /* hex digits of a build-id, and the end */

/* A view of the bytes, which stay the caller's. */
typedef struct weft_elf {
    const unsigned char *bytes;
    size_t size;
    uint64_t strings, strings_size; /* of .dynstr: in the file; 0: there is none */
    uint64_t needed;                /* of the dynamic section: in the file */
    uint64_t n_dynamic;
    uint64_t symbols, hash, gnu_hash, relocations, n_relocations; /* in the file; 0: none */
} weft_elf;

/* False: this is no shared object of this machine's class. */
bool weft_elf_init(weft_elf *e, const void *bytes, size_t size);
/* The linker's build-id as hex; false: it has none. */
bool weft_elf_build_id(const weft_elf *e, char id[WEFT_BUILD_ID]);
/* The i-th library that it asks for by name, from 0; NULL past the end. */
const char *weft_elf_needed(const weft_elf *e, int i);
/* The name that others ask for it by; NULL: it has none. */
const char *weft_elf_soname(const weft_elf *e);
/* size bytes of the object called `symbol` in its data; NULL: there is no such symbol, or it is
 * shorter. */
const unsigned char *weft_elf_object(const weft_elf *e, const char *symbol, size_t size);
/* What a pointer stored at `at` (inside the bytes) will point to once it is relocated, if size
 * bytes are there; NULL: nothing. */
const unsigned char *weft_elf_target(const weft_elf *e, const unsigned char *at, size_t size);
/* The same of a text, which ends inside the bytes. */
const char *weft_elf_text(const weft_elf *e, const unsigned char *at);

#endif
