//! Times of communications between hosts, against NCCL's formulas: the bytes of "bus bandwidth" (nccl-tests,
//! PERFORMANCE.md) and the steps of its model (src/graph/tuning.cc). Hosts have 8 GPUs with 50 GB/s each, and a step from
//! host to host takes 10 us, one inside of a host 1.9 us.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what is shared by tests fails as tests do")]

use crate::common::Case;
use hostir::backend::simulation::simulate_run;
use hostir::lower::PreparedProgram;
use hostir::machine::{HostLinks, Machine};
use hostir::plan::cost::CostModel;
use hostir::plan::network::{NetworkTime, TeamPlacement};

/// The hosts of the module's comment.
fn host_links() -> HostLinks {
    let devices = 8u32.try_into().unwrap();
    HostLinks { devices, network_gb_s: 50.0.try_into().unwrap(), network_us: 10.0.try_into().unwrap() }
}

/// Round figures within a host.
fn round_model() -> CostModel {
    CostModel::of_machine(Machine::from_toml(include_str!("../machines/round.toml")).unwrap())
}

/// The network time of rank 0's only communication in a program over a mesh `[y:a, x:b]` with these statements; all
/// ranks take part, or with `over=d.y` those of one position. `X` has 4 n bytes.
fn network_time(statement: &str, hosts: i64, width: i64, elements: i64) -> Option<NetworkTime> {
    let prepared = prepared(statement, hosts, width, elements);
    let plan = &prepared.plans[0];
    let inst = plan.iter().find(|inst| inst.kind.communicator().is_some()).unwrap();
    let team = &plan.communicators[inst.kind.communicator().unwrap()].team;
    let hosts = host_links();
    hosts.network_time(&inst.kind, 0, TeamPlacement::of_team(team, &hosts))
}

fn prepared(statement: &str, hosts: i64, width: i64, elements: i64) -> PreparedProgram {
    let text = format!(
        "hir 2.1
sizes a={hosts}, b={width}, n={elements}
mesh d = [y:a, x:b]
f(X: f32[n] @d) -> (Y: f32[n] @d):
  Y = alloc
  {statement}
"
    );
    Case::new(&text, &[]).prepare().unwrap()
}

/// 160 MB: `2 (D - 1) / D` of them over the 8 shares of a host, or over one; small ones take a tree, up and down over
/// `log2 H` levels, with a ninth more bytes.
#[test]
fn all_reduces() {
    let bytes = 160e6;
    // Two hosts: twice one step between them and seven inside.
    let ring = network_time("wait allreduce(X -> Y)", 2, 8, 40_000_000).unwrap();
    let expected = (2.0 * bytes * 15.0 / 16.0 / 8.0 / 50.0f64).ceil() as u64;
    assert_eq!(ring, NetworkTime { start_ns: 2 * (10_000 + 7 * 1_900), transfer_ns: expected });
    // One GPU of each host has its own share alone.
    let single = network_time("wait allreduce(X -> Y, over=d.y)", 2, 8, 40_000_000).unwrap();
    assert_eq!(single, NetworkTime { start_ns: 2 * 10_000, transfer_ns: 3_200_000 });
    let tree = network_time("wait allreduce(X -> Y)", 128, 8, 250_000).unwrap();
    assert_eq!(tree, NetworkTime { start_ns: 2 * 7 * 10_000, transfer_ns: (2e6 / 0.9 / 8.0 / 50.0f64).ceil() as u64 });
    assert_eq!(network_time("wait allreduce(X -> Y, over=d.x)", 2, 8, 1000), None);
    assert_eq!(network_time("wait allreduce(X -> Y)", 1, 8, 1000), None);
}

/// A message has one step, unless both ranks are on one host.
#[test]
fn messages() {
    let ring = "wait { send(X, to=(rank + 8) % (a * b)); recv(Y, from=(rank + 8) % (a * b)) }";
    let between = network_time(ring, 2, 8, 1_000_000).unwrap();
    assert_eq!(between, NetworkTime { start_ns: 10_000, transfer_ns: 80_000 });
    let neighbours = "wait { send(X, to=(rank + 1) % (a * b)); recv(Y, from=(rank + a * b - 1) % (a * b)) }";
    assert_eq!(network_time(neighbours, 2, 8, 1000), None);
    let narrow = network_time(neighbours, 16, 1, 1000);
    assert_eq!(narrow, None, "hosts have eight ranks in order, whatever the mesh");
}

/// Runs: 80 MB over one share take 10 us and 1.6 ms, twice for an all-reduce, after the start of 10 us. Two that a rank
/// issues at once for different teams share its network: the data of one follow those of the other, which has taken
/// twice a step between hosts and seven inside.
#[test]
fn runs_on_two_hosts() {
    let model = round_model().with_hosts(host_links());
    let one = prepared("wait allreduce(X -> Y, over=d.y)", 2, 8, 20_000_000);
    assert_eq!(simulate_run(&one, &model).unwrap().end_ns(), 10_000 + 20_000 + 1_600_000);
    let within = prepared("wait allreduce(X -> Y, over=d.x)", 2, 8, 20_000_000);
    let alone = simulate_run(&within, &round_model()).unwrap();
    assert_eq!(simulate_run(&within, &model).unwrap(), alone);
    let two = prepared(
        "Z: f32[n] = alloc
  s = allreduce(X -> Z, over=d.y)
  wait allreduce(X -> Y)
  wait s",
        2,
        8,
        20_000_000,
    );
    // Its data take longer on the links inside, of 360 bytes a nanosecond, than on eight shares of 50.
    let first = 2 * (10_000 + 7 * 1_900) + (2.0 * 80e6 * 15.0 / 16.0 / 360.0f64).ceil() as u64;
    assert_eq!(simulate_run(&two, &model).unwrap().end_ns(), 10_000 + first + 1_600_000);
}
