# SPDX-License-Identifier: Apache-2.0
"""What check-gpu checks, what is worth most first. Each function gets the kit, fails by raising
Failed, and returns figures for its line."""

import json
import os
import re
import shutil

import signal
import subprocess
import time

import references
from kit import Failed, Skipped, find_program

SHAPES = {
    # seq, global and micro-batch, dim, blocks, heads, kv heads, head, ffn, vocabulary
    "small": (10, 4, 2, 16, 2, 2, 1, 8, 24, 259),
    "medium": (128, 8, 4, 128, 2, 4, 2, 32, 352, 515),
    "large": (1024, 2, 1, 512, 2, 8, 2, 64, 1376, 8003),
    "wide": (700, 2, 1, 512, 2, 4, 2, 128, 1376, 4001),
    "70B": (8192, 8, 1, 8192, 80, 64, 8, 128, 28672, 128256),
}

# Dense, by the data sheets, in flop/s of bf16; by a word of the GPU's name.
SHEETS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "B200": 2250e12, "4090": 165e12}


def shape_of(kit):
    return "small" if kit.quick else "medium"


def key_of(gpu):
    """The GPU that plans know by this name of the driver's; None: there is none."""
    return next((k.lower() for k in SHEETS if k in (gpu or "")), None)


def write_ini(kit, name, plugins, sections="", shape=None, device="cuda", steps=4, seconds=60, lr=1e-3, **cuda):
    """Dtypes stand before the data, what watches the state behind the optimizer, the rest between."""
    seq, batch, micro, dim, blocks, heads, kv, head, ffn, vocabulary = SHAPES[shape or shape_of(kit)]
    early = [p for p in ("bf16", "float8") if p in plugins.split()]
    late = [p for p in ("ckpt",) if p in plugins.split()]
    rest = [p for p in plugins.split() if p not in early + late]
    order = ["llama3", *early, "text", device, *rest, "adamw", *late]
    lines = ["[weft]", f"plugins = {' '.join(order)}",
             f"rank_timeout = {seconds * kit.patience}"]
    if kit.is_fake:
        lines += ["threads = 1"]
    lines += ["[train]", f"steps = {steps}", f"seq_len = {seq}", f"global_batch = {batch}",
              f"micro_batch = {micro}", "[text]", f"path = {kit.path('references', 'text.txt')}",
              "[adamw]", f"lr = {lr}", "[llama3]", f"dim = {dim}", f"n_layers = {blocks}",
              f"n_heads = {heads}", f"n_kv_heads = {kv}", f"head_dim = {head}",
              f"ffn_dim = {ffn}", f"vocab_size = {vocabulary}"]
    if device == "cuda":
        cuda = dict(dict(driver=kit.driver, cublaslt=kit.cublaslt, cudnn=kit.cudnn or "libcudnn.so.9"),
                    **cuda)
        lines += ["[cuda]"] + [f"{k} = {v}" for k, v in cuda.items() if v]
    path = os.path.join(kit.work, name + ".ini")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n" + sections)
    return path


def metrics(folder):
    with open(os.path.join(folder, "metrics.jsonl")) as f:
        return [json.loads(line) for line in f]


def numbers(folder):
    return [(m["step"], m["loss"], m["grad_norm"]) for m in metrics(folder)]


def train(kit, ini, folder, *options, limit=120, **environment):
    """Into a folder of the work folder, which it empties first."""
    path = os.path.join(kit.work, folder)
    shutil.rmtree(path, ignore_errors=True)
    return go_on(kit, ini, path, *options, limit=limit, **environment)


def go_on(kit, ini, path, *options, limit=120, **environment):
    kit.weft("train", ini, "-o", f"weft.dir={path}", "--with", "metrics", *options, limit=limit,
             **environment)
    return path


# ---- the machine ----

def machine(kit):
    name = kit.gpu_name()
    if not kit.driver:
        raise Failed("no NVIDIA driver: libcuda.so.1 cannot be opened")
    if not name:
        raise Failed(f"{kit.driver} finds no GPU")
    if not kit.cublaslt:
        raise Failed("no cuBLASLt: libcublasLt.so.13 is neither in the system nor in PyTorch")
    smi = find_program("nvidia-smi")
    said = ""
    if smi and not kit.is_fake:
        query = "--query-gpu=driver_version,memory.total,memory.used,compute_cap"
        said = kit.run([smi, query, "--format=csv,noheader"], 30).text.strip()
    return dict(device=name, driver=kit.driver, cublaslt=kit.cublaslt, cudnn=kit.cudnn, nccl=kit.nccl, gpus=kit.gpu_count(), smi=said,
                weft=kit.weft("--version").text.split("\n", 1)[0])


# ---- kernels ----

def trials(kit, program, test, **environment):
    said = kit.run([kit.path("lib", program), test], 200, **environment)
    if said.code != 0:
        raise Failed(f"{program} {test}: exit code {said.code}", said.tail(12))
    made = re.search(r"^# (\d+) calls on (.*)$", said.text, re.M)
    if not made:
        raise Failed(f"{program} {test} does not say what it did", said.tail())
    by = re.search(r"cuDNN had a plan for (\d+) calls of attention, and none for (\d+)", made.group(2))
    return dict(calls=int(made.group(1)), **dict(zip(("cudnn", "without"), map(int, by.groups()))) if by else {})


# These look at files and refusals of the fake's GPUs.
ON_THE_HOST = ("test_kept_choices", "test_no_emulation", "test_others_are_refused", "test_order_of_pairs")


def tests_of(kit, program):
    """(name, test) of each that is for a GPU."""
    for test in kit.run([kit.path("lib", program), "--list"], 30).text.split():
        if test not in ON_THE_HOST:
            short = test.removeprefix("trial_").removeprefix("test_")
            yield (f"{program.removeprefix('gpu_')}/{short}", test)


def kernel_checks(kit):
    """Those last of which the processor's plain kernels take longest."""
    found = [(f"kernels/{name}", trials, program, test)
             for program in ("gpu_products", "gpu_attention", "gpu_kernels")
             for name, test in tests_of(kit, program)]
    yield from sorted(found, key=lambda one: bool(re.search("/(masks|parts|long_.*)$", one[0])))


# ---- whole runs ----

def on_cpu(plugins="", sections="", shape=None):
    return dict(plugins=plugins, sections=sections, shape=shape, device="cpu")


def on_gpu(plugins="", sections="", shape=None, **cuda):
    return dict(plugins=plugins, sections=sections, shape=shape, **cuda)


def oracle(kit, first, second, *options):
    """Two runs, as write_ini takes them."""
    files = [write_ini(kit, name, **run) for name, run in (("a", first), ("b", second))]
    said = kit.run([kit.path("lib", "weft"), "oracle", *files, *options], 150)
    if said.code != 0:
        raise Failed(f"oracle: exit code {said.code}", said.tail(12))
    return dict(worst=said.text.strip().splitlines()[-1])


def captured(kit, plugins, sections):
    """Tasks one by one, and captured: the same bits of all that four steps compute."""
    return oracle(kit, on_gpu(plugins, sections, graphs="no"), on_gpu(plugins, sections, graphs="yes"),
                  "--steps", "4", "--bitwise", "all")


def exportable(kit):
    """Memory that other processes can map gives the bits that memory of cuMemAlloc gives."""
    return oracle(kit, on_gpu("bf16"), on_gpu("bf16", memory="exportable"),
                  "--steps", "4", "--bitwise", "all")


def carried(kit, dtype):
    shape = shape_of(kit)
    worst, parted = references.compare(kit, dtype, write_ini, train, shape,
                                       SHAPES[shape][0] * SHAPES[shape][1])
    if parted:
        raise Failed(f"{len(parted)} values part from the reference", "\n".join(parted[:20]))
    return {k: float(f"{v:.3g}") for k, v in worst.items()}


def nothing_on_the_host(kit):
    """Ops without a kernel would be computed by the host, which the log says."""
    said = ""
    for plugins in ("", "bf16", "bf16 local tp fsdp ac"):
        ini = write_ini(kit, "host", plugins, "[tp]\ndegree = 2\n" if "tp" in plugins else "", steps=1)
        ranks = ["-n", "4"] if "tp" in plugins else []
        said += kit.weft("train", ini, *ranks).text
    left = [line for line in said.splitlines() if "has no kernel" in line]
    if left:
        raise Failed("an op is computed by the host", "\n".join(left))


def careful(kit):
    """Waiting behind each instruction changes no bit, and captured tasks do not either."""
    found = {}
    for graphs in ("no", "yes", "check"):
        ini = write_ini(kit, "careful", "bf16", graphs=graphs, steps=6)
        found[graphs] = numbers(train(kit, ini, "careful-" + graphs))
    if not found["no"] == found["yes"] == found["check"]:
        raise Failed("other numbers", json.dumps(found, indent=1))


def planned(kit, plugins, sections, ranks):
    ini = write_ini(kit, "planned", plugins, sections, shape="small" if kit.quick else "large", steps=3)
    last = metrics(train(kit, ini, "planned", "-n", str(ranks)))[-1]
    used, plan = last["peak_bytes"], last["planned_bytes"]
    figures = dict(planned_bytes=plan, used_bytes=used)
    if not 0.98 * plan - (1 << 20) <= used <= plan:
        raise Failed(f"planned {plan} bytes, used {used}")
    return figures


def library_memory(kit):
    """What the context, its modules and cuBLASLt take beside the plan, which says how much."""
    smi = find_program("nvidia-smi")
    if kit.is_fake or not smi:
        raise Skipped("there is no nvidia-smi" if not smi else "the GPU is a fake one")
    used = lambda: int(kit.run([smi, "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                               30).text.split()[0])
    watcher = os.path.join(kit.work, "watch")
    with open(watcher, "w") as f:
        f.write(f"while :; do {smi} --query-gpu=memory.used --format=csv,noheader,nounits; done\n")
    key = key_of(kit.gpu_name())
    if not key:
        raise Skipped("no numbers are known of this GPU")
    before = used()
    ini = write_ini(kit, "memory", "bf16", shape="large", steps=200)
    line = re.search(r"libraries \(estimate\) +([\d.]+) ([GM])iB",
                     kit.weft("plan", ini, "-o", f"cuda.gpu={key}").text)
    if not line:
        raise Failed("the plan does not say what libraries take")
    told = int(float(line.group(1)) * (1024 if line.group(2) == "G" else 1))
    said = kit.run(["bash", "-c", f"bash {watcher} >used & trap 'kill $!' EXIT; "
                    f"{kit.path('lib', 'weft')} train {ini} -o weft.dir=memory --with metrics"], 120)
    if said.code != 0:
        raise Failed("the run failed", said.tail())
    peak = max(int(x) for x in open(os.path.join(kit.work, "used")).read().split())
    mine = metrics(os.path.join(kit.work, "memory"))[-1]["peak_bytes"] >> 20
    figures = dict(library_mib=peak - before - mine, planned_mib=told, arena_mib=mine)
    if peak - before - mine > told:
        raise Failed(f"libraries take {peak - before - mine} MiB, and {told} are planned")
    return figures


# ---- save, load, generate ----

CKPT = "[ckpt]\nevery = 3\n"


def copy_without(kit, source, target, step):
    """A run as it was before a step was saved."""
    path = os.path.join(kit.work, target)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(os.path.join(kit.work, source), path)
    shutil.rmtree(os.path.join(path, "ckpt", f"step-{step}"))
    os.remove(os.path.join(path, "metrics.jsonl"))
    return path


def resume(kit, plugins, sections, ranks):
    ini = write_ini(kit, "resume", "ckpt " + plugins, CKPT + sections, steps=6)
    straight = train(kit, ini, "straight", "-n", str(ranks))
    resumed = go_on(kit, ini, copy_without(kit, "straight", "resumed", 6), "-n", str(ranks))
    if numbers(straight)[3:] != numbers(resumed):
        raise Failed("other numbers", f"{numbers(straight)[3:]}\n{numbers(resumed)}")
    said = kit.weft("ckpt", "diff", straight, resumed)
    if "bit by bit" not in said.text:
        raise Failed("other parameters", said.tail())


def across(kit, first, second, ranks, plugins="", sections=""):
    """Saved on one device and gone on from on the other: as on one alone."""
    made = write_ini(kit, "made", "ckpt " + plugins, CKPT + sections, device=first, steps=6)
    other = write_ini(kit, "other", "ckpt", CKPT, device=second, steps=6)
    straight = train(kit, made, "straight", "-n", str(ranks))
    resumed = go_on(kit, other, copy_without(kit, "straight", "resumed", 6))
    worst = 0
    for a, b in zip(numbers(straight)[3:], numbers(resumed), strict=True):
        worst = max(worst, abs(a[1] - b[1]) / a[1], abs(a[2] - b[2]) / a[2])
    if not worst < 1e-4:
        raise Failed(f"losses or norms differ by {worst:.3g}",
                     f"{numbers(straight)[3:]}\n{numbers(resumed)}")
    return dict(worst=worst)


def generate(kit, ranks=1, plugins="", sections=""):
    """A model that has learnt a little: the same ids on both devices, with a cache and without."""
    path = os.path.join(kit.work, "learnt")
    shutil.rmtree(path, ignore_errors=True)
    lines = f"dir = {path}\n"
    steps = 5 if kit.quick else 60
    asked = ["--greedy", "--json", "--max-tokens", "4" if kit.quick else "48", "--prompt", "Sentence",
             "--prompt", "A"]
    told = {}
    for device in ("cpu", "cuda"):
        ini = write_ini(kit, "generate-" + device, "ckpt " + (plugins if device == "cuda" else ""),
                        sections if device == "cuda" else "", device=device, steps=steps)
        text = open(ini).read().replace("[weft]\n", "[weft]\n" + lines, 1)
        with open(ini, "w") as f:
            f.write(text)
        if device == "cpu":
            kit.weft("train", ini)
            told["cpu"] = kit.weft("generate", ini, *asked).text
        else:
            told["cuda"] = kit.weft("generate", ini, "-n", str(ranks), *asked).text
            told["no cache"] = kit.weft("generate", ini, "-n", str(ranks), "--no-cache", *asked).text
    ids = {k: re.findall(r'"ids": (\[[^]]*\])', v) for k, v in told.items()}
    if not ids["cpu"] or not ids["cpu"] == ids["cuda"] == ids["no cache"]:
        raise Failed("other ids", json.dumps(ids, indent=1))
    return dict(texts=len(ids["cpu"]))


# ---- what is to fail ----

def out_of_memory(kit):
    if kit.is_fake:
        raise Skipped("the GPU is a fake one")
    ini = write_ini(kit, "much", "bf16", shape="70B", steps=1)
    said = kit.run([kit.path("lib", "weft"), "train", ini], 120)
    if said.code not in (1, 2) or not re.search("out of memory|more than", said.text):
        raise Failed(f"exit code {said.code}, or not what was missing", said.tail())
    return dict(says=said.text.strip().splitlines()[-1][:300])


def nccl(kit):
    if not kit.nccl:
        raise Skipped("there is no libnccl.so.2")
    ini = write_ini(kit, "nccl", "nccl fsdp", f"[nccl]\nlibrary = {kit.nccl}\n", steps=2)
    alone = write_ini(kit, "alone", "", steps=2)
    one, other = train(kit, ini, "nccl", "-n", "1"), train(kit, alone, "alone")
    if numbers(one) != numbers(other):
        raise Failed("other numbers than without it", f"{numbers(one)}\n{numbers(other)}")


def on_gpus(kit, ranks):
    """The plugins and sections of so many ranks, a GPU each."""
    if not kit.nccl:
        raise Skipped("there is no libnccl.so.2")
    if kit.gpu_count() < ranks:
        raise Skipped(f"there are not {ranks} GPUs")
    return "nccl ", f"[nccl]\nlibrary = {kit.nccl}\n"


def children(pid):
    """Processes that this one has started, and those that they have."""
    found = []
    for status in os.listdir("/proc"):
        try:
            with open(f"/proc/{status}/stat") as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid:
            found += [int(status), *children(int(status))]
    return found


def wait_for_steps(kit, child, path, n):
    until = time.monotonic() + 60 * kit.patience
    while time.monotonic() < until and child.poll() is None:
        try:
            if len(metrics(path)) >= n:
                return
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise Failed("the run makes no steps", (child.stdout.read() or b"").decode(errors="replace")[-3000:]
                 if child.poll() is not None else "it hangs")


def killed(kit, ranks, plugins, sections):
    """A rank is killed in the middle of a step: all others end in seconds."""
    early, library = on_gpus(kit, ranks)
    ini = write_ini(kit, "killed", early + plugins, library + sections, shape="small", steps=1000000)
    path = os.path.join(kit.work, "killed")
    shutil.rmtree(path, ignore_errors=True)
    child = subprocess.Popen([kit.path("lib", "weft"), "train", ini, "-n", str(ranks), "-o", f"weft.dir={path}",
                              "--with", "metrics"], cwd=kit.work, env=kit.environment(),
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             start_new_session=True)
    try:
        wait_for_steps(kit, child, path, 2)
        of = [p for p in children(child.pid) if len(children(p)) == 0]
        if len(of) < ranks:
            raise Failed(f"{len(of)} ranks have a process of their own, not {ranks}")
        os.kill(max(of), signal.SIGKILL)
        began = time.monotonic()
        try:
            out, _ = child.communicate(timeout=30 * kit.patience)
        except subprocess.TimeoutExpired:
            raise Failed("the other ranks hang") from None
        took = time.monotonic() - began
        if child.returncode == 0 or took > 5 * kit.patience:
            raise Failed(f"exit code {child.returncode} after {took:.1f} s", out.decode(errors="replace")[-3000:])
        return dict(ended_s=round(took, 2))
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


def one_connection(kit, ranks, plugins, sections):
    """With one queue to the hardware all ends, with the same numbers: nothing relies on streams that
    go on beside each other."""
    early, library = on_gpus(kit, ranks)
    ini = write_ini(kit, "connections", early + plugins, library + sections, steps=3)
    found = {}
    for n in ("1", "32"):
        found[n] = numbers(train(kit, ini, "connections-" + n, "-n", str(ranks), CUDA_DEVICE_MAX_CONNECTIONS=n))
    if found["1"] != found["32"]:
        raise Failed("other numbers", json.dumps(found, indent=1))


def widened(kit, recipe):
    """How many products in 8 bits the GPU has none for, by kind: the plugin's own count."""
    ini = write_ini(kit, "widened", "bf16 float8", f"[float8]\nrecipe = {recipe}\n", steps=1)
    last = metrics(train(kit, ini, "widened"))[-1]
    found = {k.removeprefix("float8."): int(v) for k, v in last.items() if k.startswith("float8.")}
    if not found:
        raise Failed("metrics.jsonl does not say which products were widened", json.dumps(last))
    return found


# ---- compute-sanitizer ----

def sanitizer(kit, tool, command, limit=220):
    """Small shapes: it is a hundred times slower."""
    program = os.environ.get("COMPUTE_SANITIZER") or find_program("compute-sanitizer")
    if not program:
        raise Skipped("there is no compute-sanitizer")
    said = kit.run([program, "--tool", tool, "--error-exitcode", "77", *command], limit,
                   WEFT_LONG=None, WEFT_TEST_EXACT="1")
    if said.code != 0:
        raise Failed(f"{tool}: exit code {said.code}", said.tail())
    return dict(says=said.text.strip().splitlines()[-1][:200])


def sanitized_trials(kit, tool, program, test):
    return sanitizer(kit, tool, [kit.path("lib", program), test])


def sanitizer_checks(kit):
    for tool, programs in (("memcheck", ("gpu_products", "gpu_attention", "gpu_kernels")),
                           ("racecheck", ("gpu_attention", "gpu_kernels")),
                           ("synccheck", ("gpu_attention",))):
        for program in programs:
            for name, test in tests_of(kit, program):
                yield (f"sanitizer/{tool}/{name}", sanitized_trials, tool, program, test)


def sanitized_run(kit, tool):
    ini = write_ini(kit, "sanitized", "bf16", shape="small", steps=2)
    return sanitizer(kit, tool, [kit.path("lib", "weft"), "train", ini])


# ---- all of it ----

TP, FSDP, PP = "[tp]\ndegree = 2\n", "[fsdp]\ndegree = 2\n", "[pp]\ndegree = 2\n"
RING, GATHER = ("[cp]\ndegree = 2\nattention = " + how + "\n" for how in ("ring", "gather"))

MESHES = [  # ranks, plugins, sections
    (1, "ac", ""),
    (1, "ac", "[ac]\nmode = op\n"),
    (2, "fsdp", FSDP),
    (2, "tp", TP),
    (2, "pp", PP),
    (2, "cp", RING),
    (2, "cp", GATHER),
    (2, "fsdp", FSDP + "zero = 1\n"),
    (2, "fsdp", FSDP + "zero = 2\n"),
    (4, "tp fsdp ac", TP + FSDP),
    (4, "tp pp", TP + PP),
    (4, "fsdp pp", FSDP + PP),
    (4, "cp tp", RING + TP),
    (4, "cp fsdp", RING + FSDP),
    (4, "cp pp", RING + PP),
    (4, "tp pp ac", TP + PP),
    (4, "fsdp", FSDP + "replicate = 2\n"),
]


def mesh_checks():
    for dtype in ("f32", "bf16"):
        half = "bf16 " if dtype == "bf16" else ""
        for ranks, plugins, sections in MESHES:
            what = plugins.replace(" ", "+") + "".join(
                "," + v for v in re.findall(r"(?:mode|zero|replicate|attention) = \S+", sections))
            local = "local " if ranks > 1 else ""
            yield (f"mesh/{dtype}/{ranks}/{what.replace(' = ', '-')}", oracle, on_cpu(half),
                   on_gpu(half + local + plugins, sections))


def checks(kit):
    yield ("machine", machine)
    yield from kernel_checks(kit)
    yield ("oracle/f32", oracle, on_cpu(), on_gpu())
    yield ("oracle/bf16", oracle, on_cpu("bf16"), on_gpu("bf16"))
    yield ("carried/f32", carried, "f32")
    yield ("carried/bf16", carried, "bf16")
    yield ("graphs/f32", captured, "", "")
    yield ("graphs/bf16", captured, "bf16 ac", "")
    yield ("graphs/4 ranks", captured, "bf16 local tp fsdp", TP + FSDP)
    yield ("graphs/check", careful)
    yield ("memory/exportable", exportable)
    yield ("kernels/none on the host", nothing_on_the_host)
    meshes = list(mesh_checks())
    yield from meshes[:len(MESHES)]
    yield ("save/resume", resume, "", "", 1)
    yield ("save/resume, 4 ranks", resume, "bf16 local tp fsdp", TP + FSDP, 4)
    yield ("save/cuda to cpu", across, "cuda", "cpu", 1)
    yield ("save/cpu to cuda", across, "cpu", "cuda", 1)
    yield ("save/cuda on 4 ranks to cpu", across, "cuda", "cpu", 4, "local tp fsdp", TP + FSDP)
    yield ("generate", generate)
    yield ("generate, 2 ranks", generate, 2, "local tp", TP)
    yield ("planned/one", planned, "bf16", "", 1)
    yield ("planned/4 ranks", planned, "bf16 local tp fsdp ac", TP + FSDP, 4)
    yield ("planned/libraries", library_memory)
    if not kit.quick:
        for shape, dtype in (("large", ""), ("large", "bf16"), ("wide", "bf16")):
            yield (f"oracle/{shape} {dtype or 'f32'}", oracle, on_cpu(dtype, "", shape),
                   on_gpu(dtype, "", shape))
    yield ("oracle/timed products", oracle, on_cpu("bf16"), on_gpu("bf16", products="timed"))
    for recipe in ("tensorwise", "rowwise", "delayed"):
        section = f"[float8]\nrecipe = {recipe}\n"
        yield (f"oracle/float8 {recipe}", oracle, on_cpu("bf16 float8", section),
               on_gpu("bf16 float8", section))
    yield from meshes[len(MESHES):]
    for recipe in ("tensorwise", "rowwise"):
        yield (f"float8/widened {recipe}", widened, recipe)
    yield ("nccl/one rank", nccl)
    for ranks, plugins, sections in ((2, "tp", TP), (4, "bf16 tp fsdp", TP + FSDP), (2, "pp", PP), (2, "cp", RING)):
        yield (f"nccl/killed/{plugins.replace(' ', '+')}", killed, ranks, plugins, sections)
    for plugins, sections in (("cp", RING), ("pp", PP)):
        yield (f"nccl/one connection/{plugins}", one_connection, 2, plugins, sections)
    yield ("out of memory", out_of_memory)
    yield from sanitizer_checks(kit)
    yield ("sanitizer/memcheck/run", sanitized_run, "memcheck")
