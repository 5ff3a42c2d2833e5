//! The words of `hir 2` for communications, statements, element types and arguments.
//!
//! Readers, writers and messages share these tables, so that a message names a thing as the text does.

use super::types::DType;

/// The words of posts in `hir 2`, with the `type=` of a Communication.
pub const COMMUNICATION_WORDS: &[(&str, &str)] = &[
    ("allgather", "Allgather"),
    ("allreduce", "Allreduce"),
    ("reduce_scatter", "ReduceScatter"),
    ("broadcast", "Broadcast"),
    ("send_recv", "SendRecv"),
    ("reduce", "Reduce"),
    ("scatter", "Scatter"),
    ("gather", "Gather"),
    ("all_to_all", "AllToAll"),
];

/// Words of statements in `hir 2`, by the head words of the printed form.
const STATEMENT_WORDS: &[(&str, &str)] = &[
    ("ALLOCATE", "alloc"),
    ("Deallocate", "free"),
    ("FOR", "for"),
    ("IF", "if"),
    ("SetCurrentStream", "stream"),
    ("GetCurrentStream", "stream"),
    ("Synchronize", "sync"),
    ("StartCoalescing", "group"),
    ("ShareMemHandles", "share"),
    ("HirAliasSelect", "slice"),
    ("Wait", "wait"),
    ("Assert", "assert"),
    ("Print", "print"),
];

/// The words of element types in `hir 2`.
pub const DTYPE_WORDS: &[(&str, DType)] = &[
    ("f64", DType::Double),
    ("f32", DType::Float),
    ("f16", DType::Half),
    ("bf16", DType::BFloat16),
    ("f8e4m3", DType::Float8E4M3),
    ("f8e5m2", DType::Float8E5M2),
    ("f8e8m0", DType::Float8E8M0),
    ("f4e2m1", DType::Float4E2M1),
    ("f4e2m1x2", DType::Float4E2M1x2),
    ("i8", DType::Int8),
    ("i16", DType::Int16),
    ("i32", DType::Int32),
    ("i64", DType::Int),
    ("u8", DType::UInt8),
    ("u16", DType::UInt16),
    ("u32", DType::UInt32),
    ("u64", DType::UInt64),
    ("index", DType::Index),
    ("bool", DType::Bool),
    ("c64", DType::ComplexFloat),
    ("c128", DType::ComplexDouble),
];

/// Words of functions in `hir 2`, with their names in the printed form.
const FUNCTION_WORDS: &[(&str, &str)] = &[("real", "std::real"), ("imag", "std::imag"), ("complex", "std::complex")];

/// Words of arguments in `hir 2`, by those of the printed form.
const ARGUMENT_WORDS: &[(&str, &str)] =
    &[("mem_type", "mem"), ("backend", "via"), ("red_op", "op"), ("zero_init", "zero"), ("numberOfStreams", "streams")];

/// The word of `hir 2` for a head word of the printed form, if it has another one.
pub fn statement_word(head: &str) -> Option<&'static str> {
    word_for(STATEMENT_WORDS, head)
}

/// `allgather` of `Allgather`.
pub fn collective_word(kind: &str) -> Option<&'static str> {
    COMMUNICATION_WORDS.iter().find(|(_, known)| *known == kind).map(|(word, _)| *word)
}

/// The function that a word of `hir 2` stands for, if it has another name in the printed form.
pub fn function_of_word(word: &str) -> &str {
    FUNCTION_WORDS.iter().find(|(known, _)| *known == word).map_or(word, |(_, name)| name)
}

/// The word of `hir 2` for a function, if it has another name in the printed form.
pub fn word_of_function(name: &str) -> &str {
    FUNCTION_WORDS.iter().find(|(_, known)| *known == name).map_or(name, |(word, _)| word)
}

/// The element type of a word.
pub fn dtype_of_word(word: &str) -> Option<DType> {
    DTYPE_WORDS.iter().find(|(known, _)| *known == word).map(|(_, dtype)| *dtype)
}

/// The word of an element type.
pub fn word_of_dtype(dtype: DType) -> &'static str {
    DTYPE_WORDS.iter().find(|(_, known)| *known == dtype).map_or(dtype.name(), |(word, _)| word)
}

/// The word of `hir 2` for an argument or a scalar of the printed form, if it has another one.
pub(super) fn argument_word(printed: &str) -> Option<&'static str> {
    word_for(ARGUMENT_WORDS, printed)
}

fn word_for(table: &[(&str, &'static str)], printed: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == printed).map(|(_, word)| *word)
}
