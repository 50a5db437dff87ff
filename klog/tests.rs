// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the messages that a handler gets. They run at boot, without any other handler.
#![deny(unsafe_code)]

use kernel::prelude::*;

#[kunit_tests(ferro_klog)]
mod suite {
    use crate::klog;
    use crate::Error;
    use crate::Handler;
    use crate::Registration;
    use ferro_sys::cpu::IrqsOff;
    use kernel::new_spinlock;
    use kernel::prelude::*;
    use kernel::sync::atomic::Atomic;
    use kernel::sync::atomic::Relaxed;
    use kernel::sync::Arc;
    use kernel::sync::SetOnce;
    use kernel::sync::SpinLock;
    use kernel::time::delay::fsleep;
    use kernel::time::Delta;

    /// Counts messages, and sums up their bytes.
    struct Counter;

    static MESSAGES: Atomic<usize> = Atomic::new(0);
    static LEN: Atomic<usize> = Atomic::new(0);
    static SUM: Atomic<u64> = Atomic::new(0);

    fn sum(bytes: &[u8]) -> u64 {
        bytes
            .iter()
            .fold(7, |sum: u64, &byte| sum.wrapping_mul(31) + u64::from(byte))
    }

    impl Handler for Counter {
        fn klog(_irqs: &IrqsOff, message: &[u8]) {
            MESSAGES.fetch_add(1, Relaxed);
            LEN.store(message.len(), Relaxed);
            SUM.store(sum(message), Relaxed);
        }
    }

    /// Logs from its own handler.
    struct Nested;

    impl Handler for Nested {
        fn klog(irqs: &IrqsOff, message: &[u8]) {
            Counter::klog(irqs, message);
            crate::write(b"again");
        }
    }

    /// Logs while being formatted.
    struct Logs;

    impl kernel::fmt::Display for Logs {
        fn fmt(&self, f: &mut kernel::fmt::Formatter<'_>) -> kernel::fmt::Result {
            klog!("again");
            f.write_str("shown")
        }
    }

    /// Returns the number of messages that the handler gets while `f` runs.
    fn messages(f: impl FnOnce()) -> usize {
        let before = MESSAGES.load(Relaxed);
        f();
        MESSAGES.load(Relaxed).wrapping_sub(before)
    }

    #[test]
    fn without_a_handler_nothing_happens() {
        assert_eq!(messages(|| crate::write(b"nobody")), 0);
        assert_eq!(messages(|| klog!("nobody {}", 1)), 0);
    }

    #[test]
    fn a_handler_gets_every_byte_until_it_goes() -> Result {
        let handler = Registration::<Counter>::register()?;
        assert_eq!(messages(|| crate::write(b"\0raw\xff")), 1);
        assert_eq!(SUM.load(Relaxed), sum(b"\0raw\xff"));
        assert_eq!(messages(|| klog!("{}: {:#x}", "text", 254)), 1);
        assert_eq!(SUM.load(Relaxed), sum(b"text: 0xfe"));
        assert_eq!(messages(|| crate::write(b"")), 0);
        drop(handler);
        assert_eq!(messages(|| crate::write(b"late")), 0);
        Ok(())
    }

    #[test]
    fn a_registration_takes_only_its_own_handler_away() -> Result {
        let first = Registration::<Counter>::register()?;
        let second = Registration::<Counter>::register()?;
        drop(first);
        assert_eq!(messages(|| crate::write(b"second")), 1);
        drop(second);
        assert_eq!(messages(|| crate::write(b"late")), 0);
        Ok(())
    }

    #[test]
    fn text_is_cut() -> Result {
        let _handler = Registration::<Counter>::register()?;
        assert_eq!(messages(|| klog!("{:1023}", 7)), 1);
        assert_eq!(LEN.load(Relaxed), 1023);
        assert_eq!(messages(|| klog!("{:1024}", 7)), 1);
        assert_eq!(LEN.load(Relaxed), 1023);
        assert_eq!(messages(|| klog!("{:3000}{}", 7, "and more")), 1);
        assert_eq!(LEN.load(Relaxed), 1023);
        Ok(())
    }

    #[test]
    fn a_handler_is_not_called_by_itself() -> Result {
        let _handler = Registration::<Nested>::register()?;
        let missed = crate::missed();
        assert_eq!(messages(|| crate::write(b"once")), 1);
        assert!(crate::missed() > missed);
        Ok(())
    }

    #[test]
    fn what_is_formatted_does_not_log() -> Result {
        let _handler = Registration::<Counter>::register()?;
        let missed = crate::missed();
        assert_eq!(messages(|| klog!("{Logs}")), 1);
        assert_eq!(SUM.load(Relaxed), sum(b"shown"));
        assert!(crate::missed() > missed);
        // The buffer is free again.
        assert_eq!(messages(|| klog!("next")), 1);
        Ok(())
    }

    #[test]
    fn the_last_handler_is_the_current_one() -> Result {
        let first = Registration::<Nested>::register()?;
        let second = Registration::<Counter>::register()?;
        let missed = crate::missed();
        // The second handler has replaced the first: dropping the first must not remove the second.
        drop(first);
        assert_eq!(messages(|| crate::write(b"second")), 1);
        assert_eq!(crate::missed(), missed);
        drop(second);
        assert_eq!(messages(|| crate::write(b"nobody")), 0);
        Ok(())
    }

    #[test]
    fn a_handler_is_armed_again() -> Result {
        let first = Registration::<Counter>::register()?;
        let second = Registration::<Nested>::register()?;
        assert!(!first.is_armed() && second.is_armed());
        // Only the current handler can be disarmed.
        first.disarm()?;
        assert!(second.is_armed());
        second.disarm()?;
        assert!(!second.is_armed());
        assert_eq!(messages(|| crate::write(b"nobody")), 0);
        first.arm()?;
        first.arm()?;
        assert!(first.is_armed());
        assert_eq!(messages(|| crate::write(b"first")), 1);
        Ok(())
    }

    #[test]
    fn a_handler_is_armed_if_there_is_no_other() -> Result {
        let first = Registration::<Counter>::disarmed()?;
        assert!(!first.is_armed());
        assert_eq!(messages(|| crate::write(b"none")), 0);
        let second = Registration::<Nested>::register()?;
        assert_eq!(first.arm_if_free(), Err(Error::Occupied));
        assert!(second.is_armed() && !first.is_armed());
        second.arm_if_free()?;
        second.disarm()?;
        first.arm_if_free()?;
        assert_eq!(messages(|| crate::write(b"first")), 1);
        Ok(())
    }

    /// Tries to change the registration from its own handler, then drops it.
    struct Own;

    static OWN: SetOnce<Arc<SpinLock<Option<Registration<Own>>>>> = SetOnce::new();
    static REFUSED: Atomic<bool> = Atomic::new(false);

    impl Handler for Own {
        fn klog(irqs: &IrqsOff, message: &[u8]) {
            Counter::klog(irqs, message);
            let own = OWN.as_ref().and_then(|place| {
                let mut own = place.lock();
                own.take()
            });
            if let Some(own) = own {
                let answers = [
                    own.arm().err(),
                    own.disarm().err(),
                    Registration::<Counter>::register().err(),
                ];
                REFUSED.store(answers == [Some(Error::MustNotSleep); 3], Relaxed);
                drop(own);
            }
        }
    }

    #[test]
    fn a_handler_drops_its_registration() -> Result {
        let place = Arc::pin_init(new_spinlock!(None), GFP_KERNEL)?;
        *place.lock() = Some(Registration::register()?);
        assert!(OWN.populate(place));
        assert_eq!(messages(|| crate::write(b"drop it")), 1);
        assert!(REFUSED.load(Relaxed));
        let is_called = || messages(|| crate::write(b"perhaps nobody")) != 0;
        let mut looks = 0;
        while is_called() && looks < 500 {
            fsleep(Delta::from_millis(10));
            looks += 1;
        }
        assert!(!is_called());
        Ok(())
    }

    #[test]
    fn one_type_is_registered_twice() -> Result {
        let first = Registration::<Counter>::register()?;
        let second = Registration::<Counter>::register()?;
        drop(first);
        assert_eq!(messages(|| crate::write(b"second")), 1);
        drop(second);
        assert_eq!(messages(|| crate::write(b"nobody")), 0);
        Ok(())
    }
}
