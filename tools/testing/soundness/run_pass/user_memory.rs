// SPDX-License-Identifier: GPL-2.0

//! Reads memory of a process in a handler, at addresses that do not belong to the process: kernel
//! addresses, the ends of both halves, non-canonical addresses, and unmapped ones. Probes could
//! only read memory of a process by code with `unsafe`. `read_user()` and `user_str()` refuse
//! addresses outside the process, and page nothing in. The log reports failures with "BUG: ".
#![forbid(unsafe_code)]

use ferro_kprobe::entry_probe;
use ferro_kprobe::EntryProbe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::UserFault;
use kernel::prelude::*;
use kernel::uaccess::UserPtr;

module! {
    type: Client,
    name: "user_memory",
    authors: ["Ferrotrace maintainers"],
    description: "A handler that reads at any address",
    license: "GPL v2",
}

static SECRET: [u8; 8] = *b"a secret";

fn look(ctx: &ProbeCtx<'_>) {
    let own = (&raw const SECRET).addr();
    for at in [own, ctx.sp(), ctx.ip(), 1 << 63, usize::MAX, usize::MAX - 3] {
        expect(ctx, at, UserFault::NotUser);
    }
    // No process has its first or its last page, nor non-canonical addresses.
    for at in [0, 8, (1 << 47) - 4096, (1 << 63) - 1, 1 << 62] {
        expect(ctx, at, UserFault::Absent);
    }
}

fn expect(ctx: &ProbeCtx<'_>, at: usize, fault: UserFault) {
    let from = UserPtr::from_addr(at);
    let mut text = [0; 100];
    let found = [
        ctx.read_user::<u64>(from).err(),
        ctx.read_user::<[u8; 300]>(from).err(),
        ctx.user_str(from, &mut text).err(),
    ];
    if found != [Some(fault); 3] {
        pr_err!("BUG: {at:#x}: {found:?}\n");
    }
    // Nothing is read of no memory.
    if ctx.user_str(from, &mut []) != Ok(&[]) {
        pr_err!("BUG: {at:#x}: no room\n");
    }
}

struct Client(EntryProbe);

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let probe = entry_probe!("kernel_clone", |ctx| look(ctx));
        Ok(Self(probe.register()?))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.0.hits() == 0 {
            pr_err!("BUG: the handler was not called\n");
        }
    }
}
