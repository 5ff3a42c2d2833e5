//! The work of devices: operations with an order, and what each one needs before it can go on.

use crate::member_call::MemberCall;
use crate::note::KernelMeaning;
use crate::user_kernel::{HostKernel, LaunchShape};
use std::sync::Arc;

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum DeviceWork {
    /// Nothing: a join of others.
    Nothing,
    /// Sets an event; `ticket` counts its records.
    Mark { event: u64, ticket: u64 },
    /// Goes on when an event has been set so often.
    Await { event: u64, ticket: u64 },
    /// Writes a word of 32 bits.
    WriteWord { at: u64, value: u32 },
    /// Goes on when a word of 32 bits has a value, or with `other` any other one.
    WaitWord { at: u64, value: u32, other: bool },
    /// Copies bytes; addresses of no device are the host's.
    Copy { to: u64, from: u64, bytes: usize },
    /// Sets bytes.
    Fill { to: u64, byte: u8, bytes: usize },
    /// Computes what a kernel means, with these parameters.
    Compute { meaning: Arc<KernelMeaning>, params: Vec<u64> },
    /// Runs a kernel of a user's with these words.
    UserKernel { kernel: Arc<HostKernel>, params: Vec<u64>, shape: LaunchShape },
    /// Tells a communicator that this member has come to its next calls.
    Arrive { comm: u64, calls: Arc<Vec<MemberCall>>, turn: u64 },
    /// Goes on when these calls have been carried out.
    Meet { comm: u64, turn: u64 },
}

/// An operation and those before it.
#[derive(Clone, Debug)]
pub(crate) struct WorkNode {
    pub(crate) work: DeviceWork,
    /// Places of nodes that have to be done.
    pub(crate) after: Vec<usize>,
}

/// Operations that are one entry of a stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamTask {
    pub(crate) nodes: Vec<WorkNode>,
    /// By node.
    pub(crate) done: Vec<bool>,
    /// The number of those that are not.
    pub(crate) left: usize,
}

impl StreamTask {
    /// Operations in any order that their predecessors allow.
    pub(crate) fn new(nodes: Vec<WorkNode>) -> Self {
        Self { done: vec![false; nodes.len()], left: nodes.len(), nodes }
    }

    /// Operations one after the other.
    pub(crate) fn in_order(works: impl IntoIterator<Item = DeviceWork>) -> Self {
        let node = |(at, work): (usize, DeviceWork)| WorkNode { work, after: at.checked_sub(1).into_iter().collect() };
        Self::new(works.into_iter().enumerate().map(node).collect())
    }

    /// Nodes that are not done and whose predecessors are.
    pub(crate) fn open_nodes(&self) -> impl Iterator<Item = usize> {
        let is_open = |at: &usize| !self.done[*at] && self.nodes[*at].after.iter().all(|before| self.done[*before]);
        (0..self.nodes.len()).filter(is_open)
    }

    /// A node is done.
    pub(crate) fn complete_node(&mut self, at: usize) {
        if !std::mem::replace(&mut self.done[at], true) {
            self.left -= 1;
        }
    }
}

/// The flags, copies and flags of an exchange kernel, as `src/cuda/codegen/exchange.rs` of the library orders
/// its parameters: the copies go on beside each other.
pub(crate) fn exchange_task(signals: usize, copies: usize, params: &[u64]) -> StreamTask {
    const WORDS: usize = 6;
    let mut nodes: Vec<WorkNode> = Vec::new();
    for &at in &params[..signals] {
        nodes.push(WorkNode { work: DeviceWork::WriteWord { at, value: 1 }, after: Vec::new() });
    }
    let begun: Vec<usize> = (0..nodes.len()).collect();
    let (moves, waits) = params[signals..].split_at(copies * WORDS);
    let mut ends = Vec::new();
    for (number, words) in moves.chunks_exact(WORDS).enumerate() {
        let [offer, from, to, bytes, done] = [words[0], words[1], words[2], words[3], words[4]];
        // Block 0 raises before it copies; the other copies do not wait for it.
        let mut last: Vec<usize> = if number == 0 { begun.clone() } else { Vec::new() };
        let mut push = |work: DeviceWork| {
            nodes.push(WorkNode { work, after: std::mem::take(&mut last) });
            last = vec![nodes.len() - 1];
        };
        if offer != 0 {
            push(DeviceWork::WaitWord { at: offer, value: 0, other: true });
        }
        push(DeviceWork::Copy { to, from, bytes: bytes as usize });
        if offer != 0 {
            push(DeviceWork::WriteWord { at: offer, value: 0 });
        }
        if done != 0 {
            push(DeviceWork::WriteWord { at: done, value: 1 });
        }
        ends.push(last);
    }
    let mut last = ends.into_iter().next().unwrap_or(begun);
    for &at in waits {
        for work in [DeviceWork::WaitWord { at, value: 0, other: true }, DeviceWork::WriteWord { at, value: 0 }] {
            nodes.push(WorkNode { work, after: std::mem::take(&mut last) });
            last = vec![nodes.len() - 1];
        }
    }
    if nodes.is_empty() {
        nodes.push(WorkNode { work: DeviceWork::Nothing, after: Vec::new() });
    }
    StreamTask::new(nodes)
}
