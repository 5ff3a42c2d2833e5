//! A run of one process or of several: who starts, who speaks, how all of them end.

use super::cli::{Backend, Options};
use super::failure::Failure;
use super::load::Loaded;
use super::{errors, exec};
use crate::io::{Io, Status};
use crate::launch::{self, Here, Source, children};
use crate::render::{self, Format, Look};
use exec::Prepared;
use hostir::backend::RunResult;
use hostir::backend::control_plane::is_known_to_all;
use hostir::backend::trace::Trace;
use hostir::diag::{Diag, visible};
use std::ffi::OsString;
use std::io::Write;

/// How a run ends that does not succeed.
pub(super) enum End {
    /// With a failure, and how much this process says of it.
    Failed(Failure, Voice, i32),
    /// The processes that this one started have said it.
    Told(i32),
}

/// How much a process says about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Voice {
    /// All of it.
    Full,
    /// One line: it happened elsewhere.
    Line,
    /// Nothing: rank 0 says the same.
    Silent,
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        let status = failure.status.code();
        End::Failed(failure, Voice::Full, status)
    }
}

impl End {
    /// Says it, and what to exit with.
    pub(super) fn report(self, options: &Options, io: &mut Io<'_>) -> i32 {
        let look = io.look();
        self.write(options.format, look, io.stderr)
    }

    /// Says it there, and what to exit with. A writer that fails has no one to be told to.
    pub(super) fn write(self, format: Format, look: Look, out: &mut dyn Write) -> i32 {
        match self {
            End::Told(status) => status,
            End::Failed(failure, voice, status) => {
                match voice {
                    Voice::Full => {
                        render::write(out, look, format, &failure.source, &failure.diags);
                    }
                    Voice::Line => line(&failure.diags, out),
                    Voice::Silent => {}
                }
                status
            }
        }
    }
}

/// Somebody else's failure in one line, with where this rank was.
fn line(diags: &[Diag], out: &mut dyn Write) {
    let Some(diag) = diags.first() else { return };
    let own = diag.notes.iter().find(|note| note.contains(" gave up in "));
    let own = own.map_or_else(String::new, |note| format!("; {note}"));
    let _ = writeln!(out, "{}", visible::line(&format!("hir-run: ends: {}{own}", diag.message)));
}

/// Runs, alone or as one of several processes, or starts those.
pub(super) fn run(args: &[OsString], options: &Options, io: &mut Io<'_>) -> Result<String, End> {
    launch::check(&options.launch).map_err(Failure::from)?;
    let child = (io.env)("HIR_PARENT").is_some();
    if options.launch.processes && !child {
        check_children(options).map_err(Failure::from)?;
        let world = children_needed(options, io).map_err(End::from)?;
        return match children::run(args, world, io) {
            Ok(0) => Ok(String::new()),
            Ok(status) => Err(End::Told(status)),
            Err(diag) => Err(Failure::from(diag).into()),
        };
    }
    let (launch, timeout) = (&options.launch, options.timeout());
    let here = launch::start(launch, options.devices, timeout, options.quiet, io);
    let here = here.map_err(|apart| not_joined(apart, child))?;
    let Some(here) = here else { return Ok(super::execute(options, None, io)?) };
    let quiet = options.quiet || !here.is_first();
    let world = Some(here.place.world);
    let launch = launch::Flags { world, ..launch.clone() };
    let own = Options { devices: world, launch, quiet, ..options.clone() };
    let result = super::execute(&own, Some(&here), io);
    end(&here, result)
}

/// The end of a process that did not get as far as joining, perhaps since another one failed.
fn not_joined(apart: launch::Apart, child: bool) -> End {
    let followed = is_known_to_all(&apart.diag);
    let failure = Failure::from(apart.diag);
    let status = if followed && child { launch::FOLLOWED } else { failure.status.code() };
    // Rank 0 says all of it, whomever it is about.
    let voice = if followed && !apart.is_first { Voice::Line } else { Voice::Full };
    End::Failed(failure, voice, status)
}

/// The number of ranks to start processes for: as many as were asked for, else as any of the programs needs.
fn children_needed(options: &Options, io: &mut Io<'_>) -> Result<u32, Failure> {
    if let Some(devices) = options.devices {
        return Ok(devices);
    }
    let mut most = 1;
    for file in std::iter::once(&options.file).chain(&options.others) {
        let loaded = Loaded::read(file, options.container, io)?;
        most = most.max(exec::needed_ranks(&loaded.program));
    }
    Ok(most)
}

/// What `--processes` cannot hand to children.
fn check_children(options: &Options) -> Result<(), Diag> {
    let conflict = |message: &str, note: &str| {
        Err(Diag::global(errors::CONFLICT, message).note(note.to_owned()))
    };
    let files = std::iter::once(&options.file).chain(&options.others).chain(&options.reference);
    if files.into_iter().any(|file| file == "-") {
        return conflict(
            "`--processes` cannot hand standard input to several processes",
            "name a file",
        );
    }
    if options.backend == Backend::Cpu {
        return conflict(
            "`--processes` starts one process a rank, but the CPU backend runs all ranks in one",
            "leave out `--processes`; `--backend=null` goes through a launch without GPUs",
        );
    }
    Ok(())
}

/// Ends the run of this process on all: its failure is everybody's, and the other way round.
fn end(here: &Here, result: Result<String, Failure>) -> Result<String, End> {
    let failure = match result {
        Ok(text) => match here.end(None) {
            Ok(()) if here.is_first() => return Ok(text),
            Ok(()) => return Ok(String::new()),
            Err(diag) => Failure::from(diag),
        },
        Err(failure) => {
            // How it ended here is what counts, also if the others could not be told.
            let _ = here.end(Some(&failure.diags));
            failure
        }
    };
    let (voice, status) = ending(here, &failure);
    Err(End::Failed(failure, voice, status))
}

/// How much a process of several says of its failure, and what it exits with.
pub(super) fn ending(here: &Here, failure: &Failure) -> (Voice, i32) {
    let followed = failure.diags.first().is_some_and(is_known_to_all);
    let child = here.place.source == Source::Processes;
    let voice = match () {
        () if here.is_first() => Voice::Full,
        () if followed => Voice::Line,
        () if here.is_told_by_first(&failure.diags) => Voice::Silent,
        () => Voice::Full,
    };
    let status = match failure.status.code() {
        _ if followed && child => launch::FOLLOWED,
        0 => Status::Environment.code(),
        status => status,
    };
    (voice, status)
}

/// Compares what the processes of a run were started with, and says how much they will send.
pub(super) fn compare(
    here: Option<&Here>,
    programs: &[&Loaded],
    prepared: &[&Prepared],
    options: &Options,
) -> Result<(), Failure> {
    let Some(here) = here else { return Ok(()) };
    prepared.iter().for_each(|prepared| here.expect(prepared));
    let texts: Vec<u8> = programs.iter().flat_map(|program| program.source.bytes.clone()).collect();
    let (shared, version) = (options.shared(), env!("CARGO_PKG_VERSION"));
    let mut parts: Vec<(&str, &[u8])> =
        vec![("version of hir-run", version.as_bytes()), ("program", &texts)];
    parts.extend(shared.iter().map(|(name, value)| (*name, value.as_bytes())));
    Ok(here.same(&parts)?)
}

/// All ranks' outputs; `None` on processes that have handed over theirs.
pub(super) fn collect(
    here: Option<&Here>,
    prepared: &Prepared,
    run: RunResult,
) -> Result<Option<RunResult>, Vec<Diag>> {
    let Some(here) = here else { return Ok(Some(run)) };
    let run = here.collect(prepared, run)?;
    if run.is_some() {
        here.peers.settle();
    }
    Ok(run)
}

/// The timeline of all ranks, if there is one; `None` on processes that have handed over theirs.
pub(super) fn collect_timeline(
    here: Option<&Here>,
    prepared: &Prepared,
    trace: Option<Trace>,
) -> Result<Option<Trace>, Vec<Diag>> {
    match (here, trace) {
        (Some(here), Some(trace)) => here.collect_timeline(prepared, &trace),
        (_, trace) => Ok(trace),
    }
}
