//! The rules, and their use: a line of another language is rewritten until none applies.

use super::context::LineContext;
use super::habit::Habit;
use super::line::CodeLine;
use super::{
    allocations, calls, communications, declarations, headers, libraries, printed, ranges, signs, tensor_functions,
    values, words,
};
use crate::hir2::parser::Parser;
use std::ops::Range;

/// The most rules that one line may need.
const MOST_REWRITES: usize = 24;

/// A rule: what it finds in a line.
pub(super) type Rule = fn(&CodeLine<'_>, &LineContext<'_>) -> Option<Habit>;

/// The rules for statements, those first that find what others would take for something else.
pub(super) const LINE_RULES: &[Rule] = &[
    printed::stream_statement,
    printed::communication,
    printed::block_header,
    declarations::printed_statement,
    declarations::name_with_sigil,
    libraries::pointer_declaration,
    words::axes_first,
    words::header_end,
    words::block_end,
    words::loop_words,
    words::left_arrow,
    declarations::type_at_end,
    declarations::type_before_name,
    declarations::declared_before,
    declarations::walrus_assignment,
    libraries::loop_of_c,
    libraries::comprehension,
    values::conditional_value,
    values::choice_of_two,
    values::trailing_condition,
    values::several_values,
    values::chained_assignment,
    values::other_comparison,
    words::is_comparison,
    words::compared_key,
    words::compared_target,
    allocations::allocation_call,
    tensor_functions::tensor_function,
    signs::negation,
    communications::library_call,
    libraries::returned_value,
    libraries::copy_call,
    libraries::runtime_call,
    libraries::triton_store,
    libraries::launch_brackets,
    libraries::wait_method,
    libraries::module_function,
    calls::stream_manager,
    calls::print_call,
    calls::assertion,
    calls::method_call,
    calls::quoted_word,
    words::transpose_method,
    words::collective_call,
    words::peer_without_key,
    words::list_without_key,
    words::waited_operand,
    words::several_operands,
    words::ellipsis,
    words::suffixed_number,
    signs::double_arrow,
    signs::equals_before_type,
    calls::keyword_with_colon,
    ranges::new_axis_index,
    ranges::range_of_tensor,
    signs::semicolon_between,
    signs::missing_comma,
    signs::misspelt_word,
    words::bare_call,
    words::stray_sign,
    signs::several_statements,
    calls::end_of_statement,
];

/// The rules for lines in column 1.
pub(super) const ITEM_RULES: &[Rule] = &[
    headers::function_word,
    headers::kernel_word,
    declarations::name_with_sigil,
    headers::type_of_mlir,
    headers::sizes_list,
    headers::mesh_line,
    headers::open_axes,
    signs::double_arrow,
    signs::semicolon_between,
    headers::missing_arrow,
    headers::parameter_type,
    signs::missing_comma,
    headers::header_brace,
    headers::misspelt_item,
    calls::end_of_statement,
];

/// A line as it is written here.
pub(super) struct RewrittenLine {
    /// The finding of the first rule.
    pub(super) first: Habit,
    /// The lines in its place.
    pub(super) lines: Vec<String>,
}

/// Rewrites a line of code until no rule applies; `None` if none does.
pub(super) fn rewrite_code(code: &str, rules: &[Rule], context: &LineContext<'_>) -> Option<RewrittenLine> {
    let mut first: Option<Habit> = None;
    let (mut meant, mut above): (String, Vec<String>) = (code.to_owned(), Vec::new());
    for _ in 0..MOST_REWRITES {
        let line = CodeLine::new(&meant);
        let here = LineContext { above: &above, ..*context };
        let Some(found) = rules.iter().find_map(|rule| rule(&line, &here)) else { break };
        let next = found.meant.clone();
        above.extend(found.above.iter().cloned());
        if next == meant {
            break;
        }
        first.get_or_insert(found);
        meant = next;
    }
    let lines = above.into_iter().chain(meant.split('\n').map(str::to_owned)).collect();
    Some(RewrittenLine { first: first?, lines })
}

/// The header and the statement of `if c: wait h`.
pub(super) fn split_inline(code: &str) -> Option<(&str, &str)> {
    let line = CodeLine::new(code);
    let is_header = matches!(line.piece_text(0), "if" | "else" | "for" | "stream");
    let colon = line.find_outside(":").filter(|&colon| is_header && colon + 1 < line.pieces.len())?;
    let end = line.pieces[colon].place.end;
    Some((&code[..end], code[end..].trim_start()))
}

/// The bytes of the line at a place, without its break; `None` after the end of the text.
pub(super) fn line_at(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
    Some(start..start + rest.find('\n').unwrap_or(rest.len()))
}

/// True if the parser reads a line as a statement, or as a header with a block.
pub(super) fn is_read(line: &str) -> bool {
    let block = if line.ends_with(':') { "\n    wait h" } else { "" };
    has_no_errors(&format!("hir 2.1\n\nf() -> ():\n  {line}{block}\n"))
}

/// True if the parser reads a line in column 1: the header of a program, sizes, a mesh.
pub(super) fn is_item_read(line: &str) -> bool {
    let rest = if line.ends_with(':') { "  wait h\nf() -> ():\n  wait h" } else { "f() -> ():\n  wait h" };
    has_no_errors(&format!("hir 2.1\n{line}\n{rest}\n"))
}

fn has_no_errors(text: &str) -> bool {
    let mut parser = Parser::new(text);
    parser.parse_file();
    parser.errors.items.is_empty()
}
