//! The words of element types, here and in other languages.

/// The element types here.
const ELEMENT_TYPES: &[&str] = &[
    "f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1", "f4e2m1x2", "i8", "i16", "i32", "i64", "u8",
    "u16", "u32", "u64", "index", "bool", "c64", "c128",
];

/// Element types of C, Python, MLIR and of the printed form, and their spellings here.
const OTHER_ELEMENT_TYPES: &[(&str, &str)] = &[
    ("double", "f64"),
    ("float64", "f64"),
    ("float", "f32"),
    ("float32", "f32"),
    ("half", "f16"),
    ("float16", "f16"),
    ("__half", "f16"),
    ("bfloat16", "bf16"),
    ("__bfloat", "bf16"),
    ("__nv_bfloat16", "bf16"),
    ("__e4m3", "f8e4m3"),
    ("float8_e4m3fn", "f8e4m3"),
    ("__e5m2", "f8e5m2"),
    ("float8_e5m2", "f8e5m2"),
    ("__e8m0", "f8e8m0"),
    ("int8_t", "i8"),
    ("int8", "i8"),
    ("int16_t", "i16"),
    ("int16", "i16"),
    ("int", "i32"),
    ("int32", "i32"),
    ("int32_t", "i32"),
    ("long", "i64"),
    ("int64", "i64"),
    ("int64_t", "i64"),
    ("uint8_t", "u8"),
    ("uint8", "u8"),
    ("uint16_t", "u16"),
    ("uint32_t", "u32"),
    ("uint64_t", "u64"),
    ("nvfuser_index_t", "index"),
];

/// True for the word of an element type here.
pub(super) fn is_element_type(word: &str) -> bool {
    ELEMENT_TYPES.contains(&word)
}

/// The element type here for a word of another language.
pub(super) fn other_element_type(word: &str) -> Option<&'static str> {
    OTHER_ELEMENT_TYPES.iter().find(|(other, _)| *other == word).map(|(_, here)| *here)
}

/// The element type here for a word of this or of another language.
pub(super) fn element_type(word: &str) -> Option<&'static str> {
    let here = ELEMENT_TYPES.iter().find(|here| **here == word).copied();
    here.or_else(|| other_element_type(word))
}
