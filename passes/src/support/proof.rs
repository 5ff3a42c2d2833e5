//! Options that fix sizes, ranks and streams, and the proof of a program for them.

use crate::framework::options::{ANY_NAME, OptionSpec, OptionType, Options};
use hostir::diag::{Diags, PartKind, RunOption};
use hostir::ir::Program;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program, stream_count};
use hostir::plan::cost::CostModel;
use hostir::plan_checks::{ProofReport, prove_program};
use hostir::verdict::{FoundSkew, JudgedProgram, find_skews, judge_program};

/// The options of passes that prove a program.
pub(crate) const SIZE_OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "devices",
        ty: OptionType::Int { min: 0, max: 4096 },
        default: Some("0"),
        help: "The number of ranks; 0 is as many as the meshes need",
    },
    OptionSpec {
        name: "streams",
        ty: OptionType::Int { min: 0, max: 65_536 },
        default: Some("0"),
        help: "The value of `numberOfStreams`; 0 is what the program proposes, else 4",
    },
    OptionSpec {
        name: "every",
        ty: OptionType::Int { min: 0, max: i64::MAX },
        default: Some("0"),
        help: "The value of extents that nothing else determines; 0 leaves them open",
    },
    OptionSpec {
        name: ANY_NAME,
        ty: OptionType::Int { min: i64::MIN, max: i64::MAX },
        default: Some("0"),
        help: "The value of the extent or scalar input of that name, as in `i0=8`",
    },
];

/// Plans a program for the sizes in the options of a pass, and proves it.
///
/// # Errors
/// If sizes are open or contradict each other, or the program has no plan for them.
pub(crate) fn prove_with_sizes(pass: &str, program: &Program, options: &Options) -> Result<ProofReport, Diags> {
    Ok(prove_program(&prepare_with_sizes(pass, program, options)?))
}

/// Plans a program for the sizes in the options of a pass, proves it, and searches wasted time.
///
/// # Errors
/// As [`prove_with_sizes`].
pub(crate) fn judge_with_sizes(
    pass: &str,
    program: &Program,
    options: &Options,
    model: &CostModel,
) -> Result<JudgedProgram, Diags> {
    Ok(judge_program(program, &prepare_with_sizes(pass, program, options)?, model, false))
}

/// Plans a program for the sizes in the options of a pass, proves it, and finds its loops that take less time if they
/// are skewed.
///
/// # Errors
/// As [`prove_with_sizes`], and those of the proof.
pub(crate) fn skews_with_sizes(
    pass: &str,
    program: &Program,
    options: &Options,
    model: &CostModel,
) -> Result<Vec<FoundSkew>, Diags> {
    let prepared = prepare_with_sizes(pass, program, options)?;
    match prove_program(&prepared).errors {
        errors if errors.is_empty() => Ok(find_skews(program, &prepared, model)),
        items => Err(Diags { items }),
    }
}

fn prepare_with_sizes(pass: &str, program: &Program, options: &Options) -> Result<PreparedProgram, Diags> {
    let devices = u32::try_from(options.int_value("devices")).ok().filter(|&devices| devices > 0);
    let streams = u32::try_from(options.int_value("streams")).ok().filter(|&streams| streams > 0);
    let every = Some(options.int_value("every")).filter(|&every| every > 0);
    let settings = SizeSettings {
        set: options.named_values().iter().cloned().collect(),
        every,
        devices,
        streams: stream_count(program, streams),
        memory_limit: u64::MAX,
        ..SizeSettings::default()
    };
    prepare_program(program, &settings).map_err(|diags| in_options_of(pass, diags))
}

/// Replaces the options of `hir-run` in errors by those of the pass.
fn in_options_of(pass: &str, mut diags: Diags) -> Diags {
    for diag in &mut diags.items {
        for text in std::iter::once(&mut diag.message).chain(&mut diag.notes) {
            *text = text.map_parts(|part, text| match part.kind {
                PartKind::RunOption(option) => option_of_pass(pass, option, text),
                _ => None,
            });
        }
    }
    diags
}

/// `check-program{m=8}` of `--set m=8`, and `check-program{devices=4}` of `--devices 4`; a pass takes no shapes.
fn option_of_pass(pass: &str, option: RunOption, text: &str) -> Option<String> {
    let value = text.split_once(' ').map_or("", |(_, value)| value.trim_matches('\''));
    Some(match option {
        RunOption::Set => match value.strip_prefix("*=") {
            Some(every) => format!("{pass}{{every={every}}}"),
            None => format!("{pass}{{{value}}}"),
        },
        RunOption::Devices if value.is_empty() => "devices".to_owned(),
        RunOption::Devices => format!("{pass}{{devices={value}}}"),
        RunOption::ShapeInstead => String::new(),
        RunOption::Shape | RunOption::TimeLimit | RunOption::PlanMemory => return None,
    })
}
