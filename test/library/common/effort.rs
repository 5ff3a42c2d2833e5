//! The number of cases of a test with random input, and the seed of its numbers. `test/README.md` lists all of them.
#![allow(dead_code, clippy::panic, reason = "each test program uses a part; failures panic")]

/// `HIR_FULL=1` asks for the full set, which takes minutes; a number of cases can be given by itself, too.
pub(crate) fn cases(variable: &str, quick: u64, full: u64) -> u64 {
    let usual = if number("HIR_FULL") == Some(1) { full } else { quick };
    number(variable).unwrap_or(usual)
}

/// The seed of random numbers: `HIR_SEED=N` gives other ones.
pub(crate) fn seed(usual: u64) -> u64 {
    let other = |number: u64| usual ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number("HIR_SEED").map_or(usual, other)
}

/// A number of the environment.
pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{variable}={text} is no number"),
    }
}
