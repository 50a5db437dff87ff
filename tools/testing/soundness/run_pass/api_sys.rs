// SPDX-License-Identifier: GPL-2.0

//! Uses the API of `ferro_sys` for clients from outside of the tree, as `api_hooks.rs` does with
//! hooks.
#![forbid(unsafe_code)]

use ferro_sys::cpu;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::cpu::HotplugOff;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::debugfs::Link;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::deferred_drop::may_sleep;
use ferro_sys::sync::deferred_drop::Deferred;
use ferro_sys::sync::refcounted::Shared;
use ferro_sys::trace::tracepoint::SchedSwitch;
use ferro_sys::trace::tracepoint::SchedSwitchProbe;
use ferro_sys::trace::tracepoint::Switch;
use ferro_sys::trace::tracepoint::TaskInfo;
use ferro_sys::trace::tracepoint::COMM_LEN;
use kernel::module::this_module;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

module! {
    type: Client,
    name: "api_sys",
    authors: ["Ferrotrace maintainers"],
    description: "Uses what the APIs are made of",
    license: "GPL v2",
}

struct Node(Atomic<usize>);

impl NodeOps for Node {
    const OUTLIVES: bool = true;

    fn snapshot(&self, _for_reading: bool) -> Result<Option<Self>> {
        Ok(Some(Self(Atomic::new(self.0.load(Relaxed)))))
    }

    fn read(&self, to: &mut UserDst) -> Result {
        let text = [b'0', b'\n'];
        if to.position() == 0 && to.left() >= text.len() && to.done() == 0 {
            let copied = to.copy_bytes(&text)?;
            to.end_at(copied);
            return Ok(());
        }
        to.copy_at_position(&text)
    }

    fn write(&self, from: &UserSrc) -> Result {
        let mut bytes = [0; 8];
        let number = match from.len() {
            2 => usize::from(from.flag()?),
            3 => from.number()?,
            4 => from.text(&mut bytes)?.len(),
            8 => from.native_size()?,
            5 => {
                from.bytes(bytes.first_chunk_mut::<5>().ok_or(EINVAL)?)?;
                from.take(4);
                5
            }
            _ => return Err(EINVAL),
        };
        self.0.store(number, Relaxed);
        match from.is_empty() {
            true => Err(EINVAL),
            false => Ok(()),
        }
    }
}

static FILES: FileTable<Shared<Node>> = FileTable::new(this_module::<Client>());

struct Task(Atomic<u32>);

impl SchedSwitch for Task {
    fn switch(&self, event: &Switch) {
        let later = event.next.pid != event.prev.pid && !event.preempt;
        self.0.fetch_add(u32::from(later), Relaxed);
    }
}

fn cpus() -> Result {
    let off = cpu::with_irqs_off(|_irqs| cpu::irqs_are_off() && !may_sleep());
    let task = TaskInfo::current();
    if !off || cpu::booting() || task.comm == [0; COMM_LEN] || mono_fast_ns() == 0 {
        return Err(EINVAL);
    }
    let held = HotplugOff::new();
    let online = cpu::online().last().ok_or(EINVAL)?;
    let other = Atomic::new(0);
    held.call_on(online, &|| other.store(cpu::current_id(), Relaxed));
    match other.load(Relaxed) == online.get() && cpu::possible().count() > 0 {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

fn work() -> Result {
    let mut deferred: Deferred<u32> = Deferred::new(Ok::<_, Error>(1))?;
    *deferred.get_mut() += 1;
    deferred.drop_later();
    let handler = Arc::new(Task(Atomic::new(0)), GFP_KERNEL)?;
    let probe = SchedSwitchProbe::register(handler)?;
    probe.disarm()?;
    probe.arm()?;
    match probe.is_armed() {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

struct Client {
    _link: Link,
    _file: File<Shared<Node>>,
    _dir: Dir,
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        cpus()?;
        work()?;
        let dir = Dir::new(c"api_sys")?;
        let inner = dir.subdir(c"inner")?;
        let node = Shared::new(Ok::<_, Error>(Node(Atomic::new(0))))?;
        let file = inner.to_ref().file(c"name", 0o600, &FILES, node)?;
        file.rename(c"node")?;
        let link = dir.link(c"link", c"inner/node")?;
        Ok(Self {
            _link: link,
            _file: file,
            _dir: inner,
        })
    }
}
