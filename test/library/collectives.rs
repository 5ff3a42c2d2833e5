//! Every communication type in every element type, for teams of any members in any order, every root and
//! every reduce operation, against plain loops.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what is shared by tests fails as tests do")]

use crate::common::Case;
use hostir::data::HostTensor;
use hostir::ir::DType;

/// Element types by their words.
const DTYPES: &[(&str, DType)] = &[
    ("double", DType::Double),
    ("float", DType::Float),
    ("__half", DType::Half),
    ("__bfloat", DType::BFloat16),
    ("__e4m3", DType::Float8E4M3),
    ("__e5m2", DType::Float8E5M2),
    ("int64_t", DType::Int),
    ("int", DType::Int32),
    ("bool", DType::Bool),
];

/// Teams and meshes of the same ranks in other orders: whole, reversed, without rank 0, one member.
const TEAMS: &[(&[u32], &[u32])] = &[
    (&[0, 1, 2, 3], &[0, 1, 2, 3]),
    (&[3, 2, 1, 0], &[0, 1, 2, 3]),
    (&[1, 3], &[3, 1]),
    (&[2, 0, 1], &[2, 0, 1]),
    (&[2], &[2]),
];

/// Columns of every tensor.
const WIDTH: usize = 3;

fn ranks(list: &[u32]) -> String {
    list.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// One communication on four devices: the domains and meshes of both tensors, and its attributes. The
/// other ranks wait for nothing.
fn case(dtype: &str, input: (&str, &[u32]), output: (&str, &[u32]), attrs: &str) -> Case {
    let text = format!(
        "%HostIrContainer {{ (T0_g_{dtype}[{}] (DeviceMesh{{{}}})) -> (T1_g_{dtype}[{}] (DeviceMesh{{{}}})) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=1, zero_init=false, resets_to_zero=false)
  Communication 9 ({attrs}, input=T0, output=T1, backend=NCCL)
  Wait Communication 9
}} // %HostIrContainer
",
        input.0,
        ranks(input.1),
        output.0,
        ranks(output.1)
    );
    Case::new(&text, &[]).devices(4)
}

/// Small numbers that every type holds exactly, and their products and sums too.
fn inputs(case: &Case) -> Vec<HostTensor> {
    let mut inputs = case.random_inputs();
    for tensor in &mut inputs {
        for index in 0..tensor.len() {
            let value = ((index * 7 + 3) % 5) as f64 - 2.0;
            let value = if tensor.dtype().is_float() { value / 2.0 } else { value };
            tensor.set_f64(index, value);
        }
    }
    inputs
}

/// Runs the case and compares with `expected`, which gets the input as rows.
fn check(what: &str, case: &Case, expected: impl Fn(&[Vec<f64>]) -> Vec<Vec<f64>>) {
    let inputs = inputs(case);
    let values: Vec<f64> = (0..inputs[0].len()).map(|index| inputs[0].get_f64(index)).collect();
    let rows: Vec<Vec<f64>> = values.chunks(WIDTH).map(<[f64]>::to_vec).collect();
    let output = case.run_whole(&inputs).unwrap_or_else(|text| panic!("{what}: {text}")).remove(0);
    let mut rounded = HostTensor::zeros(output.dtype(), output.shape());
    for (index, value) in expected(&rows).concat().into_iter().enumerate() {
        rounded.set_f64(index, value);
    }
    assert_eq!(output, rounded, "{what}");
}

fn position(list: &[u32], rank: u32) -> usize {
    list.iter().position(|&other| other == rank).unwrap()
}

#[test]
fn gathers() {
    for &(dtype, _) in DTYPES {
        for &(team, mesh) in TEAMS {
            let n = team.len();
            let (part, whole) = (format!("ideviceIdx.x0{{{n}}}, iS1{{3}}"), format!("iS2{{{n}}}, iS3{{3}}"));
            let joined =
                |rows: &[Vec<f64>]| team.iter().map(|&rank| rows[position(mesh, rank)].clone()).collect::<Vec<_>>();
            let attrs = format!("type=Allgather, team=({})", ranks(team));
            check(&attrs, &case(dtype, (&part, mesh), (&whole, mesh), &attrs), joined);
            for &root in team {
                let attrs = format!("type=Gather, team=({}), root={root}", ranks(team));
                check(&attrs, &case(dtype, (&part, mesh), (&whole, &[root]), &attrs), joined);
            }
        }
    }
}

#[test]
fn scatters_and_broadcasts() {
    for &(dtype, _) in DTYPES {
        for &(team, mesh) in TEAMS {
            let n = team.len();
            let (whole, part) = (format!("iS0{{{n}}}, iS1{{3}}"), format!("ideviceIdx.x2{{{n}}}, iS3{{3}}"));
            let same = format!("iS2{{{n}}}, iS3{{3}}");
            for &root in team {
                let attrs = format!("type=Scatter, team=({}), root={root}", ranks(team));
                // Member j of the team gets row j; the output's rows are in the order of the mesh.
                check(&attrs, &case(dtype, (&whole, &[root]), (&part, mesh), &attrs), |rows| {
                    mesh.iter().map(|&rank| rows[position(team, rank)].clone()).collect()
                });
                let attrs = format!("type=Broadcast, team=({}), root={root}", ranks(team));
                let broadcast = case(dtype, (&whole, &[root]), (&same, mesh), &attrs);
                check(&attrs, &broadcast, <[Vec<f64>]>::to_vec);
            }
        }
    }
}

#[test]
fn sends_in_both_directions() {
    for &(dtype, _) in DTYPES {
        for (team, from, to) in [("1 3", 1, 3), ("1 3", 3, 1), ("3 1", 1, 3), ("2 0", 2, 0)] {
            let attrs = format!("type=SendRecv, team=({team}), root={from}");
            let one = case(dtype, ("iS0{2}, iS1{3}", &[from]), ("iS2{2}, iS3{3}", &[to]), &attrs);
            check(&attrs, &one, <[Vec<f64>]>::to_vec);
        }
    }
}

/// The value that a word of `red_op=` makes of the members' elements; `None` where it has no meaning.
fn fold(word: &str, dtype: DType, values: &[f64]) -> Option<f64> {
    let bits = |f: fn(i64, i64) -> i64| {
        (!dtype.is_float()).then(|| values[1..].iter().fold(values[0] as i64, |a, &b| f(a, b as i64)) as f64)
    };
    let sum: f64 = values.iter().sum();
    match word {
        "sum" => Some(sum),
        "avg" if dtype == DType::Bool => None,
        "avg" if dtype.is_float() => Some(sum / values.len() as f64),
        "avg" => Some((sum / values.len() as f64).trunc()),
        "product" => Some(values.iter().product()),
        "min" => values.iter().copied().reduce(f64::min),
        "max" => values.iter().copied().reduce(f64::max),
        "band" => bits(|a, b| a & b),
        "bor" => bits(|a, b| a | b),
        _ => bits(|a, b| a ^ b),
    }
}

const WORDS: &[&str] = &["sum", "avg", "product", "min", "max", "band", "bor", "bxor"];

/// The members' blocks of `rows` rows combined element by element; the order of members is irrelevant.
fn combined(word: &str, dtype: DType, blocks: &[&[Vec<f64>]]) -> Option<Vec<Vec<f64>>> {
    let row = |row: usize| {
        let element =
            |column: usize| fold(word, dtype, &blocks.iter().map(|block| block[row][column]).collect::<Vec<_>>());
        (0..WIDTH).map(element).collect::<Option<Vec<f64>>>()
    };
    (0..blocks[0].len()).map(row).collect()
}

fn check_reduction(
    word: &str,
    dtype: DType,
    attrs: &str,
    case: &Case,
    expected: impl Fn(&[Vec<f64>]) -> Option<Vec<Vec<f64>>>,
) {
    if combined(word, dtype, &[&[vec![0.0; WIDTH]]]).is_none() {
        let message = case.fails();
        assert!(message.contains("H0406") && message.contains(word), "{attrs}: {message}");
        return;
    }
    check(attrs, case, |rows| expected(rows).unwrap());
}

#[test]
fn reductions() {
    for &(name, dtype) in DTYPES {
        for &(team, mesh) in TEAMS {
            for &word in WORDS {
                let n = team.len();
                let part = format!("ideviceIdx.x0{{{n}}}, iS1{{3}}");
                let whole = format!("rS2{{{n}}}, iS3{{3}}");
                let all = |rows: &[Vec<f64>]| combined(word, dtype, &rows.chunks(1).collect::<Vec<_>>());
                let attrs = format!("type=Allreduce, team=({}), red_op={word}", ranks(team));
                let one = case(name, (&part, mesh), (&whole, mesh), &attrs);
                check_reduction(word, dtype, &attrs, &one, all);
                for &root in team {
                    let attrs = format!("type=Reduce, team=({}), root={root}, red_op={word}", ranks(team));
                    let one = case(name, (&part, mesh), (&whole, &[root]), &attrs);
                    check_reduction(word, dtype, &attrs, &one, all);
                }
                let part = format!("ideviceIdx.x0{{{n}}}, iS1{{{n}}}, iS2{{3}}");
                let spread = format!("rS3{{{n}}}, ideviceIdx.x4{{{n}}}, iS5{{3}}");
                let attrs = format!("type=ReduceScatter, team=({}), red_op={word}", ranks(team));
                let one = case(name, (&part, mesh), (&spread, mesh), &attrs);
                check_reduction(word, dtype, &attrs, &one, |rows| {
                    let all = combined(word, dtype, &rows.chunks(n).collect::<Vec<_>>())?;
                    Some(mesh.iter().map(|&rank| all[position(team, rank)].clone()).collect())
                });
            }
        }
    }
}

/// A ring on the ranks of a mesh without rank 0: each sends to the next and receives from the one before,
/// in one group and with `backend=CUDA` on the stream.
#[test]
fn rings() {
    for &(dtype, _) in DTYPES {
        let group = "  StartCoalescing
  P2PCommunication 1 (type=send, buffer=T0, peer=( ( rank % 3 ) + 1 ), backend=NCCL)
  P2PCommunication 2 (type=recv, buffer=T1, peer=( ( ( rank + 1 ) % 3 ) + 1 ), backend=NCCL)
  EndCoalescing 3
  Wait Communication 3
";
        let stream = group
            .replace("  StartCoalescing\n", "")
            .replace("  EndCoalescing 3\n  Wait Communication 3\n", "  Wait Communication 1\n  Wait Communication 2\n")
            .replace("NCCL", "CUDA");
        for body in [group, &stream] {
            let text = format!(
                "%HostIrContainer {{ (T0_g_{dtype}[ideviceIdx.x0{{3}}, iS1{{3}}] (DeviceMesh{{1 2 3}})) -> (T1_g_{dtype}[ideviceIdx.x2{{3}}, iS3{{3}}] (DeviceMesh{{1 2 3}})) :
  IF Manual ( rank > 0 ):
    T1 = ALLOCATE(buffer=T1, mem_type=global, size=9, zero_init=false, resets_to_zero=false)
{}}} // %HostIrContainer
",
                body.lines().map(|line| format!("  {line}\n")).collect::<String>()
            );
            check(&text, &Case::new(&text, &[]), |rows| vec![rows[2].clone(), rows[0].clone(), rows[1].clone()]);
        }
    }
}
