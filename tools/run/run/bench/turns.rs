//! `--turns`: times runs when another process requests them.
//!
//! Each line on standard input requests one turn; the end of the input ends the measurement. So two processes can time
//! their programs in turn on the same devices, with each program loaded once.

use crate::run::cli::BenchOptions;
use crate::run::failure::RunFailure;
use hostir::diag::Diag;
use hostir::diag::message;
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use serde_json::json;

/// Times of each program in the order of their measurement. `turn` takes the number of runs of each program and appends
/// their times; it is called once, or with `--turns` for each line on standard input.
///
/// # Errors
/// Those of `turn`, or if a turn cannot be requested or answered, or there is none.
pub(in crate::run) fn time_turns(
    bench: &BenchOptions,
    programs: usize,
    io: &mut ToolIo<'_>,
    mut turn: impl FnMut(usize, &mut [Vec<f64>]) -> Result<(), RunFailure>,
) -> Result<Vec<Vec<f64>>, RunFailure> {
    let mut times = vec![Vec::new(); programs];
    let count = bench.iterations as usize;
    if !bench.turns {
        turn(count, &mut times)?;
        return Ok(times);
    }
    let mut number = 0;
    while read_line(io)? {
        let before = number * count;
        turn(count, &mut times)?;
        number += 1;
        let latest: Vec<&[f64]> = times.iter().filter_map(|times| times.get(before..)).collect();
        answer_turn(number, &latest, io)?;
    }
    if number == 0 {
        let message = "`--turns` times when a line comes on standard input, but none came";
        return Err(Diag::global_error(errors::VALUE, message).into());
    }
    Ok(times)
}

/// `{"ms":[[1.5,1.4],[2.5,2.4]],"turn":1}`: the times of each program.
fn answer_turn(number: usize, times: &[&[f64]], io: &mut ToolIo<'_>) -> Result<(), RunFailure> {
    let line = format!("{}\n", json!({ "turn": number, "ms": times }));
    let written = io.stdout.write_all(line.as_bytes()).and_then(|()| io.stdout.flush());
    written.map_err(|error| {
        Diag::global_error(errors::WRITE, message!("the times of turn {} cannot be written: {}", number, error)).into()
    })
}

/// Returns true if another line came. Its content does not matter.
fn read_line(io: &mut ToolIo<'_>) -> Result<bool, RunFailure> {
    let mut byte = [0];
    loop {
        match io.stdin.read(&mut byte) {
            Ok(0) => return Ok(false),
            Ok(_) if byte == *b"\n" => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let message = message!("standard input cannot be read: {}", error);
                return Err(Diag::global_error(errors::READ, message).into());
            }
        }
    }
}
