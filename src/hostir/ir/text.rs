//! The cached texts of tensors, domains, meshes and scalars.

use crate::ir::functions;
use crate::ir::order;
use crate::ir::{
    DeviceMesh, Expr, ExprId, Id, IterDomain, MeshId, ParallelType, Program, StreamSpelling, Style, Symbol, TensorId,
    UnaryOp,
};

/// The range of a text that does not exist yet.
const UNSEEN: (u32, u32) = (u32::MAX, 0);

/// The texts that exist so far, one after the other in one buffer.
pub(crate) struct TextCache {
    style: Style,
    buffer: String,
    tensors: Vec<(u32, u32)>,
    exprs: Vec<(u32, u32)>,
    /// By tensor: true if a reader takes its printed order for that of its axes.
    permuted: Vec<bool>,
}

impl TextCache {
    /// For a program that is written in a style.
    pub(crate) fn new(program: &Program, style: Style) -> Self {
        Self {
            style,
            buffer: String::new(),
            tensors: vec![UNSEEN; program.tensors().len()],
            exprs: vec![UNSEEN; program.exprs().len()],
            permuted: order::permuted_results(program),
        }
    }

    /// Forgets all texts if they take more bytes than this: most are used again soon, or never.
    pub(crate) fn limit_bytes(&mut self, most: usize) {
        if self.buffer.len() > most {
            self.buffer.clear();
            self.tensors.fill(UNSEEN);
            self.exprs.fill(UNSEEN);
        }
    }

    /// The full text of a tensor.
    pub(crate) fn cached_tensor_text(&mut self, program: &Program, id: TensorId) -> &str {
        let (mut start, mut end) = self.tensors[id.index()];
        if (start, end) == UNSEEN {
            start = self.buffer.len() as u32;
            let permuted = self.permuted[id.index()];
            TextWriter { program, style: self.style, out: &mut self.buffer }.write_tensor(id, permuted);
            end = self.buffer.len() as u32;
            self.tensors[id.index()] = (start, end);
        }
        &self.buffer[start as usize..end as usize]
    }

    /// The inline text of a scalar.
    pub(crate) fn cached_expr_text(&mut self, program: &Program, id: ExprId) -> &str {
        let slot = id.0 as usize;
        let (mut start, mut end) = self.exprs[slot];
        if (start, end) == UNSEEN {
            start = self.buffer.len() as u32;
            TextWriter { program, style: self.style, out: &mut self.buffer }.write_expr(id);
            end = self.buffer.len() as u32;
            self.exprs[slot] = (start, end);
        }
        &self.buffer[start as usize..end as usize]
    }
}

/// A tensor as the text writes it in full.
pub fn tensor_text(program: &Program, tensor: TensorId) -> String {
    let mut out = String::new();
    let permuted = order::permuted_results(program)[tensor.index()];
    TextWriter { program, style: program.style(), out: &mut out }.write_tensor(tensor, permuted);
    out
}

/// An axis as the text writes it: `iS0{i0}`.
pub fn domain_text(program: &Program, domain: &IterDomain) -> String {
    let mut out = String::new();
    TextWriter { program, style: program.style(), out: &mut out }.write_domain(domain);
    out
}

/// A scalar as the text writes it: `( i0 * 2 )`.
pub fn expr_text(program: &Program, expr: ExprId) -> String {
    let mut out = String::new();
    TextWriter { program, style: program.style(), out: &mut out }.write_expr(expr);
    out
}

/// A mesh as the text writes it, `DeviceMesh{0 1}`, or `no mesh`.
pub fn mesh_text(program: &Program, mesh: Option<MeshId>) -> String {
    let Some(mesh) = mesh else { return "no mesh".to_owned() };
    let mut out = String::from("DeviceMesh");
    push_mesh(&mut out, program.mesh(mesh));
    out
}

/// Writes texts in a program's style.
pub(crate) struct TextWriter<'w> {
    pub(crate) program: &'w Program,
    pub(crate) style: Style,
    pub(crate) out: &'w mut String,
}

impl TextWriter<'_> {
    /// `T3_g_float[iS0{i0}] ca_pos( 1 ) (DeviceMesh{0 1})`
    fn write_tensor(&mut self, id: TensorId, permuted: bool) {
        let program = self.program;
        let tensor = program.tensor(id);
        self.out.push('T');
        push_number(self.out, u64::from(tensor.number));
        self.out.push('_');
        self.out.push_str(tensor.memory.name());
        if self.style.element_types {
            self.out.push('_');
            self.out.push_str(program.dtype_text(tensor.dtype));
        }
        self.out.push_str(if self.style.element_types { "[" } else { "[ " });
        for (index, domain) in program.domains(id).iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.write_domain(domain);
        }
        self.out.push_str(if self.style.element_types { "]" } else { " ]" });
        let positions = program.name(tensor.positions);
        if !positions.is_empty() {
            self.out.push(' ');
            self.out.push_str(positions);
        }
        if let Some(mesh) = program.tensor_mesh(id) {
            self.out.push_str(" (DeviceMesh");
            push_mesh(self.out, mesh);
            self.out.push(')');
        }
        if tensor.has_inferred_axes() {
            return;
        }
        if let Some(logical) = &tensor.logical {
            self.out.push_str(" {logical={");
            self.write_list(logical);
            self.out.push('}');
            self.write_axes(id, permuted, ", axes={");
            self.out.push('}');
        } else if self.write_axes(id, permuted, " {axes={") {
            self.out.push('}');
        }
    }

    /// Writes `{axes={1, 0, 2}` if a reader would derive other axes from the numbers; returns true if so.
    fn write_axes(&mut self, id: TensorId, permuted: bool, key: &str) -> bool {
        let axes = self.program.logical_axes(id);
        if axes == order::implied_axes(self.program.domains(id), permuted) {
            return false;
        }
        self.out.push_str(key);
        for (index, at) in axes.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            push_number(self.out, u64::from(*at));
        }
        self.out.push('}');
        true
    }

    /// `iS0{i0}`
    pub(crate) fn write_domain(&mut self, domain: &IterDomain) {
        self.out.push_str(domain.iter.name());
        self.out.push_str(match (domain.parallel, self.style.stream) {
            (ParallelType::Stream, StreamSpelling::Stream) => "Stream",
            (ParallelType::Stream, StreamSpelling::LowerStreamIdx) => "streamIdx",
            (parallel, _) => parallel.name(),
        });
        if let Some(number) = domain.number {
            push_number(self.out, u64::from(number));
        }
        if let Expr::RaggedExtents(extents) = *self.program.expr(domain.extent) {
            self.out.push_str("Ragged{extents=");
            self.write_tensor(extents, false);
            return self.out.push('}');
        }
        self.out.push('{');
        for bound in [domain.start, domain.stop].into_iter().flatten() {
            self.write_expr(bound);
            self.out.push_str(" : ");
        }
        self.write_expr(domain.extent);
        if let Some(expanded) = domain.expanded {
            self.out.push_str(" ex ");
            self.write_expr(expanded);
        }
        self.out.push('}');
        for (flag, text) in [(domain.rfactor, "rf"), (domain.padded, "_p"), (domain.clustered, "_c")] {
            if flag {
                self.out.push_str(text);
            }
        }
    }

    /// An expression with parentheses of its own.
    pub(crate) fn write_expr(&mut self, id: ExprId) {
        let program = self.program;
        match program.expr(id) {
            Expr::Int(value) => push_integer(self.out, *value),
            Expr::Hex(value) => self.out.push_str(&format!("{value:#x}")),
            Expr::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Expr::Typed(dtype, text) => {
                self.out.push_str(dtype.name());
                self.out.push('(');
                self.out.push_str(program.name(*text));
                self.out.push(')');
            }
            Expr::Float(text) => self.out.push_str(program.name(*text)),
            Expr::MetaData(tensor) => {
                self.out.push_str("getMetaData(T");
                push_number(self.out, u64::from(program.tensor(*tensor).number));
                self.out.push(')');
            }
            Expr::RaggedExtents(tensor) => {
                self.out.push('T');
                push_number(self.out, u64::from(program.tensor(*tensor).number));
            }
            Expr::Name(name) => self.write_name(*name),
            Expr::MeshCoordinate(mesh, coordinate) => {
                self.out.push_str("DeviceMesh");
                push_mesh(self.out, program.mesh(*mesh));
                self.out.push('.');
                self.out.push_str(coordinate.word());
            }
            Expr::Unary(..)
            | Expr::Binary(..)
            | Expr::Call(..)
            | Expr::Set(_)
            | Expr::Index(..)
            | Expr::Field(..)
            | Expr::Braces(_)
            | Expr::Struct(_) => {
                self.out.push_str("( ");
                self.write_expr_body(id);
                self.out.push_str(" )");
            }
        }
    }

    /// An expression without parentheses of its own.
    pub(crate) fn write_expr_body(&mut self, id: ExprId) {
        let program = self.program;
        match program.expr(id) {
            Expr::Unary(op, a) => {
                self.out.push_str(op.symbol());
                if *op == UnaryOp::Neg && is_unsigned_integer(program, *a) {
                    self.out.push(' ');
                }
                self.write_expr(*a);
            }
            Expr::Binary(op, a, b) => {
                self.write_expr(*a);
                self.out.push(' ');
                self.out.push_str(op.symbol());
                self.out.push(' ');
                self.write_expr(*b);
            }
            Expr::Call(name, args) => {
                self.out.push_str(functions::spelled_name(program.name(*name), &self.style));
                self.out.push('(');
                self.write_list(args);
                self.out.push(')');
            }
            Expr::Set(a) => self.write_expr(*a),
            Expr::Index(base, index) => {
                self.write_base(*base);
                self.out.push('[');
                self.write_expr(*index);
                self.out.push(']');
            }
            Expr::Field(base, field) => {
                self.write_base(*base);
                self.out.push('.');
                self.out.push_str(program.name(*field));
            }
            Expr::Braces(args) => {
                self.out.push_str("{ ");
                self.write_list(args);
                self.out.push_str(" }");
            }
            Expr::Struct(fields) => {
                self.out.push_str("{ ");
                for (index, (name, value)) in fields.iter().enumerate() {
                    self.out.push_str(if index > 0 { ", " } else { "" });
                    self.out.push_str(program.name(*name));
                    self.out.push_str(" = ");
                    self.write_expr(*value);
                }
                self.out.push_str(" }");
            }
            Expr::MetaData(_)
            | Expr::RaggedExtents(_)
            | Expr::Int(_)
            | Expr::Hex(_)
            | Expr::Bool(_)
            | Expr::Typed(..)
            | Expr::Float(_)
            | Expr::Name(_)
            | Expr::MeshCoordinate(..) => self.write_expr(id),
        }
    }

    fn write_base(&mut self, base: ExprId) {
        self.out.push('(');
        self.write_expr(base);
        self.out.push(')');
    }

    /// `a, b`
    pub(crate) fn write_list(&mut self, items: &[ExprId]) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            self.write_expr(*item);
        }
    }

    fn write_name(&mut self, name: Symbol) {
        match self.program.name(name) {
            "StreamIdx" if self.style.stream == StreamSpelling::LowerStreamIdx => self.out.push_str("streamIdx"),
            text => self.out.push_str(text),
        }
    }
}

/// Returns true if a minus directly before an operand would be the sign of a number: `-2`.
pub(crate) fn is_unsigned_integer(program: &Program, expr: ExprId) -> bool {
    program.exprs().as_int(expr).is_some_and(|value| value >= 0)
}

/// `{{0 1}{2 3}}`
fn push_mesh(out: &mut String, mesh: &DeviceMesh) {
    let rank = mesh.shape.len().max(1);
    let inner = mesh.shape.last().map_or(mesh.devices.len(), |extent| *extent as usize).max(1);
    out.extend(std::iter::repeat_n('{', rank));
    for (index, device) in mesh.devices.iter().enumerate() {
        if index > 0 {
            let depth = closed_groups(&mesh.shape, index);
            if index.is_multiple_of(inner) {
                out.extend(std::iter::repeat_n('}', depth));
                out.extend(std::iter::repeat_n('{', depth));
            } else {
                out.push(' ');
            }
        }
        push_number(out, u64::from(*device));
    }
    out.extend(std::iter::repeat_n('}', rank));
}

/// The number of groups that end before device `index`.
fn closed_groups(shape: &[u32], index: usize) -> usize {
    let mut size = 1usize;
    let full = |extent: &u32| {
        size = size.saturating_mul((*extent as usize).max(1));
        index.is_multiple_of(size)
    };
    shape.iter().rev().take(shape.len().saturating_sub(1)).map(full).take_while(|full| *full).count()
}

/// A decimal number.
pub(crate) fn push_number(out: &mut String, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[at..]).unwrap_or_default());
}

/// A decimal number with its sign.
pub(crate) fn push_integer(out: &mut String, value: i64) {
    if value < 0 {
        out.push('-');
    }
    push_number(out, value.unsigned_abs());
}
