//! A search for constants of a machine that come closer to the measured times, one constant after the other.

use super::rows::ROWS;
use super::{PreparedWay, compare_rows, median_and_most, modelled_times};
use hostir::machine::{Machine, Quantity};

/// A constant of a machine.
type Constant = fn(&mut Machine) -> &mut Quantity;

const CONSTANTS: &[Constant] = &[
    |machine| &mut machine.gemm.bits16_tflops,
    |machine| &mut machine.gemm.start_us,
    |machine| &mut machine.device.memory_gb_s,
    |machine| &mut machine.device.reduction_gb_s,
    |machine| &mut machine.nccl.collective_us,
    |machine| &mut machine.nccl.allgather_gb_s,
    |machine| &mut machine.nccl.allreduce_gb_s,
    |machine| &mut machine.nccl.message_us,
    |machine| &mut machine.nccl.message_gb_s,
    |machine| &mut machine.nccl.message_beside_gb_s,
    |machine| &mut machine.copies.start_us,
    |machine| &mut machine.stores.store_gb_s,
    |machine| &mut machine.semaphores.signal_us,
    |machine| &mut machine.host.call_us,
];

/// The mean of the logarithms' distances, without a row.
fn distance(ways: &[PreparedWay], machine: &Machine, left_out: usize) -> f64 {
    let kept = ways.iter().filter(|way| way.row != left_out);
    let all = kept.flat_map(|way| {
        let times = modelled_times(way, machine);
        [0, 1].map(|mode| (times[mode] / way.measured[mode]).ln().abs())
    });
    let all: Vec<f64> = all.collect();
    all.iter().sum::<f64>() / all.len() as f64
}

fn fitted_machine(ways: &[PreparedWay], machine: &Machine, left_out: usize) -> Machine {
    let mut best = machine.clone();
    let mut least = distance(ways, &best, left_out);
    for step in [1.25, 1.1, 1.04] {
        for _ in 0..3 {
            let before = least;
            for constant in CONSTANTS {
                for factor in [step, 1.0 / step] {
                    let mut tried = best.clone();
                    let value = constant(&mut tried);
                    let Ok(changed) = Quantity::try_from(value.get() * factor) else { continue };
                    *value = changed;
                    let found = distance(ways, &tried, left_out);
                    if found < least {
                        (best, least) = (tried, found);
                    }
                }
            }
            if before - least < 1e-4 {
                break;
            }
        }
    }
    best
}

/// Prints the machine that fits all rows, and the errors of each row by a machine that fits the others.
pub(crate) fn fit_machine(ways: &[PreparedWay], machine: Machine) {
    let all = fitted_machine(ways, &machine, usize::MAX);
    println!("{}\n{}", all.to_toml(), compare_rows(ways, &all).text);
    let mut errors = Vec::new();
    for (left_out, row) in ROWS.iter().enumerate() {
        let fitted = fitted_machine(ways, &machine, left_out);
        let own = ways.iter().filter(|way| way.row == left_out).flat_map(|way| {
            let times = modelled_times(way, &fitted);
            [0, 1].map(|mode| (times[mode] / way.measured[mode] - 1.0).abs())
        });
        let own: Vec<f64> = own.collect();
        println!("{} by the other rows: {:.3?}", row.name, median_and_most(own.clone()));
        errors.extend(own);
    }
    println!("leave one out: {:.3?}", median_and_most(errors));
}
