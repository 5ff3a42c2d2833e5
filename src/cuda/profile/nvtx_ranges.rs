//! NVTX ranges: names for the commands that a rank's host issues, for a profiler.

use crate::runtime::rank::commands::CommandList;
use crate::sys::nvtx::{NamedRanges, NvtxProfiler};
use hostir::plan::{InstOrigin, Plan};
use std::ffi::CString;
use std::sync::Arc;

impl CommandList {
    /// Gives the calls of each instruction a range of this name from now on.
    pub(crate) fn name_ranges(&mut self, plan: &Plan, nvtx: &Arc<NvtxProfiler>, name: impl Fn(InstOrigin) -> String) {
        let names = self.schedule.steps.iter().map(|step| {
            let inst = plan.find_inst(step.inst);
            CString::new(inst.map_or_else(String::new, |inst| name(inst.origin))).unwrap_or_default()
        });
        self.ranges = Some(NamedRanges::new(nvtx.clone(), names.collect()));
    }
}
