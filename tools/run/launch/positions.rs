//! The positions of the ranks of several processes in a run that did not end: each process reports to rank 0, which
//! reports all.
//!
//! A position is sent as a further failure of its rank, which the others already know to have failed, with words that
//! nothing else uses.

use super::peers::SocketControlPlane;
use hostir::backend::control_plane::{ControlPlane as _, ControlPlaneError};
use hostir::diag::codes;
use hostir::ir::Id as _;
use hostir::plan::InstId;
use hostir::plan_checks::{RankPosition, RankProgress};

/// The start of a position.
const STANDS: &str = "@stands at ";

/// The position of a rank as a message.
fn position_text(progress: RankProgress) -> String {
    match progress {
        RankProgress::At(inst) | RankProgress::Among(inst, _) => format!("{STANDS}{}", inst.index()),
        RankProgress::OwnWork => format!("{STANDS}own"),
        RankProgress::NotStarted => format!("{STANDS}start"),
        RankProgress::Ended => format!("{STANDS}end"),
        RankProgress::Unknown => format!("{STANDS}?"),
    }
}

/// The position that a failure reports, if any.
fn reported_position(failure: &ControlPlaneError) -> Option<RankPosition> {
    let ControlPlaneError::Failed { rank, why } = failure else { return None };
    let progress = match why.strip_prefix(STANDS)? {
        "own" => RankProgress::OwnWork,
        "start" => RankProgress::NotStarted,
        "end" => RankProgress::Ended,
        text => text.parse().map_or(RankProgress::Unknown, |inst: u32| RankProgress::At(InstId(inst))),
    };
    Some(RankPosition { rank: *rank, progress })
}

impl SocketControlPlane {
    /// Returns true if the run failed because the deadline of a rank passed.
    pub(crate) fn has_timed_out(&self) -> bool {
        let failure = self.peer_failure();
        matches!(failure, Some(ControlPlaneError::Failed { why, .. }) if why.lines().next() == Some(codes::TIMEOUT))
    }

    /// Reports this rank's position to the others, in a run that they know to have failed.
    pub(crate) fn share_position(&self, progress: RankProgress) {
        self.report_failure(&position_text(progress));
    }

    /// The positions that the other ranks report within a moment.
    pub(crate) fn collect_positions(&self) -> Vec<RankPosition> {
        let others = self.world_size() as usize - 1;
        let reported =
            self.reported_failures(|reported| reported.iter().filter_map(reported_position).count() >= others);
        reported.iter().filter_map(reported_position).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_travel_as_failures() {
        let all = [
            RankProgress::At(InstId(417)),
            RankProgress::OwnWork,
            RankProgress::NotStarted,
            RankProgress::Ended,
            RankProgress::Unknown,
        ];
        for progress in all {
            let failure = ControlPlaneError::Failed { rank: 3, why: position_text(progress) };
            assert_eq!(reported_position(&failure), Some(RankPosition { rank: 3, progress }));
        }
        let other = ControlPlaneError::Failed { rank: 3, why: "H0511\n\nthe run did not end".to_owned() };
        assert_eq!(reported_position(&other), None);
    }
}
