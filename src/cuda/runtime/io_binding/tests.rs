//! Tests of the checks and routes of a caller's tensors, without a device.

use crate::runtime::io_binding::binding_routes;
use crate::runtime::io_binding::binding_routes::{BindingConflict, BindingRoute, BindingSlot};
use crate::runtime::io_binding::relocation::RelocationTable;
use crate::runtime::io_binding::staging_copies;
use crate::runtime::io_binding::staging_copies::{BindingTransfer, CopyDirection};
use crate::runtime::io_binding::tensor_check;
use crate::runtime::io_binding::tensor_check::{BindingTarget, StridedTensor};
use crate::runtime::io_binding::{DeviceTensor, IoSide};
use crate::sys::context::AddressInfo;
use hostir::diag::Diag;
use hostir::ir::DType;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir::plan::{BufferId, BufferView, row_major};
use hostir_gpu::external_buffers;
use hostir_gpu::p2p::{MessagePlan, plan_messages};
use hostir_gpu::schedule::{RankSchedule, ScheduleSettings, build_schedule};
use hostir_gpu::team;
use hostir_gpu::transport::BackendTransports;

fn prepared(inputs: &str, outputs: &str, body: &str) -> PreparedProgram {
    let text = format!("%HostIrContainer {{ ({inputs}) -> ({outputs}) :\n{body}}} // %HostIrContainer\n");
    let (programs, diags) = hostir::load(&text);
    assert!(diags.is_empty(), "{diags:?}\n{text}");
    prepare_program(&programs[0], &SizeSettings::default()).unwrap()
}

/// Returns the messages between ranks when all communications are copied.
fn between(prepared: &PreparedProgram) -> MessagePlan {
    plan_messages(prepared, BackendTransports::default(), false)
}

fn scheduled(prepared: &PreparedProgram) -> RankSchedule {
    let settings = ScheduleSettings::H200;
    let found = build_schedule(&prepared.plans[0], &team::collect_teams(prepared), &between(prepared), settings);
    found.unwrap_or_else(|refusal| panic!("{}", refusal.what))
}

fn io_slots(prepared: &PreparedProgram) -> Vec<Option<BindingSlot>> {
    let plan = &prepared.plans[0];
    binding_routes::binding_slots(
        plan,
        &scheduled(prepared),
        &external_buffers::externally_bound(plan, &between(prepared)),
    )
}

/// `T1 = relu(T0)` of 4 x 8 floats.
fn relu() -> PreparedProgram {
    let body = "  T1_g_float[iS2{4}, iS3{8}]\n     = relu(T0_g_float[iS0{4}, iS1{8}]);\n";
    prepared("T0_g_float[iS0{4}, iS1{8}]", "T1_g_float[iS2{4}, iS3{8}]", body)
}

fn view(shape: &[usize]) -> BufferView {
    BufferView { buffer: BufferId(0), offset: 0, dims: row_major(shape), dtype: DType::Float }
}

fn layout(shape: &[usize], written: bool, tensor: &DeviceTensor) -> Result<StridedTensor, Diag> {
    let view = view(shape);
    let side = if written { IoSide::Output } else { IoSide::Input };
    let expected = BindingTarget { side, name: "T0", span: Default::default(), rank: 1, view: &view, written };
    tensor_check::check_layout(&expected, tensor)
}

fn strided(pointer: u64, shape: &[usize], strides: &[i64]) -> DeviceTensor {
    DeviceTensor { pointer, shape: shape.to_vec(), strides: strides.to_vec(), dtype: DType::Float }
}

#[track_caller]
fn refused(found: Result<impl std::fmt::Debug, Diag>, code: &str, message: &str) {
    let diag = found.unwrap_err();
    assert_eq!((diag.code, diag.message.as_str()), (code, message));
    assert!(!diag.notes.is_empty(), "{} says how to repair it", diag.message);
}

#[test]
fn types_and_shapes() {
    let half = DeviceTensor::contiguous(0x1000, DType::Half, &[4, 8]);
    let message = "input T0 of rank 1 is `float`, but a tensor of type `__half` was given";
    refused(layout(&[4, 8], false, &half), "H0523", message);
    let wide = DeviceTensor::contiguous(0x1000, DType::Float, &[4, 9]);
    let message = "output T0 of rank 1 has shape [4, 8], but a tensor of shape [4, 9] was given";
    refused(layout(&[4, 8], true, &wide), "H0524", message);
    let flat = DeviceTensor::contiguous(0x1000, DType::Float, &[32]);
    let message = "input T0 of rank 1 has shape [4, 8], but a tensor of shape [32] was given";
    refused(layout(&[4, 8], false, &flat), "H0524", message);
}

#[test]
fn strides() {
    let with = |strides: &[i64]| strided(0x1000, &[4, 8], strides);
    let reported = |what: &str| format!("input T0 of rank 1 was bound with strides {what}");
    let few = reported("[1], which are 1 strides for 2 axes");
    refused(layout(&[4, 8], false, &with(&[1])), "H0525", &few);
    let negative = reported("[-8, 1], one of which is negative");
    refused(layout(&[4, 8], false, &with(&[-8, 1])), "H0525", &negative);
    for far in [i64::MAX, 1 << 60] {
        let message = reported(&format!("[{far}, 1], which place the last element beyond the address space"));
        refused(layout(&[4, 8], false, &with(&[far, 1])), "H0525", &message);
    }
    // A tensor that is only read may repeat elements; one that is written may not.
    for strides in [[0, 1], [4, 1], [1, 1]] {
        assert!(layout(&[4, 8], false, &with(&strides)).is_ok());
        assert_eq!(layout(&[4, 8], true, &with(&strides)).unwrap_err().code, "H0525");
    }
    for strides in [[8, 1], [9, 1], [1, 4], [2, 64]] {
        assert!(layout(&[4, 8], true, &with(&strides)).is_ok(), "{strides:?}");
    }
}

#[test]
fn views_start_where_kernels_expect_it() {
    let found = layout(&[4, 8], false, &strided(0x1014, &[4, 8], &[9, 1])).unwrap();
    assert_eq!((found.base, found.view.offset, found.data_address()), (0x1010, 1, 0x1014));
    // Rows of 9 elements: the last row ends after 8.
    assert_eq!(found.byte_range(), (0x1014, 0x1014 + 4 * (3 * 9 + 8)));
    let odd = "input T0 of rank 1 was bound to the address 0x1012, but elements of `float` must be aligned to 4 bytes";
    refused(layout(&[4, 8], false, &strided(0x1012, &[4, 8], &[8, 1])), "H0526", odd);
    // A tensor without elements may be anywhere.
    let none = layout(&[0, 8], true, &strided(3, &[0, 8], &[8, 1])).unwrap();
    assert!(none.view.is_empty() && none.byte_range().0 == none.byte_range().1);
}

#[test]
fn memory() {
    let view = view(&[4]);
    let expected = BindingTarget {
        side: IoSide::Input,
        name: "T0",
        span: Default::default(),
        rank: 0,
        view: &view,
        written: false,
    };
    let tensor = tensor_check::check_layout(&expected, &strided(0x1000, &[4], &[2])).unwrap();
    let fine = AddressInfo { device: Some(1), allocation: Some((0x800, 0x101c)), ..AddressInfo::default() };
    let test = |about: AddressInfo| tensor_check::check_memory(&expected, &tensor, &about, 1);
    assert_eq!(test(fine), Ok(()));
    assert_eq!(test(AddressInfo { allocation: None, ..fine }), Ok(()));
    let reported = |what: &str| format!("input T0 of rank 0 was bound to the address 0x1000, {what}");
    let short = reported("which needs 28 bytes, but the allocation has 27 there");
    refused(test(AddressInfo { allocation: Some((0x800, 0x101b)), ..fine }), "H0526", &short);
    let host = AddressInfo { host: true, device: None, ..fine };
    refused(test(host), "H0526", &reported("which is host memory"));
    let nowhere = reported("which is not device memory");
    refused(test(AddressInfo::default()), "H0526", &nowhere);
    let other = reported("which is on device 0, but the rank runs on device 1");
    refused(test(AddressInfo { device: Some(0), ..fine }), "H0526", &other);
    let context = reported("which belongs to another context of the device");
    refused(test(AddressInfo { elsewhere: true, ..fine }), "H0526", &context);
}

#[test]
fn inputs_without_data() {
    let view = view(&[4]);
    let span = Default::default();
    let (side, written) = (IoSide::Input, false);
    let expected = BindingTarget { side, name: "logits", span, rank: 2, view: &view, written };
    let found: Result<(), Diag> = Err(tensor_check::unbound_input_error(&expected));
    refused(found, "H0527", "input logits of rank 2 has no data");
    let found: Result<(), Diag> = Err(tensor_check::unplaced_output_error(&expected));
    refused(found, "H0528", "input logits of rank 2 is a view of an input, so it has no address before a run");
}

// ---- routes ----

fn bound(io_slots: &[Option<BindingSlot>], tensors: &[Option<DeviceTensor>]) -> Vec<Option<StridedTensor>> {
    let one = |(io_slot, tensor): (&Option<BindingSlot>, &Option<DeviceTensor>)| {
        let (io_slot, tensor) = (io_slot.as_ref()?, tensor.as_ref()?);
        let expected = BindingTarget {
            side: io_slot.side,
            name: "T",
            span: Default::default(),
            rank: 0,
            view: &io_slot.view,
            written: io_slot.written,
        };
        Some(tensor_check::check_layout(&expected, tensor).unwrap())
    };
    io_slots.iter().zip(tensors).map(one).collect()
}

fn routes(prepared: &PreparedProgram, tensors: &[Option<DeviceTensor>]) -> Result<Vec<BindingRoute>, BindingConflict> {
    let io_slots = io_slots(prepared);
    binding_routes::choose_routes(&io_slots, &bound(&io_slots, tensors))
}

fn dense(pointer: u64) -> Option<DeviceTensor> {
    Some(DeviceTensor::contiguous(pointer, DType::Float, &[4, 8]))
}

#[test]
fn contiguous_tensors_are_used_in_place() {
    use BindingRoute::{Copied, InPlace, Own};
    let relu = relu();
    assert_eq!(routes(&relu, &[None, None]), Ok(vec![Own, Own]));
    assert_eq!(routes(&relu, &[dense(0x1000), None]), Ok(vec![InPlace, Own]));
    assert_eq!(routes(&relu, &[dense(0x1000), dense(0x2000)]), Ok(vec![InPlace, InPlace]));
    // Kernels read 16 bytes at a time.
    assert_eq!(routes(&relu, &[dense(0x1008), dense(0x2010)]), Ok(vec![Copied, InPlace]));
    let rows = Some(strided(0x3000, &[4, 8], &[16, 1]));
    let turned = Some(strided(0x1000, &[4, 8], &[1, 4]));
    assert_eq!(routes(&relu, &[turned, rows]), Ok(vec![Copied, Copied]));
}

#[test]
fn products_ask_for_more_alignment() {
    let body = "  T2_g_float[iS4{4}, iS5{4}, rS6{8}]\n     = matmul(T0_g_float[iS0{4}, iS1{8}],\n              T1_g_float[iS2{8}, iS3{4}])\n";
    let gemm =
        prepared("T0_g_float[iS0{4}, iS1{8}], T1_g_float[iS2{8}, iS3{4}]", "T2_g_float[iS4{4}, iS5{4}, rS6{8}]", body);
    let alignments: Vec<u64> = io_slots(&gemm).iter().flatten().map(|io_slot| io_slot.alignment).collect();
    assert_eq!(alignments, [256, 256, 256]);
    let alignments: Vec<u64> = io_slots(&relu()).iter().flatten().map(|io_slot| io_slot.alignment).collect();
    assert_eq!(alignments, [16, 16]);
}

#[test]
fn overlaps_of_inputs_and_outputs() {
    use BindingRoute::{Copied, InPlace};
    let relu = relu();
    // In place of the input, or anywhere over it: the program writes the output when it has read everything.
    assert_eq!(routes(&relu, &[dense(0x1000), dense(0x1000)]), Ok(vec![InPlace, Copied]));
    assert_eq!(routes(&relu, &[dense(0x1000), dense(0x1040)]), Ok(vec![InPlace, Copied]));
    assert_eq!(routes(&relu, &[dense(0x1000), dense(0x1080)]), Ok(vec![InPlace, InPlace]));
    // Two inputs may be one tensor; two outputs may not, but two halves of one may.
    let body = "  T2_g_float[iS4{4}, iS5{8}]\n     = T0_g_float[iS0{4}, iS1{8}]\n     + T1_g_float[iS2{4}, iS3{8}];\n  T3_g_float[iS6{4}, iS7{8}]\n     = relu(T0_g_float[iS0{4}, iS1{8}]);\n";
    let two = prepared(
        "T0_g_float[iS0{4}, iS1{8}], T1_g_float[iS2{4}, iS3{8}]",
        "T2_g_float[iS4{4}, iS5{8}], T3_g_float[iS6{4}, iS7{8}]",
        body,
    );
    let same = [dense(0x1000), dense(0x1000), dense(0x2000), dense(0x2000)];
    assert_eq!(routes(&two, &same), Err(BindingConflict(2, 3)));
    let half = |pointer| Some(strided(pointer, &[4, 8], &[16, 1]));
    let halves = [dense(0x1000), dense(0x1000), half(0x2000), half(0x2020)];
    assert_eq!(routes(&two, &halves), Ok(vec![InPlace, InPlace, Copied, Copied]));
    let crossing = [dense(0x1000), dense(0x1000), half(0x2000), half(0x201c)];
    assert_eq!(routes(&two, &crossing), Err(BindingConflict(2, 3)));
}

/// An input that the program writes and gives back.
fn written() -> PreparedProgram {
    let body = "  T0_g_float[iS0{4}, iS1{8}]\n     = relu(T1_g_float[iS2{4}, iS3{8}]);\n";
    prepared("T0_g_float[iS0{4}, iS1{8}], T1_g_float[iS2{4}, iS3{8}]", "T0_g_float[iS0{4}, iS1{8}]", body)
}

#[test]
fn inputs_that_are_written() {
    use BindingRoute::{Copied, InPlace, Own, There};
    let written = written();
    let flags: Vec<bool> = io_slots(&written).iter().flatten().map(|io_slot| io_slot.written).collect();
    assert_eq!(flags, [true, false, true]);
    let (a, b, c) = (dense(0x1000), dense(0x2000), dense(0x3000));
    assert_eq!(routes(&written, &[a.clone(), b.clone(), None]), Ok(vec![InPlace, InPlace, Own]));
    let back = [a.clone(), b.clone(), a.clone()];
    assert_eq!(routes(&written, &back), Ok(vec![InPlace, InPlace, There]));
    let elsewhere = [a.clone(), b.clone(), c.clone()];
    assert_eq!(routes(&written, &elsewhere), Ok(vec![InPlace, InPlace, Copied]));
    // Over the other input, which is read before the copy; not over part of a written tensor.
    assert_eq!(routes(&written, &[a.clone(), b.clone(), b.clone()]), Ok(vec![InPlace, InPlace, Copied]));
    assert_eq!(routes(&written, &[a.clone(), a.clone(), None]), Err(BindingConflict(0, 1)));
    assert_eq!(routes(&written, &[a, b, dense(0x1010)]), Err(BindingConflict(0, 2)));
    let rows = Some(strided(0x5000, &[4, 8], &[16, 1]));
    let strided = [rows.clone(), c, rows];
    assert_eq!(routes(&written, &strided), Ok(vec![Copied, InPlace, There]));
}

// ---- what moves ----

#[test]
fn only_calls_that_touch_a_buffer_are_written_anew() {
    let set = |to: usize, from: usize| {
        format!("  T{to}_g_float[iS{to}{{64}}] = Set( T{from}_g_float[iS{from}{{64}}], cache_op=Streaming )\n")
    };
    let body = [set(2, 0), set(3, 2), set(4, 1), set(5, 3)].concat();
    let chain = prepared("T0_g_float[iS0{64}], T1_g_float[iS1{64}]", "T4_g_float[iS4{64}], T5_g_float[iS5{64}]", &body);
    let (plan, schedule) = (&chain.plans[0], scheduled(&chain));
    let messages = between(&chain);
    let external = external_buffers::externally_bound(plan, &messages);
    let relocations = RelocationTable::new(&schedule, plan.rank, &messages, &external);
    let of = |view: &Option<BufferView>| relocations.steps_using(view.as_ref().unwrap().buffer).to_vec();
    let inputs: Vec<Vec<u32>> = plan.inputs.iter().map(of).collect();
    let outputs: Vec<Vec<u32>> = plan.outputs.iter().map(of).collect();
    // The chain is one call, the other copy another one.
    assert_eq!((inputs[0].len(), inputs[1].len()), (1, 1));
    assert_eq!((&inputs[0], &inputs[1]), (&outputs[1], &outputs[0]));
    assert_ne!(inputs[0], inputs[1]);
    // What lies between never moves.
    let all: usize = plan.buffers.ids().map(|buffer| relocations.steps_using(buffer).len()).sum();
    assert_eq!(all, 4);
}

#[test]
fn what_peers_access_stays_in_the_arena() {
    let mesh = "(DeviceMesh{0 1})";
    let (from, to) = (format!("T0_g_float[iS0{{8}}] {mesh}"), format!("T1_g_float[iS1{{8}}] {mesh}"));
    let body = format!(
        "  {to} = ALLOCATE(buffer={to}, mem_type=global, size=8, zero_init=false, resets_to_zero=false)
  P2PCommunication 1 (type=recv, buffer={to}, peer=( 1 - rank ), backend=NCCL)
  P2PCommunication 2 (type=send, buffer={from}, peer=( 1 - rank ), backend=NCCL)
  Wait Communication 1
  Wait Communication 2
"
    );
    let text = |body: &str| {
        let body = format!("  StartCoalescing\n{body}");
        body.replace("  Wait Communication 1\n  Wait Communication 2\n", "  EndCoalescing 3\n  Wait Communication 3\n")
    };
    let nccl = prepared(&from, &to, &text(&body));
    assert!(io_slots(&nccl).iter().flatten().all(|io_slot| io_slot.replaceable));
    // A peer reads the buffer of a send by get, and writes that of a receive by put; a rank's own end of the message
    // moves.
    for (backend, expected) in [("CUDA", [false, true]), ("CUDA, protocol=put", [true, false])] {
        let engines = prepared(&from, &to, &body.replace("NCCL", backend));
        let plan = &engines.plans[0];
        let external = external_buffers::externally_bound(plan, &between(&engines));
        let of = |views: &[Option<BufferView>]| external[views[0].as_ref().unwrap().buffer.0 as usize];
        assert_eq!([of(&plan.inputs), of(&plan.outputs)], expected, "{backend}");
    }
}

#[test]
fn copies_have_their_addresses() {
    let io_slot = view(&[4, 8]);
    let checked = |tensor: DeviceTensor| layout(&[4, 8], true, &tensor).unwrap();
    // In one piece, but not aligned for kernels.
    let moved = checked(DeviceTensor::contiguous(0x1008, DType::Float, &[4, 8]));
    let found = staging_copies::binding_transfers(&moved, &io_slot, 0x8000, CopyDirection::In).unwrap();
    assert_eq!(found, [BindingTransfer::Bytes { to: 0x8000, from: 0x1008, bytes: 128 }]);
    let found = staging_copies::binding_transfers(&moved, &io_slot, 0x8000, CopyDirection::Out).unwrap();
    assert_eq!(found, [BindingTransfer::Bytes { to: 0x1008, from: 0x8000, bytes: 128 }]);
    let turned = checked(strided(0x1014, &[4, 8], &[1, 4]));
    for (way, expected) in [(CopyDirection::In, [0x1014, 0x8000]), (CopyDirection::Out, [0x8000, 0x1014])] {
        let found = staging_copies::binding_transfers(&turned, &io_slot, 0x8000, way).unwrap();
        let [BindingTransfer::Kernel { addresses, text, .. }] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(addresses, &expected);
        assert!(text.contains("hir("), "{text}");
    }
    let none = layout(&[0, 8], true, &strided(0, &[0, 8], &[8, 1])).unwrap();
    assert_eq!(staging_copies::binding_transfers(&none, &view(&[0, 8]), 0x8000, CopyDirection::In), Ok(Vec::new()));
}

/// The root of a Scatter reads its input, and copies its own shard in the kernel that sends the others theirs. The
/// others do not access the root's tensors; the root accesses theirs.
#[test]
fn collectives_move_what_only_their_rank_accesses() {
    let (from, to) =
        ("T0_g_float[iS0{2}, iS1{8}] (DeviceMesh{0})", "T1_g_float[ideviceIdx.x2{2}, iS3{8}] (DeviceMesh{0 1})");
    let body = format!(
        "  {to} = ALLOCATE(buffer={to}, mem_type=global, size=8, zero_init=false, resets_to_zero=false)
  Communication 1 (type=Scatter, root=0, team=(0 1), input={from}, output={to}, backend=CUDA)
  Wait Communication 1
"
    );
    let prepared = prepared(from, to, &body);
    let external_on = |rank: usize| external_buffers::externally_bound(&prepared.plans[rank], &between(&prepared));
    assert!(external_on(0).iter().all(|external| *external), "{:?}", external_on(0));
    let received = prepared.plans[1].outputs[0].as_ref().unwrap().buffer.0 as usize;
    assert!(!external_on(1)[received], "{:?}", external_on(1));
}
