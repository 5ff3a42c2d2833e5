//! The values for which programs are proved: from the client's settings, and from the RUN lines of a text.
//!
//! The library adds those that the text proposes itself (`sizes`, `streams`). As on a command line, values of a RUN line
//! come before them; the client's settings come before both.

use hostir::ReadOptions;
use hostir::ir::GivenSizes;
use hostir::lower::{SizeSettings, stream_count};
use hostir::machine::Machine;
use hostir::ops::OpRegistry;
use hostir::plan::PlanLimits;
use hostir::plan::cost::CostModel;
use hostir_tool_support::machines::find_machine_here;
use memchr::{memmem, memrchr};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time after which a proof is given up.
const MOST_PLANNING: Duration = Duration::from_secs(20);

/// The client's settings, as `initializationOptions` and `workspace/didChangeConfiguration` have them.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientSettings {
    /// Sizes by name, as of `--set`; `*` is the value of all others.
    pub sizes: BTreeMap<String, i64>,
    /// The number of ranks, as of `-n`.
    pub ranks: Option<u32>,
    /// The number of streams, as of `--streams`.
    pub streams: Option<u32>,
    /// True if programs are proved.
    pub proof: bool,
    /// True if types, streams and waits are shown in the text.
    pub inlay_hints: bool,
    /// The URI of the folder of the documentation, to which codes link, or of their pages with `{code}` in it.
    pub docs: Option<String>,
    /// The command of `hir-run`, which draws timelines.
    pub run: Option<String>,
    /// The machine for which times are modelled: the name of a built-in one, or a file.
    pub machine: Option<String>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        let (sizes, ranks, streams) = (BTreeMap::new(), None, None);
        Self { sizes, ranks, streams, proof: true, inlay_hints: true, docs: None, run: None, machine: None }
    }
}

impl ClientSettings {
    /// The settings of a value of the client, which may have them below `hir`; the defaults for what is no settings.
    pub fn from_value(value: &serde_json::Value) -> Self {
        let value = value.get("hir").unwrap_or(value);
        Self::deserialize(value).unwrap_or_default()
    }

    /// Reads the machine; `None` if the settings name none.
    ///
    /// # Errors
    /// The message about a word that names none.
    pub fn read_machine(&self) -> Result<Option<Machine>, String> {
        let found = self.machine.as_deref().map(find_machine_here).transpose();
        found.map_err(|missing| format!("{}: {}", missing.source.name, missing.error.message.as_str()))
    }
}

/// The values for which the programs of a text are read and proved.
#[derive(Clone, Default, Debug)]
pub struct RunValues {
    /// The ops that the text may name.
    pub ops: OpRegistry,
    /// Integers by name.
    pub set: BTreeMap<String, i64>,
    /// Reals by name.
    pub reals: BTreeMap<String, f64>,
    /// The value of sizes that nothing else gives.
    pub every: Option<i64>,
    /// The number of ranks.
    pub ranks: Option<u32>,
    /// The number of streams.
    pub streams: Option<u32>,
    /// The machine for which times are modelled.
    pub machine: Option<Machine>,
    /// True if the text is several, divided by lines `// -----`.
    pub is_divided: bool,
}

impl RunValues {
    /// The values of a text's first RUN line of `hir-run` with any, and those of the client.
    pub fn of_text(text: &str, client: &ClientSettings) -> Self {
        let mut values = run_lines(text).map(values_of_line).find(RunValues::has_values).unwrap_or_default();
        values.is_divided = run_lines(text).any(|line| line.contains("--split-input-file"));
        for (name, value) in &client.sizes {
            values.set_integer(name, *value);
        }
        values.ranks = client.ranks.or(values.ranks);
        values.streams = client.streams.or(values.streams);
        values
    }

    fn has_values(&self) -> bool {
        let RunValues { set, reals, every, ranks, streams, machine, is_divided: _, ops: _ } = self;
        let has_sizes = !set.is_empty() || !reals.is_empty() || every.is_some();
        has_sizes || ranks.is_some() || streams.is_some() || machine.is_some()
    }

    fn set_integer(&mut self, name: &str, value: i64) {
        match name {
            "*" => self.every = Some(value),
            name => drop(self.set.insert(name.to_owned(), value)),
        }
    }

    /// `p=4`, `a=0.5`, `*=8`.
    fn set_scalar(&mut self, text: &str) {
        let Some((name, value)) = text.split_once('=') else { return };
        match (value.parse::<i64>(), value.parse::<f64>()) {
            (Ok(value), _) => self.set_integer(name, value),
            (_, Ok(value)) => drop(self.reals.insert(name.to_owned(), value)),
            _ => {}
        }
    }

    /// The model of the machine.
    pub fn cost_model(&self) -> CostModel {
        self.machine.clone().map_or_else(CostModel::of_default_machine, CostModel::of_machine)
    }

    /// The settings with which the text is read.
    pub fn read_options(&self) -> ReadOptions {
        let given = GivenSizes { set: self.set.clone(), devices: self.ranks, every: self.every, as_numbers: false };
        ReadOptions { ops: self.ops, given }
    }

    /// The values for a plan of this program. The client's sizes are for all programs: each takes those that it names.
    pub fn size_settings(&self, program: &hostir::ir::Program) -> SizeSettings {
        SizeSettings {
            set: self
                .set
                .iter()
                .filter(|(name, _)| program.names().find_symbol(name).is_some())
                .map(|(name, value)| (name.clone(), *value))
                .collect(),
            reals: self.reals.clone(),
            every: self.every,
            devices: self.ranks,
            streams: stream_count(program, self.streams),
            memory_limit: u64::MAX,
            limits: PlanLimits { time: Some(MOST_PLANNING), ..PlanLimits::default() },
            ..SizeSettings::default()
        }
    }
}

/// The commands of the RUN lines of a text.
fn run_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut end = 0;
    memmem::find_iter(text.as_bytes(), b"RUN:").filter_map(move |at| {
        // The first one of a line counts.
        if at < end {
            return None;
        }
        let start = memrchr(b'\n', &text.as_bytes()[..at]).map_or(0, |at| at + 1);
        let command = text[at + "RUN:".len()..].lines().next().unwrap_or_default();
        end = at + "RUN:".len() + command.len();
        text[start..].starts_with("//").then_some(command)
    })
}

/// True if a command runs the text that it is in.
fn runs_this_text(command: &str) -> bool {
    ["hir-run", "%s"].iter().all(|wanted| command.split_whitespace().any(|word| word == *wanted))
}

/// The values of the first command of a line that runs this text.
fn values_of_line(line: &str) -> RunValues {
    let mut values = RunValues::default();
    let commands = line.split(['|', ';', '&']);
    let Some(command) = commands.into_iter().find(|command| runs_this_text(command)) else { return values };
    let mut words = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
    while let Some(word) = words.next() {
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.trim_matches(['\'', '"']))),
            _ => (word, None),
        };
        match flag {
            "--set" => values.set_scalar(attached.or_else(|| words.next()).unwrap_or_default()),
            "-n" | "--devices" => values.ranks = attached.or_else(|| words.next()).and_then(|text| text.parse().ok()),
            "--machine" => {
                values.machine = attached.or_else(|| words.next()).and_then(Machine::find_builtin);
            }
            "--streams" => values.streams = attached.or_else(|| words.next()).and_then(|text| text.parse().ok()),
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_run_lines() {
        let text = "// RUN: hir-opt %s\n// RUN: not hir-run %s --set p=4 --set '*=8' --set=a=0.5 -n 2 --machine=h100x2 | FileCheck %s\n";
        let values = RunValues::of_text(text, &ClientSettings::default());
        assert_eq!(values.set, BTreeMap::from([("p".to_owned(), 4)]));
        assert_eq!(values.reals, BTreeMap::from([("a".to_owned(), 0.5)]));
        assert_eq!((values.every, values.ranks, values.streams), (Some(8), Some(2), None));
        assert_eq!(values.cost_model().machine.name, "h100x2");
    }

    #[test]
    fn the_client_comes_first() {
        let client = ClientSettings::from_value(&serde_json::json!({ "hir": { "sizes": { "p": 8 }, "streams": 3 } }));
        let values = RunValues::of_text("// RUN: hir-run %s --set p=4 --streams 2\n", &client);
        assert_eq!((values.set["p"], values.streams), (8, Some(3)));
    }
}
