// SPDX-License-Identifier: GPL-2.0

//! Code of a kernel's image that a CPU executes before it can handle breakpoints, found by
//! following the code from its start; and the probeable part of it.

use ferro_core::insn::Flow;
use ferro_core::insn::Insn;
use ferro_core::insn::Target;
use ferro_kprobes_core::blacklist_names;
use object::Object as _;
use object::ObjectSection as _;
use object::ObjectSymbol as _;
use object::SectionFlags;
use object::elf::SHF_ALLOC;
use object::elf::SHF_EXECINSTR;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Entry points of CPUs: of those that are brought online, in a guest with encrypted memory, after
/// a suspension, and with memory from a disk. Each kernel has the first two. The last returns to
/// the caller of `swsusp_arch_suspend()`, whose next instruction is the call that restores the
/// rest: that caller is not examined.
const ROOTS: [&str; 7] = [
    "secondary_startup_64",
    "start_secondary",
    "secondary_startup_64_no_verify",
    "soft_restart_cpu",
    "wakeup_long64",
    "core_restore_code",
    "restore_registers",
];

/// The function that contains, as an operand, the address where a CPU resumes after a suspension.
const RESUMES: &str = "do_suspend_lowlevel";

/// Functions that load an IDT without breakpoints.
const NO_TABLE: [&str; 2] = ["early_setup_idt", "startup_64_load_idt"];

/// Functions called after FRED has been enabled. With FRED, CPUs handle breakpoints without an IDT.
const WITH_FRED: [&str; 2] = ["idt_invalidate", "cpu_init_fred_rsps"];

/// Functions never called there: reports of defects, and functions called only with interrupts on.
/// Interrupts are off there.
const NEVER: [&str; 8] = [
    "panic",
    "__warn_printk",
    "__WARN_trap",
    "__stack_chk_fail",
    "kasan_report",
    "trace_hardirqs_on",
    "trace_hardirqs_off",
    "sev_es_terminate",
];

/// Functions that may run any code, and are not followed: events, which the user enables. See
/// Documentation/kprobes.rst.
const EVENTS: [&str; 2] = ["do_trace_write_msr", "do_trace_read_msr"];

/// A flag of an alternative (`ALT_FLAG_DIRECT_CALL`).
const DIRECT_CALL: u8 = 2;

/// Limit of functions that are called early. With more, the walk follows one that is never called.
const MOST: usize = 150;

/// A part of the image.
struct Section {
    start: u64,
    bytes: Vec<u8>,
    executable: bool,
}

/// An instruction that the kernel may replace when it boots.
struct Alternative {
    replacement: Range<u64>,
    /// Address behind the replaced instructions.
    next: u64,
}

/// An image.
pub struct Image {
    sections: Vec<Section>,
    /// Code, by address; of more than one name, all.
    names: BTreeMap<u64, Vec<String>>,
    addresses: BTreeMap<String, u64>,
    labels: BTreeMap<u64, u64>,
    alternatives: BTreeMap<u64, Vec<Alternative>>,
    /// The code that stays when the kernel has booted.
    text: Range<u64>,
    /// Ranges that the kernel itself marks as forbidden.
    forbidden: Vec<Range<u64>>,
    marked: BTreeSet<u64>,
}

impl Image {
    /// Reads an image.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or lacks symbols that each of our kernels has.
    pub fn read(file: &Path) -> Result<Self, Box<dyn Error>> {
        let data = fs::read(file)?;
        let image = object::File::parse(&*data)?;
        let mut sections = Vec::new();
        for section in image.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                continue;
            };
            // Per-CPU variables may lie at 0.
            if sh_flags.contains(SHF_ALLOC) && section.address() != 0 {
                sections.push(Section {
                    start: section.address(),
                    bytes: section.data()?.to_vec(),
                    executable: sh_flags.contains(SHF_EXECINSTR),
                });
            }
        }
        let mut this = Self {
            sections,
            names: BTreeMap::new(),
            addresses: BTreeMap::new(),
            labels: BTreeMap::new(),
            alternatives: BTreeMap::new(),
            text: 0..0,
            forbidden: Vec::new(),
            marked: BTreeSet::new(),
        };
        for symbol in image.symbols() {
            let (name, at) = (symbol.name()?, symbol.address());
            this.addresses.insert(name.to_string(), at);
            // Names of the bounds of sections are no names of code.
            let bound = name.ends_with("_start") || name.ends_with("_end") || name == "_stext";
            let local = name.is_empty() || name.starts_with(".L") || name.starts_with("__pfx_");
            if !local && !bound && this.code(at).is_some() {
                this.names.entry(at).or_default().push(name.to_string());
            }
        }
        this.read_tables()?;
        Ok(this)
    }

    fn read_tables(&mut self) -> Result<(), Box<dyn Error>> {
        let labels = self.range("__start___jump_table", "__stop___jump_table")?;
        for at in labels.step_by(16) {
            self.labels
                .insert(self.relative(at)?, self.relative(at + 4)?);
        }
        let alternatives = self.range("__alt_instructions", "__alt_instructions_end")?;
        for at in alternatives.step_by(14) {
            let (site, replacement) = (self.relative(at)?, self.relative(at + 4)?);
            // The same call, but direct instead of through memory.
            let flags = self.bytes(at + 10, 1).ok_or("no flags")?[0];
            if flags & DIRECT_CALL != 0 {
                continue;
            }
            let lengths = self.bytes(at + 12, 2).ok_or("no lengths")?;
            let (next, end) = (
                site + u64::from(lengths[0]),
                replacement + u64::from(lengths[1]),
            );
            self.alternatives
                .entry(site)
                .or_default()
                .push(Alternative {
                    replacement: replacement..end,
                    next,
                });
        }
        self.text = self.range("_stext", "_etext")?;
        for (from, to) in [
            ("__kprobes_text_start", "__kprobes_text_end"),
            ("__noinstr_text_start", "__noinstr_text_end"),
            ("__entry_text_start", "__entry_text_end"),
        ] {
            let range = self.range(from, to)?;
            self.forbidden.push(range);
        }
        let marked = self.range("__start_kprobe_blacklist", "__stop_kprobe_blacklist")?;
        for at in marked.step_by(8) {
            let function = self.word(at).ok_or("no list of what is not probed")?;
            self.marked.insert(function);
        }
        Ok(())
    }

    fn range(&self, from: &str, to: &str) -> Result<Range<u64>, Box<dyn Error>> {
        let at = |name: &str| {
            let found = self.addresses.get(name).copied();
            found.ok_or_else(|| format!("no {name}"))
        };
        Ok(at(from)?..at(to)?)
    }

    fn bytes(&self, at: u64, len: usize) -> Option<&[u8]> {
        self.sections.iter().find_map(|section| {
            let offset = usize::try_from(at.checked_sub(section.start)?).ok()?;
            section.bytes.get(offset..offset.checked_add(len)?)
        })
    }

    fn word(&self, at: u64) -> Option<u64> {
        let bytes = self.bytes(at, 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Reads a field that holds a distance from itself.
    fn relative(&self, at: u64) -> Result<u64, Box<dyn Error>> {
        let bytes = self.bytes(at, 4).ok_or("no such field")?;
        let distance = i32::from_le_bytes(bytes.try_into()?);
        Ok(at.wrapping_add_signed(i64::from(distance)))
    }

    /// Code from an address on.
    fn code(&self, at: u64) -> Option<&[u8]> {
        let mut code = self.sections.iter().filter(|section| section.executable);
        code.find_map(|section| {
            let offset = usize::try_from(at.checked_sub(section.start)?).ok()?;
            section.bytes.get(offset..).filter(|code| !code.is_empty())
        })
    }

    /// The symbol that an address is in: where it begins, and its names.
    fn symbol(&self, at: u64) -> Option<(u64, &[String])> {
        let (start, names) = self.names.range(..=at).next_back()?;
        Some((*start, names))
    }

    /// The symbol that an address is in, for people.
    pub fn name(&self, at: u64) -> String {
        match self.symbol(at) {
            Some((start, names)) => format!("{}+{:#x}", names[0], at - start),
            None => format!("{at:#x}"),
        }
    }

    fn is(&self, at: u64, names: &[&str]) -> bool {
        let its = self.names.get(&at).map_or(&[][..], |names| names);
        let plain = |name: &str| {
            let name = name.strip_prefix("__pi_").unwrap_or(name);
            names.contains(&name.split('.').next().unwrap_or(name))
        };
        its.iter().any(|name| plain(name))
    }

    /// Returns true if a probe at an address of code is refused, regardless of its instruction.
    pub fn is_refused(&self, at: u64) -> bool {
        let by_mark = |at: u64, start: u64| {
            self.forbidden.iter().any(|range| range.contains(&at)) || self.marked.contains(&start)
        };
        let Some((start, names)) = self.symbol(at) else {
            return true;
        };
        let by_name = |name: &String| {
            let origin = name.split('.').next().unwrap_or(name);
            let origin = self.addresses.get(origin).copied();
            blacklist_names::refuses(name.as_bytes()).is_some()
                || name.contains('.') && origin.is_some_and(|origin| by_mark(origin, origin))
        };
        !self.text.contains(&at) || by_mark(at, start) || names.iter().all(by_name)
    }

    /// The addresses in a function that operands in it are.
    fn addresses_within(&self, function: &str) -> Vec<u64> {
        let mut found = Vec::new();
        let Some(&start) = self.addresses.get(function) else {
            return found;
        };
        let end = self
            .names
            .range(start + 1..)
            .next()
            .map_or(start, |(end, _)| *end);
        let mut at = start;
        while at < end {
            let Some(insn) = self.code(at).and_then(|code| Insn::decode(code).ok()) else {
                break;
            };
            let operand = u64::from_le_bytes(insn.immediate().to_le_bytes());
            found.extend((start..end).contains(&operand).then_some(operand));
            at += insn.len() as u64;
        }
        found
    }

    /// Functions that can be probed and load a table of interrupts.
    pub fn loaders(&self) -> Vec<String> {
        let mut found = BTreeSet::new();
        let starts = self.names.keys().copied();
        let ends = starts.clone().skip(1).chain([u64::MAX]);
        for (start, end) in starts.zip(ends) {
            let mut at = start;
            while at < end && !self.is_refused(start) {
                let Some(insn) = self.code(at).and_then(|code| Insn::decode(code).ok()) else {
                    break;
                };
                if is_lidt(&insn) {
                    found.insert(self.name(start));
                }
                at += insn.len() as u64;
            }
        }
        found.into_iter().collect()
    }
}

/// Returns true if the instruction loads the IDT register.
fn is_lidt(insn: &Insn) -> bool {
    let modrm = insn.modrm();
    let fits = modrm.is_some_and(|modrm| modrm.reg() == 3 && modrm.mode() != 3);
    insn.map() == 1 && insn.opcode() == 1 && fits
}

/// Execution of a function: its start, and true if a table that it loads has breakpoints.
type Way = (u64, bool);

/// Successors of an instruction within a function.
#[derive(Default)]
struct Step {
    next: Vec<u64>,
    called: Vec<u64>,
    returns: bool,
    /// The image does not say where the code continues.
    lost: bool,
}

/// Code that runs before a CPU can handle breakpoints.
pub struct Early<'a> {
    image: &'a Image,
    /// Instructions, and the functions that were called to get there.
    instructions: BTreeMap<u64, u64>,
    /// Addresses from which the code cannot be followed further.
    lost: BTreeSet<u64>,
    /// Called functions, with true for those that return without an IDT.
    functions: BTreeMap<Way, bool>,
    /// First caller of each function.
    callers: BTreeMap<u64, u64>,
}

impl<'a> Early<'a> {
    /// Follows the code from where CPUs start.
    pub fn of(image: &'a Image) -> Self {
        let mut this = Self {
            image,
            instructions: BTreeMap::new(),
            lost: BTreeSet::new(),
            functions: BTreeMap::new(),
            callers: BTreeMap::new(),
        };
        for root in ROOTS {
            if let Some(at) = image.addresses.get(root) {
                this.functions.insert((*at, true), false);
            }
        }
        for at in image.addresses_within(RESUMES) {
            this.functions.insert((at, true), false);
        }
        // Until no further call or return is found.
        loop {
            let before = this.functions.clone();
            for way in before.keys() {
                this.follow(*way);
            }
            if this.functions == before || this.functions.len() > MOST {
                return this;
            }
        }
    }

    /// Follows a function.
    fn follow(&mut self, way: Way) {
        let (start, counts) = way;
        let mut left = vec![start];
        let mut seen = BTreeSet::new();
        while let Some(at) = left.pop() {
            if !seen.insert(at) {
                continue;
            }
            let step = self.at(at, counts);
            self.instructions.entry(at).or_insert(start);
            if step.lost {
                self.lost.insert(at);
            }
            for called in step.called {
                let counts = counts && !self.image.is(called, &NO_TABLE);
                self.functions.entry((called, counts)).or_insert(false);
                self.callers.entry(called).or_insert(start);
            }
            if step.returns {
                self.functions.insert(way, true);
            }
            left.extend(step.next);
        }
    }

    /// Returns the successors of the instruction at an address, or of its replacement.
    fn at(&self, at: u64, counts: bool) -> Step {
        let mut step = Step::default();
        step.next.extend(self.image.labels.get(&at));
        self.add(at, counts, &mut step);
        for alternative in self.image.alternatives.get(&at).into_iter().flatten() {
            // All of the replacement, regardless of branches inside it.
            let (mut within, range) = (Step::default(), &alternative.replacement);
            let mut at = range.start;
            while at < range.end {
                at = self.add(at, counts, &mut within);
            }
            if range.is_empty() || within.next.contains(&range.end) {
                step.next.push(alternative.next);
            }
            let away = |next: &u64| !(range.start..=range.end).contains(next);
            step.next.extend(within.next.into_iter().filter(away));
            step.called.extend(within.called);
            step.returns |= within.returns;
            step.lost |= within.lost;
        }
        step
    }

    /// Adds the successors of an instruction. Returns the address of the next one.
    fn add(&self, at: u64, counts: bool, step: &mut Step) -> u64 {
        let image = self.image;
        let insn = image.code(at).and_then(|code| Insn::decode(code).ok());
        let Some(insn) = insn else {
            step.lost = true;
            return at + 1;
        };
        let next = at + insn.len() as u64;
        if is_lidt(&insn) && counts {
            return next;
        }
        match insn.flow() {
            Flow::Next | Flow::Halt => step.next.push(next),
            Flow::Loop(..) | Flow::JumpIf(..) => {
                step.next.push(next);
                step.next.extend(insn.branch_target(at));
            }
            Flow::Return(_) => step.returns = true,
            Flow::Undefined | Flow::Interrupt(3) => {}
            Flow::Jump(target) => match self.target(&insn, target, at) {
                Some(to) if image.is(to, &["__x86_return_thunk"]) => step.returns = true,
                Some(to) if self.is_end(to) => {}
                Some(to) if self.is_passed(to) => step.returns = true,
                Some(to) if image.names.contains_key(&to) => {
                    // A last call.
                    step.called.push(to);
                    step.returns |= self.returns(to, counts);
                }
                Some(to) => step.next.push(to),
                None => step.lost = true,
            },
            Flow::Call(target) => match self.target(&insn, target, at) {
                Some(to) if self.is_end(to) => {}
                Some(to) if self.is_passed(to) => step.next.push(next),
                Some(to) => {
                    step.called.push(to);
                    if self.returns(to, counts) {
                        step.next.push(next);
                    }
                }
                None => {
                    step.lost = true;
                    step.next.push(next);
                }
            },
            _ => step.lost = true,
        }
        next
    }

    /// Returns the target of a branch, if the image has it.
    fn target(&self, insn: &Insn, target: Target, at: u64) -> Option<u64> {
        let to = match target {
            Target::Memory(_) => {
                let word = insn.rip_relative_target(at)?;
                if self.image.addresses.get("initial_code") == Some(&word) {
                    // The image has the entry point of the first CPU. Those of the others are
                    // roots.
                    return None;
                }
                self.image.word(word)
            }
            _ => insn.branch_target(at),
        };
        to.filter(|to| self.image.code(*to).is_some())
    }

    fn returns(&self, function: u64, counts: bool) -> bool {
        let counts = counts && !self.image.is(function, &NO_TABLE);
        let returns = self.functions.get(&(function, counts));
        returns.is_some_and(|returns| *returns)
    }

    /// Returns true if neither the called function nor the code after the call is of interest.
    fn is_end(&self, function: u64) -> bool {
        let names = self.image.names.get(&function);
        let mut names = names.into_iter().flatten();
        let known = self.image.is(function, &WITH_FRED) || self.image.is(function, &NEVER);
        known
            || names.any(|name| {
                name.starts_with("__asan_report_") || name.starts_with("__ubsan_handle_")
            })
    }

    /// Returns true if the function is called, but not followed.
    fn is_passed(&self, function: u64) -> bool {
        // These do nothing unless a user traces.
        self.image.is(function, &["__fentry__"]) || self.image.is(function, &EVENTS)
    }

    /// Describes the chain of calls to a function, for people.
    fn way_to(&self, function: u64) -> String {
        let callers = |at: &u64| self.callers.get(at).copied();
        let way = std::iter::successors(Some(function), callers).take(MOST);
        way.map(|at| self.image.name(at))
            .collect::<Vec<_>>()
            .join(" < ")
    }

    /// Returns the functions that run early and can be probed, with their callers.
    pub fn probeable(&self) -> Vec<String> {
        let mut found = BTreeMap::new();
        for (at, caller) in &self.instructions {
            if !self.image.is_refused(*at) {
                let start = self.image.symbol(*at).map_or(0, |(start, _)| start);
                found.entry(start).or_insert_with(|| {
                    format!("{}, by {}", self.image.name(*at), self.way_to(*caller))
                });
            }
        }
        found.into_values().collect()
    }

    /// Returns the symbols of the code that runs early.
    pub fn symbols(&self) -> BTreeSet<&str> {
        let symbols = self.instructions.keys();
        let symbols = symbols.filter_map(|at| self.image.symbol(*at));
        symbols
            .flat_map(|(_, names)| names.iter().map(String::as_str))
            .collect()
    }

    /// Returns the places from which the code cannot be followed further.
    pub fn lost(&self) -> BTreeSet<&str> {
        let symbols = self.lost.iter().filter_map(|at| self.image.symbol(*at));
        symbols.map(|(_, names)| names[0].as_str()).collect()
    }
}
