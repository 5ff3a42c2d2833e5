//! The null backend: outputs are absent, everything else of a run is as on other backends.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what is shared by tests fails as tests do")]

use hostir::backend::RunResult;
use hostir::backend::control_plane::{ControlPlane, ThreadControlPlane};
use hostir::backend::null::NullBackend;
use hostir::backend::trace::Trace;
use hostir::diag::Diag;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir::plan::cost::CostModel;
use std::sync::Arc;
use std::time::Duration;

const GATHER: &str = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{2}, iS1{3}] (DeviceMesh{0 1})) -> (T1_g_float[iS2{2}, iS3{3}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=6, zero_init=false, resets_to_zero=false)
  Communication 1 (type=Allgather, team=(0 1), input=T0, output=T1, backend=NCCL)
  Wait Communication 1
} // %HostIrContainer
";

fn prepared(text: &str) -> PreparedProgram {
    let (programs, diags) = hostir::load(text);
    assert!(diags.is_empty());
    prepare_program(&programs[0], &SizeSettings::default()).unwrap()
}

fn on(world: u32, prepared: &PreparedProgram) -> Vec<Result<RunResult, Vec<Diag>>> {
    let ranks = ThreadControlPlane::new(world, Duration::from_secs(30));
    std::thread::scope(|scope| {
        let start = |control_plane: ThreadControlPlane| {
            let control_plane: Option<Arc<dyn ControlPlane>> = Some(Arc::new(control_plane));
            scope.spawn(move || NullBackend { control_plane }.run_plans(prepared))
        };
        let threads: Vec<_> = ranks.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn outputs_are_absent() {
    let prepared = prepared(GATHER);
    let alone = NullBackend::default().run_plans(&prepared).unwrap();
    assert_eq!(alone.outputs, vec![vec![None]; 2]);
    let together = on(2, &prepared);
    assert!(together.iter().all(|run| run.as_ref().is_ok_and(|run| run.outputs == alone.outputs)));
}

#[test]
fn processes_have_parts_of_one_timeline() {
    let prepared = prepared(GATHER);
    let whole = NullBackend::default().run_traced(&prepared, &CostModel::of_default_machine()).unwrap().1;
    let ranks = ThreadControlPlane::new(2, Duration::from_secs(30));
    let parts = std::thread::scope(|scope| {
        let start = |control_plane: ThreadControlPlane| {
            let (rank, prepared) = (control_plane.rank(), &prepared);
            let null = NullBackend { control_plane: Some(Arc::new(control_plane)) };
            scope.spawn(move || {
                null.run_traced(prepared, &CostModel::of_default_machine()).unwrap().1.partial_trace(rank)
            })
        };
        let threads: Vec<_> = ranks.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(parts.iter().all(|part| part.spans.len() * 2 == whole.spans.len()));
    assert!(parts.iter().all(|part| !part.flow_events.is_empty()));
    let joined = Trace::join_parts(whole.clock, parts);
    assert_eq!(Trace { machine: whole.machine.clone(), ..joined }, whole);
}

#[test]
fn deadlocks_are_found() {
    let text = GATHER.replace("  Comm", "  IF Manual ( rank == 0 ):\n    Comm").replace("  Wait", "    Wait");
    let prepared = prepared(&text);
    assert_eq!(NullBackend::default().run_plans(&prepared).unwrap_err()[0].code, "H0510");
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
        let own = "3 processes were started, but the program has 2 ranks";
        assert!(diag.message.ends_with(own), "{}", diag.message);
        assert!(matches!(diag.code, "H0533" | "H0530"));
    }
}
