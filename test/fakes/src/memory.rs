//! Device memory: sparse, with addresses that are never given twice, so that each wrong access is found.

use crate::shared::SharedBytes;
use std::collections::BTreeMap;

/// The first address. No memory of the host lies there.
const FIRST: u64 = 0x2000_0000_0000;
/// Distance of allocations, and what the driver aligns them to.
const ALIGNMENT: u64 = 2 << 20;
const PAGE: usize = 1 << 14;

/// Some bytes of an allocation.
#[derive(Clone)]
enum MemoryPage {
    /// All the same.
    Same(u8),
    Data(Box<[u8]>),
}

/// The holder of the bytes of an allocation.
enum ByteStore {
    Pages(Vec<MemoryPage>),
    /// Other processes have it too.
    Shared(SharedBytes),
}

/// One allocation.
struct DeviceAllocation {
    device: usize,
    bytes: u64,
    store: ByteStore,
}

/// The place of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundMemory {
    /// The device that has the memory.
    pub(crate) device: usize,
    /// First address of the allocation.
    pub(crate) start: u64,
    /// Its size.
    pub(crate) bytes: u64,
    /// Whether another process's handle led to it.
    pub(crate) is_opened: bool,
}

/// The memory of all devices.
#[derive(Default)]
pub(crate) struct DeviceMemory {
    allocations: BTreeMap<u64, DeviceAllocation>,
    freed: BTreeMap<u64, u64>,
    next: u64,
}

impl DeviceMemory {
    /// Allocates memory whose bytes are all 0xff.
    pub(crate) fn allocate_memory(&mut self, device: usize, bytes: u64) -> u64 {
        let pages = vec![MemoryPage::Same(0xff); (bytes as usize).div_ceil(PAGE)];
        self.insert_allocation(DeviceAllocation { device, bytes, store: ByteStore::Pages(pages) })
    }

    fn insert_allocation(&mut self, allocation: DeviceAllocation) -> u64 {
        let start = FIRST + self.next;
        self.next += allocation.bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT;
        self.allocations.insert(start, allocation);
        start
    }

    /// A name by which other processes open an allocation, by its first address.
    pub(crate) fn share_memory(&mut self, address: u64) -> Result<[u8; 64], String> {
        let unknown = || format!("no allocation starts at {address:#x}");
        let allocation = self.allocations.get_mut(&address).ok_or_else(unknown)?;
        if let ByteStore::Pages(pages) = &allocation.store {
            let mut shared = SharedBytes::new(allocation.bytes, allocation.device)?;
            for (number, page) in pages.iter().enumerate() {
                let start = number * PAGE;
                let bytes = (allocation.bytes as usize - start).min(PAGE);
                match page {
                    MemoryPage::Same(0xff) => {}
                    MemoryPage::Same(byte) => shared.write_bytes(start, &vec![*byte; bytes])?,
                    MemoryPage::Data(data) => shared.write_bytes(start, &data[..bytes])?,
                }
            }
            allocation.store = ByteStore::Shared(shared);
        }
        match &allocation.store {
            ByteStore::Shared(shared) => Ok(shared.handle()),
            ByteStore::Pages(_) => Err(unknown()),
        }
    }

    /// Opens another process's allocation.
    pub(crate) fn open_shared(&mut self, handle: [u8; 64]) -> Result<u64, String> {
        let shared = SharedBytes::open(handle)?;
        let (device, bytes) = (shared.device, shared.bytes);
        Ok(self.insert_allocation(DeviceAllocation { device, bytes, store: ByteStore::Shared(shared) }))
    }

    /// Frees an allocation by its first address.
    pub(crate) fn free_memory(&mut self, address: u64) -> Result<(), String> {
        match self.allocations.remove(&address) {
            Some(allocation) => {
                self.freed.insert(address, allocation.bytes);
                Ok(())
            }
            None => Err(format!("{} is freed", self.described_range(address, 1))),
        }
    }

    /// Whether an address is one of a device, now or before.
    pub(crate) fn is_device(&self, address: u64) -> bool {
        (FIRST..FIRST + self.next).contains(&address)
    }

    /// The allocation that an address lies in.
    pub(crate) fn find_memory(&self, address: u64) -> Option<FoundMemory> {
        let (start, allocation) = self.allocations.range(..=address).next_back()?;
        let (device, bytes) = (allocation.device, allocation.bytes);
        let is_opened = matches!(&allocation.store, ByteStore::Shared(shared) if shared.is_opened);
        (address < start + bytes).then_some(FoundMemory { device, start: *start, bytes, is_opened })
    }

    /// A range of memory for people.
    fn described_range(&self, address: u64, bytes: usize) -> String {
        let range = format!("{bytes} bytes at {address:#x}");
        let before = |map: Option<(u64, u64)>| map.filter(|(start, size)| address < start + size + ALIGNMENT);
        let live = self.allocations.range(..=address).next_back().map(|(at, of)| (*at, of.bytes));
        let dead = self.freed.range(..=address).next_back().map(|(at, size)| (*at, *size));
        match (before(live), before(dead)) {
            (Some((start, size)), dead) if dead.is_none_or(|(other, _)| other < start) => {
                format!("{range}, which is {} behind the start of {size} bytes,", address - start)
            }
            (_, Some((start, size))) => {
                format!("{range}, which is {} behind the start of {size} freed bytes,", address - start)
            }
            _ => format!("{range}, which was never allocated,"),
        }
    }

    /// The allocation of a range and where in it the range starts.
    fn range_of(&mut self, address: u64, bytes: usize) -> Result<(&mut DeviceAllocation, usize), String> {
        let fits = |found: &FoundMemory| address + bytes as u64 <= found.start + found.bytes;
        let Some(found) = self.find_memory(address).filter(fits) else {
            return Err(format!("{} is accessed", self.described_range(address, bytes)));
        };
        let missing = || "an allocation is missing".to_owned();
        let allocation = self.allocations.get_mut(&found.start).ok_or_else(missing)?;
        Ok((allocation, (address - found.start) as usize))
    }

    /// Reads bytes.
    pub(crate) fn read_bytes(&mut self, address: u64, bytes: usize) -> Result<Vec<u8>, String> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let (allocation, mut at) = self.range_of(address, bytes)?;
        let pages = match &allocation.store {
            ByteStore::Pages(pages) => pages,
            ByteStore::Shared(shared) => return shared.read_bytes(at, bytes),
        };
        let mut read = Vec::with_capacity(bytes);
        while read.len() < bytes {
            let (page, start) = (at / PAGE, at % PAGE);
            let count = (PAGE - start).min(bytes - read.len());
            match &pages[page] {
                MemoryPage::Same(byte) => read.resize(read.len() + count, *byte),
                MemoryPage::Data(data) => read.extend_from_slice(&data[start..start + count]),
            }
            at += count;
        }
        Ok(read)
    }

    /// Writes bytes.
    pub(crate) fn write_bytes(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        if bytes.is_empty() {
            return Ok(());
        }
        let (allocation, mut at) = self.range_of(address, bytes.len())?;
        let pages = match &mut allocation.store {
            ByteStore::Pages(pages) => pages,
            ByteStore::Shared(shared) => return shared.write_bytes(at, bytes),
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            let (page, start) = (at / PAGE, at % PAGE);
            let count = (PAGE - start).min(rest.len());
            let page = &mut pages[page];
            if let MemoryPage::Same(byte) = page {
                *page = MemoryPage::Data(vec![*byte; PAGE].into());
            }
            if let MemoryPage::Data(data) = page {
                data[start..start + count].copy_from_slice(&rest[..count]);
            }
            rest = &rest[count..];
            at += count;
        }
        Ok(())
    }

    /// Sets all bytes of a range.
    pub(crate) fn fill_bytes(&mut self, address: u64, byte: u8, bytes: usize) -> Result<(), String> {
        if bytes == 0 {
            return Ok(());
        }
        let (allocation, mut at) = self.range_of(address, bytes)?;
        let end = at + bytes;
        let last = allocation.bytes as usize;
        let pages = match &mut allocation.store {
            ByteStore::Pages(pages) => pages,
            ByteStore::Shared(shared) => return shared.write_bytes(at, &vec![byte; bytes]),
        };
        while at < end {
            let (page, start) = (at / PAGE, at % PAGE);
            let count = (PAGE - start).min(end - at);
            let whole = start == 0 && (count == PAGE || at + count == last);
            match &mut pages[page] {
                page @ (MemoryPage::Same(_) | MemoryPage::Data(_)) if whole => {
                    *page = MemoryPage::Same(byte);
                }
                MemoryPage::Data(data) => data[start..start + count].fill(byte),
                page @ MemoryPage::Same(_) => {
                    let MemoryPage::Same(old) = *page else { continue };
                    let mut data = vec![old; PAGE];
                    data[start..start + count].fill(byte);
                    *page = MemoryPage::Data(data.into());
                }
            }
            at += count;
        }
        Ok(())
    }

    /// Reads a word of 32 bits.
    pub(crate) fn read_word(&mut self, address: u64) -> Result<u32, String> {
        let bytes = self.read_bytes(address, 4)?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_across_pages() {
        let mut memory = DeviceMemory::default();
        let at = memory.allocate_memory(1, 100_000);
        assert_eq!(memory.read_bytes(at + 99_999, 1), Ok(vec![0xff]));
        let bytes: Vec<u8> = (0..40_000u32).map(|number| number as u8).collect();
        memory.write_bytes(at + 5, &bytes).unwrap();
        assert_eq!(memory.read_bytes(at + 5, 40_000), Ok(bytes));
        memory.fill_bytes(at + 6, 3, 39_998).unwrap();
        assert_eq!(memory.read_bytes(at + 4, 3), Ok(vec![0xff, 0, 3]));
        assert_eq!(memory.read_bytes(at + 40_003, 3), Ok(vec![3, 39_999u32 as u8, 0xff]));
        assert_eq!(memory.find_memory(at + 7).map(|found| found.device), Some(1));
    }

    #[test]
    fn wrong_accesses_are_found() {
        let mut memory = DeviceMemory::default();
        let at = memory.allocate_memory(0, 64);
        let after = memory.read_bytes(at + 60, 8).unwrap_err();
        assert!(after.contains("60 behind the start of 64 bytes"), "{after}");
        assert_eq!(memory.free_memory(at), Ok(()));
        let freed = memory.write_bytes(at, &[0]).unwrap_err();
        assert!(freed.contains("of 64 freed bytes"), "{freed}");
        assert!(memory.free_memory(at).is_err());
        assert!(memory.read_bytes(4096, 1).unwrap_err().contains("never allocated"));
        assert!(memory.allocate_memory(0, 64) > at);
    }
}
