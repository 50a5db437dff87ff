// SPDX-License-Identifier: GPL-2.0

//! Measures the Rust interfaces at load, as `main.c` does those in C. Loading fails with -EAGAIN on
//! success.
#![deny(unsafe_code)]

use ferro_fast_relay as fast;
use ferro_relay as relay;
use ferro_sys::cpu::time::mono_fast_ns;
use ferro_sys::cpu::with_irqs_off;
use kernel::prelude::*;

module! {
    type: Bench,
    name: "rust_relay_bench",
    authors: ["Ferrotrace maintainers"],
    description: "Cost of the Rust relay interfaces' operations",
    license: "GPL v2",
    params: {
        rounds: usize {
            default: 3,
            description: "How often each operation is measured; the best counts",
        },
    },
}

const WRITES: u64 = 2000;

struct Channels {
    relay: relay::Channel,
    fast: fast::Channel,
}

static RECORD: [u8; 1024] = [0; 1024];

/// A type without padding.
type Words<const N: usize> = [u64; N];

/// A loop over an operation.
type Run = fn(&Channels, usize);

/// Does `op` many times with `len` bytes; the length is known at run time only.
macro_rules! operation {
    ($name:ident, $channels:ident, $data:ident, $op:expr) => {
        #[inline(never)]
        fn $name($channels: &Channels, len: usize) {
            let $data = RECORD.get(..len).unwrap_or(&[]);
            for _ in 0..WRITES {
                let _ = $op;
                barrier();
            }
        }
    };
}

/// Keeps the compiler from moving memory accesses between rounds of a loop, and from leaving out a
/// loop without other effects.
#[inline(always)]
fn barrier() {
    core::hint::black_box(());
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

#[inline(never)]
fn empty(_channels: &Channels, _len: usize) {
    for _ in 0..WRITES {
        barrier();
    }
}

operation!(write, c, data, c.relay.write(data));
operation!(
    write_const8,
    c,
    _data,
    c.relay.write_record::<Words<1>>(&[0; 1])
);
operation!(
    write_const64,
    c,
    _data,
    c.relay.write_record::<Words<8>>(&[0; 8])
);
operation!(
    reserve,
    c,
    data,
    c.relay.reserve(data.len(), |record| {
        record.put(data);
    })
);
operation!(fast_write, c, data, c.fast.write(1, data));
operation!(
    fast_write_const8,
    c,
    _data,
    c.fast.write::<Words<1>>(1, &[0; 1])
);
operation!(
    fast_write_const32,
    c,
    _data,
    c.fast.write::<Words<4>>(1, &[0; 4])
);
operation!(
    fast_write_const64,
    c,
    _data,
    c.fast.write::<Words<8>>(1, &[0; 8])
);
operation!(fast_write_timed, c, data, c.fast.write_timed(1, data));
operation!(
    fast_reserve,
    c,
    data,
    c.fast.reserve(1, data.len(), |record| {
        record.put(data);
        fast::Outcome::Commit
    })
);

const OPERATIONS: &[(&str, Run, usize)] = &[
    ("rust_write", write, 8),
    ("rust_write", write, 32),
    ("rust_write", write, 64),
    ("rust_write", write, 256),
    ("rust_write_const", write_const8, 8),
    ("rust_write_const", write_const64, 64),
    ("rust_reserve", reserve, 64),
    ("rust_fast_write", fast_write, 8),
    ("rust_fast_write", fast_write, 32),
    ("rust_fast_write", fast_write, 64),
    ("rust_fast_write", fast_write, 256),
    ("rust_fast_write_const", fast_write_const8, 8),
    ("rust_fast_write_const", fast_write_const32, 32),
    ("rust_fast_write_const", fast_write_const64, 64),
    ("rust_fast_write_timed", fast_write_timed, 64),
    ("rust_fast_reserve", fast_reserve, 64),
];

/// Nanoseconds of a round, without interrupts.
fn measure(channels: &Channels, run: Run, len: usize) -> u64 {
    with_irqs_off(|_| {
        let begin = mono_fast_ns();
        run(channels, len);
        mono_fast_ns() - begin
    })
}

fn bench(channels: &Channels, rounds: usize) {
    let mut best = [u64::MAX; OPERATIONS.len()];
    let mut best_empty = u64::MAX;
    for _ in 0..rounds {
        best_empty = best_empty.min(measure(channels, empty, 0));
        for (best, (_, run, len)) in best.iter_mut().zip(OPERATIONS) {
            *best = measure(channels, *run, *len).min(*best);
        }
    }
    for (best, (name, _, len)) in best.iter().zip(OPERATIONS) {
        let thousandths = best.saturating_sub(best_empty) * 1000 / WRITES;
        let (whole, rest) = (thousandths / 1000, thousandths % 1000);
        pr_info!("relay_bench: {name}_{len} {whole}.{rest:03}\n");
    }
}

struct Bench;

impl kernel::Module for Bench {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let relay = relay::Channel::builder(c"rust_relay_bench").mode(relay::Mode::Overwrite);
        let fast = fast::Channel::builder(c"rust_fast_bench").mode(fast::Mode::Overwrite);
        let channels = Channels {
            relay: relay.open()?,
            fast: fast.open()?,
        };
        bench(&channels, module_parameters::rounds.value());
        Err(EAGAIN)
    }
}
