// SPDX-License-Identifier: GPL-2.0

//! The functions of the running kernel or of a recording's, and those of processes.

#![deny(unsafe_code)]

mod processes;

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::time::Duration;
use std::time::Instant;

use super::event::is_of_user;
use crate::kallsyms::Kallsyms;
use crate::kallsyms::Modules;
use crate::kallsyms::Symbol;
use crate::kallsyms::demangled;
use crate::near::near;
use processes::Processes;

/// Time for which the loaded modules are taken to be the same.
const FRESH: Duration = Duration::from_millis(100);

/// The list is read again for an address that it does not have, at most for this part of the time.
const SHARE: u32 = 20;

/// The functions of a kernel whose modules may change.
#[derive(Debug)]
struct Later {
    /// The time of the last look.
    looked: Instant,
    /// The time from which the list may be read again, although the modules are the same.
    due: Instant,
    modules: Modules,
    /// The latest list, if there is another than the first.
    list: Option<Kallsyms>,
}

/// Functions, by address, and those of processes.
#[derive(Debug, Default)]
pub struct Symbols {
    list: Kallsyms,
    processes: RefCell<Processes>,
    /// None for a recording.
    later: Option<RefCell<Later>>,
}

/// Returns `SYMBOL+0xOFFSET` of an address in a function, with the `[MODULE]` of that.
fn describe(symbol: Symbol<'_>, address: u64) -> String {
    let (name, offset) = (demangled(symbol.name), address - symbol.address);
    match symbol.module {
        Some(module) => format!("{name}+{offset:#x} [{module}]"),
        None => format!("{name}+{offset:#x}"),
    }
}

impl Symbols {
    /// Reads the running kernel's.
    pub fn read() -> io::Result<Self> {
        let modules = Modules::running();
        let began = Instant::now();
        let list = Kallsyms::running(&modules)?;
        Ok(Self {
            list,
            later: Some(RefCell::new(Later {
                looked: Instant::now(),
                due: Instant::now() + began.elapsed() * SHARE,
                modules,
                list: None,
            })),
            ..Self::default()
        })
    }

    pub(crate) fn parse(text: &str) -> Self {
        Self {
            list: Kallsyms::parse(text.to_owned()),
            ..Self::default()
        }
    }

    /// Parses those of a recording, with the mappings of its processes, as
    /// [`crate::merge::calls::processes`] has them.
    pub fn recorded(kallsyms: &str, maps: &str) -> Self {
        Self {
            processes: RefCell::new(Processes::recorded(maps)),
            ..Self::parse(kallsyms)
        }
    }

    /// The name of the function of a call of a thread, without the offset.
    pub fn function(&self, address: u64, pid: i32) -> String {
        let name = self.call(address, pid).replace(';', ":");
        // An offset is before the file.
        match name.split_once("+0x") {
            Some((function, rest)) => {
                let file = rest
                    .find(' ')
                    .and_then(|at| rest.get(at..))
                    .unwrap_or_default();
                format!("{function}{file}")
            }
            None => name,
        }
    }

    /// Returns `SYMBOL+0xOFFSET` of an address, with `[MODULE]` if it is in one; the address if no
    /// function is there.
    pub fn describe(&self, address: u64) -> String {
        let first = self.list.at(address);
        if let Some(symbol) = first.filter(|symbol| symbol.module.is_none()) {
            return describe(symbol, address);
        }
        // Modules come, where others were before them.
        let later = self.later.as_ref().and_then(|later| {
            let mut later = later.borrow_mut();
            later.look(|list| first.or_else(|| list?.at(address)).is_some());
            let symbol = later.list.as_ref()?.at(address)?;
            Some(describe(symbol, address))
        });
        later
            .or_else(|| first.map(|symbol| describe(symbol, address)))
            .unwrap_or_else(|| format!("{address:#x}"))
    }

    /// Describes a call of a thread. One of user space has the name of its file in brackets.
    pub fn call(&self, address: u64, pid: i32) -> String {
        match is_of_user(address) {
            true => self.processes.borrow_mut().describe(address, pid),
            false => self.describe(address),
        }
    }

    /// Returns the functions of this name, by address.
    fn called(&self, name: &str) -> Vec<Symbol<'_>> {
        let mut found = self.list.get(name);
        found.retain(Symbol::is_code);
        found.sort_by_key(|symbol| symbol.address);
        found
    }

    /// Returns the number of functions with this name.
    pub fn count(&self, name: &str) -> usize {
        self.called(name).len()
    }

    /// Returns the module of the first function of this name, if it is in one.
    pub fn module_of(&self, name: &str) -> Option<&str> {
        self.called(name).first()?.module
    }

    /// Returns true if functions of a module are known.
    pub fn has_module(&self, module: &str) -> bool {
        self.list.has_module(module)
    }

    /// Returns the functions that a kernel has when it has booted, by address.
    pub fn functions(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.list.functions()
    }

    /// Returns those functions whose names match, as the linker or as their language has them.
    pub fn matching(
        &self,
        is_match: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
        self.functions().filter_map(move |symbol| {
            let name = demangled(symbol.name);
            (is_match(&name) || is_match(symbol.name)).then_some((symbol.address, name))
        })
    }

    /// Returns names similar to this one.
    pub fn near(&self, name: &str) -> Vec<String> {
        let known = self.functions().map(|known| demangled(known.name));
        let known: Vec<Cow<'_, str>> = known.collect();
        near(name, known.iter().map(|known| &**known))
    }
}

impl Later {
    /// Reads the functions again if other modules are loaded than before, or if the last list lacks
    /// an address: BPF programs and trampolines are in no list of modules.
    fn look(&mut self, is_known: impl Fn(Option<&Kallsyms>) -> bool) {
        if self.looked.elapsed() < FRESH {
            return;
        }
        self.looked = Instant::now();
        let modules = Modules::running();
        let is_due = self.looked >= self.due && !is_known(self.list.as_ref());
        if modules != self.modules || is_due {
            // Without them there are numbers.
            self.list = Some(Kallsyms::running(&modules).unwrap_or_default());
            self.due = Instant::now() + self.looked.elapsed() * SHARE;
            self.modules = modules;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000100 T kernel_clone
ffffffff81000200 t do_sys_openat2
ffffffff81000300 t copy_process.isra.0
ffffffff81000080 T _stext
ffffffff81000400 D kernel_clones
ffffffffa0000000 t init_module\t[mod]
ffffffff81000500 t init_module
";

    #[test]
    fn addresses() {
        let symbols = Symbols::parse(KALLSYMS);
        assert_eq!(symbols.describe(0xffff_ffff_8100_0100), "kernel_clone+0x0");
        assert_eq!(symbols.describe(0xffff_ffff_8100_01ff), "kernel_clone+0xff");
        assert_eq!(
            symbols.describe(0xffff_ffff_a000_0001),
            "init_module+0x1 [mod]"
        );
        assert_eq!(symbols.describe(5), "0x5");
        assert_eq!(symbols.module_of("kernel_clone"), None);
        assert_eq!(symbols.module_of("no_such"), None);
        assert_eq!(symbols.count("init_module"), 2);
        assert_eq!(symbols.count("kernel_clones"), 0);
    }

    #[test]
    fn near_names() {
        let symbols = Symbols::parse(KALLSYMS);
        assert_eq!(symbols.near("kernel_clome"), ["kernel_clone"]);
        assert_eq!(symbols.near("copy_process"), ["copy_process.isra.0"]);
        assert_eq!(symbols.near("__do_sys_openat2"), ["do_sys_openat2"]);
    }
}
