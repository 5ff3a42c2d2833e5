//! The null backend: everything but the work.
//!
//! Programs are planned and followed to their end without data, memory or arithmetic, so deadlocks and
//! members of a communication that do not agree are found, and outputs are absent. With an [`Exchange`]
//! it goes through the same steps as processes on GPUs do, which needs no GPU: a dry run of a launch.

use super::exchange::{self, Exchange};
use super::trace::Trace;
use super::{Backend, RunResult, Stats, cpu};
use crate::data::HostTensor;
use crate::diag::{Diag, codes};
use crate::plan::Prepared;
use std::sync::Arc;

/// The null backend.
#[derive(Clone, Default)]
pub struct Null {
    /// The other processes of the run, one a rank; without it this process has all ranks.
    pub exchange: Option<Arc<dyn Exchange>>,
}

impl std::fmt::Debug for Null {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Null").finish_non_exhaustive()
    }
}

impl Backend for Null {
    fn name(&self) -> &'static str {
        "null"
    }
    fn run(
        &self,
        prepared: &Prepared,
        _inputs: Vec<Vec<HostTensor>>,
    ) -> Result<RunResult, Vec<Diag>> {
        self.step("load", world(prepared, self.exchange.as_deref()))?;
        self.step("run", cpu::follow_order(prepared))?;
        let absent = vec![None; prepared.outputs.len()];
        let outputs = vec![absent; prepared.plans.len()];
        let instructions = prepared.plans.iter().map(|plan| plan.insts.len() as u64).sum();
        Ok(RunResult { outputs, stats: Stats { instructions, ..Stats::default() } })
    }

    /// The timeline is the model's ([`cpu::model`]); with an exchange, this process's part of it.
    fn run_traced(
        &self,
        prepared: &Prepared,
        inputs: Vec<Vec<HostTensor>>,
    ) -> Result<(RunResult, Trace), Vec<Diag>> {
        let result = self.run(prepared, inputs)?;
        let mut trace = cpu::model(prepared, &cpu::Rates::default())?;
        if let Some(exchange) = &self.exchange {
            let own = trace.part(exchange.rank());
            (trace.slices, trace.arrows) = (own.slices, own.arrows);
        }
        Ok((result, trace))
    }
}

impl Null {
    fn step<T>(&self, what: &str, result: Result<T, Vec<Diag>>) -> Result<T, Vec<Diag>> {
        exchange::agree(self.exchange.as_deref(), what, result)
    }
}

/// Refuses another number of processes than the program has ranks.
///
/// # Errors
/// Fails with a diagnostic that names both numbers.
pub fn world(prepared: &Prepared, exchange: Option<&dyn Exchange>) -> Result<(), Vec<Diag>> {
    let Some(exchange) = exchange else { return Ok(()) };
    let (world, ranks) = (exchange.world(), prepared.plans.len());
    if world as usize == ranks {
        return Ok(());
    }
    if prepared.unlowered {
        let message = format!(
            "{world} processes were started, but the program is not lowered: one process computes it on whole tensors"
        );
        return Err(vec![Diag::global(codes::WORLD, message).note(
            "lower it for its devices (`hir-opt --pass=host-ir-lower`), or run it in one process",
        )]);
    }
    let plural = if ranks == 1 { "" } else { "s" };
    let message = format!("{world} processes were started, the program has {ranks} rank{plural}");
    Err(vec![Diag::global(codes::WORLD, message).note(format!(
        "start {ranks} process{}, or change the program's meshes (`hir-opt --pass=resize-mesh{{devices={world}}}`)",
        if ranks == 1 { "" } else { "es" }
    ))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::exchange::Threads;
    use crate::plan::{Sizes, prepare};
    use std::time::Duration;

    const GATHER: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{3}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{3}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=6, zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";

    fn prepared(text: &str) -> Prepared {
        let (programs, diags) = crate::load(text);
        assert!(diags.is_empty());
        prepare(&programs[0], &Sizes::default()).unwrap()
    }

    fn on(world: u32, prepared: &Prepared) -> Vec<Result<RunResult, Vec<Diag>>> {
        let ranks = Threads::new(world, Duration::from_secs(30));
        std::thread::scope(|scope| {
            let start = |exchange: Threads| {
                let exchange: Option<Arc<dyn Exchange>> = Some(Arc::new(exchange));
                scope.spawn(move || Null { exchange }.run(prepared, Vec::new()))
            };
            let threads: Vec<_> = ranks.into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn outputs_are_absent() {
        let prepared = prepared(GATHER);
        let alone = Null::default().run(&prepared, Vec::new()).unwrap();
        assert_eq!(alone.outputs, vec![vec![None]; 2]);
        let together = on(2, &prepared);
        assert!(
            together.iter().all(|run| run.as_ref().is_ok_and(|run| run.outputs == alone.outputs))
        );
    }

    #[test]
    fn processes_have_parts_of_one_timeline() {
        let prepared = prepared(GATHER);
        let whole = Null::default().run_traced(&prepared, Vec::new()).unwrap().1;
        let ranks = Threads::new(2, Duration::from_secs(30));
        let parts = std::thread::scope(|scope| {
            let start = |exchange: Threads| {
                let (rank, prepared) = (exchange.rank(), &prepared);
                let null = Null { exchange: Some(Arc::new(exchange)) };
                scope.spawn(move || null.run_traced(prepared, Vec::new()).unwrap().1.part(rank))
            };
            let threads: Vec<_> = ranks.into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(parts.iter().all(|part| part.slices.len() * 2 == whole.slices.len()));
        assert!(parts.iter().all(|part| !part.arrows.is_empty()));
        assert_eq!(Trace::join(whole.clock, parts), whole);
    }

    #[test]
    fn deadlocks_are_found() {
        let text = GATHER
            .replace("  Comm", "  IF Manual ( rank == 0 ):\n    Comm")
            .replace("  Wait", "    Wait");
        let prepared = prepared(&text);
        assert_eq!(Null::default().run(&prepared, Vec::new()).unwrap_err()[0].code, "H0510");
        assert!(on(2, &prepared).iter().all(Result::is_err));
    }

    #[test]
    fn as_many_processes_as_ranks() {
        // A resharding that nothing has lowered is plain math, however many devices the meshes have.
        let text = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{3}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{3}] (DeviceMesh{0 1})) :
  T1 = Set(T0, cache_op=Streaming)
} // %HostIrContainer
";
        for run in on(2, &prepared(text)) {
            let diag = run.unwrap_err().remove(0);
            assert!(diag.message.contains("the program is not lowered"), "{}", diag.message);
            assert!(matches!(diag.code, "H0533" | "H0530"));
            assert!(diag.notes.iter().any(|note| note.contains("host-ir-lower")));
        }
        for run in on(3, &prepared(GATHER)) {
            let diag = run.unwrap_err().remove(0);
            let own = "3 processes were started, the program has 2 ranks";
            assert!(diag.message.ends_with(own), "{}", diag.message);
            assert!(matches!(diag.code, "H0533" | "H0530"));
        }
    }
}
