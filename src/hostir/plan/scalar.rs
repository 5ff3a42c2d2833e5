//! The evaluation of scalar expressions, with checked arithmetic.

use super::expr_value::{EvalError, ExprValue};
use crate::ir::IndexDefinitions;
use crate::ir::functions::complex::Complex64;
use crate::ir::functions::{Function, FunctionForm, NumberForm, ScalarValue, scalars};
use crate::ir::scalar_names::{is_kernel_name, sub_expressions};
use crate::ir::{BinaryOp, DType, Expr, ExprId, MeshCoordinate, MeshId, OpId, Program, Symbol, UnaryOp, UnitId, Value};
use crate::plan::ExtentEnv;
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// The largest depth of an expression.
const MAX_DEPTH: u32 = 500;

/// The error for an expression of a larger depth.
fn depth_error() -> EvalError {
    EvalError::Invalid("the expression is nested too deeply".into())
}

/// Loop indices and scalar results by name. The latest value of a name shadows older ones until it is
/// dropped.
#[derive(Default)]
pub(crate) struct LocalScalars {
    /// Name, value, and the index of the value that it shadows.
    values: Vec<(Symbol, ExprValue, Option<usize>)>,
    latest: FxHashMap<Symbol, usize>,
}

impl LocalScalars {
    /// Binds a name to a value.
    pub(crate) fn push(&mut self, name: Symbol, value: impl Into<ExprValue>) {
        let hidden = self.latest.insert(name, self.values.len());
        self.values.push((name, value.into(), hidden));
    }
    /// The number of values, for `truncate`.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
    /// Drops all values after the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.values.len() > len
            && let Some((name, _, hidden)) = self.values.pop()
        {
            match hidden {
                Some(place) => self.latest.insert(name, place),
                None => self.latest.remove(&name),
            };
        }
    }
    fn get(&self, name: Symbol) -> Option<&ExprValue> {
        self.latest.get(&name).map(|&place| &self.values[place].1)
    }
}

/// Names that an expression can use.
pub(crate) struct EvalScope<'a> {
    /// The program.
    pub program: &'a Program,
    /// Extents.
    pub env: &'a ExtentEnv,
    /// The unit whose names are looked up.
    pub unit: Option<UnitId>,
    /// The value of `rank`; `None` outside of any single rank.
    pub rank: Option<u32>,
    /// Loop indices and scalar results.
    pub locals: &'a LocalScalars,
    /// Scalars defined by ops outside of the program's order (`Index definitions:`).
    pub definitions: &'a IndexDefinitions,
    /// Cached values of definitions in this scope, which may use each other many times.
    pub known: RefCell<FxHashMap<Symbol, Result<ExprValue, EvalError>>>,
}

impl EvalScope<'_> {
    /// The value of an expression.
    pub(crate) fn eval_expr(&self, id: ExprId) -> Result<ScalarValue, EvalError> {
        self.eval_depth(id, 0)
    }
    /// The value of an expression that stands for an integer: an index, a bound, a stream, an extent.
    pub(crate) fn eval_int(&self, id: ExprId) -> Result<i64, EvalError> {
        self.eval_int_at(id, 0)
    }

    fn eval_int_at(&self, id: ExprId, depth: u32) -> Result<i64, EvalError> {
        match self.eval_depth(id, depth)? {
            ScalarValue::Int(value) => Ok(value),
            ScalarValue::Unsigned(value) => {
                Err(EvalError::Invalid(format!("{value} does not fit 64 bits with a sign")))
            }
            value @ (ScalarValue::Float(_) | ScalarValue::Bool(_) | ScalarValue::Complex(..)) => {
                Err(EvalError::NoInteger(id, value))
            }
        }
    }

    fn eval_depth(&self, id: ExprId, depth: u32) -> Result<ScalarValue, EvalError> {
        if depth > MAX_DEPTH {
            return Err(depth_error());
        }
        match self.program.expr(id) {
            Expr::Int(value) => Ok(ScalarValue::Int(*value)),
            Expr::Bool(value) => Ok(ScalarValue::Bool(*value)),
            Expr::Hex(value) => Ok(ScalarValue::Int(*value as i64)),
            Expr::Float(text) => self.eval_literal(None, *text),
            Expr::Typed(dtype, text) => self.eval_literal(Some(*dtype), *text),
            Expr::Name(name) => self.name_value(*name)?.into_scalar(),
            Expr::MeshCoordinate(mesh, coordinate) => self.mesh_coordinate(*mesh, *coordinate),
            Expr::Set(inner) => self.eval_depth(*inner, depth + 1),
            Expr::Unary(op, a) => apply_unary(*op, self.eval_depth(*a, depth + 1)?),
            Expr::Binary(op, a, b) => {
                let a = self.eval_depth(*a, depth + 1)?;
                match (op, a.as_bool()) {
                    (BinaryOp::And, false) => return Ok(ScalarValue::Bool(false)),
                    (BinaryOp::Or, true) => return Ok(ScalarValue::Bool(true)),
                    _ => {}
                }
                apply_binary(*op, a, self.eval_depth(*b, depth + 1)?)
            }
            Expr::Call(name, args) if self.program.name(*name) == "ReverseArray" && args.len() == 1 => {
                self.eval_composite(id, depth)?.into_scalar()
            }
            Expr::Call(name, args) => {
                let mut values = smallvec::SmallVec::<[ScalarValue; 3]>::new();
                for &arg in args {
                    values.push(self.eval_depth(arg, depth + 1)?);
                }
                apply_call(self.program.name(*name), &values)
            }
            Expr::Index(..)
            | Expr::Field(..)
            | Expr::Braces(..)
            | Expr::Struct(..)
            | Expr::MetaData(..)
            | Expr::RaggedExtents(..) => self.eval_composite(id, depth)?.into_scalar(),
        }
    }

    fn eval_literal(&self, dtype: Option<DType>, text: Symbol) -> Result<ScalarValue, EvalError> {
        let text = self.program.name(text);
        if let Ok(truth) = text.parse::<bool>() {
            return Ok(ScalarValue::Bool(truth));
        }
        if dtype.is_some_and(DType::is_complex) {
            return complex_literal(text).ok_or_else(|| unknown_literal(text));
        }
        let value: f64 = text.parse().map_err(|_| unknown_literal(text))?;
        Ok(match dtype {
            Some(DType::Bool) => ScalarValue::Bool(value != 0.0),
            Some(dtype) if dtype.is_integer() => {
                let whole = text.parse::<i64>().map(ScalarValue::Int);
                let whole = whole.or_else(|_| text.parse().map(ScalarValue::from_unsigned));
                whole.unwrap_or(ScalarValue::Int(value as i64))
            }
            _ => ScalarValue::Float(value),
        })
    }

    /// The value of a name without a definition.
    fn bound_value(&self, name: Symbol) -> Option<ExprValue> {
        if let Some(value) = self.locals.get(name) {
            return Some(value.clone());
        }
        if let Some(value) = self.env.name_value(self.unit, name) {
            return Some(ScalarValue::Int(value).into());
        }
        // The sizes of a text are those of its kernels, too, where these have no extent of the name.
        let is_proposed = || self.program.run_hints().sizes.iter().any(|(proposed, _)| *proposed == name);
        if let Some(value) = self.env.name_value(None, name).filter(|_| self.unit.is_some() && is_proposed()) {
            return Some(ScalarValue::Int(value).into());
        }
        let real = self.env.real_value(name).filter(|_| self.unit.is_none());
        real.map(|value| ScalarValue::Float(value).into())
    }

    /// The value of a name, which may be an array or a struct.
    fn name_value(&self, name: Symbol) -> Result<ExprValue, EvalError> {
        if let Some(value) = self.bound_value(name) {
            return Ok(value);
        }
        // Definitions belong to the host program, and a unit is a name space of its own.
        if self.unit.is_none() && self.definitions.get(name).is_some() {
            return self.eval_defined(name);
        }
        self.runtime_value(name).map(ExprValue::Scalar)
    }

    /// The value of a name that the runtime binds.
    fn runtime_value(&self, name: Symbol) -> Result<ScalarValue, EvalError> {
        match self.program.name(name) {
            "numberOfStreams" => Ok(ScalarValue::Int(i64::from(self.env.streams))),
            "rank" => self.rank_value(name),
            "deviceIdx.x" => {
                if self.program.meshes().iter().any(|(_, mesh)| mesh.shape.len() > 1) {
                    let text = "`deviceIdx.x` is ambiguous for a mesh with several axes; use `rank`";
                    return Err(EvalError::Invalid(text.into()));
                }
                self.rank_value(name)
            }
            text if is_kernel_name(text) => {
                Err(EvalError::Invalid(format!("`{text}` has a value in a kernel only, not in a host program")))
            }
            _ => Err(EvalError::Unknown(name)),
        }
    }

    fn rank_value(&self, name: Symbol) -> Result<ScalarValue, EvalError> {
        self.rank.map(|rank| ScalarValue::Int(i64::from(rank))).ok_or_else(|| {
            let name = self.program.name(name);
            EvalError::Invalid(format!("`{name}` has no value: the program runs on whole tensors"))
        })
    }

    /// A coordinate of the rank in a mesh.
    fn mesh_coordinate(&self, mesh: MeshId, coordinate: MeshCoordinate) -> Result<ScalarValue, EvalError> {
        let value = self.program.mesh(mesh).coordinate_value(self.rank, coordinate);
        value.map(ScalarValue::Int).ok_or_else(|| {
            let name = self.program.mesh_coordinate_name(mesh, coordinate);
            EvalError::Invalid(match self.rank {
                Some(rank) => format!("`{name}` has no value on rank {rank}, which is not in the mesh"),
                None => format!("`{name}` has no value: the program runs on whole tensors"),
            })
        })
    }

    /// The value of a name with a definition. The definitions it needs are evaluated first, in a loop and not by
    /// recursion: a chain of definitions may have any length.
    fn eval_defined(&self, name: Symbol) -> Result<ExprValue, EvalError> {
        let mut stack = vec![(name, false)];
        while let Some((name, ready)) = stack.pop() {
            let Some(op) = self.definitions.get(name) else { continue };
            if ready {
                let value = self.eval_definition(op);
                self.known.borrow_mut().insert(name, value);
                continue;
            }
            let mut known = self.known.borrow_mut();
            if known.contains_key(&name) {
                continue;
            }
            // The verifier refuses this case: the name has no value while its own definition is evaluated.
            known.insert(name, Err(EvalError::Invalid("a definition depends on itself".into())));
            stack.push((name, true));
            let needs = self.definitions.needed_definitions(self.program, op).into_iter();
            stack.extend(needs.filter(|&(used, _)| self.bound_value(used).is_none()).map(|(used, _)| (used, false)));
        }
        self.known.borrow().get(&name).cloned().unwrap_or(Err(EvalError::Unknown(name)))
    }

    /// The value of a scalar that an op defines.
    fn eval_definition(&self, op: OpId) -> Result<ExprValue, EvalError> {
        let op = self.program.op(op);
        if let ([Value::Scalar(value)], None) = (op.operands.as_slice(), op.word_attr(crate::ir::AttrKey::Function)) {
            return self.eval_value(*value);
        }
        let mut values = smallvec::SmallVec::<[ScalarValue; 3]>::new();
        for operand in &op.operands {
            match operand {
                Value::Scalar(expr) => values.push(self.eval_expr(*expr)?),
                Value::Tensor(_) | Value::Stream(_) | Value::Handle(_) | Value::Unit(_) | Value::Op(_) => {
                    return Err(EvalError::Invalid("a scalar cannot be computed from a tensor".into()));
                }
            }
        }
        let function = op.word_attr(crate::ir::AttrKey::Function);
        let function = function.map_or("", |word| self.program.name(word));
        apply_function(function, &values).map(ExprValue::Scalar)
    }
}

/// Arrays and structs.
impl EvalScope<'_> {
    /// The value of an expression, which may be an array or a struct.
    pub(crate) fn eval_value(&self, id: ExprId) -> Result<ExprValue, EvalError> {
        self.eval_composite(id, 0)
    }

    fn eval_composite(&self, id: ExprId, depth: u32) -> Result<ExprValue, EvalError> {
        if depth > MAX_DEPTH {
            return Err(depth_error());
        }
        match self.program.expr(id) {
            Expr::Set(inner) => self.eval_composite(*inner, depth + 1),
            Expr::Name(name) => self.name_value(*name),
            Expr::Braces(items) => {
                let items: Result<Vec<ExprValue>, EvalError> =
                    items.iter().map(|&item| self.eval_composite(item, depth + 1)).collect();
                ExprValue::array(items?)
            }
            Expr::Struct(fields) => {
                let fields: Result<Vec<(Symbol, ExprValue)>, EvalError> =
                    fields.iter().map(|&(name, value)| Ok((name, self.eval_composite(value, depth + 1)?))).collect();
                ExprValue::structure(fields?)
            }
            Expr::Index(base, index) => {
                self.eval_composite(*base, depth + 1)?.element(self.eval_int_at(*index, depth + 1)?)
            }
            Expr::Field(base, field) => self.eval_composite(*base, depth + 1)?.field(*field, self.program.name(*field)),
            Expr::Call(name, args) if self.program.name(*name) == "ReverseArray" && args.len() == 1 => {
                self.eval_composite(args[0], depth + 1)?.reversed()
            }
            Expr::MetaData(_) => {
                Err(EvalError::Invalid("the layout of a tensor in memory is not a value of a run".into()))
            }
            Expr::RaggedExtents(_) => Err(EvalError::Invalid("the extents of a ragged axis are in a tensor".into())),
            _ => self.eval_depth(id, depth).map(ExprValue::Scalar),
        }
    }
}

/// Applies a function, written as an operator or a name, to known scalars.
///
/// # Errors
/// If the function is unknown or takes other operands, an integer result does not fit 64 bits, or a division is by
/// zero.
pub fn apply_function(function: &str, values: &[ScalarValue]) -> Result<ScalarValue, EvalError> {
    match values {
        [a] if function.is_empty() => Ok(*a),
        [a] => match UnaryOp::parse(function) {
            Some(op) => apply_unary(op, *a),
            None => apply_call(function, values),
        },
        [a, b] => match BinaryOp::parse(function) {
            Some(op) => apply_binary(op, *a, *b),
            None => apply_call(function, values),
        },
        _ => apply_call(function, values),
    }
}

fn overflow_error() -> EvalError {
    EvalError::Invalid(scalars::OVERFLOW.into())
}

fn apply_unary(op: UnaryOp, a: ScalarValue) -> Result<ScalarValue, EvalError> {
    match (op, a) {
        (UnaryOp::Neg, ScalarValue::Complex(real, imaginary)) => Ok(ScalarValue::Complex(-real, -imaginary)),
        (UnaryOp::Neg, ScalarValue::Float(value)) => Ok(ScalarValue::Float(-value)),
        (UnaryOp::Neg, _) => signed_number(-a.as_i128()),
        (UnaryOp::Not, _) => Ok(ScalarValue::Bool(!a.as_bool())),
        (UnaryOp::BitNot, ScalarValue::Unsigned(value)) => Ok(ScalarValue::from_unsigned(!value)),
        (UnaryOp::BitNot, _) => Ok(ScalarValue::Int(!a.as_i64())),
        (UnaryOp::Dereference | UnaryOp::Address, _) => {
            Err(EvalError::Invalid(format!("`{}` is an operation on the addresses of a kernel", op.symbol())))
        }
    }
}

fn apply_binary(op: BinaryOp, a: ScalarValue, b: ScalarValue) -> Result<ScalarValue, EvalError> {
    if matches!(a, ScalarValue::Complex(..)) || matches!(b, ScalarValue::Complex(..)) {
        return complex_binary(op, a.as_complex(), b.as_complex());
    }
    if matches!(a, ScalarValue::Float(_)) || matches!(b, ScalarValue::Float(_)) {
        return float_binary(op, a.as_f64(), b.as_f64());
    }
    if matches!(a, ScalarValue::Unsigned(_)) || matches!(b, ScalarValue::Unsigned(_)) {
        return unsigned_binary(op, a.as_i128(), b.as_i128());
    }
    let (x, y) = (a.as_i64(), b.as_i64());
    let shift = u32::try_from(y).ok().filter(|&s| s < 64);
    let number = match op {
        BinaryOp::Add => x.checked_add(y),
        BinaryOp::Sub => x.checked_sub(y),
        BinaryOp::Mul => x.checked_mul(y),
        BinaryOp::Div | BinaryOp::Mod if y == 0 => {
            return Err(EvalError::Invalid(format!("`{x} {} 0` divides by zero", op.symbol())));
        }
        BinaryOp::Div => x.checked_div(y),
        BinaryOp::Mod => x.checked_rem(y),
        BinaryOp::Shl => shift.and_then(|s| x.checked_mul(1i64.checked_shl(s)?)),
        BinaryOp::Shr => shift.map(|s| x >> s),
        BinaryOp::BitAnd => Some(x & y),
        BinaryOp::BitOr => Some(x | y),
        BinaryOp::BitXor => Some(x ^ y),
        BinaryOp::Eq => return Ok(ScalarValue::Bool(x == y)),
        BinaryOp::Ne => return Ok(ScalarValue::Bool(x != y)),
        BinaryOp::Ge => return Ok(ScalarValue::Bool(x >= y)),
        BinaryOp::Gt => return Ok(ScalarValue::Bool(x > y)),
        BinaryOp::Le => return Ok(ScalarValue::Bool(x <= y)),
        BinaryOp::Lt => return Ok(ScalarValue::Bool(x < y)),
        BinaryOp::And => return Ok(ScalarValue::Bool(x != 0 && y != 0)),
        BinaryOp::Or => return Ok(ScalarValue::Bool(x != 0 || y != 0)),
    };
    number.map(ScalarValue::Int).ok_or_else(overflow_error)
}

/// An integer of 64 bits with a sign.
fn signed_number(value: i128) -> Result<ScalarValue, EvalError> {
    i64::try_from(value).map(ScalarValue::Int).map_err(|_| overflow_error())
}

/// An operator on integers of which at least one is beyond 64 bits with a sign: the result has 64 bits with a sign or
/// without one.
fn unsigned_binary(op: BinaryOp, x: i128, y: i128) -> Result<ScalarValue, EvalError> {
    let shift = u32::try_from(y).ok().filter(|&s| s < 64);
    let number = match op {
        BinaryOp::Add => Some(x + y),
        BinaryOp::Sub => Some(x - y),
        BinaryOp::Mul => x.checked_mul(y),
        BinaryOp::Div | BinaryOp::Mod if y == 0 => {
            return Err(EvalError::Invalid(format!("`{x} {} 0` divides by zero", op.symbol())));
        }
        BinaryOp::Div => Some(x / y),
        BinaryOp::Mod => Some(x % y),
        BinaryOp::Shl => shift.and_then(|s| x.checked_mul(1 << s)),
        BinaryOp::Shr => shift.map(|s| x >> s),
        BinaryOp::BitAnd => Some(x & y),
        BinaryOp::BitOr => Some(x | y),
        BinaryOp::BitXor => Some(x ^ y),
        BinaryOp::Eq => return Ok(ScalarValue::Bool(x == y)),
        BinaryOp::Ne => return Ok(ScalarValue::Bool(x != y)),
        BinaryOp::Ge => return Ok(ScalarValue::Bool(x >= y)),
        BinaryOp::Gt => return Ok(ScalarValue::Bool(x > y)),
        BinaryOp::Le => return Ok(ScalarValue::Bool(x <= y)),
        BinaryOp::Lt => return Ok(ScalarValue::Bool(x < y)),
        BinaryOp::And => return Ok(ScalarValue::Bool(x != 0 && y != 0)),
        BinaryOp::Or => return Ok(ScalarValue::Bool(x != 0 || y != 0)),
    };
    let number = number.ok_or_else(overflow_error)?;
    u64::try_from(number).map(ScalarValue::from_unsigned).or_else(|_| signed_number(number))
}

/// An operator on complex numbers, which have no order and no remainder.
fn complex_binary(op: BinaryOp, x: Complex64, y: Complex64) -> Result<ScalarValue, EvalError> {
    let function = Function::parse(op.symbol(), 2);
    let value = match function.map(|function| function.row().form) {
        Some(FunctionForm::Number(NumberForm { complex: Some(form), .. })) => form.value_of(&[x, y]),
        _ => None,
    };
    match (value, op) {
        (Some(value), _) => Ok(ScalarValue::Complex(value.re, value.im)),
        (None, BinaryOp::Eq) => Ok(ScalarValue::Bool(x == y)),
        (None, BinaryOp::Ne) => Ok(ScalarValue::Bool(x != y)),
        _ => Err(EvalError::Invalid(format!("`{}` is not defined for complex numbers", op.symbol()))),
    }
}

fn unknown_literal(text: &str) -> EvalError {
    EvalError::Invalid(format!("`{text}` is not a number that can be evaluated"))
}

/// `(1,2.5)`, or a real number.
fn complex_literal(text: &str) -> Option<ScalarValue> {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
    let (real, imaginary) = inner.split_once(',').unwrap_or((inner, "0"));
    Some(ScalarValue::Complex(real.trim().parse().ok()?, imaginary.trim().parse().ok()?))
}

fn float_binary(op: BinaryOp, x: f64, y: f64) -> Result<ScalarValue, EvalError> {
    Ok(match op {
        BinaryOp::Add => ScalarValue::Float(x + y),
        BinaryOp::Sub => ScalarValue::Float(x - y),
        BinaryOp::Mul => ScalarValue::Float(x * y),
        BinaryOp::Div => ScalarValue::Float(x / y),
        BinaryOp::Mod => ScalarValue::Float(x % y),
        BinaryOp::Eq => ScalarValue::Bool(x == y),
        BinaryOp::Ne => ScalarValue::Bool(x != y),
        BinaryOp::Ge => ScalarValue::Bool(x >= y),
        BinaryOp::Gt => ScalarValue::Bool(x > y),
        BinaryOp::Le => ScalarValue::Bool(x <= y),
        BinaryOp::Lt => ScalarValue::Bool(x < y),
        BinaryOp::And => ScalarValue::Bool(x != 0.0 && y != 0.0),
        BinaryOp::Or => ScalarValue::Bool(x != 0.0 || y != 0.0),
        BinaryOp::Shl | BinaryOp::Shr | BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
            let text = format!("`{}` needs integers", op.symbol());
            return Err(EvalError::Invalid(text));
        }
    })
}

/// Applies a function or a cast by its name.
fn apply_call(name: &str, args: &[ScalarValue]) -> Result<ScalarValue, EvalError> {
    let value = match (Function::parse(name, args.len()), args) {
        (None | Some(Function::Cast), [a]) => apply_cast(name, *a).ok_or_else(|| scalars::refusal(name)),
        (None, _) => Err(scalars::refusal(name)),
        (Some(function), args) => function.row().host_value(name, args),
    };
    value.map_err(EvalError::Invalid)
}

/// The real part of a complex number; another scalar itself.
fn real_part(a: ScalarValue) -> ScalarValue {
    if let ScalarValue::Complex(real, _) = a { ScalarValue::Float(real) } else { a }
}

/// A scalar as an integer of a type.
fn wrapped_scalar(a: ScalarValue, dtype: DType) -> ScalarValue {
    ScalarValue::Int(dtype.wrapped_integer(a.as_i64()))
}

/// A cast to a type of 32 or 64 bits or an integer; `std::real` is a cast of a real to itself.
fn apply_cast(name: &str, a: ScalarValue) -> Option<ScalarValue> {
    let bare = name.strip_prefix("__real_then_to_").unwrap_or(name);
    let bare = bare.trim_start_matches("__to_").trim_matches(|c| c == '(' || c == ')');
    Some(match bare.strip_suffix("_t").unwrap_or(bare) {
        "float" => ScalarValue::Float(f64::from(a.as_f64() as f32)),
        "double" => ScalarValue::Float(a.as_f64()),
        "bool" => ScalarValue::Bool(a.as_bool()),
        "int64" | "nvfuser_index" | "index" => wrapped_scalar(a, DType::Int),
        "int32" | "int" => wrapped_scalar(a, DType::Int32),
        "int16" => wrapped_scalar(a, DType::Int16),
        "int8" => wrapped_scalar(a, DType::Int8),
        "uint64" => ScalarValue::from_unsigned(a.as_u64()),
        "uint32" => wrapped_scalar(a, DType::UInt32),
        "uint16" => wrapped_scalar(a, DType::UInt16),
        "uint8" => wrapped_scalar(a, DType::UInt8),
        "std::real" => real_part(a),
        "complex_float" | "std::complex<float>" | "complex_double" | "std::complex<double>" => {
            let value = a.as_complex();
            ScalarValue::Complex(value.re, value.im)
        }
        _ => return None,
    })
}

/// The value of an extent expression outside of loops.
///
/// # Errors
///
/// An expression without a value, or whose value is no integer.
pub(crate) fn evaluate_extent(
    program: &Program,
    env: &ExtentEnv,
    unit: Option<UnitId>,
    expr: ExprId,
) -> Result<i64, EvalError> {
    eval_outside_loops(program, env, unit, |scope| scope.eval_int(expr))
}

/// The value of an expression without names, if it has one.
pub(crate) fn constant_value(program: &Program, expr: ExprId) -> Option<ScalarValue> {
    fn is_constant(program: &Program, expr: ExprId) -> bool {
        let expr = program.expr(expr);
        let named = matches!(expr, Expr::Name(_) | Expr::MeshCoordinate(..));
        !named && sub_expressions(expr).iter().all(|&part| is_constant(program, part))
    }
    if !is_constant(program, expr) {
        return None;
    }
    eval_outside_loops(program, &ExtentEnv::default(), None, |scope| scope.eval_expr(expr)).ok()
}

/// The value of an expression of sizes alone; `None` if it needs more, or has no value.
pub(crate) fn evaluate_scalar(program: &Program, env: &ExtentEnv, expr: ExprId) -> Option<ScalarValue> {
    eval_outside_loops(program, env, None, |scope| scope.eval_expr(expr)).ok()
}

fn eval_outside_loops<T>(
    program: &Program,
    env: &ExtentEnv,
    unit: Option<UnitId>,
    eval: impl Fn(&EvalScope<'_>) -> T,
) -> T {
    let (definitions, locals) = (IndexDefinitions::default(), LocalScalars::default());
    eval(&EvalScope {
        program,
        env,
        unit,
        rank: None,
        locals: &locals,
        definitions: &definitions,
        known: RefCell::default(),
    })
}
