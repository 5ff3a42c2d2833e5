//! Spelling features: the spelling of a file where eras of nvFuser differ.
//!
//! The rest of the IR is independent of eras: `resolve` records the features that a file uses, `print` reads them,
//! [`crate::style`] changes them, and an [`Era`] is only a preset of all features.

/// The spelling of the stream parallel type and of loop indices over it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamSpelling {
    /// `iStream7`
    Stream,
    /// `iStreamIdx7`
    StreamIdx,
    /// `istreamIdx7`
    LowerStreamIdx,
}

/// The spelling of casts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CastSpelling {
    /// `(float)(x)`
    C,
    /// `__to_float(x)`
    To,
}

/// The features of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Spelling of the stream parallel type.
    pub stream: StreamSpelling,
    /// `Synchronize(Stream 0)`, `Wait(Communication 1)`, `Stream 0x1 = GetCurrentStream()`,
    /// `SetCurrentStream(..)` instead of the word forms.
    pub call_form: bool,
    /// `stream_index=i` instead of `stream_index = i`.
    pub tight_stream_index: bool,
    /// Spelling of casts.
    pub cast: CastSpelling,
    /// `reshape(` instead of `view(`.
    pub reshape: bool,
    /// `max(`/`min(` for Max/Min instead of `fmax(`/`fmin(`.
    pub short_max: bool,
    /// `std::fmax(`/`std::fmin(` for the functions of these names, which leave NaN out: in a text that does not show
    /// whether its `fmax` is the older spelling of Max. nvFuser prints `fmax(` for both. Programs have it false; the
    /// printer decides.
    pub std_fmax: bool,
    /// `scatter(in = ` instead of `=scatter(self = `.
    pub scatter_in: bool,
    /// Each line of an argument of `sdpa` ends in a comma, and `is_causal=` and `scale=` have no blanks.
    pub sdpa_commas: bool,
    /// `HirAliasSelect(` instead of `select(` for slices at host level. Reading gives two different ops;
    /// [`crate::style::restyle_program`] converts one to the other.
    pub alias_select: bool,
    /// Communications print `backend=` if a pass made them, and all do after [`crate::style::restyle_program`].
    pub backend: bool,
    /// Allocations print as `ALLOCATE(mem_type=.., zero_init=..)` if a pass made them, and all do after
    /// [`crate::style::restyle_program`].
    pub short_allocate: bool,
    /// HostUnits repeat their lists in `Inputs:` and `Outputs:` lines, as they do since 2024-12-04.
    pub unit_lines: bool,
    /// `T0_g_float[iS0{i0}]` instead of `T0_g[ iS0{i0} ]`: tensors have element types, as they do since December 2024.
    pub element_types: bool,
    /// `Input=` and `Output=` instead of `input=` and `output=` of a communication.
    pub capital_buffers: bool,
    /// No line ends after a communication, and a blank one follows a wait, as in some texts of 2024.
    pub joined_posts: bool,
    /// The lists of a program follow `HOST IRS:`, its end is `END.`, as in some texts of July 2024.
    pub july_frame: bool,
}

/// A named preset of all features.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    /// July to November 2024, before tensors had element types.
    E2024_07,
    /// December 2024.
    E2024_12,
    /// January 2025.
    E2025_01,
    /// June 2025: the default for new programs.
    E2025_06,
    /// October 2025.
    E2025_10,
    /// April 2026.
    E2026_04,
}

impl Era {
    /// All eras with their names.
    pub const ALL: &'static [(Era, &'static str)] = &[
        (Era::E2024_07, "2024-07"),
        (Era::E2024_12, "2024-12"),
        (Era::E2025_01, "2025-01"),
        (Era::E2025_06, "2025-06"),
        (Era::E2025_10, "2025-10"),
        (Era::E2026_04, "2026-04"),
    ];
    /// Parses the name of an era.
    pub fn parse(text: &str) -> Option<Era> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(era, _)| *era)
    }
    /// The features of the era.
    pub fn style(self) -> Style {
        let june = Style::default();
        match self {
            Era::E2024_07 => {
                Style { unit_lines: false, element_types: false, capital_buffers: true, ..Era::E2024_12.style() }
            }
            Era::E2024_12 | Era::E2025_01 => {
                Style { stream: StreamSpelling::Stream, alias_select: false, backend: false, ..june }
            }
            Era::E2025_06 => june,
            Era::E2025_10 => Style {
                stream: StreamSpelling::LowerStreamIdx,
                cast: CastSpelling::To,
                short_max: true,
                scatter_in: true,
                ..june
            },
            Era::E2026_04 => Style {
                stream: StreamSpelling::LowerStreamIdx,
                call_form: true,
                tight_stream_index: true,
                cast: CastSpelling::To,
                reshape: true,
                short_max: true,
                scatter_in: true,
                sdpa_commas: true,
                short_allocate: true,
                ..june
            },
        }
    }
}

impl Default for Style {
    fn default() -> Self {
        Style {
            stream: StreamSpelling::StreamIdx,
            call_form: false,
            tight_stream_index: false,
            cast: CastSpelling::C,
            reshape: false,
            short_max: false,
            std_fmax: false,
            scatter_in: false,
            sdpa_commas: false,
            alias_select: true,
            backend: true,
            short_allocate: false,
            unit_lines: true,
            element_types: true,
            capital_buffers: false,
            joined_posts: false,
            july_frame: false,
        }
    }
}
