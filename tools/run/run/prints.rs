//! The output of `print` statements: after a run, the values that they found, rank by rank in the order of the statements.
//!
//! The layout is numpy's: nested brackets, columns of one width, and the edges alone of a large tensor.

use hostir::backend::RunResult;
use hostir::data::HostTensor;
use hostir::ir::{DType, word_of_dtype};
use hostir::lower::PreparedProgram;
use hostir::plan::{Plan, PrintedValue};
use hostir_tool_support::io::ToolIo;

/// A tensor of more elements is shown by its edges.
const MOST_SHOWN: usize = 1000;
/// The number of indices at either end of an axis that are shown then.
const EDGE: usize = 3;

/// Shows the prints of a run on standard error.
pub(super) fn show_prints(prepared: &PreparedProgram, run: &RunResult, io: &mut ToolIo<'_>) {
    for (rank, plan) in prepared.plans.iter().enumerate() {
        let Some(outputs) = run.outputs.get(rank) else { continue };
        let lines = plan_prints(prepared, plan, outputs);
        if !lines.is_empty() {
            io.print_message(&lines);
        }
    }
}

/// The lines of a rank.
fn plan_prints(prepared: &PreparedProgram, plan: &Plan, outputs: &[Option<HostTensor>]) -> String {
    let mut text = String::new();
    // The copies follow the outputs of the program, in the order of the statements.
    let mut copies = outputs.iter().skip(prepared.outputs.len());
    for print in &plan.notes.prints {
        let place = prepared.labels.iteration_text(plan.iteration_of(print.origin));
        text += &match (prepared.ranks > 1, place.is_empty()) {
            (true, true) => format!("rank {}: ", plan.rank),
            (true, false) => format!("rank {}, {place}: ", plan.rank),
            (false, true) => String::new(),
            (false, false) => format!("{place}: "),
        };
        for (at, (name, value)) in print.values.iter().enumerate() {
            text += if at > 0 { ", " } else { "" };
            match value {
                PrintedValue::Scalar(value) => text += &format!("{name} = {value}"),
                PrintedValue::Tensor(_) => {
                    let tensor = copies.next().and_then(Option::as_ref);
                    text += &tensor.map_or_else(String::new, |tensor| format!("{name} = {}", tensor_text(tensor)));
                }
            }
        }
        text.push('\n');
    }
    text
}

/// `f32[2, 3]`, and below it the elements.
fn tensor_text(tensor: &HostTensor) -> String {
    let extents: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
    let head = format!("{}[{}]", word_of_dtype(tensor.dtype()), extents.join(", "));
    if tensor.is_empty() {
        return head;
    }
    let writer = TensorWriter::new(tensor);
    if tensor.shape().is_empty() {
        return format!("{head} {}", writer.element_text(0).trim());
    }
    let mut text = format!("{head}\n");
    writer.write_axis(0, 0, &mut text);
    text
}

struct TensorWriter<'t> {
    tensor: &'t HostTensor,
    /// The elements that each index of an axis has.
    strides: Vec<usize>,
    /// True if only the edges are shown.
    is_large: bool,
    /// Columns of an element.
    width: usize,
}

impl<'t> TensorWriter<'t> {
    fn new(tensor: &'t HostTensor) -> Self {
        let shape = tensor.shape();
        let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        let mut writer = Self { tensor, strides, is_large: tensor.len() > MOST_SHOWN, width: 0 };
        let mut width = 0;
        writer.visit_elements(0, 0, &mut |element| width = width.max(writer.plain_text(element).chars().count()));
        writer.width = width;
        writer
    }

    /// The indices of an axis that are shown; `None` for those that are left out.
    fn shown(&self, axis: usize) -> Vec<Option<usize>> {
        let extent = self.tensor.shape()[axis];
        if !self.is_large || extent <= 2 * EDGE {
            return (0..extent).map(Some).collect();
        }
        let first = (0..EDGE).map(Some).chain([None]);
        first.chain((extent - EDGE..extent).map(Some)).collect()
    }

    fn visit_elements(&self, axis: usize, start: usize, visit: &mut dyn FnMut(usize)) {
        if axis == self.tensor.shape().len() {
            return visit(start);
        }
        for index in self.shown(axis).into_iter().flatten() {
            self.visit_elements(axis + 1, start + index * self.strides[axis], visit);
        }
    }

    /// The elements of an axis in brackets; those of the last axis on one line.
    fn write_axis(&self, axis: usize, start: usize, out: &mut String) {
        let rank = self.tensor.shape().len();
        out.push('[');
        for (at, index) in self.shown(axis).into_iter().enumerate() {
            if at > 0 && axis + 1 == rank {
                out.push(' ');
            } else if at > 0 {
                // An empty line separates matrices.
                (axis + 2..rank).for_each(|_| out.push('\n'));
                out.push('\n');
                (0..=axis).for_each(|_| out.push(' '));
            }
            match index {
                None => out.push_str("..."),
                Some(index) if axis + 1 == rank => out.push_str(&self.element_text(start + index)),
                Some(index) => self.write_axis(axis + 1, start + index * self.strides[axis], out),
            }
        }
        out.push(']');
    }

    fn element_text(&self, element: usize) -> String {
        format!("{:>width$}", self.plain_text(element), width = self.width)
    }

    fn plain_text(&self, element: usize) -> String {
        let parts = self.tensor.parts_per_element();
        let texts: Vec<String> = (0..parts).map(|part| self.part_text(element * parts + part)).collect();
        match &texts[..] {
            [one] => one.clone(),
            _ => format!("({})", texts.join(",")),
        }
    }

    fn part_text(&self, part: usize) -> String {
        match self.tensor.dtype() {
            DType::Int | DType::Index => self.tensor.as_slice::<i64>()[part].to_string(),
            DType::UInt64 => self.tensor.as_slice::<u64>()[part].to_string(),
            DType::Bool => (self.tensor.get_part(part) != 0.0).to_string(),
            dtype if dtype.is_integer() => (self.tensor.get_part(part) as i64).to_string(),
            _ => real_text(self.tensor.get_part(part)),
        }
    }
}

/// At most four digits after the point, and an exponent for very small and very large numbers.
fn real_text(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() { "nan".to_owned() } else { value.to_string() };
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e8).contains(&size) {
        return format!("{value:.4e}");
    }
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}
