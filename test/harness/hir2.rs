//! `hir 2` is a notation of the same programs: what is written in it reads back to the same program up to numbers, and
//! is written the same again.
//!
//! Every program of the tree, in every style and after every pass, and random programs after the pipelines that lower
//! them. A test run takes a part of the combinations: `HIR_FULL=1` takes all, `HIR_HIR2=5000` that many random programs,
//! `HIR_SEED=7` starts elsewhere. `HIR_ALL=1` reports all programs that fail, not only the first.
#![allow(clippy::panic, reason = "failures panic")]

use crate::{effort, lowering, printed};
use hostir::diag::render;
use hostir::hir2::write::write_file;
use hostir::ir::edit::Edit;
use hostir::ir::{Era, Style};
use hostir::ir::{Expr, GivenNames, HostUnit, MeshId, Program, Tensor, TensorId, TextFrame, UnitId, Value};
use hostir::print::{PrintOptions, VersionLine, print_into, print_to_string};
use hostir::style::{renumber_program, restyle_program};
use hostir_passes::PASSES;
use hostir_test::tree;

/// Random programs of an ordinary test run, and how many of the tree's combinations it takes: one in so many.
const QUICK: (u64, u64) = (100, 4);

/// The programs of a text; an error is one of the text.
fn load(text: &str) -> Result<Vec<Program>, String> {
    let (mut programs, mut diags) = hostir::load(text);
    programs.iter_mut().for_each(Program::own_imports);
    for program in &programs {
        hostir::verify::verify(program, &mut diags);
    }
    if diags.has_errors() || programs.is_empty() {
        return Err(format!("{}\n{text}", render::to_string("text.hir", text, &diags.items)));
    }
    Ok(programs)
}

/// The canonical printed form.
fn normal_form(mut programs: Vec<Program>) -> String {
    let mut text = String::new();
    for program in &mut programs {
        restyle(program, Era::E2025_06.style());
        renumber_program(program);
    }
    let is_named = programs.iter().any(Program::has_names);
    for (at, program) in programs.iter().enumerate() {
        let version = match (at, is_named) {
            (0, true) => VersionLine::Always,
            (0, false) => VersionLine::AsRead,
            _ => VersionLine::Never,
        };
        print_into(program, PrintOptions { version, ..PrintOptions::default() }, &mut text);
    }
    text
}

fn restyle(program: &mut Program, style: Style) {
    let mut edit = Edit::new(program);
    restyle_program(&mut edit, style);
    edit.commit();
}

/// The reason that a text in the printed form does not go to `hir 2` and back; nothing if it does.
fn check_round_trip(printed: &str) -> Result<(), String> {
    let expected = normal_form(load(printed)?);
    let again = normal_form(load(&expected)?);
    if again != expected {
        return Err(format!("renumbered again: {}\n{expected}\n{printed}", first_difference(&expected, &again)));
    }
    let written = write_file(&mut load(printed)?);
    let read = load(&written).map_err(|why| format!("does not read back:\n{why}\n{printed}"))?;
    let found = normal_form(read);
    if found != expected {
        return Err(format!("{}\n{written}\n{printed}", first_difference(&expected, &found)));
    }
    let again = write_file(&mut load(&written)?);
    if again != written {
        return Err(format!("written again: {}\n{written}\n{again}", first_difference(&written, &again)));
    }
    Ok(())
}

fn first_difference(expected: &str, found: &str) -> String {
    let pair = expected.lines().zip(found.lines()).find(|(a, b)| a != b);
    let (a, b) = pair.unwrap_or(("(the end)", "(the end)"));
    format!("expected\n{a}\nfound\n{b}")
}

/// Gives tensors, communications, streams, meshes, units and the program names that none of them has.
fn name_everything(program: &mut Program) {
    let mut edit = Edit::new(program);
    let tensors: Vec<TensorId> = edit.program().tensors().ids().collect();
    for id in tensors {
        let tensor = edit.program().tensor(id).clone();
        let name = Some(edit.intern_name(&format!("tensor_{}", tensor.number)));
        edit.set_tensor(id, Tensor { name, ..tensor });
    }
    let units: Vec<UnitId> = edit.program().units().ids().collect();
    for id in units {
        let unit = edit.program().units()[id].clone();
        let name = Some(edit.intern_name(&format!("unit_{}", unit.number)));
        edit.set_unit(id, HostUnit { name, ..unit });
    }
    let mut given = GivenNames { program: Some(edit.intern_name("program_0")), ..GivenNames::default() };
    let meshes: Vec<MeshId> = edit.program().meshes().ids().collect();
    for mesh in meshes {
        given.meshes.insert(mesh, edit.intern_name(&format!("mesh_{}", mesh.0)));
    }
    let (mut posts, mut streams) = (Vec::new(), Vec::new());
    let body = edit.program().body();
    edit.program().walk(body, &mut |id| {
        let op = edit.program().op(id);
        posts.extend(op.number());
        for result in &op.results {
            let Value::Stream(stream) = result else { continue };
            if let Expr::Hex(address) = edit.program().expr(*stream) {
                streams.push(*address);
            }
        }
    });
    for number in posts {
        given.handles.insert(number, edit.intern_name(&format!("post_{number}")));
    }
    for address in streams {
        given.streams.insert(address, edit.intern_name(&format!("queue_{address}")));
    }
    edit.set_given_names(given);
    let frame = edit.program().frame();
    edit.set_frame(TextFrame { version: Some(1), ..frame });
    edit.commit();
}

/// Returns true if a text in backquotes refers to a tensor: it is in the printed form, which has numbers and no names.
fn has_verbatim_tensors(program: &Program) -> bool {
    let text = hostir::hir2::write::write_file(&mut [program.clone()]);
    let quoted = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.into_iter().any(|part| {
        let mut words = part.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
        words.any(|word| {
            word.strip_prefix('T').is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
        })
    })
}

/// Checks combinations, and says which fail.
struct RoundTrips {
    rng: fastrand::Rng,
    one_in: u64,
    count: usize,
    failures: Vec<String>,
}

impl RoundTrips {
    fn new() -> Self {
        let one_in = effort::cases("HIR_ONE_IN", QUICK.1, 1);
        let rng = fastrand::Rng::with_seed(effort::number("HIR_SEED").unwrap_or(1));
        Self { rng, one_in, count: 0, failures: Vec::new() }
    }

    fn is_taken(&mut self) -> bool {
        self.rng.u64(..self.one_in) == 0
    }

    fn check_text(&mut self, printed: &str, name: &str) {
        self.count += 1;
        if let Err(why) = check_round_trip(printed) {
            let text = format!("{name}: {why}");
            if effort::number("HIR_ALL") != Some(1) {
                panic!("{text}");
            }
            self.failures.push(text);
        }
    }

    /// A program in all styles and after all passes, and the same with a name for all that can have one.
    fn check_program(&mut self, printed: &str, name: &str) {
        self.check_combinations(printed, name);
        if let Ok([program]) = load(printed).as_deref_mut()
            && !has_verbatim_tensors(program)
        {
            name_everything(program);
            self.check_combinations(&print_to_string(program), &format!("{name} with names"));
        }
    }

    fn check_combinations(&mut self, printed: &str, name: &str) {
        if self.is_taken() {
            self.check_text(printed, name);
        }
        for &(era, word) in Era::ALL {
            if self.is_taken()
                && let Some(mut program) = load(printed).ok().and_then(|mut programs| programs.pop())
            {
                restyle(&mut program, era.style());
                self.check_text(&print_to_string(&program), &format!("{name} in style {word}"));
            }
        }
        let passes = PASSES.iter().map(|pass| pass.name).chain(printed::PIPELINES.iter().copied());
        for passes in passes {
            if self.is_taken()
                && let Some(program) = printed::passed(printed, passes)
            {
                self.check_text(&print_to_string(&program), &format!("{name} behind {passes}"));
            }
        }
    }

    fn finish(self, least: usize) {
        assert!(self.failures.is_empty(), "{} of {}:\n{}", self.failures.len(), self.count, self.failures.join("\n"));
        assert!(self.count >= least, "only {} texts", self.count);
    }
}

/// The text of a program alone. One that is not the first of its file lacks the line that its names need.
fn print_alone(program: &Program) -> String {
    let version = if program.has_names() { VersionLine::Always } else { VersionLine::AsRead };
    let mut out = String::new();
    print_into(program, PrintOptions { version, ..PrintOptions::default() }, &mut out);
    out
}

#[test]
fn programs_of_the_tree_go_to_hir2_and_back() {
    let mut trips = RoundTrips::new();
    for path in tree::programs() {
        let name = tree::relative(&path);
        for (part, text) in tree::read(&path).split("\n// -----\n").enumerate() {
            let name = format!("{name}, part {}", part + 1);
            let Ok(programs) = load(text) else { continue };
            // Each program of a bundle has its copy of an imported kernel, of which one keeps the name in `hir 2`.
            if !text.contains("\nfile \"") {
                trips.check_text(text, &name);
            }
            for (at, program) in programs.iter().enumerate() {
                trips.check_program(&print_alone(program), &format!("{name}, program {}", at + 1));
            }
        }
    }
    trips.finish(2000);
}

#[test]
fn random_programs_go_to_hir2_and_back() {
    let mut trips = RoundTrips::new();
    let seed = effort::number("HIR_SEED").unwrap_or(1);
    for index in 0..effort::cases("HIR_HIR2", QUICK.0, 10_000) {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(1 << 32).wrapping_add(index));
        let generated = lowering::generate::program(&mut rng);
        let name = format!("program {index} of seed {seed}");
        trips.check_text(&generated.text, &name);
        let pipeline = lowering::random_pipeline(&mut rng);
        let Ok(mut program) = lowering::run::load(&generated.text) else { continue };
        if let Ok(None) = lowering::run::apply(&mut program, &generated.text, &pipeline) {
            trips.check_text(&print_to_string(&program), &format!("{name} behind {pipeline}"));
        }
    }
    trips.finish(150);
}
