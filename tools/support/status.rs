//! Exit statuses.

/// Exit statuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToolStatus {
    /// Everything went well.
    Ok = 0,
    /// The program is wrong.
    Program = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A file, device or library is missing or unfit.
    Environment = 3,
    /// A comparison differs.
    Differs = 4,
    /// A deadlock, or the time is up.
    Deadlock = 5,
    /// A part of the tool panicked, a bug of this project: the status of a panic in Rust.
    Internal = 101,
}

impl ToolStatus {
    /// The number that the process exits with.
    pub fn exit_code(self) -> i32 {
        self as i32
    }
}

/// The exit status of a child of `--processes` that ends because another one failed; it lets the parent find the first
/// failure.
pub const FOLLOWED: i32 = 75;
