//! The times of proved programs by the cost model: the time of a run, for a lens, and the exposed time of statements,
//! for hints.

use crate::snapshot::TextSection;
use hostir::backend::critical_path::exposed_waits;
use hostir::backend::simulation::simulate_run;
use hostir::backend::usage::{RankUsage, rank_usages};
use hostir::diag::Span;
use hostir::ir::{OpId, Program};
use hostir::lower::PreparedProgram;
use hostir::plan::cost::{CostModel, time_text};
use std::collections::BTreeMap;

/// The longest program that is modelled, in instructions of all ranks.
const MOST_MODELLED: usize = 200_000;

/// The place of a program in a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProgramPlace {
    /// The number of its text.
    pub section: usize,
    /// Its number in the text.
    pub program: usize,
}

/// The times of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelTimes {
    /// Its place.
    pub place: ProgramPlace,
    /// Its header in the document.
    pub header: Span,
    /// `36.31 us by the model of h200x4, 29% of the communication hidden`.
    pub title: String,
    /// The statements with exposed time.
    pub exposed: Vec<ExposedStatement>,
}

/// A statement because of which ranks do not compute for some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExposedStatement {
    /// The statement in the document.
    pub span: Span,
    /// `12.30 us exposed`.
    pub label: String,
    /// The same in a sentence.
    pub about: String,
}

/// The times of a proved program; `None` for one that is too long to be modelled while somebody writes.
pub fn model_program(
    section: &TextSection,
    program: &Program,
    prepared: &PreparedProgram,
    model: &CostModel,
    place: ProgramPlace,
) -> Option<ModelTimes> {
    if prepared.plans.iter().map(|plan| plan.inst_count()).sum::<usize>() > MOST_MODELLED {
        return None;
    }
    let trace = simulate_run(prepared, model).ok()?;
    let run = time_text(trace.end_ns());
    let machine = trace.machine.as_deref().map_or_else(String::new, |machine| format!(" of {machine}"));
    let hidden = RankUsage::of_all(&rank_usages(&trace)).hidden_fraction();
    let hidden = hidden
        .map_or_else(String::new, |hidden| format!(", {}% of the communication hidden", (hidden * 100.0).floor()));
    let mut of_ops: BTreeMap<OpId, u64> = BTreeMap::new();
    for wait in exposed_waits(&trace, prepared) {
        if let Some(op) = wait.awaited {
            *of_ops.entry(op).or_default() += wait.total_ns;
        }
    }
    let exposed = of_ops.into_iter().filter_map(|(op, total_ns)| {
        let span = program.op_span(op);
        let own_ns = total_ns / u64::from(prepared.ranks.max(1));
        (section.is_own(span) && own_ns > 0).then(|| ExposedStatement {
            span: section.span_in_document(span),
            label: format!("{} exposed", time_text(own_ns)),
            about: exposed_text(own_ns, prepared.ranks, &run),
        })
    });
    Some(ModelTimes {
        place,
        header: section.span_in_document(program.source().header),
        title: format!("{run} by the model{machine}{hidden}"),
        exposed: exposed.collect(),
    })
}

fn exposed_text(ns: u64, ranks: u32, run: &str) -> String {
    let mean = if ranks > 1 { format!(", the mean of {ranks} ranks") } else { String::new() };
    format!(
        "By the cost model a rank does not compute for {} because of this statement{mean}. The run takes {run}.",
        time_text(ns)
    )
}
