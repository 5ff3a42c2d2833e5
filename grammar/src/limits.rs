//! Limits of what is read.

/// The longest text that is read, in bytes.
pub const MAX_TEXT: usize = 256 << 20;
/// The maximum number of errors that are recorded for one text; beyond it the rest is not read.
pub const MAX_ERRORS: usize = 10_000;
/// The largest number of a tensor, domain, HostUnit or statement. nvFuser prints it for an unregistered object.
pub const MAX_NUMBER: u32 = u32::MAX;
/// The largest number of a device.
pub const MAX_DEVICE: u32 = i32::MAX as u32;
/// The largest number of tokens and comments of one text.
pub(crate) const MAX_TOKENS: usize = 1 << 24;
