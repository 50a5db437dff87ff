// SPDX-License-Identifier: GPL-2.0

//! Tests of the blacklist.

use kernel::prelude::*;

#[kunit_tests(ferro_kprobes_blacklist)]
mod suite {
    use crate::raw::blacklist;
    use crate::raw::blacklist::Rule;
    use ferro_sys::code::kallsyms;
    use kernel::prelude::*;

    static DATA: u8 = 7;

    fn data() -> usize {
        (&raw const DATA).addr()
    }

    fn named(name: &CStr) -> Result<usize> {
        kallsyms::lookup_name(name).ok_or(ENOENT)
    }

    fn rule(addr: usize) -> Option<Rule> {
        blacklist::forbids(addr).map(|forbidden| forbidden.rule)
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
        // No probe may be there in any case.
        let addr = named(c"ferro_next_possible_cpu")?;
        let size = kallsyms::symbol_of(addr).ok_or(EINVAL)?.size;
        assert!(rule(addr).is_none());
        assert_eq!(blacklist::add(addr)?, size);
        assert!(rule(addr) == Some(Rule::Added) && rule(addr + size - 1) == Some(Rule::Added));
        assert!(rule(addr - 1) != Some(Rule::Added) && rule(addr + size) != Some(Rule::Added));
        let shown = blacklist::next_from(addr).ok_or(EINVAL)?;
        assert!(shown.start == addr && shown.end == addr + size && shown.rule == Rule::Added);
        assert!(matches!(blacklist::add(data()), Err(error) if error == EINVAL));
        Ok(())
    }
}
