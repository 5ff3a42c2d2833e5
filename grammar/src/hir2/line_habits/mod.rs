//! Statements of other languages that one line of `hir 2` can say: each is one error, whose edit writes that line.
//!
//! The parser meets such a line word by word, and what is left of it after the first word would be further errors. So
//! lines with errors are looked at as a whole afterwards: rules rewrite a line until none applies. The answer is given
//! only if the parser reads the new line without errors.

mod allocations;
mod braces;
mod calls;
mod communications;
mod context;
mod declarations;
mod declared;
mod habit;
mod headers;
mod indents;
mod libraries;
mod line;
mod loops;
mod printed;
mod ranges;
mod rewrite;
mod signs;
mod tensor_call;
mod tensor_functions;
mod tensor_reductions;
mod values;
mod words;

use super::ast::{AnsweredLine, ExprNode, FileSyntax, IndexItem, ItemSyntax, StatementNode, StmtForm};
use crate::ast::Symbol;
use crate::error::{SyntaxEdit, SyntaxError};
use crate::span::Span;
use context::LineContext;
use rewrite::{ITEM_RULES, LINE_RULES, RewrittenLine, is_item_read, is_read, rewrite_code, split_inline};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// The most lines of a text that are looked at.
const MOST_LINES: usize = 100;

/// The longest line that is looked at.
const MOST_LENGTH: usize = 400;

/// Gives lines of other languages their errors, and notes the places of all errors. All lines with errors are among
/// those with these expressions and statements.
pub(super) fn finish_tree(
    text: &str,
    file: &mut FileSyntax,
    errors: &mut Vec<SyntaxError>,
    exprs: Range<usize>,
    stmts: Range<usize>,
) {
    let library_lines = library_lines(text, file, exprs, stmts.clone());
    if errors.is_empty() && library_lines.is_empty() {
        file.restarts.note_faults(std::iter::empty());
        return;
    }
    let lines: Vec<Span> = library_lines.iter().map(|line| Span::new(line.start, line.end)).collect();
    let met = errors.iter().map(|error| error.span).chain(lines).reduce(Span::join);
    answer_habits(text, library_lines, file, errors);
    // Lines that were read twice, because of an unclosed bracket, change the order.
    errors.sort_by_key(|error| error.span);
    file.comments.sort_by_key(|comment| comment.span.start);
    let wrong = file.stmts[stmts].iter().filter(|stmt| stmt.form == StmtForm::Error).map(|stmt| stmt.span);
    let places: Vec<Span> = met.into_iter().chain(errors.iter().map(|error| error.span)).chain(wrong).collect();
    file.restarts.note_faults(places.into_iter());
}

/// The lines of some statements, with expressions in them, that the parser reads although they are calls of other
/// libraries, or have their words in another arrangement.
fn library_lines(text: &str, file: &FileSyntax, exprs: Range<usize>, stmts: Range<usize>) -> Vec<Range<usize>> {
    let stmts = file.stmts[stmts].iter().filter(|stmt| is_other_statement(file, stmt)).map(|stmt| stmt.span);
    // Most calls have one of a few names.
    let mut own_words: FxHashSet<Symbol> = FxHashSet::default();
    let calls = file.exprs[exprs].iter().filter(|(node, _)| match node {
        ExprNode::Call(name, _) if own_words.contains(&name.name) => false,
        ExprNode::Call(name, _) if !may_be_foreign(file.strings.get(name.name)) => {
            own_words.insert(name.name);
            false
        }
        node => is_other_call(file, *node),
    });
    let calls = calls.map(|(_, span)| *span);
    let mut found: Vec<Range<usize>> = Vec::new();
    for span in stmts.chain(calls) {
        let start = span.start as usize;
        if found.len() == MOST_LINES {
            break;
        }
        if !found.iter().any(|line| line.contains(&start)) {
            found.push(line_around(text, start));
        }
    }
    found
}

/// `wait(h)`, `wait 1`, `float *G = malloc(n)`, `G = f32[n]`.
fn is_other_statement(file: &FileSyntax, stmt: &StatementNode) -> bool {
    match stmt.form {
        StmtForm::Wait(value) => matches!(file.expr(value), ExprNode::Int(_) | ExprNode::Paren(_)),
        StmtForm::Assign { targets, value, .. } => {
            let first = file.targets[targets.indices()].first();
            first.is_some_and(|target| matches!(file.expr(target.value), ExprNode::Binary(..)))
                || allocations::is_type(file, value)
        }
        _ => false,
    }
}

/// False for a name with which a call is none of another library, whatever its arguments.
fn may_be_foreign(name: &str) -> bool {
    communications::collective_word(name).is_some()
        || matches!(name, "send" | "recv" | "Set.Permute")
        || allocations::is_allocator(name)
        || communications::is_library_call(name)
        || libraries::is_foreign_name(name)
        || tensor_functions::is_function_name(name)
}

/// Calls of other libraries, and those of communications and permutations without the keys and the arrow of here. A
/// kernel of the file may have the name of one.
fn is_other_call(file: &FileSyntax, node: ExprNode) -> bool {
    if let ExprNode::Index(_, items) = node {
        return file.index_items[items.indices()].iter().any(|item| is_new_axis(file, item));
    }
    let ExprNode::Call(name, args) = node else { return false };
    let name = file.strings.get(name.name);
    let args = &file.args[args.indices()];
    let plain = args.iter().filter(|arg| arg.key.is_none()).count();
    let is_other = match communications::collective_word(name) {
        Some(word) if word != name => true,
        Some(_) => plain > 1,
        None if matches!(name, "send" | "recv" | "Set.Permute") => plain > 1,
        None if allocations::is_other_allocation(file, name, args) => true,
        None => {
            communications::is_library_call(name)
                || libraries::is_foreign_name(name)
                || tensor_functions::is_tensor_function(file, name, args)
        }
    };
    let is_own = || file.items.iter().flat_map(ItemSyntax::names).any(|own| file.strings.get(own.name) == name);
    is_other && !is_own()
}

/// `None` of `M[:, None]`.
fn is_new_axis(file: &FileSyntax, item: &IndexItem) -> bool {
    let IndexItem::At(index) = *item else { return false };
    match *file.expr(index) {
        ExprNode::Name(name) => ranges::is_new_axis(file.strings.get(name)),
        ExprNode::Field(_, field) => ranges::is_new_axis(file.strings.get(field.name)),
        _ => false,
    }
}

/// Replaces the errors about lines of other languages by one for each, with the line to write; `lines` are looked at
/// without errors, too.
fn answer_habits(text: &str, mut lines: Vec<Range<usize>>, file: &mut FileSyntax, errors: &mut Vec<SyntaxError>) {
    let library_lines = lines.len();
    indents::answer_tabs(text, errors);
    for error in errors.iter() {
        let line = line_around(text, error.span.start as usize);
        if !lines.contains(&line) && lines.len() < MOST_LINES {
            lines.push(line);
        }
    }
    let mut done = 0;
    for (number, line) in lines.into_iter().enumerate() {
        if line.start < done && number >= library_lines {
            continue;
        }
        let has_error = number >= library_lines;
        if let Some((place, error)) = has_error.then(|| answer_block(text, &line)).flatten() {
            errors.retain(|other| {
                !place.contains(&(other.span.start as usize)) && other.span.start as usize != place.end
            });
            errors.push(error);
            done = place.end;
            continue;
        }
        let (on_line, others): (Vec<SyntaxError>, Vec<SyntaxError>) = errors
            .drain(..)
            .partition(|error| line.contains(&(error.span.start as usize)) || error.span.start as usize == line.end);
        let is_answered = has_error
            && matches!(on_line.as_slice(), [one] if is_repaired(text, &line, one) && !leaves_line_out(text, &line, one)
                    && !is_misread(&text[line.clone()]));
        let answer = if is_answered { None } else { answer_line(text, &line) };
        *errors = others;
        match answer {
            Some(answer) => {
                note_answer(file, &line, &answer);
                errors.push(answer);
            }
            None => errors.extend(on_line),
        }
    }
    errors.sort_by_key(|error| error.span);
}

/// The answer to a line that is the header of a block in other words: the bytes of the block, and its only error.
fn answer_block(text: &str, line: &Range<usize>) -> Option<(Range<usize>, SyntaxError)> {
    let block = braces::brace_block(text, line).map(|block| (block.place, block.error));
    block.or_else(|| loops::enumerated_loop(text, line)).or_else(|| loops::list_of_tensors(text, line))
}

/// Leaves out the statements of a line that has been answered; the names that they would declare are known.
fn note_answer(file: &mut FileSyntax, line: &Range<usize>, answer: &SyntaxError) {
    let inside = |span: Span| line.start <= span.start as usize && span.end as usize <= line.end;
    let stmts = file.stmts.iter_mut().filter(|stmt| inside(stmt.span) && !has_block(&stmt.form));
    stmts.for_each(|stmt| stmt.form = StmtForm::Error);
    let meant = answer.edit.iter().flat_map(|edit| edit.text.lines());
    for name in meant.filter_map(|line| declared_name(line.trim())) {
        let name = file.strings.intern(name);
        file.answered.push(AnsweredLine { span: Span::new(line.start, line.end), name });
    }
}

/// The name that a statement declares or assigns to, or that of the program with a header.
fn declared_name(code: &str) -> Option<&str> {
    if let Some((head, _)) = code.split_once('(').filter(|_| code.contains("->") && code.ends_with(':')) {
        return head.split_whitespace().next_back();
    }
    let code = code.strip_prefix("stream ").filter(|rest| rest.ends_with("= current")).unwrap_or(code);
    let end = code.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (name, rest) = code.split_at(end);
    let rest = rest.trim_start();
    (line::is_name(name) && (rest.starts_with(':') || rest.starts_with('=') && !rest.starts_with("=="))).then_some(name)
}

/// True for a line of which the parser's edit would leave out what was meant.
fn is_misread(line: &str) -> bool {
    headers::has_open_axes(line) || declarations::has_type_in_front(line.trim_start())
}

/// True if the edit of an error makes a line that the parser reads.
fn is_repaired(text: &str, line: &Range<usize>, error: &SyntaxError) -> bool {
    let Some(edit) = &error.edit else { return false };
    let (start, end) = (edit.span.start as usize, edit.span.end as usize);
    if start < line.start || line.end < end {
        return true;
    }
    let parts = (text.get(line.start..start), text.get(end..line.end));
    let (Some(before), Some(after)) = parts else { return true };
    let changed = format!("{before}{}{after}", edit.text);
    let code = changed.split("//").next().unwrap_or_default().trim_end();
    let is_item = !changed.starts_with([' ', '\t']);
    code.trim().is_empty() || if is_item { is_item_read(code) } else { is_read(code.trim_start()) }
}

/// True if the edit of an error leaves nothing of its line: a rule may know what it is here.
fn leaves_line_out(text: &str, line: &Range<usize>, error: &SyntaxError) -> bool {
    let before =
        error.edit.as_ref().filter(|edit| edit.text.is_empty()).map(|edit| line.start..edit.span.start as usize);
    before.and_then(|before| text.get(before)).is_some_and(|before| before.trim().is_empty())
        && error.edit.as_ref().is_some_and(|edit| edit.span.end as usize > error.span.end as usize)
}

fn has_block(form: &StmtForm) -> bool {
    matches!(form, StmtForm::For { .. } | StmtForm::If { .. } | StmtForm::Define(_) | StmtForm::Stream(_, Some(_)))
}

/// The bytes of the line at a place, without its break.
fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = at.min(text.len());
    let start = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let end = text.get(at..).and_then(|after| after.find('\n')).map_or(text.len(), |after| at + after);
    start..end
}

/// The error for a line, if rules make statements of it, or of the one after its header.
fn answer_line(text: &str, place: &Range<usize>) -> Option<SyntaxError> {
    let whole = text.get(place.clone()).filter(|line| line.len() <= MOST_LENGTH)?;
    let indentation = whole.len() - whole.trim_start().len();
    let code = whole[indentation..].split("//").next()?.trim_end();
    if code.is_empty() {
        return None;
    }
    let context = LineContext { text, start: place.start, above: &[] };
    let start = place.start + indentation;
    if indentation == 0 {
        let rewritten = rewrite_code(code, ITEM_RULES, &context)?;
        let [meant] = rewritten.lines.as_slice() else { return None };
        return is_item_read(meant).then(|| make_answer(&rewritten, start, code, ""));
    }
    let rewritten = rewrite_code(code, LINE_RULES, &context).filter(|rewritten| are_read(&rewritten.lines));
    if let Some(rewritten) = rewritten {
        return Some(make_answer(&rewritten, start, code, &whole[..indentation]));
    }
    let (header, inner) = split_inline(code)?;
    let rewritten = rewrite_code(inner, LINE_RULES, &context).filter(|rewritten| are_read(&rewritten.lines))?;
    let is_header_read = header.starts_with("else") || is_read(header);
    let is_single = rewritten.lines.len() == 1;
    (is_header_read && is_single).then(|| make_answer(&rewritten, start + code.len() - inner.len(), inner, ""))
}

fn are_read(lines: &[String]) -> bool {
    lines.iter().all(|line| is_read(line) || line == "else:")
}

/// The error for a line of code that begins at a byte.
fn make_answer(rewritten: &RewrittenLine, start: usize, code: &str, indentation: &str) -> SyntaxError {
    let RewrittenLine { first, lines } = rewritten;
    let span = Span::new(start, start + code.len());
    let shown = Span::new(start + first.place.start.min(code.len()), start + first.place.end.min(code.len()));
    let note = match lines.as_slice() {
        [one] if one.is_empty() => "leave it out".to_owned(),
        [one] => format!("write `{one}`"),
        several => {
            let quoted: Vec<String> = several.iter().map(|line| format!("`{line}`")).collect();
            format!("write {} on lines of their own", quoted.join(" and "))
        }
    };
    let edit = SyntaxEdit { span, text: lines.join(&format!("\n{indentation}")) };
    SyntaxError::new(first.code, shown, first.message.clone()).with_note(note).with_edit(edit)
}
