#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boots a kernel variant over the host's root file system and runs a command in it as root.

    run.py [options] VARIANT [COMMAND]

COMMAND is a shell command line, run with the repository as its directory; without it a shell is
opened. Its output and exit status are passed on. Other exit statuses are
    124  the time was over (a hang)
    125  the guest panicked or ended without an answer
    126  with --strict, when the command succeeded: the kernel warned
With these the end of the guest's console is shown, with the kernel's complaints before it.

The guest sees the host's files, its writes stay in its memory; only $FERROTRACE_OUT is kept
(--out). Its environment has FERROTRACE_REPO, FERROTRACE_KDIR (the variant's build directory, for
insmod), FERROTRACE_VARIANT, FERROTRACE_OUT, FERROTRACE_STORM (long or short,
tools/testing/suites/lib.sh), and FERROTRACE_NO_NOTES. With --reboot, for which QEMU keeps the memory, the command finds its
earlier state in $FERROTRACE_OUT. With --gdb the guest waits for the gdb whose command line is
printed; its time is unlimited then. With --coverage, the counts of a kernel that was compiled for it
are written to a new directory below DIR; a test that resets its counters copies them to
$FERROTRACE_COUNTED before.
"""

import argparse
import ctypes
import mmap
import os
import platform
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
REPO = os.path.realpath(os.path.join(HERE, "../../.."))
KERNEL_SH = os.path.join(REPO, "integration/kernel.sh")
CACHE = os.environ.get("FERROTRACE_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ferrotrace"
)
SHARE = "/run/ferrotrace"
HANG, PANIC, WARNED = 124, 125, 126
PANICKED = re.compile(r"Kernel panic - not syncing")
# Complaints of the kernel about itself, except its references to texts about CPU flaws.
COMPLAINT = re.compile(r"WARNING: (?!See https:)|BUG: |INFO: (?:task|rcu|possible)|Oops: |refcount_t: |kmemleak: \d+ new|general protection")
CONSOLE_LINES = 60
# Of the lines after a complaint: the place, and the sure frames of the call trace.
PLACE = re.compile(r"Comm: |RIP: |Call Trace:|Kernel panic")
FRAME = re.compile(r"^ (?!\? )\S+\+0x")
FRAMES, SAID_LINES = 6, 30
STAMP = re.compile(r"^(?:<\d+>)?\[\s*\d+\.\d+\](?:\[[^]]*\])? ?")


def say(text):
    print(f"ferrotrace: {text}", file=sys.stderr, flush=True)


def die(text):
    say(f"error: {text}")
    sys.exit(2)


def parse_args():
    env = os.environ.get
    p = argparse.ArgumentParser(description="Run a command on a kernel variant, in QEMU or as UML.")
    p.add_argument("--cpus", default=env("CPUS") or "2")
    p.add_argument("--mem", default=env("MEM") or "1G")
    p.add_argument("--timeout", type=int, default=int(env("TIMEOUT") or 120), help="seconds; 0 for none")
    p.add_argument("--icount", action="store_true", default=env("ICOUNT", "0") not in ("", "0"),
                   help="one guest nanosecond is one instruction")
    p.add_argument("--no-kvm", action="store_true", help="QEMU's own translator, also where KVM works")
    p.add_argument("--parallel", action="store_true", default=env("PARALLEL", "0") not in ("", "0"),
                   help="without KVM: CPUs that run at the same time, and at times a breakpoint that is no longer there")
    p.add_argument("--strict", action="store_true", default=env("STRICT", "0") not in ("", "0"),
                   help="a warning in the kernel's log is a failure")
    p.add_argument("--reboot", action="store_true", default=env("REBOOT", "0") not in ("", "0"),
                   help="a guest that panics or restarts boots again, and runs the command again")
    p.add_argument("--gdb", action="store_true", default=env("GDB", "0") not in ("", "0"),
                   help="wait for gdb, on a free port of this machine")
    p.add_argument("--append", default=env("APPEND") or "", help="more kernel parameters")
    p.add_argument("--qemu", default=env("QEMU_OPTS") or "", help="more QEMU options")
    p.add_argument("--out", default=env("OUT") or "", help="host directory that receives $FERROTRACE_OUT")
    p.add_argument("--coverage", default=env("COVERAGE") or "", help="host directory that receives debugfs gcov/")
    p.add_argument("--console", default=env("CONSOLE") or "", help="file that receives the console's log")
    p.add_argument("--root", default=env("GUEST_ROOT") or "/",
                   help="the guest's root file system, a directory that has this one (vm/) where it is here")
    p.add_argument("--image", default=env("GUEST_IMAGE") or "", help="another kernel than the variant's")
    p.add_argument("--early", default=env("EARLY") or "",
                   help="stock: host directory that the guest has as /early while it has no other files; it first runs /early/run")
    p.add_argument("variant")
    p.add_argument("command", nargs="?", default="")
    return p.parse_args()


def kernel(verb, variant):
    r = subprocess.run([KERNEL_SH, verb, variant], stdout=subprocess.PIPE, text=True, check=False)
    if r.returncode != 0:
        sys.exit(r.returncode)
    return r.stdout.strip()


def find_qemu():
    r = subprocess.run(["bash", "-c", f". {shlex.quote(REPO)}/integration/lib.sh && find_qemu"],
                       stdout=subprocess.PIPE, text=True, check=False)
    return r.stdout.strip() or "qemu-system-x86_64"


def kvm_works(image):
    """Returns true if KVM runs a kernel: IMAGE must print something within a second.

    /dev/kvm may exist, open and even run the firmware on a machine where a kernel then hangs. The
    answer is kept until the machine reboots.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as f:
        known = os.path.join(CACHE, f"kvm-{f.read().strip()}")
    if not os.path.exists(known):
        answer = "yes" if kvm_trial(image) else "no"
        say(f"KVM works here: {answer}")
        with open(known, "w", encoding="utf-8") as f:
            f.write(answer)
    with open(known, encoding="utf-8") as f:
        return f.read() == "yes"


def kvm_trial(image):
    with tempfile.TemporaryDirectory() as tmp:
        log = os.path.join(tmp, "console")
        cmd = [find_qemu(), "-accel", "kvm", "-cpu", "host", "-M", "q35", "-m", "512", "-smp", "2",
               "-nodefaults", "-no-reboot", "-display", "none", "-serial", f"file:{log}", "-kernel", image,
               "-append", "console=ttyS0 panic=-1"]
        with subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as qemu:
            try:
                end = time.monotonic() + 1
                while time.monotonic() < end and qemu.poll() is None:
                    if os.path.exists(log) and os.path.getsize(log) > 0:
                        return True
                    time.sleep(0.05)
                return False
            finally:
                qemu.kill()


def find_vng():
    for c in (os.path.join(CACHE, "tools/venv/bin/vng"), shutil.which("vng")):
        if c and os.access(c, os.X_OK):
            return c
    die("no virtme-ng; run 'make setup'")


def kernel_image(variant):
    image = kernel("image", variant)
    if not os.path.exists(image):
        die(f"no kernel {variant} here; run 'make kernel VARIANT={variant}'")
    return image


def kernel_parameters(args):
    # A host that has no time for the guest for some seconds is no stall of RCU.
    return ["ro", "panic=-1", "oops=panic", "rcupdate.rcu_cpu_stall_timeout=60",
            # The addresses of vmlinux, which gdb has read.
            *(["nokaslr"] if args.gdb else []),
            f"init={HERE}/init.sh", f"ferrotrace_guest={HERE}/guest.sh"] \
        + shlex.split(args.append)


def uml_command(args, share, out, err):
    """A User Mode Linux guest: its console is its stdout, tty1 and tty2 are the pipes OUT and ERR."""
    return [kernel_image(args.variant), f"mem={args.mem}", f"ncpus={args.cpus}", "seccomp=on",
            "root=/dev/root", "rootfstype=hostfs", "rootflags=/", f"ferrotrace_share={share}",
            "con=null", "con0=null,fd:1", f"con1=null,fd:{out}", f"con2=null,fd:{err}"] + kernel_parameters(args)


def tsc_khz():
    """The rate of the host's time stamp counter, which is the guest's. A guest that a busy host has no time for finds a wrong
    one, down to a twelfth, and then all its timers are that much too fast."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("0f31 48c1e220 4809d0 c3"))  # rdtsc; shl $32,%rdx; or %rdx,%rax; ret
    rdtsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def sample():
        """Time and ticks, both of one moment: of some attempts the one that was interrupted least."""
        attempts = [(time.monotonic_ns(), rdtsc(), time.monotonic_ns()) for _ in range(20)]
        start, ticks, end = min(attempts, key=lambda a: a[2] - a[0])
        return (start + end) // 2, ticks

    first = sample()
    time.sleep(0.1)
    last = sample()
    return (last[1] - first[1]) * 1000000 // (last[0] - first[0])


def qemu_command(args, share, console):
    """A guest in QEMU: its console is the file CONSOLE; its two ports are QEMU's own stdout and stderr."""
    image = args.image or kernel_image(args.variant)
    kvm = not args.icount and not args.no_kvm and kvm_works(image)
    # Unless the CPUs take turns, one may translate a breakpoint while another one takes it away. That translation is kept,
    # and the guest dies of "Oops: int3" in any place with a static key, already while it boots.
    tcg = "tcg" if args.parallel else "tcg,thread=single"
    append = ["root=/dev/root", "rootfstype=9p",
              "rootflags=trans=virtio,version=9p2000.L,msize=512000,cache=loose,access=any",
              # The timer's check ends in a panic where the host has no time for the guest.
              "console=ttyS0", "tsc=reliable", "no_timer_check"]
    if not kvm and not args.icount and platform.machine() == "x86_64":
        append.append(f"tsc_early_khz={tsc_khz()}")
    append += kernel_parameters(args)
    qemu = find_qemu()
    cpu = "max,la57=off"
    if not args.icount:
        # Where a CPU has fast versions of them, the kernel and libc clear and copy memory by "rep
        # stosb" and "rep movsb", for which TCG takes a step for each byte. Without them, clearing a
        # page takes a tenth of the time. Benchmarks count the same instructions as before.
        cpu += ",erms=off,fsrm=off"
        # An old version, with no path from find_qemu(), does not know the third name.
        if os.path.isabs(qemu):
            cpu += ",fsrs=off"
    cmd = [qemu, "-accel", "kvm" if kvm else tcg, "-cpu", "host" if kvm else cpu,
           "-M", "q35", "-m", args.mem, "-smp", args.cpus, "-nodefaults", "-display", "none",
           "-kernel", image, "-append", " ".join(append), "-serial", f"file:{console}",
           "-fsdev", f"local,id=root,path={args.root},security_model=none,readonly=on,multidevs=remap",
           "-device", "virtio-9p-pci,fsdev=root,mount_tag=/dev/root",
           "-fsdev", f"local,id=share,path={share},security_model=none,multidevs=remap",
           "-device", "virtio-9p-pci,fsdev=share,mount_tag=ferrotrace",
           "-device", "virtio-serial-pci",
           "-chardev", "file,id=out,path=/proc/self/fd/1", "-device", "virtserialport,name=stdout,chardev=out",
           "-chardev", "file,id=err,path=/proc/self/fd/2", "-device", "virtserialport,name=stderr,chardev=err"]
    if args.variant.startswith("stock"):
        cmd += ["-initrd", initramfs(args, os.path.join(kernel("kdir", args.variant), "initramfs"), share)]
    if not args.reboot:
        cmd.append("-no-reboot")
    if args.icount:
        cmd += ["-icount", "shift=0,sleep=off"]
    if args.gdb:
        cmd += gdb_options(args.variant)
    return cmd + shlex.split(args.qemu)


def initramfs(args, first, share):
    """Returns the guest's initramfs: FIRST, with the files of --early after it."""
    if not args.early:
        return first
    both = os.path.join(share, "initramfs")
    with tempfile.TemporaryDirectory() as tmp, open(both, "wb") as to:
        shutil.copytree(args.early, os.path.join(tmp, "early"))
        with open(first, "rb") as source:
            shutil.copyfileobj(source, to)
        # The kernel wants archives at multiples of four.
        to.write(bytes(-to.tell() % 4))
        to.flush()
        names = subprocess.run(["find", "early"], cwd=tmp, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=tmp, input=names, stdout=to, check=True)
    return both


def gdb_options(variant):
    """Returns QEMU's options to wait for gdb, and prints the command line of gdb."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    kdir = kernel("kdir", variant)
    scripts = f" -iex 'add-auto-load-safe-path {kdir}'" if os.path.exists(os.path.join(kdir, "vmlinux-gdb.py")) else ""
    say("the guest waits for gdb; in another terminal:")
    say(f"    gdb{scripts} -ex 'target remote 127.0.0.1:{port}' {kdir}/vmlinux")
    return ["-S", "-gdb", f"tcp:127.0.0.1:{port}"]


def shell(args):
    """A shell in the guest. virtme-ng knows terminals; the rest of its comfort takes time to boot."""
    image = kernel_image(args.variant)
    vng = find_vng()
    cmd = [vng, "--run", image, "--user", "root", "--cpus", args.cpus, "--memory", args.mem, "--force-9p"]
    if args.variant.startswith(("uml", "stock")):
        die(f"a shell is not offered by a guest of {args.variant}; give CMD=")
    if not kvm_works(image):
        cmd.append("--disable-kvm")
    if args.gdb:
        cmd += ["--qemu-opts", shlex.join(gdb_options(args.variant)), "--append", "nokaslr"]
    for a in shlex.split(args.append):
        cmd += ["--append", a]
    # It starts its other half by name, and QEMU.
    path = [os.path.dirname(vng), os.path.dirname(find_qemu()), os.environ["PATH"]]
    env = {**os.environ, "PATH": ":".join(p for p in path if p)}
    return subprocess.run(cmd, check=False, cwd=REPO, env=env).returncode


def write_share(args, share):
    env = {
        "FERROTRACE_REPO": REPO,
        "FERROTRACE_VARIANT": args.variant,
        "FERROTRACE_KDIR": kernel("kdir", args.variant),
        "FERROTRACE_OUT": SHARE + "/out",
        "FERROTRACE_CPUS": args.cpus,
        "FERROTRACE_ICOUNT": "1" if args.icount else "",
        # Tests that have old spellings are not disturbed by notes.
        "FERROTRACE_NO_NOTES": "1",
        "FERROTRACE_STORM": os.environ.get("FERROTRACE_STORM") or "long",
        "PATH": os.environ.get("PATH", ""),
        "HOME": os.path.expanduser("~"),
    }
    os.mkdir(os.path.join(share, "out"))
    if args.coverage:
        os.mkdir(os.path.join(share, "coverage"))
    with open(os.path.join(share, "env"), "w", encoding="utf-8") as f:
        for name, value in env.items():
            f.write(f"{name}={shlex.quote(value)}\n")
    with open(os.path.join(share, "cmd"), "w", encoding="utf-8") as f:
        f.write(args.command + "\n")


def pump(source, target, drop=b""):
    """Copies SOURCE to TARGET as it arrives; lines with DROP in them are left out."""
    def run():
        while True:
            data = source.readline() if drop else os.read(source.fileno(), 65536)
            if not data:
                return
            if drop and drop in data:
                continue
            while data:
                data = data[os.write(target, data):]
    t = threading.Thread(target=run, daemon=True)
    t.start()
    return t


def end_group(proc):
    """End the machine, with all the processes it consists of."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(proc.pid, sig)
        except ProcessLookupError:
            return
        try:
            proc.wait(3)
        except subprocess.TimeoutExpired:
            continue


def start(args, share, console):
    """Start the machine; returns the process and the pipes of the command's stdout and stderr."""
    # Pipes, not our own descriptors: QEMU reopens them and would truncate a file.
    out, err = os.pipe(), os.pipe()
    common = {"stdin": subprocess.DEVNULL, "start_new_session": True}
    if args.variant.startswith("uml"):
        with open(console, "wb") as log:
            proc = subprocess.Popen(uml_command(args, share, out[1], err[1]), stdout=log, stderr=log,
                                    pass_fds=(out[1], err[1]), **common)
    else:
        proc = subprocess.Popen(qemu_command(args, share, console), stdout=out[1], stderr=err[1], **common)
    os.close(out[1])
    os.close(err[1])
    return proc, os.fdopen(out[0], "rb"), os.fdopen(err[0], "rb")


def run(args, share, console):
    """Run the machine to its end; returns the exit status for the caller."""
    proc, out, err = start(args, share, console)
    pumps = [pump(out, 1), pump(err, 2, b"warning: TCG doesn't support")]
    hung = False
    try:
        proc.wait(None if args.gdb else args.timeout or None)
    except subprocess.TimeoutExpired:
        hung = True
    finally:
        end_group(proc)
    # The pipes have no writers left; readers of our output may take their time.
    for t in pumps:
        t.join(60)
    if hung:
        show_end(console, f"{args.variant}: no end within {args.timeout} s")
        return HANG
    status_file = os.path.join(share, "status")
    if not os.path.exists(status_file) or (matches(PANICKED, console) and not args.reboot):
        show_end(console, f"{args.variant}: the guest panicked or ended without an answer")
        return PANIC
    with open(status_file, encoding="utf-8") as f:
        status = int(f.read())
    if status == 0 and args.strict and matches(COMPLAINT, console):
        show_end(console, f"{args.variant}: the kernel warned")
        return WARNED
    return status


def matches(pattern, console):
    with open(console, encoding="utf-8", errors="replace") as f:
        return any(pattern.search(line) for line in f)


def decisive(lines):
    """Returns the console lines with complaints, their places, and frames of their call traces."""
    said, frames = [], 0
    for line in lines:
        text = STAMP.sub("", line)
        if COMPLAINT.search(text) or PANICKED.search(text) or (said and PLACE.search(text)):
            said.append(text)
            frames = 0
        elif said and FRAME.search(text) and frames < FRAMES:
            said.append(text)
            frames += 1
    return said


def show_end(console, reason):
    say(reason)
    if not os.path.exists(console):
        return
    with open(console, encoding="utf-8", errors="replace") as f:
        lines = f.read().splitlines()
    for line in (decisive(lines) or lines[-3:])[:SAID_LINES]:
        say(f"console: {line}")
    say(f"the last of {len(lines)} lines of its console:")
    for line in lines[-CONSOLE_LINES:]:
        print("    " + line, file=sys.stderr)


def main():
    args = parse_args()
    if not args.command:
        return shell(args)
    with tempfile.TemporaryDirectory(prefix="ferrotrace-vm-") as share:
        console = os.path.join(share, "console.log")
        open(console, "w", encoding="utf-8").close()
        write_share(args, share)
        try:
            return run(args, share, console)
        finally:
            if args.out:
                shutil.copytree(os.path.join(share, "out"), args.out, dirs_exist_ok=True)
            if args.coverage:
                os.makedirs(args.coverage, exist_ok=True)
                shutil.copytree(os.path.join(share, "coverage"), tempfile.mkdtemp(prefix="guest-", dir=args.coverage),
                                symlinks=True, dirs_exist_ok=True)
            if args.console:
                shutil.copyfile(console, args.console)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
