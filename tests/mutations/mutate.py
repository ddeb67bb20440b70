#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one small mistake after the other in a copy of the tree, and names those no test notices.

    mutate.py check TREE                         does every entry of the lists still apply?
    mutate.py run TREE BUILD [NAME,...]          try them; a NAME may have * and ?
        --configure ARGUMENT   of the copy's configure, as often as there are some
        --named                only the tests that an entry names, never the whole check
        --resume               not those that an earlier run of this copy has caught

README.md has the format of the lists. The copy lies in BUILD/mutations, and its build in there.
"""

import argparse
import fnmatch
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

LISTS = "tests/mutations"
ROOMS = ("cli", "core", "include", "lib", "plugins", "tools")  # where there is code to change
SOURCES = (".c", ".h", ".cu", ".cc")
TEST_LIMIT, BUILD_LIMIT, CHECK_LIMIT = 300, 900, 3600  # seconds


class Bad(Exception):
    """What is wrong with a list or the tree."""


class Mutation:
    def __init__(self, name, where):
        self.name, self.where = name, where
        self.file, self.programs, self.scripts, self.old, self.new = "", [], [], [], []

    def tests(self):
        return self.programs + self.scripts

    def pattern(self):
        """The old text, whatever white space is between its words and signs."""
        words = re.findall(r"\w+|[^\w\s]", "\n".join(self.old))
        text = r"\s*".join(re.escape(word) for word in words)
        return re.compile((r"(?<!\w)" if words[0][0].isidentifier() else "") + text +
                          (r"(?!\w)" if re.match(r"\w", words[-1]) else ""))

    def digest(self):
        text = "\0".join([self.file, *self.old, "\0", *self.new, "\0", *self.tests()])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def read_list(path):
    entries = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line, where = line.rstrip("\n"), f"{os.path.basename(path)}:{number}"
            if not line or line.startswith("#"):
                continue
            if line.startswith("["):
                entries.append(Mutation(line.strip("[]"), where))
                continue
            key, _, value = line.partition(" ")
            if not entries or key not in ("file", "alone", "tests", "-", "+"):
                raise Bad(f"{where}: neither [name], file, alone, tests, - nor +: {line}")
            if key == "file":
                entries[-1].file = value.strip()
            elif key in ("alone", "tests"):
                (entries[-1].programs if key == "alone" else entries[-1].scripts).extend(value.split())
            else:
                (entries[-1].old if key == "-" else entries[-1].new).append(value)
    for e in entries:
        if not e.file or not e.tests() or not "".join(e.old).strip():
            raise Bad(f"{e.where}: [{e.name}] wants file, alone or tests, and a line that begins with -")
        if "".join(e.old).split() == "".join(e.new).split():
            raise Bad(f"{e.where}: [{e.name}] changes nothing")
    return entries


def read_lists(tree):
    folder = os.path.join(tree, LISTS)
    entries = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".list"):
            entries += read_list(os.path.join(folder, name))
    seen = {}
    for e in entries:
        if e.name in seen:
            raise Bad(f"{e.where}: [{e.name}] is at {seen[e.name]}, too")
        seen[e.name] = e.where
    return entries


def walk(tree):
    """All files of the tree, as paths in it; not those of a build or of git."""
    for folder, folders, files in os.walk(tree):
        folders[:] = [d for d in folders if d not in (".git", "autom4te.cache") and
                      not os.path.exists(os.path.join(folder, d, "config.status"))]
        for name in files:
            if name != ".git":
                yield os.path.relpath(os.path.join(folder, name), tree)


class Tree:
    """Where files and tests are, by their names alone: folders may change."""

    def __init__(self, root):
        self.root = root
        self.sources, self.tests, self.texts = {}, {}, {}
        for path in walk(root):
            parts, name = path.split(os.sep), os.path.basename(path)
            is_test = parts[0] in ("tests", "bench", "examples") or "test" in parts or "tests" in parts
            if name.endswith(SOURCES) and parts[0] in ROOMS and not is_test:
                self.sources.setdefault(name, []).append(path)
            elif is_test and re.fullmatch(r"(test|fuzz)_\w+\.c", name):
                self.tests.setdefault(name[:-2], []).append(path[:-2])
            elif is_test and re.fullmatch(r"check-[\w-]+", name):
                self.tests.setdefault(name, []).append(path)

    def text(self, path):
        if path not in self.texts:
            with open(os.path.join(self.root, path), encoding="utf-8") as f:
                self.texts[path] = f.read()
        return self.texts[path]

    def find(self, e):
        """(path, start, end) of the old text, which is there once."""
        paths = self.sources.get(e.file, [])
        if not paths:
            raise Bad(f"{e.where}: [{e.name}]: there is no {e.file} in {', '.join(ROOMS)}")
        found = [(p, m.start(), m.end()) for p in paths for m in e.pattern().finditer(self.text(p))]
        if len(found) != 1:
            raise Bad(f"{e.where}: [{e.name}]: {' or '.join(paths)} has its old text "
                      f"{len(found)} times, not once: {' '.join(e.old).strip()}")
        for name in e.tests():
            if name not in self.tests:
                raise Bad(f"{e.where}: [{e.name}]: there is no test {name}")
        return found[0]

    def mutated(self, e):
        path, start, end = self.find(e)
        text = self.text(path)
        return path, text[:start] + "\n".join(e.new) + text[end:]


def check(tree):
    """Prints TAP: does each list apply?"""
    entries, complaints = [], []
    try:
        entries = read_lists(tree)
    except Bad as e:
        complaints.append(str(e))
    at = Tree(tree)
    for entry in entries:
        try:
            at.find(entry)
        except Bad as e:
            complaints.append(str(e))
    print("1..1")
    print(("not ok" if complaints else "ok") + f" 1 - all {len(entries)} mutations still apply")
    for line in complaints:
        print(f"# {line}")
    return 1 if complaints else 0


class Copy:
    """A copy of the tree and its build, in which mistakes are made."""

    def __init__(self, tree, build, configure):
        self.source = os.path.join(build, "mutations")
        self.build = os.path.join(self.source, "build")
        os.makedirs(self.build, exist_ok=True)
        self.log = open(os.path.join(self.build, "mutations.log"), "a", encoding="utf-8")
        self.sync(tree)
        self.tree = Tree(self.source)
        if not os.path.exists(os.path.join(self.build, "config.status")):
            if self.call(["../configure", "--quiet", *configure], BUILD_LIMIT):
                raise Bad(f"the copy cannot be configured; see {self.log.name}")

    def sync(self, tree):
        """What did not change keeps its time, so that little is compiled again."""
        there = set(walk(tree))
        for path in there:
            a, b = os.path.join(tree, path), os.path.join(self.source, path)
            if os.path.islink(a) or (os.path.exists(b) and same(a, b)):
                continue
            os.makedirs(os.path.dirname(b), exist_ok=True)
            shutil.copy2(a, b)
        for path in set(walk(self.source)) - there:
            if not path.startswith("build" + os.sep):
                os.remove(os.path.join(self.source, path))

    def take_kernels(self, build):
        """Compiled GPU code, which takes long and is the same."""
        for folder, folders, files in os.walk(build):
            folders[:] = [d for d in folders if os.path.join(folder, d) != self.source]
            for name in files:
                to = os.path.join(self.build, os.path.relpath(folder, build), name)
                if name.endswith((".fatbin", ".ptx", ".ptxas", ".cubin")) and not os.path.exists(to):
                    os.makedirs(os.path.dirname(to), exist_ok=True)
                    shutil.copy2(os.path.join(folder, name), to)

    def write(self, path, text):
        with open(os.path.join(self.source, path), "w", encoding="utf-8") as f:
            f.write(text)

    def call(self, command, limit):
        """The exit status; None: it took too long, and was ended with all that it had started."""
        self.log.write(f"$ {' '.join(command)}\n")
        self.log.flush()
        environment = dict(os.environ, WEFT_TEST_LIMIT=str(TEST_LIMIT), WEFT_MUTATED="yes")
        environment.pop("MAKEFLAGS", None)
        process = subprocess.Popen(command, cwd=self.build, stdin=subprocess.DEVNULL, stdout=self.log,
                                   stderr=self.log, start_new_session=True, env=environment)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def make(self, limit, *arguments):
        return self.call(["make", "-s", f"-j{os.cpu_count() or 1}", *arguments], limit)

    def passes(self, name):
        """Whether a test passes, or all of this name; None: it cannot be made."""
        results = [self.passes_at(name, path) for path in self.tree.tests[name]]
        return None if None in results else all(results)

    def passes_at(self, name, path):
        if not name.startswith("check-") and self.make(BUILD_LIMIT, path) != 0:
            return None
        for end in (".log", ".trs"):
            if os.path.exists(os.path.join(self.build, path + end)):
                os.remove(os.path.join(self.build, path + end))
        self.make(4 * TEST_LIMIT, path + ".log")
        try:
            with open(os.path.join(self.build, path + ".trs"), encoding="utf-8") as f:
                return re.search(r"^:global-test-result: (PASS|SKIP)", f.read(), re.M) is not None
        except FileNotFoundError:
            return False


def same(a, b):
    with open(a, "rb") as f, open(b, "rb") as g:
        return os.path.getsize(a) == os.path.getsize(b) and f.read() == g.read()


def attempt(copy, entry, named):
    """What becomes of one mutation: caught by a test, survived, or not built."""
    path, text = copy.tree.mutated(entry)
    copy.write(path, text)
    try:
        made = False
        for name in entry.tests():
            if name in entry.scripts and not made and copy.make(BUILD_LIMIT, "check-data") != 0:
                return "not built"
            made = made or name in entry.scripts
            result = copy.passes(name)
            if result is not True:
                return f"caught by {name}" if result is False else "not built"
        if not named and copy.make(CHECK_LIMIT, "check") != 0:
            return "caught by the whole check"
        return "survived"
    finally:
        copy.write(path, copy.tree.text(path))


def run(options):
    names = [n for words in options.names for n in words.split(",")]
    entries = [e for e in read_lists(options.tree)
               if not names or any(fnmatch.fnmatchcase(e.name, n) for n in names)]
    if not entries:
        raise Bad("no mutation has such a name")
    at = Tree(options.tree)
    for e in entries:
        at.find(e)
    copy = Copy(options.tree, options.build, options.configure)
    copy.take_kernels(options.build)
    results = os.path.join(copy.build, "mutations.results")
    done = {}
    if options.resume and os.path.exists(results):
        with open(results, encoding="utf-8") as f:
            done = dict(line.rstrip("\n").split("\t") for line in f)
        done = {key: what for key, what in done.items() if what.startswith("caught")}
    if copy.make(BUILD_LIMIT * 4, "check-data") != 0:
        raise Bad(f"the copy cannot be built; see {copy.log.name}")
    broken = [] if done else [t for t in sorted({t for e in entries for t in e.tests()})
                              if copy.passes(t) is not True]
    if broken:
        raise Bad(f"these fail without any mutation: {' '.join(broken)}; see {copy.log.name}")
    survivors, caught, unbuilt = [], 0, []
    with open(results, "a" if done else "w", encoding="utf-8") as f:
        for i, e in enumerate(entries, 1):
            key, started = f"{e.name} {e.digest()}", time.monotonic()
            if key not in done:
                done[key] = attempt(copy, e, options.named)
                f.write(f"{key}\t{done[key]}\n")
                f.flush()
            print(f"{i}/{len(entries)} {e.name}: {done[key]} ({time.monotonic() - started:.0f} s)", flush=True)
            caught += done[key].startswith("caught")
            survivors += [e.name] if done[key] == "survived" else []
            unbuilt += [e.name] if done[key] == "not built" else []
    if unbuilt:
        print(f"NOT BUILT, which says nothing: {', '.join(unbuilt)}")
    print(f"{caught} of {len(entries) - len(unbuilt)} caught, survivors: {', '.join(survivors) or 'none'}")
    return 1 if unbuilt or caught < 0.95 * (len(entries) - len(unbuilt)) else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("command", choices=["check", "run"])
    parser.add_argument("tree", type=os.path.abspath)
    parser.add_argument("build", nargs="?", type=os.path.abspath)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--configure", action="append", default=[])
    parser.add_argument("--named", action="store_true")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_intermixed_args()
    try:
        return check(options.tree) if options.command == "check" else run(options)
    except Bad as e:
        print(f"mutate.py: {e}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
