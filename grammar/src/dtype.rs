//! Element types: the words of numbers, and the types of values in kernels.
//!
//! nvFuser prints the type of any value in its kernels: `float*`, `Array<float, 2, 1>`, `Tensor<float, 2, 2>`,
//! `struct { float x; int y; }`, `null_type`. Such a type is one text, which nothing computes with.

use crate::scan;

/// Element types as printed in a reference. All but the last, which is a type of kernels, are numbers.
pub const DTYPES: [&str; 22] = [
    "double",
    "float",
    "__half",
    "__bfloat",
    "__e4m3",
    "__e5m2",
    "__e8m0",
    "__e2m1",
    "__e2m1_x2",
    "int8_t",
    "int16_t",
    "int",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "nvfuser_index_t",
    "bool",
    "std::complex<float>",
    "std::complex<double>",
    "null_type",
];

/// The element types that are numbers.
pub(crate) fn number_types() -> &'static [&'static str] {
    &DTYPES[..21]
}

/// Names of element types of other tools.
pub(crate) const OTHER_DTYPES: [(&str, &str); 17] = [
    ("half", "__half"),
    ("float16", "__half"),
    ("fp16", "__half"),
    ("f16", "__half"),
    ("bfloat16", "__bfloat"),
    ("__bfloat16", "__bfloat"),
    ("bf16", "__bfloat"),
    ("float32", "float"),
    ("fp32", "float"),
    ("f32", "float"),
    ("float64", "double"),
    ("f64", "double"),
    ("int32_t", "int"),
    ("int32", "int"),
    ("i32", "int"),
    ("i64", "int64_t"),
    ("index", "nvfuser_index_t"),
];

/// The largest depth of types inside each other.
const MAX_DEPTH: u32 = 16;

/// Returns true for the text of a type of values in kernels: a pointer, an array, a struct, or `null_type`.
pub fn is_kernel_type(text: &str) -> bool {
    let mut reader = TypeReader { rest: text };
    reader.read_type(0).is_some() && reader.rest.trim().is_empty() && !number_types().contains(&text.trim())
}

/// Reads one type after the other from a text.
struct TypeReader<'t> {
    rest: &'t str,
}

impl<'t> TypeReader<'t> {
    fn read_type(&mut self, depth: u32) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.eat("Array<").or_else(|| self.eat("Tensor<")).is_some() {
            self.read_type(depth + 1)?;
            self.read_count()?;
            self.read_count()?;
            self.eat(">")?;
        } else if self.eat("struct").is_some() {
            self.read_fields(depth)?;
        } else {
            // The longest word first: `__e2m1` begins `__e2m1_x2`, and `int` begins `int64_t`.
            let words = DTYPES.iter().filter(|word| self.rest.trim_start().starts_with(**word));
            self.eat(words.max_by_key(|word| word.len())?)?;
        }
        while self.eat("*").is_some() {}
        Some(())
    }

    /// `, 2` of an array.
    fn read_count(&mut self) -> Option<()> {
        self.eat(",")?;
        let text = self.rest.trim_start();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        self.rest = &text[digits..];
        (digits > 0).then_some(())
    }

    /// `{ float x; int y; }`
    fn read_fields(&mut self, depth: u32) -> Option<()> {
        self.eat("{")?;
        while self.eat("}").is_none() {
            self.read_type(depth + 1)?;
            let text = self.rest.trim_start();
            let name = text.bytes().take_while(|byte| scan::is_word(*byte)).count();
            let starts_name = name > 0 && !text.starts_with(|c: char| c.is_ascii_digit());
            self.rest = starts_name.then(|| &text[name..])?;
            self.eat(";")?;
        }
        Some(())
    }

    fn eat(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(word)?;
        Some(())
    }
}
