//! Bounds checks of plans: all views are inside of their buffers, and inputs have the sizes that the plan gives.
//!
//! Plans are plain data that anybody may change, and device code has no bounds checks. Plans are therefore checked
//! before anything is loaded.

use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::diag::{Diag, Message, codes};
use hostir::lower::PreparedProgram;
use hostir::plan::{BufferView, Inst, InstKind, Plan};

/// Refuses plans with a view that is not within its buffer.
pub(crate) fn check_plan_bounds(prepared: &PreparedProgram) -> Result<(), Vec<Diag>> {
    match prepared.plans.iter().find(|plan| !is_within(plan)) {
        None => Ok(()),
        Some(plan) => {
            let message = message!("the plan of rank {} accesses memory beyond the end of a buffer", plan.rank);
            let note = "`prepare_program` never makes such a plan: do not modify plans after it";
            Err(vec![Diag::global_error(codes::PLAN_BOUNDS, message).with_note(note)])
        }
    }
}

/// Refuses inputs whose number, sizes or types differ from the plan's.
pub(crate) fn check_inputs(plan: &Plan, inputs: &[HostTensor]) -> Result<(), Vec<Diag>> {
    let rank = plan.rank;
    if inputs.len() < plan.inputs.len() {
        let (given, needed) = (inputs.len(), plan.inputs.len());
        return Err(input_error(format!("rank {rank} was given {given} of {needed} inputs")));
    }
    for (view, tensor) in plan.inputs.iter().zip(inputs) {
        let Some(view) = view else { continue };
        if tensor.dtype() != view.dtype || tensor.len() != view.len() {
            let (shape, dtype) = (tensor.shape(), tensor.dtype().name());
            return Err(input_error(format!(
                "rank {rank}: an input shard of shape {shape:?} and type `{dtype}` was given, but {:?} of `{}` is required",
                view.shape(),
                view.dtype.name()
            )));
        }
    }
    Ok(())
}

fn input_error(message: impl Into<Message>) -> Vec<Diag> {
    vec![Diag::global_error(codes::PORTS, message)]
}

/// Returns true if all views of the plan are within their buffers.
fn is_within(plan: &Plan) -> bool {
    let mut io_views = plan.inputs.iter().chain(&plan.outputs).flatten();
    io_views.all(|view| view_fits_buffer(view, plan)) && plan.iter().all(|inst| uses_fit_buffers(&inst, plan))
}

/// Returns true if all views that an instruction uses are within their buffers.
fn uses_fit_buffers(inst: &Inst, plan: &Plan) -> bool {
    let mut views = inst.kind.read_views().into_iter().chain(inst.kind.written_views());
    let addressed = match &inst.kind {
        InstKind::Launch(launch) => launch.address_views().all(|view| view_fits_buffer(view, plan)),
        _ => true,
    };
    addressed && views.all(|view| view_fits_buffer(view, plan))
}

fn view_fits_buffer(view: &BufferView, plan: &Plan) -> bool {
    if plan.buffers.len() <= view.buffer.0 as usize {
        return false;
    }
    let buffer = &plan.buffers[view.buffer];
    let bytes = buffer.elements.checked_mul(buffer.dtype.byte_size());
    let count = view.dims.iter().try_fold(1usize, |count, dim| count.checked_mul(dim.extent));
    match (count, bytes) {
        (Some(0), _) => true,
        (Some(_), Some(bytes)) => end_byte(view).is_some_and(|end| end <= bytes),
        _ => false,
    }
}

/// The byte after the last element of a view that has any.
fn end_byte(view: &BufferView) -> Option<usize> {
    let last = view
        .dims
        .iter()
        .try_fold(view.offset, |last, dim| last.checked_add(dim.extent.checked_sub(1)?.checked_mul(dim.stride)?))?;
    last.checked_add(1)?.checked_mul(view.dtype.byte_size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::failure::tests::prepared;

    #[test]
    fn views_of_no_element_may_start_anywhere() {
        let mut prepared = prepared();
        assert_eq!(check_plan_bounds(&prepared), Ok(()));
        prepared.plans[0].inputs[0].iter_mut().for_each(|view| {
            view.offset = 77;
            view.dims[0].extent = 0;
        });
        assert_eq!(check_plan_bounds(&prepared), Ok(()));
    }

    #[test]
    fn inputs_are_of_the_plans_sizes_and_types() {
        use hostir::ir::DType;
        let prepared = prepared();
        let of = |dtype, count: usize| HostTensor::zeros(dtype, &[count]);
        let fits = |inputs: &[HostTensor]| check_inputs(&prepared.plans[0], inputs);
        assert_eq!(fits(&[of(DType::Float, 4)]), Ok(()));
        for wrong in [vec![], vec![of(DType::Float, 5)], vec![of(DType::Double, 4)]] {
            assert_eq!(fits(&wrong).unwrap_err()[0].code, codes::PORTS);
        }
    }
}
