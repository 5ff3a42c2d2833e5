//! Rows of the function table: data, values on the CPU and C++ texts.

use super::complex::Complex64;
use super::scalar_value::ScalarValue;

/// The spelling of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionSpelling {
    /// A symbol before or between the operands.
    Operator,
    /// A name that is the same for all element types.
    Plain,
    /// A name that ends in `f` when the result is a `float`.
    Suffixed,
    /// A name that no program has: steps of kernels for copies and casts.
    Internal,
}

/// The cost of a function in a kernel, compared with storing and loading its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionCost {
    /// Less, for all element types.
    Low,
    /// Lower where it computes in float, a handful of instructions there.
    LowInFloat,
    /// More.
    High,
}

/// A function of one, two or three elements of a type.
#[derive(Clone, Copy)]
pub enum ElementFunction<T> {
    /// Of one.
    Unary(fn(T) -> T),
    /// Of two.
    Binary(fn(T, T) -> T),
    /// Of three.
    Ternary(fn(T, T, T) -> T),
}

impl<T: Copy> ElementFunction<T> {
    /// The value for operands; `None` for another number of operands.
    pub fn value_of(self, args: &[T]) -> Option<T> {
        match (self, args) {
            (ElementFunction::Unary(f), &[a]) => Some(f(a)),
            (ElementFunction::Binary(f), &[a, b]) => Some(f(a, b)),
            (ElementFunction::Ternary(f), &[a, b, c]) => Some(f(a, b, c)),
            _ => None,
        }
    }
}

/// A function of reals, computed in double or in float.
#[derive(Clone, Copy)]
pub struct RealForm {
    /// The value of doubles.
    pub double: ElementFunction<f64>,
    /// The value of floats.
    pub float: ElementFunction<f32>,
    /// The C++ expression: a template of [`FunctionForm`].
    pub cuda: &'static str,
}

/// A function of integers, or of truth values as integers, computed in 64 bits.
#[derive(Clone, Copy)]
pub struct IntegerForm {
    /// The value.
    pub value: ElementFunction<i64>,
    /// The C++ expression: a template of [`FunctionForm`].
    pub cuda: &'static str,
    /// True if the second operand must not be 0. In generated kernels, the result is 0 then.
    pub divides: bool,
    /// The function of `uint64_t`; `None` if it makes the same bits of the same bits.
    pub unsigned: Option<UnsignedForm>,
}

/// A function of integers without a sign, of 64 bits.
#[derive(Clone, Copy)]
pub struct UnsignedForm {
    /// The value.
    pub value: ElementFunction<u64>,
    /// The C++ expression: a template of [`FunctionForm`].
    pub cuda: &'static str,
}

/// A function of complex numbers, computed in doubles. A result that is real has no imaginary part.
pub type ComplexForm = ElementFunction<Complex64>;

/// A comparison of two elements.
#[derive(Clone, Copy)]
pub struct ComparisonForm {
    /// The result for doubles.
    pub double: fn(f64, f64) -> bool,
    /// The result for floats.
    pub float: fn(f32, f32) -> bool,
    /// The result for integers.
    pub integer: fn(i64, i64) -> bool,
    /// The result for integers without a sign.
    pub unsigned: fn(u64, u64) -> bool,
    /// The result for complex numbers, which have no order.
    pub complex: Option<fn(Complex64, Complex64) -> bool>,
    /// The C++ condition: a template of [`FunctionForm`].
    pub cuda: &'static str,
}

/// Arithmetic. Integers are converted to doubles if there is no form for them.
#[derive(Clone, Copy)]
pub struct NumberForm {
    /// The function of reals; `None` if the operands must be integers or truth values.
    pub real: Option<RealForm>,
    /// The function of integers whose result is an integer.
    pub integer: Option<IntegerForm>,
    /// The function of integers whose result is a truth value, if it is another one.
    pub truth: Option<IntegerForm>,
    /// The function of complex numbers.
    pub complex: Option<ComplexForm>,
}

/// The computation that a function stands for.
///
/// `cuda` is a template of C++: `{a}`, `{b}`, `{c}` are the operands (names, literals, calls, or in parentheses), `{T}`
/// is their type, and `{f}` is `f` for floats and nothing for doubles, after names of mathematical functions and
/// literals.
#[derive(Clone, Copy)]
pub enum FunctionForm {
    /// None: the function is read, verified and printed, but cannot run.
    NotComputed,
    /// The computation of the function of this name, which has as many operands.
    SameAs(&'static str),
    /// The operand, converted to the type of the result.
    Conversion,
    /// The bits of the operand as an element of the result's type, which has as many. The step's compute type is the
    /// operand's.
    Reinterpretation,
    /// The second operand where the first is true, else the third.
    Choice,
    /// A function of truth values.
    Truth {
        /// The value.
        value: ElementFunction<bool>,
        /// The C++ condition, of conditions.
        cuda: &'static str,
    },
    /// A truth value of one real number.
    Test {
        /// The value.
        value: fn(f64) -> bool,
        /// The value for a complex number.
        complex: Option<fn(Complex64) -> bool>,
        /// The C++ condition.
        cuda: &'static str,
    },
    /// A truth value of two numbers.
    Comparison(ComparisonForm),
    /// A number of numbers.
    Number(NumberForm),
}

/// A function of known scalars, with its name in the text. An error is a clause with the reason why there is no value.
pub type HostFunction = fn(&str, &[ScalarValue]) -> Result<ScalarValue, String>;

/// The evaluation of a function in scalar expressions.
#[derive(Clone, Copy)]
pub enum HostForm {
    /// In double, of integers as well.
    Double,
    /// In double; of integers alone, like a kernel's integers.
    DoubleOrInteger,
    /// By a function of its own.
    Own(HostFunction),
}

/// An operation of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldOperation {
    /// `-a`
    Negation,
    /// `a + b`
    Sum,
    /// `a - b`
    Difference,
    /// `a * b`
    Product,
    /// `a / b`
    Quotient,
    /// `1 / a`
    Inverse,
    /// `a` to the power of `b`, where `b` is a small integer.
    Power,
    /// `a + c * (b - a)`
    Line,
    /// `a * b + (1 - a) * c`, where `a` is a truth value
    Choice,
}

/// The meaning of a function of data modulo a prime (`hir-run --exact`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExactForm {
    /// An operation of the field.
    Field(FieldOperation),
    /// A keyed hash of the operands: of the function, nothing else is known.
    Hashed,
    /// The smallest of the operands: a keyed hash of their set. Every use is named.
    Smallest,
    /// The largest of the operands, likewise.
    Largest,
    /// None. It is hashed too, and every use is named.
    Unknown,
}

/// A row of the table: all that is known of a function.
#[derive(Clone, Copy)]
pub struct FunctionRow {
    /// The name, such as `exp`; for operators, the symbol.
    pub name: &'static str,
    /// Number of operands.
    pub arity: usize,
    /// The spelling of the name.
    pub spelling: FunctionSpelling,
    /// True if the operands of a pointwise op must have the element type of its result.
    pub one_type: bool,
    /// True if the result depends on the distance of neighbouring numbers of the type in which it computes, so that
    /// narrower floats cannot compute in `float`.
    pub needs_own_precision: bool,
    /// The cost in a kernel.
    pub cost: FunctionCost,
    /// The computation in kernels.
    pub form: FunctionForm,
    /// The computation in scalar expressions.
    pub host: HostForm,
    /// The meaning modulo a prime.
    pub exact: ExactForm,
}

const fn empty_row(spelling: FunctionSpelling) -> FunctionRow {
    FunctionRow {
        name: "",
        arity: 0,
        spelling,
        one_type: false,
        needs_own_precision: false,
        cost: FunctionCost::High,
        form: FunctionForm::NotComputed,
        host: HostForm::Double,
        exact: ExactForm::Hashed,
    }
}

/// A function written as an operator.
pub(super) const fn operator_row() -> FunctionRow {
    empty_row(FunctionSpelling::Operator)
}

/// A function with a name.
pub(super) const fn plain_row() -> FunctionRow {
    empty_row(FunctionSpelling::Plain)
}

/// A function with a name that ends in `f` when the result is a `float`.
pub(super) const fn suffixed_row() -> FunctionRow {
    empty_row(FunctionSpelling::Suffixed)
}

/// A function that only steps of kernels have.
pub(super) const fn internal_row() -> FunctionRow {
    empty_row(FunctionSpelling::Internal)
}

/// The builders of rows. Each sets one column.
impl FunctionRow {
    /// Operands have the element type of the result.
    pub(super) const fn one_type(mut self) -> Self {
        self.one_type = true;
        self
    }
    /// The function computes in the type of its result alone, `float` or `double`.
    pub(super) const fn own_precision(mut self) -> Self {
        self.needs_own_precision = true;
        self
    }
    /// The cost in a kernel.
    pub(super) const fn kernel_cost(mut self, cost: FunctionCost) -> Self {
        self.cost = cost;
        self
    }
    /// The computation that is no arithmetic.
    pub(super) const fn kernel_form(mut self, form: FunctionForm) -> Self {
        self.form = form;
        self
    }
    /// The value of reals.
    pub(super) const fn real_form(self, real: RealForm) -> Self {
        let numbers = self.number_form();
        self.kernel_form(FunctionForm::Number(NumberForm { real: Some(real), ..numbers }))
    }
    /// The value of integers.
    pub(super) const fn integer_form(self, cuda: &'static str, value: ElementFunction<i64>) -> Self {
        let integer = Some(IntegerForm { value, cuda, divides: false, unsigned: None });
        let numbers = self.number_form();
        self.kernel_form(FunctionForm::Number(NumberForm { integer, ..numbers }))
    }
    /// The value of integers, the second of which must not be 0.
    pub(super) const fn division_form(self, cuda: &'static str, value: ElementFunction<i64>) -> Self {
        let integer = Some(IntegerForm { value, cuda, divides: true, unsigned: None });
        let numbers = self.number_form();
        self.kernel_form(FunctionForm::Number(NumberForm { integer, ..numbers }))
    }
    /// The value of `uint64_t`, for functions of integers to which the sign matters.
    pub(super) const fn unsigned_form(self, cuda: &'static str, value: ElementFunction<u64>) -> Self {
        let numbers = self.number_form();
        let unsigned = Some(UnsignedForm { value, cuda });
        let integer = match numbers.integer {
            Some(integer) => Some(IntegerForm { unsigned, ..integer }),
            None => None,
        };
        self.kernel_form(FunctionForm::Number(NumberForm { integer, ..numbers }))
    }
    /// The value of integers whose result is a truth value.
    pub(super) const fn truth_form(self, cuda: &'static str, value: ElementFunction<i64>) -> Self {
        let truth = Some(IntegerForm { value, cuda, divides: false, unsigned: None });
        let numbers = self.number_form();
        self.kernel_form(FunctionForm::Number(NumberForm { truth, ..numbers }))
    }
    /// The result of a function of truth values.
    pub(super) const fn logic_form(self, cuda: &'static str, value: ElementFunction<bool>) -> Self {
        self.kernel_form(FunctionForm::Truth { value, cuda }).kernel_cost(FunctionCost::Low).unknown_form()
    }
    /// The result of a test of one real.
    pub(super) const fn test_form(self, cuda: &'static str, value: fn(f64) -> bool) -> Self {
        self.kernel_form(FunctionForm::Test { value, complex: None, cuda })
            .kernel_cost(FunctionCost::Low)
            .unknown_form()
    }
    /// The result of a test of a complex number.
    pub(super) const fn complex_test(self, complex: fn(Complex64) -> bool) -> Self {
        match self.form {
            FunctionForm::Test { value, cuda, .. } => {
                self.kernel_form(FunctionForm::Test { value, complex: Some(complex), cuda })
            }
            _ => self,
        }
    }
    /// The value of complex numbers.
    pub(super) const fn complex_form(self, complex: ComplexForm) -> Self {
        let numbers = self.number_form();
        self.kernel_form(FunctionForm::Number(NumberForm { complex: Some(complex), ..numbers }))
    }
    /// The result of a comparison.
    pub(super) const fn comparison_form(self, form: ComparisonForm) -> Self {
        self.kernel_form(FunctionForm::Comparison(form)).kernel_cost(FunctionCost::Low).unknown_form()
    }
    /// The evaluation in scalar expressions.
    pub(super) const fn host_form(mut self, host: HostForm) -> Self {
        self.host = host;
        self
    }
    /// The operation of a field that the function computes. Functions without this or [`Self::unknown_form`] are
    /// hashed.
    pub(super) const fn field_form(mut self, operation: FieldOperation) -> Self {
        self.exact = ExactForm::Field(operation);
        self
    }
    /// Marks the function as the smallest or the largest of its operands.
    pub(super) const fn extreme_form(mut self, form: ExactForm) -> Self {
        self.exact = form;
        self
    }
    /// The function has no meaning modulo a prime.
    pub(super) const fn unknown_form(mut self) -> Self {
        self.exact = ExactForm::Unknown;
        self
    }
    const fn number_form(&self) -> NumberForm {
        match self.form {
            FunctionForm::Number(form) => form,
            _ => NumberForm { real: None, integer: None, truth: None, complex: None },
        }
    }
}

impl FunctionRow {
    /// Returns true if the function is written as an operator.
    pub fn is_operator(&self) -> bool {
        self.spelling == FunctionSpelling::Operator
    }
    /// Whether programs can name the function.
    pub fn is_listed(&self) -> bool {
        self.spelling != FunctionSpelling::Internal
    }
    /// Returns true if the function has a computation of its own.
    pub fn is_computed(&self) -> bool {
        !matches!(self.form, FunctionForm::NotComputed | FunctionForm::SameAs(_))
    }
    /// Returns true if the result is a truth value whatever the operands' type.
    pub fn is_predicate(&self) -> bool {
        matches!(self.form, FunctionForm::Truth { .. } | FunctionForm::Test { .. } | FunctionForm::Comparison(_))
    }
    /// Returns true if the function has values for complex numbers.
    pub fn takes_complex(&self) -> bool {
        match self.form {
            FunctionForm::Conversion
            | FunctionForm::Reinterpretation
            | FunctionForm::Choice
            | FunctionForm::Truth { .. } => true,
            FunctionForm::Test { complex, .. } => complex.is_some(),
            FunctionForm::Comparison(form) => form.complex.is_some(),
            FunctionForm::Number(form) => form.complex.is_some(),
            FunctionForm::NotComputed | FunctionForm::SameAs(_) => false,
        }
    }
    /// Returns true if operands must be integers or truth values.
    pub fn needs_integers(&self) -> bool {
        matches!(self.form, FunctionForm::Number(NumberForm { real: None, integer: Some(_), .. }))
    }
}
