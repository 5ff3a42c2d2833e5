//! Operations inside of others: an error that names the statements which they become.

use super::foreign::{property_of, transpose_of};
use super::program::ProgramReader;
use super::scope::Meaning;
use crate::axes::stored_rank;
use crate::diag::{Cause, Diag, Diags, Message, PartKind, codes, message};
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ExprNode, IndexItem};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// The maximum number of statements that a note lists; of more, it has the innermost.
const MOST_STATEMENTS: usize = 8;

impl ProgramReader<'_> {
    /// Reports an operation inside of another one, with the statements that it becomes.
    pub(super) fn report_innermost(&mut self, id: ast::ExprId) {
        if self.report_tensor_field(id) {
            return;
        }
        let mut found = NestedOperations::default();
        self.unnest(id, &mut found);
        if found.texts.len() > MOST_STATEMENTS {
            found.texts.truncate(1);
            found.spans.truncate(1);
        }
        let span = match found.spans.as_slice() {
            [one] => *one,
            _ => self.file.expr_span(id),
        };
        report_nested(self.source, &found.texts, span, self.diags);
    }

    /// Collects the operations of an operand, the innermost first. Returns the operand's text with placeholders for the
    /// results of those.
    fn unnest(&self, id: ast::ExprId, found: &mut NestedOperations) -> String {
        let file = self.file;
        let span = file.expr_span(id);
        let whole = self.source.get(span.as_usize_range()).unwrap_or_default();
        if self.names_tensor(id) || !self.holds_tensor(id) {
            return whole.to_owned();
        }
        let inner: SmallVec<[ast::ExprId; 3]> = match *file.expr(id) {
            ExprNode::Paren(inner) => return self.unnest(inner, found),
            ExprNode::Unary(_, a) => SmallVec::from_slice(&[a]),
            ExprNode::Binary(_, a, b) => SmallVec::from_slice(&[a, b]),
            ExprNode::Call(_, args) => file.args[args.indices()].iter().map(|arg| arg.value).collect(),
            _ => SmallVec::new(),
        };
        let (mut text, mut done) = (String::new(), span.start);
        for part in inner {
            let place = file.expr_span(part);
            text += self.source.get(done as usize..place.start as usize).unwrap_or_default();
            text += &self.unnest(part, found);
            done = place.end;
        }
        text += self.source.get(done as usize..span.end as usize).unwrap_or_default();
        if let ExprNode::Field(base, _) = *file.expr(id) {
            text = transpose_of(&text, self.rank_of(base)).unwrap_or(text);
        }
        found.texts.push(text);
        found.spans.push(span);
        result_placeholder(found.texts.len() - 1)
    }
}

impl ProgramReader<'_> {
    /// The number of axes of a tensor or of a slice of one.
    pub(super) fn rank_of(&self, id: ast::ExprId) -> Option<usize> {
        let file = self.file;
        match *file.expr(id) {
            ExprNode::Name(name) => match self.tables.scope.get(name)?.meaning {
                Meaning::Tensor(tensor) => Some(stored_rank(&self.program, tensor)),
                _ => None,
            },
            ExprNode::Index(base, items) => {
                let items = &file.index_items[items.indices()];
                let taken = items.iter().filter(|item| matches!(item, IndexItem::At(_))).count();
                self.rank_of(base)?.checked_sub(taken)
            }
            ExprNode::Paren(inner) => self.rank_of(inner),
            _ => None,
        }
    }
}

/// The operations of an operand, the innermost first.
#[derive(Default)]
struct NestedOperations {
    /// With placeholders for the results of earlier ones.
    texts: Vec<String>,
    spans: Vec<Span>,
}

/// The place of the name of an operation's result in a text.
fn result_placeholder(operation: usize) -> String {
    format!("\u{0}{operation}\u{0}")
}

/// An operation inside of another one; `operations` are those that it consists of, the innermost first.
fn report_nested(source: &str, operations: &[String], span: Span, diags: &mut Diags) {
    let text = source.get(span.as_usize_range()).unwrap_or_default();
    if let ([_], Some((name, note))) = (operations, property_of(text)) {
        let message = message!("a tensor has no `{}`", PartKind::Word.quote(name));
        return diags.push(Diag::error(codes::NESTED_TENSOR_OP, span, message).with_note(note));
    }
    let message = message!("`{}` is an operation inside of another one", text);
    let names = unused_names(source, operations.len(), diags);
    let mut lines = Vec::new();
    for (operation, name) in operations.iter().zip(&names) {
        let numbered = names.iter().enumerate();
        let named = numbered.fold(operation.clone(), |text, (at, name)| text.replace(&result_placeholder(at), name));
        lines.push(format!("`{name} = {named}`"));
    }
    let last = names.last().cloned().unwrap_or_default();
    let note = match lines.split_last() {
        Some((only, [])) => {
            message!("a statement is one operation: write {} on a line of its own, and `{}` here", only, last)
        }
        Some((end, lines)) => message!(
            "a statement is one operation: write the lines {} and {} above, and `{}` here",
            lines.join(", "),
            end,
            last
        ),
        None => Message::default(),
    };
    diags.push(Diag::error(codes::NESTED_TENSOR_OP, span, message).with_note(note).with_cause(Cause::NewNames(names)));
}

/// The maximum number of errors for which names are searched: each search reads the whole text.
const MOST_NAMED: usize = 64;

/// Names that the text does not contain, and that no note has proposed.
fn unused_names(source: &str, count: usize, diags: &Diags) -> Vec<String> {
    if diags.items.len() > MOST_NAMED {
        return (1..=count).map(|number| if number == 1 { "U".to_owned() } else { format!("U{number}") }).collect();
    }
    let words: FxHashSet<&str> = source.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let proposed: FxHashSet<&String> = diags.items.iter().flat_map(Diag::new_names).collect();
    let short = ["U", "V", "P", "Q"].map(str::to_owned).into_iter();
    let names = short.chain((1u64..).map(|number| format!("U{number}")));
    names.filter(|name| !words.contains(name.as_str()) && !proposed.contains(name)).take(count).collect()
}
