//! `lit.toml`: the settings of a folder of tests. A folder extends those of the folders around it, up to the one with
//! `root = true` or the root of a repository.

use crate::nearest::did_you_mean;
use crate::substitutions::Substitutions;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file's name.
pub const FILE: &str = "lit.toml";
/// Variables of the caller's environment that tests see, if no folder says otherwise.
const PASSED: [&str; 5] = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"];
/// Folders of programs, if the environment has no `PATH`: those that shells use then.
const SYSTEM_PATH: &str = "/usr/bin:/bin";
/// Folders in which no tests are searched, if no folder says otherwise.
const EXCLUDED: [&str; 1] = ["Inputs"];

/// The settings of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The name of the suite in reports.
    pub suite: String,
    /// The outermost folder with settings, from which names of tests start.
    pub root: PathBuf,
    /// Ends of names of tests; without any, each file with a RUN line is a test.
    pub suffixes: Vec<String>,
    /// Names of files and folders that hold no tests.
    pub excludes: Vec<String>,
    /// Substitutions beside those that all tests have.
    pub substitutions: Substitutions,
    /// Features that hold, all of them or under a condition.
    pub features: Vec<FeatureRule>,
    /// Variables of the environment.
    pub environment: BTreeMap<String, String>,
    /// Variables of the caller's environment that tests see.
    pub passed: Vec<String>,
    /// Folders of programs, in front of those of `PATH`.
    pub path: Vec<PathBuf>,
    /// Options that programs get where their command lines do not give them.
    pub default_options: BTreeMap<String, Vec<String>>,
    /// Seconds that a test may take.
    pub timeout: Option<u64>,
}

/// A feature with the conditions under which it holds, all of which have to.
#[derive(Clone, Default, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureRule {
    /// The feature's name.
    pub name: String,
    /// A variable of the caller's environment that has to be set.
    pub env: Option<String>,
    /// A file that has to exist.
    pub file: Option<PathBuf>,
    /// A command of the system's shell that has to succeed.
    pub command: Option<String>,
    /// The way to get it, in reports.
    pub about: Option<String>,
}

/// A feature as it is written: a name, or a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenFeature {
    Name(String),
    Rule(FeatureRule),
}

/// A value of a variable or a substitution.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Integer(i64),
    Truth(bool),
}

/// The contents of a `lit.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct SettingsFile {
    name: Option<String>,
    root: bool,
    suffixes: Option<Vec<String>>,
    excludes: Option<Vec<String>>,
    substitutions: BTreeMap<String, Scalar>,
    features: Vec<WrittenFeature>,
    environment: BTreeMap<String, Scalar>,
    pass_environment: Option<Vec<String>>,
    path: Vec<PathBuf>,
    default_options: BTreeMap<String, Vec<String>>,
    timeout: Option<u64>,
}

impl Settings {
    /// The settings of a folder, which must be absolute.
    ///
    /// # Errors
    /// What is wrong with a `lit.toml`, with its line.
    pub fn of_folder(folder: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        for folder in folder.ancestors() {
            let file = read_file(&folder.join(FILE))?;
            let is_root = file.as_ref().is_some_and(|file| file.root) || folder.join(".git").exists();
            files.extend(file.map(|file| (folder, file)));
            if is_root {
                break;
            }
        }
        let root = files.last().map_or(folder, |(folder, _)| folder);
        let mut settings = Self::without_file(root);
        for (folder, file) in files.into_iter().rev() {
            settings.extend(folder, file);
        }
        Ok(settings)
    }

    /// These settings with those of a folder within; `None` if it has none of its own.
    ///
    /// # Errors
    /// What is wrong with its `lit.toml`.
    pub fn of_subfolder(&self, folder: &Path) -> Result<Option<Self>, String> {
        Ok(read_file(&folder.join(FILE))?.map(|file| {
            let mut settings = self.clone();
            settings.extend(folder, file);
            settings
        }))
    }

    fn without_file(root: &Path) -> Self {
        Self {
            suite: root.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            root: root.to_path_buf(),
            suffixes: Vec::new(),
            excludes: EXCLUDED.map(str::to_owned).to_vec(),
            substitutions: Substitutions::default(),
            features: Vec::new(),
            environment: BTreeMap::new(),
            passed: PASSED.map(str::to_owned).to_vec(),
            path: Vec::new(),
            default_options: BTreeMap::new(),
            timeout: None,
        }
    }

    fn extend(&mut self, folder: &Path, file: SettingsFile) {
        self.suite = file.name.unwrap_or(std::mem::take(&mut self.suite));
        self.suffixes = file.suffixes.unwrap_or(std::mem::take(&mut self.suffixes));
        self.excludes = file.excludes.unwrap_or(std::mem::take(&mut self.excludes));
        self.passed = file.pass_environment.unwrap_or(std::mem::take(&mut self.passed));
        self.timeout = file.timeout.or(self.timeout);
        for (name, text) in &file.substitutions {
            self.substitutions.define(name, &text.in_folder(folder));
        }
        for (name, text) in &file.environment {
            self.environment.insert(name.clone(), text.in_folder(folder));
        }
        self.features.extend(file.features.into_iter().map(|feature| match feature {
            WrittenFeature::Name(name) => FeatureRule { name, ..FeatureRule::default() },
            WrittenFeature::Rule(rule) => FeatureRule { file: rule.file.map(|file| folder.join(file)), ..rule },
        }));
        self.path = file.path.iter().map(|path| folder.join(path)).chain(std::mem::take(&mut self.path)).collect();
        self.default_options.extend(file.default_options);
    }

    /// The environment of commands, and the folders in which they are searched.
    pub(crate) fn environment_of_commands(&self) -> (BTreeMap<String, String>, Vec<PathBuf>) {
        let passed = self.passed.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?)));
        let mut environment: BTreeMap<String, String> = passed.collect();
        environment.extend(self.environment.clone());
        let given = environment.get("PATH").map(Into::into).or_else(|| std::env::var_os("PATH"));
        let given = given.unwrap_or_else(|| SYSTEM_PATH.into());
        let search: Vec<PathBuf> = self.path.iter().cloned().chain(std::env::split_paths(&given)).collect();
        if !self.path.is_empty()
            && let Ok(joined) = std::env::join_paths(&search)
        {
            environment.insert("PATH".to_owned(), joined.to_string_lossy().into_owned());
        }
        (environment, search)
    }
}

impl Scalar {
    /// The text, with the folder of its file for `%{here}`.
    fn in_folder(&self, folder: &Path) -> String {
        let text = match self {
            Scalar::Text(text) => text.clone(),
            Scalar::Integer(number) => number.to_string(),
            Scalar::Truth(truth) => truth.to_string(),
        };
        text.replace("%{here}", &folder.to_string_lossy())
    }
}

/// The file's contents; `None` if there is none.
fn read_file(path: &Path) -> Result<Option<SettingsFile>, String> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    toml::from_str(&text).map(Some).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        format!("{}:{line}: {}", path.display(), with_nearest_key(error.message()))
    })
}

/// A message about an unknown key with the known key nearest to it.
fn with_nearest_key(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    match (message.starts_with("unknown field"), names.next()) {
        (true, Some(name)) => format!("unknown key `{name}`{}", nearest_key(name, names.collect())),
        _ => message.to_owned(),
    }
}

fn nearest_key(name: &str, known: Vec<&str>) -> String {
    match did_you_mean(name, known.iter().copied()) {
        hint if hint.is_empty() => format!("; there are {}", known.join(", ")),
        hint => hint,
    }
}
