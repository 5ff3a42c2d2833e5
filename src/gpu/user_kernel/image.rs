//! Kernels of machine code: the sections of a cubin. NVIDIA documents none of them; `cuobjdump` and `readelf` show them.
//!
//! | section | meaning |
//! |---|---|
//! | `.text.NAME` | code of a function |
//! | `.nv.constant0.NAME` | parameters of a kernel: no other function has this section |
//! | `.nv.info.NAME` | a list of attributes: a byte of form, a byte of kind, two bytes of size (form 4) or value |
//!
//! Attribute `0x17` is a parameter: four bytes of index, two of number, two of offset, and four whose bits from 18 on are
//! its size.

use super::entry::KernelEntry;
use super::parameter::KernelParameter;
use crate::cubin::{named_sections, u16_at, u32_at};

/// The form of an attribute whose size follows.
const SIZED: u8 = 4;
/// The kind of a parameter's attribute.
const PARAMETER: u8 = 0x17;
/// The lowest bit of a parameter's size.
const SIZE_BIT: u32 = 18;

/// The kernels of a cubin, by name; `None` if it has no names of sections.
pub(super) fn kernels(image: &[u8]) -> Option<Vec<KernelEntry>> {
    let sections = named_sections(image)?;
    let mut found = Vec::new();
    for (name, _) in &sections {
        let Some(name) = name.strip_prefix(".nv.constant0.") else { continue };
        if section_bytes(&sections, &format!(".text.{name}")).is_none() {
            continue;
        }
        let info = section_bytes(&sections, &format!(".nv.info.{name}"));
        let parameters = info.and_then(parameters).unwrap_or_default();
        found.push(KernelEntry { name: name.to_owned(), line: None, parameters });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Some(found)
}

/// The bytes of the section of this name.
fn section_bytes<'a>(sections: &[(&str, &'a [u8])], name: &str) -> Option<&'a [u8]> {
    sections.iter().find(|(other, _)| *other == name).map(|(_, bytes)| *bytes)
}

/// The parameters in a list of attributes, in their order.
fn parameters(mut info: &[u8]) -> Option<Vec<KernelParameter>> {
    let mut found: Vec<(u16, usize)> = Vec::new();
    while info.len() >= 4 {
        let (form, kind, size) = (info[0], info[1], usize::from(u16_at(info, 2)?));
        let bytes = if form == SIZED { size } else { 0 };
        let value = info.get(4..4 + bytes)?;
        if (form, kind) == (SIZED, PARAMETER) {
            found.push((u16_at(value, 4)?, (u32_at(value, 8)? >> SIZE_BIT) as usize));
        }
        info = &info[4 + bytes..];
    }
    found.sort_unstable();
    Some(found.into_iter().map(|(_, bytes)| KernelParameter::of_bytes(bytes)).collect())
}

/// Returns true if these are all bytes of a fatbin: its header has a word, two bytes of version, two of its own size and
/// eight of the size of what follows.
pub(super) fn is_whole_fatbin(bytes: &[u8]) -> bool {
    const WORD: u32 = 0xba55_ed50;
    let size = bytes.get(8..).and_then(|rest| rest.first_chunk()).map(|size| u64::from_le_bytes(*size));
    let (Some(WORD), Some(head), Some(size)) = (u32_at(bytes, 0), u16_at(bytes, 6), size) else { return false };
    u64::from(head) >= 16 && u64::from(head).checked_add(size).is_some_and(|end| end <= bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_from_attributes() {
        // Of a kernel with a pointer and an int, as NVRTC 13.0 writes them.
        let info = [
            &[4, 0x37, 4, 0, 0x82, 0, 0, 0][..],
            &[4, 0x17, 12, 0, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0xf0, 0x11, 0],
            &[4, 0x17, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x21, 0],
            &[3, 0x50, 0, 0, 3, 0x1b, 0xff, 0],
        ];
        let found = parameters(&info.concat()).unwrap();
        assert_eq!(found, [KernelParameter::of_bytes(8), KernelParameter::of_bytes(4)]);
        assert_eq!(parameters(&[4, 0x17, 12, 0, 0]), None);
    }

    #[test]
    fn a_fatbin_that_ends_early_is_refused() {
        let mut bytes = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([0; 8]);
        assert!(is_whole_fatbin(&bytes));
        assert!(!is_whole_fatbin(&bytes[..23]) && !is_whole_fatbin(&bytes[1..]) && !is_whole_fatbin(&[]));
    }
}
