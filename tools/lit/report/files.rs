//! Reports for programs: JUnit's XML, and the JSON of LLVM's lit.

use crate::case::TestCase;
use crate::outcome::{Outcome, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase as JunitCase, TestCaseStatus, TestSuite, XmlString};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Writes JUnit's XML: a suite for each suite, a case for each test.
pub(super) fn write_xunit(path: &Path, ended: &[(&TestCase, &Outcome)]) -> Result<(), String> {
    let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for (test, outcome) in ended {
        let name = &*test.settings.suite;
        let suite = suites.entry(name).or_insert_with(|| TestSuite::new(name));
        suite.add_test_case(junit_case(test, outcome));
    }
    let mut report = Report::new("hir-lit");
    report.set_time(ended.iter().map(|(_, outcome)| outcome.time).sum());
    report.add_test_suites(suites.into_values());
    let text = report.to_string().map_err(|error| error.to_string())?;
    write_text(path, &text)
}

fn junit_case(test: &TestCase, outcome: &Outcome) -> JunitCase {
    let status = match outcome.verdict {
        Verdict::Pass | Verdict::FlakyPass | Verdict::Xfail => TestCaseStatus::success(),
        Verdict::Unsupported => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(outcome.report.trim_end());
            status
        }
        Verdict::Unresolved | Verdict::Timeout | Verdict::Xpass | Verdict::Fail => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(outcome.verdict.name()).set_message(outcome.verdict.label());
            status.set_description(outcome.report.as_str());
            status
        }
    };
    let path = test.relative_path();
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let mut case = JunitCase::new(name, status);
    let class =
        if folder.is_empty() { test.settings.suite.clone() } else { format!("{}.{folder}", test.settings.suite) };
    case.set_classname(XmlString::new(class)).set_time(outcome.time);
    case
}

/// Writes the JSON of `lit -o`.
pub(super) fn write_json(path: &Path, ended: &[(&TestCase, &Outcome)], time: Duration) -> Result<(), String> {
    let tests: Vec<_> = ended
        .iter()
        .map(|(test, outcome)| {
            json!({
                "code": outcome.verdict.name(),
                "elapsed": outcome.time.as_secs_f64(),
                "metrics": {},
                "name": test.full_name(),
                "output": outcome.report,
            })
        })
        .collect();
    let version: Vec<u32> = env!("CARGO_PKG_VERSION").split('.').filter_map(|part| part.parse().ok()).collect();
    let report = json!({"__version__": version, "elapsed": time.as_secs_f64(), "tests": tests});
    write_text(path, &format!("{report:#}\n"))
}

fn write_text(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
