// SPDX-License-Identifier: GPL-2.0

//! Tests of handlers at the entries of functions and at their returns.

use kernel::prelude::*;

#[kunit_tests(ferro_kprobes_calls)]
mod suite {
    use crate::raw::current_kprobe;
    use crate::raw::instance_pool;
    use crate::raw::instance_pool::Pool;
    use crate::raw::kretprobe::Kretprobe;
    use core::cell::UnsafeCell;
    use ferro_sys::bindings;
    use ferro_sys::code::ftrace_ops::FtraceHandler;
    use ferro_sys::code::ftrace_ops::FtraceOps;
    use ferro_sys::code::kallsyms;
    use ferro_sys::code::regs::Regs;
    use ferro_sys::code::symbols;
    use ferro_sys::cpu::preempt::PreemptOff;
    use ferro_sys::cpu::CpuId;
    use kernel::error::from_err_ptr;
    use kernel::ffi::c_int;
    use kernel::ffi::c_void;
    use kernel::prelude::*;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Relaxed;
    use kernel::sync::rcu::synchronize_rcu;

    /// C function that only these tests call; it returns true for their argument.
    const PROBED: &CStr = c"ferro_cpu_possible";

    fn call() -> bool {
        CpuId::new(0).is_some()
    }

    fn site(name: &CStr) -> Result<usize> {
        let function = kallsyms::lookup_name(name).ok_or(ENOENT)?;
        // After the landing pad, if there is one.
        let mut places = [function, function + 4].into_iter();
        places
            .find(|place| symbols::is_ftrace_site(*place))
            .ok_or(EINVAL)
    }

    struct Count;
    static CALLS: Atomic<usize> = Atomic::new(0);
    static LAST: Atomic<usize> = Atomic::new(0);

    impl FtraceHandler for Count {
        fn call(ip: usize, parent_ip: usize, regs: &mut Regs) {
            if symbols::is_core_text(parent_ip) && symbols::is_core_text(regs.ip()) {
                CALLS.fetch_add(1, Relaxed);
                LAST.store(ip, Relaxed);
            }
        }
    }

    static COUNT: FtraceOps<Count> =
        // SAFETY: The handler changes no register, except as the tests expect.
        unsafe { FtraceOps::observing() };

    #[test]
    fn a_handler_is_called_at_its_sites() -> Result {
        let (first, second) = (site(PROBED)?, site(c"ferro_next_possible_cpu")?);
        let before = CALLS.load(Relaxed);
        COUNT.add(&[first])?;
        assert!(call() && call());
        assert!(CALLS.load(Relaxed) == before + 2 && LAST.load(Relaxed) == first);
        COUNT.add(&[second])?;
        assert!(COUNT.remove(&[first]).is_ok());
        assert!(call() && CALLS.load(Relaxed) == before + 2);
        // SAFETY: Takes any number from -1.
        assert!(unsafe { bindings::ferro_next_possible_cpu(-1) } == 0);
        assert!(CALLS.load(Relaxed) == before + 3 && LAST.load(Relaxed) == second);
        COUNT.remove(&[second])?;
        COUNT.close();
        // SAFETY: Takes any number from -1.
        assert!(unsafe { bindings::ferro_next_possible_cpu(-1) } == 0 && call());
        assert_eq!(CALLS.load(Relaxed), before + 3);
        Ok(())
    }

    #[test]
    fn sites_are_added_and_removed_as_one() -> Result {
        let (first, second) = (site(PROBED)?, site(c"ferro_next_possible_cpu")?);
        let before = CALLS.load(Relaxed);
        assert!(matches!(COUNT.add(&[first, 8]), Err(e) if e == EINVAL));
        assert!(matches!(COUNT.remove(&[first]), Err(e) if e == ENOENT));
        assert!(call() && CALLS.load(Relaxed) == before);
        COUNT.add(&[first])?;
        assert!(matches!(COUNT.remove(&[first, second]), Err(e) if e == ENOENT));
        assert!(call() && CALLS.load(Relaxed) == before + 1);
        COUNT.remove(&[first])?;
        COUNT.close();
        Ok(())
    }

    extern "C" fn never(_cpu: u32) -> bool {
        false
    }

    struct Redirect;

    impl FtraceHandler for Redirect {
        fn call(_ip: usize, _parent_ip: usize, regs: &mut Regs) {
            regs.set_ip(never as *const () as usize);
        }
    }

    static REDIRECT: FtraceOps<Redirect> =
        // SAFETY: It continues at a function of the same type as the one that is called.
        unsafe { FtraceOps::modifying() };

    #[test]
    fn a_handler_changes_where_it_goes_on() -> Result {
        let site = site(PROBED)?;
        REDIRECT.add(&[site])?;
        let redirected = !call();
        REDIRECT.remove(&[site])?;
        // Another ops may modify where its anchor continues.
        REDIRECT.close();
        assert!(redirected && call());
        Ok(())
    }

    /// Structure of a client.
    struct Client(UnsafeCell<bindings::kretprobe>);

    // SAFETY: KUnit runs one test at a time.
    unsafe impl Sync for Client {}

    static CLIENT: Client = Client(UnsafeCell::new(
        // SAFETY: A plain C structure; 0 and NULL are the values of unset fields.
        unsafe { core::mem::zeroed() },
    ));
    static RETURNS: Atomic<usize> = Atomic::new(0);

    const MARK: usize = 0x7e57;

    /// Writes the data of a call.
    ///
    /// # Safety
    ///
    /// `instance` has room for a word of data.
    unsafe extern "C" fn entered(
        instance: *mut bindings::kretprobe_instance,
        _regs: *mut bindings::pt_regs,
    ) -> c_int {
        // SAFETY: The caller guarantees that there is room for a word of data, which belongs to
        // this call.
        unsafe { (*instance).data.as_mut_ptr().cast::<usize>().write(MARK) };
        0
    }

    /// Checks the data of a call.
    ///
    /// # Safety
    ///
    /// `instance` is one that [`entered`] was called with.
    unsafe extern "C" fn returned(
        instance: *mut bindings::kretprobe_instance,
        _regs: *mut bindings::pt_regs,
    ) -> c_int {
        // SAFETY: The caller guarantees that there is a word of data, which `entered()` has written
        // for this call.
        let mark = unsafe { (*instance).data.as_ptr().cast::<usize>().read() };
        if mark == MARK && current_kprobe::get() == CLIENT.0.get().addr() {
            RETURNS.fetch_add(1, Relaxed);
        }
        0
    }

    fn client(maxactive: c_int) -> Result<Kretprobe<'static>> {
        // SAFETY: No other code uses it.
        let raw = unsafe { &mut *CLIENT.0.get() };
        raw.handler = Some(returned);
        raw.entry_handler = Some(entered);
        raw.maxactive = maxactive;
        raw.data_size = size_of::<usize>();
        // SAFETY: A static with handlers of these types.
        unsafe { Kretprobe::new(raw) }.ok_or(EINVAL)
    }

    fn missed() -> c_int {
        // SAFETY: No other code uses it.
        unsafe { (*CLIENT.0.get()).nmissed }
    }

    struct HookReturn;

    impl FtraceHandler for HookReturn {
        fn call(_ip: usize, _parent_ip: usize, regs: &mut Regs) {
            let _preempt = PreemptOff::new();
            // SAFETY: A static.
            let kretprobe = unsafe { Kretprobe::new(CLIENT.0.get()) };
            if let Some(kretprobe) = kretprobe {
                // SAFETY: ftrace calls this at the function's site, and preemption is off.
                unsafe { kretprobe.enter(regs) };
            }
        }
    }

    static HOOK_RETURN: FtraceOps<HookReturn> =
        // SAFETY: The handler changes no register, except as the tests expect.
        unsafe { FtraceOps::observing() };

    #[test]
    fn a_return_is_seen() -> Result {
        let kretprobe = client(1)?;
        kretprobe.alloc()?;
        let before = RETURNS.load(Relaxed);
        let site = site(PROBED)?;
        HOOK_RETURN.add(&[site])?;
        // One instance is enough, as each return gives it back.
        let answers = [call(), call(), call()];
        HOOK_RETURN.remove(&[site])?;
        HOOK_RETURN.close();
        kretprobe.free();
        assert!(answers == [true; 3]);
        assert_eq!(RETURNS.load(Relaxed), before + 3);
        assert_eq!(missed(), 0);
        Ok(())
    }

    #[test]
    fn instances_are_limited_and_come_back() -> Result {
        // More than a CPU's share, and more than the bits of a word and of a cache line.
        for count in [1, 2, 3, 64, 65, 1500] {
            let client = instance_pool::Client::Kretprobe(CLIENT.0.get());
            let pool = Pool::new(client, count, 24)?;
            let mut taken = KVVec::with_capacity(count, GFP_KERNEL)?;
            let preempt = PreemptOff::new();
            // SAFETY: Only this test has the pool.
            let take = || unsafe { Pool::take(pool) };
            let mut node = take();
            while !node.is_null() && taken.push_within_capacity(node as usize).is_ok() {
                node = take();
            }
            let size = size_of::<bindings::rethook_node>() + 24;
            let (all, none) = (taken.len(), node.is_null());
            // SAFETY: Taken from the pool just now, and the last ones are given back while it is
            // being freed.
            unsafe {
                for node in taken.iter().take(count.div_ceil(2)) {
                    Pool::give_back(*node as *mut _);
                }
                let again = (0..count).filter(|_| !take().is_null()).count();
                Pool::free(pool);
                for node in &taken {
                    Pool::give_back(*node as *mut _);
                }
                drop(preempt);
                let apart =
                    |(i, a): (usize, &usize)| taken.iter().take(i).all(|b| a.abs_diff(*b) >= size);
                let distinct = taken.iter().enumerate().all(apart);
                assert!(all == count && none && distinct);
                assert_eq!(again, count.div_ceil(2));
            }
        }
        Ok(())
    }

    #[test]
    fn memory_is_for_the_instances_not_for_the_cpus() {
        for (count, cpus, expected) in [
            (1, 512, (1, 1)),
            (128, 512, (1, 128)),
            (513, 512, (2, 257)),
            (1024, 512, (2, 512)),
            (10, 4, (3, 4)),
            (10, 1, (10, 1)),
            (1, 0, (1, 1)),
        ] {
            let (share, shares) = instance_pool::shares(count, cpus);
            assert!((share, shares) == expected);
            // All fit, and no share is empty.
            assert!(share * shares >= count && share * (shares - 1) < count);
        }
    }

    #[test]
    fn a_call_without_an_instance_is_missed() -> Result {
        let kretprobe = client(1)?;
        let before = missed();
        HOOK_RETURN.add(&[site(PROBED)?])?;
        let answer = call();
        HOOK_RETURN.remove(&[site(PROBED)?])?;
        HOOK_RETURN.close();
        assert!(answer && kretprobe.handlers() != [0, 0]);
        assert_eq!(missed(), before + 1);
        Ok(())
    }

    #[test]
    fn the_number_of_instances_has_a_default_and_a_limit() -> Result {
        let kretprobe = client(0)?;
        kretprobe.alloc()?;
        kretprobe.free();
        // SAFETY: No other code uses it.
        let raw = unsafe { &mut *CLIENT.0.get() };
        assert!(raw.maxactive >= 10);
        raw.data_size = 4097;
        assert!(matches!(kretprobe.alloc(), Err(e) if e == E2BIG));
        Ok(())
    }

    /// Result of `rethook_alloc()`, and the number of correct calls of its handler.
    static RETHOOK: Atomic<usize> = Atomic::new(0);
    static RETHOOKED: Atomic<usize> = Atomic::new(0);

    /// Counts a call with the expected state.
    ///
    /// # Safety
    ///
    /// `regs` are live.
    unsafe extern "C" fn rethooked(
        _node: *mut bindings::rethook_node,
        data: *mut c_void,
        ret_addr: usize,
        regs: *mut bindings::pt_regs,
    ) {
        // SAFETY: The caller guarantees that they are valid.
        let ip = unsafe { (*regs).ip };
        let running = current_kprobe::get() == current_kprobe::busy();
        if running && data.addr() == MARK && symbols::is_core_text(ip) && ip == ret_addr {
            RETHOOKED.fetch_add(1, Relaxed);
        }
    }

    struct HookCall;

    impl FtraceHandler for HookCall {
        fn call(_ip: usize, _parent_ip: usize, regs: &mut Regs) {
            let _preempt = PreemptOff::new();
            let rethook = core::ptr::with_exposed_provenance_mut(RETHOOK.load(Relaxed));
            // SAFETY: The test has made it, and frees it after the last call of this. The registers
            // belong to this call.
            unsafe {
                let node = bindings::rethook_try_get(rethook);
                if !node.is_null() {
                    bindings::rethook_hook(node, regs.as_ptr(), true);
                }
            }
        }
    }

    static HOOK_CALL: FtraceOps<HookCall> =
        // SAFETY: The handler changes no register, except as the tests expect.
        unsafe { FtraceOps::observing() };

    #[test]
    fn other_clients_of_rethook_see_returns() -> Result {
        let alloc = |handler, size: usize, count| -> Result<*mut bindings::rethook> {
            let data = core::ptr::without_provenance_mut(MARK);
            // SAFETY: The handler is a function of this type.
            from_err_ptr(unsafe {
                bindings::rethook_alloc(data, handler, c_int::try_from(size)?, count)
            })
        };
        let size = size_of::<bindings::rethook_node>();
        assert!(matches!(alloc(None, size, 1), Err(e) if e == EINVAL));
        assert!(matches!(alloc(Some(rethooked), size - 1, 1), Err(e) if e == EINVAL));
        assert!(matches!(alloc(Some(rethooked), size, 0), Err(e) if e == EINVAL));
        assert!(matches!(alloc(Some(rethooked), size + 4096, c_int::MAX), Err(e) if e == ENOMEM));

        let rethook = alloc(Some(rethooked), size + 8, 1)?;
        RETHOOK.store(rethook.expose_provenance(), Relaxed);
        let before = RETHOOKED.load(Relaxed);
        let site = site(PROBED)?;
        HOOK_CALL.add(&[site])?;
        // One node is enough, as each return gives it back.
        let hooked = call() && call() && RETHOOKED.load(Relaxed) == before + 2;
        let preempt = PreemptOff::new();
        // SAFETY: Just made; a node that is taken is given back.
        let (taken, other) = unsafe {
            let taken = bindings::rethook_try_get(rethook);
            let missed = call() && RETHOOKED.load(Relaxed) == before + 2;
            let other = !missed || !bindings::rethook_try_get(rethook).is_null();
            if !taken.is_null() {
                bindings::rethook_recycle(taken);
            }
            (!taken.is_null(), other)
        };
        drop(preempt);
        let again = call() && RETHOOKED.load(Relaxed) == before + 3;
        // SAFETY: The rethook is valid.
        unsafe { bindings::rethook_stop(rethook) };
        let stopped = call() && RETHOOKED.load(Relaxed) == before + 3;
        HOOK_CALL.remove(&[site])?;
        HOOK_CALL.close();
        // Running handlers have preemption off.
        synchronize_rcu();
        // SAFETY: No code uses it after the grace period.
        unsafe { bindings::rethook_free(rethook) };
        assert!(hooked && taken && !other && again && stopped);
        Ok(())
    }
}
