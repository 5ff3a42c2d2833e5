//! Schedules: orders in which all steps are taken, one at a time.

use super::steps::{StepId, StepWaits};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The rule by which a schedule chooses among the steps that may be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChoiceRule {
    /// The first in the order of ranks and instructions.
    InOrder,
    /// The same, but this step only when nothing else may be taken.
    Delayed(StepId),
    /// Any, as a seed chooses.
    Seeded(u64),
}

/// Steps in the order in which they are taken; fewer than there are if the rest waits for ever.
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

/// splitmix64's next output behind a state (<https://prng.di.unimi.it/splitmix64.c>).
pub(super) fn mix_bits(state: u64) -> u64 {
    let mut bits = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
