// SPDX-License-Identifier: GPL-2.0

//! Names of functions, as ftrace lists them, and the types of their parameters and return values.

#![deny(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use super::event::ARGUMENTS;
use super::value::Type;
use crate::functions::available::Functions;
use crate::functions::available::is_loaded;
use crate::functions::error::Result;
use crate::functions::glob::Glob;
use crate::probes::symbols::Symbols;
use crate::probes::types::Id;
use crate::probes::types::Named;
use crate::probes::types::Shape;
use crate::probes::types::Source;
use crate::probes::types::Types;

/// Starts of the names of functions that begin a system call.
const SYSCALLS: [&str; 4] = [
    "__x64_sys_",
    "__ia32_sys_",
    "__x64_compat_sys_",
    "__ia32_compat_sys_",
];

/// Types of the kernel's functions. Those of DWARF take too long to read.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Name of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Name; demangled if the function is written in Rust.
    pub name: String,
    /// Module.
    pub module: Option<String>,
    /// System call that the function begins.
    pub syscall: Option<String>,
}

impl Name {
    fn new(name: &str, module: Option<&str>) -> Self {
        let mut starts = SYSCALLS.iter();
        let syscall = starts.find_map(|start| name.strip_prefix(start));
        Self {
            name: name.to_owned(),
            module: module.map(str::to_owned),
            syscall: syscall.map(str::to_owned),
        }
    }

    /// Returns the name with the module in brackets.
    pub fn text(&self) -> String {
        match &self.module {
            Some(module) => format!("{} [{module}]", self.name),
            None => self.name.clone(),
        }
    }
}

/// Types of a function's values in registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Type of the return value.
    pub returns: Type,
    /// Types of the parameters, the first of which are in registers in this order.
    pub parameters: Vec<Type>,
}

/// Functions by the addresses at which ftrace traces them.
#[derive(Default)]
pub struct Names {
    functions: Functions,
    symbols: Symbols,
    /// True if the kernel has BTF.
    has_types: bool,
    /// Types of the kernel and of modules, read when they are needed; `None` if that fails.
    types: RefCell<HashMap<Option<String>, Option<Box<dyn Types>>>>,
    known: RefCell<HashMap<u64, Rc<Name>>>,
    signatures: RefCell<HashMap<u64, Rc<Signature>>>,
}

impl Names {
    /// Reads the functions of the running kernel.
    pub fn read() -> Result<Self> {
        Ok(Self {
            functions: Functions::read()?,
            // They have the functions of modules that are loaded later.
            symbols: Symbols::read().unwrap_or_default(),
            has_types: Path::new(BTF).exists(),
            ..Self::default()
        })
    }

    /// Returns the functions that match patterns. Each pattern has to match one.
    pub fn select(&self, patterns: &[Glob]) -> Result<BTreeSet<u64>> {
        let chosen = self
            .functions
            .select(patterns, None, &self.symbols, is_loaded)?;
        Ok(chosen.addresses().collect())
    }

    /// Returns the name of a function.
    pub fn get(&self, func: u64) -> Rc<Name> {
        let mut known = self.known.borrow_mut();
        let name = known.entry(func).or_insert_with(|| {
            Rc::new(match self.functions.get(func) {
                Some(found) => Name::new(&found.name, found.module.as_deref()),
                None => self.described(func),
            })
        });
        Rc::clone(name)
    }

    /// Returns the type of a function's value.
    pub fn returns(&self, func: u64) -> Type {
        self.signature(func).returns
    }

    /// Returns the types of a function's values. Those of a function without known types are
    /// unknown, and only its first parameter is listed.
    pub fn signature(&self, func: u64) -> Rc<Signature> {
        if let Some(known) = self.signatures.borrow().get(&func) {
            return Rc::clone(known);
        }
        let name = self.get(func);
        let found = self.find_signature(&name.name, name.module.as_deref());
        let signature = Rc::new(found.unwrap_or_else(|| Signature {
            returns: Type::Unknown,
            parameters: vec![Type::Unknown],
        }));
        let mut known = self.signatures.borrow_mut();
        known.insert(func, Rc::clone(&signature));
        signature
    }

    /// Returns the types of a function's values, if BTF has the function.
    fn find_signature(&self, name: &str, module: Option<&str>) -> Option<Signature> {
        if !self.has_types {
            return None;
        }
        let mut types = self.types.borrow_mut();
        let types = types
            .entry(module.map(str::to_owned))
            .or_insert_with(|| Source::default().open(module).ok());
        let types = types.as_deref()?;
        let function = |name| types.function(Named { name, start: None }).ok()?;
        // BTF has no endings of the compiler, such as ".constprop.0".
        let (of_source, _) = name.split_once('.').unwrap_or((name, ""));
        let function = function(name).or_else(|| function(of_source))?;
        let of = |ty: Id| {
            Some(match types.shape(ty).ok()? {
                Shape::Number { size, signed, .. } if signed => Type::Signed(size),
                Shape::Number { size, .. } => Type::Unsigned(size),
                Shape::Pointer { .. } => Type::Pointer,
                _ => Type::Unknown,
            })
        };
        let parameters = function.parameters.iter().map_while(|parameter| {
            // A structure may take any number of registers.
            of(parameter.ty).filter(|ty| *ty != Type::Unknown)
        });
        Some(Signature {
            returns: function.returns.map_or(Some(Type::Nothing), of)?,
            parameters: parameters.take(ARGUMENTS).collect(),
        })
    }

    /// Returns the name of a function that was loaded after the list was read.
    fn described(&self, func: u64) -> Name {
        let text = self.symbols.describe(func);
        // The name of a function of Rust may have this sign, too.
        let (name, rest) = text.rsplit_once('+').unwrap_or((&text, ""));
        let module = rest
            .split_once(" [")
            .and_then(|(_, end)| end.strip_suffix(']'));
        Name::new(name, module)
    }

    /// Sets names for tests.
    #[cfg(test)]
    pub(crate) fn of(list: &str) -> Self {
        Self {
            functions: Functions::parse(list, std::path::Path::new("list")).unwrap(),
            ..Self::default()
        }
    }

    /// Sets the types of a function for tests.
    #[cfg(test)]
    pub(crate) fn know(&self, func: u64, returns: Type, parameters: &[Type]) {
        let signature = Signature {
            returns,
            parameters: parameters.to_vec(),
        };
        let mut known = self.signatures.borrow_mut();
        known.insert(func, Rc::new(signature));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let names = Names::of(
            "ffffffff81000004 __x64_sys_openat\n\
             ffffffffa0000004 _RNvCs1234_5relay4open [rust_relay]\n",
        );
        let open = names.get(0xffff_ffff_8100_0004);
        assert_eq!(open.text(), "__x64_sys_openat");
        assert_eq!(open.syscall.as_deref(), Some("openat"));
        let rust = names.get(0xffff_ffff_a000_0004);
        assert_eq!(rust.text(), "relay::open [rust_relay]");
        assert_eq!(rust.syscall, None);
        assert_eq!(names.get(5).text(), "0x5");
        let all: Vec<Glob> = vec!["__x64_*".parse().unwrap()];
        assert_eq!(names.select(&all).unwrap().len(), 1);
        assert!(names.select(&["nothing".parse().unwrap()]).is_err());
    }
}
