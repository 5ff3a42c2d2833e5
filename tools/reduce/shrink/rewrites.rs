//! Passes that make programs smaller: without comments, names, unused ops; for fewer devices.

use crate::reducer::Reducer;
use hostir_passes::PASSES;
use hostir_passes::manager::{Config, SilentObserver, VerifyEach, run_pipeline};
use hostir_passes::pipeline::parse_pipeline;

/// Passes that are tried, each alone.
const PIPELINES: &[&str] = &["strip-comments", "dce", "cse", "canonicalize", "strip-names"];

pub(crate) fn run_rewrites(reducer: &mut Reducer) {
    for pipeline in PIPELINES {
        try_pipeline(reducer, pipeline);
    }
    let meshes = reducer.best().programs().into_iter().flatten();
    let counts = meshes.flat_map(|program| program.meshes().as_slice().to_vec()).map(|mesh| mesh.devices.len());
    let most = counts.max().unwrap_or(0);
    // The smallest number that works is the best.
    for devices in [1, 2, 4].into_iter().chain([most / 2]).filter(|devices| (1..most).contains(devices)) {
        if try_pipeline(reducer, &format!("resize-mesh{{devices={devices}}}")) {
            return;
        }
    }
}

fn try_pipeline(reducer: &mut Reducer, text: &str) -> bool {
    let subject = reducer.best().clone();
    let (Some(mut programs), Ok(pipeline)) = (subject.programs(), parse_pipeline(text, PASSES)) else { return false };
    // The reducer verifies what comes out.
    let config = Config { verify_each: VerifyEach::Never, ..Config::default() };
    let is_done =
        programs.iter_mut().all(|program| run_pipeline(program, &pipeline, &config, &mut SilentObserver).is_ok());
    is_done && reducer.try_smaller(subject.with_programs(&mut programs))
}
