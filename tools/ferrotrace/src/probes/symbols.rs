// SPDX-License-Identifier: GPL-2.0

//! The kernel's functions, from `/proc/kallsyms`.

#![deny(unsafe_code)]

mod processes;
mod table;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use std::time::Instant;

use super::event::is_of_user;
use crate::near::near;
use processes::Processes;
use table::Symbol;
use table::Table;
pub(crate) use table::running;

/// How long the modules that are loaded are taken to be the same.
const FRESH: Duration = Duration::from_millis(100);

/// The functions of a kernel whose modules may change.
#[derive(Debug)]
struct Later {
    /// When that was looked at.
    looked: Instant,
    modules: BTreeMap<String, (u64, u64)>,
    /// The functions since the modules have changed.
    table: Option<Table>,
}

/// Functions, by address, and those of processes.
#[derive(Debug, Default)]
pub struct Symbols {
    table: Table,
    /// Their places in that order, by name, then by address.
    by_name: Vec<usize>,
    processes: RefCell<Processes>,
    /// None for a recording.
    later: Option<RefCell<Later>>,
}

impl Symbols {
    /// Reads the running kernel's.
    pub fn read() -> io::Result<Self> {
        let modules = table::modules();
        Ok(Self {
            later: Some(RefCell::new(Later {
                looked: Instant::now(),
                modules: modules.clone(),
                table: None,
            })),
            ..Self::of(Table::running(&modules)?)
        })
    }

    pub(crate) fn parse(text: &str) -> Self {
        Self::of(Table::parse(text))
    }

    fn of(table: Table) -> Self {
        let mut by_name: Vec<_> = (0..table.functions.len()).collect();
        by_name.sort_by_key(|at| table.functions.get(*at).map(|symbol| &*symbol.name));
        Self {
            by_name,
            table,
            ..Self::default()
        }
    }

    /// Those of a recording, with what its processes mapped, as [`crate::merge::calls::processes`] has it.
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
        let text = |symbol: &Symbol| {
            let (name, offset) = (&symbol.name, address - symbol.address);
            match &symbol.module {
                Some(module) => format!("{name}+{offset:#x} [{module}]"),
                None => format!("{name}+{offset:#x}"),
            }
        };
        let first = self.table.at(address);
        if let Some(symbol) = first.filter(|symbol| symbol.module.is_none()) {
            return text(symbol);
        }
        // Modules come, where others were before them.
        let later = self.later.as_ref().map(|later| {
            let mut later = later.borrow_mut();
            later.look();
            later
                .table
                .as_ref()
                .and_then(|table| table.at(address))
                .map(text)
        });
        later
            .flatten()
            .or_else(|| first.map(text))
            .unwrap_or_else(|| format!("{address:#x}"))
    }

    /// The same of a call of a thread, which may be one of user space: then with the name of the file in brackets.
    pub fn call(&self, address: u64, pid: i32) -> String {
        match is_of_user(address) {
            true => self.processes.borrow_mut().describe(address, pid),
            false => self.describe(address),
        }
    }

    /// The functions of this name, by address.
    fn called<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a Symbol> {
        let named = |at: &usize| self.table.functions.get(*at);
        let is_before = |at: &usize| named(at).is_some_and(|symbol| &*symbol.name < name);
        let first = self.by_name.partition_point(is_before);
        let rest = self.by_name.iter().skip(first).filter_map(named);
        rest.take_while(move |symbol: &&'a Symbol| symbol.name == name)
    }

    /// How many functions have this name.
    pub fn count(&self, name: &str) -> usize {
        self.called(name).count()
    }

    /// The module with the function of this name, if the first one is in one.
    pub fn module_of(&self, name: &str) -> Option<&str> {
        self.called(name).next()?.module.as_deref()
    }

    /// Those that are still there and whose names `is_it` holds for, by address.
    pub fn matching(&self, is_it: impl Fn(&str) -> bool) -> impl Iterator<Item = (u64, &str)> {
        let gone = self.table.boot_code.clone();
        let all = self.table.functions.iter();
        let all = all.map(|symbol| (symbol.address, symbol.name.as_str()));
        all.filter(move |(address, name)| !gone.contains(address) && is_it(name))
    }

    /// Names similar to this one.
    pub fn near(&self, name: &str) -> Vec<String> {
        let known = self.table.functions.iter().map(|known| known.name.as_str());
        near(name, known)
    }
}

impl Later {
    /// Reads the functions again if other modules are loaded than before.
    fn look(&mut self) {
        if self.looked.elapsed() < FRESH {
            return;
        }
        self.looked = Instant::now();
        let modules = table::modules();
        if modules != self.modules {
            // Without them there are numbers.
            self.table = Some(Table::running(&modules).unwrap_or_default());
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
