//! Memory of loops: random programs with values that iterations leave for each other compute the same after
//! the passes that allocate and free.

use super::meaning::compare_meaning;
use super::run::{apply, load, outputs};
use crate::effort;
use fastrand::Rng;
use hostir::ir::{Id, TensorId};
use hostir::lower;
use hostir::lower::SizeSettings;
use std::collections::BTreeMap;

/// Programs of an ordinary test run.
const QUICK: u64 = 1500;

const PIPELINES: &[&str] = &["allocate-and-deallocate", "insert-deallocations"];

/// The axes of a tensor in the text.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Row,
    Square,
    Product,
}

#[derive(Clone, Copy, PartialEq)]
struct Tensor {
    number: usize,
    shape: Shape,
}

struct Generator<'r> {
    rng: &'r mut Rng,
    next: usize,
    units: String,
    next_unit: usize,
    /// Indices of the loops around.
    indices: Vec<String>,
    /// The tensors that each block around has made so far.
    known: Vec<Vec<Tensor>>,
    /// Everything that was made.
    all: Vec<Tensor>,
}

fn full(tensor: Tensor) -> String {
    let Tensor { number, shape } = tensor;
    let domain = 10 * number;
    match shape {
        Shape::Row => format!("T{number}_g_float[iS{domain}{{2}}]"),
        Shape::Square => format!("T{number}_g_float[iS{domain}{{2}}, iS{}{{2}}]", domain + 1),
        Shape::Product => format!("T{number}_g_float[iS{domain}{{2}}, iS{}{{2}}, rS{}{{2}}]", domain + 1, domain + 2),
    }
}

/// Inputs, and an output that is written row by row.
const ROW: Tensor = Tensor { number: 0, shape: Shape::Row };
const SQUARE: Tensor = Tensor { number: 1, shape: Shape::Square };
const RESULT: Tensor = Tensor { number: 2, shape: Shape::Row };
const ROWS: &str = "T3_g_float[iS30{4}, iS31{2}]";

fn program(rng: &mut Rng) -> String {
    let known = vec![vec![ROW, SQUARE]];
    let mut generator =
        Generator { rng, next: 4, units: String::new(), next_unit: 0, indices: Vec::new(), known, all: Vec::new() };
    let mut body = format!(
        "  {ROWS} = ALLOCATE(buffer=T3, mem_type=global, size=8, zero_init=true, resets_to_zero=false)\n  GetCurrentStream into Stream 9\n"
    );
    for _ in 0..generator.rng.usize(..3) {
        generator.statement(&mut body, 2, 3);
    }
    generator.looped(&mut body, 2, 0);
    for _ in 0..generator.rng.usize(..3) {
        generator.statement(&mut body, 2, 3);
    }
    let (a, b) = (generator.after(), generator.after());
    body.push_str(&format!("  {}\n     = {}\n     + {};\n", full(RESULT), full(a), full(b)));
    format!(
        "%HostIrContainer {{ ({}, {}) -> ({}, {ROWS}) :\n{body}{}}} // %HostIrContainer\n",
        full(ROW),
        full(SQUARE),
        full(RESULT),
        generator.units
    )
}

impl Generator<'_> {
    fn chance(&mut self, of_ten: usize) -> bool {
        self.rng.usize(..10) < of_ten
    }

    /// A tensor that has a value here, or, now and then, any.
    fn read(&mut self, shape: Shape) -> Tensor {
        let guarded = self.known.last().is_some_and(Vec::is_empty);
        let odds = if guarded { 6 } else { 1 };
        if self.chance(odds)
            && let Some(tensor) = self.any(shape)
        {
            return tensor;
        }
        let all: Vec<Tensor> = self.known.iter().flatten().copied().filter(|tensor| tensor.shape == shape).collect();
        match all.len() {
            0 => {
                if shape == Shape::Square {
                    SQUARE
                } else {
                    ROW
                }
            }
            // Newer ones more often.
            count => all[count - 1 - self.rng.usize(..count).min(self.rng.usize(..count))],
        }
    }

    fn any(&mut self, shape: Shape) -> Option<Tensor> {
        let all: Vec<Tensor> = self.all.iter().copied().filter(|tensor| tensor.shape == shape).collect();
        (!all.is_empty()).then(|| all[self.rng.usize(..all.len())])
    }

    fn after(&mut self) -> Tensor {
        if self.chance(7) { self.any(Shape::Row).unwrap_or(ROW) } else { self.read(Shape::Row) }
    }

    /// A new result, or, now and then, one that was written before.
    fn result(&mut self, shape: Shape) -> Tensor {
        if self.chance(2)
            && let Some(known) = self.any(shape)
        {
            return known;
        }
        let number = self.next;
        self.next += 1;
        Tensor { number, shape }
    }

    fn made(&mut self, tensor: Tensor) {
        if let Some(block) = self.known.last_mut() {
            block.push(tensor);
        }
        if !self.all.contains(&tensor) {
            self.all.push(tensor);
        }
    }

    fn statement(&mut self, out: &mut String, indent: usize, depth: usize) {
        let pad = " ".repeat(indent);
        match self.rng.usize(..14) {
            0..=2 => self.add(out, &pad),
            3 => {
                let a = self.read(Shape::Row);
                let result = self.result(Shape::Row);
                out.push_str(&format!("{pad}{}\n{pad}   = abs({});\n", full(result), full(a)));
                self.made(result);
            }
            4 | 5 => self.product(out, &pad),
            6 | 7 => self.row_of(out, &pad),
            8 => self.allocate(out, &pad),
            9 | 10 => self.post(out, &pad),
            11 => self.fill_row(out, &pad),
            12 if depth < 3 && !self.indices.is_empty() => self.branch(out, indent, depth),
            13 if depth < 2 => self.looped(out, indent, depth + 1),
            _ => self.add(out, &pad),
        }
    }

    fn add(&mut self, out: &mut String, pad: &str) {
        let (a, b) = (self.read(Shape::Row), self.read(Shape::Row));
        let result = self.result(Shape::Row);
        out.push_str(&format!("{pad}{}\n{pad}   = {}\n{pad}   - {};\n", full(result), full(a), full(b)));
        self.made(result);
    }

    fn product(&mut self, out: &mut String, pad: &str) {
        let result = self.result(Shape::Product);
        let b = self.read(Shape::Square);
        let (result, b) = (full(result), (full(b), result));
        out.push_str(&format!("{pad}{result}\n{pad}   = matmul({},\n{pad}            {})\n", full(SQUARE), b.0));
        self.made(b.1);
    }

    /// A part of something, the same memory.
    fn row_of(&mut self, out: &mut String, pad: &str) {
        let of = match self.any(Shape::Product).filter(|_| self.rng.usize(..3) > 0) {
            Some(_) => self.read(Shape::Product),
            None => self.read(Shape::Square),
        };
        let of = if of.shape == Shape::Row { SQUARE } else { of };
        let result = self.result(Shape::Row);
        let axis = 10 * of.number;
        let at = self.rng.usize(..2);
        out.push_str(&format!(
            "{pad}{}\n{pad}   = HirAliasSelect( {}, axis = iS{axis}{{2}}, index = {at} )\n",
            full(result),
            full(of)
        ));
        self.made(result);
    }

    fn fill_row(&mut self, out: &mut String, pad: &str) {
        let Some(index) = self.indices.first().cloned() else { return self.add(out, pad) };
        let a = self.read(Shape::Row);
        let part = Tensor { number: self.next, shape: Shape::Row };
        self.next += 1;
        let part = full(part);
        out.push_str(&format!(
            "{pad}{part}\n{pad}   = HirAliasSelect( {ROWS}, axis = iS30{{4}}, index = {index} )\n{pad}{part}\n{pad}   = abs({});\n",
            full(a)
        ));
    }

    fn allocate(&mut self, out: &mut String, pad: &str) {
        let result = self.result(Shape::Row);
        let text = full(result);
        let zero = self.rng.bool();
        let keep = ["", ", keep=true", ", keep=false"][self.rng.usize(..3)];
        let form = match self.rng.bool() {
            true => format!("mem_type=global, zero_init={zero}"),
            false => format!("buffer={text}, mem_type=global, size=2, zero_init={zero}, resets_to_zero=false"),
        };
        out.push_str(&format!("{pad}{text} = ALLOCATE({form}{keep})\n"));
        if zero {
            self.made(result);
        }
    }

    /// A HostUnit with two results.
    fn post(&mut self, out: &mut String, pad: &str) {
        let input = self.read(Shape::Row);
        let (a, b) = (self.result(Shape::Row), self.result(Shape::Row));
        if a == b {
            return;
        }
        let unit = self.next_unit;
        self.next_unit += 1;
        out.push_str(&format!(
            "{pad}PostOnStream (HostUnit{unit}, Inputs:{{{}, }}, Outputs:{{{}, {}, }})\n",
            full(input),
            full(a),
            full(b)
        ));
        let [x, y, z] = [0, 1, 2].map(|number| full(Tensor { number, shape: Shape::Row }));
        self.units.push_str(&format!(
            "\nHostUnit{unit}: Inputs={{{x}, }} -> Outputs={{{y}, {z}, }}Inputs:\n  {x}\nOutputs:\n  {y}\n  {z}\n\n%kernel {{\n{y}\n   = abs({x});\n{z}\n   = {x}\n   + {x};\n}} // %kernel\n"
        ));
        self.made(a);
        self.made(b);
    }

    fn branch(&mut self, out: &mut String, indent: usize, depth: usize) {
        let at = self.rng.usize(..self.indices.len());
        let index = self.indices[at].clone();
        let compare = ["!=", "==", "<", ">"][self.rng.usize(..4)];
        let bound = self.rng.usize(..3);
        let pad = " ".repeat(indent);
        out.push_str(&format!("{pad}IF Manual ( {index} {compare} {bound} ):\n"));
        self.block(out, indent + 2, depth + 1);
    }

    fn looped(&mut self, out: &mut String, indent: usize, depth: usize) {
        let pad = " ".repeat(indent);
        let index = format!("j{}", self.indices.len());
        out.push_str(&format!("{pad}FOR {index} from 0 to {}:\n", self.rng.usize(2..=4)));
        self.indices.push(index.clone());
        let streams = self.rng.usize(..3) == 0;
        if streams {
            // In the order of the text: nothing here is about races of the program itself.
            out.push_str(&format!(
                "{pad}  SetCurrentStream to Stream ( {index} % numberOfStreams )\n{pad}  FOR s from 0 to numberOfStreams:\n{pad}    Synchronize Stream ( s % numberOfStreams )\n{pad}  Synchronize Stream 9\n"
            ));
        }
        self.block(out, indent + 2, depth + 1);
        self.indices.pop();
    }

    /// In a loop's body the first statement may look at what comes later.
    fn block(&mut self, out: &mut String, indent: usize, depth: usize) {
        self.known.push(Vec::new());
        let mut rest = String::new();
        for _ in 0..self.rng.usize(1..=5) {
            self.statement(&mut rest, indent, depth);
        }
        let made = self.known.pop().unwrap_or_default();
        if self.chance(6)
            && let Some(index) = self.indices.last().cloned()
            && let Some(late) = made.iter().rev().find(|tensor| tensor.shape == Shape::Row)
        {
            let late = if self.rng.bool() { self.any(Shape::Row).unwrap_or(*late) } else { *late };
            let result = Tensor { number: self.next, shape: Shape::Row };
            self.next += 1;
            let pad = " ".repeat(indent);
            out.push_str(&format!(
                "{pad}IF Manual ( {index} != 0 ):\n{pad}  {}\n{pad}     = {}\n{pad}     + {};\n",
                full(result),
                full(late),
                full(ROW)
            ));
            self.all.push(result);
        }
        out.push_str(&rest);
        if let Some(around) = self.known.last_mut().filter(|_| self.rng.bool()) {
            around.extend(made);
        }
    }
}

/// The number of buffers of each tensor by its number; more than one for results that are new in each iteration.
fn buffers(text: &str) -> Result<BTreeMap<u32, usize>, String> {
    let program = load(text)?;
    let prepared = lower::prepare_program(&program, &SizeSettings { streams: 2, ..SizeSettings::default() })
        .map_err(|_| "no plan".to_owned())?;
    let mut counts = BTreeMap::new();
    for (_, buffer) in prepared.plans[0].buffers.iter() {
        let tensor: TensorId = buffer.tensor;
        if tensor.index() < program.tensors().len() {
            *counts.entry(program.tensor(tensor).number).or_default() += 1;
        }
    }
    Ok(counts)
}

fn check(text: &str, passes: &str) -> Result<bool, String> {
    let set = BTreeMap::new();
    // Reads of what nothing wrote are common, and no matter here.
    let Ok(program) = load(text) else { return Ok(false) };
    let Ok(plain) = outputs(&program, &set, 2) else { return Ok(false) };
    let mut changed = program;
    if let Some(code) = apply(&mut changed, text, passes)? {
        return Err(format!("refused with {code}"));
    }
    let printed = hostir::print::print_to_string(&changed);
    let again = load(&printed)?;
    let found = outputs(&again, &set, 2).map_err(|message| format!("{message}\n{printed}"))?;
    if plain.values != found.values {
        return Err(format!("{:?}, then {:?}\n{printed}", plain.values, found.values));
    }
    compare_meaning(&found.prepared, &plain.prepared).map_err(|message| format!("{message}\n{printed}"))?;
    let (before, after) = (buffers(text)?, buffers(&printed)?);
    for (number, count) in before {
        if after.get(&number).is_none_or(|now| *now < count) {
            return Err(format!("iterations share the memory of T{number}\n{printed}"));
        }
    }
    Ok(true)
}

#[test]
#[allow(clippy::print_stdout, reason = "says how many programs were compared")]
fn memory_of_loops_is_what_it_was() {
    let (count, seed) = (effort::cases("HIR_PROGRAMS", QUICK, 20_000), effort::number("HIR_SEED").unwrap_or(1));
    let mut compared = 0;
    for index in 0..count {
        let mut rng = Rng::with_seed(seed.wrapping_mul(1 << 32).wrapping_add(index));
        let text = program(&mut rng);
        for passes in PIPELINES {
            match check(&text, passes) {
                Ok(ran) => compared += u64::from(ran),
                Err(message) => {
                    panic!("program {index} of seed {seed}, {passes}\n{text}\n{message}")
                }
            }
        }
    }
    println!("{compared} programs compared");
    assert!(compared * 8 > count, "only {compared} programs of {count} run");
}
