// SPDX-License-Identifier: GPL-2.0

//! Reading and writing code, symbols, and what must not be probed.

use kernel::prelude::*;

#[kunit_tests(ferro_sys_text)]
mod suite {
    use crate::blacklist;
    use crate::blacklist::Rule;
    use crate::code::symbols;
    use crate::code::symbols::NoOwner;
    use crate::code::symbols::Owner;
    use crate::code::symbols::NAME_LEN;
    use crate::code::text::read_text;
    use crate::code::text::Gone;
    use crate::code::text::TextAddress;
    use crate::code::text::TextLock;
    use core::hint::black_box;
    use kernel::prelude::*;

    static DATA: u8 = 7;

    #[inline(never)]
    extern "C" fn victim(n: u32) -> u32 {
        black_box(n) + 1
    }

    fn data() -> usize {
        (&raw const DATA).addr()
    }

    fn named(name: &CStr) -> Result<usize> {
        symbols::lookup_name(name).ok_or(ENOENT)
    }

    fn rule(addr: usize) -> Option<Rule> {
        blacklist::forbids(addr).map(|forbidden| forbidden.rule)
    }

    #[test]
    fn a_byte_is_written_and_put_back() -> Result {
        let addr = victim as *const () as usize;
        let at = symbols::text_address(addr).ok_or(EINVAL)?;
        let mut before = [0];
        read_text(addr, &mut before)?;

        let mut lock = TextLock::new();
        assert!(lock.set_byte(at, 0xcc) == Ok(before[0]));
        lock.sync();
        let mut now = [0];
        read_text(addr, &mut now)?;
        assert_eq!(now[0], 0xcc);
        assert!(lock.set_byte(at, before[0]) == Ok(0xcc));
        lock.sync();
        drop(lock);
        assert_eq!(black_box(victim as extern "C" fn(u32) -> u32)(41), 42);
        Ok(())
    }

    #[test]
    fn only_code_is_written() {
        assert!(symbols::text_address(data()).is_none());
        assert!(symbols::text_address(0).is_none());
        let mut lock = TextLock::new();
        assert!(lock.set_byte(TextAddress::new_checked(data()), 1) == Err(Gone));
        assert_eq!(DATA, 7);
        assert!(read_text(8, &mut [0]).is_err());
        assert!(read_text(usize::MAX - 8, &mut [0]).is_err());
    }

    #[test]
    fn symbols_are_found() -> Result {
        let addr = named(c"vfs_read")?;
        let symbol = symbols::symbol_of(addr + 1).ok_or(EINVAL)?;
        assert!(symbol.start == addr && symbol.offset == 1 && symbol.size > 1);
        let mut buffer = [0; NAME_LEN];
        assert!(symbols::name_of(addr + 1, &mut buffer) == Some(c"vfs_read"));
        assert!(symbols::lookup_name(c"no such symbol").is_none());
        assert!(matches!(symbols::owner(addr), Ok(Owner::Kernel)));
        assert!(matches!(symbols::owner(data()), Err(NoOwner::NotText)));
        let is_site = symbols::is_ftrace_site;
        assert!((addr..addr + symbol.size).filter(|at| is_site(*at)).count() == 1);
        Ok(())
    }

    #[test]
    fn rules_are_told_apart() -> Result {
        assert!(rule(named(c"ferro_local_irq_save")? + 1) == Some(Rule::NokprobeSymbol));
        assert!(rule(named(c"asm_exc_int3")?) == Some(Rule::EntryText));
        assert!(rule(named(c"exc_int3")?) == Some(Rule::NoinstrText));
        assert!(rule(named(c"__kprobes_text_start")?) == Some(Rule::KprobesText));
        assert!(rule(named(c"vfs_read")?).is_none());
        assert!(rule(data()).is_none());
        Ok(())
    }

    #[test]
    fn all_that_is_forbidden_can_be_walked() -> Result {
        let (mut from, mut count, mut seen) = (0, 0, [false; 4]);
        while let Some(area) = blacklist::next_from(from) {
            assert!(area.start >= from && area.end > area.start);
            assert!(blacklist::forbids(area.start).is_some());
            assert!(blacklist::forbids(area.end - 1).is_some());
            match area.rule {
                Rule::KprobesText => seen[0] = true,
                Rule::NoinstrText => seen[1] = true,
                Rule::EntryText => seen[2] = true,
                Rule::NokprobeSymbol => seen[3] = true,
                Rule::Added => (),
            }
            from = area.end;
            count += 1;
        }
        assert!(count > 200 && seen == [true; 4]);
        Ok(())
    }

    #[test]
    fn what_is_added_is_forbidden_and_shown() -> Result {
        // Nobody's probe may be there in any case.
        let addr = named(c"ferro_next_possible_cpu")?;
        let size = symbols::symbol_of(addr).ok_or(EINVAL)?.size;
        assert!(rule(addr).is_none());
        assert_eq!(
            blacklist::kprobe_add_ksym_blacklist(addr),
            i32::try_from(size)?
        );
        assert!(rule(addr) == Some(Rule::Added) && rule(addr + size - 1) == Some(Rule::Added));
        assert!(rule(addr - 1) != Some(Rule::Added) && rule(addr + size) != Some(Rule::Added));
        let shown = blacklist::next_from(addr).ok_or(EINVAL)?;
        assert!(shown.start == addr && shown.end == addr + size && shown.rule == Rule::Added);
        assert_eq!(
            blacklist::kprobe_add_ksym_blacklist(data()),
            EINVAL.to_errno()
        );
        Ok(())
    }
}
