//! The file of `--tune-file`: times of programs that compute the same, by the work and the place of the measurement.
//!
//! It has no dates, and its entries are sorted, so that equal measurements make equal files. A writer takes what
//! others have written since it read the file: it holds a lock of the folder, reads again, and moves a whole new file
//! into the place of the old one.

use crate::run::failure::RunFailure;
use hostir::diag::{Diag, Span, message};
use hostir_tool_support::errors;
use hostir_tool_support::io::ToolIo;
use hostir_tool_support::staged::write_whole;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// The version of the form.
const FORMAT: u32 = 1;

/// The first line of a file.
const HEADER: &str = "# By `hir-run --tune`; docs/machines.md has the fields.\n";

/// Waits for another writer, and the number of them: a file system without locks has none to wait for.
const WAIT: Duration = Duration::from_millis(10);
const WAITS: u32 = 500;

/// The place of a measurement.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TunePlace {
    /// `CUDA`, `CPU` or `sim`.
    pub(super) backend: String,
    /// The devices, and the versions of libraries; empty without GPUs.
    pub(super) platform: String,
    /// The name of the machine whose model told the programs apart.
    pub(super) machine: String,
    /// The hash of its values.
    pub(super) machine_hash: String,
    /// The version of hir-run.
    pub(super) version: String,
}

/// The work that was measured.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TuneWork {
    pub(super) ranks: u32,
    /// `calls` or `graph`.
    pub(super) issue: String,
    /// `n=1024`: the values of `--set`, sorted.
    pub(super) sizes: Vec<String>,
    /// `float [4, 1024]`: the whole inputs.
    pub(super) inputs: Vec<String>,
    /// Other options that change times.
    pub(super) options: Vec<String>,
}

/// A measured time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredTime {
    pub(super) median_us: f64,
    /// The 95% interval of the median.
    pub(super) low_us: f64,
    pub(super) high_us: f64,
    pub(super) runs: usize,
}

/// One of several programs that compute the same.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TunedWay {
    /// Its file, as the command line named it.
    pub(super) file: String,
    /// A hash of all ranks' plans and of the kernels that they launch.
    pub(super) plan: String,
    pub(super) model_us: f64,
    /// `None` if the model takes it for clearly slower than another one, or all others for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<MeasuredTime>,
}

/// The reason of a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ChoiceReason {
    /// Its median is the least, and no other interval overlaps its own.
    Fastest,
    /// The first of those that cannot be told from the fastest.
    Tie,
    /// All others are slower by more than the margin, by the model.
    Model,
}

/// A choice, and the times that it follows from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptChoice {
    /// The file of the chosen program.
    pub(super) chosen: String,
    pub(super) reason: ChoiceReason,
    pub(super) work: TuneWork,
    pub(super) place: TunePlace,
    pub(super) ways: Vec<TunedWay>,
}

/// The content of a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TuneFile {
    format: u32,
    #[serde(default)]
    choices: Vec<KeptChoice>,
}

impl Default for TuneFile {
    fn default() -> Self {
        Self { format: FORMAT, choices: Vec::new() }
    }
}

impl TunedWay {
    /// The time of a program with the same plans among these.
    fn time_among<'a>(&self, others: &'a [TunedWay]) -> Option<&'a MeasuredTime> {
        others.iter().find(|other| other.plan == self.plan)?.measured.as_ref()
    }
}

impl KeptChoice {
    /// Returns true if it is about the same programs, in any order.
    fn has_plans_of(&self, ways: &[TunedWay]) -> bool {
        is_subset(&self.ways, ways, |way| &way.plan) && is_subset(ways, &self.ways, |way| &way.plan)
    }

    /// Returns true if it is about files of the same names, in any order.
    fn has_files_of(&self, ways: &[TunedWay]) -> bool {
        is_subset(&self.ways, ways, |way| &way.file) && is_subset(ways, &self.ways, |way| &way.file)
    }

    /// Returns true if it is about the same work, and was measured at the same place.
    fn has_conditions_of(&self, other: &KeptChoice) -> bool {
        self.work == other.work && self.place == other.place
    }

    /// Returns true if another choice takes its place: one about the same programs, or about new texts of the same files.
    fn is_replaced_by(&self, new: &KeptChoice) -> bool {
        self.has_conditions_of(new) && (self.has_plans_of(&new.ways) || self.has_files_of(&new.ways))
    }

    fn sort_key(&self) -> (&TuneWork, &TunePlace, Vec<&str>) {
        (&self.work, &self.place, self.ways.iter().map(|way| way.plan.as_str()).collect())
    }
}

/// Returns true if all values of some ways are values of others.
fn is_subset(some: &[TunedWay], others: &[TunedWay], value: impl Fn(&TunedWay) -> &str) -> bool {
    some.iter().all(|way| others.iter().any(|other| value(other) == value(way)))
}

impl TuneFile {
    /// Reads a file; an empty one, and one that does not exist yet, have no choices.
    ///
    /// # Errors
    /// A file that cannot be read or has another form.
    pub(super) fn read_choices(path: &str, io: &mut ToolIo<'_>) -> Result<Self, RunFailure> {
        if path == "-" {
            let message = "`--tune-file -`: choices are kept in a file, and standard input is none";
            return Err(Diag::global_error(errors::VALUE, message).into());
        }
        if !io.resolve_path(path).exists() {
            return Ok(Self::default());
        }
        let source = io.read_source(path)?;
        let text = source.decoded_text().into_owned();
        Self::from_toml(&text).map_err(|diag| RunFailure::from_diags(source, vec![diag]))
    }

    fn from_toml(text: &str) -> Result<Self, Diag> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let file: Self = toml::from_str(text).map_err(|error| describe_error(text, &error))?;
        match file.format {
            FORMAT => Ok(file),
            other => {
                let message = message!(
                    "the file has choices of `--tune` in form {}, but form {} is read",
                    other as usize,
                    FORMAT as usize
                );
                Err(Diag::global_error(errors::TUNE_FILE, message)
                    .with_note("name another file, or remove this one: what it has is measured again"))
            }
        }
    }

    fn to_toml(&self) -> String {
        HEADER.to_owned() + &toml::to_string(self).expect("choices have strings and numbers only")
    }

    /// The times of the close ways in one measurement of this work at this place; `None` if there is none with all.
    pub(super) fn find_times(&self, wanted: &KeptChoice, close: &[usize]) -> Option<Vec<MeasuredTime>> {
        let same = self.choices.iter().filter(|choice| choice.has_conditions_of(wanted));
        let times = same.map(|choice| {
            let times = close.iter().map(|&at| wanted.ways[at].time_among(&choice.ways).cloned());
            times.collect::<Option<Vec<_>>>()
        });
        times.flatten().next()
    }

    /// The choices about some work.
    fn choices_of<'a>(&'a self, work: &'a TuneWork) -> impl Iterator<Item = &'a KeptChoice> {
        self.choices.iter().filter(move |choice| choice.work == *work)
    }

    /// The warning for times that do not answer: of earlier texts of these files, or of another place.
    pub(super) fn explain_miss(&self, path: &str, wanted: &KeptChoice) -> Option<Diag> {
        let mut here = self.choices_of(&wanted.work).filter(|choice| choice.place == wanted.place);
        let found = here.find(|choice| choice.has_files_of(&wanted.ways) || choice.has_plans_of(&wanted.ways));
        if let Some(found) = found {
            // With the same plans, a way was not timed: the margin was another one.
            let new = wanted.ways.iter().find(|way| found.ways.iter().all(|old| old.plan != way.plan))?;
            let message = message!("`{}` has times of these files, but `{}` has changed since", path, new.file);
            let note = "they are measured again, and the earlier times are removed";
            return Some(Diag::global_error(errors::TUNE_MISS, message).with_note(note).into_warning());
        }
        let mut others = self.choices_of(&wanted.work).filter(|choice| choice.has_plans_of(&wanted.ways));
        let (what, theirs, own) = others.next()?.place.difference(&wanted.place);
        let message =
            message!("`{}` has times of these programs for another {}: `{}`, here `{}`", path, what, theirs, own);
        let note = "they are measured here, too, and the others are kept";
        Some(Diag::global_error(errors::TUNE_MISS, message).with_note(note).into_warning())
    }

    /// Puts a choice in the place of those that it replaces.
    fn insert_choice(&mut self, new: KeptChoice) {
        self.choices.retain(|choice| !choice.is_replaced_by(&new));
        self.choices.push(new);
        self.choices.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
    }

    /// Adds a choice to the file, and keeps what others have added since it was read.
    ///
    /// # Errors
    /// A file that can be neither read nor written.
    pub(super) fn add_to_file(path: &str, new: KeptChoice, io: &mut ToolIo<'_>) -> Result<(), RunFailure> {
        let place = io.resolve_path(path);
        let _lock = lock_folder(&place);
        let old = Self::read_choices(path, io)?;
        let mut file = old.clone();
        file.insert_choice(new);
        if file != old {
            write_whole(path, place, file.to_toml().as_bytes())?;
        }
        Ok(())
    }
}

impl TunePlace {
    /// The first field in which it differs: its name, and both values.
    fn difference<'a>(&'a self, other: &'a Self) -> (&'static str, &'a str, &'a str) {
        let fields = [
            ("backend", &self.backend, &other.backend),
            ("platform", &self.platform, &other.platform),
            ("machine of the model", &self.machine, &other.machine),
            ("version of hir-run", &self.version, &other.version),
        ];
        let found = fields.into_iter().find(|(_, own, others)| own != others);
        let (what, own, others) = found.unwrap_or(("machine of the model", &self.machine_hash, &other.machine_hash));
        (what, own, others)
    }
}

/// Holds the lock of a file's folder until the value is dropped; `None` where that is impossible, or another process
/// holds it for seconds.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    for _ in 0..WAITS {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(WAIT),
            Err(_) => return None,
        }
    }
    None
}

fn describe_error(text: &str, error: &toml::de::Error) -> Diag {
    let what = error.message().lines().next().unwrap_or_default();
    let message = message!("the file has no choices of `--tune`: {}", what);
    let place = error.span().unwrap_or(0..text.len());
    let line = text.get(place.clone()).and_then(|part| part.lines().next()).map_or(0, str::len);
    Diag::error(errors::TUNE_FILE, Span::new(place.start, place.start + line), message)
        .with_note("nothing was measured or written: name another file, or remove this one")
}
