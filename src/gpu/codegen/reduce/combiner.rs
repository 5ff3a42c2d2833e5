//! The step that makes one value of two.

use crate::codegen::types::{ClassSource as _, ComputeClass, TypedExpr, compute_class};
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::plan::{RedOp, ScalarValue};

/// A reduction operation on accumulated values.
#[derive(Clone, Debug)]
pub(crate) struct AccumulateOp {
    op: RedOp,
    /// The compute type of the accumulator.
    pub(crate) class: ComputeClass,
}

impl AccumulateOp {
    /// The operation on elements of a type. The sum of truth values is their disjunction.
    pub(crate) fn new(op: RedOp, dtype: DType) -> Result<Self, Unsupported> {
        let class = compute_class(dtype)?;
        let bitwise = matches!(op, RedOp::And | RedOp::Or | RedOp::Xor);
        if bitwise && !class.is_integer() {
            return Err(Unsupported::Reduction(op, dtype));
        }
        let op = match op {
            RedOp::Sum | RedOp::Avg if dtype == DType::Bool => RedOp::Or,
            RedOp::Avg => RedOp::Sum,
            op if class.is_integer() => op.ignoring_nan(),
            op => op,
        };
        Ok(Self { op, class })
    }
    /// The same operation on accumulated values.
    pub(super) fn for_partials(&self) -> Self {
        self.clone()
    }
    /// The combination of two values, each a name.
    pub(crate) fn combine_values(&self, a: &str, b: &str) -> String {
        let integers = self.class.is_integer();
        match self.op {
            RedOp::Sum | RedOp::Avg if integers => format!("i_add({a}, {b})"),
            RedOp::Sum | RedOp::Avg => format!("({a} + {b})"),
            RedOp::Product if integers => format!("i_mul({a}, {b})"),
            RedOp::Product => format!("({a} * {b})"),
            RedOp::Min => format!("n_min({a}, {b})"),
            RedOp::Max => format!("n_max({a}, {b})"),
            RedOp::FMin | RedOp::FMax => {
                let suffix = if self.class == ComputeClass::F32 { "f" } else { "" };
                format!("{}{suffix}({a}, {b})", self.op.word())
            }
            RedOp::And => format!("({a} & {b})"),
            RedOp::Or => format!("({a} | {b})"),
            RedOp::Xor => format!("({a} ^ {b})"),
        }
    }
    /// The neutral element of the operation, as C++ source.
    pub(super) fn neutral_element(&self) -> String {
        let integers = self.class.is_integer();
        let value = match self.op {
            RedOp::Product => ScalarValue::Int(1),
            RedOp::Min | RedOp::Max if integers => self.op.identity_value(self.class.dtype()),
            RedOp::Min => ScalarValue::Float(f64::INFINITY),
            RedOp::Max => ScalarValue::Float(f64::NEG_INFINITY),
            RedOp::FMin | RedOp::FMax => ScalarValue::Float(f64::NAN),
            RedOp::And => ScalarValue::Int(-1),
            RedOp::Sum | RedOp::Avg | RedOp::Or | RedOp::Xor => ScalarValue::Int(0),
        };
        self.class.literal(value).text
    }
    /// The initial value of a fold of elements of a type.
    pub(super) fn initial_value(&self, value: ScalarValue, dtype: DType) -> String {
        let truth = ScalarValue::Bool(value.as_bool());
        self.class.literal(if dtype == DType::Bool { truth } else { value }).text
    }
    /// Divides a sum by the number of its terms; integers truncate.
    pub(crate) fn divide_sum(&self, sum: &str, count: usize) -> TypedExpr {
        let count = self.class.literal(ScalarValue::Int(count as i64)).text;
        TypedExpr::new(self.class, format!("({sum} / {count})"))
    }
    /// The function `join` of a kernel's text.
    pub(super) fn join_function(&self) -> String {
        let ctype = self.class.ctype();
        format!(
            "static __device__ __forceinline__ {ctype} join({ctype} a, {ctype} b) {{ return {}; }}\n",
            self.combine_values("a", "b")
        )
    }
}
