//! The table of expected results of pointwise functions, as generated kernels give them: one kernel for each group of
//! operands and type of results, whose result's row `n` is expression `n`.

use crate::cases::{Case, repeated};
use crate::table::{Group, Row, groups};
use hostir::data::HostTensor;
use hostir::ir::DType;
use hostir::plan::{
    BufferId, BufferView, Function, InstKind, KernelStep, PointwiseKernel, ScalarValue, StepOperand, row_major,
};

/// A case with the rows that it computes.
pub(crate) struct Rows {
    pub(crate) case: Case,
    group: Group,
}

/// The cases of the whole table.
pub(crate) fn cases() -> Vec<Rows> {
    let mut found: Vec<Rows> = Vec::new();
    for group in groups() {
        let Group { name, operands, rows } = group;
        let mut kinds: Vec<DType> = rows.iter().map(|row| row.dtype).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut left = rows;
        for dtype in kinds {
            let (rows, others) = left.into_iter().partition(|row| row.dtype == dtype);
            left = others;
            let group = Group { name: name.clone(), operands: operands.clone(), rows };
            found.push(Rows { case: case(&group, dtype), group });
        }
    }
    found
}

fn case(group: &Group, result: DType) -> Case {
    let (count, rows) = (group.operands[0].len(), group.rows.len());
    let view = |number: usize, shape: &[usize], dtype| BufferView {
        buffer: BufferId(number as u32),
        offset: 0,
        dims: row_major(shape),
        dtype,
    };
    let operands = group.operands.iter().enumerate();
    let inputs = operands.map(|(k, operand)| repeated(&view(k, &[count], operand.dtype()), 0, rows));
    let output = view(group.operands.len(), &[rows, count], result);
    let kernel = PointwiseKernel { inputs: inputs.collect(), output, steps: steps(group, result) };
    let mut buffers = group.operands.clone();
    buffers.push(HostTensor::zeros(result, &[rows * count]));
    let name = format!("{} as {}", group.name, result.name());
    Case { name, buffers, kind: InstKind::Kernel(Box::new(kernel)) }
}

/// Each expression, and the choice of the one whose row it is.
fn steps(group: &Group, result: DType) -> Vec<KernelStep> {
    let mut steps: Vec<KernelStep> = Vec::new();
    let mut add = |function, args: &[StepOperand], compute, result| {
        steps.push(KernelStep { function, args: args.into(), compute, result });
        StepOperand::Step(steps.len() as u32 - 1)
    };
    let args: Vec<StepOperand> = (0..group.operands.len() as u32).map(StepOperand::Input).collect();
    let mut last = StepOperand::Const(ScalarValue::Int(0));
    for (number, row) in group.rows.iter().enumerate() {
        let function = function(row, args.len());
        let compute = if function.computes_in_operand_type() { group.operands[0].dtype() } else { result };
        let value = add(function, &args, compute, result);
        let number = StepOperand::Const(ScalarValue::Int(number as i64));
        let here = add(Function::Eq, &[StepOperand::Index(0), number], DType::Int, DType::Bool);
        last = add(Function::Where, &[here, value, last], result, result);
    }
    steps
}

/// The function of an expression.
pub(crate) fn function(row: &Row, operands: usize) -> Function {
    let named = row.text.split('(').next().filter(|name| !name.contains('{'));
    let sign = row.text.replace("{0}", "").replace("{1}", "");
    Function::parse(named.unwrap_or(&sign), operands).unwrap()
}

impl Rows {
    /// Lists the differences between the table and the buffers after the kernel has run.
    pub(crate) fn differences(&self, buffers: &[HostTensor]) -> Vec<String> {
        let result = buffers.last().unwrap();
        let rows = result.bytes().chunks_exact(result.bytes().len() / self.group.rows.len());
        let check = |(row, bytes): (&Row, &[u8])| {
            let got = HostTensor::from_bytes(row.dtype, &[row.expected.len()], bytes).unwrap();
            row.differences(&self.group, &got)
        };
        self.group.rows.iter().zip(rows).flat_map(check).collect()
    }
}
