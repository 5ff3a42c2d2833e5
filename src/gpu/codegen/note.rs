//! One line that describes the computation of a job, for stand-ins of devices, which cannot run CUDA C++.
//!
//! The line holds words with single spaces between them. The first one names the form, the others are its parts in
//! order; a list starts with its length. A view is the number of the job's parameter that points to its first
//! element (`-` for none), its type's name, and extent and stride of each axis. A constant is a letter (`i`, `f`,
//! `b`), and the value or the bits of it in hexadecimal digits; `-` is none.
//!
//! | form | parts |
//! |---|---|
//! | `copy` | source, target |
//! | `fill` | target, constant |
//! | `kernel` | list of inputs, output, list of steps |
//! | `fold` | operation, initial value, list of axes, input, output |
//! | `fold-kernel` | a kernel's parts, then operation, initial value, list of axes, output |
//! | `gemm` | left, right, list of at most one bias, result |
//! | `take` | input, index, axis, output |
//! | `accumulate` | base, index, value, output |
//! | `members` | operation, list of inputs, output |
//! | `attention` | queries, keys, values, result, logarithms of sums, 1 if causal, scale |
//!
//! A step is its function, the types that it computes in and returns, and a list of operands: `in`, `step` or `index`
//! and a number, or `const` and a constant.

use super::KernelJob;
use hostir::diag::message;
use hostir::plan::{
    AccumulateInst, AttentionInst, BufferView, GemmInst, KernelStep, PointwiseKernel, RedOp, ReductionFold,
    ScalarValue, StepOperand, TakeInst,
};
use std::fmt::{Display, Write};

/// The prefix of comments that hold notes.
const MARK: &str = "// hostir: ";

/// A line that is being written.
pub(super) struct Note<'j> {
    job: &'j KernelJob,
    text: String,
}

impl<'j> Note<'j> {
    /// A line of a form about a job.
    pub(super) fn new(job: &'j KernelJob, form: &str) -> Self {
        Self { job, text: form.to_owned() }
    }

    /// The line.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Appends a word.
    pub(super) fn word(mut self, word: impl Display) -> Self {
        // Writing to a string cannot fail.
        let _ = write!(self.text, " {word}");
        self
    }

    /// Appends a view.
    pub(super) fn view(self, view: &BufferView) -> Self {
        let params = self.job.launches.iter().flat_map(|launch| &launch.params);
        let place = params.into_iter().position(|param| {
            param.as_view().is_some_and(|other| (other.buffer, other.offset) == (view.buffer, view.offset))
        });
        let own = match place {
            Some(place) => self.word(place),
            None => self.word("-"),
        };
        let own = own.word(view.dtype.name()).word(view.dims.len());
        view.dims.iter().fold(own, |own, dim| own.word(dim.extent).word(dim.stride))
    }

    /// Appends a list of views.
    pub(super) fn views<'v>(self, views: impl ExactSizeIterator<Item = &'v BufferView>) -> Self {
        let own = self.word(views.len());
        views.fold(own, Self::view)
    }

    /// Appends a constant.
    pub(super) fn constant(self, value: Option<ScalarValue>) -> Self {
        match value {
            None => self.word("-"),
            Some(ScalarValue::Int(value)) => self.word("i").word(value),
            Some(ScalarValue::Float(value)) => self.word("f").word(format_args!("{:x}", value.to_bits())),
            Some(ScalarValue::Bool(value)) => self.word("b").word(u8::from(value)),
            Some(ScalarValue::Unsigned(value)) => self.word("u").word(value),
            Some(ScalarValue::Complex(real, imaginary)) => self
                .word("c")
                .word(format_args!("{:x}", real.to_bits()))
                .word(format_args!("{:x}", imaginary.to_bits())),
        }
    }

    /// Appends a fold over axes.
    pub(super) fn fold(self, fold: ReductionFold, axes: &[usize]) -> Self {
        let own = self.word(fold.op.word()).constant(fold.initial).word(axes.len());
        axes.iter().fold(own, Self::word)
    }

    /// Appends a pointwise kernel's parts.
    pub(super) fn kernel(self, kernel: &PointwiseKernel) -> Self {
        let own = self.views(kernel.inputs.iter()).view(&kernel.output).word(kernel.steps.len());
        kernel.steps.iter().fold(own, Self::step)
    }

    fn step(self, step: &KernelStep) -> Self {
        let KernelStep { function, args, compute, result } = step;
        let own = self.word(format_args!("{function:?}")).word(compute.name()).word(result.name());
        args.iter().fold(own.word(args.len()), |own, arg| match arg {
            StepOperand::Input(number) => own.word("in").word(number),
            StepOperand::Step(number) => own.word("step").word(number),
            StepOperand::Index(axis) => own.word("index").word(axis),
            StepOperand::Const(value) => own.word("const").constant(Some(*value)),
        })
    }

    /// Appends a GEMM's parts.
    pub(super) fn gemm(self, gemm: &GemmInst) -> Self {
        let own = self.view(&gemm.a).view(&gemm.b);
        own.views(gemm.bias.as_slice().iter()).views(gemm.scale_views().iter()).view(&gemm.out)
    }

    /// Appends the parts of a read by index.
    pub(super) fn take(self, take: &TakeInst) -> Self {
        self.view(&take.input).view(&take.index).word(take.axis).view(&take.output)
    }

    /// Appends the parts of a write by index.
    pub(super) fn accumulate(self, put: &AccumulateInst) -> Self {
        let own = self.view(&put.base).view(&put.index).view(&put.value).view(&put.output).word(put.axis);
        own.word(put.combine.map_or("-", RedOp::word))
    }

    /// Appends the parts of attention.
    pub(super) fn attention(self, attention: &AttentionInst) -> Self {
        let views = attention.factors().into_iter().chain(attention.results());
        let own = views.fold(self, Self::view).word(u8::from(attention.is_causal));
        own.constant(Some(ScalarValue::Float(attention.scale)))
    }

    /// Appends the parts of an elementwise combination.
    pub(super) fn members(self, op: RedOp, inputs: &[BufferView], output: &BufferView) -> Self {
        self.word(op.word()).views(inputs.iter()).view(output)
    }
}

impl KernelJob {
    /// Puts the job's note as a comment in front of the texts of its launches. The comment has the launch's number and
    /// count, the number of its first parameter among those of all, and the note.
    pub fn annotate(&mut self) {
        let (count, mut first) = (self.launches.len(), 0);
        for (number, launch) in self.launches.iter_mut().enumerate() {
            let note = message!("{}{} {} {} {}\n", MARK, number, count, first, self.note);
            launch.text.insert_str(0, &note);
            first += launch.params.len();
        }
    }
}
