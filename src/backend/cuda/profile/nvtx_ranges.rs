//! NVTX ranges: names for the commands that a rank's host issues, for a profiler.

use crate::runtime::rank::RankRuntime;
use crate::sys::nvtx::{NamedRanges, NvtxProfiler};
use hostir::plan::InstOrigin;
use std::ffi::CString;
use std::sync::Arc;

impl RankRuntime<'_> {
    /// From now on the calls of each instruction are a range of this name.
    pub(crate) fn name_ranges(&mut self, nvtx: &Arc<NvtxProfiler>, name: impl Fn(InstOrigin) -> String) {
        let names = self.schedule.steps.iter().map(|step| {
            let inst = self.plan.find_inst(step.inst);
            CString::new(inst.map_or_else(String::new, |inst| name(inst.origin))).unwrap_or_default()
        });
        self.ranges = Some(NamedRanges::new(nvtx.clone(), names.collect()));
    }
}
