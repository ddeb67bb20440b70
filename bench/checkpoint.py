# SPDX-License-Identifier: Apache-2.0
"""checkpoint.py torch LIKE TARGET RANKS: what weft's checkpoint LIKE holds, saved to TARGET and loaded from it by torch.distributed.checkpoint, over
gloo ranks that hold it in DTensors cut along dim 0, as FSDP does. Prints seconds of both, and bytes.
checkpoint.py drop PATH: takes the files under PATH out of the page cache.
checkpoint.py disk PATH BYTES: writes so much to PATH with an fsync and reads it back, past the page cache; prints seconds of both."""
import json
import os
import struct
import sys
import time


def drop(path):
    for top, _, names in os.walk(path) if os.path.isdir(path) else [("", [], [path])]:
        for name in names:
            fd = os.open(os.path.join(top, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def disk(path, size):
    block = os.urandom(4 << 20)
    begin = time.monotonic()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    for _ in range(size // len(block)):
        os.write(fd, block)
    os.fsync(fd)
    written = time.monotonic() - begin
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    begin = time.monotonic()
    room = memoryview(bytearray(len(block)))
    os.lseek(fd, 0, os.SEEK_SET)
    while os.readv(fd, [room]):
        pass
    read = time.monotonic() - begin
    os.close(fd)
    os.unlink(path)
    print(f"{written:.3f} {read:.3f}")


def shapes(path):
    """Of the whole tensors, from the pieces' headers."""
    found = {}
    for top, _, names in os.walk(path):
        for name in names:
            if not name.endswith(".safetensors"):
                continue
            with open(os.path.join(top, name), "rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            for tensor, place in json.loads(header["__metadata__"]["DCP_SHARDING_INFO"]).items():
                found[tensor] = place["whole"]
    return found


def rank_of_torch(rank, ranks, like, target, port):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))
    state = {}
    for name, size in sorted(shapes(like).items()):
        n = size[0] // ranks if rank < ranks - 1 else size[0] - size[0] // ranks * (ranks - 1)
        state[name] = DTensor.from_local(torch.randn([n] + size[1:]), mesh, [Shard(0)], run_check=False)
    want = {name: tensor.to_local().clone() for name, tensor in state.items()}

    def timed(work):
        dist.barrier()
        begin = time.monotonic()
        work()
        dist.barrier()
        return time.monotonic() - begin

    saved = timed(lambda: dcp.save(state, storage_writer=dcp.FileSystemWriter(target, sync_files=True)))
    if rank == 0:
        drop(target)
    for tensor in state.values():
        tensor.to_local().zero_()
    loaded = timed(lambda: dcp.load(state, storage_reader=dcp.FileSystemReader(target)))
    for name, tensor in state.items():
        assert torch.equal(tensor.to_local(), want[name]), name
    if rank == 0:
        size = sum(4 * torch.Size(size).numel() for size in shapes(like).values())
        print(f"{saved:.3f} {loaded:.3f} {size}")
    dist.destroy_process_group()


def main():
    if sys.argv[1] == "drop":
        drop(sys.argv[2])
    elif sys.argv[1] == "disk":
        disk(sys.argv[2], int(sys.argv[3]))
    else:
        import socket

        import torch.multiprocessing as mp

        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        ranks = int(sys.argv[4])
        mp.spawn(rank_of_torch, (ranks, sys.argv[2], sys.argv[3], port), ranks)


if __name__ == "__main__":
    main()
