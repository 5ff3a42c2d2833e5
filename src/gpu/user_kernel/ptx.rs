//! Kernels of PTX: `.visible .entry NAME( .param .u64 NAME_param_0, .. )`, as its reference has it in section 5.4.

use super::entry::KernelEntry;
use super::parameter::{KernelParameter, NumberType, ParameterType};

/// The kernels of a text, in its order.
pub(super) fn kernels(text: &str) -> Vec<KernelEntry> {
    let text = without_comments(text);
    let mut found = Vec::new();
    for part in text.split(".entry").skip(1) {
        let is_word = part.starts_with(char::is_whitespace);
        let head = part.split('{').next().unwrap_or_default();
        let (name, list) = head.split_once('(').unwrap_or((head, ""));
        let name = name.split_whitespace().next().unwrap_or_default();
        if !is_word || name.is_empty() {
            continue;
        }
        let list = list.split(')').next().unwrap_or_default();
        let parameters = list.split(',').filter(|parameter| parameter.contains(".param")).map(read_parameter);
        found.push(KernelEntry { name: name.to_owned(), line: None, parameters: parameters.collect() });
    }
    found
}

/// The text without `// ..` and `/* .. */`.
fn without_comments(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        lines.push_str(line.split("//").next().unwrap_or_default());
        lines.push('\n');
    }
    let mut kept = String::with_capacity(lines.len());
    let mut rest = lines.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, rest)| rest);
    }
    kept + rest
}

/// `.param .align 8 .b8 name[16]`.
fn read_parameter(text: &str) -> KernelParameter {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    let array = text.split_once('[').and_then(|(_, rest)| rest.split(']').next()?.trim().parse::<usize>().ok());
    let size = words.iter().find_map(|word| {
        let bits = word.strip_prefix('.')?.trim_start_matches(['b', 'u', 's', 'f']);
        let known = word.len() > 2 && word[1..].starts_with(['b', 'u', 's', 'f']);
        bits.parse::<usize>().ok().filter(|_| known).map(|bits| (bits / 8, word.starts_with(".f")))
    });
    let ty = match (size, array) {
        (Some((bytes, _)), Some(count)) => ParameterType::Bytes(bytes * count),
        (Some(_), None) if words.contains(&".ptr") => ParameterType::Pointer(None),
        (Some((bytes @ (4 | 8), true)), None) => ParameterType::Number(NumberType::Float(bytes)),
        (Some((bytes, _)), None) => ParameterType::Bytes(bytes),
        (None, _) => ParameterType::Unknown,
    };
    KernelParameter { text, ty }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_types() {
        // As Triton and nvcc write them.
        let text = "
.version 8.7
.visible .entry add( // comment .entry no(
  .param .u64 .ptr .global .align 1 add_param_0,
  .param .u64 add_param_1, .param .u32 n, .param .f32 a,
  .param .align 8 .b8 s[24]
) /* .entry other() */
.reqntid 128
{ ret; }
.entry empty() { ret; }
";
        let found = kernels(text);
        assert_eq!(found.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["add", "empty"]);
        let types: Vec<ParameterType> = found[0].parameters.iter().map(|parameter| parameter.ty).collect();
        let number = ParameterType::Number(NumberType::Float(4));
        let [word, int, bytes] = [8, 4, 24].map(ParameterType::Bytes);
        assert_eq!(types, [ParameterType::Pointer(None), word, int, number, bytes]);
        assert!(found[1].parameters.is_empty() && kernels("").is_empty());
    }
}
