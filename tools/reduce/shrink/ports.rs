//! Programs of a file with what they import, and inputs and outputs of a program.

use crate::delta::remove_parts;
use crate::reducer::Reducer;
use hostir::ir::Value;
use hostir::ir::edit::Edit;

/// Writes the kernels of imported files in the place of the imports.
pub(crate) fn inline_imports(reducer: &mut Reducer) {
    let subject = reducer.best().clone();
    let Some(mut programs) = subject.programs() else { return };
    if programs.iter().any(|program| !program.imports().lines.is_empty()) {
        reducer.try_subject(subject.with_programs(&mut programs));
    }
}

pub(crate) fn remove_programs(reducer: &mut Reducer) {
    let subject = reducer.best().clone();
    let Some(programs) = subject.programs().filter(|programs| programs.len() > 1) else { return };
    remove_parts(programs.len(), &mut |removed| {
        let kept = programs.iter().zip(removed).filter(|(_, removed)| !**removed).map(|(program, _)| program.clone());
        let mut kept: Vec<_> = kept.collect();
        !kept.is_empty() && reducer.try_subject(subject.with_programs(&mut kept))
    });
}

/// Removes inputs that nothing reads, and outputs; what computed them goes with the next round's statements.
pub(crate) fn remove_ports(reducer: &mut Reducer) {
    let count = reducer.best().programs().map_or(0, |programs| programs.len());
    for index in 0..count {
        let subject = reducer.best().clone();
        let Some(programs) = subject.programs() else { return };
        let (inputs, outputs) = (programs[index].inputs().to_vec(), programs[index].outputs().to_vec());
        remove_parts(inputs.len() + outputs.len(), &mut |removed| {
            let (of_inputs, of_outputs) = removed.split_at(inputs.len());
            let mut trial = programs.clone();
            let mut edit = Edit::new(&mut trial[index]);
            edit.set_inputs(kept_values(&inputs, of_inputs));
            edit.set_outputs(kept_values(&outputs, of_outputs));
            let kept = [&inputs, &outputs].map(|values| values.clone()).concat();
            edit.retain_aliases(|tensor| kept.contains(&Value::Tensor(tensor)));
            edit.commit();
            reducer.try_subject(subject.with_programs(&mut trial))
        });
    }
}

fn kept_values(values: &[Value], removed: &[bool]) -> Vec<Value> {
    values.iter().zip(removed).filter(|(_, removed)| !**removed).map(|(value, _)| *value).collect()
}
