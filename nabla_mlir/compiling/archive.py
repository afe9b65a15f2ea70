"""IREE's artifacts as files: a zip archive, stored, of the program (a FlatBuffer) and of what it reads, such as libraries.

The program knows where in the archive the others lie, so that they are read from there. What is put in the place of a file
moves what is behind it, and these places with it.

Sources: https://github.com/iree-org/iree/blob/main/runtime/src/iree/schemas/bytecode_module_def.fbs,
https://flatbuffers.dev/internals, and https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT (sections 4.3 and 4.5.3).
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass

_ALIGNMENT = 64  # of files: what is behind one moves by a multiple of it
_SEGMENTS = 9  # of a program: the field with its data
_OFFSET, _LENGTH = 3, 4  # of such data: the fields that say where it is
_LOCAL, _CENTRAL = 30, 46  # bytes of a header before the name
_SIZES = 1  # the kind of field of a header that holds sizes
_LOCATOR, _END = 20, 22  # bytes at the end, behind those that say where the list of files begins


@dataclass(frozen=True)
class _File:
    name: str
    header: int  # where its header begins, in bytes
    start: int  # where it begins itself
    size: int
    entry: int  # where its entry in the list of files begins


def sealed(artifact: bytes) -> bytes:
    """An artifact with the checksums of what is in it now."""
    code = bytearray(artifact)
    for file in _files(artifact):
        _seal(code, file, artifact[file.start : file.start + file.size])
    return bytes(code)


def with_file(artifact: bytes, start_of_name: str, content: bytes) -> bytes:
    """An artifact with other content in the file whose name begins so.

    Raises:
      ValueError: there are none or several such files, or the program does not read it from where it is; or the artifact has
        another form, as with `--iree-vm-emit-polyglot-zip=false`.
    """
    try:
        return _with_file(artifact, start_of_name, content)
    except (struct.error, zipfile.BadZipFile) as error:
        raise ValueError(f"an artifact of another form: {error}") from error


def _with_file(artifact: bytes, start_of_name: str, content: bytes) -> bytes:
    files = _files(artifact)
    try:
        (file,) = (f for f in files if f.name.startswith(start_of_name))
    except ValueError:
        raise ValueError(
            f"an artifact without the one file {start_of_name}*: {', '.join(f.name for f in files)}"
        ) from None
    code = bytearray(artifact)
    by = _aligned(len(content) - file.size)
    _move_data(code, files[0].start, file, len(content), by)
    for other in files:
        if other.start == file.start:
            _set_sizes(code, other, len(content))
            _seal(code, other, content)
        if other.start > file.start:
            _add(code, _place_of(code, other), by)
    ends = len(code) - _END - _LOCATOR
    _add(code, ends + 8, by)  # where the end of the list is
    _add(code, struct.unpack_from("<Q", artifact, ends + 8)[0] + 48, by)  # where its beginning is
    _seal(code, files[0], code[files[0].start : files[0].start + files[0].size])
    padding = bytes(file.size + by - len(content))
    code[file.start : file.start + file.size] = content + padding
    return bytes(code)


def _files(artifact: bytes) -> list[_File]:
    found = []
    with zipfile.ZipFile(io.BytesIO(artifact)) as archive:
        entry = archive.start_dir
        for file in archive.infolist():
            start = file.header_offset + _LOCAL + sum(struct.unpack_from("<HH", artifact, file.header_offset + 26))
            found.append(_File(file.filename, file.header_offset, start, file.file_size, entry))
            entry += _CENTRAL + sum(struct.unpack_from("<HHH", artifact, entry + 28))
    return found


def _seal(code: bytearray, file: _File, content: bytes | bytearray) -> None:
    checksum = zlib.crc32(content)
    struct.pack_into("<I", code, file.header + 14, checksum)
    struct.pack_into("<I", code, file.entry + 16, checksum)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _add(code: bytearray, place: int, by: int) -> None:
    struct.pack_into("<Q", code, place, struct.unpack_from("<Q", code, place)[0] + by)


def _set_sizes(code: bytearray, file: _File, size: int) -> None:
    for place in (file.header + _LOCAL, file.entry + _CENTRAL):
        struct.pack_into("<QQ", code, _numbers(code, place + len(file.name.encode())), size, size)


def _place_of(code: bytearray, file: _File) -> int:
    """Where the list of files says where the file is."""
    return _numbers(code, file.entry + _CENTRAL + len(file.name.encode())) + 16


def _numbers(code: bytearray, fields: int) -> int:
    """Where the sizes are that have 64 bits, among the fields that begin there."""
    kind, size = struct.unpack_from("<HH", code, fields)
    return fields + 4 if kind == _SIZES else _numbers(code, fields + 4 + size)


def _move_data(code: bytearray, program: int, file: _File, size: int, by: int) -> None:
    """Tells the program, which begins there, the new size of a file, and that those behind it have moved."""
    (length,) = struct.unpack_from("<I", code, program)
    base = _aligned(program + 4 + length)
    segments = _followed(code, _field(code, _followed(code, program + 4), _SEGMENTS))
    (count,) = struct.unpack_from("<I", code, segments)
    is_known = False
    for place in range(segments + 4, segments + 4 + 4 * count, 4):
        segment = _followed(code, place)
        offset = _field(code, segment, _OFFSET)
        if not offset:
            continue
        start = base + struct.unpack_from("<Q", code, offset)[0]
        if start == file.start:
            struct.pack_into("<Q", code, _field(code, segment, _LENGTH), size)
            is_known = True
        if start > file.start:
            _add(code, offset, by)
    if not is_known:
        raise ValueError(f"a program that does not read {file.name} from its place")


def _followed(code: bytearray, place: int) -> int:
    return int(place + struct.unpack_from("<I", code, place)[0])


def _field(code: bytearray, table: int, number: int) -> int:
    """Where a field of a table is; 0 where it has none."""
    names = table - struct.unpack_from("<i", code, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", code, names)[0]:
        return 0
    (offset,) = struct.unpack_from("<H", code, names + 4 + 2 * number)
    return int(table + offset) if offset else 0
