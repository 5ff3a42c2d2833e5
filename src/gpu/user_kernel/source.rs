//! Kernels of CUDA C++, as far as a text tells them without a compiler: `__global__`, words in front of the name, the name,
//! and the parameters in parentheses.
//!
//! Macros and templates can hide kernels and types. What is not certain is left to the compiler, whose result is read
//! again.

use super::entry::{FoundEntry, KernelEntry, KernelHeader, plain_name};
use super::parameter::{KernelParameter, NumberType, ParameterType};

/// Searches a kernel in a source and the files that it includes.
pub(super) fn find_entry(text: &str, headers: &[KernelHeader], entry: &str) -> FoundEntry {
    let code = without_comments(text);
    let all: Vec<KernelEntry> = kernels(&code);
    let name = plain_name(entry).unwrap_or(entry);
    let mut named = all.iter().filter(|kernel| kernel.name == name);
    match (named.next(), named.next()) {
        (Some(kernel), None) => FoundEntry::Known(kernel.clone()),
        (Some(_), Some(_)) => FoundEntry::Untold,
        (None, _) => {
            let texts = std::iter::once(text).chain(headers.iter().map(|header| header.text.as_str()));
            // A name can also be pasted together.
            let is_hidden = texts.into_iter().any(|text| has_word(text, name) || text.contains("##"));
            match is_hidden {
                true => FoundEntry::Untold,
                false => FoundEntry::Missing(all.into_iter().map(|kernel| kernel.name).collect()),
            }
        }
    }
}

/// Returns true if a text has an identifier.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|part| part == word)
}

/// The names in `#include ".."`, in their order.
pub fn included_files(text: &str) -> Vec<&str> {
    let code = without_comments(text);
    let mut found = Vec::new();
    let mut start = 0;
    for line in code.split_inclusive('\n') {
        let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
        if directive.is_some_and(|rest| rest.starts_with("include")) {
            let whole = &text[start..start + line.len()];
            let mut quoted = whole.split('"').skip(1);
            found.extend(quoted.next().filter(|_| quoted.next().is_some()));
        }
        start += line.len();
    }
    found
}

/// The text with blanks in the place of comments and of what is in quotes, so that all else keeps its place.
fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut kept = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        let length = match rest {
            [b'/', b'/', ..] => rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest.windows(2).skip(2).position(|end| end == b"*/").map_or(rest.len(), |end| end + 4),
            [quote @ (b'"' | b'\''), ..] => literal_length(rest, *quote),
            _ => {
                at += 1;
                continue;
            }
        };
        kept[at..at + length].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at += length;
    }
    // Characters of several bytes are blanked as a whole: comments and quotes begin and end at ASCII.
    String::from_utf8(kept).unwrap_or_default()
}

/// The bytes of a literal with its quotes. A quote between digits, as in `1'000`, has no partner in its line.
fn literal_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        match byte {
            b'\\' => at += 1,
            b'\n' => return 1,
            _ if byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    1
}

/// The kernels of a text without comments.
fn kernels(code: &str) -> Vec<KernelEntry> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices("__global__") {
        let after = &code[at + word.len()..];
        let Some((name, list)) = name_and_parameters(after) else { continue };
        let line = code[..at].matches('\n').count() + 1;
        let parameters = split_parameters(list).into_iter().map(read_parameter).collect();
        let kernel = KernelEntry { name: name.to_owned(), line: Some(line), parameters };
        // A declaration and its definition are one kernel.
        if !found.iter().any(|other: &KernelEntry| is_same_kernel(other, &kernel)) {
            found.push(kernel);
        }
    }
    found
}

fn is_same_kernel(a: &KernelEntry, b: &KernelEntry) -> bool {
    let [first, second] = [a, b].map(|kernel| kernel.parameters.iter().map(|parameter| parameter.ty));
    a.name == b.name && first.eq(second)
}

/// The name after `__global__`, and what is in its parentheses. Attributes have parentheses, too.
fn name_and_parameters(code: &str) -> Option<(&str, &str)> {
    let (mut at, mut name) = (0, "");
    while let Some(byte) = code.as_bytes().get(at) {
        match byte {
            b'(' => {
                let end = at + balanced_length(&code[at..])?;
                let is_attribute = name.starts_with("__") && name.ends_with("__") || name == "alignas";
                if !is_attribute {
                    return (!name.is_empty()).then_some((name, &code[at + 1..end - 1]));
                }
                at = end;
            }
            b';' | b'{' | b'}' | b'#' => return None,
            // The arguments of a template.
            b'<' => at += code[at..].find('>')? + 1,
            byte if byte.is_ascii_alphanumeric() || *byte == b'_' => {
                let rest = &code[at..];
                let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
                name = &rest[..length];
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// The bytes from a parenthesis to its partner, both included.
fn balanced_length(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at + 1),
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The parameters of a list: commas inside of brackets are parts of them.
fn split_parameters(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0i32, 0, Vec::new());
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'<' | b'{' => depth += 1,
            b')' | b']' | b'>' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                found.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[start..]);
    match found[..] {
        [only] if matches!(only.trim(), "" | "void") => Vec::new(),
        _ => found,
    }
}

/// `const float* __restrict__ A`, `unsigned n = 1`.
fn read_parameter(text: &str) -> KernelParameter {
    let text = text.split('=').next().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let ty = parameter_type(&text);
    KernelParameter { text, ty }
}

fn parameter_type(text: &str) -> ParameterType {
    if let Some((pointee, rest)) = text.split_once(['*', '[']) {
        let words = type_words(pointee);
        let is_simple = !rest.contains(['*', '[', '(']) && !pointee.contains(['<', '(']);
        // `float A[]` has its name before the bracket.
        let is_array = !text.contains('*');
        return match (is_simple && !is_array, NumberType::parse(&words.join(" "))) {
            (true, pointee) => ParameterType::Pointer(pointee),
            (false, _) if pointee.contains(['<', '(']) => ParameterType::Unknown,
            (false, _) => ParameterType::Pointer(None),
        };
    }
    if text.contains(['<', '&', '(']) {
        return ParameterType::Unknown;
    }
    let words = type_words(text);
    // All words may be the type, and the last one may be the name.
    let lengths = [words.len(), words.len().saturating_sub(1)];
    let known = lengths.into_iter().find_map(|length| NumberType::parse(&words[..length].join(" ")));
    known.map_or(ParameterType::Unknown, ParameterType::Number)
}

/// The words of a type without its qualifiers.
fn type_words(text: &str) -> Vec<&str> {
    const QUALIFIERS: &[&str] = &["const", "volatile", "__restrict__", "__restrict", "__grid_constant__", "struct"];
    text.split_whitespace().filter(|word| !QUALIFIERS.contains(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, Option<usize>, Vec<ParameterType>)> {
        let read = kernels(&without_comments(text)).into_iter();
        let types = |kernel: &KernelEntry| kernel.parameters.iter().map(|parameter| parameter.ty).collect();
        read.map(|kernel| (kernel.name.clone(), kernel.line, types(&kernel))).collect()
    }

    #[test]
    fn kernels_are_found_with_their_parameters() {
        let text = "// __global__ void no(int);
#define N 3
extern \"C\" __global__ void __launch_bounds__(256, 2) axpy(const float* __restrict__ A, float *B,
    unsigned long long n, std::size_t m = (1, 2), const bool flag, double) {
  axpy(1);
}
/* __global__ void no(int) */ __global__ __attribute__((used)) void g(void);
template <typename T> __global__ void t(T* a, T b, Array<T, 3> c, const int, half h, char** names, float x[]) {}
";
        let int = |bytes| ParameterType::Number(NumberType::Int(bytes));
        let floats = ParameterType::Pointer(Some(NumberType::Float(4)));
        let axpy = vec![
            floats,
            floats,
            int(8),
            int(8),
            ParameterType::Number(NumberType::Bool),
            ParameterType::Number(NumberType::Float(8)),
        ];
        let (any, half) = (ParameterType::Pointer(None), ParameterType::Number(NumberType::Half));
        let t = vec![any, ParameterType::Unknown, ParameterType::Unknown, int(4), half, any, any];
        let expected =
            vec![("axpy".to_owned(), Some(3), axpy), ("g".to_owned(), Some(7), vec![]), ("t".to_owned(), Some(8), t)];
        assert_eq!(found(text), expected);
    }

    #[test]
    fn what_a_text_does_not_tell_is_left_to_the_compiler() {
        let named = |text: &str, entry: &str| find_entry(text, &[], entry);
        let two = "__global__ void f(int); __global__ void f(float);";
        assert_eq!(named(two, "f"), FoundEntry::Untold);
        assert_eq!(named("KERNEL(f) {}", "f"), FoundEntry::Untold);
        assert_eq!(named("__global__ void ok(int);", "g"), FoundEntry::Missing(vec!["ok".to_owned()]));
        assert!(matches!(named("__global__ void f(int);", "_Z1fi"), FoundEntry::Known(_)));
        assert!(matches!(named("__global__ void f(int); __global__ void f(int n) {}", "f"), FoundEntry::Known(_)));
    }

    #[test]
    fn damaged_texts_are_read_to_their_end() {
        for text in
            ["__global__", "__global__ void f(", "__global__ void f((", "'", "\"\\", "/*", "__global__ <", "é/*é"]
        {
            assert_eq!(found(text), Vec::new(), "{text}");
        }
        assert_eq!(without_comments("a'b\n/*é*/\"é\"c"), "a b\n          c");
    }

    #[test]
    fn included_files_are_listed() {
        let text = "#include <a.h>\n # include \"b/c.cuh\" // \"no\"\n// #include \"no\"\n#include \"d.h\"";
        assert_eq!(included_files(text), ["b/c.cuh", "d.h"]);
    }
}
