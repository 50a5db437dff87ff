// SPDX-License-Identifier: GPL-2.0

//! Drops, disarms and leaks exits where it should not, one case each time the module is loaded. An
//! exit on task_fork that dropped itself, or slept, lost its data while it ran, and disarm()
//! claimed there that no task was in it. On module_event it hung the load of the next module. A
//! leaked exit was called after its module was freed. Disarming an exit of one hook waited for
//! exits of another. A dispatch with an exit that slept on task_fork continued with a freed exit,
//! if an unrelated change was made in between. The data of an exit was dropped by the next user of
//! the registry. The registry now owns the data of exits, counts the tasks in them, and refuses or
//! defers calls that would wait for their caller. The log reports failures with "BUG: ".
//!
//! Contexts: the cases' own. No locks but theirs.
#![forbid(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::hook;
use ferro_gkhi::points::CpuPrepare;
use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::points::TaskFork;
use ferro_gkhi::Answer;
use ferro_gkhi::AnyExit;
use ferro_gkhi::Priority;
use ferro_gkhi::Registered;
use ferro_gkhi::RegisteredHook;
use kernel::new_mutex;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::sync::SpinLock;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

module! {
    type: Harm,
    name: "hook_exits",
    authors: ["Ferrotrace maintainers"],
    description: "Safe code that misuses hooks",
    license: "GPL v2",
    params: {
        case: usize {
            default: 0,
            description: "Which case: see hook_exits.sh",
        },
    },
}

define_hook! {
    /// For an exit that has nothing to do with the others.
    static OTHER: Other<'a> = c"sound_other" in Sleep(value: u32);
}

define_hook! {
    /// Fired with a spin lock held.
    static ATOMIC: InAtomic<'a> = c"sound_atomic" in Atomic();
}

/// State of a case's exit: 0 not called, 1 called, 2 over.
static STAGE: Atomic<u32> = Atomic::new(0);
/// A module is being loaded: not this one, which is there then.
const COMING: u32 = kernel::bindings::module_state_MODULE_STATE_COMING;
/// Number of dropped objects that exits owned.
static DROPPED: Atomic<u32> = Atomic::new(0);
/// An exit that waits can go on.
static GO_ON: Atomic<u32> = Atomic::new(0);

/// Owned by an exit.
struct Canary(u32);

impl Drop for Canary {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Full);
    }
}

fn harm(what: &str) {
    pr_err!("BUG: {what}\n");
}

/// The first caller.
fn first() -> bool {
    STAGE.cmpxchg(0, 1, Full).is_ok()
}

fn over(canary: &Canary) {
    if DROPPED.load(Acquire) != 0 || canary.0 != 42 {
        harm("what the exit owns is gone while it runs");
    }
    STAGE.store(2, Release);
}

fn come(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1500 {
        if done() {
            return;
        }
        fsleep(Delta::from_millis(10));
    }
    harm(what);
}

fn stage(want: u32) -> bool {
    STAGE.load(Acquire) >= want
}

/// A place for an exit that the exit itself can take.
type Place<T> = Arc<SpinLock<Option<T>>>;

fn place<T: Unpin + 'static>() -> Result<Place<T>> {
    Arc::pin_init(new_spinlock!(None), GFP_KERNEL)
}

#[derive(Clone, Copy, PartialEq)]
enum Do {
    Drop,
    Disarm,
    Sleep,
}

/// An exit on `task_fork` that does this to itself.
fn fork_exit(what: Do) -> Result<Place<Registered<TaskFork>>> {
    let own = place()?;
    let (mine, canary) = (own.clone(), Canary(42));
    let exit = Registered::<TaskFork>::builder(c"sound").register(move |_call, _| {
        if !first() {
            return Answer::Continue;
        }
        match what {
            Do::Drop => drop(take(&mine)),
            Do::Disarm => {
                let taken = take(&mine);
                let result = taken
                    .as_ref()
                    .map(|exit: &Registered<TaskFork>| exit.disarm());
                if matches!(result, Some(Ok(()))) {
                    harm("disarm() says that nobody is in the exit that calls it");
                }
                pr_info!("disarm in the exit: {:?}\n", result);
                *mine.lock() = taken;
            }
            Do::Sleep => fsleep(Delta::from_millis(1500)),
        }
        // Long enough that memory freed in the meantime is noticed.
        fsleep(Delta::from_millis(300));
        over(&canary);
        Answer::Continue
    })?;
    *own.lock() = Some(exit);
    Ok(own)
}

fn take<T: Unpin>(place: &Place<T>) -> Option<T> {
    let mut place = place.lock();
    place.take()
}

/// An exit on `module_event` that drops itself.
fn event_exit() -> Result<Place<Registered<ModuleEvent>>> {
    let own = place()?;
    let (mine, canary) = (own.clone(), Canary(42));
    let exit = Registered::<ModuleEvent>::builder(c"sound").register(move |_call, _| {
        if first() {
            drop(take(&mine));
            fsleep(Delta::from_millis(300));
            over(&canary);
        }
        Answer::Continue
    })?;
    *own.lock() = Some(exit);
    Ok(own)
}

/// Dropped where preemption is off.
fn atomic_exit() -> Result {
    let _hook = RegisteredHook::register(&ATOMIC)?;
    let own = place()?;
    let (mine, canary) = (own.clone(), Canary(42));
    let exit = Registered::<InAtomic>::builder(c"sound").register(move |_call, ()| {
        if first() {
            drop(take(&mine));
            over(&canary);
        }
        Answer::Continue
    })?;
    *own.lock() = Some(exit);
    hook!(ATOMIC);
    come("the exit was not dropped", || DROPPED.load(Acquire) == 1);
    Ok(())
}

/// An exit on `task_fork` that sleeps until it can go on, and owns this.
fn sleeper<T: Send + Sync + 'static>(owned: T) -> Result<Registered<TaskFork>> {
    let exit = Registered::<TaskFork>::builder(c"sleeper")
        .priority(Priority::First)
        .register(move |_call, _| {
            let _owned = &owned;
            if first() {
                come("the exit cannot go on", || GO_ON.load(Acquire) == 1);
                STAGE.store(2, Release);
            }
            Answer::Continue
        })?;
    Ok(exit)
}

/// Registers an exit that runs after the sleeper.
fn next() -> Result<Registered<TaskFork>> {
    let canary = Canary(42);
    let exit = Registered::<TaskFork>::builder(c"next")
        .priority(Priority::Last)
        .register(move |_call, _| {
            let _owned = &canary;
            if DROPPED.load(Acquire) != 0 {
                harm("an exit is called that has been dropped");
            }
            Answer::Continue
        })?;
    Ok(exit)
}

/// Takes a lock when dropped.
struct Locking(Arc<Mutex<()>>);

impl Drop for Locking {
    fn drop(&mut self) {
        come("what an exit owns is dropped by who holds its lock", || {
            self.0.try_lock().is_some()
        });
        DROPPED.store(1, Release);
    }
}

fn prepare(_cpu: ferro_sys::cpu::CpuId) -> Result {
    Ok(())
}

/// Kept until the module is unloaded.
#[allow(dead_code)]
enum Kept {
    Fork(Place<Registered<TaskFork>>),
    Event(Place<Registered<ModuleEvent>>),
    Two(
        Registered<ModuleEvent>,
        Option<Registered<Other>>,
        RegisteredHook,
    ),
    Earlier(
        Registered<TaskFork>,
        Option<Registered<TaskFork>>,
        Registered<TaskFork>,
    ),
    Locked(
        Option<Registered<TaskFork>>,
        Registered<InAtomic>,
        RegisteredHook,
        Arc<Mutex<()>>,
    ),
    Nothing,
}

struct Harm(Kept);

impl kernel::Module for Harm {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self(match module_parameters::case.value() {
            1 => Kept::Fork(fork_exit(Do::Drop)?),
            2 => Kept::Fork(fork_exit(Do::Disarm)?),
            3 => Kept::Fork(fork_exit(Do::Sleep)?),
            4 => Kept::Event(event_exit()?),
            5 => {
                let exit: Registered<CpuPrepare> = Registered::before_cpus(c"sound", prepare)?;
                core::mem::forget(exit);
                Kept::Nothing
            }
            6 => {
                let waiting = Registered::<ModuleEvent>::builder(c"sound").register(
                    |_call, (_, state)| {
                        if state == COMING && first() {
                            come("disarming waits for an exit of another hook", || {
                                GO_ON.load(Acquire) == 1
                            });
                        }
                        Answer::Continue
                    },
                )?;
                let hook = RegisteredHook::register(&OTHER)?;
                let other =
                    Registered::<Other>::builder(c"sound").register(|_call, _| Answer::Continue)?;
                hook!(OTHER, 1);
                Kept::Two(waiting, Some(other), hook)
            }
            7 => {
                atomic_exit()?;
                Kept::Nothing
            }
            8 => {
                let another = Registered::<TaskFork>::builder(c"another")
                    .disarmed()
                    .register(|_call, _| Answer::Continue)?;
                Kept::Earlier(sleeper(())?, Some(next()?), another)
            }
            9 => {
                let lock = Arc::pin_init(new_mutex!(()), GFP_KERNEL)?;
                let hook = RegisteredHook::register(&ATOMIC)?;
                let other = Registered::<InAtomic>::builder(c"sound")
                    .priority(Priority::Only)
                    .register(|_call, _| Answer::Continue)?;
                let sleeper = sleeper(Locking(lock.clone()))?;
                Kept::Locked(Some(sleeper), other, hook, lock)
            }
            _ => return Err(EINVAL),
        }))
    }
}

impl Drop for Harm {
    fn drop(&mut self) {
        match &mut self.0 {
            Kept::Fork(own) => {
                come("the exit was not called", || stage(1));
                if let Some(exit) = take(own) {
                    drop(exit);
                }
                come("the exit did not return", || stage(2));
                come("the exit was not dropped", || DROPPED.load(Acquire) == 1);
            }
            Kept::Event(_) => {
                come("the exit did not return", || stage(2));
                come("the exit was not dropped", || DROPPED.load(Acquire) == 1);
            }
            Kept::Two(_, other, _) => {
                come("the exit was not called", || stage(1));
                drop(other.take());
                GO_ON.store(1, Release);
            }
            Kept::Earlier(_, next, another) => {
                come("the exit was not called", || stage(1));
                // A change that does not concern either exit replaces the chain that the sleeper is
                // in.
                match another.arm() {
                    Ok(()) => drop(next.take()),
                    Err(_) => harm("no other exit"),
                }
                GO_ON.store(1, Release);
                come("the exit did not return", || stage(2));
                // The dispatch continues.
                fsleep(Delta::from_millis(300));
            }
            Kept::Locked(sleeper, other, _, lock) => {
                come("the exit was not called", || stage(1));
                drop(sleeper.take());
                let guard = lock.lock();
                GO_ON.store(1, Release);
                // Nothing changes, but the registry is asked often.
                let mut asked = 0;
                while asked < 100_000 && DROPPED.load(Acquire) == 0 {
                    if other.arm().is_err() {
                        harm("cannot arm");
                    }
                    asked += 1;
                }
                drop(guard);
                come("the exit was not dropped", || DROPPED.load(Acquire) == 1);
            }
            Kept::Nothing => {}
        }
        pr_info!("over\n");
    }
}
