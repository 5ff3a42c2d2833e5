//! How messages write axes, scalars and tensors: as the text does.

use crate::diag::Diag;
use crate::ir::{
    Expr, ExprId, IterDomain, MeshId, OpId, ParallelType, Program, StreamSpelling, TensorId,
};
use smallvec::SmallVec;

/// `1 axis`, `2 axes`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// An axis: `iS0{i0}`.
pub(crate) fn domain(program: &Program, domain: &IterDomain) -> String {
    let parallel = match (domain.parallel, program.style().stream) {
        (ParallelType::Stream, StreamSpelling::Stream) => "Stream",
        (ParallelType::Stream, StreamSpelling::LowerStreamIdx) => "streamIdx",
        (other, _) => other.name(),
    };
    let number = if domain.number == u32::MAX { String::new() } else { domain.number.to_string() };
    let mut text =
        format!("{}{parallel}{number}{{{}", domain.iter.name(), expr(program, domain.extent));
    if let Some(expanded) = domain.expanded {
        text.push_str(" ex ");
        text.push_str(&expr(program, expanded));
    }
    text.push('}');
    if domain.rfactor {
        text.push_str("rf");
    }
    text
}

/// A mesh: `DeviceMesh{0 1}`.
pub(crate) fn mesh(program: &Program, mesh: Option<MeshId>) -> String {
    let Some(mesh) = mesh else { return "no mesh".to_owned() };
    let mesh = program.mesh(mesh);
    let mut text = String::from("DeviceMesh");
    let mut strides: SmallVec<[usize; 3]> = SmallVec::new();
    let mut stride = 1;
    for extent in mesh.shape.iter().rev() {
        stride *= (*extent as usize).max(1);
        strides.push(stride);
    }
    for (k, device) in mesh.devices.iter().enumerate() {
        let opens = strides.iter().filter(|&&s| k % s == 0).count();
        text.push_str(if opens == 0 { " " } else { "" });
        text.extend(std::iter::repeat_n('{', opens));
        text.push_str(&device.to_string());
        text.extend(strides.iter().filter(|&&s| (k + 1) % s == 0).map(|_| '}'));
    }
    if mesh.devices.is_empty() {
        text.push_str("{}");
    }
    text
}

enum Piece {
    Expr(ExprId),
    Text(&'static str),
}

/// A scalar: `( i0 * 2 )`.
pub(crate) fn expr(program: &Program, id: ExprId) -> String {
    let mut text = String::new();
    let mut stack: SmallVec<[Piece; 16]> = SmallVec::new();
    stack.push(Piece::Expr(id));
    while let Some(piece) = stack.pop() {
        match piece {
            Piece::Text(piece) => text.push_str(piece),
            Piece::Expr(id) => {
                let mut pieces = pieces(program, program.expr(id), &mut text);
                pieces.reverse();
                stack.extend(pieces);
            }
        }
    }
    text
}

/// Writes how an expression begins; what follows is returned.
fn pieces(program: &Program, expr: &Expr, text: &mut String) -> SmallVec<[Piece; 16]> {
    use Piece::{Expr as E, Text as T};
    let mut rest: SmallVec<[Piece; 16]> = SmallVec::new();
    match expr {
        Expr::Int(value) => text.push_str(&value.to_string()),
        Expr::Hex(value) => text.push_str(&format!("{value:#x}")),
        Expr::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Expr::Typed(dtype, literal) => {
            text.push_str(&format!("{}({})", dtype.name(), program.name(*literal)));
        }
        Expr::Float(name) | Expr::Name(name) => text.push_str(program.name(*name)),
        Expr::Unary(op, a) => rest.extend([T("( "), T(op.symbol()), E(*a), T(" )")]),
        Expr::Binary(op, a, b) => {
            rest.extend([T("( "), E(*a), T(" "), T(op.symbol()), T(" "), E(*b), T(" )")]);
        }
        Expr::Call(name, parts) => {
            text.push_str(program.name(*name));
            list(&mut rest, "(", parts, ")");
        }
        Expr::Set(a) => rest.extend([T("( "), E(*a), T(" )")]),
        Expr::Index(a, b) => rest.extend([T("("), E(*a), T(")["), E(*b), T("]")]),
        Expr::Field(a, _) => rest.extend([T("("), E(*a), T(").field")]),
        Expr::Braces(parts) => list(&mut rest, "{ ", parts, " }"),
        Expr::MetaData(tensor) => {
            text.push_str(&format!("getMetaData({})", program.tensor_name(*tensor)))
        }
    }
    rest
}

fn list(
    rest: &mut SmallVec<[Piece; 16]>,
    open: &'static str,
    parts: &[ExprId],
    close: &'static str,
) {
    rest.push(Piece::Text(open));
    for (k, part) in parts.iter().enumerate() {
        if k > 0 {
            rest.push(Piece::Text(", "));
        }
        rest.push(Piece::Expr(*part));
    }
    rest.push(Piece::Text(close));
}

/// Points at where a tensor was first written in full, unless that is in the op's own statement.
pub(crate) fn declared(diag: Diag, program: &Program, tensor: TensorId, op: OpId) -> Diag {
    let (place, statement) = (tensor_span(program, tensor), program.op_span(op));
    if place.start >= statement.start && place.end <= statement.end {
        return diag;
    }
    diag.label(place, format!("`{}` is declared here", program.tensor_name(tensor)))
}

/// Where a tensor was first written in full.
pub(crate) fn tensor_span(program: &Program, tensor: TensorId) -> crate::diag::Span {
    program.source().tensors.get(tensor).copied().unwrap_or_default()
}
