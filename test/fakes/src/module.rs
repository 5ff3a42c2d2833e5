//! Kernels: sources in the wrapping of a cubin, and what a launch of one does.

use crate::abi::get_values;
use crate::note::{self, KernelMeaning};
use crate::task::{self, DeviceWork, StreamTask};
use crate::tiled_gemm::TiledGemm;
use crate::user_kernel::{self, HostKernel, LaunchShape};
use crate::world::{FakeWorld, INVALID_HANDLE, INVALID_VALUE};
use std::sync::Arc;

/// Sizes of the file's header and of a section's.
const HEADER: usize = 64;

/// A kernel.
pub(crate) struct LoadedKernel {
    /// Bytes of its parameters: 8 of a word, 128 of a tensor map; of kernels of users also less than 8.
    pub(crate) params: Vec<usize>,
    kind: LaunchKind,
}

enum LaunchKind {
    /// One launch of a job.
    Job { number: usize, count: usize, meaning: Arc<KernelMeaning> },
    /// An exchange with so many flags to raise and copies.
    Exchange { signals: usize, copies: usize },
    /// A product of matrices that tensor maps describe.
    TiledGemm(TiledGemm),
    /// A file of a user's, whose kernels are compiled when they are asked for.
    UserModule(Arc<str>),
    /// A kernel of it.
    User(Arc<HostKernel>),
}

/// A cubin that holds a source as its only section.
pub(crate) fn wrapped(source: &str) -> Vec<u8> {
    let end = (HEADER + source.len()).next_multiple_of(8);
    let mut image = vec![0; end + HEADER];
    let mut set = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    set(0, b"\x7fELF\x02\x01\x01");
    set(18, &190u16.to_le_bytes());
    set(40, &(end as u64).to_le_bytes());
    for (at, value) in [(52, HEADER), (58, HEADER), (60, 1)] {
        set(at, &(value as u16).to_le_bytes());
    }
    set(HEADER, source.as_bytes());
    set(end + 4, &1u32.to_le_bytes());
    set(end + 24, &(HEADER as u64).to_le_bytes());
    set(end + 32, &(source.len() as u64).to_le_bytes());
    image
}

/// The source in an image at an address of the host.
pub(crate) fn unwrapped(image: *const u8) -> String {
    let word = |at: usize| {
        let bytes = get_values(image.wrapping_add(at), 8);
        bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize
    };
    let section = word(40);
    let (start, bytes) = (word(section + 24), word(section + 32));
    String::from_utf8_lossy(&get_values(image.wrapping_add(start), bytes)).into_owned()
}

impl LoadedKernel {
    /// The kernel of a source.
    pub(crate) fn new(source: &str) -> Result<Self, String> {
        if source.starts_with(user_kernel::MARK) {
            return Ok(Self { params: Vec::new(), kind: LaunchKind::UserModule(source.into()) });
        }
        let entry = source.rsplit_once("extern \"C\" __global__ void ").map_or("", |(_, entry)| entry);
        let list = entry.split_once(" hir(").and_then(|(_, list)| list.split_once(')'));
        let Some((list, _)) = list else { return Err("a source without a kernel".to_owned()) };
        let names: Vec<&str> = list.split(", ").filter(|param| !param.is_empty()).collect();
        let starting = |start: &str| names.iter().filter(|name| name.starts_with(start)).count();
        let params = vec![8; names.len()];
        if let Some(gemm) = TiledGemm::read(source) {
            let params = gemm.map_bytes().into_iter().chain(params.into_iter().skip(3)).collect();
            return Ok(Self { params, kind: LaunchKind::TiledGemm(gemm) });
        }
        if starting("Word ") == names.len() {
            let (signals, copies) = (starting("Word r"), starting("Word m") / 6);
            return Ok(Self { params, kind: LaunchKind::Exchange { signals, copies } });
        }
        let note::LaunchPart { number, count, meaning, .. } = note::read(source)?;
        let kind = LaunchKind::Job { number, count, meaning: Arc::new(meaning) };
        Ok(Self { params, kind })
    }
}

impl LoadedKernel {
    /// The kernel of this name in a file of a user's; `None` for another module, which is its only kernel.
    pub(crate) fn user_kernel(&self, entry: &str) -> Option<Result<Self, String>> {
        let LaunchKind::UserModule(source) = &self.kind else { return None };
        let user = |kernel: Arc<HostKernel>| Self { params: kernel.sizes.clone(), kind: LaunchKind::User(kernel) };
        Some(user_kernel::load(source, entry).map(user))
    }

    /// The number of words that its parameters fill.
    pub(crate) fn word_count(&self) -> usize {
        self.params.iter().map(|bytes| bytes.div_ceil(8)).sum()
    }
}

impl FakeWorld {
    /// Launches a kernel with the words of its parameters. The last launch of a job does what all of them together do.
    pub(crate) fn launch(
        &mut self,
        kernel: u64,
        stream: u64,
        device: usize,
        params: &[u64],
        shape: LaunchShape,
    ) -> i32 {
        let Some(kernel) = self.kernels.get(&kernel).cloned() else { return INVALID_HANDLE };
        let own = match self.stream(stream, device) {
            Ok(own) => own,
            Err(status) => return status,
        };
        let task = match &kernel.kind {
            LaunchKind::Exchange { signals, copies } => task::exchange_task(*signals, *copies, params),
            LaunchKind::UserModule(_) => return INVALID_HANDLE,
            LaunchKind::User(kernel) => {
                let (kernel, params) = (kernel.clone(), params.to_vec());
                StreamTask::in_order([DeviceWork::UserKernel { kernel, params, shape }])
            }
            LaunchKind::TiledGemm(gemm) => match gemm.meaning(params) {
                Some((meaning, params)) => {
                    StreamTask::in_order([DeviceWork::Compute { meaning: Arc::new(meaning), params }])
                }
                None => return INVALID_VALUE,
            },
            LaunchKind::Job { number, count, meaning } => {
                if *number == 0 {
                    own.params.clear();
                }
                own.params.extend(params);
                if number + 1 < *count {
                    return 0;
                }
                let params = std::mem::take(&mut own.params);
                StreamTask::in_order([DeviceWork::Compute { meaning: meaning.clone(), params }])
            }
        };
        match params.len() == kernel.word_count() {
            true => self.enqueue_task(stream, device, task),
            false => INVALID_VALUE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_wrapped_as_cubins() {
        for source in ["", "x", "a source of some length\n"] {
            assert_eq!(unwrapped(wrapped(source).as_ptr()), source);
        }
    }
}
