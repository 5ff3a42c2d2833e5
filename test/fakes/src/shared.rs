//! Memory that several processes have: a file without a name, which others open by its owner's descriptor.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Bytes in a file, each with all bits turned over: what nobody wrote reads as 0xff.
pub(crate) struct SharedBytes {
    file: File,
    pub(crate) bytes: u64,
    pub(crate) device: usize,
    /// Whether another process's handle led to it.
    pub(crate) is_opened: bool,
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl SharedBytes {
    /// New bytes, all of them 0xff, of a device.
    pub(crate) fn new(bytes: u64, device: usize) -> Result<Self, String> {
        let file = File::from(memfd_create("hostir-fakes", MemfdFlags::CLOEXEC).map_err(text)?);
        file.set_len(bytes).map_err(text)?;
        Ok(Self { file, bytes, device, is_opened: false })
    }

    /// The handle that another process opens.
    pub(crate) fn handle(&self) -> [u8; 64] {
        let numbers = [u64::from(std::process::id()), self.file.as_raw_fd() as u64, self.bytes, self.device as u64];
        let mut handle = [0; 64];
        for (place, number) in handle.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        handle
    }

    /// Opens what a process has.
    pub(crate) fn open(handle: [u8; 64]) -> Result<Self, String> {
        let mut numbers =
            handle.chunks_exact(8).map(|word| word.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        let mut next = || numbers.next().unwrap_or(0);
        let (process, descriptor, bytes, device) = (next(), next(), next(), next() as usize);
        let path = format!("/proc/{process}/fd/{descriptor}");
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let file = opened.map_err(|error| format!("{path}: {error}"))?;
        Ok(Self { file, bytes, device, is_opened: true })
    }

    pub(crate) fn read_bytes(&self, at: usize, bytes: usize) -> Result<Vec<u8>, String> {
        let mut read = vec![0; bytes];
        self.file.read_exact_at(&mut read, at as u64).map_err(text)?;
        read.iter_mut().for_each(|byte| *byte = !*byte);
        Ok(read)
    }

    pub(crate) fn write_bytes(&mut self, at: usize, bytes: &[u8]) -> Result<(), String> {
        let turned: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
        self.file.write_all_at(&turned, at as u64).map_err(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let mut own = SharedBytes::new(100, 3).unwrap();
        let mut other = SharedBytes::open(own.handle()).unwrap();
        assert_eq!((other.bytes, other.device, other.is_opened), (100, 3, true));
        own.write_bytes(10, &[1, 2]).unwrap();
        assert_eq!(other.read_bytes(9, 4), Ok(vec![0xff, 1, 2, 0xff]));
        other.write_bytes(11, &[7]).unwrap();
        assert_eq!(own.read_bytes(10, 2), Ok(vec![1, 7]));
        assert!(own.read_bytes(99, 2).is_err());
    }
}
