//! The passes of a test case: fewer of them, the steps of composed ones, fewer options.

use crate::delta::remove_parts;
use crate::reducer::Reducer;
use crate::subject::{PassCommand, Subject, split_list};
use hostir_passes::{PassRegistry, pipeline};

pub(crate) fn remove_passes(reducer: &mut Reducer) {
    remove_steps(reducer, |steps| Some(steps.to_vec()));
    let (count, passes) = (step_count(reducer.best()), reducer.best().registries.passes);
    for at in (0..count).rev() {
        remove_steps(reducer, |steps| expand_step(steps, at, passes));
    }
    for at in 0..step_count(reducer.best()) {
        remove_options(reducer, at);
    }
}

fn step_count(subject: &Subject) -> usize {
    subject.command.as_ref().map_or(0, |command| command.steps.len())
}

fn with_steps(subject: &Subject, steps: Vec<String>) -> Option<Subject> {
    let command = subject.command.as_ref()?;
    Some(Subject { command: Some(PassCommand { head: command.head.clone(), steps }), ..subject.clone() })
}

/// Removes as many as possible of the steps that `list` makes of those of the pipeline.
fn remove_steps(reducer: &mut Reducer, list: impl Fn(&[String]) -> Option<Vec<String>>) {
    let subject = reducer.best().clone();
    let Some(steps) = subject.command.as_ref().and_then(|command| list(&command.steps)) else { return };
    remove_parts(steps.len(), &mut |removed| {
        let kept = steps.iter().zip(removed).filter(|(_, removed)| !**removed).map(|(step, _)| step.clone());
        with_steps(&subject, kept.collect()).is_some_and(|proposal| reducer.try_subject(proposal))
    });
}

/// The steps with those of a composed pass in its place.
fn expand_step(steps: &[String], at: usize, passes: PassRegistry) -> Option<Vec<String>> {
    let read = pipeline::parse_pipeline(steps.get(at)?, passes).ok()?;
    let [step] = read.steps.as_slice() else { return None };
    let text = step.pass.action.pipeline_steps()?;
    let mut all = steps.to_vec();
    all.splice(at..=at, split_list(&text(&step.options)));
    Some(all)
}

fn remove_options(reducer: &mut Reducer, at: usize) {
    let subject = reducer.best().clone();
    let Some(steps) = subject.command.as_ref().map(|command| command.steps.clone()) else { return };
    let Some((name, options)) = steps[at].split_once('{') else { return };
    let options = split_list(options.strip_suffix('}').unwrap_or(options));
    remove_parts(options.len(), &mut |removed| {
        let kept = options.iter().zip(removed).filter(|(_, removed)| !**removed).map(|(option, _)| option.as_str());
        let kept = kept.collect::<Vec<_>>().join(",");
        let mut steps = steps.clone();
        steps[at] = if kept.is_empty() { name.to_owned() } else { format!("{name}{{{kept}}}") };
        with_steps(&subject, steps).is_some_and(|proposal| reducer.try_subject(proposal))
    });
}
