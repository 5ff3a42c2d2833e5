//! Signals that were ignored when the process began.

/// A bit for each signal, from 1 up, that was ignored when this process began, as `nohup` does with HUP. Such signals
/// stay ignored, and children inherit that.
pub fn ignored_signals() -> u64 {
    ignored_mask(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// The mask from that line of a process's status; 0 without the line.
fn ignored_mask(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HUP is the first signal, PIPE the 13th.
    #[test]
    fn masks_of_a_status() {
        assert_eq!(ignored_mask("SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!((ignored_mask(""), ignored_mask("SigIgn:\tx\n")), (0, 0));
    }
}
