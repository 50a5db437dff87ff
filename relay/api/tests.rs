// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the API, and of the engine below it, C or Rust.
#![deny(unsafe_code)]

use kernel::prelude::*;

#[kunit_tests(ferro_relay)]
mod suite {
    use super::*;
    use crate::Channel;
    use crate::ChannelError;
    use crate::Dropped;
    use crate::Mode;
    use ferro_sys::cpu::CpuId;

    /// Sums the completed sub-buffers of all CPUs: the tests may migrate between CPUs.
    fn produced(channel: &Channel) -> usize {
        ferro_sys::cpu::possible()
            .filter_map(|cpu| channel.subbufs(cpu))
            .map(|(produced, _)| produced)
            .sum()
    }

    #[test]
    fn sizes_of_zero_are_refused() -> Result {
        let refused = Channel::builder(c"ferro_kunit").subbuf_size(0).open();
        assert_eq!(refused.err(), Some(ChannelError::Invalid));
        let refused = Channel::builder(c"ferro_kunit").n_subbufs(0).open();
        assert_eq!(refused.err(), Some(ChannelError::Invalid));
        let refused = Channel::builder(c"ferro_kunit")
            .subbuf_size(usize::MAX)
            .open();
        assert_eq!(refused.err(), Some(ChannelError::Invalid));
        Ok(())
    }

    #[test]
    fn a_directory_is_used_once() -> Result {
        let first = Channel::builder(c"ferro_kunit").subbuf_size(4096).open()?;
        let second = Channel::builder(c"ferro_kunit").subbuf_size(4096).open();
        assert_eq!(second.err(), Some(ChannelError::NameTaken));
        drop(first);
        // Fails if the first left anything behind.
        Channel::builder(c"ferro_kunit").subbuf_size(4096).open()?;
        Ok(())
    }

    #[test]
    fn a_subdirectory_keeps_the_directory() -> Result {
        let channel = Channel::builder(c"ferro_kunit").subbuf_size(4096).open()?;
        let inner = channel.dir().subdir(c"inner")?;
        drop(channel);
        let second = Channel::builder(c"ferro_kunit").subbuf_size(4096).open();
        assert_eq!(second.err(), Some(ChannelError::NameTaken));
        drop(inner);
        Channel::builder(c"ferro_kunit").subbuf_size(4096).open()?;
        Ok(())
    }

    #[test]
    fn no_overwrite_drops_the_newest() -> Result {
        let channel = Channel::builder(c"ferro_kunit")
            .subbuf_size(64)
            .n_subbufs(2)
            .global()
            .open()?;
        // 48 bytes: one record per sub-buffer, with 16 bytes of padding.
        for _ in 0..2 {
            assert_eq!(channel.write(&[1; 48]), Ok(()));
        }
        assert_eq!(channel.write(&[1; 48]), Err(Dropped));
        assert_eq!(channel.write(&[1; 48]), Err(Dropped));
        assert_eq!(channel.subbufs(CpuId::ZERO), Some((2, 0)));
        let stats = channel.stats();
        assert_eq!(stats.dropped, 2);
        assert_eq!(stats.full, 2);
        assert_eq!(stats.too_big, 0);
        Ok(())
    }

    #[test]
    fn overwrite_goes_on() -> Result {
        let channel = Channel::builder(c"ferro_kunit")
            .subbuf_size(64)
            .n_subbufs(2)
            .mode(Mode::Overwrite)
            .global()
            .open()?;
        for _ in 0..10 {
            assert_eq!(channel.write(&[1; 48]), Ok(()));
        }
        assert_eq!(channel.subbufs(CpuId::ZERO), Some((9, 0)));
        assert_eq!(channel.stats().dropped, 0);
        Ok(())
    }

    #[test]
    fn a_record_too_big_is_counted() -> Result {
        let channel = Channel::builder(c"ferro_kunit").subbuf_size(64).open()?;
        assert_eq!(channel.write(&[1; 65]), Err(Dropped));
        assert_eq!(channel.write(&[1; 64]), Ok(()));
        assert_eq!(channel.stats().too_big, 1);
        assert_eq!(channel.stats().dropped, 1);
        Ok(())
    }

    #[test]
    fn reserve_writes_in_place() -> Result {
        let channel = Channel::builder(c"ferro_kunit").subbuf_size(64).open()?;
        let written = channel.reserve(16, |record| {
            assert!(record.put(&[1; 12]));
            assert_eq!(record.left(), 4);
            assert!(!record.put(&[2; 5]));
        });
        assert_eq!(written, Ok(()));
        assert_eq!(channel.reserve(65, |_| ()), Err(Dropped));
        Ok(())
    }

    /// Writes to a channel within a record of it.
    fn nest(channel: &Channel) -> Result {
        let mut inner = [Ok(()); 2];
        let mut put = [false; 2];
        let outer = channel.reserve(16, |record| {
            // Failures in here must not sleep.
            put[0] = record.put(&[2; 4]);
            inner = [channel.write(&[1; 16]), channel.reserve(16, |_| ())];
            put[1] = record.put(&[3; 4]);
        });
        assert_eq!(outer, Ok(()));
        assert_eq!(inner, [Err(Dropped); 2]);
        assert_eq!(put, [true; 2]);
        assert_eq!(channel.stats().dropped, 2);
        assert_eq!(channel.write(&[4; 4]), Ok(()));
        Ok(())
    }

    #[test]
    fn a_nested_write_is_dropped() -> Result {
        let channel = Channel::builder(c"ferro_kunit").subbuf_size(64).open()?;
        nest(&channel)?;
        // On the CPU of the writes: the outer record, and nothing of the inner ones.
        let mut found = false;
        for cpu in ferro_sys::cpu::possible() {
            let bytes = channel.written(cpu)?;
            found |= bytes.starts_with(&[2, 2, 2, 2, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
            assert!(!bytes.contains(&1));
        }
        assert!(found);
        Ok(())
    }

    #[test]
    fn a_nested_write_to_a_global_channel_is_dropped() -> Result {
        let channel = Channel::builder(c"ferro_kunit")
            .subbuf_size(64)
            .global()
            .open()?;
        nest(&channel)?;
        let outer = channel.reserve(16, |_| {
            assert_eq!(channel.flush(), Ok(()));
        });
        assert_eq!(outer, Ok(()));
        assert_eq!(produced(&channel), 0);
        Ok(())
    }

    /// Drops the kernel's own guard within a record. The kernel counts only its own guards, so this
    /// turns interrupts on.
    #[test]
    fn a_guard_of_the_kernel_that_goes_within_a_record() -> Result {
        let channel = Channel::builder(c"ferro_kunit").subbuf_size(64).open()?;
        let guard = kernel::interrupt::local_interrupt_disable();
        let cpu = ferro_sys::cpu::current_id();
        let mut seen = None;
        let outer = channel.reserve(16, |record| {
            drop(guard);
            let off = ferro_sys::cpu::irqs_are_off();
            let inner = channel.write(&[1; 16]);
            let put = record.put(&[2; 16]);
            seen = Some((off, inner, put, ferro_sys::cpu::current_id()));
        });
        assert_eq!(outer, Ok(()));
        assert_eq!(seen, Some((false, Err(Dropped), true, cpu)));
        assert!(!ferro_sys::cpu::irqs_are_off());
        let cpu = CpuId::new(cpu).ok_or(EINVAL)?;
        assert_eq!(channel.written(cpu)?[..], [2; 16]);
        Ok(())
    }

    #[test]
    fn flush_and_reset() -> Result {
        let mut channel = Channel::builder(c"ferro_kunit").subbuf_size(64).open()?;
        assert_eq!(channel.write(&[1; 8]), Ok(()));
        assert_eq!(produced(&channel), 0);
        channel.flush()?;
        assert!(produced(&channel) >= 1);
        channel.reset()?;
        assert_eq!(produced(&channel), 0);
        assert_eq!(channel.stats().dropped, 0);
        Ok(())
    }
}
