#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Has the first page of a fast channel's file in a pipe, without a mapping or an open file, until standard input ends.

    in_a_pipe.py FILE    prints how many bytes the pipe has taken
"""

import ctypes
import os
import sys

PAGE = 4096
PROT_READ, MAP_SHARED = 1, 1
MAP_FAILED = ctypes.c_void_p(-1).value


class Iovec(ctypes.Structure):
    """struct iovec"""

    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    fd = os.open(sys.argv[1], os.O_RDONLY)
    # Only all of a file can be mapped, which does not say how long it is.
    for pages in range(1, 4096):
        at = libc.mmap(None, pages * PAGE, PROT_READ, MAP_SHARED, fd, 0)
        if at != MAP_FAILED:
            break
    _, pipe = os.pipe()
    print(libc.vmsplice(pipe, ctypes.byref(Iovec(at, PAGE)), ctypes.c_ulong(1), 0), flush=True)
    libc.munmap(at, pages * PAGE)
    os.close(fd)
    sys.stdin.read()


if __name__ == "__main__":
    main()
