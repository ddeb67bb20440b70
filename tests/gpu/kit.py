# SPDX-License-Identifier: Apache-2.0
"""What check-gpu and bench/gpu share: the kit's programs, where the GPU's libraries are, and a file
of results that a second call goes on from."""

import argparse
import ctypes
import glob
import json
import os
import re
import signal
import subprocess
import sys
import time

UNFINISHED = 3  # exit code: time is up, call again


class Failed(Exception):
    """What is wrong, and the end of what a program said."""

    def __init__(self, what, said=""):
        super().__init__(what)
        self.said = said


class Skipped(Exception):
    """What is missing for a check."""


class OutOfTime(Exception):
    """The call's time is up, not the check's."""


class Said:
    def __init__(self, code, text, seconds):
        self.code, self.text, self.seconds = code, text, seconds

    def tail(self, lines=25):
        return "\n".join(self.text.splitlines()[-lines:])


# ---- libraries ----

def opens(name):
    """Asked of another process, so that nothing stays open here."""
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    return subprocess.run([sys.executable, "-c", program, name], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def find_library(name):
    """A name that dlopen finds, or a path: of the toolkit, or of PyTorch's packages. Or None."""
    if opens(name):
        return name
    folders = ["/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/lib/*-linux-gnu",
               "/usr/local/nvidia/lib64"]
    folders += [os.path.join(p, "nvidia", "*", "lib") for p in sys.path if p]
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, name)), reverse=True):
            if opens(path):
                return path
    return None


def find_program(name):
    folders = os.environ.get("PATH", "").split(os.pathsep) + sorted(glob.glob("/usr/local/cuda*/bin"))
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return None


# ---- the kit ----

class Kit:
    """Programs and plugins as tests/gpu/stage lays them out."""

    def __init__(self, folder, options):
        self.folder = folder
        self.build = open(os.path.join(folder, "BUILD")).read().split("\n", 1)[0]
        self.quick = options.quick
        self.driver = options.driver or find_library("libcuda.so.1")
        self.cublaslt = options.cublaslt or find_library("libcublasLt.so.13") \
            or find_library("libcublasLt.so.12")
        self.cudnn = options.cudnn or find_library("libcudnn.so.9")
        self.nccl = options.nccl or find_library("libnccl.so.2")
        self.is_fake = bool(self.driver) and "fake" in os.path.basename(self.driver)
        self.patience = 6 if self.is_fake else 1  # a GPU of one thread is slow
        self.deadline = time.monotonic() + options.seconds
        self.work = None

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def left(self):
        return self.deadline - time.monotonic()

    def environment(self, **more):
        env = dict(os.environ, LC_ALL="C", NO_COLOR="1", HOME=self.work,
                   XDG_CACHE_HOME=os.path.join(self.work, "cache"),
                   WEFT_PLUGIN_PATH=self.path("plugins"), CMOCKA_MESSAGE_OUTPUT="TAP",
                   WEFT_TEST_CUDA_DRIVER=self.driver or "libcuda.so.1",
                   WEFT_TEST_CUBLASLT=self.cublaslt or "libcublasLt.so.13",
                   WEFT_TEST_CUDNN=self.cudnn or "libcudnn.so.9")
        env["LD_LIBRARY_PATH"] = os.pathsep.join(
            [self.path("lib")] + [p for p in [os.environ.get("LD_LIBRARY_PATH")] if p])
        if not self.quick:
            env["WEFT_LONG"] = "1"
        for name, value in more.items():
            env.pop(name, None)
            if value is not None:
                env[name] = value
        return env

    def run(self, command, limit, **environment):
        """Runs it in the work folder, for so many seconds at most, and not past this call's end."""
        began = time.monotonic()
        limit *= self.patience
        allowed = min(limit, self.left())
        child = subprocess.Popen(command, cwd=self.work, env=self.environment(**environment),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            out, _ = child.communicate(timeout=max(allowed, 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, _ = child.communicate()
            if allowed < limit:
                raise OutOfTime from None
            raise Failed(f"not done after {limit} s", out.decode(errors="replace")[-4000:]) from None
        return Said(child.returncode, out.decode(errors="replace"), time.monotonic() - began)

    def weft(self, *arguments, limit=120, expect=0, **environment):
        said = self.run([self.path("lib", "weft"), *arguments], limit, **environment)
        if said.code != expect:
            raise Failed(f"weft {' '.join(arguments)}: exit code {said.code}", said.tail())
        return said

    def gpu_count(self):
        program = """
import ctypes, sys
d = ctypes.CDLL(sys.argv[1])
n = ctypes.c_int(0)
print(0 if d.cuInit(0) or d.cuDeviceGetCount(ctypes.byref(n)) else n.value)"""
        if not self.driver:
            return 0
        said = subprocess.run([sys.executable, "-c", program, self.driver], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return int(said.stdout or 0) if said.returncode == 0 else 0

    def gpu_name(self):
        program = """
import ctypes, sys
d = ctypes.CDLL(sys.argv[1])
n, name, device = ctypes.c_int(0), ctypes.create_string_buffer(256), ctypes.c_int(0)
sys.exit(1) if d.cuInit(0) or d.cuDeviceGetCount(ctypes.byref(n)) or n.value < 1 else None
d.cuDeviceGet(ctypes.byref(device), 0)
d.cuDeviceGetName(name, 256, device)
print(name.value.decode())"""
        if not self.driver:
            return None
        said = subprocess.run([sys.executable, "-c", program, self.driver], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return said.stdout.decode().strip() if said.returncode == 0 else None


# ---- results ----

class Results:
    """A line of JSON for everything that was done; what another build or GPU did does not count."""

    def __init__(self, path, kit, gpu):
        self.path, self.build, self.gpu = path, kit.build, gpu
        self.lines = {}
        text = open(path).read() if os.path.exists(path) else ""
        if text and not text.endswith("\n"):  # a call that was killed
            with open(path, "a") as f:
                f.write("\n")
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if entry.get("build") == self.build and entry.get("gpu") == gpu:
                self.lines[entry.get("name")] = entry

    def add(self, name, ok, **figures):
        entry = dict(name=name, ok=ok, **figures, gpu=self.gpu, build=self.build)
        self.lines[name] = entry
        with open(self.path, "a") as f:
            f.write(json.dumps(entry) + "\n")
            f.flush()
            os.fsync(f.fileno())
        shown = {True: "ok", False: "FAILED", None: "skipped"}[ok]
        more = " ".join(f"{k} {v}" for k, v in figures.items() if k not in ("said",))
        print(f"{shown:8}{name}  {more}", flush=True)
        if ok is False and figures.get("said"):
            print("    " + figures["said"].replace("\n", "\n    "), flush=True)


def do(results, name, function, *arguments):
    """One check or measurement; what it returns are its figures."""
    began = time.monotonic()
    took = lambda: round(time.monotonic() - began, 2)
    try:
        figures = function(*arguments) or {}
        results.add(name, True, seconds=took(), **figures)
    except Skipped as why:
        results.add(name, None, seconds=took(), why=str(why))
    except Failed as why:
        results.add(name, False, seconds=took(), why=str(why), said=why.said[-3000:])


def do_all(results, kit, todo, least):
    """Each (name, function, arguments) that has no line yet, while at least so many seconds are
    left. What is called "machine" must pass. The exit code."""
    for name, function, *arguments in todo:
        if name in results.lines and not (name == "machine" and not results.lines[name]["ok"]):
            continue
        try:
            if kit.left() < least:
                raise OutOfTime
            do(results, name, function, kit, *arguments)
        except OutOfTime:
            missing = sum(one[0] not in results.lines for one in todo)
            print(f"time is up; {missing} of {len(todo)} are left: the same command goes on")
            return UNFINISHED
        if name == "machine" and not results.lines[name]["ok"]:
            print("nothing else can be done here")
            return 1
    lines = [results.lines[one[0]] for one in todo]
    failed = [l["name"] for l in lines if l["ok"] is False]
    skipped = [l["name"] for l in lines if l["ok"] is None]
    print(f"{len(lines) - len(failed) - len(skipped)} passed, {len(failed)} failed, "
          f"{len(skipped)} skipped, on {results.gpu}")
    for what, names in (("failed", failed), ("skipped", skipped)):
        for name in names:
            print(f"  {what}: {name}")
    return 1 if failed else 0


def pattern(text):
    try:
        return re.compile(text)
    except re.error as why:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {why}") from why


def parser(summary, results):
    p = argparse.ArgumentParser(description=summary)
    p.add_argument("--results", default=results, metavar="FILE",
                   help="a JSON line for each; a second call goes on behind the last (%(default)s)")
    p.add_argument("--seconds", type=float, default=480, help="of this call (%(default)s)")
    p.add_argument("--quick", action="store_true",
                   help="small shapes and samples: where the GPU is a fake one")
    p.add_argument("--only", metavar="REGEX", type=pattern, help="those whose names match")
    p.add_argument("--again", action="store_true", help="also what failed or was skipped before")
    p.add_argument("--list", action="store_true", help="print their names")
    p.add_argument("--driver", metavar="FILE", help="NVIDIA's driver library")
    p.add_argument("--cublaslt", metavar="FILE", help="the library that multiplies matrices")
    p.add_argument("--cudnn", metavar="FILE", help="the library that computes attention")
    p.add_argument("--nccl", metavar="FILE", help="the library of collectives")
    p.add_argument("--kit", metavar="DIR", help="the folder that tests/gpu/stage made")
    return p


def chosen(todo, options, results):
    if options.only:
        todo = [one for one in todo if options.only.search(one[0])]
    if not todo:
        print(f"no name matches --only '{options.only.pattern}'; --list prints them", file=sys.stderr)
        sys.exit(2)
    if options.again and results:
        for name in [n for n, line in results.lines.items() if line["ok"] is not True]:
            del results.lines[name]
    return todo
