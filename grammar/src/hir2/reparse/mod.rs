//! Reading a text again after an edit: the statements around the edit are read, and those after it move.
//!
//! At some statements of a program's body nothing that the parser knows depends on the text before: no comment waits
//! for its place, and no blank line precedes. These are the restarts. After an edit, reading begins at the last restart
//! before it and ends where the statement of a restart after it begins again. The nodes of statements are together in
//! each arena, in the order of the text, so those in between are replaced, and the later ones get other numbers and
//! places. The tree is that of the whole text, but for the order of its strings. Statements with errors are always read
//! again: messages look at what is around them.

mod edit;
mod moved;
mod part;
mod strings;

use super::ast::{BlockId, BlockSyntax, FileSyntax, ItemSyntax};
use super::bundle::bundle_parts;
use super::line_habits::finish_tree;
use super::parser::Parser;
use super::part_context::PartContext;
use super::restarts::{ArenaSizes, NodeSpans, RestartPoint};
use super::stream::ErrorList;
use super::token::LineTok;
use crate::ast::{CommentPlaceSyntax, Symbol};
use crate::error::SyntaxError;
use crate::limits::MAX_TOKENS;
use edit::TextEdit;
use moved::NodeMove;
use part::{PartPlace, ReadPart};
use strings::find_lost_strings;

/// The most strings of earlier texts that a tree keeps.
const MOST_REMOVED: usize = 1 << 12;

/// Makes the tree of a text that of the text after an edit. Returns the errors of that text; `None`, and leaves the tree,
/// if the text has to be read as a whole.
///
/// ```
/// use hostir_grammar::hir2::{parse, reparse};
///
/// let before = "hir 2\nf(A: f32[n]) -> (C: f32[n]):\n  B = relu(A)\n  C = exp(B)\n";
/// let (after, wrong) = (before.replace("exp", "tanh"), before.replace("exp(", "exp"));
/// let mut file = parse(before).file;
/// assert_eq!(reparse(&mut file, before, &after), Some(vec![]));
/// assert_eq!(file.exprs.len(), parse(&after).file.exprs.len());
/// assert_eq!(reparse(&mut file, &after, &wrong), Some(parse(&wrong).errors));
/// ```
pub fn reparse(file: &mut FileSyntax, before: &str, after: &str) -> Option<Vec<SyntaxError>> {
    let mut edit = TextEdit::between(before, after);
    if let Some(faults) = file.restarts.faults {
        edit.extend_over(faults.as_usize_range());
    } else if edit.is_empty() {
        return Some(Vec::new());
    }
    // Imported texts are parts of a bundle. There are no more tokens than bytes.
    if after.len() >= MAX_TOKENS
        || file.strings.removed_count() > MOST_REMOVED
        || file.head.has_asked_version(before)
        || !file.parts.is_empty()
        || !bundle_parts(after).is_empty()
    {
        return None;
    }
    let points = std::mem::take(&mut file.restarts.points);
    let read = reread_part(file, &points, &edit, before, after);
    let Some(reread) = read else {
        file.restarts.points = points;
        return None;
    };
    reread.lost.iter().for_each(|symbol| file.strings.remove_string(*symbol));
    file.answered.clear();
    file.restarts.strings.retain(|symbol| !reread.lost.contains(symbol));
    file.restarts.strings.extend_from_slice(&reread.part.file.restarts.strings);
    file.restarts.strings.sort_unstable();
    file.restarts.strings.dedup();
    let (from, sizes) = (reread.place.first.sizes, reread.part.file.arena_sizes());
    let mut errors = replace_part(file, reread, &points);
    let (exprs, stmts) = (from.exprs as usize, from.stmts as usize);
    let (exprs, stmts) = (exprs..exprs + sizes.exprs as usize, stmts..stmts + sizes.stmts as usize);
    finish_tree(after, file, &mut errors, exprs, stmts);
    Some(errors)
}

/// Statements that were read again, with their place in the tree.
struct Reread {
    part: ReadPart,
    place: PartPlace,
    /// The strings that the text has no more.
    lost: Vec<Symbol>,
    /// The numbers of the restarts at which they begin and end.
    points: (usize, usize),
}

/// Reads the statements around an edit; `None`, and leaves the tree, if the whole text has to be read.
fn reread_part(
    file: &mut FileSyntax,
    points: &[RestartPoint],
    edit: &TextEdit,
    before: &str,
    after: &str,
) -> Option<Reread> {
    let first = points.partition_point(|point| ((point.start + point.column) as usize) < edit.start).checked_sub(1)?;
    let rest = points.partition_point(|point| point.start as usize <= edit.old_end);
    let same_body = points[rest..].iter().take_while(|point| point.body == points[first].body).count();
    let (strings, minor) = (file.strings.len(), file.head.minor);
    let is_last = ends_text(file, &points[first], before);
    let part = read_part(file, after, points[first], &points[rest..rest + same_body], edit.growth());
    let found = part.filter(|part| part.met.is_some() || is_last).and_then(|part| {
        let last = part.met.map_or(points.len(), |met| rest + met);
        let place = PartPlace { first: points[first], last: points.get(last).copied(), growth: edit.growth() };
        let lost = find_lost_strings(file, &part, &place, before, after)?;
        Some(Reread { part, place, lost, points: (first, last) })
    });
    if found.is_none() {
        file.strings.truncate_strings(strings);
        file.head.minor = minor;
    }
    found
}

/// True if nothing but comments follows the program with a restart.
fn ends_text(file: &FileSyntax, point: &RestartPoint, text: &str) -> bool {
    let item = file.items.get(point.item as usize..);
    let Some([ItemSyntax::Program(item) | ItemSyntax::Kernel(item)]) = item else { return false };
    let rest = text.get(item.span.end as usize..).unwrap_or_default();
    rest.lines().map(str::trim_start).all(|line| line.is_empty() || line.starts_with("//"))
}

/// Reads statements from a restart to one of `points`; `None` if the body ends before, and not with the text. Strings of
/// the tree get new ones.
fn read_part(
    file: &mut FileSyntax,
    text: &str,
    first: RestartPoint,
    points: &[RestartPoint],
    growth: u32,
) -> Option<ReadPart> {
    let (strings, head) = (std::mem::take(&mut file.strings), std::mem::take(&mut file.head));
    let part = FileSyntax { strings, head, ..FileSyntax::default() };
    let mut parser = Parser::over_part(text, first.start as usize, part, ErrorList::default());
    let id = parser.add_block(BlockSyntax::default());
    (parser.part, parser.block_depth) = (Some(PartContext { points, growth, met: None, file, first }), 1);
    let body = parser.read_statements(0, id);
    let met = parser.part.take().and_then(|part| part.met);
    let is_end = met.is_none() && parser.peek().tok == LineTok::End;
    if is_end {
        parser.take_all_comments(CommentPlaceSyntax::EndOfFile);
    }
    let (end, errors, mut part) = (parser.last_span().end, parser.errors, parser.file);
    (file.strings, file.head) = (std::mem::take(&mut part.strings), std::mem::take(&mut part.head));
    let is_whole = met.is_some() || is_end;
    (is_whole && !errors.is_full).then_some(ReadPart { file: part, errors: errors.items, body, met, end })
}

/// Puts statements that were read again into the tree, which had these restarts. Returns their errors.
fn replace_part(file: &mut FileSyntax, reread: Reread, points: &[RestartPoint]) -> Vec<SyntaxError> {
    let Reread { mut part, place, lost: _, points: (kept, later) } = reread;
    let (place, kept, later) = (&place, &points[..=kept], &points[later..]);
    let nodes @ NodeSpans { from, to } = place.nodes(file);
    let first = &place.first;
    // The block that stands for the body is none of the tree.
    part.file.blocks.remove(0);
    let one_block = ArenaSizes { blocks: 1, ..ArenaSizes::default() };
    let own = NodeMove { ids: from.plus(one_block.opposite()), bytes: 0 };
    own.move_nodes(&mut part.file, ArenaSizes::default());
    part.body.stmts.iter_mut().for_each(|stmt| own.move_stmt_id(stmt));
    let outer = own.moved_block(BlockId(0));
    for comment in &mut part.file.comments {
        if comment.place == CommentPlaceSyntax::EndOf(outer) {
            comment.place = CommentPlaceSyntax::EndOf(first.body);
        }
    }
    let grown = from.plus(part.file.arena_sizes()).plus(to.opposite());
    let rest = NodeMove { ids: grown, bytes: place.growth };
    rest.move_nodes(file, to);
    rest.move_items(&mut file.items[first.item as usize + 1..]);
    replace_body(file, &mut part, place, &rest);
    let mut points = kept.to_vec();
    let new = part.file.restarts.points.iter().filter(|point| point.start > first.start);
    points.extend(new.map(|point| RestartPoint {
        item: first.item,
        body: first.body,
        stmt: first.stmt + point.stmt,
        sizes: point.sizes.plus(own.ids),
        ..*point
    }));
    let grown = (first.stmt + part.body.stmts.len() as u32).wrapping_sub(place.last.map_or(0, |last| last.stmt));
    points.extend(later.iter().map(|point| {
        let is_inside = point.body == first.body;
        RestartPoint {
            start: point.start.wrapping_add(place.growth),
            body: if is_inside { point.body } else { rest.moved_block(point.body) },
            stmt: if is_inside { point.stmt.wrapping_add(grown) } else { point.stmt },
            sizes: point.sizes.plus(rest.ids),
            ..*point
        }
    }));
    file.restarts.points = points;
    splice_arenas(file, part.file, nodes);
    part.errors
}

/// Replaces the statements in the list of their body, whose end moves.
fn replace_body(file: &mut FileSyntax, part: &mut ReadPart, place: &PartPlace, rest: &NodeMove) {
    let (first, last) = (&place.first, place.last);
    let body = &mut file.blocks[first.body.index()];
    let to = last.map_or(body.stmts.len(), |last| last.stmt as usize);
    body.stmts[to..].iter_mut().for_each(|stmt| rest.move_stmt_id(stmt));
    body.stmts.splice(first.stmt as usize..to, part.body.stmts.iter().copied());
    let end = last.map_or(part.end, |_| body.span.end.wrapping_add(place.growth));
    body.span.end = end;
    if let ItemSyntax::Program(item) | ItemSyntax::Kernel(item) = &mut file.items[first.item as usize] {
        item.span.end = last.map_or(part.end, |_| item.span.end.wrapping_add(place.growth));
    }
}

/// Replaces a range of nodes in each arena.
fn splice_arenas(file: &mut FileSyntax, part: FileSyntax, nodes: NodeSpans) {
    let NodeSpans { from, to } = nodes;
    fn splice<T>(arena: &mut Vec<T>, part: Vec<T>, from: u32, to: u32) {
        arena.splice(from as usize..to as usize, part);
    }
    splice(&mut file.exprs, part.exprs, from.exprs, to.exprs);
    splice(&mut file.expr_lists, part.expr_lists, from.expr_lists, to.expr_lists);
    splice(&mut file.args, part.args, from.args, to.args);
    splice(&mut file.index_items, part.index_items, from.index_items, to.index_items);
    splice(&mut file.targets, part.targets, from.targets, to.targets);
    splice(&mut file.launches, part.launches, from.launches, to.launches);
    splice(&mut file.types, part.types, from.types, to.types);
    splice(&mut file.axes, part.axes, from.axes, to.axes);
    splice(&mut file.stmts, part.stmts, from.stmts, to.stmts);
    splice(&mut file.blocks, part.blocks, from.blocks, to.blocks);
    splice(&mut file.comments, part.comments, from.comments, to.comments);
}
