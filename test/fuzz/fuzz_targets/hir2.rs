//! Texts in `hir 2`: parsed, read, formatted, read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hostir_test::fuzz::fuzz_hir2(input));
