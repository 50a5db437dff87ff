// SPDX-License-Identifier: GPL-2.0

//! Tests of the pool of executable memory.

use kernel::prelude::*;

#[kunit_tests(ferro_sys_exec_pool)]
mod suite {
    use crate::code::ftrace_ops::FtraceHandler;
    use crate::code::ftrace_ops::FtraceOps;
    use crate::code::kallsyms;
    use crate::code::regs::Regs;
    use crate::code::text::read_text;
    use crate::code::text::TextLock;
    use crate::mm::exec_pool;
    use crate::mm::exec_pool::Slot;
    use crate::mm::exec_pool::Use;
    use crate::mm::exec_pool::User;
    use kernel::page::PAGE_SIZE;
    use kernel::prelude::*;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Relaxed;

    extern "C" {
        /// `symbols.h`
        fn ferro_call_code(code: *const u8) -> u32;
    }

    const INT3: u8 = 0xcc;

    fn many(size: usize, count: usize) -> Result<KVVec<Slot>> {
        let mut slots = KVVec::new();
        for _ in 0..count {
            slots.push(exec_pool::alloc(size, User::Probes)?, GFP_KERNEL)?;
        }
        Ok(slots)
    }

    /// `endbr64; mov eax, value; ret`.
    fn returning(value: u32) -> [u8; 10] {
        let [a, b, c, d] = value.to_le_bytes();
        [0xf3, 0x0f, 0x1e, 0xfa, 0xb8, a, b, c, d, 0xc3]
    }

    fn run(slot: &Slot) -> u32 {
        // SAFETY: The slot has the code from `returning()`: a function of that type.
        unsafe { ferro_call_code(core::ptr::with_exposed_provenance(slot.address())) }
    }

    #[test]
    fn a_slot_has_room_and_is_aligned() -> Result {
        for size in [1, 15, 32, 33, 64, 65, 200, 256, 1000, 2048, 2049, PAGE_SIZE] {
            let slot = exec_pool::alloc(size, User::Probes)?;
            assert!(slot.len() >= size && slot.len() < size.max(17) * 2);
            assert_eq!(slot.address() % slot.len(), 0);
            assert!(exec_pool::contains(slot.address()));
            assert!(exec_pool::contains(slot.address() + slot.len() - 1));
        }
        assert!(matches!(exec_pool::alloc(0, User::Probes), Err(e) if e == EINVAL));
        assert!(matches!(exec_pool::alloc(PAGE_SIZE + 1, User::Probes), Err(e) if e == EINVAL));
        Ok(())
    }

    #[test]
    fn code_in_slots_executes() -> Result {
        let mut slots = many(10, 300)?;
        let lock = TextLock::new();
        for (slot, value) in slots.iter_mut().zip(1000..) {
            slot.write(&returning(value), &lock)?;
        }
        drop(lock);
        for (slot, value) in slots.iter().zip(1000..) {
            assert_eq!(run(slot), value);
        }
        Ok(())
    }

    #[test]
    fn the_rest_is_breakpoints() -> Result {
        let mut slot = exec_pool::alloc(PAGE_SIZE, User::Probes)?;
        let mut bytes = KVVec::from_elem(0, PAGE_SIZE, GFP_KERNEL)?;
        let mut code = KVVec::from_elem(0x90, PAGE_SIZE, GFP_KERNEL)?;
        slot.write(&code, &TextLock::new())?;
        read_text(slot.address(), &mut bytes)?;
        assert!(bytes[..] == code[..]);

        slot.write(&code[..300], &TextLock::new())?;
        code[300..].fill(INT3);
        read_text(slot.address(), &mut bytes)?;
        assert!(bytes[..] == code[..]);

        let mut slot = exec_pool::alloc(32, User::Probes)?;
        slot.write(&[0x90; 32], &TextLock::new())?;
        assert!(slot.write(&[0xc3; 33], &TextLock::new()).is_err());
        let mut bytes = [0; 32];
        read_text(slot.address(), &mut bytes)?;
        assert!(bytes == [0x90; 32]);
        Ok(())
    }

    #[test]
    fn slots_do_not_overlap() -> Result {
        let before = exec_pool::used();
        let mut slots = KVVec::new();
        for i in 0..600_usize {
            slots.push(exec_pool::alloc(1 << (i % 10), User::Probes)?, GFP_KERNEL)?;
        }
        assert_eq!(exec_pool::used(), before + 600);
        let lock = TextLock::new();
        for (slot, i) in slots.iter_mut().zip(0_u16..) {
            let [low, high] = i.to_le_bytes();
            let mut code = KVVec::from_elem(low, slot.len() - 1, GFP_KERNEL)?;
            code.push(high, GFP_KERNEL)?;
            slot.write(&code, &lock)?;
        }
        drop(lock);
        for (slot, i) in slots.iter().zip(0_u16..) {
            let [low, high] = i.to_le_bytes();
            let mut bytes = KVVec::from_elem(0, slot.len(), GFP_KERNEL)?;
            read_text(slot.address(), &mut bytes)?;
            let (last, first) = bytes.split_last().ok_or(EINVAL)?;
            assert!(*last == high && first.iter().all(|byte| *byte == low));
        }
        drop(slots);
        assert_eq!(exec_pool::used(), before);
        Ok(())
    }

    fn of(size: usize) -> Use {
        let all = exec_pool::in_use();
        all.into_iter()
            .find(|slots| slots.size == size)
            .unwrap_or_default()
    }

    #[test]
    fn it_is_known_who_uses_slots() -> Result {
        exec_pool::flush();
        // A size without other users.
        let before = of(2048);
        let probe = exec_pool::alloc(2000, User::Probes)?;
        let detour = exec_pool::alloc(2000, User::Detours)?;
        let trampoline = exec_pool::alloc(2000, User::Trampolines)?;
        let with = of(2048);
        // Detour buffers have pages of their own.
        let page = detour.address() / PAGE_SIZE * PAGE_SIZE;
        assert!(exec_pool::is_for_detours(page));
        for other in [&probe, &trampoline] {
            assert!(!exec_pool::is_for_detours(
                other.address() / PAGE_SIZE * PAGE_SIZE
            ));
        }
        assert_eq!(with.probes, before.probes + 1);
        assert_eq!(with.detours, before.detours + 1);
        assert_eq!(with.trampolines, before.trampolines + 1);
        drop(probe);
        let after = of(2048);
        assert_eq!(
            (after.probes, after.trampolines),
            (before.probes, with.trampolines)
        );
        let used = |slots: Use| slots.probes + slots.detours + slots.trampolines;
        assert_eq!(used(after) + after.waiting + after.free, after.pages * 2);
        drop(detour);
        drop(trampoline);
        exec_pool::flush();
        assert_eq!(of(2048).waiting, 0);
        Ok(())
    }

    #[test]
    fn a_slot_waits_for_the_grace_period() -> Result {
        exec_pool::flush();
        let slots = many(1024, 2)?;
        let dropped = slots.iter().map(Slot::address).min().ok_or(EINVAL)?;
        drop(slots);
        // This task delays the grace period until it waits for something.
        let others = many(1024, 8)?;
        assert!(others.iter().all(|slot| slot.address() != dropped));
        drop(others);
        exec_pool::flush();
        let again = many(1024, 4)?;
        assert!(again.iter().any(|slot| slot.address() == dropped));
        Ok(())
    }

    #[test]
    fn unused_pages_are_given_back() -> Result {
        exec_pool::flush();
        let before = exec_pool::pages();
        let slots = many(PAGE_SIZE, 100)?;
        let with = exec_pool::pages();
        assert!(with >= before + 99);
        let mut addrs = KVVec::new();
        for slot in &slots {
            addrs.push(slot.address(), GFP_KERNEL)?;
        }
        drop(slots);
        // The pages stay until no CPU executes them.
        assert!(addrs.iter().all(|addr| exec_pool::contains(*addr)));
        exec_pool::flush();
        assert!(exec_pool::pages() <= before + 1);
        let kept = addrs.iter().filter(|addr| exec_pool::contains(**addr));
        assert_eq!(kept.count(), 1);
        Ok(())
    }

    #[test]
    fn pages_are_counted_from_the_lowest() -> Result {
        let slots = many(PAGE_SIZE, 3)?;
        let mut last = 0;
        for n in 0..exec_pool::pages() {
            let page = exec_pool::nth_page(n).ok_or(EINVAL)?;
            assert!(page > last && page % PAGE_SIZE == 0);
            assert!(exec_pool::contains(page) && exec_pool::contains(page + PAGE_SIZE - 1));
            last = page;
        }
        assert!(exec_pool::nth_page(exec_pool::pages()).is_none());
        assert!(slots.iter().all(|slot| slot.address() <= last));
        assert!(!exec_pool::contains(0) && !exec_pool::contains(usize::MAX));
        Ok(())
    }

    /// The watched slot, and the numbers of code bytes that perf was told to be added and removed
    /// there.
    static WATCHED: Atomic<usize> = Atomic::new(0);
    static CAME: Atomic<usize> = Atomic::new(0);
    static WENT: Atomic<usize> = Atomic::new(0);

    /// Handler at the entry of `perf_event_text_poke(addr, old, old_len, new, new_len)`.
    struct Told;

    impl FtraceHandler for Told {
        fn call(_ip: usize, _parent_ip: usize, regs: &mut Regs) {
            // SAFETY: The registers of this call.
            let regs = unsafe { &*regs.as_ptr() };
            if regs.di == WATCHED.load(Relaxed) {
                CAME.fetch_add(regs.r8, Relaxed);
                WENT.fetch_add(regs.dx, Relaxed);
            }
        }
    }

    static TOLD: FtraceOps<Told> =
        // SAFETY: The handler changes nothing.
        unsafe { FtraceOps::observing() };

    /// Returns the events that perf gets for a slot with this code, or without code, until the slot
    /// is dropped.
    fn told(code: Option<&[u8]>) -> Result<[usize; 2]> {
        let mut slot = exec_pool::alloc(32, User::Probes)?;
        WATCHED.store(slot.address(), Relaxed);
        CAME.store(0, Relaxed);
        WENT.store(0, Relaxed);
        if let Some(code) = code {
            slot.write(code, &TextLock::new())?;
            assert_eq!(WENT.load(Relaxed), 0);
        }
        drop(slot);
        WATCHED.store(0, Relaxed);
        Ok([CAME.load(Relaxed), WENT.load(Relaxed)])
    }

    #[test]
    fn perf_is_told_of_code_only() -> Result {
        let site = kallsyms::lookup_name(c"perf_event_text_poke").ok_or(ENOENT)?;
        TOLD.add(&[site])?;
        let told = [told(Some(&[0x90; 7]))?, told(None)?, told(Some(&[]))?];
        TOLD.remove(&[site])?;
        TOLD.close();
        // Slots are written to their ends.
        assert!(told == [[32; 2], [0; 2], [32; 2]]);
        Ok(())
    }
}
