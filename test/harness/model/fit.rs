//! A search for constants of a machine that come closer to the measured times, one constant after the other.

use super::rows::ROWS;
use super::{PreparedWay, RowChoices, choose_way, compare_rows, median_and_most, modelled_times};
use hostir::machine::{Machine, Micros, Quantity, Share};

/// Multiplies a constant of a machine.
type ScaleConstant = fn(&mut Machine, f64);

const CONSTANTS: &[ScaleConstant] = &[
    |machine, factor| scale_rate(&mut machine.gemm.bits16_tflops, factor),
    |machine, factor| scale_time(&mut machine.gemm.start_us, factor),
    |machine, factor| scale_rate(&mut machine.device.memory_gb_s, factor),
    |machine, factor| scale_rate(&mut machine.device.reduction_gb_s, factor),
    |machine, factor| scale_time(&mut machine.nccl.collective_us, factor),
    |machine, factor| scale_rate(&mut machine.nccl.allgather_gb_s, factor),
    |machine, factor| scale_rate(&mut machine.nccl.reduce_scatter_gb_s, factor),
    |machine, factor| scale_rate(&mut machine.nccl.allreduce_gb_s, factor),
    |machine, factor| scale_time(&mut machine.nccl.message_us, factor),
    |machine, factor| scale_rate(&mut machine.nccl.message_gb_s, factor),
    |machine, factor| scale_rate(&mut machine.nccl.message_beside_gb_s, factor),
    |machine, factor| scale_share(&mut machine.nccl.collective_share, factor),
    |machine, factor| scale_share(&mut machine.nccl.message_share, factor),
    |machine, factor| scale_time(&mut machine.copies.start_us, factor),
    |machine, factor| scale_rate(&mut machine.copies.copy_gb_s, factor),
    |machine, factor| scale_rate(&mut machine.stores.store_gb_s, factor),
    |machine, factor| scale_time(&mut machine.semaphores.signal_us, factor),
    |machine, factor| scale_time(&mut machine.host.call_us, factor),
];

fn scale_rate(rate: &mut Quantity, factor: f64) {
    *rate = Quantity::try_from(rate.get() * factor).unwrap_or(*rate);
}

fn scale_time(time: &mut Micros, factor: f64) {
    *time = Micros::try_from(time.get() * factor).unwrap_or(*time);
}

fn scale_share(share: &mut Share, factor: f64) {
    *share = Share::try_from(share.get() * factor).unwrap_or(*share);
}

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

/// Most rounds over all constants with one step.
const ROUNDS: usize = 6;

fn fitted_machine(ways: &[PreparedWay], machine: &Machine, left_out: usize) -> Machine {
    let mut best = machine.clone();
    let mut least = distance(ways, &best, left_out);
    for step in [1.25, 1.1, 1.04] {
        for _ in 0..ROUNDS {
            let before = least;
            for constant in CONSTANTS {
                for factor in [step, 1.0 / step] {
                    let mut tried = best.clone();
                    constant(&mut tried, factor);
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

/// Prints the machine that fits all rows, and the errors and the choice of each row by a machine that fits the others.
pub(crate) fn fit_machine(ways: &[PreparedWay], machine: Machine) {
    let all = fitted_machine(ways, &machine, usize::MAX);
    println!("{}\n{}", all.to_toml(), compare_rows(ways, &all).text);
    let mut errors = Vec::new();
    let mut choices = [RowChoices::default(), RowChoices::default()];
    for (left_out, row) in ROWS.iter().enumerate() {
        let fitted = fitted_machine(ways, &machine, left_out);
        let own: Vec<(&PreparedWay, [f64; 2])> =
            ways.iter().filter(|way| way.row == left_out).map(|way| (way, modelled_times(way, &fitted))).collect();
        let of_row =
            own.iter().flat_map(|(way, times)| [0, 1].map(|mode| (times[mode] / way.measured[mode] - 1.0).abs()));
        let of_row: Vec<f64> = of_row.collect();
        let chosen = [0, 1].map(|mode| choose_way(&own, mode));
        let texts = chosen.each_ref().map(|choice| format!("{} {:.3}x", choice.chosen, choice.regret));
        let errors_text = format!("{:.3?}", median_and_most(of_row.clone()));
        println!("{} by the other rows: errors {errors_text}, calls {}, graph {}", row.name, texts[0], texts[1]);
        errors.extend(of_row);
        for (of_mode, choice) in choices.iter_mut().zip(chosen) {
            of_mode.add_regret(choice.regret);
        }
    }
    println!("leave one out: {:.3?}", median_and_most(errors));
    for (of_mode, name) in choices.iter().zip(["calls", "graph"]) {
        let (right, mean, largest) = (of_mode.right, of_mode.mean_regret(), of_mode.largest);
        println!("chosen as {name}: {right} right, mean regret {mean:.4}, largest {largest:.3}");
    }
}
