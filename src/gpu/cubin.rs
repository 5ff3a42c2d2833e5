//! Cubins: checks that a compiled kernel is not truncated.
//!
//! The driver gets an address and no length: it reads as far as the image's headers say. So this module reads them
//! first. Images are cubins, which are ELF files of 64 bits; other forms are never made, and refused.

/// `EM_CUDA`.
const CUDA: u16 = 190;
/// Sizes of the file's header, a program header and a section header.
const FILE: usize = 64;
const PROGRAM: u64 = 56;
const SECTION: u64 = 64;
/// `SHT_NOBITS`: a section without bytes in the file.
const NO_BITS: u32 = 8;

/// Returns true if this is a cubin with everything that its headers refer to.
pub fn is_whole(image: &[u8]) -> bool {
    check_image(image).is_some()
}

/// `None` unless all tables, segments and sections lie within the image.
fn check_image(image: &[u8]) -> Option<()> {
    let head = image.get(..FILE)?;
    // Little-endian, of 64 bits.
    let is_elf = head.starts_with(b"\x7fELF\x02\x01");
    let fine = is_elf && u16_at(head, 18)? == CUDA && u16_at(head, 52)? as usize == FILE;
    let (programs, sections) = (u16_at(head, 56)?, u16_at(head, 60)?);
    // A table that exists has entries of the known size; without sections there is no kernel. Our kernels never have
    // counts that exceed their fields, which are then 0 and 0xffff.
    let sizes = (programs == 0 || u64::from(u16_at(head, 54)?) == PROGRAM) && u64::from(u16_at(head, 58)?) == SECTION;
    let counts = sections > 0 && programs != u16::MAX && u16_at(head, 62)? < sections;
    if !(fine && sizes && counts) {
        return None;
    }
    for entry in table_bytes(image, u64_at(head, 32)?, programs, PROGRAM)?.chunks_exact(PROGRAM as usize) {
        byte_range(image, u64_at(entry, 8)?, u64_at(entry, 32)?)?;
    }
    for entry in table_bytes(image, u64_at(head, 40)?, sections, SECTION)?.chunks_exact(SECTION as usize) {
        if u32_at(entry, 4)? != NO_BITS {
            byte_range(image, u64_at(entry, 24)?, u64_at(entry, 32)?)?;
        }
    }
    Some(())
}

/// The names and contents of the sections of a whole cubin; `None` if they have no names.
pub(crate) fn named_sections(image: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    let head = image.get(..FILE)?;
    let table = table_bytes(image, u64_at(head, 40)?, u16_at(head, 60)?, SECTION)?;
    let names = table.chunks_exact(SECTION as usize).nth(usize::from(u16_at(head, 62)?))?;
    let names = section_contents(image, names)?;
    let named = table.chunks_exact(SECTION as usize).map(|entry| {
        let name = names.get(u32_at(entry, 0)? as usize..)?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some((std::str::from_utf8(name).ok()?, section_contents(image, entry)?))
    });
    named.collect()
}

/// The bytes of the section that an entry of the table describes.
fn section_contents<'a>(image: &'a [u8], entry: &[u8]) -> Option<&'a [u8]> {
    match u32_at(entry, 4)? {
        NO_BITS => Some(&image[..0]),
        _ => byte_range(image, u64_at(entry, 24)?, u64_at(entry, 32)?),
    }
}

fn table_bytes(image: &[u8], start: u64, count: u16, size: u64) -> Option<&[u8]> {
    byte_range(image, start, u64::from(count) * size)
}

fn byte_range(image: &[u8], start: u64, bytes: u64) -> Option<&[u8]> {
    let end = start.checked_add(bytes)?;
    image.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|found| u16::from_le_bytes(*found))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|found| u32::from_le_bytes(*found))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|found| u64::from_le_bytes(*found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with one program header and these sections, each `(type, offset, bytes)`; `bytes` long in all, with the
    /// section headers at its end. Follows the ELF specification, not the check.
    fn elf(bytes: usize, sections: &[(u32, u64, u64)]) -> Vec<u8> {
        let mut image = vec![0; bytes];
        let mut put = |at: usize, value: &[u8]| image[at..at + value.len()].copy_from_slice(value);
        let headers = bytes - 64 * sections.len();
        put(0, b"\x7fELF\x02\x01\x01");
        put(18, &190u16.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(40, &(headers as u64).to_le_bytes());
        for (at, value) in [(52, 64), (54, 56), (56, 1), (58, 64), (60, sections.len() as u16)] {
            put(at, &value.to_le_bytes());
        }
        for (number, (kind, offset, size)) in sections.iter().enumerate() {
            let at = headers + 64 * number;
            put(at + 4, &kind.to_le_bytes());
            put(at + 24, &offset.to_le_bytes());
            put(at + 32, &size.to_le_bytes());
        }
        image
    }

    fn whole() -> Vec<u8> {
        elf(400, &[(0, 0, 0), (1, 120, 88), (8, 399, 1 << 40)])
    }

    #[test]
    fn an_image_that_ends_early_is_refused() {
        let image = whole();
        assert!(is_whole(&image));
        for bytes in 0..image.len() {
            assert!(!is_whole(&image[..bytes]), "the first {bytes} bytes");
        }
    }

    #[test]
    fn sections_and_segments_lie_within_the_image() {
        assert!(is_whole(&elf(400, &[(1, 120, 280)])));
        assert!(!is_whole(&elf(400, &[(1, 120, 281)])));
        assert!(!is_whole(&elf(400, &[(1, u64::MAX, 2)])));
        assert!(!is_whole(&elf(400, &[(1, 401, 0)])));
        let mut image = whole();
        // The program header's offset and size in the file.
        image[64 + 8..64 + 16].copy_from_slice(&300u64.to_le_bytes());
        image[64 + 32..64 + 40].copy_from_slice(&100u64.to_le_bytes());
        assert!(is_whole(&image));
        image[64 + 32] = 101;
        assert!(!is_whole(&image));
    }

    #[test]
    fn what_is_no_cubin_is_refused() {
        assert!(!is_whole(b"\x7fELF"));
        assert!(!is_whole(b".version 8.0\n.target sm_90\n\0"));
        assert!(!is_whole(&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        // Another machine, class, byte order, size of headers, no sections.
        for (at, value) in [(18, 62), (4, 1), (5, 2), (52, 63), (54, 57), (58, 63), (60, 0), (62, 3)] {
            let mut image = whole();
            image[at] = value;
            assert!(!is_whole(&image), "byte {at}");
        }
        assert!(!is_whole(&elf(400, &[])));
    }
}
