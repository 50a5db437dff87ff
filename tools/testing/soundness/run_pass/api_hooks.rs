// SPDX-License-Identifier: GPL-2.0

//! Uses the API of `ferro_gkhi` and `ferro_klog` from outside of the tree. Generic and inlined
//! functions become code of the client, and link only if the kernel exports the functions that they
//! call. `public.py` finds API that no client uses.
#![forbid(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::hook;
use ferro_gkhi::Answer;
use ferro_gkhi::AnyExit;
use ferro_gkhi::AsIs;
use ferro_gkhi::Builder;
use ferro_gkhi::Call;
use ferro_gkhi::CpusStopped;
use ferro_gkhi::ExitOn;
use ferro_gkhi::NoReturn;
use ferro_gkhi::Outcome;
use ferro_gkhi::Priority;
use ferro_gkhi::Registered;
use ferro_gkhi::RegisteredHook;
use ferro_gkhi::WithCpusStopped;
use ferro_gkhi::WithIrqsOff;
use ferro_klog::Handler;
use ferro_klog::Registration;
use ferro_sys::cpu::IrqsOff;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

module! {
    type: Client,
    name: "api_hooks",
    authors: ["Ferrotrace maintainers"],
    description: "Uses hooks and klog",
    license: "GPL v2",
}

struct Device(u32);

define_hook! {
    /// A hook in a context that may sleep.
    static ASK: Ask<'a> = c"api_ask" in Sleep(value: u32, device: &'a Device) -> i32;
}

define_hook! {
    /// A hook in a context without preemption.
    static ADD: Add<'a> = c"api_add" in Atomic(sum: &'a mut u64, flag: bool);
}

fn ask(value: u32) -> i32 {
    match hook!(ASK, value, &Device(7)) {
        Outcome::Return(answer) => answer,
        Outcome::Terminated => -2,
        Outcome::Continued => -1,
    }
}

struct Once(Atomic<u32>);

impl ExitOn<Ask> for Once {
    fn call(&self, call: &Call<'_, Ask, AsIs>, (value, device): (u32, &Device)) -> Answer<i32> {
        let _sleep = call.context();
        self.0.fetch_add(call.count(), Relaxed);
        call.disarm_self();
        match i32::try_from(value + device.0) {
            Ok(sum) => Answer::Return(sum),
            Err(_) => Answer::Terminate,
        }
    }
}

fn first(builder: Builder<'_, Add>) -> Builder<'_, Add> {
    builder.priority(Priority::First)
}

fn hooks() -> Result {
    let _ask = RegisteredHook::register(&ASK)?;
    let _add = RegisteredHook::register(&ADD)?;
    let once = Registered::<Ask>::builder(c"once").disarmed();
    let once = once.register_exit(Once(Atomic::new(0)))?;
    let stopped = Registered::<Ask, WithCpusStopped>::builder(c"stopped").disarmed();
    let stopped = stopped.register(|call, _| {
        let _proof: &CpusStopped = call.proof();
        Answer::Terminate
    })?;
    if ask(1) != -1 {
        return Err(EINVAL);
    }
    once.arm()?;
    let answers = (ask(1), ask(1));
    stopped.arm()?;
    if (answers, ask(1)) != ((8, -1), -2) || once.is_armed() || once.hits() != 1 {
        return Err(EINVAL);
    }
    let sum = first(Registered::<Add>::builder(c"sum")).register(|_call, (sum, flag)| {
        *sum += 1 + u64::from(flag);
        Answer::<NoReturn>::Continue
    })?;
    let pinned = Registered::<Add, WithIrqsOff>::builder(c"pinned").pinned();
    let pinned = pinned.register(|call, (sum, _)| {
        let _proof: &IrqsOff = call.proof();
        *sum += 10;
        Answer::Continue
    })?;
    let mut total = 0;
    hook!(ADD, &mut total, true);
    ferro_gkhi::disarm(&[&sum, &pinned])?;
    hook!(ADD, &mut total, true);
    ferro_gkhi::arm(&[&sum, &pinned])?;
    match total {
        12 => Ok(()),
        _ => Err(EINVAL),
    }
}

static BYTES: Atomic<usize> = Atomic::new(0);

struct Count;

impl Handler for Count {
    fn klog(_irqs: &IrqsOff, message: &[u8]) {
        BYTES.fetch_add(message.len(), Relaxed);
    }
}

fn klog() -> Result {
    let handler = Registration::<Count>::register()?;
    handler.disarm()?;
    handler.arm_if_free()?;
    handler.arm()?;
    if !ferro_klog::has_handler() {
        return Err(EINVAL);
    }
    ferro_klog::print(fmt!("{}", 12));
    ferro_klog::write(b"345");
    let _ = ferro_klog::missed();
    match handler.is_armed() && BYTES.load(Relaxed) >= 5 {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

struct Client;

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        hooks()?;
        klog()?;
        Ok(Self)
    }
}
