//! Meshes that are given by sizes: chooses the values of these sizes, and makes devices and canonical texts of the
//! meshes.

use crate::diag::{Diag, Diags, Message, PartKind, Quoted, RunOption, codes, message};
use crate::ir::{DeviceMesh, GivenSizes, MeshSizeSource, is_numbered_name, is_reserved_word};
use hostir_grammar::Span;
use hostir_grammar::ast::{self, Symbol};
use hostir_grammar::hir2::ast::{ExprNode, FileSyntax, ItemSyntax, MeshItem, SizedMeshSyntax};
use rustc_hash::{FxHashMap, FxHashSet};

/// The largest number of devices of a mesh, as in the grammar, and the largest number of a device.
const MOST_DEVICES: i64 = 1 << 20;
/// The largest value that is tried for a size that the number of ranks gives.
const MOST_TRIED: i64 = 4096;

/// The largest value that an error proposes for a size beside the one that the number of ranks gives.
const MOST_DIVISORS: i64 = 64;

/// The repair if no sizes give the meshes so many devices.
const NO_DIVISION: &str = "use another number of ranks: no sizes were found for which the meshes have so many devices";
/// The most evaluations of meshes for that.
const MOST_LOOKS: i64 = 1 << 22;
/// The values that are tried for sizes that nothing gives, so that the program can be verified.
const ASSUMED: [i64; 6] = [4, 2, 8, 1, 16, 64];

/// The sizes of the meshes of a file.
#[derive(Default)]
pub(super) struct FileSizes {
    values: FxHashMap<Symbol, (i64, MeshSizeSource)>,
    /// True if the program has numbers in their place.
    as_numbers: bool,
}

/// A mesh with its devices.
pub(super) struct SizedMesh {
    pub(super) mesh: DeviceMesh,
    /// Its canonical text.
    pub(super) text: Option<Vec<FormPiece>>,
}

/// A mesh that has no devices for the values of its sizes, or is no mesh for any.
struct SizedMeshFault {
    span: Span,
    message: Message,
    note: &'static str,
}

const OPERATORS_NOTE: &str = "a mesh is made of numbers, names of sizes, brackets and `+ - * / %`: `0..2 * p`";

/// The meshes of a file that are given by sizes.
struct MeshSolver<'a> {
    file: &'a FileSyntax,
    meshes: Vec<(&'a MeshItem, SizedMeshSyntax)>,
    /// Their sizes in the order of the text, each with its first place.
    names: Vec<(Symbol, Span)>,
}

impl FileSizes {
    /// Chooses the values: those of the caller, then the one that the number of ranks gives, then those of the text.
    pub(super) fn choose(file: &FileSyntax, given: &GivenSizes, diags: &mut Diags) -> Self {
        let mut sizes = Self { values: FxHashMap::default(), as_numbers: given.as_numbers };
        let mut solver = MeshSolver { file, meshes: sized_items(file).collect(), names: Vec::new() };
        if solver.meshes.is_empty() {
            return sizes;
        }
        if !solver.collect_names(diags) {
            return sizes;
        }
        sizes.values = solver.solve(given, diags);
        if given.as_numbers {
            solver.report_open(&sizes.values, diags);
        }
        sizes
    }

    /// The number in the place of a name, if the program is to have one.
    pub(super) fn number_of(&self, name: Symbol) -> Option<i64> {
        self.values.get(&name).filter(|_| self.as_numbers).map(|(value, _)| *value)
    }

    /// The devices of a mesh for the values, and its text unless the program is to have numbers; `None` after an error,
    /// which is reported.
    pub(super) fn find_devices(&self, file: &FileSyntax, item: &MeshItem, diags: &mut Diags) -> Option<SizedMesh> {
        let sized = item.sized?;
        match make_mesh(file, item, sized, &self.values) {
            Ok(mesh) => Some(SizedMesh { mesh, text: (!self.as_numbers).then(|| mesh_pieces(file, sized)) }),
            Err(fault) => {
                report_fault(fault, diags);
                None
            }
        }
    }

    /// The value of a size.
    pub(super) fn value_of(&self, name: Symbol) -> Option<(i64, MeshSizeSource)> {
        self.values.get(&name).copied()
    }
}

fn report_fault(fault: SizedMeshFault, diags: &mut Diags) {
    diags.push(Diag::error(codes::MESH_BY_SIZES, fault.span, fault.message).with_note(fault.note));
}

fn sized_items(file: &FileSyntax) -> impl Iterator<Item = (&MeshItem, SizedMeshSyntax)> {
    file.items.iter().filter_map(|item| match item {
        ItemSyntax::Mesh(mesh) => Some((mesh, mesh.sized?)),
        ItemSyntax::Import(_) | ItemSyntax::Kernel(_) | ItemSyntax::Program(_) => None,
    })
}

/// The expressions of a mesh.
fn mesh_exprs(file: &FileSyntax, sized: SizedMeshSyntax) -> Vec<ast::ExprId> {
    match sized {
        SizedMeshSyntax::Range(start, stop) => vec![start, stop],
        SizedMeshSyntax::Grid(extents) => file.expr_lists[extents.indices()].to_vec(),
    }
}

type SizeValues = FxHashMap<Symbol, (i64, MeshSizeSource)>;

impl MeshSolver<'_> {
    /// Collects the names of all meshes; returns false if some mesh is no computation of sizes.
    fn collect_names(&mut self, diags: &mut Diags) -> bool {
        let (file, before) = (self.file, diags.items.len());
        let mut known = FxHashSet::default();
        let mut open: Vec<ast::ExprId> = self.meshes.iter().flat_map(|(_, sized)| mesh_exprs(file, *sized)).collect();
        open.reverse();
        while let Some(expr) = open.pop() {
            let span = file.expr_span(expr);
            let message = match *file.expr(expr) {
                ExprNode::Int(_) | ExprNode::Error => continue,
                ExprNode::Paren(inner) => {
                    open.push(inner);
                    continue;
                }
                ExprNode::Binary(operator, a, b) if strength(file.symbol_text(operator)).is_some() => {
                    open.extend([b, a]);
                    continue;
                }
                ExprNode::Name(name) if is_size_name(file.symbol_text(name)) => {
                    if known.insert(name) {
                        self.names.push((name, span));
                    }
                    continue;
                }
                ExprNode::Name(name) => {
                    message!("`{}` is no size of a mesh", PartKind::Scalar.quote(file.symbol_text(name)))
                }
                _ => "a mesh is not computed so".into(),
            };
            report_fault(SizedMeshFault { span, message, note: OPERATORS_NOTE }, diags);
        }
        diags.items.len() == before
    }

    fn solve(&self, given: &GivenSizes, diags: &mut Diags) -> SizeValues {
        let file = self.file;
        let mut values = SizeValues::default();
        for &(name, _) in &self.names {
            if let Some(value) = given.set.get(file.symbol_text(name)) {
                values.insert(name, (*value, MeshSizeSource::Set));
            }
        }
        if let Some(devices) = given.devices {
            self.solve_devices(devices, &mut values, diags);
        }
        self.add_proposed(&mut values);
        if let Some(value) = given.every {
            for &(name, _) in &self.names {
                values.entry(name).or_insert((value, MeshSizeSource::Every));
            }
        }
        self.assume_open(&mut values);
        values
    }

    /// The names without a value.
    fn open_names(&self, values: &SizeValues) -> Vec<(Symbol, Span)> {
        self.names.iter().copied().filter(|(name, _)| !values.contains_key(name)).collect()
    }

    /// Adds the values of the line `sizes`.
    fn add_proposed(&self, values: &mut SizeValues) {
        for (name, _) in self.open_names(values) {
            if let Some(size) = self.file.head.sizes.iter().find(|size| size.name == name) {
                values.insert(name, (size.value, MeshSizeSource::Text));
            }
        }
    }

    /// Finds the value of the size that the caller leaves open, so that the meshes have so many devices. Of several,
    /// the one that the text gives no value either.
    fn solve_devices(&self, devices: u32, values: &mut SizeValues, diags: &mut Diags) {
        let open = self.open_names(values);
        let mut proposed = values.clone();
        self.add_proposed(&mut proposed);
        let unknown = self.open_names(&proposed);
        if open.is_empty() || (unknown.is_empty() && self.needed_ranks(&proposed) == Some(devices)) {
            return;
        }
        let solved = match (open.as_slice(), unknown.as_slice()) {
            (&[one], _) => one,
            (_, &[one]) => {
                *values = proposed;
                one
            }
            _ => return self.report_several(devices, &open, values, diags),
        };
        let (name, span) = solved;
        // Each trial looks at all meshes.
        let most = MOST_TRIED.min(MOST_LOOKS / self.meshes.len().max(1) as i64);
        let value = (1..=most).find(|value| {
            values.insert(name, (*value, MeshSizeSource::Devices(devices)));
            self.needed_ranks(values) == Some(devices)
        });
        if value.is_none() {
            values.remove(&name);
            self.report_unsolved(devices, name, span, values, diags);
        }
    }

    fn report_unsolved(&self, devices: u32, name: Symbol, span: Span, values: &SizeValues, diags: &mut Diags) {
        let given = self.names.iter().filter(|(other, _)| values.contains_key(other));
        let given: Vec<Symbol> = given.map(|(other, _)| *other).collect();
        let text = self.file.symbol_text(name);
        let message = message!(
            "no value of `{}` gives the meshes of this text {} devices",
            PartKind::Scalar.quote(text),
            devices
        );
        let note = match self.find_division(devices, &given, name, &SizeValues::default()) {
            Some(set) if !given.is_empty() => {
                message!("use another number of ranks, or {}", set_options(self.file, &set))
            }
            _ => NO_DIVISION.into(),
        };
        diags.push(Diag::error(codes::MESH_SIZE_UNSOLVED, span, message).with_note(note));
    }

    /// Values of some sizes for which a value of another one gives the meshes so many devices: if possible those of the
    /// line `sizes`.
    fn find_division(
        &self,
        devices: u32,
        fixed: &[Symbol],
        solved: Symbol,
        known: &SizeValues,
    ) -> Option<Vec<(Symbol, i64)>> {
        let most = i64::from(devices).min(MOST_DIVISORS);
        let proposed = |name: Symbol| self.file.head.sizes.iter().find(|size| size.name == name).map(|size| size.value);
        // An axis of 1 would be no axis.
        let choices: Vec<Vec<i64>> =
            fixed.iter().map(|name| proposed(*name).into_iter().chain(2..=most.max(2)).collect()).collect();
        let mut trials = 0;
        let mut places = vec![0; fixed.len()];
        loop {
            let set: Vec<(Symbol, i64)> =
                fixed.iter().zip(&choices).zip(&places).map(|((name, values), at)| (*name, values[*at])).collect();
            let mut values = known.clone();
            values.extend(set.iter().map(|(name, value)| (*name, (*value, MeshSizeSource::Text))));
            for value in 1..=i64::from(devices).min(MOST_TRIED) {
                trials += 1;
                values.insert(solved, (value, MeshSizeSource::Text));
                if self.needed_ranks(&values) == Some(devices) {
                    return Some(set);
                }
            }
            let next = places.iter().zip(&choices).position(|(at, values)| at + 1 < values.len())?;
            if trials > MOST_LOOKS / self.meshes.len().max(1) as i64 {
                return None;
            }
            places[next] += 1;
            places[..next].fill(0);
        }
    }

    fn report_several(&self, devices: u32, open: &[(Symbol, Span)], values: &SizeValues, diags: &mut Diags) {
        let names: Vec<&str> = open.iter().map(|(name, _)| self.file.symbol_text(*name)).collect();
        let quoted: Vec<Message> =
            names.iter().map(|name| PartKind::Scalar.quote(*name).in_backquotes().into()).collect();
        let message = message!("{} ranks do not say which values {} have", devices, Message::join(&quoted, " and "));
        let rest: Vec<Symbol> = open[1..].iter().map(|(name, _)| *name).collect();
        let note = match self.find_division(devices, &rest, open[0].0, values) {
            Some(set) => message!("set all of them but one: {}", set_options(self.file, &set)),
            None => NO_DIVISION.into(),
        };
        diags.push(Diag::error(codes::MESH_SIZE_UNSOLVED, open[0].1, message).with_note(note));
    }

    /// Gives sizes without a value one for which the meshes have devices.
    fn assume_open(&self, values: &mut SizeValues) {
        let open = self.open_names(values);
        for value in ASSUMED.into_iter().chain(ASSUMED.first().copied()) {
            values.extend(open.iter().map(|(name, _)| (*name, (value, MeshSizeSource::Assumed))));
            if self.needed_ranks(values).is_some() {
                break;
            }
        }
    }

    /// The number of ranks that the meshes need; `None` if one has no devices.
    fn needed_ranks(&self, values: &SizeValues) -> Option<u32> {
        let ends = self.meshes.iter().map(|(item, sized)| mesh_end(self.file, item, *sized, values).ok());
        ends.collect::<Option<Vec<i64>>>()?.into_iter().max().and_then(|end| u32::try_from(end).ok())
    }

    /// Reports sizes without a value in a text whose programs are to have numbers.
    fn report_open(&self, values: &SizeValues, diags: &mut Diags) {
        for (name, span) in &self.names {
            if values.get(name).is_some_and(|(_, source)| *source == MeshSizeSource::Assumed) {
                let name = self.file.symbol_text(*name);
                let message = message!("nothing gives `{}`, and this needs the devices of the mesh", name);
                diags.push(Diag::error(codes::MESH_SIZE_OPEN, *span, message).with_note(open_size_note(name)));
            }
        }
    }
}

/// `--set b=1`, `--set c=2`
fn set_options(file: &FileSyntax, set: &[(Symbol, i64)]) -> Message {
    let options = set.iter().map(|(name, value)| message!("`{}`", Quoted::set_option(file.symbol_text(*name), value)));
    Message::join(&options.collect::<Vec<Message>>(), ", ")
}

/// The ways to give a size of a mesh a value.
pub(crate) fn open_size_note(name: &str) -> Message {
    message!(
        "use `{}` or `{}`, or propose a value in the text: `sizes {}=4`",
        Quoted::run_option(RunOption::Devices, "--devices 4"),
        Quoted::set_option(name, 4),
        name
    )
}

fn is_size_name(text: &str) -> bool {
    let is_tensor = text.starts_with('T') && is_numbered_name(text);
    !is_reserved_word(text) && !text.contains('.') && text != "streamIdx" && !is_tensor
}

/// The strength of an operator that a mesh may have.
fn strength(operator: &str) -> Option<u8> {
    match operator {
        "+" | "-" => Some(1),
        "*" | "/" | "%" => Some(2),
        _ => None,
    }
}

fn evaluate(file: &FileSyntax, expr: ast::ExprId, values: &SizeValues) -> Option<i64> {
    match *file.expr(expr) {
        ExprNode::Int(value) => Some(value),
        ExprNode::Paren(inner) => evaluate(file, inner, values),
        ExprNode::Name(name) => values.get(&name).map(|(value, _)| *value),
        ExprNode::Binary(operator, a, b) => {
            let (a, b) = (evaluate(file, a, values)?, evaluate(file, b, values)?);
            match file.symbol_text(operator) {
                "+" => a.checked_add(b),
                "-" => a.checked_sub(b),
                "*" => a.checked_mul(b),
                "/" => a.checked_div(b),
                "%" => a.checked_rem(b),
                _ => None,
            }
        }
        _ => None,
    }
}

/// One past the last device of a mesh.
fn mesh_end(
    file: &FileSyntax,
    item: &MeshItem,
    sized: SizedMeshSyntax,
    values: &SizeValues,
) -> Result<i64, SizedMeshFault> {
    let (start, shape) = mesh_shape(file, item, sized, values)?;
    Ok(start + shape.iter().product::<i64>())
}

/// The first device of a mesh, and its extents.
fn mesh_shape(
    file: &FileSyntax,
    item: &MeshItem,
    sized: SizedMeshSyntax,
    values: &SizeValues,
) -> Result<(i64, Vec<i64>), SizedMeshFault> {
    let numbers: Option<Vec<i64>> =
        mesh_exprs(file, sized).into_iter().map(|expr| evaluate(file, expr, values)).collect();
    let shape = match (sized, numbers.as_deref()) {
        (SizedMeshSyntax::Range(..), Some(&[start, stop])) if start >= 0 => {
            stop.checked_sub(start).map(|count| (start, vec![count]))
        }
        (SizedMeshSyntax::Grid(_), Some(extents)) => Some((0, extents.to_vec())),
        _ => None,
    };
    let is_right = |(start, shape): &(i64, Vec<i64>)| {
        let count = shape.iter().try_fold(1i64, |count, extent| count.checked_mul(*extent).filter(|_| *extent > 0));
        let end = count.filter(|count| *count <= MOST_DEVICES).and_then(|count| start.checked_add(count));
        end.is_some_and(|end| end <= MOST_DEVICES)
    };
    shape.filter(is_right).ok_or_else(|| no_devices(file, item, sized, values))
}

fn no_devices(file: &FileSyntax, item: &MeshItem, sized: SizedMeshSyntax, values: &SizeValues) -> SizedMeshFault {
    let mut used: Vec<String> = Vec::new();
    for piece in mesh_pieces(file, sized) {
        let FormPiece::Name(name) = piece else { continue };
        if let Some((value, _)) = values.get(&name) {
            let text = format!("`{}` = {value}", file.symbol_text(name));
            if !used.contains(&text) {
                used.push(text);
            }
        }
    }
    let name = file.symbol_text(item.name.name);
    let message = match used.is_empty() {
        true => message!("mesh `{}` has no devices", PartKind::Mesh.quote(name)),
        false => message!("mesh `{}` has no devices for {}", PartKind::Mesh.quote(name), used.join(", ")),
    };
    SizedMeshFault {
        span: item.span,
        message,
        note: "a mesh has at least 1 device, and at most 1048576, from device 0 on",
    }
}

fn make_mesh(
    file: &FileSyntax,
    item: &MeshItem,
    sized: SizedMeshSyntax,
    values: &SizeValues,
) -> Result<DeviceMesh, SizedMeshFault> {
    let (start, shape) = mesh_shape(file, item, sized, values)?;
    let count: i64 = shape.iter().product();
    // `mesh_shape` has checked that all numbers are small.
    let shape = shape.into_iter().map(|extent| extent as u32).collect();
    Ok(DeviceMesh { shape, devices: (start as u32..(start + count) as u32).collect() })
}

/// A part of the canonical text of a mesh.
pub(super) enum FormPiece {
    Text(String),
    Name(Symbol),
}

/// `0..p`, `[y:a, x:b]` in canonical layout.
fn mesh_pieces(file: &FileSyntax, sized: SizedMeshSyntax) -> Vec<FormPiece> {
    let mut pieces = Vec::new();
    match sized {
        SizedMeshSyntax::Range(start, stop) => {
            push_expr(file, start, 0, &mut pieces);
            pieces.push(FormPiece::Text("..".to_owned()));
            push_expr(file, stop, 0, &mut pieces);
        }
        SizedMeshSyntax::Grid(extents) => {
            let extents = &file.expr_lists[extents.indices()];
            for (at, extent) in extents.iter().enumerate() {
                let axis = ["x", "y", "z"].get(extents.len() - 1 - at).unwrap_or(&"z");
                pieces.push(FormPiece::Text(format!("{}{axis}:", if at > 0 { ", " } else { "[" })));
                push_expr(file, *extent, 0, &mut pieces);
            }
            pieces.push(FormPiece::Text("]".to_owned()));
        }
    }
    pieces
}

/// Appends an operand of an operator that binds so strongly, with as few brackets as possible.
fn push_expr(file: &FileSyntax, expr: ast::ExprId, least: u8, pieces: &mut Vec<FormPiece>) {
    match *file.expr(expr) {
        ExprNode::Int(value) => pieces.push(FormPiece::Text(value.to_string())),
        ExprNode::Name(name) => pieces.push(FormPiece::Name(name)),
        ExprNode::Paren(inner) => push_expr(file, inner, least, pieces),
        ExprNode::Binary(operator, a, b) => {
            let operator = file.symbol_text(operator);
            let own = strength(operator).unwrap_or(0);
            let [open, close] = if own < least { ["(", ")"] } else { ["", ""] };
            pieces.push(FormPiece::Text(open.to_owned()));
            push_expr(file, a, own, pieces);
            pieces.push(FormPiece::Text(format!(" {operator} ")));
            push_expr(file, b, own + 1, pieces);
            pieces.push(FormPiece::Text(close.to_owned()));
        }
        _ => {}
    }
}
