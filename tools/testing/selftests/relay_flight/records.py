#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Recordings of relay_fast_selftest.ko's channel.

    records.py same A B CPU...      the files of these CPUs have the same records, and at least one
    records.py sound A              all records are in the client's form and order; prints how many
    records.py within A B           A has some of the records of B, in the same order, and fewer
    records.py flip IMAGE OUT       a copy of memory with bits flipped in the data of CPU 0
"""

import glob
import os
import struct
import sys

TIMED, DISCARDED, PADDING = 1, 2, 4
MAGIC = 0x52535431


def records(path):
    """(position, type, time or None, data) of each record in a file of nothing but records."""
    with open(path, "rb") as f:
        data = f.read()
    found, at = [], 0
    while at < len(data):
        length, kind, flags = struct.unpack_from("<IHH", data, at)
        start = at + 8
        time = None
        if flags & TIMED:
            time = struct.unpack_from("<Q", data, start)[0]
            start += 8
        end = start + length
        assert end <= len(data), f"{path}: ends within a record at {at}"
        if not flags & (DISCARDED | PADDING):
            found.append((kind, time, data[start:end]))
        at = start + (length + 7) // 8 * 8
    return found


def cpus(directory):
    return {int(os.path.basename(path)[3:]): records(path) for path in glob.glob(f"{directory}/cpu[0-9]*")}


def same(a, b, numbers):
    a, b = cpus(a), cpus(b)
    for number in map(int, numbers):
        assert a[number], f"cpu {number}: no records"
        print(f"cpu {number}: {len(a[number])} and {len(b[number])} records")
        assert a[number] == b[number], f"cpu {number}"


def byte(cpu, ctx, seq, i):
    return (seq * 31 + i * 7 + (i >> 8) * 3 + cpu * 13 + ctx * 101 + 5) & 0xff


def check(cpu, kind, data):
    """The sequence number and the context, if the bytes are right."""
    ctx, seq, begin = kind & 3, kind >> 2, 0
    if len(data) >= 16:
        magic, in_cpu, in_ctx, in_seq, length = struct.unpack_from("<IHHII", data)
        assert (magic, in_cpu, in_ctx, length) == (MAGIC, cpu, ctx, len(data)), f"cpu {cpu}: a wrong head"
        assert in_seq & 0x3fff == seq, f"cpu {cpu}: a wrong number"
        seq, begin = in_seq, 16
    expected = bytes(byte(cpu, ctx, seq, i) for i in range(begin, len(data)))
    assert data[begin:] == expected, f"cpu {cpu}, context {ctx}, number {seq}: wrong bytes"
    return ctx, seq & 0x3fff


def sound(directory):
    total, contexts = 0, set()
    for cpu, found in cpus(directory).items():
        last, time = {}, 0
        for kind, when, data in found:
            ctx, seq = check(cpu, kind, data)
            contexts.add(ctx)
            step = (seq - last.get(ctx, seq - 1)) & 0x3fff
            # Some are discarded, or longer than a sub-buffer, or were being written.
            assert 0 < step < 1000, f"cpu {cpu}, context {ctx}: {seq} after {last[ctx]}"
            last[ctx] = seq
            assert when is None or when + 1000000 > time, f"cpu {cpu}: back in time"
            time = when or time
        total += len(found)
    print(f"{total} records of {len(contexts)} contexts")
    assert total > 1000 and len(contexts) > 1


def within(a, b):
    a, b = cpus(a), cpus(b)
    left = 0
    for cpu, found in b.items():
        rest = iter(found)
        for record in a.get(cpu, []):
            assert any(other == record for other in rest), f"cpu {cpu}: a record that was never written"
        left += len(found) - len(a.get(cpu, []))
    print(f"{left} records less")
    assert left > 0


def flip(image, out):
    with open(image, "rb") as f:
        data = bytearray(f.read())
    # The first control page, as its magic says; after it the reader's page and the data.
    ctl = next(at for at in range(4096, len(data), 4096) if data[at + 64:at + 72] == struct.pack("<II", 0x796c7266, 1))
    position = struct.unpack_from("<Q", data, ctl)[0] >> 5 << 3
    size = struct.unpack_from("<Q", data, ctl + 16)[0] + 8
    for back in (100, 5000, 20001):
        if back < position:
            data[ctl + 8192 + (position - back) % size] ^= 0x10
    # And a bit of the first copy of the header, and of the control page itself.
    data[17] ^= 1
    data[ctl + 4] ^= 1
    with open(out, "wb") as f:
        f.write(data)


if __name__ == "__main__":
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "same":
        same(arguments[0], arguments[1], arguments[2:])
    else:
        {"sound": sound, "within": within, "flip": flip}[what](*arguments)
