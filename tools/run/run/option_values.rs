//! Values of options: converts their texts.

use super::data_files::DataFile;
use hostir::data::generate::TensorGenerator;
use hostir::diag::nearest_candidate;
use hostir::ir::is_identifier;
use hostir::machine::{Count, HostLinks, Micros, Quantity};

/// The contents of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum InputContent {
    Generate(TensorGenerator),
    File(DataFile),
}

/// The value of a scalar.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum ScalarNumber {
    Int(i64),
    Real(f64),
}

impl std::fmt::Display for ScalarNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScalarNumber::Int(value) => value.fmt(f),
            ScalarNumber::Real(value) => value.fmt(f),
        }
    }
}

/// The orders of the queues under which a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PermutedSchedules {
    /// The one that a seed chooses.
    Seeded(u64),
    /// One for each access, and some that seeds choose.
    All,
}

/// `all`, or a seed.
pub(super) fn parse_schedules(text: &str) -> Result<PermutedSchedules, String> {
    match text {
        "all" => Ok(PermutedSchedules::All),
        _ => text.parse().map(PermutedSchedules::Seeded).map_err(|_| "a seed is a number from 0 up, or `all`".into()),
    }
}

/// `8,50,10`: the GPUs of a host, GB/s of each over the network, and microseconds from host to host.
pub(super) fn parse_hosts(text: &str) -> Result<HostLinks, String> {
    let parts: Vec<&str> = text.split(',').collect();
    if let [devices, network_gb_s, network_us] = parts[..]
        && let Some(devices) = devices.parse::<u32>().ok().and_then(|devices| Count::try_from(devices).ok())
        && let Some(network_gb_s) = network_gb_s.parse::<f64>().ok().and_then(|rate| Quantity::try_from(rate).ok())
        && let Some(network_us) = network_us.parse::<f64>().ok().and_then(|time| Micros::try_from(time).ok())
    {
        return Ok(HostLinks { devices, network_gb_s, network_us });
    }
    Err("hosts are given by the GPUs of each, GB/s of a GPU over the network, and us from host to host: `8,50,10`"
        .into())
}

/// The requested forms of a run's timeline.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct TimelineForms {
    /// A file for Perfetto.
    pub(super) file: Option<String>,
    /// A chart on standard output.
    pub(super) chart: bool,
    /// A picture.
    pub(super) picture: Option<String>,
    /// A page.
    pub(super) page: Option<String>,
    /// True if each send is joined to its receive.
    pub(super) pairs: bool,
}

impl TimelineForms {
    /// Whether there is one.
    pub(super) fn is_any(&self) -> bool {
        self.file.is_some() || self.is_drawn()
    }

    /// Whether there is one that is drawn, as a chart, a picture or a page.
    pub(super) fn is_drawn(&self) -> bool {
        self.chart || self.picture.is_some() || self.page.is_some()
    }

    /// The flag that asks for it, for messages.
    pub(super) fn flag_name(&self) -> &'static str {
        if self.file.is_some() { "--trace" } else { "--timeline" }
    }
}

/// `4096`, `512M`, `8G`: powers of 1024.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let unit = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit)
}

/// `4x8`, or `scalar` for a tensor without axes.
///
/// # Errors
/// A text that is no shape.
pub(super) fn parse_shape(text: &str) -> Result<Vec<usize>, String> {
    if text == "scalar" {
        return Ok(Vec::new());
    }
    text.split(['x', ','])
        .map(|word: &str| word.trim().parse().map_err(|_| format!("`{word}` is not an extent; write a shape as 4x8")))
        .collect()
}

/// An integer or a real number.
///
/// # Errors
/// A text that is no number.
pub(super) fn parse_number(text: &str) -> Result<ScalarNumber, String> {
    let whole = text.parse().map(ScalarNumber::Int);
    whole.or_else(|_| text.parse().map(ScalarNumber::Real)).map_err(|_| format!("`{text}` is not a number"))
}

/// A generator or a data file.
///
/// # Errors
/// A text that is neither.
pub(super) fn parse_content(text: &str) -> Result<InputContent, String> {
    if let Some(generator) = TensorGenerator::parse(text) {
        return Ok(InputContent::Generate(generator));
    }
    if let Some(file) = DataFile::parse_name(text) {
        return Ok(InputContent::File(file));
    }
    let words: Vec<&str> = TensorGenerator::ALL.iter().map(|(_, word)| *word).collect();
    Err(match nearest_candidate(text, words.iter().copied()) {
        Some(near) => format!("unknown generator `{text}`; did you mean `{near}`?"),
        None => format!("expected {}, a .npy or a .safetensors file", words.join(", ")),
    })
}

/// A file of an extension that is known.
///
/// # Errors
/// Another extension.
pub(super) fn data_file(text: &str) -> Result<DataFile, String> {
    DataFile::parse_name(text).ok_or_else(|| format!("`{text}` is not a .npy or .safetensors file"))
}

/// The missing part of a `key=value` without a key or without a value.
pub(super) fn missing_part(flag: &str, text: &str) -> String {
    let example = match flag {
        "set" => "i0=8",
        "shape" => "T0=4x8",
        "input" => "T0=randn",
        "output" | "expect" => "T1=x.npy",
        "map-backend" => "UCC=NCCL",
        _ => "name=value",
    };
    // `T0`, `i1`: nvFuser's names are letters and a number.
    let letters = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let digits = !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_digit());
    // Values of these are numbers.
    if matches!(flag, "set" | "shape") && is_identifier(text) {
        let value = example.split_once('=').map_or("8", |(_, value)| value);
        return format!("`=` and a value are missing after the name, as in `--{flag} {text}={value}`");
    }
    let what = match (text.starts_with('='), digits && letters.len() < text.len()) {
        (true, _) => "the name before `=` is missing",
        (false, true) => "`=` and a value are missing after the name",
        (false, false) => "a name and `=` are missing before it",
    };
    format!("{what}, as in `--{flag} {example}`")
}

/// The value of `--container`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ContainerChoice {
    /// One program, counted from 1.
    Number(usize),
    /// Every program of the file.
    All,
}

impl ContainerChoice {
    /// The number, if one program is meant.
    pub(super) fn number(self) -> Option<usize> {
        match self {
            ContainerChoice::Number(number) => Some(number),
            ContainerChoice::All => None,
        }
    }
}

/// `3`, or `all`.
pub(super) fn parse_container(text: &str) -> Result<ContainerChoice, String> {
    match text.parse() {
        _ if text == "all" => Ok(ContainerChoice::All),
        Ok(number @ 1..) => Ok(ContainerChoice::Number(number)),
        _ => Err("the number of a program, from 1, or `all`".to_owned()),
    }
}
