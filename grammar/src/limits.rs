//! Limits of what is read.

/// The longest text that is read, in bytes.
pub const MAX_TEXT: usize = 256 << 20;
/// The largest number of errors that are recorded of one text; the rest of the text is not read then.
pub const MAX_ERRORS: usize = 10_000;
/// The largest number of a tensor, domain, HostUnit or statement. nvFuser prints it for what was never registered.
pub const MAX_NUMBER: u32 = u32::MAX;
/// The largest number of a device.
pub(crate) const MAX_DEVICE: u32 = i32::MAX as u32;
/// The largest number of tokens and comments of one text.
pub(crate) const MAX_TOKENS: usize = 1 << 24;
