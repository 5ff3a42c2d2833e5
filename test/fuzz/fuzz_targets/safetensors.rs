//! Files of safetensors.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| hostir_test::fuzz::fuzz_safetensors(input));
