"""Measure how long it takes to read a snapshot from an object store, with one connection and with
several.

moto's S3 server and a proxy that gives each connection `--rate` MB/s run as separate processes.
Each measurement also runs in a separate process, and records its peak memory.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.object_store import object_store

READ = """
import json, sys, time
import fsspec, fsspec.config
import s3fs
import memreplay as mr
from memreplay.io import ranges
url, parallel = sys.argv[1], int(sys.argv[2])
fsspec.config.conf["s3"] = json.loads(sys.argv[3])
ranges.PARALLEL = parallel
began = time.perf_counter()
if parallel:
    mr.open(url)
else:
    system, path = fsspec.core.url_to_fs(url)
    with system.open(path, "rb", block_size=8 << 20, cache_type="readahead") as file:
        mr.open(file)
took = time.perf_counter() - began
# Not ru_maxrss, which begins with the peak of the process that started this one.
peak = next(line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line)
print(took, int(peak) / 1024)
"""
PROXY = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.faulty_proxy import proxy_of
with proxy_of((sys.argv[2], int(sys.argv[3]))) as proxy:
    proxy.faults.rate = int(sys.argv[4])
    print(proxy.url, flush=True)
    sys.stdin.read()
"""


def main() -> None:
    """Print a line for each number of connections."""
    import json

    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("snapshot", type=Path)
    asked.add_argument("--rate", type=float, default=40, help="MB/s of each connection")
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--connections", default="1,2,4")
    args = asked.parse_args()
    root = str(Path(__file__).parents[1])
    with object_store() as store:
        store.put("snap.pkl", args.snapshot.read_bytes())
        command = [sys.executable, "-c", PROXY, root, store.host, str(store.port)]
        proxy = subprocess.Popen(
            [*command, str(int(args.rate * 1e6))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert proxy.stdout is not None
        options = json.dumps(store.options(proxy.stdout.readline().strip()))
        there = f"s3://{store.bucket}/snap.pkl"
        cases = [("a file of this machine", str(args.snapshot), "1")]
        cases += [("fsspec's own read-ahead", there, "0")]
        cases += [(f"connections: {n}", there, n) for n in args.connections.split(",")]
        for name, url, parallel in cases:
            found = []
            for _ in range(args.rounds):
                done = subprocess.run(
                    [sys.executable, "-c", READ, url, parallel, options],
                    capture_output=True,
                    check=True,
                    text=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[:1])},
                )
                found.append(tuple(map(float, done.stdout.split())))
            seconds, mib = min(found)[0], max(row[1] for row in found)
            print(f"{name:24} {seconds:6.2f} s   {mib:5.0f} MiB at the most")
        proxy.kill()
        proxy.wait()


if __name__ == "__main__":
    main()
