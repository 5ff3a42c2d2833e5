//! What every scalar of an op becomes.
//!
//! A constant stands for the number of devices D where it bounds device numbers: `x % D`, a sum inside of
//! that, `x < D`. Beside device numbers 0 and 1 stay what they are; any other constant may be made from D.

use super::classes::Classes;
use super::extents::{RESIZE_CONSTANT, loop_unclear};
use super::sizes::count;
use super::uses::{Devices, Kind, Use, Walked};
use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::expr_text;
use hostir::ir::scalar_names::parts;
use hostir::ir::{BinaryOp, Expr, ExprId, Program};

/// The scalars that change.
pub(super) fn rewrite(
    edit: &mut Edit<'_>,
    walked: &Walked,
    classes: &Classes,
    devices: Devices,
) -> Result<Vec<(Use, ExprId)>, Diags> {
    let mut out = Vec::new();
    let mut diags = Diags::default();
    for one in &walked.uses {
        let mut rewriter = Rewriter { edit: &mut *edit, classes, devices, one };
        match rewriter.scalar() {
            Ok(new) if new != one.expr => out.push((one.clone(), new)),
            Ok(_) => {}
            Err(constant) => {
                let program = edit.program();
                let looped = matches!(one.kind, Kind::Stop(_)) && Some(devices.old) == constant;
                diags.push(match looped {
                    true => loop_unclear(program, one.op, devices.old),
                    false => unclear(program, one, constant, devices),
                });
            }
        }
    }
    diags.or_value(out)
}

/// The constant that cannot be told; `None` for a device that will not be there.
type Unclear = Option<i64>;

struct Rewriter<'r, 'p> {
    edit: &'r mut Edit<'p>,
    classes: &'r Classes,
    devices: Devices,
    one: &'r Use,
}

impl Rewriter<'_, '_> {
    fn scalar(&mut self) -> Result<ExprId, Unclear> {
        let (expr, old) = (self.one.expr, self.devices.old);
        let program = self.edit.program();
        let literal = program.exprs().as_int(expr);
        match (self.one.kind, literal) {
            // A stream's name, and a slice that is always the same one.
            (Kind::Stream, Some(_)) | (Kind::Peer | Kind::Root, Some(0)) => Ok(expr),
            (Kind::Stream, None) if count(program, expr, old) == 0 => Ok(expr),
            (Kind::Root, Some(root)) if root < self.devices.new => Ok(expr),
            (Kind::Root, Some(_)) => Err(None),
            (Kind::Peer, Some(peer)) => Err(Some(peer)),
            (Kind::Start(number), _) => self.bound(number, false),
            (Kind::Stop(number), _) => self.bound(number, true),
            (Kind::Step(number), _) => self.bound(number, false),
            (Kind::Slice(..), _) => self.slice(literal),
            _ if self.of_devices(expr) => self.plain(expr),
            _ if count(program, expr, old) > 0 => Err(Some(old)),
            _ => Ok(expr),
        }
    }

    fn of_devices(&self, expr: ExprId) -> bool {
        self.classes.of_devices(self.edit.program(), self.one, expr)
    }

    fn slice(&mut self, literal: Option<i64>) -> Result<ExprId, Unclear> {
        let expr = self.one.expr;
        let node = self.classes.sliced(self.edit.program(), self.one.kind);
        let counts = node.map(|node| self.classes.counts_devices(node));
        match (counts, literal) {
            (_, Some(0)) | (Some(false), Some(_)) => Ok(expr),
            (_, Some(index)) => Err(Some(index)),
            // The order in which ranks work on an axis that has nothing to do with devices, unless it is
            // as long as the mesh.
            (Some(false), None) if self.rotates_over(expr, self.devices.old) => {
                Err(Some(self.devices.old))
            }
            (Some(false), None) if self.extent().is_some_and(|e| self.rotates_over(expr, e)) => {
                Ok(expr)
            }
            _ if self.of_devices(expr) || counts == Some(true) => self.plain(expr),
            // The axis has nothing to do with devices.
            (Some(false), None) => Ok(expr),
            (_, None) if count(self.edit.program(), expr, self.devices.old) > 0 => {
                Err(Some(self.devices.old))
            }
            (_, None) => Ok(expr),
        }
    }

    /// True if a scalar is `x % extent`.
    fn rotates_over(&self, expr: ExprId, extent: i64) -> bool {
        match *self.edit.program().expr(expr) {
            Expr::Binary(BinaryOp::Mod, _, b) => self.is_int(b, extent) && self.of_devices(expr),
            _ => false,
        }
    }

    /// The extent of the axis that a slice is picked along, if it is written out.
    fn extent(&self) -> Option<i64> {
        let Kind::Slice(tensor, Some(printed)) = self.one.kind else { return None };
        let program = self.edit.program();
        program.exprs().as_int(program.domains(tensor).get(printed as usize)?.extent)
    }

    /// Rewrites the start, the stop or the step of a loop.
    fn bound(&mut self, number: u32, stop: bool) -> Result<ExprId, Unclear> {
        let (expr, Devices { old, new }) = (self.one.expr, self.devices);
        let counts = self.classes.counts_devices(self.classes.looped(number));
        match self.edit.program().exprs().as_int(expr) {
            Some(value) if counts && stop && value == old => Ok(self.edit.expr(Expr::Int(new))),
            Some(0) => Ok(expr),
            Some(1) if !stop => Ok(expr),
            Some(value) if counts => Err(Some(value)),
            Some(_) if self.classes.is_tied(number) => Ok(expr),
            Some(value) if value == old && stop => Err(Some(old)),
            Some(_) => Ok(expr),
            None if self.of_devices(expr) => self.plain(expr),
            None if count(self.edit.program(), expr, old) > 0 => Err(Some(old)),
            None => Ok(expr),
        }
    }

    /// A scalar that is computed from device numbers.
    fn plain(&mut self, expr: ExprId) -> Result<ExprId, Unclear> {
        let Devices { old, new } = self.devices;
        match *self.edit.program().expr(expr) {
            Expr::Binary(BinaryOp::Mod, a, b) if self.is_int(b, old) => {
                // As many streams as devices, or four streams?
                if self.one.kind == Kind::Stream {
                    return Err(Some(old));
                }
                let (a, b) = (self.ring(a)?, self.edit.expr(Expr::Int(new)));
                Ok(self.edit.expr(Expr::Binary(BinaryOp::Mod, a, b)))
            }
            Expr::Binary(op, a, b) if is_comparison(op) => {
                let (a, b) = (self.compared(a)?, self.compared(b)?);
                Ok(self.edit.expr(Expr::Binary(op, a, b)))
            }
            Expr::Int(value @ (0 | 1)) if value != old => Ok(expr),
            Expr::Int(value) => Err(Some(value)),
            _ => self.inside(expr, Self::plain),
        }
    }

    /// Below `% D`: adding D changes nothing.
    fn ring(&mut self, expr: ExprId) -> Result<ExprId, Unclear> {
        let Devices { old, new } = self.devices;
        match *self.edit.program().expr(expr) {
            Expr::Int(value) if value == old => Ok(self.edit.expr(Expr::Int(new))),
            // The next device, or the one before it where D is 2.
            Expr::Int(1) if old == 2 => Err(Some(1)),
            Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ..) => self.inside(expr, Self::ring),
            _ => self.plain(expr),
        }
    }

    fn compared(&mut self, expr: ExprId) -> Result<ExprId, Unclear> {
        let Devices { old, new } = self.devices;
        match *self.edit.program().expr(expr) {
            Expr::Int(value) if value == old => Ok(self.edit.expr(Expr::Int(new))),
            Expr::Int(1) if old == 2 => Err(Some(1)),
            _ => self.plain(expr),
        }
    }

    /// A scalar with other parts.
    fn inside(
        &mut self,
        expr: ExprId,
        part: fn(&mut Self, ExprId) -> Result<ExprId, Unclear>,
    ) -> Result<ExprId, Unclear> {
        let new = match self.edit.program().expr(expr).clone() {
            Expr::Set(a) => Expr::Set(part(self, a)?),
            Expr::Unary(op, a) => Expr::Unary(op, part(self, a)?),
            Expr::Binary(op, a, b) => Expr::Binary(op, part(self, a)?, part(self, b)?),
            Expr::Call(name, args) => {
                let args = args.into_iter().map(|arg| part(self, arg));
                Expr::Call(name, args.collect::<Result<_, _>>()?)
            }
            other => match parts(&other).iter().any(|&p| self.has_constant(p)) {
                true => return Err(Some(self.devices.old)),
                false => other,
            },
        };
        Ok(self.edit.expr(new))
    }

    fn has_constant(&self, expr: ExprId) -> bool {
        count(self.edit.program(), expr, self.devices.old) > 0
    }

    fn is_int(&self, expr: ExprId, value: i64) -> bool {
        self.edit.program().exprs().as_int(expr) == Some(value)
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(op, Eq | Ne | Ge | Gt | Le | Lt)
}

fn unclear(program: &Program, one: &Use, constant: Unclear, devices: Devices) -> Diag {
    let text = expr_text(program, one.expr);
    let Devices { old, new } = devices;
    let span = program.op_span(one.op);
    let Some(constant) = constant else {
        let message = format!("device {text} is the root, but there will be {new} devices only");
        let note = format!("make one of the devices 0 to {} the root", new - 1);
        return Diag::error(RESIZE_CONSTANT, span, message).note(note);
    };
    let of = if text == constant.to_string() { String::new() } else { format!(" of `{text}`") };
    let message = if constant == old {
        format!("the `{constant}`{of} may or may not stand for the {old} devices")
    } else {
        format!("the `{constant}`{of} may or may not be made from the {old} devices")
    };
    let note = "write it with `rank`, the index of a loop over devices, or a name such as `i0` or `numberOfStreams`";
    Diag::error(RESIZE_CONSTANT, span, message).note(note)
}
