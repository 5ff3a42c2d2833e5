//! The statements that loops and assignments of other languages become, as notes.

use crate::spelling::shorten_text;

/// True if an operator is between the parts of an expression, outside of brackets.
pub(super) fn has_operator(text: &str) -> bool {
    let mut depth = 0;
    text.chars().skip(1).any(|character| {
        match character {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => return depth == 0 && "+-*/%<>=&|^@".contains(character),
        }
        false
    })
}

/// Functions that are mostly of scalars, which may be parts of an expression.
const SCALAR_FUNCTIONS: &[&str] = &["wrap", "ceilDiv", "where", "max", "min", "abs"];

/// True if no bracket of a text is closed before it is opened.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0;
    text.chars().all(|character| {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        depth >= 0
    })
}

/// True for a name that may be called: letters, digits, `_` and `.`.
fn is_called_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte))
}

/// True if each number but the first one is computed from the one before it.
fn is_sequence(numbers: &[i64], next: impl Fn(i64) -> Option<i64>) -> bool {
    numbers.windows(2).all(|pair| next(pair[0]) == Some(pair[1]))
}

/// The name of the result of a statement that [`accumulation_note`] proposes.
const NEW_RESULT: &str = "U";

/// The statements that are meant by `C += value`, and the name of a new result among them.
pub(super) fn accumulation_note(target: &str, operator: &str, value: &str) -> (String, Option<&'static str>) {
    let factors = value.strip_prefix("matmul(").and_then(|rest| rest.strip_suffix(')'));
    let is_call = value.strip_suffix(')').and_then(|rest| rest.split_once('(')).is_some_and(|(name, arguments)| {
        is_called_name(name) && !SCALAR_FUNCTIONS.contains(&name) && is_balanced(arguments)
    });
    match factors.filter(|factors| operator == "+" && is_balanced(factors)) {
        Some(factors) => (format!("write `{target} = matmul_add({}, {target})`", shorten_text(factors)), None),
        None if is_call => {
            let first = format!("write `{NEW_RESULT} = {}`", shorten_text(value));
            let second = format!("`{target} = {target} {operator} {NEW_RESULT}`: a statement is one operation");
            (format!("{first}, and then {second}"), Some(NEW_RESULT))
        }
        None => {
            let value = if has_operator(value) { format!("({value})") } else { value.to_owned() };
            (format!("write `{target} = {target} {operator} {}`", shorten_text(&value)), None)
        }
    }
}

/// The loops that give an index the items of a list.
pub(super) fn list_loop_note(index: &str, items: &[String]) -> String {
    let count = items.len();
    let numbers: Option<Vec<i64>> = items.iter().map(|item| item.parse().ok()).collect();
    let numbers = numbers.unwrap_or_default();
    let step = numbers.get(1).zip(numbers.first()).and_then(|(second, first)| second.checked_sub(*first));
    let step = step.filter(|step| *step > 0 && is_sequence(&numbers, |number| number.checked_add(*step)));
    let is_doubled = numbers.first() == Some(&1) && is_sequence(&numbers, |number| number.checked_mul(2));
    let counter = if index == "i" { "k" } else { "i" };
    let range = step.zip(numbers.first()).map(|(step, first)| {
        let end = first.saturating_add(step.saturating_mul(count as i64 - 1)).saturating_add(1);
        let by = if step == 1 { String::new() } else { format!(" step {step}") };
        format!("`for {index} in {first}..{end}{by}:`")
    });
    let doubled = is_doubled.then(|| format!("`for {counter} in {count}:` with `{index} = 1 << {counter}` in it"));
    match (range, doubled) {
        (Some(range), Some(doubled)) => format!("write {range}, or {doubled}"),
        (Some(one), None) | (None, Some(one)) => format!("write {one}"),
        (None, None) => {
            let (last, before) = items.split_last().map_or(("", items), |(last, before)| (last.as_str(), before));
            let value = before
                .iter()
                .enumerate()
                .rev()
                .fold(last.to_owned(), |rest, (at, item)| format!("where({counter} == {at}, {item}, {rest})"));
            let value = shorten_text(&value);
            format!("write `for {counter} in {count}:` with the item as a scalar in it, `{index} = {value}`")
        }
    }
}

/// The loop that writes the slices of a range, `Y[0:4] = ..`.
pub(super) fn written_range_note(name: &str, index: &str) -> Option<String> {
    let mut ends = index.split([',', ':']).map(str::trim);
    let (start, end) = (ends.next()?, ends.next()?);
    let start = if start.is_empty() { "0" } else { start };
    Some(format!(
        "a statement writes a whole tensor or one slice of it: write a loop, `for i in {start}..{end}:`, with \
         `{name}[i] = ..` in it"
    ))
}
