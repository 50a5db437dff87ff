// SPDX-License-Identifier: GPL-2.0

//! Panics in an exit, which kills the task that called it. The call never returns: unloading the
//! module waited for it without end. Where exits may sleep, so did each task that disarmed another
//! exit of the hook. A module with such a call now counts as in use, and the death of a task ends
//! its dispatches that may sleep.
#![forbid(unsafe_code)]

use ferro_gkhi::define_hook;
use ferro_gkhi::hook;
use ferro_gkhi::Answer;
use ferro_gkhi::AnyExit;
use ferro_gkhi::Registered;
use ferro_gkhi::RegisteredHook;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::fs::debugfs::File;
use ferro_sys::fs::fops::FileTable;
use ferro_sys::fs::fops::NodeOps;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::fs::uaccess::UserSrc;
use ferro_sys::sync::refcounted::Shared;
use kernel::module::this_module;
use kernel::prelude::*;

module! {
    type: Client,
    name: "task_dies_in_exit",
    authors: ["Ferrotrace maintainers"],
    description: "Panics in exits",
    license: "GPL v2",
}

define_hook! {
    /// A hook with exits that must not sleep.
    static IN_TASK: InTask<'a> = c"sound_panic_task" in Task(panics: bool);
}

define_hook! {
    /// A hook with exits that may sleep.
    static IN_SLEEP: InSleep<'a> = c"sound_panic_sleep" in Sleep(panics: bool);
}

/// Fires a hook: 0 and 1 that where exits may sleep, 2 and 3 the other; 1 and 3 panic.
struct Fire(Registered<InSleep>);

impl NodeOps for Fire {
    // A file without the protection of debugfs, which would wait for the operation, too.
    const OUTLIVES: bool = true;

    fn read(&self, to: &mut UserDst) -> Result {
        self.0.disarm()?;
        self.0.arm()?;
        to.copy_at_position(b"disarmed\n")
    }

    fn write(&self, from: &UserSrc) -> Result {
        match from.number()? {
            number @ (0 | 1) => hook!(IN_SLEEP, number == 1),
            number => hook!(IN_TASK, number == 3),
        };
        Ok(())
    }
}

static FILES: FileTable<Shared<Fire>> = FileTable::new(this_module::<Client>());

struct Client {
    _file: File<Shared<Fire>>,
    _asleep: Registered<InSleep>,
    _task: Registered<InTask>,
    _hooks: [RegisteredHook; 2],
}

impl kernel::Module for Client {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let hooks = [
            RegisteredHook::register(&IN_TASK)?,
            RegisteredHook::register(&IN_SLEEP)?,
        ];
        let task = Registered::<InTask>::builder(c"task").register(|_, (panics,)| {
            assert!(!panics, "in an exit");
            Answer::Continue
        })?;
        let asleep = Registered::<InSleep>::builder(c"asleep").register(|_, (panics,)| {
            assert!(!panics, "in an exit that may sleep");
            Answer::Continue
        })?;
        let other = Registered::<InSleep>::builder(c"other").register(|_, _| Answer::Continue)?;
        Ok(Self {
            _file: DirRef::ROOT.file(
                c"sound_panics",
                0o600,
                &FILES,
                Shared::new(Ok(Fire(other)))?,
            )?,
            _asleep: asleep,
            _task: task,
            _hooks: hooks,
        })
    }
}
