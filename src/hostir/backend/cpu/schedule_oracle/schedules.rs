//! Schedules: orders of all steps, which are taken one at a time.

use super::steps::{StepId, StepWaits};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The rule by which a schedule chooses among the ready steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChoiceRule {
    /// The first in the order of ranks and instructions.
    InOrder,
    /// The same, but this step only when no other is ready.
    Delayed(StepId),
    /// Any, as a seed chooses.
    Seeded(u64),
}

/// Takes the steps in order; returns fewer than there are if the rest waits forever.
pub(super) fn walk_schedule(waits: &StepWaits, rule: ChoiceRule) -> Vec<StepId> {
    match rule {
        ChoiceRule::InOrder => walk_in_order(waits, None),
        ChoiceRule::Delayed(step) => walk_in_order(waits, Some(step)),
        ChoiceRule::Seeded(seed) => walk_seeded(waits, seed),
    }
}

fn walk_in_order(waits: &StepWaits, delayed: Option<StepId>) -> Vec<StepId> {
    let mut missing = waits.missing.clone();
    let mut order = Vec::with_capacity(missing.len());
    let ready = missing.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut ready: BinaryHeap<Reverse<u32>> = ready.map(|(step, _)| Reverse(step as u32)).collect();
    let mut held = None;
    while let Some(step) = ready.pop().map(|Reverse(step)| StepId(step)).or_else(|| held.take()) {
        if delayed == Some(step) && !ready.is_empty() {
            held = delayed;
            continue;
        }
        order.push(step);
        for &follower in waits.followers_of(step) {
            let count = &mut missing[follower.0 as usize];
            *count -= 1;
            if *count == 0 {
                ready.push(Reverse(follower.0));
            }
        }
    }
    order
}

fn walk_seeded(waits: &StepWaits, seed: u64) -> Vec<StepId> {
    let mut missing = waits.missing.clone();
    let mut order = Vec::with_capacity(missing.len());
    let ready = missing.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut ready: Vec<StepId> = ready.map(|(step, _)| StepId(step as u32)).collect();
    while !ready.is_empty() {
        let drawn = mix_bits(seed.wrapping_add(mix_bits(order.len() as u64)));
        let step = ready.swap_remove((drawn % ready.len() as u64) as usize);
        order.push(step);
        for &follower in waits.followers_of(step) {
            let count = &mut missing[follower.0 as usize];
            *count -= 1;
            if *count == 0 {
                ready.push(follower);
            }
        }
    }
    order
}

/// splitmix64's next output after a state (<https://prng.di.unimi.it/splitmix64.c>).
pub(super) fn mix_bits(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::super::steps::{QueueStep, StepGraph, StepRole, TransferModel};
    use super::*;

    /// Two queues of two steps; the second one's last step waits for the first one's first.
    fn two_queues() -> StepGraph {
        let step = QueueStep { rank: 0, run: 0, inst: None, role: StepRole::Write };
        let mut graph = StepGraph::default();
        let first = graph.add_step(step, &[]);
        graph.add_step(step, &[first]);
        let other = graph.add_step(step, &[]);
        graph.add_step(step, &[first, other]);
        graph
    }

    fn walked(graph: &StepGraph, rule: ChoiceRule) -> Vec<u32> {
        let order = walk_schedule(&graph.waits_of(TransferModel::Windows), rule);
        order.into_iter().map(|step| step.0).collect()
    }

    #[test]
    fn a_delayed_step_comes_when_nothing_else_can() {
        let graph = two_queues();
        assert_eq!(walked(&graph, ChoiceRule::InOrder), [0, 1, 2, 3]);
        assert_eq!(walked(&graph, ChoiceRule::Delayed(StepId(0))), [2, 0, 1, 3]);
        assert_eq!(walked(&graph, ChoiceRule::Delayed(StepId(1))), [0, 2, 3, 1]);
        assert_eq!(walked(&graph, ChoiceRule::Delayed(StepId(2))), [0, 1, 2, 3]);
    }

    #[test]
    fn every_order_keeps_what_waits_say() {
        let graph = two_queues();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..64 {
            let order = walked(&graph, ChoiceRule::Seeded(seed));
            let place = |step: u32| order.iter().position(|&other| other == step);
            assert!(place(0) < place(1) && place(0) < place(3) && place(2) < place(3), "{order:?}");
            seen.insert(order);
        }
        assert_eq!(seen.len(), 5);
    }

    #[test]
    fn what_waits_for_itself_is_never_taken() {
        let mut graph = two_queues();
        graph.add_wait(StepId(3), StepId(2), TransferModel::Causal);
        assert_eq!(walked(&graph, ChoiceRule::InOrder), [0, 1, 2, 3]);
        let waits = graph.waits_of(TransferModel::Causal);
        assert_eq!(walk_schedule(&waits, ChoiceRule::InOrder).len(), 2);
    }
}
