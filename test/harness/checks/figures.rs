//! Bounds of the figures that `hostir-figures` counts.

use hostir_figures::report::Figures;

/// A figure, and the most that it may be.
struct Bound {
    name: &'static str,
    found: f64,
    most: f64,
}

/// Figures beyond their bounds.
pub(crate) fn exceeded(figures: &Figures) -> Vec<String> {
    let beyond = bounds(figures).into_iter().filter(|bound| bound.found > bound.most);
    beyond.map(|Bound { name, found, most }| format!("{name}: {found:.1}, at most {most}")).collect()
}

fn bounds(figures: &Figures) -> Vec<Bound> {
    let names = &figures.names;
    let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let closures = figures.shapes.closures.len() as f64 * 1000.0 / figures.lines.shipped_all.max(1) as f64;
    vec![
        Bound {
            name: "one-word names of functions, %",
            found: share(names.short_functions().len(), names.functions.len()),
            most: 30.0,
        },
        Bound {
            name: "one-word names of types, %",
            found: share(names.short_types().len(), names.types.len()),
            most: 30.0,
        },
        Bound {
            name: "names of types that are defined again, %",
            found: share(names.repeated_types().len(), names.types.len()),
            most: 8.0,
        },
        Bound {
            name: "docs that open with a question, %",
            found: share(figures.questions().len(), figures.docs.len()),
            most: 2.0,
        },
        Bound { name: "named closures per 1,000 lines", found: closures, most: MOST_CLOSURES },
        Bound { name: "tuple parameters", found: figures.shapes.tuples.len() as f64, most: MOST_TUPLES },
    ]
}

/// Lower it when the figure is lower.
const MOST_CLOSURES: f64 = 1.3;
/// Lower it when the figure is lower.
const MOST_TUPLES: f64 = 6.0;
