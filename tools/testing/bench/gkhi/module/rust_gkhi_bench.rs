// SPDX-License-Identifier: GPL-2.0

//! Measures hooks and exits in Rust at load, as `main.c` does those in C. Loading fails with
//! -EAGAIN on success.
#![deny(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::hook;
use ferro_gkhi::Answer;
use ferro_gkhi::Outcome;
use ferro_gkhi::Registered;
use ferro_gkhi::RegisteredHook;
use ferro_gkhi::WithIrqsOff;
use ferro_sys::cpu::percpu::PerCpuCounter;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::cpu::with_irqs_off;
use kernel::prelude::*;
use kernel::sync::Arc;

module! {
    type: Bench,
    name: "rust_gkhi_bench",
    authors: ["Ferrotrace maintainers"],
    description: "Cost of hooks in Rust",
    license: "GPL v2",
    params: {
        rounds: usize {
            default: 3,
            description: "How often each operation is measured; the best counts",
        },
    },
}

const LOOPS: u64 = 10000;

/// Values that the operations have in registers, as arguments for their places.
type Args = (usize, usize, usize, usize, usize);

/// Keeps the compiler from moving memory accesses between rounds of a loop, and from leaving out a
/// loop without other effects.
#[inline(always)]
fn barrier() {
    core::hint::black_box(());
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// Keeps the compiler from leaving out an unused value.
#[inline(always)]
fn needed(value: usize) -> usize {
    core::hint::black_box(value)
}

/// Passes a place many times.
macro_rules! operation {
    ($name:ident, ($($arg:pat),*), $place:expr) => {
        #[inline(never)]
        fn $name(($($arg),*): Args) {
            for _ in 0..LOOPS {
                let _ = $place;
                barrier();
            }
        }
    };
}

define_hook! {
    /// A hook without exits.
    static DORMANT_0: Dormant0<'a> = c"rust_dormant_0" in Task();
}
define_hook! {
    /// A hook without exits.
    static DORMANT_2: Dormant2<'a> = c"rust_dormant_2" in Task(a: usize, b: usize);
}
define_hook! {
    /// A hook without exits.
    static DORMANT_5: Dormant5<'a> = c"rust_dormant_5"
        in Task(a: usize, b: usize, c: usize, d: usize, e: usize);
}
define_hook! {
    /// A hook without exits.
    static DORMANT_FUNCTION: DormantFunction<'a> = c"rust_dormant_function" in Task(a: usize, b: usize);
}
define_hook! {
    /// Has an exit that does nothing.
    static EMPTY: Empty<'a> = c"rust_empty" in Task(a: usize, b: usize);
}
define_hook! {
    /// Has an exit that counts.
    static COUNT: Count<'a> = c"rust_count" in Task(a: usize, b: usize);
}
define_hook! {
    /// Has eight exits that count.
    static COUNT_8: Count8<'a> = c"rust_count_8" in Task(a: usize, b: usize);
}
define_hook! {
    /// Has an exit that changes a parameter.
    static MODIFY: Modify<'a> = c"rust_modify" in Task(a: usize, b: &'a mut usize);
}
define_hook! {
    /// Has an exit that makes the function return.
    static RETURN: Return<'a> = c"rust_return" in Task(a: usize, b: usize) -> usize;
}
define_hook! {
    /// Has an exit that counts with interrupts off.
    static IRQS_OFF: CountIrqsOff<'a> = c"rust_irqs_off" in Task(a: usize, b: usize);
}
define_hook! {
    /// Has an exit that counts where nothing is preempted.
    static ATOMIC: CountAtomic<'a> = c"rust_atomic" in Atomic(a: usize, b: usize);
}
define_hook! {
    /// Has an exit that counts where one may sleep.
    static SLEEP: CountSleep<'a> = c"rust_sleep" in Sleep(a: usize, b: usize);
}

operation!(no_site, (_, _, _, _, _), ());
operation!(empty_loop, (_, _, _, _, _), ());
operation!(dormant_0, (_, _, _, _, _), hook!(DORMANT_0));
operation!(dormant_2, (a, b, _, _, _), hook!(DORMANT_2, a, b));
operation!(dormant_5, (a, b, c, d, e), hook!(DORMANT_5, a, b, c, d, e));
operation!(empty, (a, b, _, _, _), hook!(EMPTY, a, b));
operation!(count, (a, b, _, _, _), hook!(COUNT, a, b));
operation!(count_8, (a, b, _, _, _), hook!(COUNT_8, a, b));
operation!(irqs_off, (a, b, _, _, _), hook!(IRQS_OFF, a, b));
operation!(atomic, (a, b, _, _, _), hook!(ATOMIC, a, b));
operation!(sleep, (a, b, _, _, _), hook!(SLEEP, a, b));
operation!(modify, (a, mut b, _, _, _), hook!(MODIFY, a, &mut b));

/// A function without a place.
#[inline(never)]
fn plain(a: usize, b: usize) -> usize {
    barrier();
    a ^ b
}
operation!(function_no_site, (a, b, _, _, _), needed(plain(a, b)));

/// A function around a place, as most places are in one.
#[inline(never)]
fn dormant(a: usize, b: usize) -> usize {
    hook!(DORMANT_FUNCTION, a, b);
    barrier();
    a ^ b
}
operation!(function_dormant, (a, b, _, _, _), needed(dormant(a, b)));

/// A function that an exit makes return.
#[inline(never)]
fn returning(a: usize, b: usize) -> usize {
    if let Outcome::Return(value) = hook!(RETURN, a, b) {
        return value;
    }
    a ^ b
}
operation!(function_return, (a, b, _, _, _), needed(returning(a, b)));

const OPERATIONS: &[(&str, fn(Args))] = &[
    ("rust_no_site", no_site),
    ("rust_dormant_0", dormant_0),
    ("rust_dormant_2", dormant_2),
    ("rust_dormant_5", dormant_5),
    ("rust_hook_empty", empty),
    ("rust_hook_count", count),
    ("rust_hook_count_8", count_8),
    ("rust_hook_irqs_off", irqs_off),
    ("rust_hook_atomic", atomic),
    ("rust_hook_sleep", sleep),
    ("rust_hook_rw", modify),
    ("rust_function_no_site", function_no_site),
    ("rust_function_dormant", function_dormant),
    ("rust_function_return", function_return),
];

/// Nanoseconds of a round, without interrupts.
fn measure(run: fn(Args)) -> u64 {
    with_irqs_off(|_| {
        let begin = mono_fast_ns();
        run((1, 2, 3, 4, 5));
        mono_fast_ns() - begin
    })
}

fn bench(rounds: usize) {
    let mut best = [u64::MAX; OPERATIONS.len()];
    let mut best_empty = u64::MAX;
    for _ in 0..rounds {
        best_empty = best_empty.min(measure(empty_loop));
        for (best, (_, run)) in best.iter_mut().zip(OPERATIONS) {
            *best = measure(*run).min(*best);
        }
    }
    for (best, (name, _)) in best.iter().zip(OPERATIONS) {
        // The function around the loop is less than a hundredth.
        let hundredths = (best.saturating_sub(best_empty) * 100 + LOOPS / 2) / LOOPS;
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        pr_info!("gkhi_bench: {name} {whole}.{rest:02}\n");
    }
}

/// Counters of the exits.
struct Counters {
    a: PerCpuCounter,
    b: PerCpuCounter,
}

impl Counters {
    #[inline(always)]
    fn count(&self) {
        self.a.inc();
        self.b.inc();
    }
}

/// Registers an exit that counts both parameters, and arms it.
macro_rules! counting {
    ($hook:ty, $condition:ty, $name:expr, $counters:expr) => {{
        let counters = $counters.clone();
        let exit =
            Registered::<$hook, $condition>::builder($name).register(move |_call, (_a, _b)| {
                counters.count();
                Answer::Continue
            })?;
        exit
    }};
}

const NAMES: [&CStr; 8] = [c"0", c"1", c"2", c"3", c"4", c"5", c"6", c"7"];

struct Bench;

impl kernel::Module for Bench {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        use ferro_gkhi::AsIs;

        let _hooks = (
            RegisteredHook::register(&DORMANT_0)?,
            RegisteredHook::register(&DORMANT_2)?,
            RegisteredHook::register(&DORMANT_5)?,
            RegisteredHook::register(&DORMANT_FUNCTION)?,
            RegisteredHook::register(&EMPTY)?,
            RegisteredHook::register(&COUNT)?,
            RegisteredHook::register(&COUNT_8)?,
            RegisteredHook::register(&MODIFY)?,
            RegisteredHook::register(&RETURN)?,
            RegisteredHook::register(&IRQS_OFF)?,
            RegisteredHook::register(&ATOMIC)?,
            RegisteredHook::register(&SLEEP)?,
        );
        let counters = Arc::new(
            Counters {
                a: PerCpuCounter::new()?,
                b: PerCpuCounter::new()?,
            },
            GFP_KERNEL,
        )?;
        let _nothing =
            Registered::<Empty>::builder(c"empty").register(|_call, (_a, _b)| Answer::Continue)?;
        let _modifying = Registered::<Modify>::builder(c"modify").register(|_call, (a, b)| {
            *b = a;
            Answer::Continue
        })?;
        let _returning = Registered::<Return>::builder(c"return")
            .register(|_call, (a, _b)| Answer::Return(a))?;
        let _counting = (
            counting!(Count, AsIs, c"count", counters),
            counting!(CountIrqsOff, WithIrqsOff, c"count", counters),
            counting!(CountAtomic, AsIs, c"count", counters),
            counting!(CountSleep, AsIs, c"count", counters),
        );
        let mut eight = KVec::new();
        for name in NAMES {
            eight.push(counting!(Count8, AsIs, name, counters), GFP_KERNEL)?;
        }
        bench(module_parameters::rounds.value());
        Err(EAGAIN)
    }
}
