/* SPDX-License-Identifier: Apache-2.0 */
/* Every number that is read here comes from a file that somebody else may have made: each is held
 * against the file's size before it is used. */
#include "vet/elf.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

typedef ElfW(Ehdr) file_header;
typedef ElfW(Phdr) segment;
typedef ElfW(Dyn) dynamic;
typedef ElfW(Sym) symbol;
typedef ElfW(Rela) relocation;

#if defined __x86_64__ && defined R_X86_64_RELATIVE
enum { RELATIVE = R_X86_64_RELATIVE };
#elif defined __aarch64__ && defined R_AARCH64_RELATIVE
enum { RELATIVE = R_AARCH64_RELATIVE };
#else
enum { RELATIVE = -1 }; /* texts behind pointers are not found there */
#endif

/* n bytes at an offset; NULL: the file does not have them. */
static const void *at(const weft_elf *e, uint64_t offset, uint64_t n)
{
    return offset <= e->size && n <= e->size - offset ? e->bytes + offset : NULL;
}

/* Structures are copied out, wherever in the file they lie. */
static bool read_at(const weft_elf *e, uint64_t offset, void *out, size_t n)
{
    const void *p = at(e, offset, n);
    if (p)
        memcpy(out, p, n);
    return p;
}

static bool segment_of(const weft_elf *e, const file_header *h, unsigned i, segment *out)
{
    return h->e_phentsize == sizeof *out && i < h->e_phnum &&
           read_at(e, h->e_phoff + (uint64_t)i * sizeof *out, out, sizeof *out);
}

/* Where what will lie at this address lies in the file; 0: nowhere. */
static uint64_t offset_of(const weft_elf *e, uint64_t address)
{
    file_header h;
    segment s;
    if (!read_at(e, 0, &h, sizeof h))
        return 0;
    for (unsigned i = 0; segment_of(e, &h, i, &s); i++)
        if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz)
            return s.p_offset + (address - s.p_vaddr);
    return 0;
}

static bool dynamic_of(const weft_elf *e, uint64_t i, dynamic *out)
{
    return i < e->n_dynamic && read_at(e, e->needed + i * sizeof *out, out, sizeof *out) &&
           out->d_tag != DT_NULL;
}

static void read_dynamic(weft_elf *e)
{
    dynamic d;
    for (uint64_t i = 0; dynamic_of(e, i, &d); i++) {
        uint64_t value = d.d_un.d_val;
        switch (d.d_tag) {
        case DT_STRTAB:
            e->strings = offset_of(e, value);
            break;
        case DT_STRSZ:
            e->strings_size = value;
            break;
        case DT_SYMTAB:
            e->symbols = offset_of(e, value);
            break;
        case DT_HASH:
            e->hash = offset_of(e, value);
            break;
        case DT_GNU_HASH:
            e->gnu_hash = offset_of(e, value);
            break;
        case DT_RELA:
            e->relocations = offset_of(e, value);
            break;
        case DT_RELASZ:
            e->n_relocations = value / sizeof(relocation);
            break;
        default:
            break;
        }
    }
}

bool weft_elf_init(weft_elf *e, const void *bytes, size_t size)
{
    file_header h;
    segment s;
    *e = (weft_elf){.bytes = bytes, .size = size};
    if (!read_at(e, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        (h.e_type != ET_DYN && h.e_type != ET_EXEC))
        return false;
    for (unsigned i = 0; segment_of(e, &h, i, &s); i++)
        if (s.p_type == PT_DYNAMIC) {
            e->needed = s.p_offset;
            e->n_dynamic = s.p_filesz / sizeof(dynamic);
        }
    read_dynamic(e);
    return true;
}

/* ---- notes ---- */

static bool note_build_id(const void *notes, size_t size, char id[WEFT_BUILD_ID])
{
    const unsigned char *p = notes;
    while (size >= 12) {
        uint32_t words[3]; /* bytes of the name, bytes of the content, kind */
        memcpy(words, p, sizeof words);
        uint64_t name = ((uint64_t)words[0] + 3) & ~3ull,
                 content = ((uint64_t)words[1] + 3) & ~3ull;
        if (name > size - 12 || content > size - 12 - name)
            return false;
        if (words[2] == NT_GNU_BUILD_ID && words[0] == 4 && memcmp(p + 12, "GNU", 4) == 0 &&
            words[1] > 0 && words[1] <= (WEFT_BUILD_ID - 1) / 2) {
            for (uint32_t i = 0; i < words[1]; i++)
                snprintf(id + 2 * i, 3, "%02x", p[12 + name + i]);
            return true;
        }
        p += 12 + name + content;
        size -= 12 + name + content;
    }
    return false;
}

bool weft_elf_build_id(const weft_elf *e, char id[WEFT_BUILD_ID])
{
    file_header h;
    segment s;
    if (!read_at(e, 0, &h, sizeof h))
        return false;
    for (unsigned i = 0; segment_of(e, &h, i, &s); i++) {
        const void *notes = s.p_type == PT_NOTE ? at(e, s.p_offset, s.p_filesz) : NULL;
        if (notes && note_build_id(notes, s.p_filesz, id))
            return true;
    }
    return false;
}

/* ---- names ---- */

/* A text that ends within n bytes; NULL: it does not. */
static const char *text_at(const weft_elf *e, uint64_t offset, uint64_t n)
{
    const char *p = offset < e->size ? (const char *)e->bytes + offset : NULL;
    uint64_t most = p && n > e->size - offset ? e->size - offset : n;
    return p && memchr(p, '\0', most) ? p : NULL;
}

static const char *string(const weft_elf *e, uint64_t i)
{
    return e->strings && i < e->strings_size ? text_at(e, e->strings + i, e->strings_size - i)
                                             : NULL;
}

/* The n-th text of the dynamic section with this tag. */
static const char *dynamic_text(const weft_elf *e, int64_t tag, int n)
{
    dynamic d;
    for (uint64_t i = 0; dynamic_of(e, i, &d); i++)
        if (d.d_tag == tag && n-- == 0)
            return string(e, d.d_un.d_val);
    return NULL;
}

const char *weft_elf_needed(const weft_elf *e, int i)
{
    return dynamic_text(e, DT_NEEDED, i);
}

const char *weft_elf_soname(const weft_elf *e)
{
    return dynamic_text(e, DT_SONAME, 0);
}

static bool is_called(const weft_elf *e, uint64_t i, const char *name, symbol *out)
{
    if (!e->symbols || !read_at(e, e->symbols + i * sizeof *out, out, sizeof *out) ||
        out->st_shndx == SHN_UNDEF)
        return false;
    const char *own = string(e, out->st_name);
    return own && strcmp(own, name) == 0;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        h = 33 * h + *c;
    return h;
}

/* DT_GNU_HASH: numbers of buckets, of the first symbol and of bloom words, the bloom words, the
 * buckets, then a hash for every symbol, the last of a chain odd. */
static bool find_by_gnu_hash(const weft_elf *e, const char *name, symbol *out)
{
    uint32_t head[4], i, h = gnu_hash(name), chain;
    if (!e->gnu_hash || !read_at(e, e->gnu_hash, head, sizeof head) || head[0] == 0)
        return false;
    uint64_t buckets = e->gnu_hash + sizeof head + (uint64_t)head[2] * sizeof(ElfW(Addr));
    uint64_t chains = buckets + 4 * (uint64_t)head[0];
    if (!read_at(e, buckets + 4 * (uint64_t)(h % head[0]), &i, sizeof i) || i < head[1])
        return false;
    do {
        if (!read_at(e, chains + 4 * (uint64_t)(i - head[1]), &chain, sizeof chain))
            return false;
        if ((chain | 1) == (h | 1) && is_called(e, i, name, out))
            return true;
        i++;
    } while (!(chain & 1));
    return false;
}

/* DT_HASH: its second number is that of symbols. */
static bool find_in_all(const weft_elf *e, const char *name, symbol *out)
{
    uint32_t head[2];
    if (!e->hash || !read_at(e, e->hash, head, sizeof head))
        return false;
    for (uint32_t i = 0; i < head[1] && at(e, e->symbols + (uint64_t)i * sizeof *out, sizeof *out);
         i++)
        if (is_called(e, i, name, out))
            return true;
    return false;
}

const unsigned char *weft_elf_object(const weft_elf *e, const char *name, size_t size)
{
    symbol s;
    if (!find_by_gnu_hash(e, name, &s) && !find_in_all(e, name, &s))
        return NULL;
    uint64_t offset = s.st_size >= size ? offset_of(e, s.st_value) : 0;
    return offset ? at(e, offset, size) : NULL;
}

/* ---- what pointers will be ---- */

/* The address that what lies at this offset will have; false: none. */
static bool address_of(const weft_elf *e, uint64_t offset, uint64_t *address)
{
    file_header h;
    segment s;
    if (!read_at(e, 0, &h, sizeof h))
        return false;
    for (unsigned i = 0; segment_of(e, &h, i, &s); i++)
        if (s.p_type == PT_LOAD && offset >= s.p_offset && offset - s.p_offset < s.p_filesz) {
            *address = s.p_vaddr + (offset - s.p_offset);
            return true;
        }
    return false;
}

/* 0: nowhere. */
static uint64_t target_of(const weft_elf *e, const unsigned char *pointer)
{
    ElfW(Addr) value;
    uint64_t address;
    if (!address_of(e, (uint64_t)(pointer - e->bytes), &address))
        return 0;
    memcpy(&value, pointer, sizeof value); /* with packed relocations the target stands in place */
    for (uint64_t i = 0; i < e->n_relocations && e->relocations; i++) {
        relocation r;
        if (!read_at(e, e->relocations + i * sizeof r, &r, sizeof r))
            break;
        if (r.r_offset == address && (int64_t)(r.r_info & 0xffffffffu) == RELATIVE) {
            value = (ElfW(Addr))r.r_addend;
            break;
        }
    }
    return value ? offset_of(e, value) : 0;
}

const unsigned char *weft_elf_target(const weft_elf *e, const unsigned char *pointer, size_t size)
{
    uint64_t offset = target_of(e, pointer);
    return offset ? at(e, offset, size) : NULL;
}

const char *weft_elf_text(const weft_elf *e, const unsigned char *pointer)
{
    uint64_t offset = target_of(e, pointer);
    return offset ? text_at(e, offset, e->size) : NULL;
}
