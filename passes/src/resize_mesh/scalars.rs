//! The new value of every scalar of an op.
//!
//! A constant stands for the number of devices D where it bounds device numbers: `x % D`, a sum inside of that,
//! `x < D`. Next to device numbers, 0 and 1 keep their values; any other constant may come from D.

use super::classes::AxisClasses;
use super::extents::{RESIZE_CONSTANT, unclear_loop_error};
use super::sizes::count_literal;
use super::uses::{DeviceCounts, ReachableItems, ScalarRole, ScalarUse};
use hostir::diag::message;
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::scalar_names::sub_expressions;
use hostir::ir::{BinaryOp, Expr, ExprId, Program, expr_text, quoted_word};

/// The scalars that change.
pub(super) fn rewrite_scalars(
    edit: &mut Edit<'_>,
    walked: &ReachableItems,
    classes: &AxisClasses,
    devices: DeviceCounts,
) -> Result<Vec<(ScalarUse, ExprId)>, Diags> {
    let mut out = Vec::new();
    let mut diags = Diags::default();
    for one in &walked.uses {
        let mut rewriter = ScalarRewriter { edit: &mut *edit, classes, devices, one };
        match rewriter.rewrite_scalar() {
            Ok(new) if new != one.expr => out.push((one.clone(), new)),
            Ok(_) => {}
            Err(constant) => {
                let program = edit.program();
                let looped = matches!(one.kind, ScalarRole::Stop(_)) && Some(devices.old) == constant;
                diags.push(match looped {
                    true => unclear_loop_error(program, one.op, devices.old),
                    false => unclear_scalar(program, one, constant, devices),
                });
            }
        }
    }
    diags.or_value(out)
}

/// The undecidable constant; `None` for a device that will not exist.
type UnclearConstant = Option<i64>;

struct ScalarRewriter<'r, 'p> {
    edit: &'r mut Edit<'p>,
    classes: &'r AxisClasses,
    devices: DeviceCounts,
    one: &'r ScalarUse,
}

impl ScalarRewriter<'_, '_> {
    fn rewrite_scalar(&mut self) -> Result<ExprId, UnclearConstant> {
        let (expr, old) = (self.one.expr, self.devices.old);
        let program = self.edit.program();
        let literal = program.exprs().as_int(expr);
        match (self.one.kind, literal) {
            // A stream's name, and a slice that is always the same one.
            (ScalarRole::Stream, Some(_)) | (ScalarRole::Peer | ScalarRole::Root, Some(0)) => Ok(expr),
            (ScalarRole::Stream, None) if count_literal(program, expr, old) == 0 => Ok(expr),
            (ScalarRole::Root, Some(root)) if root < self.devices.new => Ok(expr),
            (ScalarRole::Root, Some(_)) => Err(None),
            (ScalarRole::Peer, Some(peer)) => Err(Some(peer)),
            (ScalarRole::Start(number), _) => self.rewrite_loop_bound(number, false),
            (ScalarRole::Stop(number), _) => self.rewrite_loop_bound(number, true),
            (ScalarRole::Step(number), _) => self.rewrite_loop_bound(number, false),
            (ScalarRole::Slice(..), _) => self.rewrite_slice_index(literal),
            _ if self.is_device_scalar(expr) => self.rewrite_device_scalar(expr),
            _ if count_literal(program, expr, old) > 0 => Err(Some(old)),
            _ => Ok(expr),
        }
    }

    fn is_device_scalar(&self, expr: ExprId) -> bool {
        self.classes.is_device_scalar(self.edit.program(), self.one, expr)
    }

    fn rewrite_slice_index(&mut self, literal: Option<i64>) -> Result<ExprId, UnclearConstant> {
        let expr = self.one.expr;
        let node = self.classes.sliced_axis_node(self.edit.program(), self.one.kind);
        let counts = node.map(|node| self.classes.counts_devices(node));
        match (counts, literal) {
            (_, Some(0)) | (Some(false), Some(_)) => Ok(expr),
            (_, Some(index)) => Err(Some(index)),
            // The order in which ranks work on an axis that is unrelated to devices, unless it is as long as the mesh.
            (Some(false), None) if self.rotates_over(expr, self.devices.old) => Err(Some(self.devices.old)),
            (Some(false), None) if self.sliced_extent().is_some_and(|e| self.rotates_over(expr, e)) => Ok(expr),
            _ if self.is_device_scalar(expr) || counts == Some(true) => self.rewrite_device_scalar(expr),
            // The axis has nothing to do with devices.
            (Some(false), None) => Ok(expr),
            (_, None) if count_literal(self.edit.program(), expr, self.devices.old) > 0 => Err(Some(self.devices.old)),
            (_, None) => Ok(expr),
        }
    }

    /// True if a scalar is `x % extent`.
    fn rotates_over(&self, expr: ExprId, extent: i64) -> bool {
        match *self.edit.program().expr(expr) {
            Expr::Binary(BinaryOp::Mod, _, b) => self.is_int(b, extent) && self.is_device_scalar(expr),
            _ => false,
        }
    }

    /// The extent of the axis along which a slice is picked, if it is a literal.
    fn sliced_extent(&self) -> Option<i64> {
        let ScalarRole::Slice(tensor, Some(printed)) = self.one.kind else { return None };
        let program = self.edit.program();
        program.exprs().as_int(program.domains(tensor).get(printed as usize)?.extent)
    }

    /// Rewrites the start, the stop or the step of a loop.
    fn rewrite_loop_bound(&mut self, number: u32, stop: bool) -> Result<ExprId, UnclearConstant> {
        let (expr, DeviceCounts { old, new }) = (self.one.expr, self.devices);
        let counts = self.classes.counts_devices(self.classes.loop_node(number));
        match self.edit.program().exprs().as_int(expr) {
            Some(value) if counts && stop && value == old => Ok(self.edit.intern_expr(Expr::Int(new))),
            Some(0) => Ok(expr),
            Some(1) if !stop => Ok(expr),
            Some(value) if counts => Err(Some(value)),
            Some(_) if self.classes.is_tied(number) => Ok(expr),
            Some(value) if value == old && stop => Err(Some(old)),
            Some(_) => Ok(expr),
            None if self.is_device_scalar(expr) => self.rewrite_device_scalar(expr),
            None if count_literal(self.edit.program(), expr, old) > 0 => Err(Some(old)),
            None => Ok(expr),
        }
    }

    /// A scalar that depends on device numbers.
    fn rewrite_device_scalar(&mut self, expr: ExprId) -> Result<ExprId, UnclearConstant> {
        let DeviceCounts { old, new } = self.devices;
        match *self.edit.program().expr(expr) {
            Expr::Binary(BinaryOp::Mod, a, b) if self.is_int(b, old) => {
                // As many streams as devices, or four streams: undecidable.
                if self.one.kind == ScalarRole::Stream {
                    return Err(Some(old));
                }
                let (a, b) = (self.rewrite_modular(a)?, self.edit.intern_expr(Expr::Int(new)));
                Ok(self.edit.intern_expr(Expr::Binary(BinaryOp::Mod, a, b)))
            }
            Expr::Binary(op, a, b) if is_comparison(op) => {
                let (a, b) = (self.rewrite_comparison(a)?, self.rewrite_comparison(b)?);
                Ok(self.edit.intern_expr(Expr::Binary(op, a, b)))
            }
            Expr::Int(value @ (0 | 1)) if value != old => Ok(expr),
            Expr::Int(value) => Err(Some(value)),
            _ => self.rewrite_operands(expr, Self::rewrite_device_scalar),
        }
    }

    /// Below `% D`: adding D changes nothing.
    fn rewrite_modular(&mut self, expr: ExprId) -> Result<ExprId, UnclearConstant> {
        let DeviceCounts { old, new } = self.devices;
        match *self.edit.program().expr(expr) {
            Expr::Int(value) if value == old => Ok(self.edit.intern_expr(Expr::Int(new))),
            // The next device, or the previous one if D is 2.
            Expr::Int(1) if old == 2 => Err(Some(1)),
            Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ..) => self.rewrite_operands(expr, Self::rewrite_modular),
            _ => self.rewrite_device_scalar(expr),
        }
    }

    fn rewrite_comparison(&mut self, expr: ExprId) -> Result<ExprId, UnclearConstant> {
        let DeviceCounts { old, new } = self.devices;
        match *self.edit.program().expr(expr) {
            Expr::Int(value) if value == old => Ok(self.edit.intern_expr(Expr::Int(new))),
            Expr::Int(1) if old == 2 => Err(Some(1)),
            _ => self.rewrite_device_scalar(expr),
        }
    }

    /// A scalar with other parts.
    fn rewrite_operands(
        &mut self,
        expr: ExprId,
        part: fn(&mut Self, ExprId) -> Result<ExprId, UnclearConstant>,
    ) -> Result<ExprId, UnclearConstant> {
        let new = match self.edit.program().expr(expr).clone() {
            Expr::Set(a) => Expr::Set(part(self, a)?),
            Expr::Unary(op, a) => Expr::Unary(op, part(self, a)?),
            Expr::Binary(op, a, b) => Expr::Binary(op, part(self, a)?, part(self, b)?),
            Expr::Call(name, args) => {
                let args = args.into_iter().map(|arg| part(self, arg));
                Expr::Call(name, args.collect::<Result<_, _>>()?)
            }
            other => match sub_expressions(&other).iter().any(|&p| self.has_constant(p)) {
                true => return Err(Some(self.devices.old)),
                false => other,
            },
        };
        Ok(self.edit.intern_expr(new))
    }

    fn has_constant(&self, expr: ExprId) -> bool {
        count_literal(self.edit.program(), expr, self.devices.old) > 0
    }

    fn is_int(&self, expr: ExprId, value: i64) -> bool {
        self.edit.program().exprs().as_int(expr) == Some(value)
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(op, Eq | Ne | Ge | Gt | Le | Lt)
}

fn unclear_scalar(program: &Program, one: &ScalarUse, constant: UnclearConstant, devices: DeviceCounts) -> Diag {
    let text = expr_text(program, one.expr);
    let DeviceCounts { old, new } = devices;
    let span = program.op_span(one.op);
    let Some(constant) = constant else {
        let message = message!("the root is device {}, but the resized program has only {} devices", text, new);
        let note = message!("use one of the devices 0 to {} as the root", new - 1);
        return Diag::error(RESIZE_CONSTANT, span, message).with_note(note);
    };
    let of = if text == constant.to_string() { String::new() } else { format!(" of `{text}`") };
    let message = if constant == old {
        format!("the `{constant}`{of} is ambiguous: it may or may not be the number of devices, {old}")
    } else {
        format!("the `{constant}`{of} is ambiguous: it may or may not be computed from the number of devices, {old}")
    };
    let note = message!(
        "write it in terms of `rank`, the index of a loop over devices, or a name such as `i0` or `{}`",
        quoted_word("numberOfStreams")
    );
    Diag::error(RESIZE_CONSTANT, span, message).with_note(note)
}
