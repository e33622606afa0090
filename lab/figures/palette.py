# SPDX-License-Identifier: Apache-2.0
"""Make a picture of a screen smaller: PNG with 256 colours. Browsers write all colours of all pixels."""

import collections
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunks(data):
    at = len(SIGNATURE)
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        yield kind, data[at + 8 : at + 8 + length]
        at += 12 + length


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def paeth(left, up, corner):
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def unfilter(kind, row, above, size):
    """A row as it was before it was filtered; `size` bytes are a pixel."""
    for i, value in enumerate(row):
        left, corner = (row[i - size], above[i - size]) if i >= size else (0, 0)
        before = (0, left, above[i], (left + above[i]) // 2, 0)[kind] if kind < 4 else paeth(left, above[i], corner)
        row[i] = (value + before) & 255
    return row


def read(data):
    """The width, and rows of colours."""
    parts = list(chunks(data))
    width, height, depth, colours, *_ = struct.unpack(">IIBBBBB", parts[0][1])
    size = {2: 3, 6: 4}[colours]
    assert depth == 8
    flat = zlib.decompress(b"".join(part for kind, part in parts if kind == b"IDAT"))
    above, rows, stride = bytearray(width * size), [], width * size + 1
    for y in range(height):
        line = flat[y * stride : (y + 1) * stride]
        above = unfilter(line[0], bytearray(line[1:]), above, size)
        rows.append([bytes(above[x : x + 3]) for x in range(0, width * size, size)])
    return width, rows


def nearest(colour, palette):
    return min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(colour, palette[i])))


def shrink(data):
    """The same picture in the 256 colours that it has most of; others become the nearest of them."""
    width, rows = read(data)
    counts = collections.Counter(colour for row in rows for colour in row)
    palette = [colour for colour, _ in counts.most_common(256)]
    numbers = {colour: i for i, colour in enumerate(palette)}
    for colour in counts:
        if colour not in numbers:
            numbers[colour] = nearest(colour, palette)
    flat = b"".join(b"\0" + bytes(numbers[colour] for colour in row) for row in rows)
    head = struct.pack(">IIBBBBB", width, len(rows), 8, 3, 0, 0, 0)
    parts = {b"IHDR": head, b"PLTE": b"".join(palette), b"IDAT": zlib.compress(flat, 9), b"IEND": b""}
    return SIGNATURE + b"".join(chunk(kind, part) for kind, part in parts.items())
