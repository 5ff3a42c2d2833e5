//! Pipelines as texts: what is read, what is printed again, and what is said about wrong ones.

#![allow(clippy::unwrap_used, reason = "failures panic")]

use hostir_passes::pipeline::parse_pipeline;
use hostir_passes::{OptionSpec, OptionType, PassAction, PassInfo, PassRegistry};

static RING: PassInfo = PassInfo {
    name: "ring-stream-buffers",
    summary: "test",
    description: "",
    example: None,
    options: &[
        OptionSpec {
            name: "slots",
            ty: OptionType::Int { min: 1, max: 64 },
            default: Some("4"),
            help: "number of slots",
        },
        OptionSpec {
            name: "communicator_backend",
            ty: OptionType::Choice(&["NCCL", "UCC", "CUDA"]),
            default: Some("NCCL"),
            help: "who moves data",
        },
        OptionSpec { name: "only", ty: OptionType::Words, default: Some("{}"), help: "tensors" },
        OptionSpec { name: "force", ty: OptionType::Bool, default: Some("false"), help: "even if slow" },
    ],
    statistics: &[],
    action: PassAction::Rewrite(|_, _| Ok(())),
};
static RESIZE: PassInfo = PassInfo {
    name: "resize-mesh",
    summary: "test",
    description: "",
    example: None,
    options: &[OptionSpec {
        name: "devices",
        ty: OptionType::Int { min: 1, max: i64::MAX },
        default: None,
        help: "new count",
    }],
    statistics: &[],
    action: PassAction::Rewrite(|_, _| Ok(())),
};
const TABLE: &[&PassInfo] = &[&RING, &RESIZE];

fn errors(text: &str) -> String {
    match parse_pipeline(text, TABLE) {
        Ok(pipeline) => format!("ok {pipeline}"),
        Err(diags) => hostir::diag::render::to_string("pipeline", text, &diags.items),
    }
}

/// Commas, blanks, bare flags, dashes for underscores and lists all read.
#[test]
fn options_take_commas_or_blanks() {
    let text = " ring_stream_buffers{slots=8 force, communicator-backend=UCC only={1, 2}} , resize-mesh{devices=2}";
    let pipeline = parse_pipeline(text, TABLE).unwrap();
    assert_eq!(
        pipeline.to_string(),
        "ring-stream-buffers{slots=8,communicator_backend=UCC,only={1,2},force=true},resize-mesh{devices=2}"
    );
    assert_eq!(pipeline.steps[0].options.word_list("only"), ["1", "2"]);
    assert_eq!(pipeline.steps[0].options.word_value("communicator_backend"), "UCC");
    assert!(pipeline.steps[0].options.bool_value("force"));
}

/// Passes of a caller stand beside those of the table, under names of their own.
#[test]
fn a_registry_adds_passes() {
    static MORE: &[&PassInfo] = &[&PassInfo { name: "pair-sends", ..PassInfo::DEFAULTS }];
    let registry = PassRegistry::with_passes(MORE);
    assert_eq!(parse_pipeline("dce,pair_sends", registry).unwrap().to_string(), "dce,pair-sends");
    assert!(parse_pipeline("pair-sends", PassRegistry::OURS).is_err());
    let error = parse_pipeline("pair-send", registry).unwrap_err();
    assert!(error.items[0].primary.as_ref().is_some_and(|label| label.text.as_str().contains("`pair-sends`")));
}

#[test]
#[should_panic(expected = "a caller's pass has the name of one of the table")]
fn a_pass_of_a_caller_has_a_name_of_its_own() {
    static MORE: &[&PassInfo] = &[&PassInfo { name: "resize_mesh", ..PassInfo::DEFAULTS }];
    let _registry = PassRegistry::of_tables(TABLE, MORE);
}

/// Options that are not given have their defaults and are not printed.
#[test]
fn defaults_fill_in() {
    let pipeline = parse_pipeline("ring-stream-buffers", TABLE).unwrap();
    assert_eq!(pipeline.steps[0].options.int_value("slots"), 4);
    assert_eq!(pipeline.to_string(), "ring-stream-buffers");
    assert!(parse_pipeline("  ", TABLE).unwrap().steps.is_empty());
}

/// One run reports every error, each with a caret.
#[test]
fn all_errors_are_reported() {
    let out = errors(
        "ring-stream-bufers,ring-stream-buffers{slot=1 slots=many slots=3 communicator_backend=NCLL},resize-mesh",
    );
    for want in [
        "did you mean `ring-stream-buffers`?",
        "did you mean `slots`?",
        "`many` is not a valid value for the option `slots`",
        "an integer from 1 to 64, default 4",
        "is given twice",
        "did you mean `NCCL`?",
        "`resize-mesh` needs the option `devices`",
    ] {
        assert!(out.contains(want), "{want} is not in\n{out}");
    }
}

/// MLIR's and LLVM's spellings are answered with ours.
#[test]
fn other_spellings_are_answered() {
    assert!(
        errors("builtin.module(func.func(cse,canonicalize{a=1}),dce)").contains("write `cse,canonicalize{a=1},dce`")
    );
    assert!(errors("ring-stream-buffers<slots=2;force=1>").contains("write `ring-stream-buffers{slots=2,force=1}`"));
    assert!(errors("resize-mesh(devices=2)").contains("write `resize-mesh{devices=2}`"));
    assert!(errors("RingStreamBuffers").contains("did you mean `ring-stream-buffers`?"));
}

/// Broken texts end in an error, never in a panic or an endless loop.
#[test]
fn broken_texts_are_errors() {
    for text in [
        "ring-stream-buffers{",
        "ring-stream-buffers{slots",
        "ring-stream-buffers{slots=",
        "ring-stream-buffers{=3}",
        ",",
        "resize-mesh{devices=1},",
        "}",
        "ring-stream-buffers}",
        "ring-stream-buffers{{}}",
        "(",
        "é{ü=ß}",
        "ring-stream-buffers resize-mesh",
        "a=b",
        "ring-stream-buffers{only={1,2}",
    ] {
        let out = errors(text);
        assert!(out.starts_with("error[H03"), "{text}: {out}");
    }
}
