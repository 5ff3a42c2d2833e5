//! Expressions of other languages that this one has in another form: fields of tensors, functions that allocate.

use super::foreign::{allocation_of, reduction_of_method, runtime_scalar_of, transpose_of, typed_allocation_of};
use super::program::ProgramReader;
use super::report;
use super::scope::Meaning;
use crate::axes::logical_axes;
use crate::diag::{Applicability, Diag, Fix, codes};
use crate::hir2::defaults::dtype_of_word;
use crate::ir::{TensorId, short_expr_text};
use crate::ops::expected_types::declared_type_text;
use hostir_grammar::Span;
use hostir_grammar::ast;
use hostir_grammar::hir2::ast::{ArgNode, ExprNode, NameSyntax, NodeRange, TargetSyntax};

/// Fields that say how many elements a tensor has, or how many along an axis.
const EXTENT_FIELDS: &[&str] = &["shape", "size", "sizes", "numel", "nelement", "nbytes", "ndim", "len", "length"];

/// A call that reduces a tensor in other languages.
struct ReductionCall<'a> {
    function: &'a str,
    /// True if it is a method of the tensor.
    is_method: bool,
    operand: &'a str,
    tensor: TensorId,
    /// Axes that the operand's indices leave out.
    indices: usize,
    /// The axis that is given, from the end if it is negative.
    axis: Option<i64>,
}

impl ProgramReader<'_> {
    fn source_text(&self, span: Span) -> &str {
        self.source.get(span.as_usize_range()).unwrap_or_default()
    }

    /// Reports the first field of a tensor in an expression, such as `X.size`; `X.T` is an operation. Returns false if
    /// there is none.
    pub(super) fn report_tensor_field(&mut self, id: ast::ExprId) -> bool {
        let file = self.file;
        match *file.expr(id) {
            ExprNode::Paren(a) | ExprNode::Unary(_, a) => self.report_tensor_field(a),
            ExprNode::Index(base, _) => self.report_tensor_field(base),
            ExprNode::Binary(_, a, b) => self.report_tensor_field(a) || self.report_tensor_field(b),
            ExprNode::Call(_, args) => file.args[args.indices()].iter().any(|arg| self.report_tensor_field(arg.value)),
            ExprNode::Field(base, field) if self.names_tensor(base) => {
                let text = self.source_text(file.expr_span(id));
                if transpose_of(text, None).is_some() {
                    return false;
                }
                self.report_field(base, field, file.expr_span(id));
                true
            }
            ExprNode::Field(base, _) => self.report_tensor_field(base),
            _ => false,
        }
    }

    fn report_field(&mut self, base: ast::ExprId, field: NameSyntax, span: Span) {
        let text = self.file.symbol_text(field.name);
        let message = format!("a tensor has no field `{text}`");
        let extents = self.extents_of(base).filter(|_| EXTENT_FIELDS.contains(&text));
        let note = match extents {
            Some(extents) => format!(
                "write extents as the type has them: those of `{}` are {}",
                self.source_text(self.file.expr_span(base)),
                extents
            ),
            None => "its element type, extents and mesh are those of its declaration".to_owned(),
        };
        self.diags.push(Diag::error(codes::WRONG_KIND, span, message).with_note(note));
    }

    fn tensor_of(&self, name: ast::Symbol) -> Option<TensorId> {
        match self.tables.scope.get(name)?.meaning {
            Meaning::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    fn stored_extents(&self, tensor: TensorId) -> Vec<String> {
        let axes = logical_axes(&self.program, tensor).axes;
        let stored = axes.iter().filter(|axis| !axis.is_reduction());
        stored.map(|axis| short_expr_text(&self.program, axis.extent)).collect()
    }

    /// The extents of a tensor that an expression names, or of one of which it is a slice: `` `m` and `k` ``.
    fn extents_of(&self, id: ast::ExprId) -> Option<String> {
        let name = match *self.file.expr(id) {
            ExprNode::Name(name) => name,
            ExprNode::Paren(inner) => return self.extents_of(inner),
            _ => return None,
        };
        let extents = self.stored_extents(self.tensor_of(name)?);
        let texts: Vec<String> = extents.iter().map(|text| format!("`{text}`")).collect();
        let (last, first) = texts.split_last()?;
        Some(if first.is_empty() { last.clone() } else { format!("{} and {last}", first.join(", ")) })
    }

    /// `Z = zeros(m, n)`, `G = torch.empty(4, m)`: a function that allocates. Returns false for all others.
    pub(super) fn report_allocation_call(&mut self, target: &TargetSyntax, name: NameSyntax, args: NodeRange) -> bool {
        let text = self.file.symbol_text(name.name);
        let last = text.rsplit('.').next().unwrap_or_default();
        let fills = matches!(last, "ones" | "ones_like");
        if allocation_of(text).is_none() && typed_allocation_of(text).is_none() && !fills {
            return false;
        }
        let ExprNode::Name(_) = *self.file.expr(target.value) else { return false };
        let value = match last {
            _ if last.contains("zeros") || last == "calloc" => "alloc(zero)",
            _ => "alloc",
        };
        let args = &self.file.args[args.indices()];
        let (result, axes) = (self.source_text(self.file.expr_span(target.value)), self.extents_of_arguments(args));
        let dtype = self.dtype_of_arguments(args);
        let is_declared = match *self.file.expr(target.value) {
            ExprNode::Name(name) => self.tensor_of(name).is_some(),
            _ => false,
        };
        let statement = match &axes {
            _ if target.ty.is_some() => None,
            _ if is_declared && !fills => Some(format!("{result} = {value}")),
            Some(axes) if fills => Some(format!("{result} = full([{axes}], 1.0, {dtype})")),
            Some(axes) => Some(format!("{result}: {dtype}[{axes}] = {value}")),
            None => None,
        };
        let note = match axes {
            _ if target.ty.is_some() => format!("write `{value}`: the extents are those of the type"),
            Some(axes) if fills => format!("write `{result} = full([{axes}], 1.0, {dtype})`"),
            Some(axes) => format!("extents are part of the type: write `{result}: {dtype}[{axes}] = {value}`"),
            None => format!("extents are part of the type: write `{result}: f32[m, n] = {value}`"),
        };
        let diag = Diag::error(codes::UNKNOWN_OP, name.span, format!("there is no op, kernel or function `{text}`"));
        let start = self.file.expr_span(target.value).start;
        let last = args.last().map_or(name.span.end, |arg| arg.span.end);
        let close = self.source.get(last as usize..).and_then(|rest| rest.find(')')).map(|at| last + at as u32 + 1);
        let fix = statement.zip(close).map(|(statement, end)| Fix {
            applicability: Applicability::MaybeIncorrect,
            ..Fix::replacement(format!("write `{statement}`"), Span { start, end }, statement)
        });
        let diag = diag.with_note(note);
        self.diags.push(match fix {
            Some(fix) => diag.with_fix(fix),
            None => diag,
        });
        true
    }

    /// `S = E.sum(dim=1)`, `S = sum(E, axis=1)`: a reduction as the method of a tensor or as a function. Returns false for
    /// all others.
    pub(super) fn report_reduction_call(&mut self, target: &TargetSyntax, name: NameSyntax, args: NodeRange) -> bool {
        let Some(call) = self.reduction_call(name, args) else { return false };
        let Some(statement) = self.reduction_statement(target, &call) else { return false };
        let start = self.file.expr_span(target.value).start;
        let last = self.file.args[args.indices()].last().map_or(name.span.end, |arg| arg.span.end);
        let close = self.source.get(last as usize..).and_then(|rest| rest.find(')')).map(|at| last + at as u32 + 1);
        let message = match call.is_method {
            true => format!("a tensor has no function `{}`: its reductions are an op", call.function),
            false => format!("there is no function `{}`: reductions are an op", call.function),
        };
        let diag = Diag::error(codes::UNKNOWN_FUNCTION, name.span, message);
        let is_plain = target.ty.is_none() && matches!(*self.file.expr(target.value), ExprNode::Name(_));
        self.diags.push(match close.filter(|_| is_plain) {
            Some(end) => diag.with_fix(Fix {
                applicability: Applicability::Untried,
                ..Fix::replacement(format!("write `{statement}`"), Span { start, end }, statement)
            }),
            None => diag.with_note(format!("sums are written as in `{statement}`")),
        });
        true
    }

    /// The reduction that a call is in other languages.
    fn reduction_call(&self, name: NameSyntax, args: NodeRange) -> Option<ReductionCall<'_>> {
        let text = self.file.symbol_text(name.name);
        let args = &self.file.args[args.indices()];
        let (owner, function) = text.rsplit_once('.').unwrap_or(("", text));
        reduction_of_method(function)?;
        let own = Some(owner).filter(|owner| self.reduced_tensor(owner).is_some());
        // `max(A, B)` is the larger one of two.
        let may_compare = own.is_none() && matches!(function, "max" | "min");
        if may_compare && args.len() > 1 && args.iter().all(|arg| arg.key.is_none()) {
            return None;
        }
        let mut values = args.iter().filter(|arg| !self.is_kept_axes(arg));
        let operand = own.or_else(|| Some(self.source_text(values.next()?.span)))?;
        let (tensor, indices) = self.reduced_tensor(operand)?;
        let axis = match values.next().map(|arg| self.source_text(self.file.expr_span(arg.value))) {
            Some(axis) => Some(axis.trim_matches(['[', ']', '(', ')', ',']).parse().ok()?),
            None => None,
        };
        Some(ReductionCall { function, is_method: own.is_some(), operand, tensor, indices, axis })
    }

    /// The tensor of an operand, and the number of its indices: `X[own]`, `G[own, i]`.
    fn reduced_tensor(&self, operand: &str) -> Option<(TensorId, usize)> {
        let Some((name, indices)) = operand.split_once('[') else { return Some((self.tensor_named(operand)?, 0)) };
        let indices = indices.strip_suffix(']').filter(|indices| !indices.contains(['[', ':', '(']))?;
        Some((self.tensor_named(name)?, indices.split(',').count()))
    }

    /// Returns true for `keepdim=True`.
    fn is_kept_axes(&self, arg: &ArgNode) -> bool {
        arg.key.is_some_and(|key| self.file.symbol_text(key.name).starts_with("keepdim"))
    }

    /// The statement here for such a call.
    fn reduction_statement(&self, target: &TargetSyntax, call: &ReductionCall<'_>) -> Option<String> {
        let (op, init) = reduction_of_method(call.function)?;
        let declared = declared_type_text(&self.program, call.tensor);
        let (dtype, axes) = declared.strip_suffix(']')?.split_once('[')?;
        let stored = axes.split(", ").filter(|axis| !axis.starts_with("r."));
        let axes: Vec<&str> = stored.skip(call.indices).collect();
        let chosen = call.axis.map(|at| at.rem_euclid(axes.len().max(1) as i64) as usize);
        let reduced = |(at, axis): (usize, &&str)| match chosen.is_none_or(|chosen| chosen == at) && !axis.contains(':')
        {
            true => format!("r.{axis}"),
            false => (*axis).to_owned(),
        };
        let axes: Vec<String> = axes.iter().enumerate().map(reduced).collect();
        let result = self.source_text(self.file.expr_span(target.value));
        let (axes, operand) = (axes.join(", "), call.operand);
        Some(format!("{result}: {dtype}[{axes}] = reduction({operand}, op={op}, init={dtype}({init}))"))
    }

    /// The tensor of a name in the scope.
    fn tensor_named(&self, name: &str) -> Option<TensorId> {
        let found = self.file.exprs.iter().find_map(|(node, _)| match *node {
            ExprNode::Name(symbol) if self.file.symbol_text(symbol) == name => Some(symbol),
            _ => None,
        });
        self.tensor_of(found?)
    }

    /// The extents among the arguments of `zeros(m, n)`, `zeros([m, n])` or `zeros_like(X)`.
    fn extents_of_arguments(&self, args: &[ArgNode]) -> Option<String> {
        let placed: Vec<&ArgNode> = args.iter().filter(|arg| arg.key.is_none()).collect();
        if let Some(ExprNode::Name(name)) = placed.first().map(|arg| *self.file.expr(arg.value))
            && let Some(like) = self.tensor_of(name)
        {
            return Some(self.stored_extents(like).join(", "));
        }
        let texts: Vec<&str> = placed.iter().map(|arg| self.source_text(arg.span)).collect();
        let list = texts.join(", ");
        let inner = list.strip_prefix(['[', '(']).and_then(|rest| rest.strip_suffix([']', ')']));
        let axes = if texts.len() == 1 { inner.unwrap_or(&list) } else { &list };
        (!axes.is_empty() && !axes.contains(['[', '='])).then(|| axes.to_owned())
    }

    /// The element type in `dtype=torch.bf16`, else the usual one.
    fn dtype_of_arguments(&self, args: &[ArgNode]) -> &str {
        let keyed = args.iter().find(|arg| arg.key.is_some_and(|key| self.file.symbol_text(key.name) == "dtype"));
        let word = keyed.map(|arg| self.source_text(self.file.expr_span(arg.value)));
        word.filter(|word| dtype_of_word(word).is_some()).unwrap_or("f32")
    }

    /// The value here of `local_rank`, `world_size` and the like.
    pub(super) fn runtime_scalar_note(&self, text: &str) -> Option<String> {
        let value = runtime_scalar_of(text)?;
        if value == "rank" {
            return Some("the number of the rank is `rank`".to_owned());
        }
        let mut meshes: Vec<&str> = self.shared.meshes.keys().map(|name| self.file.symbol_text(*name)).collect();
        meshes.sort_unstable();
        let mesh = meshes.first().copied().unwrap_or("d");
        Some(format!("the number of devices of a mesh `{mesh}` is `{mesh}.size`"))
    }

    /// Reports a call of what is a value here: `d.size()` of a mesh, `dist.get_rank()`.
    pub(super) fn report_called_value(&mut self, text: &str, has_no_arguments: bool, span: Span) -> bool {
        let (owner, name) = text.rsplit_once('.').unwrap_or(("", text));
        let is_mesh = self.shared.meshes.keys().any(|mesh| self.file.symbol_text(*mesh) == owner);
        let meant = match name {
            "size" | "x" | "y" | "z" if is_mesh => text.to_owned(),
            "get_rank" | "rank" | "Get_rank" | "axis_index" => "rank".to_owned(),
            "get_world_size" | "world_size" | "Get_size" | "device_count" => match self.first_mesh() {
                Some(mesh) => format!("{mesh}.size"),
                None => return false,
            },
            _ => return false,
        };
        if !has_no_arguments && is_mesh {
            return false;
        }
        let message = format!("`{text}(..)` is a value here, and no function");
        let fix = Fix::replacement(format!("write `{meant}`"), span, meant.clone());
        let diag = Diag::error(codes::UNKNOWN_FUNCTION, span, message).with_note(format!("write `{meant}`"));
        self.diags.push(diag.with_fix(Fix { applicability: Applicability::Untried, ..fix }));
        true
    }

    /// The name of the first mesh.
    fn first_mesh(&self) -> Option<&str> {
        self.shared.meshes.keys().map(|name| self.file.symbol_text(*name)).min()
    }

    /// Checks the name of a new communication: extents of types have names, too.
    pub(super) fn check_handle_name(&mut self, name: NameSyntax) -> bool {
        self.check_size_name(name, "a communication", "give the communication another name, here and in its `wait`")
    }

    /// Checks the name of a loop's index: extents of types have names, too, which would change in its iterations.
    pub(super) fn check_index_name(&mut self, name: NameSyntax) -> bool {
        let free = self.free_name(&["i", "j", "s", "t", "step"]);
        self.check_size_name(name, "the index of a loop", &format!("give the index another name, such as `{free}`"))
    }

    /// Checks the name of a new scalar: extents of types have names, too.
    pub(super) fn check_scalar_name(&mut self, name: NameSyntax) -> bool {
        let text = self.file.symbol_text(name.name);
        let numbered: Vec<String> = (1..10).map(|number| format!("{text}{number}")).collect();
        let numbered: Vec<&str> = numbered.iter().map(String::as_str).collect();
        let free = self.free_name(&numbered);
        self.check_size_name(
            name,
            "a scalar",
            &format!("give the scalar another name, such as `{free}`, wherever it is used"),
        )
    }

    /// The first of some names that the file does not have.
    fn free_name(&self, names: &[&str]) -> String {
        let free = names.iter().find(|name| self.file.strings.find_symbol(name).is_none()).or(names.last());
        free.map(|name| (*name).to_owned()).unwrap_or_default()
    }

    /// Checks a new name of another thing than a size: extents of types have names, too.
    fn check_size_name(&mut self, name: NameSyntax, what: &str, note: &str) -> bool {
        let size = self.file.head.sizes.iter().find(|size| size.name == name.name);
        if self.tables.scope.get(name.name).is_some() || !self.unbound.is_extent(name.name) {
            return true;
        }
        let text = self.file.symbol_text(name.name);
        let message = format!("{what} and an extent are called `{text}`");
        let mut diag = Diag::error(codes::NAME_TWICE, name.span, message);
        if let Some(size) = size {
            diag = diag.with_label(size.span, "its size is given here");
        }
        self.diags.push(diag.with_note(note));
        false
    }

    /// Reports `wait` in front of what is no communication; a number is that of a stream.
    pub(super) fn report_no_communication(&mut self, value: ast::ExprId) {
        let span = self.file.expr_span(value);
        match *self.file.expr(value) {
            ExprNode::Int(stream) => {
                let diag = Diag::error(codes::WRONG_KIND, span, "`wait` needs a communication, but this is a number");
                self.diags.push(diag.with_note(format!("`sync {stream}` waits for stream {stream}")));
            }
            _ => report::report_wait(span, self.diags),
        }
    }
}
