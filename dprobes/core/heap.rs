// SPDX-License-Identifier: GPL-2.0

//! Heap of a run, which is empty at its start.

use super::environment::World;
use super::exception::Exception;
use super::exception::Fault;
use super::insn::Insn;
use super::limits::HEAP_BLOCKS;
use super::machine::Machine;
use super::memory::Block;
use super::memory_ops::narrow;
use super::op::Op;

const FREE: Block = Block { start: 0, len: 0 };

impl Block {
    fn end(self) -> usize {
        usize::from(self.start).saturating_add(self.len.into())
    }

    /// Returns true if it has bytes in a range.
    fn meets(self, start: usize, end: usize) -> bool {
        self.len != 0 && usize::from(self.start) < end && start < self.end()
    }
}

impl<W: World> Machine<'_, W> {
    #[inline(never)]
    pub(super) fn heap(&mut self, insn: &Insn) -> Result<(), Fault> {
        if !self.memory.rest.has_heap {
            self.memory.blocks = [FREE; HEAP_BLOCKS];
            self.memory.rest.has_heap = true;
        }
        match insn.op {
            Op::Malloc => {
                let len = self.pop()?;
                let handle = self.allocate(len)?;
                self.push(handle)
            }
            Op::Free => {
                let handle = self.pop()?;
                *self.block(handle)? = FREE;
                Ok(())
            }
            op => {
                let offset = self.pop()?;
                let handle = self.pop()?;
                let width = insn.selector();
                let beyond = Fault::new(Exception::HeapOffset, offset);
                let start = self.place(handle, offset, width).ok_or(beyond);
                let block = self.block(handle).map(|_| ());
                block?;
                let start = start?;
                let end = start.saturating_add(width.into());
                let mut bytes = [0; 8];
                if op == Op::PopH {
                    bytes = self.pop()?.to_le_bytes();
                }
                let piece = narrow(&mut bytes, width).ok_or(beyond)?;
                let place = self.memory.heap.get_mut(start..end).ok_or(beyond)?;
                match op {
                    Op::PopH => place.copy_from_slice(piece),
                    _ => piece.copy_from_slice(place),
                }
                match op {
                    Op::PopH => Ok(()),
                    _ => self.push(u64::from_le_bytes(bytes)),
                }
            }
        }
    }

    /// Allocates the first sufficient room. The handle is the block's number, from 1.
    fn allocate(&mut self, len: u64) -> Result<u64, Fault> {
        let full = Fault::new(Exception::HeapFull, len);
        let size = usize::try_from(self.limits.heap).unwrap_or(usize::MAX);
        let size = size.min(self.memory.heap.len());
        let wanted = usize::try_from(len).map_err(|_| full)?;
        if wanted == 0 || wanted > size {
            return Err(full);
        }
        self.charge(
            u32::try_from(wanted / 8)
                .unwrap_or(u32::MAX)
                .saturating_add(256),
        )?;
        let blocks = &mut self.memory.blocks;
        let slot = blocks.iter().position(|block| block.len == 0).ok_or(full)?;
        let fits = |start: usize| {
            let end = start.saturating_add(wanted);
            end <= size && !blocks.iter().any(|block| block.meets(start, end))
        };
        let used = blocks.iter().filter(|block| block.len != 0);
        let start = core::iter::once(0)
            .chain(used.map(|block| block.end()))
            .find(|start| fits(*start))
            .ok_or(full)?;
        let block = Block {
            start: u16::try_from(start).map_err(|_| full)?,
            len: u16::try_from(wanted).map_err(|_| full)?,
        };
        let place = self.memory.heap.get_mut(start..block.end()).ok_or(full)?;
        place.fill(0);
        *blocks.get_mut(slot).ok_or(full)? = block;
        Ok((slot as u64).wrapping_add(1))
    }

    fn block(&mut self, handle: u64) -> Result<&mut Block, Fault> {
        let none = Fault::new(Exception::HeapHandle, handle);
        let slot = usize::try_from(handle.wrapping_sub(1)).map_err(|_| none)?;
        let block = self.memory.blocks.get_mut(slot).ok_or(none)?;
        match block.len {
            0 => Err(none),
            _ => Ok(block),
        }
    }

    /// Returns the offset in the heap of a piece of a block.
    fn place(&mut self, handle: u64, offset: u64, width: u8) -> Option<usize> {
        let block = *self.block(handle).ok()?;
        let end = offset.checked_add(width.into())?;
        let offset = usize::try_from(offset).ok()?;
        (end <= block.len.into()).then(|| usize::from(block.start).saturating_add(offset))
    }
}
