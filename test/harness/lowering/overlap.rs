//! Random sharded programs, as layers of models are sharded, through `overlap-lower`.
//!
//! Rows lie across devices (`[x:D, m, c]`), or columns do (`[x:D, D, m, c]`, with the rows as parts). Rows are gathered
//! by products, products of columns are summed over devices, and gradients of weights contract the rows. Parts are
//! exchanged between all devices, before and after products (`[D, x:D, m, c]`).
//!
//! `HIR_PROGRAMS=20000 cargo test -p hostir-test --test properties overlap` runs that many programs.

use super::generate::Generated;
use super::run::{Outcome, compare};
use super::{TAILS, effort};
use fastrand::Rng;
use std::collections::BTreeMap;

/// A tensor of a program: its name, and the number of its columns.
#[derive(Clone)]
struct Shard {
    name: String,
    columns: usize,
}

struct LayerGenerator<'r> {
    rng: &'r mut Rng,
    devices: usize,
    rows: usize,
    inputs: Vec<String>,
    outputs: Vec<String>,
    body: Vec<String>,
    /// Tensors whose rows lie across devices, and those whose columns do.
    by_rows: Vec<Shard>,
    by_columns: Vec<Shard>,
    /// Broadcasts of tensors by rows.
    widened: Vec<(String, String)>,
    next: usize,
}

impl<'r> LayerGenerator<'r> {
    fn new(rng: &'r mut Rng) -> Self {
        let (devices, rows) = (rng.usize(2..=4), rng.usize(1..=4));
        Self {
            rng,
            devices,
            rows,
            inputs: Vec::new(),
            outputs: Vec::new(),
            body: Vec::new(),
            by_rows: Vec::new(),
            by_columns: Vec::new(),
            widened: Vec::new(),
            next: 0,
        }
    }

    fn name(&mut self, stem: &str) -> String {
        self.next += 1;
        format!("{stem}{}", self.next)
    }

    fn input(&mut self, stem: &str, axes: &str) -> String {
        let name = self.name(stem);
        self.inputs.push(format!("{name}: f32[{axes}]"));
        name
    }

    fn weight(&mut self, from: usize, to: usize) -> String {
        let (devices, whole) = (self.devices, self.rng.usize(..6) == 0);
        if self.rng.bool() || whole {
            return self.input("W", &format!("x:{devices}, b.1, {from}, {to}"));
        }
        let weight = self.input("W", &format!("x:{devices}, b.1, {to}, {from}"));
        let turned = self.name("T");
        self.body.push(format!("{turned} = Set.Permute({weight}, perm=[0, 1, 3, 2])"));
        turned
    }

    fn any_rows(&mut self) -> Shard {
        if self.by_rows.is_empty() || self.rng.usize(..4) == 0 {
            let (devices, rows, columns) = (self.devices, self.rows, self.rng.usize(1..=3));
            let name = self.input("X", &format!("x:{devices}, {rows}, {columns}"));
            self.by_rows.push(Shard { name, columns });
        }
        self.by_rows[self.rng.usize(..self.by_rows.len())].clone()
    }

    fn any_columns(&mut self) -> Shard {
        if self.by_columns.is_empty() || self.rng.usize(..4) == 0 {
            let (devices, rows, columns) = (self.devices, self.rows, self.rng.usize(1..=3));
            let name = self.input("U", &format!("x:{devices}, {devices}, {rows}, {columns}"));
            self.by_columns.push(Shard { name, columns });
        }
        self.by_columns[self.rng.usize(..self.by_columns.len())].clone()
    }

    fn widen(&mut self, rows: &str) -> String {
        let known = self.widened.iter().find(|(source, _)| source == rows).map(|(_, made)| made.clone());
        known.filter(|_| self.rng.usize(..4) > 0).unwrap_or_else(|| {
            let made = self.name("G");
            self.body.push(format!("{made} = broadcast({rows}, flags=[true, false, false, false])"));
            self.widened.push((rows.to_owned(), made.clone()));
            made
        })
    }

    /// A statement whose result has a type, in the header or at its place.
    fn declared(&mut self, name: &str, axes: &str, value: &str) {
        let target = if self.rng.bool() {
            self.outputs.push(format!("{name}: {axes}"));
            name.to_owned()
        } else {
            format!("{name}: {axes}")
        };
        self.body.push(format!("{target} = {value}"));
    }

    fn gather_product(&mut self) {
        let (source, to) = (self.any_rows(), self.rng.usize(1..=3));
        let (left, weight) = (self.widen(&source.name), self.weight(source.columns, to));
        let name = self.name("U");
        let (devices, rows, from) = (self.devices, self.rows, source.columns);
        let axes = format!("f32[x:{devices}, {devices}, {rows}, {to}, r.{from}]");
        self.declared(&name, &axes, &format!("matmul({left}, {weight})"));
        self.by_columns.push(Shard { name, columns: to });
    }

    fn pointwise(&mut self) {
        let (shard, name) = (self.any_columns(), self.name("V"));
        let other = self.any_columns();
        let value = match self.rng.usize(..4) {
            0 if other.columns == shard.columns => format!("{} + {}", shard.name, other.name),
            1 => format!("abs({})", shard.name),
            2 => format!("f32({})", self.convert_shard(&shard)),
            _ => format!("relu({})", shard.name),
        };
        let axes = format!("f32[x:{0}, {0}, {1}, {2}]", self.devices, self.rows, shard.columns);
        self.declared(&name, &axes, &value);
        self.by_columns.push(Shard { name, columns: shard.columns });
    }

    /// A conversion to another type, which may be an output: the kernel that converts back then has two results.
    fn convert_shard(&mut self, shard: &Shard) -> String {
        let name = self.name("C");
        let axes = format!("f64[x:{0}, {0}, {1}, {2}]", self.devices, self.rows, shard.columns);
        self.declared(&name, &axes, &format!("f64({})", shard.name));
        name
    }

    /// A product of columns, plus `added`.
    fn product_of_columns(&mut self, to: usize, added: Option<&str>) -> String {
        let shard = self.any_columns();
        let weight = self.weight(shard.columns, to);
        let product = self.name("P");
        let (devices, rows, from) = (self.devices, self.rows, shard.columns);
        let value = match added {
            Some(sum) => format!("matmul_add({}, {weight}, {sum})", shard.name),
            None => format!("matmul({}, {weight})", shard.name),
        };
        self.body.push(format!("{product}: f32[x:{devices}, {devices}, {rows}, {to}, r.{from}] = {value}"));
        self.maybe_between();
        product
    }

    fn sum_over_devices(&mut self) {
        let (devices, rows, to) = (self.devices, self.rows, self.rng.usize(1..=3));
        let mut product = self.product_of_columns(to, None);
        while self.rng.usize(..3) == 0 {
            product = self.product_of_columns(to, Some(&product));
        }
        let name = self.name("Y");
        self.body.push(format!("{name} = reduction({product}, op=add, init=f32(0), allreduce=false)"));
        if self.rng.usize(..3) > 0 {
            self.outputs.push(format!("{name}: f32[r.{devices}, x:{devices}, {rows}, {to}]"));
            self.by_rows.push(Shard { name, columns: to });
        } else {
            self.outputs.push(format!("{name}: f32[r.{devices}, {devices}, {rows}, {to}]"));
        }
    }

    fn gradient(&mut self) {
        let (rows, columns) = (self.any_rows(), self.any_columns());
        let wide = self.widen(&rows.name);
        let (turned, product, name) = (self.name("T"), self.name("P"), self.name("D"));
        let devices = self.devices;
        let (left, right, axes) = if self.rng.bool() {
            self.body.push(format!("{turned} = Set.Permute({wide}, perm=[0, 1, 3, 2])"));
            (turned, columns.name, format!("{}, {}", rows.columns, columns.columns))
        } else {
            self.body.push(format!("{turned} = Set.Permute({}, perm=[0, 1, 3, 2])", columns.name));
            (turned, wide, format!("{}, {}", columns.columns, rows.columns))
        };
        let statement = format!("{product}: f32[x:{devices}, {devices}, {axes}, r.{}]", self.rows);
        self.body.push(format!("{statement} = matmul({left}, {right})"));
        self.maybe_between();
        if self.rng.usize(..8) == 0 {
            let other = self.name("Q");
            self.body.push(format!("{other} = relu({product})"));
            self.outputs.push(format!("{other}: f32[x:{devices}, {devices}, {axes}]"));
        }
        self.body.push(format!("{name} = reduction({product}, op=add, init=f32(0), allreduce=false)"));
        self.outputs.push(format!("{name}: f32[x:{devices}, r.{devices}, {axes}]"));
    }

    fn gathered_copy(&mut self) {
        let (rows, name) = (self.any_rows(), self.name("H"));
        self.body.push(format!("{name} = Set({})", rows.name));
        self.outputs.push(format!("{name}: f32[{}, {}, {}]", self.devices, self.rows, rows.columns));
    }

    /// A product of exchanged parts, whose result is exchanged back; either exchange may be missing.
    fn exchanged_product(&mut self) {
        let (devices, rows, to) = (self.devices, self.rows, self.rng.usize(1..=3));
        let (parts, from) = if self.rng.usize(..4) > 0 {
            let (source, name) = (self.any_columns(), self.name("E"));
            self.declared(
                &name,
                &format!("f32[{devices}, x:{devices}, {rows}, {}]", source.columns),
                &format!("Set({})", source.name),
            );
            (name, source.columns)
        } else {
            (self.input("A", &format!("{devices}, x:{devices}, {rows}, 2")), 2)
        };
        self.maybe_between();
        let weight = self.input("W", &format!("b.1, x:{devices}, {from}, {to}"));
        let axes = format!("f32[{devices}, x:{devices}, {rows}, {to}]");
        let mut made = self.name("P");
        self.declared(&made.clone(), &axes, &format!("matmul({parts}, {weight})"));
        if self.rng.bool() {
            let (bias, function) = (self.input("B", &format!("b.1, x:{devices}, b.1, {to}")), self.name("V"));
            self.declared(&function, &axes, &format!("{made} * {bias}"));
            made = function;
        }
        self.maybe_between();
        if self.rng.usize(..4) == 0 {
            let kept = self.name("Q");
            self.body.push(format!("{kept} = abs({made})"));
            self.outputs.push(format!("{kept}: {axes}"));
            return;
        }
        let name = self.name("Y");
        self.declared(&name, &format!("f32[x:{devices}, {devices}, {rows}, {to}]"), &format!("Set({made})"));
        self.by_columns.push(Shard { name, columns: to });
    }

    fn maybe_between(&mut self) {
        if self.rng.usize(..4) == 0 {
            self.pointwise();
        }
    }

    fn program(mut self) -> Generated {
        for _ in 0..self.rng.usize(1..=5) {
            match self.rng.usize(..10) {
                0 | 1 => self.gather_product(),
                2 | 3 => self.sum_over_devices(),
                4 | 5 => self.gradient(),
                6 => self.pointwise(),
                7 | 8 => self.exchanged_product(),
                _ => self.gathered_copy(),
            }
        }
        if self.outputs.is_empty() {
            self.gradient();
        }
        let (inputs, outputs) = (self.inputs.join(", "), self.outputs.join(", "));
        let text = format!(
            "hir 2\nmesh d = 0..{}\n\nlayer({inputs}) -> ({outputs}) on d:\n  {}\n",
            self.devices,
            self.body.join("\n  ")
        );
        Generated { text, set: BTreeMap::new(), lowers: None, own_names: false, mesh: None }
    }
}

/// Options of the pass, each given in four of ten cases.
const OPTIONS: &[&[&str]] = &[
    &["allgather_matmul=none"],
    &["matmul_reduce_scatter=p2p", "matmul_reduce_scatter=p2p", "matmul_reduce_scatter=none"],
    &["matmul_allreduce=p2p", "matmul_allreduce=p2p", "matmul_allreduce=none"],
    &["reduce_scatter_chunks=1", "reduce_scatter_chunks=2", "reduce_scatter_chunks=3"],
    &["allreduce_chunks=1", "allreduce_chunks=2", "allreduce_chunks=3"],
    &["gather_into=buffer"],
    &["own_part=return"],
];

fn overlap_options(rng: &mut Rng) -> String {
    let mut given = Vec::new();
    for values in OPTIONS {
        if rng.usize(..10) < 4 {
            given.push(values[rng.usize(..values.len())]);
        }
    }
    if given.is_empty() { String::new() } else { format!("{{{}}}", given.join(",")) }
}

#[test]
#[allow(clippy::print_stdout, reason = "says how many programs were lowered")]
fn layers_that_overlap_compute_the_same() {
    let (count, seed) = (effort::cases("HIR_PROGRAMS", 300, 20_000), effort::number("HIR_SEED").unwrap_or(1));
    let (mut lowered, mut refused) = (0, BTreeMap::<&str, u64>::new());
    for index in 0..count {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1 << 34).wrapping_add(index));
        let generated = LayerGenerator::new(&mut rng).program();
        let pipeline = format!("overlap-lower{}{}", overlap_options(&mut rng), TAILS[rng.usize(..TAILS.len())]);
        let streams = [1, 2, 3, 8][rng.usize(..4)];
        match compare(&generated, &pipeline, streams, rng.bool()) {
            Outcome::Equal => lowered += 1,
            Outcome::Refused(code) => *refused.entry(code).or_default() += 1,
            Outcome::Wrong(text) => {
                panic!(
                    "program {index} of seed {seed}, pipeline {pipeline}, {streams} streams\n{text}\n{}",
                    generated.text
                )
            }
        }
    }
    println!("{lowered} programs lowered and compared; refused: {refused:?}");
    assert!(!refused.contains_key("H0322"), "kernels of several results are refused: {refused:?}");
    assert!(lowered * 10 >= count * 9, "only {lowered} of {count} programs could be lowered: {refused:?}");
}
