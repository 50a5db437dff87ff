#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Executes system calls on files, memory and processes in a directory, the same at each run: the workload of gcov.py.

    workload.py DIR
"""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
DATA = b"0123456789abcdef" * 1024


def call(name, *args):
    """Calls a function of libc. Returns its result, or a negative error number."""
    result = getattr(libc, name)(*args)
    return -ctypes.get_errno() if result == -1 else result


def fails(error, function, *args, **more):
    """Calls a function that must fail with this error."""
    try:
        function(*args, **more)
    except OSError as e:
        assert e.errno == error, f"{function.__name__}{args}: {e}"
    else:
        raise AssertionError(f"{function.__name__}{args} does not fail")


def files():
    fails(errno.ENOENT, os.open, "none", os.O_RDONLY)
    fd = os.open("a", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
    fails(errno.EEXIST, os.open, "a", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    fails(errno.ENOTDIR, os.open, "a/b", os.O_RDONLY)
    assert os.write(fd, DATA) == len(DATA)
    assert os.pwrite(fd, b"x" * 10, 5) == 10 and os.pread(fd, 20, 0)[5:15] == b"x" * 10
    fails(errno.EINVAL, os.pread, fd, 1, -1)
    assert os.writev(fd, [b"abc", b"def"]) == 6 and os.preadv(fd, [bytearray(5), bytearray(7)], 3) == 12
    assert [os.lseek(fd, 3, whence) for whence in (os.SEEK_SET, os.SEEK_CUR)] == [3, 6]
    os.lseek(fd, 0, os.SEEK_END), os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 0, os.SEEK_HOLE)
    fails(errno.EINVAL, os.lseek, fd, -1, os.SEEK_SET)
    os.ftruncate(fd, 5000)
    os.posix_fallocate(fd, 0, 20000)
    os.fsync(fd), os.fdatasync(fd)
    os.fchmod(fd, 0o600), os.chmod("a", 0o644), os.fchown(fd, 1, 1), os.chown("a", 0, 0)
    os.utime("a", (1, 2)), os.utime("a")
    os.stat("a"), os.lstat("a"), os.fstat(fd), os.statvfs("a"), os.access("a", os.R_OK | os.X_OK)
    read_only = os.open("a", os.O_RDONLY)
    fails(errno.EBADF, os.write, read_only, b"x")
    fails(errno.EBADF, os.close, 999)
    os.sendfile(fd, read_only, 0, 3000)
    os.copy_file_range(read_only, fd, 1000, 0, 9000)
    for name, value in ("user.one", b"1"), ("user.two", b"22" * 50):
        try:
            os.setxattr("a", name, value)
            os.getxattr("a", name), os.listxattr("a"), os.removexattr("a", name)
        except OSError:
            pass
    fails(errno.ENODATA, os.getxattr, "a", "trusted.none")
    os.close(read_only), os.close(fd)


def names():
    os.mkdir("d"), os.mkdir("d/e", 0o700)
    fails(errno.EEXIST, os.mkdir, "d")
    fails(errno.ENOTEMPTY, os.rmdir, "d")
    for i in range(40):
        os.close(os.open(f"d/{i}", os.O_CREAT | os.O_WRONLY))
    assert len(os.listdir("d")) == 41
    fails(errno.ENOTDIR, os.listdir, "a")
    os.link("a", "d/l"), os.symlink("../a", "d/s"), os.symlink("loop", "loop")
    fails(errno.ELOOP, os.open, "loop", os.O_RDONLY)
    fails(errno.ELOOP, os.open, "d/s", os.O_RDONLY | os.O_NOFOLLOW)
    assert os.readlink("d/s") == "../a" and os.stat("d/s").st_ino == os.stat("a").st_ino
    os.rename("d/1", "d/2"), os.rename("d/e", "e"), os.replace("e", "d/e")
    fails(errno.ENOENT, os.rename, "d/1", "d/3")
    fails(errno.EINVAL, os.rename, "d", "d/e/f")
    at = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    os.rename("4", "5", src_dir_fd=at, dst_dir_fd=at), os.unlink("5", dir_fd=at)
    call("renameat2", at, b"6", at, b"7", 2), call("renameat2", at, b"6", at, b"7", 1)
    os.mknod("d/fifo", 0o600 | 0o010000), os.mkfifo("fifo")
    os.chdir("d"), os.getcwd(), os.fchdir(at), os.chdir("..")
    fails(errno.ENOTDIR, os.chdir, "a")
    os.close(at)
    with tempfile.TemporaryFile(dir=".") as f:
        f.write(DATA)
    fails(errno.EISDIR, os.unlink, "d")
    for name in os.listdir("d"):
        if name != "e":
            os.unlink(f"d/{name}")
    os.rmdir("d/e"), os.rmdir("d")
    fails(errno.ENAMETOOLONG, os.stat, "n" * 300)


def pipes():
    r, w = os.pipe()
    os.set_blocking(w, False), os.set_blocking(r, False)
    fails(errno.EAGAIN, os.read, r, 1)
    written = 0
    try:
        while True:
            written += os.write(w, DATA)
    except BlockingIOError:
        pass
    fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, written * 2), fcntl.fcntl(w, fcntl.F_GETPIPE_SZ)
    fails(errno.EBUSY, fcntl.fcntl, w, fcntl.F_SETPIPE_SZ, 4096)
    fcntl.ioctl(r, 0x541B, struct.pack("i", 0))
    while written:
        written -= len(os.read(r, 5000))
    file = os.open("a", os.O_RDWR)
    assert os.splice(file, w, 6000, 0) == 6000
    r2, w2 = os.pipe()
    assert call("tee", r, w2, 100, 0) == 100 and os.splice(r, file, 3000, None, 100) == 3000
    os.splice(r2, w, 50), os.splice(r, w2, 4000)
    buffer = ctypes.create_string_buffer(DATA)
    call("vmsplice", w, struct.pack("QQ", ctypes.addressof(buffer), 4096), 1, 0)
    fails(errno.ESPIPE, os.lseek, r, 0, os.SEEK_SET)
    os.close(r), os.close(r2), os.close(file)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    fails(errno.EPIPE, os.write, w, b"x")
    os.close(w), os.close(w2)
    fifo = os.open("fifo", os.O_RDWR | os.O_NONBLOCK)
    other = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
    os.write(fifo, b"word"), os.read(other, 10), os.close(other), os.close(fifo)
    fails(errno.ENXIO, os.open, "fifo", os.O_WRONLY | os.O_NONBLOCK)


def waiting():
    event = os.eventfd(3, os.EFD_NONBLOCK)
    assert os.eventfd_read(event) == 3
    fails(errno.EAGAIN, os.eventfd_read, event)
    os.eventfd_write(event, 7)
    fails(errno.EAGAIN, os.eventfd_write, event, 2**64 - 2)
    r, w = os.pipe()
    poll = select.epoll()
    poll.register(r, select.EPOLLIN), poll.register(event, select.EPOLLIN | select.EPOLLET)
    fails(errno.EEXIST, poll.register, r)
    fails(errno.EPERM, poll.register, os.open("a", os.O_RDONLY))
    assert len(poll.poll(0)) == 1
    os.write(w, b"x")
    assert len(poll.poll(1)) == 1
    poll.modify(r, select.EPOLLIN | select.EPOLLONESHOT), poll.poll(0), poll.poll(0.01)
    poll.unregister(r)
    fails(errno.ENOENT, poll.unregister, r)
    other = select.epoll()
    other.register(poll.fileno()), poll.close(), other.close()
    select.select([r], [w], [], 1), select.select([event], [], [], 0.01)
    one = select.poll()
    one.register(r, select.POLLIN), one.poll(10), one.poll(0), one.register(w, select.POLLOUT), one.poll(5)
    a, b = socket.socketpair()
    a.send(b"hello"), b.recv(10), a.close(), b.recv(10), b.close()
    for fd in r, w, event:
        os.close(fd)


def locks():
    file = os.open("a", os.O_RDWR)
    fcntl.lockf(file, fcntl.LOCK_EX, 10, 0), fcntl.lockf(file, fcntl.LOCK_EX, 10, 5), fcntl.lockf(file, fcntl.LOCK_SH, 4, 2)
    child = os.fork()
    if not child:
        other = os.open("a", os.O_RDWR)
        fails(errno.EAGAIN, fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB, 3)
        fcntl.fcntl(other, fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    fcntl.lockf(file, fcntl.LOCK_UN)
    other = os.open("a", os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_SH), fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fails(errno.EAGAIN, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(file, fcntl.LOCK_UN), os.close(other)
    for command, value in (fcntl.F_GETFD, 0), (fcntl.F_SETFD, 1), (fcntl.F_GETFL, 0), (fcntl.F_DUPFD, 100), (fcntl.F_DUPFD_CLOEXEC, 101):
        fcntl.fcntl(file, command, value)
    fails(errno.EINVAL, fcntl.fcntl, file, 999)
    fails(errno.EAGAIN, fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.dup2(file, 50), os.dup2(file, 51, inheritable=False), os.close(50), os.closerange(51, 110)
    os.close(file)
    fails(errno.EBADF, os.dup, 999)


def memory():
    size = 16 * mmap.PAGESIZE
    area = mmap.mmap(-1, size)
    area[::mmap.PAGESIZE] = b"x" * 16
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    address, page = ctypes.c_void_p, mmap.PAGESIZE
    call("mprotect", address(start + page), page, 1), call("mprotect", address(start), size, 3)
    assert call("mprotect", address(start + 1), page, 1) == -errno.EINVAL
    assert call("mprotect", address(0x10000), page, 1) == -errno.ENOMEM
    for advice in 4, 8, 14, 15, 3, 0, 21, 99:
        call("madvise", address(start), size, advice)
    call("mlock", address(start), page), call("munlock", address(start), page), call("mlockall", 1), call("munlockall")
    call("msync", address(start), size, 4), call("mincore", address(start), page, ctypes.create_string_buffer(16))
    with open("a", "r+b") as f:
        os.ftruncate(f.fileno(), size)
        shared = mmap.mmap(f.fileno(), size)
        shared[0:5] = b"hello"
        shared.flush()
        shared.close()
        private = mmap.mmap(f.fileno(), size, flags=mmap.MAP_PRIVATE)
        private[0:5] = b"world"
        private.resize(2 * size) if hasattr(private, "resize") else None
        private.close()
    fails(errno.EBADF, mmap.mmap, 999, 4096)
    libc.mmap.restype = libc.mremap.restype = address
    new = libc.mmap(address(None), size, 3, 0x22, -1, 0)
    moved = libc.mremap(address(new), size, 4 * size, 1)
    libc.mremap(address(moved), 4 * size, size, 0)
    call("munmap", address(moved), page), call("munmap", address(moved + 2 * page), page), call("munmap", address(moved), size)
    assert call("munmap", address(1), page) == -errno.EINVAL
    libc.sbrk(1 << 20), libc.sbrk(-(1 << 20))
    memory = os.memfd_create("m", os.MFD_ALLOW_SEALING)
    os.ftruncate(memory, size), os.write(memory, DATA), os.posix_fallocate(memory, 0, 3 * size)
    call("fallocate", memory, 3, ctypes.c_long(page), ctypes.c_long(page))
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    fails(errno.EPERM, os.ftruncate, memory, 1)
    os.lseek(memory, 0, os.SEEK_HOLE), os.close(memory)


def processes():
    for end in (lambda: os._exit(3)), (lambda: os.kill(os.getpid(), signal.SIGKILL)), (lambda: os.execv("/bin/true", ["true"])):
        child = os.fork()
        if not child:
            end()
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT), os.waitpid(child, 0)
    fails(errno.ECHILD, os.waitpid, -1, 0)
    fails(errno.ENOENT, os.execv, "none", ["none"])
    fails(errno.EACCES, os.execv, "a", ["a"])
    os.chmod("a", 0o755)
    fails(errno.ENOEXEC, os.execv, "a", ["a"])
    with open("script", "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nexit 5\n")
    os.chmod("script", 0o755)
    assert os.spawnv(os.P_WAIT, "script", ["script"]) == 5
    os.getpgid(0), os.getsid(0), os.getpriority(os.PRIO_PROCESS, 0), os.setpriority(os.PRIO_PROCESS, 0, 1)
    os.getgroups(), os.getresuid(), os.setresuid(0, 0, 0), os.setresgid(0, 0, 0), os.umask(os.umask(0)), os.uname(), os.times()
    for what in resource.RLIMIT_NOFILE, resource.RLIMIT_CORE:
        resource.setrlimit(what, resource.getrlimit(what))
    resource.getrusage(resource.RUSAGE_SELF)
    for option in 3, 4, 15, 16, 38, 39:
        call("prctl", option, ctypes.create_string_buffer(b"name"), 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.sigwait([signal.SIGALRM])


def mounts():
    os.mkdir("m")
    assert call("mount", b"none", b"m", b"tmpfs", 0, b"size=1m") == 0
    with open("m/x", "wb") as f:
        f.write(DATA)
        assert call("umount2", b"m", 0) == -errno.EBUSY
    assert call("mount", b"none", b"m", None, 32 | 1, None) == 0
    fails(errno.EROFS, open, "m/x", "wb")
    os.mkdir("n")
    assert call("mount", b"m", b"n", None, 4096, None) == 0 and call("mount", b"n", b"m", None, 8192, None) in (0, -errno.EINVAL)
    call("umount2", b"n", 0), call("umount2", b"m", 2), call("umount2", b"m", 2)
    assert call("umount2", b"m", 0) == -errno.EINVAL
    assert call("mount", b"none", b"m", b"nothing", 0, None) == -errno.ENODEV
    for name in "/proc/self/mountinfo", "/proc/self/maps", "/proc/self/status", "/proc/filesystems", "/proc/locks":
        with open(name, "rb") as f:
            f.read()


os.chdir(sys.argv[1])
for part in files, names, pipes, waiting, locks, memory, processes, mounts:
    part()
