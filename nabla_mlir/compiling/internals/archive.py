"""Edits of IREE's artifacts: an uncompressed zip archive of the program (a FlatBuffer) and of its files, such as libraries.

The program stores the offsets of the other files in the archive. If a file is replaced by a longer or shorter one, the
files after it move, and their offsets are adjusted.

Sources: https://github.com/iree-org/iree/blob/main/runtime/src/iree/schemas/bytecode_module_def.fbs,
  https://flatbuffers.dev/internals, and https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT (sections 4.3 and
  4.5.3).
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from dataclasses import dataclass

_ALIGNMENT = 64  # of files: files after a replaced one move by a multiple of it
_SEGMENTS = 9  # the field of a program with its data segments
_OFFSET, _LENGTH = 3, 4  # the fields of a segment with its offset and length
_LOCAL, _CENTRAL = 30, 46  # the size of a header before the file name
_SIZES = 1  # the kind of extra field that holds 64-bit sizes
_LOCATOR, _END = 20, 22  # sizes of the two records at the end, after the one with the offset of the central directory


@dataclass(frozen=True)
class _File:
    name: str
    header: int  # the offset of its header
    start: int  # the offset of its content
    size: int
    entry: int  # the offset of its entry in the central directory


def sealed(artifact: bytes) -> bytes:
    """The artifact with new checksums of its files, after bytes of them were changed."""
    code = bytearray(artifact)
    for file in _files(artifact):
        _seal(code, file, artifact[file.start : file.start + file.size])
    return bytes(code)


def with_file(artifact: bytes, start_of_name: str, content: bytes) -> bytes:
    """The artifact with new content for the file whose name begins with `start_of_name`.

    Raises:
      ValueError: there is not exactly one such file, or the program has another offset for it; or the artifact has
        another form, as with `--iree-vm-emit-polyglot-zip=false`.
    """
    try:
        return _with_file(artifact, start_of_name, content)
    except (struct.error, zipfile.BadZipFile) as error:
        raise ValueError(f"an artifact of another form: {error}") from error


def _with_file(artifact: bytes, start_of_name: str, content: bytes) -> bytes:
    """The artifact with other content for a file, and with corrected sizes, offsets and checksums.

    Raises ValueError if the artifact does not have exactly one file whose name begins with `start_of_name`.
    """
    files = _files(artifact)
    try:
        (file,) = (f for f in files if f.name.startswith(start_of_name))
    except ValueError:
        raise ValueError(f"an artifact without the one file {start_of_name}*: {', '.join(f.name for f in files)}") from None
    code = bytearray(artifact)
    by = _aligned(len(content) - file.size)  # the distance by which all files after it move
    _move_data(code, files[0].start, file, len(content), by)
    for other in files:
        if other.start == file.start:
            _set_sizes(code, other, len(content))
            _seal(code, other, content)
        if other.start > file.start:
            _add(code, _position_of(code, other), by)
    ends = len(code) - _END - _LOCATOR
    _add(code, ends + 8, by)  # the end of the central directory
    _add(code, struct.unpack_from("<Q", artifact, ends + 8)[0] + 48, by)  # the beginning of the central directory
    _seal(code, files[0], code[files[0].start : files[0].start + files[0].size])
    padding = bytes(file.size + by - len(content))  # the next file begins at an aligned offset
    code[file.start : file.start + file.size] = content + padding
    return bytes(code)


def _files(artifact: bytes) -> list[_File]:
    """The files of an artifact in order, each with the offsets of its header, of its content and of its entry in the directory."""
    found = []
    with zipfile.ZipFile(io.BytesIO(artifact)) as archive:
        entry = archive.start_dir
        for file in archive.infolist():
            # The header ends with the name and the extra fields; their lengths are at offset 26 of it, and at 28 of an entry.
            start = file.header_offset + _LOCAL + sum(struct.unpack_from("<HH", artifact, file.header_offset + 26))
            found.append(_File(file.filename, file.header_offset, start, file.file_size, entry))
            entry += _CENTRAL + sum(struct.unpack_from("<HHH", artifact, entry + 28))
    return found


def _seal(code: bytearray, file: _File, content: bytes | bytearray) -> None:
    """Writes the checksum of a file with this content into its header and into the directory; `code` is the artifact."""
    checksum = zlib.crc32(content)  # a field of 4 bytes, at byte 14 of a header and at byte 16 of an entry of the directory
    struct.pack_into("<I", code, file.header + 14, checksum)
    struct.pack_into("<I", code, file.entry + 16, checksum)


def _aligned(size: int) -> int:
    """The size, rounded up to a multiple of 64."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _add(code: bytearray, position: int, by: int) -> None:
    """Adds `by` to the 64-bit number at a position of the artifact `code`."""
    struct.pack_into("<Q", code, position, struct.unpack_from("<Q", code, position)[0] + by)


def _set_sizes(code: bytearray, file: _File, size: int) -> None:
    """Writes the size of a file, compressed and not, into its header and into the directory; `code` is the artifact."""
    for position in (file.header + _LOCAL, file.entry + _CENTRAL):
        struct.pack_into("<QQ", code, _numbers(code, position + len(file.name.encode())), size, size)


def _position_of(code: bytearray, file: _File) -> int:
    """The position, in the central directory of the artifact `code`, of the number that is the offset of the file."""
    return _numbers(code, file.entry + _CENTRAL + len(file.name.encode())) + 16


def _numbers(code: bytearray, fields: int) -> int:
    """The position of the 64-bit sizes in a list of extra fields that begins at `fields`; fields of other kinds are skipped.

    A field is its kind, its size and its content, the first two as numbers of 16 bits.
    """
    kind, size = struct.unpack_from("<HH", code, fields)
    return fields + 4 if kind == _SIZES else _numbers(code, fields + 4 + size)


def _move_data(code: bytearray, program: int, file: _File, size: int, by: int) -> None:
    """Writes the new size of a file, and the new offsets of the files after it, into the program in the artifact.

    Raises ValueError if the program does not read the file.

    Args:
      code: the artifact.
      program: the position of the program in it, a FlatBuffer.
      file: the file, at its old position.
      size: its new size.
      by: the distance by which the files after it move.
    """
    (length,) = struct.unpack_from("<I", code, program)
    base = _aligned(program + 4 + length)
    segments = _target_of_offset(code, _field(code, _target_of_offset(code, program + 4), _SEGMENTS))
    (count,) = struct.unpack_from("<I", code, segments)
    is_known = False
    for position in range(segments + 4, segments + 4 + 4 * count, 4):
        segment = _target_of_offset(code, position)
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
        raise ValueError(f"a program that does not read {file.name} at its offset")


def _target_of_offset(code: bytearray, position: int) -> int:
    """The position to which the 32-bit offset at a position of a FlatBuffer points."""
    return int(position + struct.unpack_from("<I", code, position)[0])


def _field(code: bytearray, table: int, number: int) -> int:
    """The position of field `number` of the FlatBuffer table at the position `table`; 0 if the table does not have it."""
    names = table - struct.unpack_from("<i", code, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", code, names)[0]:
        return 0
    (offset,) = struct.unpack_from("<H", code, names + 4 + 2 * number)
    return int(table + offset) if offset else 0
