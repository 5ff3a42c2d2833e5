//! How two values become one.

use crate::codegen::types::{Class, ClassSource as _, Value, class};
use crate::unsupported::Unsupported;
use hostir::ir::DType;
use hostir::plan::{RedOp, Scalar};

/// A reduction operation on accumulated values.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    op: RedOp,
    /// What values accumulate in.
    pub(crate) class: Class,
}

impl Join {
    /// The operation on elements of a type. The sum of truth values is their disjunction.
    pub(crate) fn new(op: RedOp, dtype: DType) -> Result<Self, Unsupported> {
        let class = class(dtype)?;
        let bitwise = matches!(op, RedOp::And | RedOp::Or | RedOp::Xor);
        if bitwise && class != Class::I64 {
            return Err(Unsupported::Reduction(op, dtype));
        }
        let op = match op {
            RedOp::Sum | RedOp::Avg if dtype == DType::Bool => RedOp::Or,
            RedOp::Avg => RedOp::Sum,
            op => op,
        };
        Ok(Self { op, class })
    }
    /// The operation on accumulated values of this one.
    pub(super) fn again(&self) -> Self {
        self.clone()
    }
    /// The combination of two values, each a name.
    pub(crate) fn apply(&self, a: &str, b: &str) -> String {
        let integers = self.class == Class::I64;
        match self.op {
            RedOp::Sum | RedOp::Avg if integers => format!("i_add({a}, {b})"),
            RedOp::Sum | RedOp::Avg => format!("({a} + {b})"),
            RedOp::Product if integers => format!("i_mul({a}, {b})"),
            RedOp::Product => format!("({a} * {b})"),
            RedOp::Min => format!("n_min({a}, {b})"),
            RedOp::Max => format!("n_max({a}, {b})"),
            RedOp::And => format!("({a} & {b})"),
            RedOp::Or => format!("({a} | {b})"),
            RedOp::Xor => format!("({a} ^ {b})"),
        }
    }
    /// What leaves any value as it is.
    pub(super) fn neutral(&self) -> String {
        let integers = self.class == Class::I64;
        let value = match self.op {
            RedOp::Product => Scalar::Int(1),
            RedOp::Min if integers => Scalar::Int(i64::MAX),
            RedOp::Max if integers => Scalar::Int(i64::MIN),
            RedOp::Min => Scalar::Float(f64::INFINITY),
            RedOp::Max => Scalar::Float(f64::NEG_INFINITY),
            RedOp::And => Scalar::Int(-1),
            RedOp::Sum | RedOp::Avg | RedOp::Or | RedOp::Xor => Scalar::Int(0),
        };
        self.class.literal(value).text
    }
    /// The value that a fold of elements of a type starts from.
    pub(super) fn initial(&self, value: Scalar, dtype: DType) -> String {
        let truth = Scalar::Bool(value.as_bool());
        self.class.literal(if dtype == DType::Bool { truth } else { value }).text
    }
    /// A sum over the number of its terms; integers truncate.
    pub(crate) fn divided(&self, sum: &str, count: usize) -> Value {
        let count = self.class.literal(Scalar::Int(count as i64)).text;
        Value::new(self.class, format!("({sum} / {count})"))
    }
    /// The function `join` of a kernel's text.
    pub(super) fn function(&self) -> String {
        let ctype = self.class.ctype();
        format!(
            "static __device__ __forceinline__ {ctype} join({ctype} a, {ctype} b) {{ return {}; }}\n",
            self.apply("a", "b")
        )
    }
}
