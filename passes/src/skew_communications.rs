//! skew-communications: lets iterations on streams overlap whose communications share a queue.

use crate::framework::pass::{PassAction, PassCx, PassExample, PassInfo, StatisticSpec};
use crate::support::proof::{SIZE_OPTIONS, skews_with_sizes};
use crate::support::rewrite;
use hostir::diag::Diags;
use hostir::ir::edit::Edit;
use hostir::skew::skew_loop;

/// The pass.
pub(crate) const PASS: PassInfo = PassInfo {
    name: "skew-communications",
    summary: "Let iterations on streams overlap whose communications share a queue",
    description: "\
A communicator carries out communications in the order in which the host posts them. If an iteration of a loop on
streams posts two to one communicator, with work between them, the first one of the next iteration waits for the
second one, and so for that work: iterations do not overlap. The pass cuts the work between the two into stages. The
new loop runs, in its iteration i, the first stage of iteration i, then the second one of iteration i - 1, and so on,
each on the stream of its iteration. Memory that several stages use gets a slot for each iteration that is under way.

The pass proves the program for the sizes, ranks and streams of the options, as check-program does, tries each place
for a cut, proves the result, and keeps the fastest one by the cost model if it saves 2 % of the time or more. Other
loops stay as they are, as do loops in which

- a stage reads or writes memory that another stage of another iteration writes, beyond the iteration's own slice;
- memory that several stages use is cleared or freed in the loop, or is used outside of it;
- a communication meets one of another iteration, or another stage, on another rank;
- a communication is awaited in another stage than the one that starts it.

A program that is wrong is refused.",
    example: Some(PassExample { options: "{i0=4,i1=65536}", before: EXAMPLE_BEFORE, after: EXAMPLE_AFTER }),
    options: SIZE_OPTIONS,
    statistics: &[StatisticSpec { name: "loops-skewed", help: "loops skewed" }],
    action: PassAction::Rewrite(run_skew),
};

const EXAMPLE_BEFORE: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}, iS2{i1}] (DeviceMesh{0 1})) -> (T1_g_float[iS3{i0}, iS4{2}, iS5{i1}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=( ( i0 * i1 ) * 2 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  FOR i from 0 to i0:
    SetCurrentStream to Stream ( i % numberOfStreams )
    Synchronize Stream 0
  FOR i from 0 to i0:
    SetCurrentStream to Stream ( i % numberOfStreams )
    T2_l_float[ideviceIdx.x6{2}, iS7{i1}] (DeviceMesh{0 1})
       = HirAliasSelect( T0, axis = iS0{i0}, index = i )
    T3_g_float[iS8{2}, iS9{i1}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T3, mem_type=global, size=( i1 * 2 ), zero_init=false, resets_to_zero=false, keep=false)
    Communication 1 (type=Allgather, team=(0 1), input=T2, output=T3, backend=NCCL)
    Wait Communication 1
    T4_g_float[iS10{2}, iS11{i1}] (DeviceMesh{0 1})
       = relu(T3);
    T5_l_float[iS12{2}, iS13{i1}] (DeviceMesh{0 1})
       = HirAliasSelect( T1, axis = iS3{i0}, index = i )
    Communication 2 (type=Allreduce, team=(0 1), input=T4, output=T5, backend=NCCL)
    Wait Communication 2
    SetCurrentStream to Stream 0
    Synchronize Stream ( i % numberOfStreams )
} // %HostIrContainer
";
const EXAMPLE_AFTER: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}, ideviceIdx.x1{2}, iS2{i1}] (DeviceMesh{0 1})) -> (T1_g_float[iS3{i0}, iS4{2}, iS5{i1}] (DeviceMesh{0 1})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=( ( i0 * i1 ) * 2 ), zero_init=false, resets_to_zero=false)
  GetCurrentStream into Stream 0
  T6_g_float[iS14{2}, iS15{2}, iS16{i1}] (DeviceMesh{0 1}) = ALLOCATE(buffer=T6, mem_type=global, size=( i1 * 4 ), zero_init=false, resets_to_zero=false)
  FOR i from 0 to i0:
    SetCurrentStream to Stream ( i % numberOfStreams )
    Synchronize Stream 0
  FOR i from 0 to ( i0 + 1 ):
    IF Manual ( i < i0 ):
      SetCurrentStream to Stream ( i % numberOfStreams )
      T7_l_float[iS17{2}, iS18{i1}] (DeviceMesh{0 1})
         = HirAliasSelect( T6, axis = iS14{2}, index = ( i % 2 ) )
      T2_l_float[ideviceIdx.x6{2}, iS7{i1}] (DeviceMesh{0 1})
         = HirAliasSelect( T0, axis = iS0{i0}, index = i )
      Communication 1 (type=Allgather, team=(0 1), input=T2, output=T7, backend=NCCL)
      Wait Communication 1
      SetCurrentStream to Stream 0
    IF Manual ( i > 0 ):
      SetCurrentStream to Stream ( ( i - 1 ) % numberOfStreams )
      T7
         = HirAliasSelect( T6, axis = iS14{2}, index = ( ( i - 1 ) % 2 ) )
      T4_g_float[iS10{2}, iS11{i1}] (DeviceMesh{0 1})
         = relu(T7);
      T5_l_float[iS12{2}, iS13{i1}] (DeviceMesh{0 1})
         = HirAliasSelect( T1, axis = iS3{i0}, index = ( i - 1 ) )
      Communication 2 (type=Allreduce, team=(0 1), input=T4, output=T5, backend=NCCL)
      Wait Communication 2
      SetCurrentStream to Stream 0
      Synchronize Stream ( ( i - 1 ) % numberOfStreams )
} // %HostIrContainer
";

fn run_skew(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let found = skews_with_sizes(PASS.name, edit.program(), cx.options(), cx.model())?;
    for skew in &found {
        let is_skewed = skew_loop(edit, &skew.candidate.skew);
        cx.add_count("loops-skewed", u64::from(is_skewed));
    }
    rewrite::drop_lost_comments(edit);
    Ok(())
}
