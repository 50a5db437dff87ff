// SPDX-License-Identifier: GPL-2.0

//! Uses the API of `ferro_kprobe` and `ferro_ftrace` from outside of the tree, as `api_hooks.rs`
//! does with hooks. A set of functions with data did not link: the function that it called was not
//! exported.
#![forbid(unsafe_code)]

use ferro_ftrace::trace_function;
use ferro_ftrace::Boxed;
use ferro_ftrace::BoxedSet;
use ferro_ftrace::FunctionBuilder;
use ferro_ftrace::FunctionCall;
use ferro_ftrace::SetHandler;
use ferro_ftrace::TraceError;
use ferro_ftrace::TraceHandler;
use ferro_ftrace::Tracer;
use ferro_ftrace::TracerSet;
use ferro_kprobe::entry_probe;
use ferro_kprobe::field;
use ferro_kprobe::EntryBuilder;
use ferro_kprobe::EntryProbe;
use ferro_kprobe::Keep;
use ferro_kprobe::Next;
use ferro_kprobe::Probe;
use ferro_kprobe::ProbeCtx;
use ferro_kprobe::ProbeError;
use ferro_kprobe::ProbeHandler;
use ferro_kprobe::RetBuilder;
use ferro_kprobe::Retprobe;
use ferro_kprobe::RetprobeHandler;
use ferro_kprobe::Saved;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

module! {
    type: Client,
    name: "api_probes",
    authors: ["Ferrotrace maintainers"],
    description: "Uses probes and tracers",
    license: "GPL v2",
}

const PROBED: &CStr = c"kernel_clone";

/// So that nothing that a handler looks at is left out.
static SEEN: Atomic<usize> = Atomic::new(0);

fn see(value: usize) {
    SEEN.fetch_add(value, Relaxed);
}

struct Handler;

#[vtable]
impl ProbeHandler for Handler {
    fn pre(&self, ctx: &mut ProbeCtx<'_>) -> Next {
        let mut calls = [0; ferro_kprobe::COPIED];
        see(ctx.calls(&mut calls));
        ctx.hold_irqs();
        let ctx = ctx.again();
        let ferro_kprobe::TaskInfo { pid, .. } = ctx.task();
        see(ctx.ip() ^ ctx.sp() ^ ctx.flags() ^ ctx.register(ferro_kprobe::Register::Di));
        see(ctx.saved(Saved::SP) ^ ctx.saved(Saved::general(ferro_kprobe::Register::R15)));
        see(ctx.argument(6).unwrap_or(0) ^ ctx.stack(0).unwrap_or(0));
        see(usize::from(pid > 0 && ctx.time() > 0) + ctx.cpu() as usize);
        if SEEN.load(Relaxed) == 0 {
            ctx.dump_stack();
        }
        Next::Continue
    }

    fn post(&self, ctx: &mut ProbeCtx<'_>) {
        see(ctx.register_arguments()[0]);
    }
}

#[vtable]
impl RetprobeHandler for Handler {
    type Data = u64;

    fn entry(&self, ctx: &mut ProbeCtx<'_>, data: &mut u64) -> Keep {
        *data = ctx.time();
        Keep::Yes
    }

    fn returned(&self, ctx: &mut ProbeCtx<'_>, data: &mut u64) {
        see(ctx.return_value() ^ (*data as usize));
    }
}

fn retprobe<'a>() -> RetBuilder<'a, Handler> {
    Retprobe::builder().max_active(8)
}

/// Returns the address of the probed function, too.
fn probes() -> Result<(usize, EntryProbe), ProbeError> {
    let probe = Probe::builder().symbol(PROBED).offset(0).disarmed();
    let probe = probe.register(Handler)?;
    probe.arm()?;
    probe.disarm()?;
    see(probe.missed() ^ usize::from(probe.is_armed()) ^ probe.opcode().map_or(0, usize::from));
    see(probe.copied().map_or(0, |code| code.len()));
    let Handler = probe.handler();
    let address = probe.address();
    drop(probe);
    let at = |_| (Probe::builder().address(address), Handler);
    let (all, refusal) = Probe::register_all((0..2).map(at))?;
    Probe::drop_all(all.into_iter());
    let at = |_| (retprobe().address(address).disarmed(), Handler);
    let (all, refused) = Retprobe::register_all((0..2).map(at))?;
    Retprobe::drop_all(all.into_iter());
    if let Some(error) = refusal.or(refused) {
        return Err(error);
    }
    let returned = retprobe().symbol(PROBED).register(Handler)?;
    returned.disarm()?;
    returned.arm()?;
    see(returned.missed() + returned.nested() + returned.address());
    let Handler = returned.handler();
    let entry: EntryBuilder<'_, _> = entry_probe!(
        bindings::kernel_clone,
        |ctx, args: *mut bindings::kernel_clone_args| {
            let flags = ctx.read(field!(
                args.cast_const(),
                bindings::kernel_clone_args,
                flags
            ));
            see(flags.map_or(0, |flags: u64| flags as usize));
        }
    );
    let entry = entry.disarmed().register()?;
    entry.arm()?;
    entry.disarm()?;
    see(entry.hits() as usize ^ entry.missed() ^ entry.address() ^ usize::from(entry.is_armed()));
    Ok((address, entry))
}

struct Traced;

impl TraceHandler for Traced {
    fn call(&self, call: &FunctionCall<'_>) {
        see(call.ip() ^ call.parent_ip() ^ call.arguments()[ferro_ftrace::REGISTER_ARGUMENTS - 1]);
        see(call.flags().unwrap_or(0) ^ call.register(ferro_ftrace::Register::Bp).unwrap_or(0));
        let ferro_ftrace::TaskInfo { pid, .. } = call.task();
        see(usize::from(pid > 0 && call.time() > 0) + call.cpu() as usize);
        see(usize::from(call.read::<u8>(core::ptr::null()).is_some()));
    }
}

impl SetHandler<Arc<Atomic<u64>>> for Traced {
    fn call(&self, _call: &FunctionCall<'_>, calls: &Arc<Atomic<u64>>) {
        calls.fetch_add(1, Relaxed);
    }
}

fn set_of<H: SetHandler<Arc<Atomic<u64>>>>(
    set: Result<TracerSet<Arc<Atomic<u64>>, H>, TraceError>,
    address: usize,
) -> Result<TracerSet<Arc<Atomic<u64>>, H>, TraceError> {
    let mut set = set?;
    let calls = Arc::new(Atomic::new(0), GFP_KERNEL)?;
    for _ in 0..2 {
        let mut functions = KVVec::new();
        functions.push((address, calls.clone()), GFP_KERNEL)?;
        set.attach(functions)?;
        see(set.functions());
        let _handler = set.handler();
        set.detach(&[address])?;
    }
    Ok(set)
}

fn tracers(address: usize) -> Result<(Tracer<Boxed>, TracerSet<Arc<Atomic<u64>>>), TraceError> {
    let addresses = [address];
    let tracer = Tracer::builder().addresses(&addresses).all_registers();
    let tracer = tracer.register(Traced)?;
    let Traced = tracer.handler();
    see(tracer.functions());
    let by_name: FunctionBuilder<'_, _> =
        trace_function!("kernel_clone", |_call, args: usize| see(args));
    drop(by_name.register()?);
    let typed = trace_function!(
        bindings::kernel_clone,
        |_call, args: *mut bindings::kernel_clone_args| {
            see(args.addr());
        }
    );
    let globs = Tracer::builder().globs(&[c"vfs_rea[d]"]);
    drop(globs.register_boxed(|_| see(1))?);
    let names = Tracer::builder().names(&[PROBED]);
    drop(names.register(Traced)?);
    drop(set_of(TracerSet::new(Traced), address)?);
    drop(set_of(TracerSet::with_all_registers(Traced), address)?);
    let boxed: Result<TracerSet<_, BoxedSet<_>>, _> =
        TracerSet::boxed(|_: &FunctionCall<'_>, calls: &Arc<Atomic<u64>>| {
            calls.fetch_add(1, Relaxed);
        });
    Ok((typed.register()?, set_of(boxed, address)?))
}

struct Client {
    _entry: EntryProbe,
    _traced: (Tracer, TracerSet<Arc<Atomic<u64>>>),
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let (address, entry) = probes()?;
        let traced = tracers(address)?;
        Ok(Self {
            _entry: entry,
            _traced: traced,
        })
    }
}
