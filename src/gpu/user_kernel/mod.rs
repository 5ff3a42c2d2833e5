//! Kernels of the user: files of source or code, the kernels in them, and whether a launch fits one.
//!
//! Nothing here opens a file: whoever runs a program reads the files that its launches name, and hands over their bytes.
//! Source tells the types of parameters, PTX and machine code their sizes; [`arguments`] compares either with what a
//! launch passes.

pub mod arguments;
mod entry;
mod image;
mod parameter;
mod ptx;
mod source;

pub use entry::{FoundEntry, KernelEntry, KernelHeader};
pub use parameter::{KernelParameter, ParameterType};
pub use source::included_files;

use crate::cubin;
use entry::plain_name;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The contents of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelCode {
    /// CUDA C++.
    Source {
        /// The text.
        text: String,
        /// The files that it includes, and those that these include.
        headers: Vec<KernelHeader>,
    },
    /// Machine code for one architecture.
    Cubin(Vec<u8>),
    /// PTX, which the driver compiles.
    Ptx(String),
    /// Code for several architectures.
    Fatbin(Vec<u8>),
}

/// A file with kernels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelFile {
    /// Its name in the program.
    pub name: Arc<str>,
    /// Its contents.
    pub code: KernelCode,
}

/// The files of a program, by the names that its launches have.
pub type KernelFiles = BTreeMap<Arc<str>, KernelFile>;

impl KernelFile {
    /// A file by its name in the program, whose ending says what its bytes are.
    ///
    /// # Errors
    /// The reason why the bytes are not what the ending says.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, &'static str> {
        let code = match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("cubin") if cubin::is_whole(&bytes) => KernelCode::Cubin(bytes),
            Some("cubin") => return Err("it is damaged, or no cubin"),
            Some("fatbin") if image::is_whole_fatbin(&bytes) => KernelCode::Fatbin(bytes),
            Some("fatbin") => return Err("it is damaged, or no fatbin"),
            Some("ptx") => KernelCode::Ptx(checked_text(bytes)?),
            _ => KernelCode::Source { text: checked_text(bytes)?, headers: Vec::new() },
        };
        Ok(Self { name: name.into(), code })
    }

    /// Searches the kernel that a launch names.
    pub fn find_entry(&self, entry: &str) -> FoundEntry {
        match &self.code {
            KernelCode::Source { text, headers } => source::find_entry(text, headers, entry),
            KernelCode::Ptx(text) => find_in_code(ptx::kernels(text), entry),
            KernelCode::Cubin(image) => find_in_cubin(image, entry),
            KernelCode::Fatbin(_) => FoundEntry::Untold,
        }
    }

    /// Everything that it contains, with the files that it includes.
    pub fn contents(&self) -> Vec<&[u8]> {
        match &self.code {
            KernelCode::Cubin(bytes) | KernelCode::Fatbin(bytes) => vec![self.name.as_bytes(), bytes],
            KernelCode::Ptx(_) | KernelCode::Source { .. } => {
                [&*self.name].into_iter().chain(self.key_parts()).map(str::as_bytes).collect()
            }
        }
    }

    /// Everything that determines its machine code beside compiler and architecture, as texts for a key.
    pub fn key_parts(&self) -> Vec<&str> {
        match &self.code {
            KernelCode::Source { text, headers } => {
                let headers = headers.iter().flat_map(|header| [header.name.as_str(), header.text.as_str()]);
                [&*self.name, text.as_str()].into_iter().chain(headers).collect()
            }
            KernelCode::Ptx(text) => vec![text],
            KernelCode::Cubin(_) | KernelCode::Fatbin(_) => Vec::new(),
        }
    }
}

/// The text of a file, which has no zero byte.
fn checked_text(bytes: Vec<u8>) -> Result<String, &'static str> {
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => Err("it contains a zero byte"),
        Ok(text) => Ok(text),
        Err(_) => Err("it is not valid UTF-8"),
    }
}

/// Searches a kernel in machine code, whose names are those of the driver.
pub fn find_in_cubin(image: &[u8], entry: &str) -> FoundEntry {
    find_in_code(image::kernels(image).unwrap_or_default(), entry)
}

/// The kernel of this name; or the only one whose mangled name is that of a function of this name.
fn find_in_code(mut kernels: Vec<KernelEntry>, entry: &str) -> FoundEntry {
    if kernels.is_empty() {
        return FoundEntry::Untold;
    }
    if let Some(at) = kernels.iter().position(|kernel| kernel.name == entry) {
        return FoundEntry::Known(kernels.swap_remove(at));
    }
    let all = kernel_names(&kernels);
    kernels.retain(|kernel| plain_name(&kernel.name) == Some(entry));
    match kernels.len() {
        0 => FoundEntry::Missing(all),
        1 => FoundEntry::Known(kernels.swap_remove(0)),
        _ => FoundEntry::Several(kernel_names(&kernels)),
    }
}

/// The names of kernels, in their order.
fn kernel_names(kernels: &[KernelEntry]) -> Vec<String> {
    kernels.iter().map(|kernel| kernel.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> KernelFile {
        KernelFile::from_bytes(name, text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn kernels_are_found_by_both_names() {
        let ptx = file("a.ptx", ".visible .entry _Z4axpyPf(\n .param .u64 a\n)\n{\n}\n.entry f()\n{ }\n");
        for (entry, name) in [("axpy", "_Z4axpyPf"), ("_Z4axpyPf", "_Z4axpyPf"), ("f", "f")] {
            let FoundEntry::Known(found) = ptx.find_entry(entry) else { panic!("{entry}") };
            assert_eq!(found.name, name);
        }
        assert_eq!(ptx.find_entry("g"), FoundEntry::Missing(vec!["_Z4axpyPf".into(), "f".into()]));
        let two = file("a.ptx", ".entry _Z1fPf(){}\n.entry _Z1fPi(){}");
        assert_eq!(two.find_entry("f"), FoundEntry::Several(vec!["_Z1fPf".into(), "_Z1fPi".into()]));
    }

    #[test]
    fn files_are_what_their_names_say() {
        assert!(KernelFile::from_bytes("a.cu", vec![0xff]).is_err());
        assert!(KernelFile::from_bytes("a.ptx", vec![b'a', 0]).is_err());
        assert!(KernelFile::from_bytes("a.cubin", b"ELF".to_vec()).is_err());
        assert!(KernelFile::from_bytes("a.fatbin", b"ELF".to_vec()).is_err());
    }
}
