//! Launches of kernels of the user.

use super::{Builder, StreamCommand};
use hostir::plan::{InstId, LaunchArgument, LaunchInst, UserKernel};

/// A launch.
#[derive(Clone, PartialEq, Debug)]
pub struct UserLaunch {
    /// Number of the kernel among [`RankSchedule::user_kernels`](super::RankSchedule::user_kernels).
    pub kernel: usize,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The arguments of the kernel, in order.
    pub arguments: Vec<LaunchArgument>,
}

/// A kernel that a rank launches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduledKernel {
    /// The kernel.
    pub kernel: UserKernel,
    /// Bytes of its parameters.
    pub parameters: Vec<usize>,
    /// The most bytes of dynamic shared memory of a launch.
    pub shared: u32,
    /// Its first launch.
    pub inst: InstId,
}

impl Builder<'_> {
    /// Adds a launch to a stream.
    pub(super) fn schedule_launch(&mut self, launch: &LaunchInst, stream: usize) {
        let kernel = self.intern_user_kernel(launch);
        let LaunchInst { grid, block, shared, arguments, .. } = launch.clone();
        let call = UserLaunch { kernel, grid, block, shared, arguments };
        self.push(StreamCommand::UserLaunch(Box::new(call)), stream);
    }

    /// The number of a launch's kernel, which is added if it is new.
    fn intern_user_kernel(&mut self, launch: &LaunchInst) -> usize {
        let parameters: Vec<usize> = launch.arguments.iter().map(LaunchArgument::byte_size).collect();
        let known = &mut self.schedule.user_kernels;
        let mut numbered = known.iter_mut().enumerate();
        if let Some((number, kernel)) =
            numbered.find(|(_, other)| other.kernel == launch.kernel && other.parameters == parameters)
        {
            kernel.shared = kernel.shared.max(launch.shared);
            return number;
        }
        let (kernel, shared, inst) = (launch.kernel.clone(), launch.shared, self.at);
        known.push(ScheduledKernel { kernel, parameters, shared, inst });
        known.len() - 1
    }
}
