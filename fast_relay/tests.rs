// SPDX-License-Identifier: GPL-2.0

//! KUnit tests.
#![deny(unsafe_code)]

use kernel::prelude::*;

#[kunit_tests(ferro_fast_relay)]
mod suite {
    use super::*;
    use crate::Channel;
    use crate::ChannelError;
    use crate::Dropped;
    use crate::Mode;
    use crate::Outcome;
    use ferro_fast_relay_core::ring::Header;
    use ferro_fast_relay_core::ring::Words;
    use ferro_sys::cpu;
    use ferro_sys::cpu::preempt::PreemptOff;

    /// Returns the position and the number of records in flight of this CPU.
    fn state(channel: &Channel) -> (u64, u64) {
        let Some(cpu) = cpu::CpuId::new(cpu::current_id()) else {
            return (0, 0);
        };
        channel.state.slots.memory(cpu).map_or((0, 0), |memory| {
            let word = memory.reserve();
            (word.position(), word.in_flight())
        })
    }

    #[test]
    fn sizes_that_are_no_powers_of_two_are_refused() -> Result {
        for (subbuf_size, n_subbufs) in
            [(0, 8), (32, 8), (4095, 8), (4096, 0), (4096, 1), (4096, 3)]
        {
            let refused = Channel::builder(c"ferro_fast_kunit")
                .subbuf_size(subbuf_size)
                .n_subbufs(n_subbufs)
                .open();
            assert_eq!(refused.err(), Some(ChannelError::Invalid));
        }
        Ok(())
    }

    #[test]
    fn a_directory_is_used_once() -> Result {
        let first = Channel::builder(c"ferro_fast_kunit").open()?;
        let second = Channel::builder(c"ferro_fast_kunit").open();
        assert_eq!(second.err(), Some(ChannelError::NameTaken));
        drop(first);
        Channel::builder(c"ferro_fast_kunit").open()?;
        Ok(())
    }

    #[test]
    fn records_are_counted_and_lost() -> Result {
        let channel = Channel::builder(c"ferro_fast_kunit")
            .subbuf_size(64)
            .n_subbufs(2)
            .open()?;
        let _here = PreemptOff::new();
        for _ in 0..2 {
            assert_eq!(channel.write(1, &[1u8; 56]), Ok(()));
        }
        assert_eq!(channel.write(1, &[1u8; 1]), Err(Dropped));
        assert_eq!(channel.write(1, &[1u8; 57]), Err(Dropped));
        assert_eq!(state(&channel), (128, 0));
        assert_eq!(channel.lost(), 2);
        Ok(())
    }

    #[test]
    fn overwrite_goes_on() -> Result {
        let channel = Channel::builder(c"ferro_fast_kunit")
            .subbuf_size(64)
            .n_subbufs(2)
            .mode(Mode::Overwrite)
            .open()?;
        let _here = PreemptOff::new();
        for _ in 0..10 {
            assert_eq!(channel.write_timed(1, &[1u8; 48]), Ok(()));
        }
        assert_eq!(state(&channel), (640, 0));
        assert_eq!(channel.lost(), 0);
        Ok(())
    }

    #[test]
    fn records_nest_in_order() -> Result {
        let channel = Channel::builder(c"ferro_fast_kunit").open()?;
        let _here = PreemptOff::new();
        let outer = channel.reserve(1, 12, |record| {
            assert!(record.put(&[1; 12]));
            assert!(!record.put(&[1; 1]));
            assert_eq!(state(&channel), (24, 1));
            assert_eq!(channel.write(2, &7u64), Ok(()));
            assert_eq!(state(&channel), (40, 1));
            Outcome::Commit
        });
        assert_eq!(outer, Ok(()));
        assert_eq!(state(&channel), (40, 0));
        Ok(())
    }

    #[test]
    fn a_timed_record_has_room_for_its_time() -> Result {
        let channel = Channel::builder(c"ferro_fast_kunit").open()?;
        let _here = PreemptOff::new();
        let written = channel.reserve_timed(1, 5, |record| {
            assert_eq!(record.left(), 5);
            assert!(record.put(&[1; 5]));
            Outcome::Discard
        });
        assert_eq!(written, Ok(()));
        assert_eq!(state(&channel), (24, 0));
        Ok(())
    }

    #[test]
    fn bytes_are_put_where_they_fit() -> Result {
        let channel = Channel::builder(c"ferro_fast_kunit").open()?;
        let _here = PreemptOff::new();
        let written = channel.place_timed(1, 11, |record| {
            assert!(record.put(3, [2; 8]));
            assert!(record.put(0, [1; 4]));
            assert!(!record.put(4, [3; 8]));
            assert!(!record.put(usize::MAX, [3; 1]));
            assert_eq!(channel.write(2, &7u64), Ok(()));
            Outcome::Commit
        });
        assert_eq!(written, Ok(Outcome::Commit));
        // After the header and the time.
        let cpu = cpu::CpuId::new(cpu::current_id()).ok_or(EIO)?;
        let memory = channel.state.slots.memory(cpu).ok_or(EIO)?;
        let bytes = memory.header(16).map(Header::to_word);
        assert_eq!(bytes, Some(0x0202_0202_0101_0101));
        let too_long = channel.place_timed(1, 1 << 30, |_| Outcome::Commit);
        assert_eq!(too_long, Err(Dropped));
        assert_eq!(state(&channel), (48, 0));
        Ok(())
    }

    #[test]
    fn too_many_open_records_are_refused() -> Result {
        fn nest(channel: &Channel, depth: u64) -> u64 {
            let mut deepest = depth;
            let _ = channel.reserve(1, 8, |_| {
                deepest = nest(channel, depth + 1);
                Outcome::Discard
            });
            if deepest == depth {
                assert_eq!(channel.write(1, &[0u8; 8]), Err(Dropped));
            }
            deepest
        }
        let channel = Channel::builder(c"ferro_fast_kunit").open()?;
        let _here = PreemptOff::new();
        assert_eq!(nest(&channel, 0), 24);
        assert_eq!(state(&channel), (24 * 16, 0));
        assert_eq!(channel.lost(), 2);
        Ok(())
    }

    #[test]
    fn a_guard_may_end_within_a_record() -> Result {
        let channel = Channel::builder(c"ferro_fast_kunit").open()?;
        let _here = PreemptOff::new();
        let guard = PreemptOff::new();
        let written = channel.reserve(1, 8, |_| {
            drop(guard);
            assert_eq!(channel.write(2, &7u64), Ok(()));
            Outcome::Commit
        });
        assert_eq!(written, Ok(()));
        assert_eq!(state(&channel), (32, 0));
        Ok(())
    }

    #[test]
    fn names_that_no_file_can_have_are_refused() -> Result {
        for dir in [c"", c".", c"..", c"a/b", c"/", c"a/"] {
            assert_eq!(
                Channel::builder(dir).open().err(),
                Some(ChannelError::Invalid)
            );
        }
        for base in [c"", c"a/b", c"/"] {
            let refused = Channel::builder(c"ferro_fast_kunit").base_name(base).open();
            assert_eq!(refused.err(), Some(ChannelError::Invalid));
        }
        Ok(())
    }

    #[test]
    fn memory_that_nobody_has_reserved_is_refused() -> Result {
        let builder = Channel::builder(c"ferro_fast_kunit");
        for name in [c"ferro_none", c"a-name-that-is-too-long"] {
            let refused = builder.reserved(name).open();
            assert_eq!(refused.err(), Some(ChannelError::Other(ENXIO)));
        }
        for name in [c"", c"a/b", c"control"] {
            let refused = builder.reserved(name).open();
            assert_eq!(refused.err(), Some(ChannelError::Invalid));
        }
        Ok(())
    }
}
