// SPDX-License-Identifier: GPL-2.0

//! Tests of reading and writing code, and of symbols.

use kernel::prelude::*;

#[kunit_tests(ferro_sys_text)]
mod suite {
    use crate::code::kallsyms;
    use crate::code::kallsyms::NAME_LEN;
    use crate::code::symbols;
    use crate::code::symbols::NoOwner;
    use crate::code::symbols::Owner;
    use crate::code::symbols::TextAddress;
    use crate::code::text::read_text;
    use crate::code::text::NotWritten;
    use crate::code::text::PatchSite;
    use crate::code::text::TextLock;
    use crate::code::text::BREAKPOINT;
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
        kallsyms::lookup_name(name).ok_or(ENOENT)
    }

    #[test]
    fn a_byte_is_written_and_put_back() -> Result {
        let addr = victim as *const () as usize;
        let at = symbols::text_address(addr).ok_or(EINVAL)?;
        let mut before = [0];
        read_text(addr, &mut before)?;

        let mut lock = TextLock::new();
        // SAFETY: No CPU executes the function before the breakpoint is removed.
        let other = unsafe { PatchSite::new(at, before[0].wrapping_add(1)) };
        assert!(matches!(
            other.arm(&mut lock),
            Err((_, NotWritten::Changed))
        ));
        // SAFETY: No CPU executes the function before the breakpoint is removed.
        let site = unsafe { PatchSite::new(at, before[0]) };
        let armed = site.arm(&mut lock).map_err(|_| EINVAL)?;
        lock.sync();
        let mut now = [0];
        read_text(addr, &mut now)?;
        assert_eq!(now[0], BREAKPOINT);
        let _ = armed.disarm(&mut lock);
        lock.sync();
        read_text(addr, &mut now)?;
        assert_eq!(now[0], before[0]);
        drop(lock);
        assert_eq!(black_box(victim as extern "C" fn(u32) -> u32)(41), 42);
        Ok(())
    }

    #[test]
    fn only_code_is_written() {
        assert!(symbols::text_address(data()).is_none());
        assert!(symbols::text_address(0).is_none());
        let mut lock = TextLock::new();
        // SAFETY: No CPU executes data.
        let site = unsafe { PatchSite::new(TextAddress::new_checked(data()), DATA) };
        assert!(matches!(site.arm(&mut lock), Err((_, NotWritten::Gone))));
        assert_eq!(DATA, 7);
        assert!(read_text(8, &mut [0]).is_err());
        assert!(read_text(usize::MAX - 8, &mut [0]).is_err());
    }

    #[test]
    fn symbols_are_found() -> Result {
        let addr = named(c"vfs_read")?;
        let symbol = kallsyms::symbol_of(addr + 1).ok_or(EINVAL)?;
        assert!(symbol.start == addr && symbol.offset == 1 && symbol.size > 1);
        let mut buffer = [0; NAME_LEN];
        assert!(kallsyms::name_of(addr + 1, &mut buffer) == Some(c"vfs_read"));
        assert!(kallsyms::lookup_name(c"no such symbol").is_none());
        assert!(matches!(symbols::owner(addr), Ok(Owner::Kernel)));
        assert!(matches!(symbols::owner(data()), Err(NoOwner::NotText)));
        let is_site = symbols::is_ftrace_site;
        assert!((addr..addr + symbol.size).filter(|at| is_site(*at)).count() == 1);
        Ok(())
    }
}
