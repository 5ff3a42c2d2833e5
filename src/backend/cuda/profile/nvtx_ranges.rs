//! Names for what a rank's host issues, for a profiler.

use crate::runtime::rank::Rank;
use crate::sys::nvtx::Nvtx;
use hostir::plan::Origin;
use std::ffi::CString;
use std::sync::Arc;

/// A profiler, and the name of each step.
pub(crate) struct Ranges {
    nvtx: Arc<Nvtx>,
    names: Vec<CString>,
}

impl Rank<'_> {
    /// From now on the calls of each instruction are a range of this name.
    pub(crate) fn name_ranges(&mut self, nvtx: &Arc<Nvtx>, name: impl Fn(Origin) -> String) {
        let names = self.schedule.steps.iter().map(|step| {
            let inst = self.plan.insts.get(step.inst);
            CString::new(inst.map_or_else(String::new, |inst| name(inst.origin)))
                .unwrap_or_default()
        });
        self.ranges = Some(Ranges { names: names.collect(), nvtx: nvtx.clone() });
    }

    /// A step's range begins.
    pub(crate) fn enter(&self, step: usize) {
        if let Some(Ranges { nvtx, names }) = &self.ranges {
            nvtx.push(names.get(step).map_or(c"", CString::as_c_str));
        }
    }

    /// The range ends that began last.
    pub(crate) fn leave(&self) {
        if let Some(ranges) = &self.ranges {
            ranges.nvtx.pop();
        }
    }
}
