//! Names for what a rank's host issues, for a profiler.

use super::super::nvtx::Nvtx;
use super::Rank;
use crate::plan::Origin;
use std::ffi::CString;
use std::sync::Arc;

/// A profiler, and the name of each step.
pub(super) struct Ranges {
    nvtx: Arc<Nvtx>,
    names: Vec<CString>,
}

impl Rank<'_> {
    /// From now on the calls of each instruction are a range of this name.
    pub(in super::super) fn name_ranges(
        &mut self,
        nvtx: &Arc<Nvtx>,
        name: impl Fn(Origin) -> String,
    ) {
        let names = self.schedule.steps.iter().map(|step| {
            let inst = self.plan.find_inst(step.inst);
            CString::new(inst.map_or_else(String::new, |inst| name(inst.origin)))
                .unwrap_or_default()
        });
        self.ranges = Some(Ranges { names: names.collect(), nvtx: nvtx.clone() });
    }

    /// A step's range begins.
    pub(super) fn enter(&self, step: usize) {
        if let Some(Ranges { nvtx, names }) = &self.ranges {
            nvtx.push(names.get(step).map_or(c"", CString::as_c_str));
        }
    }

    /// The range ends that began last.
    pub(super) fn leave(&self) {
        if let Some(ranges) = &self.ranges {
            ranges.nvtx.pop();
        }
    }
}
