//! The stages of a reduction: each proposes smaller texts to the [`Reducer`].
//!
//! Stages that edit the IR come first, since they leave valid programs; those that edit the text take what is left, and
//! all there is in a text that is no valid program.

mod control;
mod numbers;
mod passes;
mod ports;
mod rewrites;
mod statements;
mod text;

use crate::reducer::Reducer;

/// The most rounds over all stages.
const MOST_ROUNDS: usize = 16;

/// Proposes smaller texts of one kind.
type Stage = fn(&mut Reducer);

/// The stages with their names, in the order in which they run.
const STAGES: &[(&str, Stage)] = &[
    ("imports", ports::inline_imports),
    ("passes", passes::remove_passes),
    ("programs", ports::remove_programs),
    ("statements", statements::remove_statements),
    ("loops and branches", control::unwrap_blocks),
    ("rewrites", rewrites::run_rewrites),
    ("inputs and outputs", ports::remove_ports),
    ("sizes", numbers::reduce_numbers),
    ("axes", text::remove_axes),
    ("parts of lines", text::remove_list_items),
    ("lines", text::remove_lines),
];

/// Runs the stages until none makes the text smaller. `report` gets a line about each that does.
pub(crate) fn run_stages(reducer: &mut Reducer, report: &mut dyn FnMut(&str)) {
    for _ in 0..MOST_ROUNDS {
        let before = reducer.best().clone();
        for (name, stage) in STAGES {
            let (earlier, tests) = (reducer.best().clone(), reducer.test_count());
            stage(reducer);
            let now = reducer.best();
            if *now != earlier {
                let [from, to] = [&earlier, now].map(|subject| (subject.line_count(), subject.whole_text().len()));
                let tests = reducer.test_count() - tests;
                report(&format!("{name}: {} -> {} lines, {} -> {} bytes, {tests} runs", from.0, to.0, from.1, to.1));
            }
        }
        if *reducer.best() == before {
            return;
        }
    }
}
