//! One test: its file, and how it runs.

use crate::conditions::holds;
use crate::context::{Checks, Context, InProcessTool};
use crate::directives::{Directives, parse_directives};
use crate::exec::{LineFailure, Shell};
use crate::features::{FeatureSet, describe};
use crate::interrupts::ProcessGroups;
use crate::outcome::{Outcome, Verdict};
use crate::settings::Settings;
use crate::substitutions::TestPlace;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The settings that all tests of a run share.
#[derive(Debug, Default)]
pub struct RunSettings {
    /// Tools that run in this process.
    pub tools: Vec<InProcessTool>,
    /// Tools and FileCheck run as processes.
    pub spawn: bool,
    /// Full names of tests whose tools run as processes, since they have ended the process of the tests.
    pub isolated: BTreeSet<String>,
    /// `diff` rewrites expectations that differ.
    pub bless: bool,
    /// The features of this machine.
    pub features: FeatureSet,
    /// The folder in which tests have theirs for temporary files; the system's if there is none.
    pub scratch: Option<PathBuf>,
    /// The processes that go on.
    pub groups: ProcessGroups,
    /// Seconds that a test may take, in the place of those of its folder; 0 for any number.
    pub timeout: Option<u64>,
}

/// A test's file with the settings of its folder.
#[derive(Clone, Debug)]
pub struct TestCase {
    /// The absolute path.
    pub path: PathBuf,
    /// The settings of its folder.
    pub settings: Arc<Settings>,
}

/// A test in the course of an attempt.
pub(crate) struct Attempt {
    pub(crate) shell: Shell,
    pub(crate) place: TestPlace,
    /// The folder for temporary files, which is removed after the attempt.
    _scratch: tempfile::TempDir,
}

impl TestCase {
    /// The test's path below the suite's root.
    pub fn relative_path(&self) -> String {
        self.path.strip_prefix(&self.settings.root).unwrap_or(&self.path).to_string_lossy().into_owned()
    }

    /// The test's name in reports.
    pub fn full_name(&self) -> String {
        format!("{} :: {}", self.settings.suite, self.relative_path())
    }

    /// Reads the test's directives.
    ///
    /// # Errors
    /// If the file cannot be read, or a directive is wrong.
    pub fn read_directives(&self) -> Result<Directives, String> {
        let bytes = std::fs::read(&self.path).map_err(|error| format!("{}: {error}", self.path.display()))?;
        parse_directives(&String::from_utf8_lossy(&bytes))
    }

    /// Runs the test.
    pub fn run_test(&self, run: &RunSettings) -> Outcome {
        let directives = match self.read_directives() {
            Ok(directives) => directives,
            Err(error) => return Outcome::without_run(Verdict::Unresolved, format!("{error}\n")),
        };
        match self.missing_feature(&directives, &run.features) {
            Ok(None) => {}
            Ok(Some(reason)) => return Outcome::without_run(Verdict::Unsupported, format!("{reason}\n")),
            Err(error) => return Outcome::without_run(Verdict::Unresolved, format!("{error}\n")),
        }
        if directives.runs.is_empty() {
            let reason = "the file has no RUN line (a file that other tests use belongs into a folder named Inputs)\n";
            return Outcome::without_run(Verdict::Unresolved, reason.to_owned());
        }
        let fails_here = match self.any_holds(&directives.xfail, &run.features) {
            Ok(fails_here) => fails_here,
            Err(error) => return Outcome::without_run(Verdict::Unresolved, format!("{error}\n")),
        };
        let start = Instant::now();
        let (mut verdict, mut report) = self.run_lines(&directives, run);
        for _ in 0..directives.retries {
            if verdict != Verdict::Fail {
                break;
            }
            let (again, last) = self.run_lines(&directives, run);
            verdict = if again == Verdict::Pass { Verdict::FlakyPass } else { again };
            report = last;
        }
        let verdict = match verdict {
            Verdict::Pass | Verdict::FlakyPass if fails_here => Verdict::Xpass,
            Verdict::Fail if fails_here => Verdict::Xfail,
            other => other,
        };
        if verdict == Verdict::Xpass {
            report.push_str("it passes, although XFAIL says that it fails\n");
        }
        Outcome { verdict, report, time: start.elapsed() }
    }

    /// The reason that the test does not run here; `None` if it does.
    pub(crate) fn missing_feature(
        &self,
        directives: &Directives,
        features: &FeatureSet,
    ) -> Result<Option<String>, String> {
        for condition in &directives.requires {
            if !self.holds(condition, features)? {
                return Ok(Some(format!("needs {}", describe(condition, &self.settings.features))));
            }
        }
        let unsupported = self.any_holds(&directives.unsupported, features)?;
        Ok(unsupported.then(|| format!("UNSUPPORTED: {}", directives.unsupported.join(", "))))
    }

    fn any_holds(&self, conditions: &[String], features: &FeatureSet) -> Result<bool, String> {
        for condition in conditions {
            if self.holds(condition, features)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn holds(&self, condition: &str, features: &FeatureSet) -> Result<bool, String> {
        holds(condition, &|name| features.has(name, &self.settings.features))
    }

    /// Runs the RUN lines up to the first that fails.
    fn run_lines(&self, directives: &Directives, run: &RunSettings) -> (Verdict, String) {
        let mut report = String::new();
        let mut attempt = match self.begin_attempt(run, Checks::Compare) {
            Ok(attempt) => attempt,
            Err(error) => return (Verdict::Unresolved, format!("{error}\n")),
        };
        for line in &directives.runs {
            report.push_str(&format!("{}:{}: RUN: {}\n", self.relative_path(), line.line, line.command));
            let command = match self.settings.substitutions.expand(&line.command, &attempt.place) {
                Ok(command) => command,
                Err(error) => return (Verdict::Unresolved, format!("{report}{error}\n")),
            };
            let done = attempt.shell.run_line(&command);
            report.push_str(&attempt.shell.take_log());
            match done {
                Ok(()) => {}
                Err(LineFailure::TimedOut) => return (Verdict::Timeout, report),
                Err(LineFailure::Syntax) => return (Verdict::Unresolved, report),
                Err(LineFailure::Status) => return (Verdict::Fail, report),
            }
        }
        (Verdict::Pass, report)
    }

    /// A shell in a new temporary folder.
    pub(crate) fn begin_attempt(&self, run: &RunSettings, checks: Checks) -> Result<Attempt, String> {
        let root = run.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = tempfile::Builder::new().prefix("hir-lit-").tempdir_in(root);
        let scratch = scratch.map_err(|error| format!("no temporary folder: {error}"))?;
        let folder = scratch.path().canonicalize().map_err(|error| format!("no temporary folder: {error}"))?;
        let timeout = run.timeout.or(self.settings.timeout).filter(|seconds| *seconds > 0);
        let context = Context {
            bless: run.bless.then(|| self.settings.root.clone()),
            spawn: run.spawn || run.isolated.contains(&self.full_name()),
            tools: run.tools.clone(),
            checks,
            groups: run.groups.clone(),
            deadline: timeout.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds))),
            ..self.settings.context(&folder)
        };
        let place = TestPlace { source: self.path.clone(), scratch: folder };
        Ok(Attempt { shell: Shell::new(context), place, _scratch: scratch })
    }
}

impl Settings {
    /// The settings of commands in a folder for temporary files.
    pub fn context(&self, scratch: &Path) -> Context {
        let (environment, search) = self.environment_of_commands();
        Context {
            environment: Arc::new(environment),
            search,
            default_options: self.default_options.clone(),
            ..Context::in_folder(scratch)
        }
    }
}
