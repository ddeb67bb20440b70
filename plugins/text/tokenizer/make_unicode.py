#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes unicode_tables.h: where Hugging Face's tokenizers and the libraries weft stands on (PCRE2 10.42, utf8proc 2.8) disagree about characters.

Needs the Python package tokenizers, libpcre2-8 and libutf8proc; the result is in the tree, so a build needs none of this.
Usage: make_unicode.py > unicode_tables.h"""
import ctypes

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORIES = "L M N P S Z C Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()


def removed(splitter):
    """The code points that a splitter with behaviour `removed` takes out."""
    out = set()
    for at in range(0, len(POINTS), 4096):
        chunk = POINTS[at : at + 4096]
        kept = set()
        for word, _ in splitter.pre_tokenize_str("".join(map(chr, chunk))):
            kept.update(map(ord, word))
        out.update(c for c in chunk if c not in kept)
    return out


def theirs(pattern):
    return removed(pre_tokenizers.Split(Regex(pattern), "removed"))


PCRE2 = ctypes.CDLL("libpcre2-8.so.0")
PCRE2.pcre2_compile_8.restype = ctypes.c_void_p
PCRE2.pcre2_match_data_create_8.restype = ctypes.c_void_p


def ours(pattern):
    code = PCRE2.pcre2_compile_8(pattern.encode(), ctypes.c_size_t(len(pattern)), 0x000A0000, ctypes.byref(ctypes.c_int()),
                                 ctypes.byref(ctypes.c_size_t()), None)
    assert code, pattern
    data = ctypes.c_void_p(PCRE2.pcre2_match_data_create_8(2, None))
    out = set()
    for c in POINTS:
        s = chr(c).encode()
        if PCRE2.pcre2_match_8(ctypes.c_void_p(code), s, ctypes.c_size_t(len(s)), ctypes.c_size_t(0), 0, data, None) > 0:
            out.add(c)
    return out


def ranges(points):
    out = []
    for c in sorted(points):
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def pattern_ranges(points):
    return "".join(r"\x{%X}" % a if a == b else r"\x{%X}-\x{%X}" % (a, b) for a, b in ranges(points))


def c_string(text):
    lines = [text[i : i + 110] for i in range(0, len(text), 110)] or [""]
    return "\n     ".join('"%s"' % line.replace("\\", "\\\\") for line in lines)


def table(name, comment, points):
    print(f"/* {comment} */\nstatic const unicode_range {name}[] = {{")
    cells = ["{0x%X, 0x%X}," % (a, b) for a, b in ranges(points)]
    for at in range(0, len(cells), 6):
        print("    " + " ".join(cells[at : at + 6]))
    print("};\n")


def categories():
    print("""/* What a class of a pattern becomes: `base` (PCRE2's own, inside brackets) and `more` ranges. What is left out of base is not base's. */
static const unicode_class unicode_classes[] = {""")
    have = {name: ours(r"\p{%s}" % name) for name in CATEGORIES}
    want = {name: theirs(r"\p{%s}" % name) for name in CATEGORIES}
    rows = [(name, r"\p{%s}" % name, have[name], want[name]) for name in CATEGORIES]
    rows.append(("Han", r"\p{sc:Han}", ours(r"\p{sc:Han}"), theirs(r"\p{Han}")))
    for name, base, a, b in rows:
        if a - b:  # not a matter of adding: in full
            print('    {"%s", "",\n     %s},' % (name, c_string(pattern_ranges(b))))
        else:
            print('    {"%s", "%s",\n     %s},' % (name, base.replace("\\", "\\\\"), c_string(pattern_ranges(b - a))))
    for name, b in (("word", theirs(r"\w")),):
        base, a = "", set()
        for c in ("L", "M", "Nd", "Pc", "Nl"):
            if have[c] <= b:
                base, a = base + r"\p{%s}" % c, a | have[c]
        print('    {"%s", "%s",\n     %s},' % (name, base.replace("\\", "\\\\"), c_string(pattern_ranges(b - a))))
    print("};\n")


def single_word():
    t = Tokenizer(models.BPE({"a": 0}, []))
    t.add_tokens([AddedToken("XYZ", single_word=True, normalized=False)])
    token = t.token_to_id("XYZ")
    return {c for c in POINTS if token not in t.encode(chr(c) + "XYZ", add_special_tokens=False).ids}


UTF8PROC = ctypes.CDLL("libutf8proc.so.2")
UTF8PROC.utf8proc_map.restype = ctypes.c_ssize_t
UTF8PROC.utf8proc_tolower.restype = ctypes.c_int32
FREE = ctypes.CDLL(None).free


def mapped(s, options):
    b, p = s.encode(), ctypes.c_void_p()
    n = UTF8PROC.utf8proc_map(b, ctypes.c_ssize_t(len(b)), ctypes.byref(p), options)
    assert n >= 0
    out = ctypes.string_at(p, n).decode()
    FREE(p)
    return out


def opaque():
    """Characters that have neither decomposition nor combining class there. 11930: composes with 11935 here."""
    out = {0x11930}
    for name, options in (("NFC", 10), ("NFD", 18), ("NFKC", 14), ("NFKD", 22)):
        theirs_ = getattr(normalizers, name)()
        for text in ("%s", "a\u0316%s\u0301", "a\u0301%s\u0316", "%s\u0301", "%s\u0338"):
            out.update(c for c in POINTS if theirs_.normalize_str(text.replace("%s", chr(c))) != mapped(text.replace("%s", chr(c)), options))
    return out


def lower():
    theirs_ = normalizers.Lowercase()
    print("/* Lower case where utf8proc's differs: code point, up to two it becomes. */\nstatic const uint32_t unicode_lower[][3] = {")
    cells = []
    for c in POINTS:
        want = theirs_.normalize_str(chr(c))
        if want != chr(UTF8PROC.utf8proc_tolower(c)):
            assert len(want) <= 2
            cells.append("{0x%X, 0x%X, 0x%X}," % (c, ord(want[0]), ord(want[1]) if len(want) > 1 else 0))
    for at in range(0, len(cells), 5):
        print("    " + " ".join(cells[at : at + 5]))
    print("};\n")


print(f"""/* SPDX-License-Identifier: Apache-2.0 */
/* Made by make_unicode.py with tokenizers {tokenizers.__version__}, PCRE2 10.42 and utf8proc 2.8: do not edit. */
/* clang-format off */
""")
categories()
digits = pre_tokenizers.Digits(individual_digits=True)
table("unicode_numeric", "Digits: what counts as one.", {c for c in POINTS if len(digits.pre_tokenize_str("a" + chr(c))) == 2})
table("unicode_punctuation", "Punctuation: what counts as it.", removed(pre_tokenizers.Punctuation("removed")))
table("unicode_word", "What single_word looks for beside an added token.", single_word())
table("unicode_opaque", "Characters that normalization leaves alone, and does not move others over.", opaque())
lower()
print("/* clang-format on */")
