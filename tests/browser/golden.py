"""Golden pictures of larger files: PNGs that encode each pixel's owner, drawn by the slow reference
painter.

`python -m tests.browser.golden` redraws them after an intended change.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import memreplay as mr
from tests.browser.painter import View, paint, recording, usage

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent / "golden"
EXAMPLES = tuple(sorted(ROOT.glob("examples/*.pkl.gz")))
GENERATED = "generated"
WIDTH, HEIGHT = 320, 120
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def generate(path: Path) -> None:
    """Return a file with 27,000 events; the result never varies."""
    command = [sys.executable, str(ROOT / "bench/generate.py"), "-o", str(path), "--mb", "4"]
    subprocess.run(command, check=True)


def whole(snap: mr.Snapshot) -> View:
    """Return a view of the whole first device, up to its peak."""
    replay = snap.replay()
    high = float(max(usage(recording(snap, replay.device, "requested"))))
    return View("event", 0, replay.events + 1, 0, high, WIDTH, HEIGHT)


def painted(snap: mr.Snapshot) -> NDArray[np.int32]:
    """Return each pixel's allocation number; -1 if it has none."""
    rows, _ = paint(recording(snap, snap.replay().device, "requested"), whole(snap))
    return np.array(rows, dtype=np.int32)


def write_png(path: Path, ids: NDArray[np.int32]) -> None:
    """Encode each number plus one as the three bytes of a colour."""
    numbers = (ids + 1).astype(">u4").view(np.uint8).reshape(*ids.shape, 4)[..., 1:]
    lines = b"".join(b"\0" + line.tobytes() for line in numbers)
    header = struct.pack(">IIBBBBB", ids.shape[1], ids.shape[0], 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    path.write_bytes(
        SIGNATURE
        + b"".join(
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
            for name, data in chunks
        )
    )


def read_png(path: Path) -> NDArray[np.int32]:
    """Read what `write_png` wrote."""
    data, at, packed, shape = path.read_bytes(), len(SIGNATURE), b"", (0, 0)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if name == b"IHDR":
            shape = struct.unpack(">II", content[:8])[::-1]
        elif name == b"IDAT":
            packed += content
        at += length + 12
    lines = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(shape[0], -1)
    colours = lines[:, 1:].reshape(*shape, 3).astype(np.int32)
    return (colours[..., 0] << 16 | colours[..., 1] << 8 | colours[..., 2]) - 1


def main() -> None:
    """Redraw all golden pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        generated = Path(scratch, f"{GENERATED}.pkl.gz")
        generate(generated)
        for path in (*EXAMPLES, generated):
            target = FOLDER / f"{path.name.removesuffix('.pkl.gz')}.png"
            write_png(target, painted(mr.open(path)))
            print(f"{target.name}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
