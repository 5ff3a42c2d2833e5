//! The manager: rollback, skipped passes, pipeline passes, what is still to run.

use hostir::diag::{Diag, Diags};
use hostir::ir::edit::Edit;
use hostir::ir::{OpId, Program, Value};
use hostir_passes::manager::{
    Config, PassObserver, PipelineFailure, PipelineReport, SilentObserver, VerifyEach, run_pipeline,
};
use hostir_passes::{OptionSpec, OptionType, PassAction, PassCx, PassInfo, StatisticSpec, pipeline};

const TEXT: &str = "\
%HostIrContainer { (T0_g_float[iS0{i0}]) -> (T2_g_float[iS2{i0}]) :
  T1_l_float[iS1{i0}]
     = Set( T0_g_float[iS0{i0}], cache_op=Streaming )
  T2_g_float[iS2{i0}]
     = Set( T1_l_float[iS1{i0}], cache_op=Streaming )
} // %HostIrContainer
";

const fn info(name: &'static str, action: PassAction) -> PassInfo {
    PassInfo { name, summary: "test", description: "", example: None, options: &[], statistics: &[], action }
}

static NOTHING: PassInfo = info("nothing", PassAction::Rewrite(|_, _| Ok(())));
static REJECT: PassInfo = info("reject", PassAction::Rewrite(reject));
static DROP_LAST: PassInfo = PassInfo {
    statistics: &[StatisticSpec { name: "dropped", help: "ops dropped" }],
    options: &[OptionSpec {
        name: "count",
        ty: OptionType::Int { min: 0, max: 9 },
        default: Some("1"),
        help: "how many",
    }],
    ..info("drop-last", PassAction::Rewrite(drop_last))
};
static BOTH: PassInfo = PassInfo {
    options: &[OptionSpec {
        name: "count",
        ty: OptionType::Int { min: 0, max: 9 },
        default: Some("1"),
        help: "how many",
    }],
    ..info(
        "both",
        PassAction::Pipeline(|options| format!("drop-last{{count={}}},reject,nothing", options.int_value("count"))),
    )
};
static ENDLESS: PassInfo = info("endless", PassAction::Pipeline(|_| "endless".to_owned()));
static NEEDS: PassInfo = PassInfo {
    options: &[OptionSpec { name: "size", ty: OptionType::Int { min: 0, max: 9 }, default: None, help: "how much" }],
    ..info("needs", PassAction::Rewrite(|_, _| Ok(())))
};
static SAME_BLOCK: PassInfo = info("same-block", PassAction::Rewrite(same_block));
static APPEND: PassInfo = info("append", PassAction::Rewrite(append));
static PANICS: PassInfo = info("panics", PassAction::Rewrite(panics));
static TABLE: &[&PassInfo] = &[&NOTHING, &REJECT, &DROP_LAST, &BOTH, &ENDLESS, &NEEDS, &SAME_BLOCK, &APPEND, &PANICS];

/// Replaces the body by itself, which is no change.
fn same_block(edit: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    let ops = edit.program().block(body).ops.clone();
    edit.set_block(body, ops);
    Ok(())
}

/// Adds a block that nothing uses, and replaces nothing.
fn append(edit: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
    edit.add_block(Vec::new());
    Ok(())
}

fn drop_last(edit: &mut Edit<'_>, cx: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    let mut ops: Vec<OpId> = edit.program().block(body).ops.clone();
    for _ in 0..cx.options().int_value("count") {
        cx.add_count("dropped", u64::from(ops.pop().is_some()));
    }
    edit.set_block(body, ops);
    Ok(())
}

/// Changes a lot, then refuses.
fn reject(edit: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    edit.set_block(body, Vec::new());
    edit.set_outputs(Vec::<Value>::new());
    let mut diags = Diags::default();
    diags.push(Diag::global_error("H0399", "refused"));
    Err(diags)
}

/// Changes a lot, then panics.
#[allow(clippy::panic, reason = "the panic is what is tested")]
fn panics(edit: &mut Edit<'_>, _: &mut PassCx<'_>) -> Result<(), Diags> {
    let body = edit.program().body();
    edit.set_block(body, Vec::new());
    panic!("the pass has a bug in line {}", 7);
}

fn program() -> Program {
    let parsed = hostir_grammar::parse(TEXT);
    hostir::resolve::resolve(&parsed.ast, 0, TEXT, &mut Diags::default())
}

fn with(text: &str, config: Config) -> (String, Result<PipelineReport, Box<PipelineFailure>>) {
    let mut program = program();
    let pipeline = pipeline::parse_pipeline(text, TABLE).expect("the pipeline is well formed");
    let config = Config { passes: TABLE.into(), ..config };
    let result = run_pipeline(&mut program, &pipeline, &config, &mut SilentObserver);
    (hostir::print::print_to_string(&program), result)
}

/// Verification is off where the passes of this test break the program on purpose.
fn unverified() -> Config {
    Config { verify_each: VerifyEach::Never, ..Config::default() }
}

/// A pass that refuses leaves the program as it was, and says what was still to run.
#[test]
fn a_refusal_is_rolled_back() {
    let (text, result) = with("nothing,reject,drop-last{count=2}", Config::default());
    let failure = result.unwrap_err();
    assert_eq!(text, TEXT);
    assert_eq!(failure.pass.unwrap().name, "reject");
    assert_eq!(failure.errors.items[0].message, "refused");
    assert_eq!(failure.remaining.to_string(), "reject,drop-last{count=2}");
}

/// The steps of a pipeline pass run one by one; what is left names the steps, not the pipeline pass.
#[test]
fn a_pipeline_pass_fails_at_its_step() {
    let (text, result) = with("both{count=0},nothing", unverified());
    let failure = result.unwrap_err();
    assert_eq!(text, TEXT);
    assert_eq!(failure.remaining.to_string(), "reject,nothing,nothing");
    let names: Vec<_> = failure.report.runs.iter().map(|run| (run.pass.name, run.depth)).collect();
    assert_eq!(names, [("both", 0), ("drop-last", 1), ("reject", 1)]);
}

/// Disabled passes are skipped inside of pipeline passes, too.
#[test]
fn disabled_passes_are_skipped() {
    let config = Config { disabled: vec![&REJECT, &ENDLESS], remarks: true, ..unverified() };
    let (_, result) = with("both,nothing", config);
    let report = result.unwrap();
    assert!(report.runs.iter().any(|run| run.pass.name == "reject" && run.skipped));
    let found: Vec<_> = report.notices.items.iter().map(|diag| diag.code).collect();
    // reject skipped; nothing inside of both and nothing itself did nothing; endless never ran.
    assert_eq!(found, ["H0310", "H0309", "H0309", "H0308"]);
}

/// A pass that leaves an invalid program is a bug, and its change is dropped.
#[test]
fn an_invalid_result_is_a_bug() {
    let (text, result) = with("drop-last", Config::default());
    let failure = result.unwrap_err();
    assert_eq!(text, TEXT);
    assert_eq!(failure.errors.items[0].code, "H0307");
    assert!(failure.errors.items[0].message.contains("`drop-last` produced an invalid program"));
}

/// A panic is an error with what is still to run, and its change is rolled back; without the wish it is the caller's.
#[test]
fn panics_are_contained_on_request() {
    let (text, result) = with("nothing,panics,append", Config { contain_panics: true, ..Config::default() });
    let failure = result.unwrap_err();
    assert_eq!(text, TEXT);
    let [error] = &failure.errors.items[..] else { panic!("{:?}", failure.errors) };
    assert_eq!(error.code, "H0674");
    assert_eq!(error.message, "`panics` panicked: the pass has a bug in line 7 (this is a bug in the pass)");
    assert_eq!(failure.remaining.to_string(), "panics,append");
    assert!(std::panic::catch_unwind(|| with("panics", Config::default())).is_err());
}

/// Verification follows passes that touched the program, by the journal: also those that report no replacement.
#[test]
fn verification_follows_changes() {
    let verified = |text: &str, verify_each: VerifyEach| {
        let (_, result) = with(text, Config { verify_each, ..Config::default() });
        result.unwrap().runs.iter().map(|run| !run.verify_time.is_zero()).collect::<Vec<_>>()
    };
    let text = "nothing,same-block,append";
    assert_eq!(verified(text, VerifyEach::Changed), [false, false, true]);
    assert_eq!(verified(text, VerifyEach::Always), [true, true, true]);
    assert_eq!(verified(text, VerifyEach::Never), [false, false, false]);
}

/// The errors about options, in the words of the message.
#[test]
fn wrong_options() {
    let error = |text: &str| {
        let diags = pipeline::parse_pipeline(text, TABLE).expect_err(text);
        let diag = &diags.items[0];
        format!("{}: {}; {}", diag.code, diag.message, diag.notes.join("; "))
    };
    let cases = [
        ("drop-last{count=ten}", "H0304: `ten` is not a valid value for the option `count` of `drop-last`"),
        ("drop-last{count=10}", "H0304: `10` is not a valid value for the option `count` of `drop-last`"),
        ("drop-last{count}", "H0304: the option `count` of `drop-last` needs a value"),
        ("drop-last{count=1,count=2}", "H0305"),
        ("needs", "H0306"),
        ("needs{siez=1}", "H0303: `needs` has no option `siez`"),
    ];
    for (text, expected) in cases {
        let found = error(text);
        assert!(found.starts_with(expected) && found.len() > expected.len(), "{text}: {found}");
    }
}

/// A pipeline pass that is an alias of itself ends in an error.
#[test]
fn endless_pipelines_end() {
    let (_, result) = with("endless", Config::default());
    assert!(result.unwrap_err().errors.items[0].message.contains("is an alias of itself"));
}

/// Changes, op counts and statistics are kept for each run; observers see every pass.
#[test]
fn the_books_are_kept() {
    #[derive(Default)]
    struct Log(Vec<String>);
    impl PassObserver for Log {
        fn before_pass(&mut self, pass: &'static PassInfo, _: &Program) {
            self.0.push(format!("before {}", pass.class_name()));
        }
        fn after_pass(&mut self, pass: &'static PassInfo, _: &Program, changed: bool) {
            self.0.push(format!("after {} {changed}", pass.class_name()));
        }
        fn after_failure(&mut self, pass: &'static PassInfo, program: &Program) {
            let ops = program.block(program.body()).ops.len();
            self.0.push(format!("failed {} with {ops} ops", pass.class_name()));
        }
    }
    // A pass that rejects: the program as it was. An invalid result: what the pass left.
    for (text, expected) in [("reject", "failed Reject with 2 ops"), ("drop-last", "failed DropLast with 1 ops")] {
        let (mut program, mut log) = (program(), Log::default());
        let pipeline = pipeline::parse_pipeline(text, TABLE).unwrap();
        let config = Config { passes: TABLE.into(), ..Config::default() };
        assert!(run_pipeline(&mut program, &pipeline, &config, &mut log).is_err());
        assert_eq!(log.0.last().map(String::as_str), Some(expected));
        assert_eq!(hostir::print::print_to_string(&program), TEXT);
    }
    let mut program = program();
    let pipeline = pipeline::parse_pipeline("nothing,drop-last", TABLE).unwrap();
    let mut log = Log::default();
    let config = Config { passes: TABLE.into(), ..unverified() };
    let report = run_pipeline(&mut program, &pipeline, &config, &mut log).unwrap();
    assert_eq!(log.0, ["before Nothing", "after Nothing false", "before DropLast", "after DropLast true"]);
    assert_eq!((report.runs[1].ops_before, report.runs[1].ops_after), (2, 1));
    assert_eq!(report.runs[1].statistics, [("dropped", 1)]);
}
