"""Read the dependencies of ELF libraries, and rename a library's symbols.

Format: System V ABI object files (ELF, 64-bit, little-endian), see elf(5).
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

from memreplay.errors import MemreplayError

_DYNAMIC, _DYNSYM = 6, 11  # section types
_NEEDED, _HASH, _STRTAB, _SYMTAB, _SONAME = 1, 4, 5, 6, 14  # tags of the dynamic section
_LOAD = 1  # a segment type
_SYMBOL = struct.Struct("<IBBHQQ")


class ElfError(MemreplayError):
    """The file isn't a 64-bit Linux shared library, or it's damaged."""


class Needs(NamedTuple):
    """A library's imports and exports."""

    libraries: tuple[str, ...]
    """File names of required libraries."""
    undefined: frozenset[str]
    """Undefined symbols."""
    defined: frozenset[str]
    """Exported symbols."""


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def _sections(data: bytes | mmap.mmap, path: Path) -> list[_Section]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ElfError(f"{path} isn't a 64-bit Linux shared library")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    found = []
    for i in range(count):
        fields = struct.unpack_from("<IIQQQQIIQQ", data, start + i * size)
        found.append(_Section(fields[1], fields[4], fields[5], fields[6]))
    return found


def _text(data: bytes | mmap.mmap, at: int) -> str:
    return data[at : data.find(b"\0", at)].decode("ascii", "replace")


def needs(path: Path) -> Needs:
    """Read a library's imports and exports.

    Raises ElfError for other files, OSError for unreadable ones.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _needs(data, path)
        except (struct.error, IndexError):
            raise ElfError(f"{path} is damaged: its tables are outside the file") from None


def _needs(data: mmap.mmap, path: Path) -> Needs:
    sections = _sections(data, path)
    libraries: list[str] = []
    undefined: set[str] = set()
    defined: set[str] = set()
    for section in sections:
        if section.kind not in (_DYNAMIC, _DYNSYM):
            continue
        table = data[section.offset : section.offset + section.size]
        strings = sections[section.link].offset
        if section.kind == _DYNAMIC:
            libraries += [
                _text(data, strings + value)
                for tag, value in struct.iter_unpack("<QQ", table)
                if tag == _NEEDED
            ]
            continue
        for name, _, _, where, _, _ in _SYMBOL.iter_unpack(table):
            if name:
                (defined if where else undefined).add(_text(data, strings + name))
    return Needs(tuple(libraries), frozenset(undefined), frozenset(defined))


def _sysv_hash(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def renamed(library: bytes, names: dict[str, str]) -> bytes:
    """Rename some of a library's symbols, or the library itself (its SONAME).

    New names must not be longer than the old ones. The library must use DT_HASH (the linker's
    `--hash-style=sysv`), which is rebuilt.
    """
    data = bytearray(library)
    sections = _sections(library, Path("library"))
    (dynamic,) = (one for one in sections if one.kind == _DYNAMIC)
    (symbols,) = (one for one in sections if one.kind == _DYNSYM)
    strings = sections[symbols.link].offset
    tags = dict(struct.iter_unpack("<QQ", library[dynamic.offset : dynamic.offset + dynamic.size]))
    places = {}
    if _SONAME in tags:
        places[_text(library, strings + tags[_SONAME])] = strings + tags[_SONAME]
    count = symbols.size // _SYMBOL.size
    at = [
        strings + struct.unpack_from("<I", library, symbols.offset + i * _SYMBOL.size)[0]
        for i in range(count)
    ]
    places |= {_text(library, place): place for place in at}
    for old, new in names.items():
        text = new.encode("ascii")
        if len(text) > len(old):
            raise ElfError(f"the name {new} is too long: at most {len(old)} characters fit")
        data[places[old] : places[old] + len(old) + 1] = text.ljust(len(old) + 1, b"\0")
    _hash_again(data, _offset(library, tags[_HASH]), at)
    return bytes(data)


def _offset(library: bytes, address: int) -> int:
    """Return the file offset of a virtual address."""
    (start,) = struct.unpack_from("<Q", library, 0x20)
    size, count = struct.unpack_from("<HH", library, 0x36)
    for i in range(count):
        kind, _, offset, first, _, length, _, _ = struct.unpack_from(
            "<IIQQQQQQ", library, start + i * size
        )
        if kind == _LOAD and first <= address < first + length:
            return int(offset + address - first)
    raise ElfError("the library is damaged: nothing is loaded at its table's address")


def _hash_again(data: bytearray, table: int, names: list[int]) -> None:
    """Rebuild DT_HASH (its buckets and chains) for symbols with these names."""
    buckets, chains = struct.unpack_from("<II", data, table)
    first = [0] * buckets
    following = [0] * chains
    for i, at in enumerate(names):
        if i:  # the first symbol is always a placeholder
            bucket = _sysv_hash(bytes(data[at : data.index(0, at)])) % buckets
            following[i], first[bucket] = first[bucket], i
    struct.pack_into(f"<{buckets + chains}I", data, table + 8, *first, *following)
