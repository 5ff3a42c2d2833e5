//! Runs schedules of copied communications without a GPU: streams, events, semaphores and bytes.

use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir::plan::BufferView;
use hostir_gpu::issue_order;
use hostir_gpu::memory_layout;
use hostir_gpu::memory_layout::MemoryLayout;
use hostir_gpu::p2p;
use hostir_gpu::p2p::{MessagePlan, MessageTarget};
use hostir_gpu::schedule::{
    P2pBatch, P2pCopy, RankSchedule, ScheduleSettings, ScheduleStep, SemaphoreOp, StreamCommand, build_schedule,
};
use hostir_gpu::team;
use hostir_gpu::transport::{BackendTransports, CommTransport};
use std::collections::BTreeSet;

const ROUTES: BackendTransports = BackendTransports { nccl: CommTransport::Copies, ucc: Some(CommTransport::Copies) };

/// By kernels, by copy engines, and as in a graph: whether each rank has its own device, and whether engines only push.
const WAYS: [(bool, bool); 3] = [(true, false), (false, false), (true, true)];

/// One rank as its device sees it.
struct Device {
    schedule: RankSchedule,
    layout: MemoryLayout,
    memory: Vec<u8>,
    flags: Vec<bool>,
    /// By stream: the steps, and the number of those that are done.
    queues: Vec<(Vec<usize>, usize)>,
    reached: BTreeSet<usize>,
}

struct Machine {
    prepared: PreparedProgram,
    messages: MessagePlan,
    devices: Vec<Device>,
    /// The owner of each step in the common order, if ranks share a device.
    order: Option<Vec<usize>>,
}

impl Machine {
    fn new(text: &str, (one_rank_per_device, push): (bool, bool)) -> Self {
        Self::with_settings(
            text,
            ScheduleSettings { routes: ROUTES, one_rank_per_device, push, ..ScheduleSettings::H200 },
        )
    }

    fn with_settings(text: &str, settings: ScheduleSettings) -> Self {
        let one_rank_per_device = settings.one_rank_per_device;
        let (programs, diags) = hostir::load(text);
        assert!(diags.is_empty(), "{diags:?}");
        let prepared = prepare_program(&programs[0], &SizeSettings::default()).unwrap();
        let teams = team::collect_teams(&prepared);
        let messages = p2p::plan_messages(&prepared, ROUTES, settings.joins_stores);
        let of = |plan: &hostir::plan::Plan| {
            build_schedule(plan, &teams, &messages, settings).unwrap_or_else(|refusal| panic!("{}", refusal.what))
        };
        let mut schedules: Vec<RankSchedule> = prepared.plans.iter().map(of).collect();
        let order = if one_rank_per_device { None } else { issue_order::impose_global_order(&mut schedules) };
        assert_eq!(order.is_some(), !one_rank_per_device, "there is an order");
        let device = |(plan, schedule): (&hostir::plan::Plan, RankSchedule)| {
            let flags = messages.flag_bytes(plan.rank);
            let layout = memory_layout::assign_offsets(plan, &schedule.items, &schedule.scratch, flags, &[]);
            let mut queues = vec![(Vec::new(), 0); schedule.streams];
            for (at, step) in schedule.steps.iter().enumerate() {
                queues[step.stream].0.push(at);
            }
            Device {
                memory: vec![0xff; layout.bytes],
                flags: vec![false; flags / p2p::FLAG],
                schedule,
                layout,
                queues,
                reached: BTreeSet::new(),
            }
        };
        let devices = prepared.plans.iter().zip(schedules).map(device).collect();
        Self { prepared, messages, devices, order }
    }

    fn address(&self, rank: usize, view: &BufferView, start: usize) -> usize {
        let offset = self.devices[rank].layout.offsets[view.buffer.0 as usize].unwrap();
        offset + (view.offset + start) * view.dtype.byte_size()
    }

    fn upload(&mut self, inputs: &[Vec<HostTensor>]) {
        for (rank, inputs) in inputs.iter().enumerate() {
            let views = self.prepared.plans[rank].inputs.clone();
            for (view, tensor) in views.iter().zip(inputs) {
                let Some(view) = view else { continue };
                let at = self.address(rank, view, 0);
                self.devices[rank].memory[at..at + tensor.bytes().len()].copy_from_slice(tensor.bytes());
            }
        }
    }

    /// Runs all ranks, any stream of any rank that can continue; `last` reverses the order.
    fn run(&mut self, last: bool) {
        loop {
            let mut heads: Vec<(usize, usize)> = Vec::new();
            for (rank, device) in self.devices.iter().enumerate() {
                for (stream, (steps, done)) in device.queues.iter().enumerate() {
                    if *done < steps.len() {
                        heads.push((rank, stream));
                    }
                }
            }
            if heads.is_empty() {
                break;
            }
            if last {
                heads.reverse();
            }
            let moved = heads.into_iter().any(|(rank, stream)| self.step(rank, stream));
            assert!(moved, "no stream can go on");
        }
        self.rewind();
    }

    /// Everything is as before the run.
    fn rewind(&mut self) {
        for device in &mut self.devices {
            assert!(device.flags.iter().all(|signalled| !signalled), "a flag stays up");
            device.queues.iter_mut().for_each(|queue| queue.1 = 0);
            device.reached.clear();
        }
    }

    /// Runs all ranks' steps one after the other, each rank's in order: none may have to wait.
    fn run_in_order(&mut self) {
        let mut next = vec![0; self.devices.len()];
        for rank in self.order.clone().unwrap_or_default() {
            let step = next[rank];
            next[rank] += 1;
            let stream = self.devices[rank].schedule.steps[step].stream;
            let (steps, done) = &self.devices[rank].queues[stream];
            let (number, done) = (steps[*done], *done);
            assert_eq!(number, step, "streams keep their order");
            while self.devices[rank].queues[stream].1 == done {
                assert!(self.step(rank, stream), "step {step} of rank {rank} comes too early");
            }
        }
        self.rewind();
    }

    /// Does a stream's next step if it can.
    fn step(&mut self, rank: usize, stream: usize) -> bool {
        let (steps, done) = &self.devices[rank].queues[stream];
        let step = steps[*done];
        let call = self.devices[rank].schedule.steps[step].call.clone();
        match call {
            StreamCommand::Wait { event } if !self.devices[rank].reached.contains(&event) => {
                return false;
            }
            StreamCommand::Record { event } => {
                self.devices[rank].reached.insert(event);
            }
            StreamCommand::Signal { mut signals } => {
                // One operation at a time: others may run in between.
                let waits = match signals[0] {
                    SemaphoreOp::Wait { flag } => !self.devices[rank].flags[flag],
                    SemaphoreOp::Signal { rank: other, flag } => {
                        self.raise(other, flag);
                        false
                    }
                    SemaphoreOp::Reset { flag } => {
                        self.lower(rank, flag);
                        false
                    }
                };
                if waits {
                    return false;
                }
                signals.remove(0);
                if !signals.is_empty() {
                    self.devices[rank].schedule.steps[step].call = StreamCommand::Signal { signals };
                    return true;
                }
            }
            StreamCommand::Transfer { message } => self.transfer(message),
            StreamCommand::P2pBatch(mut exchange) => {
                let Some(ended) = self.exchange(rank, &mut exchange) else { return false };
                if !ended {
                    self.devices[rank].schedule.steps[step].call = StreamCommand::P2pBatch(exchange);
                    return true;
                }
            }
            StreamCommand::Copy { views, bytes } => {
                let [from, to] = views.each_ref().map(|view| self.address(rank, view, 0));
                self.devices[rank].memory.copy_within(from..from + bytes, to);
            }
            StreamCommand::Wait { .. }
            | StreamCommand::Launch { .. }
            | StreamCommand::UserLaunch(_)
            | StreamCommand::Gemm { .. }
            | StreamCommand::StoreGemms(_) => {}
            StreamCommand::Communicate { .. } => panic!("NCCL is called"),
        }
        self.devices[rank].queues[stream].1 += 1;
        true
    }

    fn raise(&mut self, rank: u32, flag: usize) {
        let signalled = &mut self.devices[rank as usize].flags[flag];
        assert!(!std::mem::replace(signalled, true), "a flag is raised twice");
    }

    /// Lowers an own flag if it is raised.
    fn lower(&mut self, rank: usize, flag: usize) -> bool {
        std::mem::replace(&mut self.devices[rank].flags[flag], false)
    }

    /// Does one operation of a put or get kernel, whose copies and last waits are blocks of their own. Returns whether
    /// it was the last one, and `None` if it cannot continue.
    fn exchange(&mut self, rank: usize, exchange: &mut P2pBatch) -> Option<bool> {
        if !exchange.signals.is_empty() {
            exchange.signals.drain(..).for_each(|(other, flag)| self.raise(other, flag));
            return Some(exchange.copies.is_empty() && exchange.waits.is_empty());
        }
        for at in 0..exchange.copies.len() {
            match exchange.copies[at].clone() {
                P2pCopy::Message(number) => {
                    let (ready, done, other) = {
                        let message = &self.messages.list[number];
                        (message.ready, message.done, message.target_rank())
                    };
                    if !self.devices[rank].flags[ready] {
                        continue;
                    }
                    self.transfer(number);
                    self.lower(rank, ready);
                    self.raise(other, done);
                }
                P2pCopy::Local(parts) => {
                    let [from, to] = parts.each_ref().map(|part| self.address(rank, &part.view, part.start));
                    let bytes = parts[0].byte_count();
                    self.devices[rank].memory.copy_within(from..from + bytes, to);
                }
            }
            exchange.copies.remove(at);
            return Some(exchange.copies.is_empty() && exchange.waits.is_empty());
        }
        let at = exchange.waits.iter().position(|&flag| self.devices[rank].flags[flag])?;
        self.lower(rank, exchange.waits.remove(at));
        Some(exchange.copies.is_empty() && exchange.waits.is_empty())
    }

    fn transfer(&mut self, message: usize) {
        let message = &self.messages.list[message];
        let (from, to) = (message.from as usize, message.to as usize);
        let at = self.address(from, &message.source.view, message.source.start);
        let bytes = self.devices[from].memory[at..at + message.byte_count()].to_vec();
        if let MessageTarget::Part(part) = &message.target {
            let at = self.address(to, &part.view, part.start);
            self.devices[to].memory[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    fn output(&self, rank: usize, index: usize) -> Option<Vec<u8>> {
        let view = self.prepared.plans[rank].outputs[index].as_ref()?;
        let at = self.address(rank, view, 0);
        Some(self.devices[rank].memory[at..at + view.len() * view.dtype.byte_size()].to_vec())
    }
}

/// Local shards of every input, all elements different.
fn inputs(prepared: &PreparedProgram, salt: u8) -> Vec<Vec<HostTensor>> {
    let part = |rank: usize, view: &Option<BufferView>| {
        let Some(view) = view else { return HostTensor::zeros(hostir::ir::DType::Float, &[1]) };
        let mut tensor = HostTensor::zeros(view.dtype, &view.shape());
        for (index, byte) in tensor.bytes_mut().iter_mut().enumerate() {
            *byte = (index as u8).wrapping_mul(7) ^ (rank as u8).wrapping_mul(53) ^ salt;
        }
        tensor
    };
    let plans = prepared.plans.iter().enumerate();
    plans.map(|(rank, plan)| plan.inputs.iter().map(|view| part(rank, view)).collect()).collect()
}

/// Runs a program twice in each order, with changing data, by kernels, by copy engines, and as in a graph; `copies`
/// compares the moved data with the CPU.
fn check(text: &str, copies: bool) {
    for how in WAYS {
        run(&mut Machine::new(text, how), text, how.0, copies);
    }
}

fn run(machine: &mut Machine, text: &str, kernels: bool, copies: bool) {
    let fresh: Vec<RankSchedule> = machine.devices.iter().map(|device| device.schedule.clone()).collect();
    for (round, last) in [false, true, false, true].into_iter().enumerate() {
        let data = inputs(&machine.prepared, round as u8);
        machine.upload(&data);
        match (round, kernels) {
            (2, false) => machine.run_in_order(),
            _ => machine.run(last),
        }
        for (device, schedule) in machine.devices.iter_mut().zip(&fresh) {
            device.schedule = schedule.clone();
        }
        let expected = cpu::run_plans(&machine.prepared, data).unwrap();
        for (rank, outputs) in expected.outputs.iter().enumerate() {
            for (index, tensor) in outputs.iter().enumerate().filter(|_| copies) {
                let bytes = tensor.as_ref().map(|tensor| tensor.bytes().to_vec());
                assert_eq!(machine.output(rank, index), bytes, "rank {rank} in\n{text}");
            }
        }
    }
}

/// A program with one collective over four ranks.
fn collective(kind: &str, input: &str, output: &str, size: usize, more: &str) -> String {
    // A tensor that only the root receives exists only there.
    let mesh = match kind {
        "Gather" => "2",
        "Reduce" => "1",
        _ => "0 1 2 3",
    };
    format!(
        "%HostIrContainer {{ (T0_g_float[{input}] (DeviceMesh{{0 1 2 3}})) -> (T1_g_float[{output}] (DeviceMesh{{{mesh}}})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size={size}, zero_init=false, resets_to_zero=false)
  Communication 1 (type={kind}, {more}team=(0 1 2 3), input=T0, output=T1, backend=CUDA)
  Wait Communication 1
}} // %HostIrContainer
"
    )
}

#[test]
fn collectives_that_move() {
    let (whole, part) = ("iS0{4}, iS2{8}", "ideviceIdx.x0{4}, iS2{8}");
    check(&collective("Allgather", part, &whole.replace("0{", "1{"), 32, ""), true);
    check(&collective("Gather", part, &whole.replace("0{", "1{"), 32, "root=2, "), true);
    check(&collective("Scatter", whole, &part.replace("x0", "x1"), 32, "root=1, "), true);
    check(&collective("Broadcast", whole, "iS1{4}, iS3{8}", 32, "root=3, "), true);
    check(&collective("AllToAll", whole, "iS1{4}, iS3{8}", 32, ""), true);
}

/// Checks the order of reducing collectives; the sums themselves run on the device only. The large one has two rounds.
#[test]
fn collectives_that_reduce() {
    let part = "ideviceIdx.x0{4}, iS2{64}";
    check(&collective("Allreduce", part, "rdeviceIdx.x1{4}, iS3{64}", 64, ""), false);
    let large = part.replace("64", "131072");
    check(&collective("Allreduce", &large, "rdeviceIdx.x1{4}, iS3{131072}", 131_072, ""), false);
    check(&collective("Reduce", part, "rS1{4}, iS3{64}", 64, "root=1, "), false);
    let part = "ideviceIdx.x0{4}, iS2{4}, iS4{16}";
    let scattered = "rS1{4}, ideviceIdx.x3{4}, iS5{16}";
    check(&collective("ReduceScatter", part, scattered, 64, ""), false);
}

/// Each rank sends to the next one; the target is first.
fn ring(protocol: &str, first: &str, second: &str) -> String {
    let post = |kind: &str| match kind {
        "send" => format!(
            "  P2PCommunication 1 (type=send, buffer=T0, peer=( ( rank + 1 ) % 4 ), backend=CUDA, protocol={protocol})\n"
        ),
        _ => format!(
            "  P2PCommunication 2 (type=recv, buffer=T1, peer=( ( rank + 3 ) % 4 ), backend=CUDA, protocol={protocol})\n"
        ),
    };
    format!(
        "%HostIrContainer {{ (T0_g_float[ideviceIdx.x0{{4}}, iS2{{5}}] (DeviceMesh{{0 1 2 3}})) -> (T1_g_float[ideviceIdx.x1{{4}}, iS3{{5}}] (DeviceMesh{{0 1 2 3}})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=20, zero_init=false, resets_to_zero=false)
{}{}  Wait Communication {second}
  Wait Communication {first}
}} // %HostIrContainer
",
        post(if protocol == "get" { "send" } else { "recv" }),
        post(if protocol == "get" { "recv" } else { "send" }),
    )
}

#[test]
fn messages_on_streams() {
    check(&ring("get", "1", "2"), true);
    check(&ring("put", "2", "1"), true);
}

/// A send without a wait: the end of the run waits for it.
#[test]
fn what_nobody_waits_for() {
    check(&ring("get", "1", "2").replace("  Wait Communication 1\n", ""), true);
}

/// Groups and single messages of a communicator, which are NCCL's in the text.
#[test]
fn messages_of_a_communicator() {
    let text = ring("get", "1", "2").replace(", backend=CUDA, protocol=get", ", backend=NCCL");
    let group = text.replacen("  P2P", "  StartCoalescing\n  P2P", 1).replacen(
        "  Wait Communication 2\n  Wait Communication 1\n",
        "  EndCoalescing 3\n  Wait Communication 3\n",
        1,
    );
    check(&group, true);
}

/// Counts a rank's calls for messages by kind: P2P kernels, signals, transfers.
fn calls(text: &str, one_rank_per_device: bool) -> [usize; 3] {
    let machine = Machine::new(text, (one_rank_per_device, false));
    let steps = &machine.devices[1].schedule.steps;
    let count = |is: fn(&StreamCommand) -> bool| steps.iter().filter(|step| is(&step.call)).count();
    [
        count(|call| matches!(call, StreamCommand::P2pBatch(_))),
        count(|call| matches!(call, StreamCommand::Signal { .. })),
        count(|call| matches!(call, StreamCommand::Transfer { .. })),
    ]
}

/// The ready signal, the copy and the last wait of small messages are one kernel, unless ranks share devices.
#[test]
fn small_messages_are_one_kernel() {
    for (protocol, first, second) in [("get", "1", "2"), ("put", "2", "1")] {
        let text = ring(protocol, first, second);
        assert_eq!(calls(&text, true), [1, 0, 0], "{protocol}");
        assert_eq!(calls(&text, false), [0, 4, 1], "{protocol}");
        let large = text.replace("{5}", "{1048577}").replace("size=20", "size=1048577");
        // No kernel is on another stream, so semaphores without copies are one, too.
        assert_eq!(calls(&large, true), [1, 3, 1], "{protocol}");
    }
    let (whole, part) = ("iS1{4}, iS2{8}", "ideviceIdx.x0{4}, iS2{8}");
    assert_eq!(calls(&collective("Allgather", part, whole, 32, ""), true), [1, 0, 0]);
}

/// A GEMM whose result goes to the other rank, and a second one of received data; `stream` begins between them.
fn two_gemms(stream: &str) -> String {
    format!(
        "hir 2
mesh d = 0..2

f(A: f32[x:2, 8, 8], B: f32[x:2, 8, 8], C: f32[x:2, 8, 8]) -> (D: f32[x:2, 8, 8], E: f32[x:2, 8, 8]) on d:
  X: f32[8, 8] = alloc
  Y: f32[8, 8] = alloc
  D = alloc
  E = alloc
  h0 = recv(X, from=1 - rank, via=CUDA, protocol=put)
  Y = matmul(A[own], B[own])
  wait send(Y, to=1 - rank, via=CUDA, protocol=put)
{stream}    E[own] = matmul(B[own], C[own])
  wait h0
  D[own] = matmul(X, C[own])
"
    )
}

/// Semaphores between GEMMs are kernels if no other stream computes; else they could wait for room beside its kernels.
#[test]
fn flags_of_the_only_stream_that_computes_are_kernels() {
    let alone = two_gemms("  if true:\n");
    check(&alone, false);
    assert_eq!(calls(&alone, true), [3, 0, 0]);
    assert_eq!(calls(&alone, false), [0, 4, 0]);
    let beside = two_gemms("  stream 1:\n");
    check(&beside, false);
    assert_eq!(calls(&beside, true), [0, 2, 0]);
}

/// Small messages on as many streams as there is room for leave none for semaphores, which are operations of their
/// stream then.
#[test]
fn flags_take_no_room_from_copies() {
    let prepared_with = |room: usize| {
        let machine = Machine::with_settings(
            &two_gemms("  if true:\n"),
            ScheduleSettings { routes: ROUTES, room, ..ScheduleSettings::H200 },
        );
        let schedule = &machine.devices[0].schedule;
        let kernels = schedule.steps.iter().filter(|step| matches!(step.call, StreamCommand::P2pBatch(_))).count();
        (kernels, schedule.blocks)
    };
    assert_eq!(prepared_with(1), (3, 1));
    assert_eq!(prepared_with(0), (0, 0));
}

/// Received data that is sent on: the two copies are two kernels.
#[test]
fn what_is_sent_on_has_arrived() {
    let text = "%HostIrContainer { (T0_g_float[ideviceIdx.x0{4}, iS2{5}] (DeviceMesh{0 1 2 3})) -> (T2_g_float[ideviceIdx.x1{4}, iS3{5}] (DeviceMesh{0 1 2 3})) :
  T1_g_float[ideviceIdx.x6{4}, iS7{5}] (DeviceMesh{0 1 2 3}) = ALLOCATE(buffer=T1_g_float[ideviceIdx.x6{4}, iS7{5}] (DeviceMesh{0 1 2 3}), mem_type=global, size=20, zero_init=false, resets_to_zero=false)
  T2 = ALLOCATE(buffer=T2, mem_type=global, size=20, zero_init=false, resets_to_zero=false)
  P2PCommunication 1 (type=send, buffer=T0, peer=( ( rank + 1 ) % 4 ), backend=CUDA)
  P2PCommunication 2 (type=recv, buffer=T1, peer=( ( rank + 3 ) % 4 ), backend=CUDA)
  Wait Communication 1
  Wait Communication 2
  P2PCommunication 3 (type=send, buffer=T1, peer=( ( rank + 1 ) % 4 ), backend=CUDA)
  P2PCommunication 4 (type=recv, buffer=T2, peer=( ( rank + 3 ) % 4 ), backend=CUDA)
  Wait Communication 3
  Wait Communication 4
} // %HostIrContainer
";
    check(text, true);
    assert_eq!(calls(text, true), [2, 0, 0]);
}

/// The own shard of a large Allgather is copied beside the shards from the others.
#[test]
fn large_own_parts_go_aside() {
    let part = "ideviceIdx.x0{4}, iS2{2097152}";
    let text = collective("Allgather", part, "iS1{4}, iS2{2097152}", 8_388_608, "");
    let machine = Machine::new(&text, (true, false));
    for device in &machine.devices {
        let stream = |is: fn(&StreamCommand) -> bool| {
            device.schedule.steps.iter().find(|step| is(&step.call)).map(|step| step.stream)
        };
        let copies = stream(|call| matches!(call, StreamCommand::Copy { .. }));
        assert_eq!(copies, Some(device.schedule.streams - 1));
        assert_ne!(copies, stream(|call| matches!(call, StreamCommand::Transfer { .. })));
    }
    check(&text, true);
}

/// In an all-to-all exchange, no semaphores separate the copies; those of a root are answered one by one, so that the
/// first receiver can continue early.
#[test]
fn copies_of_a_collective_follow_each_other() {
    let part = "ideviceIdx.x0{4}, iS2{2097152}";
    let (whole, copied) = ("iS0{4}, iS2{2097152}", "iS1{4}, iS3{2097152}");
    let gather = collective("Allgather", part, "iS1{4}, iS2{2097152}", 8_388_608, "");
    let broadcast = collective("Broadcast", whole, copied, 8_388_608, "root=3, ");
    for (text, rows) in [(gather, 1), (broadcast, 3)] {
        let machine = Machine::new(&text, (true, false));
        let steps = &machine.devices[3].schedule.steps;
        let is = |step: &&ScheduleStep| matches!(step.call, StreamCommand::Transfer { .. });
        let stream = steps.iter().find(is).map(|step| step.stream);
        let queue = steps.iter().filter(|step| Some(step.stream) == stream);
        let queue: Vec<bool> = queue.map(|step| is(&step)).collect();
        assert_eq!(queue.split(|copies| !copies).filter(|row| !row.is_empty()).count(), rows);
        assert_eq!(queue.iter().filter(|copies| **copies).count(), 3);
    }
}

/// Messages on streams are outside of groups: the program determines their order and the initiator.
#[test]
fn messages_on_streams_within_a_group() {
    let text = ring("get", "1", "2").replacen("  P2P", "  StartCoalescing\n  P2P", 1).replacen(
        "  Wait Communication 2\n",
        "  EndCoalescing 3\n  Wait Communication 2\n",
        1,
    );
    check(&text, true);
}

/// Three ranks with different programs: the statements of each, with T0 to send and T1 and T2 to receive.
fn three(bodies: [&[&str]; 3], elements: usize) -> String {
    let tensor = |number: usize| {
        let (first, second) = (2 * number, 2 * number + 1);
        format!("T{number}_g_float[ideviceIdx.x{first}{{3}}, iS{second}{{{elements}}}] (DeviceMesh{{0 1 2}})")
    };
    let mut text = format!("%HostIrContainer {{ ({}) -> () :\n", tensor(0));
    for number in 1..3 {
        text += &format!(
            "  {} = ALLOCATE(buffer=T{number}, mem_type=global, size={elements}, zero_init=false, resets_to_zero=false)\n",
            tensor(number)
        );
    }
    for (rank, lines) in bodies.iter().enumerate() {
        text += &format!("  IF Manual ( rank == {rank} ):\n");
        lines.iter().for_each(|line| text += &format!("    {line}\n"));
    }
    text + "} // %HostIrContainer\n"
}

/// `send 1 T0 2`: a message to rank 2, with its number.
fn message(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    format!("P2PCommunication {} (type={}, buffer={}, peer={}, backend=NCCL)", words[1], words[0], words[2], words[3])
}

/// Two messages in this order and in the other one.
fn both_orders([first, second]: [&str; 2]) -> [[String; 2]; 2] {
    [[first, second], [second, first]].map(|pair| pair.map(message))
}

/// Messages of a group do not wait for each other, in any order of the text: rank 1 sends to rank 2 only when rank 2
/// has received from rank 0.
#[test]
fn receives_of_a_group_do_not_wait_for_each_other() {
    for group in both_orders(["recv 5 T1 0", "recv 6 T2 1"]) {
        let zero = [message("send 1 T0 2"), message("send 2 T0 1")];
        let one = [message("recv 3 T1 0"), message("send 4 T1 2")];
        let [[a, b], [c, d], [e, f]] = [&zero, &one, &group].map(|pair| [&*pair[0], &*pair[1]]);
        let zero = [a, "Wait Communication 1", b, "Wait Communication 2"];
        let one = [c, "Wait Communication 3", d, "Wait Communication 4"];
        let two = ["StartCoalescing", e, f, "EndCoalescing 7", "Wait Communication 7"];
        follows([&zero, &one, &two]);
    }
}

/// The same for the sends of a group: rank 2 is ready for rank 0 when rank 1 has sent to it the data of rank 0.
#[test]
fn sends_of_a_group_do_not_wait_for_each_other() {
    for group in both_orders(["send 1 T0 1", "send 2 T0 2"]) {
        let (one, two) =
            ([message("recv 3 T1 0"), message("send 5 T1 2")], [message("recv 6 T1 1"), message("recv 7 T2 0")]);
        let [[a, b], [c, d], [e, f]] = [&group, &one, &two].map(|pair| [&*pair[0], &*pair[1]]);
        let start = "StartCoalescing";
        let zero = [start, a, b, "EndCoalescing 8", "Wait Communication 8"];
        let one = [start, c, "EndCoalescing 4", "Wait Communication 4", d, "Wait Communication 5"];
        let two = [e, "Wait Communication 6", start, f, "EndCoalescing 9", "Wait Communication 9"];
        follows([&zero, &one, &two]);
    }
}

/// Runs three ranks with small messages and large ones, in all ways and in each order of streams; they have to end.
fn follows(bodies: [&[&str]; 3]) {
    for text in [5, 1_048_577].map(|elements| three(bodies, elements)) {
        for how in WAYS {
            for last in [false, true] {
                Machine::new(&text, how).run(last);
            }
            if !how.0 {
                Machine::new(&text, how).run_in_order();
            }
        }
    }
}
