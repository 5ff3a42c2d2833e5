//! Comparison of two tensors, up to rounding.
//!
//! Element `a` equals its reference `b` if `|a - b| <= atol + rtol * |b|`. Two orders of the same sum
//! differ by the rounding of its *terms*, which are of the tensor's scale even where they cancel, so
//! the default `atol` is relative to the root mean square of the reference's finite elements:
//!
//! | type of the output      | rtol and atol / rms | why                                              |
//! |-------------------------|---------------------|--------------------------------------------------|
//! | double                  | 1e-11               | sums of a million terms round to about 1e-13     |
//! | float                   | 1e-4                | sums of 16 thousand terms round to about 3e-5    |
//! | half                    | 5e-3                | ten roundings (2^-11): each partial sum is stored |
//! | bfloat16                | 4e-2                | ten roundings (2^-8)                             |
//! | e4m3                    | 2^-3                | two roundings (2^-4)                             |
//! | e5m2                    | 2^-2                | two roundings (2^-3)                             |
//! | e2m1                    | 2^-1                | two roundings (2^-2)                             |
//! | integer, bool, e8m0     | 0                   | exact                                            |
//!
//! The coarsest type counts to which values are rounded on the way from the inputs to the output, in the program and in
//! the reference: `float` sums of `bfloat16` products have the tolerance of `bfloat16`.
//!
//! A NaN equals only a NaN, an infinity only itself. A reference may be a float of another width (a
//! double reference of a bfloat16 output); the tolerances are then the coarser one's.

use super::{DataError, bracketed_list, element_coordinates};
use hostir::data::HostTensor;
use hostir::diag::message;
use hostir::ir::{DType, quoted_type};

/// Tolerances a user gave.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct GivenTolerances {
    /// Relative to the reference's element.
    pub rtol: Option<f64>,
    /// Absolute.
    pub atol: Option<f64>,
}

/// The tolerances of one comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ComparisonTolerance {
    /// Relative to the reference's element.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

/// One pair of elements.
#[derive(Clone, PartialEq, Debug)]
pub struct ElementPair {
    /// Its coordinates.
    pub index: Vec<usize>,
    /// The computed element.
    pub found: f64,
    /// The expected element.
    pub expected: f64,
    /// `|found - expected|`; NaN if only one is a NaN.
    pub difference: f64,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorComparison {
    /// Elements compared.
    pub elements: usize,
    /// Elements that differ by more than the tolerance.
    pub mismatches: usize,
    /// The element with the largest difference relative to its tolerance; `None` if all are equal bit for bit.
    pub worst: Option<ElementPair>,
    /// The tolerance that was applied.
    pub tolerance: ComparisonTolerance,
    /// The elements do not fit a `float`.
    pub wide: bool,
}

impl TensorComparison {
    /// Returns true if no element differs by more than the tolerance.
    pub fn is_equal(&self) -> bool {
        self.mismatches == 0
    }
}

/// Compares results with expected values; `roundings` are the types to which values on the way are rounded.
///
/// # Errors
/// If the shapes differ, or the element types and not both are floating point.
pub fn compare_tensors(
    found: &HostTensor,
    expected: &HostTensor,
    roundings: &[DType],
    given: GivenTolerances,
) -> Result<TensorComparison, DataError> {
    if found.shape() != expected.shape() {
        let (found, expected) = (bracketed_list(found.shape()), bracketed_list(expected.shape()));
        return Err(DataError::new(format!("its shape is {found}, but the reference has {expected}")));
    }
    let floats = is_real_dtype(found.dtype()) && is_real_dtype(expected.dtype());
    if !floats && comparison_dtype(found.dtype()) != comparison_dtype(expected.dtype()) {
        let [found, expected] = [found, expected].map(|tensor| quoted_type(tensor.dtype()));
        return Err(DataError::new(message!("its element type is {}, but the reference has {}", found, expected)));
    }
    let tolerance = choose_tolerance(found.dtype(), expected, roundings, given);
    Ok(compare_elements(found, expected, tolerance))
}

/// `nvfuser_index_t` is `int64_t` here.
fn comparison_dtype(dtype: DType) -> DType {
    if dtype == DType::Index { DType::Int } else { dtype }
}

/// Elements are compared as real numbers with a tolerance.
fn is_real_dtype(dtype: DType) -> bool {
    dtype == DType::Double || fits_in_float(dtype)
}

/// True for a real number that a float holds.
fn fits_in_float(dtype: DType) -> bool {
    let narrow = matches!(dtype, DType::Float8E4M3 | DType::Float8E5M2 | DType::Float8E8M0 | DType::Float4E2M1);
    narrow || matches!(dtype, DType::Float | DType::Half | DType::BFloat16)
}

/// Relative error of a type's results (see the table above).
fn relative_tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::Double | DType::ComplexDouble => 1e-11,
        DType::Float | DType::ComplexFloat => 1e-4,
        DType::Half => 5e-3,
        DType::BFloat16 => 4e-2,
        DType::Float8E4M3 => 0.125,
        DType::Float8E5M2 => 0.25,
        DType::Float4E2M1 => 0.5,
        _ => 0.0,
    }
}

fn choose_tolerance(
    dtype: DType,
    expected: &HostTensor,
    roundings: &[DType],
    given: GivenTolerances,
) -> ComparisonTolerance {
    let own = relative_tolerance(dtype).max(relative_tolerance(expected.dtype()));
    let on_the_way = roundings.iter().map(|&dtype| relative_tolerance(dtype)).fold(own, f64::max);
    // Integers are exact, whatever they are computed from.
    let default = if own == 0.0 { own } else { on_the_way };
    let atol = given.atol.unwrap_or_else(|| if default == 0.0 { 0.0 } else { default * root_mean_square(expected) });
    ComparisonTolerance { rtol: given.rtol.unwrap_or(default), atol }
}

fn root_mean_square(tensor: &HostTensor) -> f64 {
    let finite = (0..tensor.len() * tensor.parts_per_element())
        .map(|index| tensor.get_part(index))
        .filter(|value| value.is_finite());
    let (count, sum) = finite.fold((0usize, 0.0), |(count, sum), value| (count + 1, sum + value * value));
    if count == 0 { 0.0 } else { (sum / count as f64).sqrt() }
}

/// `|a - b|`, exact for 64-bit integers, 0 for equal infinities and for two NaNs.
fn absolute_difference(found: &HostTensor, expected: &HostTensor, index: usize) -> f64 {
    match found.dtype() {
        DType::Int | DType::Index => found.as_slice::<i64>()[index].abs_diff(expected.as_slice::<i64>()[index]) as f64,
        DType::UInt64 => found.as_slice::<u64>()[index].abs_diff(expected.as_slice::<u64>()[index]) as f64,
        _ => {
            let (a, b) = (found.get_part(index), expected.get_part(index));
            if a == b || (a.is_nan() && b.is_nan()) { 0.0 } else { (a - b).abs() }
        }
    }
}

fn compare_elements(found: &HostTensor, expected: &HostTensor, tolerance: ComparisonTolerance) -> TensorComparison {
    let (mut mismatches, mut worst, mut worst_score) = (0, None, (0.0, 0.0));
    for index in 0..found.len() * found.parts_per_element() {
        let difference = absolute_difference(found, expected, index);
        if difference == 0.0 {
            continue;
        }
        let reference = expected.get_part(index);
        let allowed = tolerance.atol + if reference.is_finite() { tolerance.rtol * reference.abs() } else { 0.0 };
        // A NaN is no number within the tolerance.
        let differs = difference.is_nan() || difference > allowed;
        mismatches += usize::from(differs);
        let score =
            if difference.is_finite() { (difference / allowed, difference) } else { (f64::INFINITY, f64::INFINITY) };
        if score > worst_score {
            worst_score = score;
            worst = Some((index, difference));
        }
    }
    let per_element = found.parts_per_element();
    let worst = worst.map(|(index, difference)| ElementPair {
        index: element_coordinates(found.shape(), index / per_element),
        found: found.get_part(index),
        expected: expected.get_part(index),
        difference,
    });
    let wide = !fits_in_float(found.dtype()) || !fits_in_float(expected.dtype());
    TensorComparison { elements: found.len(), mismatches, worst, tolerance, wide }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f64]) -> HostTensor {
        of(DType::Float, values)
    }
    fn of(dtype: DType, values: &[f64]) -> HostTensor {
        let mut tensor = HostTensor::zeros(dtype, &[values.len()]);
        for (index, value) in values.iter().enumerate() {
            tensor.set_f64(index, *value);
        }
        tensor
    }
    fn default(found: &HostTensor, expected: &HostTensor) -> TensorComparison {
        compare_tensors(found, expected, &[], GivenTolerances::default()).unwrap()
    }

    #[test]
    fn equal_bits_have_no_worst_element() {
        let tensor = floats(&[1.0, -2.0, f64::INFINITY, f64::NAN]);
        let result = default(&tensor, &tensor);
        assert!(result.is_equal() && result.worst.is_none());
        assert_eq!(result.elements, 4);
    }

    #[test]
    fn nan_equals_only_nan() {
        let result = default(&floats(&[f64::NAN, 1.0, 2.0]), &floats(&[f64::NAN, f64::NAN, 2.0]));
        assert_eq!(result.mismatches, 1);
        assert_eq!(result.worst.unwrap().index, [1]);
        assert_eq!(default(&floats(&[f64::NAN]), &floats(&[1.0])).mismatches, 1);
    }

    #[test]
    fn infinities_equal_only_themselves() {
        let inf = f64::INFINITY;
        assert_eq!(default(&floats(&[inf, -inf, 1.0, inf]), &floats(&[inf, inf, inf, 1.0])).mismatches, 3);
    }

    #[test]
    fn cancelled_elements_are_judged_by_the_tensors_scale() {
        // 1e-3 beside elements of 100: the rounding of the terms, not of the result.
        assert!(default(&floats(&[100.0, 1e-3]), &floats(&[100.0, 0.0])).is_equal());
        assert!(!default(&floats(&[1e-3, 1e-3]), &floats(&[1e-3, 0.0])).is_equal());
    }

    #[test]
    fn the_worst_element_is_relative_to_its_tolerance() {
        let given = GivenTolerances { rtol: Some(0.1), atol: Some(0.0) };
        let result = compare_tensors(&floats(&[1001.0, 1.5]), &floats(&[1000.0, 1.0]), &[], given).unwrap();
        let worst = result.worst.unwrap();
        assert_eq!((worst.index, worst.difference), (vec![1], 0.5));
        assert_eq!(result.mismatches, 1);
    }

    #[test]
    fn integers_are_exact_beyond_doubles() {
        let at = |value: i64| HostTensor::from_bytes(DType::Int, &[1], &value.to_ne_bytes()).unwrap();
        let result = default(&at(i64::MAX), &at(i64::MAX - 1));
        assert_eq!((result.mismatches, result.worst.unwrap().difference), (1, 1.0));
        assert_eq!(default(&at(i64::MIN), &at(i64::MAX)).mismatches, 1);
    }

    #[test]
    fn eight_bits_are_compared_as_numbers() {
        // 16, 18 and 20 are neighbours of `__e4m3`; 16, 20 and 24 of `__e5m2`.
        let near = |dtype, found: f64| default(&of(dtype, &[found]), &of(DType::Float, &[16.0]));
        let e4m3 = near(DType::Float8E4M3, 18.0);
        assert_eq!((e4m3.is_equal(), e4m3.tolerance.rtol, e4m3.wide), (true, 0.125, false));
        assert!(!near(DType::Float8E4M3, 22.0).is_equal());
        assert!(near(DType::Float8E5M2, 20.0).is_equal());
        assert!(!near(DType::Float8E5M2, 28.0).is_equal());
        // Powers of two are exact.
        assert!(near(DType::Float8E8M0, 16.0).is_equal());
        assert!(!near(DType::Float8E8M0, 32.0).is_equal());
    }

    #[test]
    fn floats_of_other_widths_compare_and_other_kinds_do_not() {
        let result = default(&of(DType::BFloat16, &[1.0]), &of(DType::Double, &[1.003]));
        assert!(result.is_equal());
        assert_eq!(result.tolerance.rtol, 4e-2);
        let error =
            compare_tensors(&floats(&[1.0]), &of(DType::Int, &[1.0]), &[], GivenTolerances::default()).unwrap_err();
        assert_eq!(error.message, "its element type is float, but the reference has int64_t");
    }

    #[test]
    fn the_coarsest_rounding_on_the_way_counts_but_not_for_integers() {
        let compare = |found: &HostTensor, expected: &HostTensor, roundings: &[DType]| {
            compare_tensors(found, expected, roundings, GivenTolerances::default()).unwrap()
        };
        let way = [DType::Float, DType::BFloat16];
        assert_eq!(compare(&floats(&[1.0]), &floats(&[1.003]), &way).tolerance.rtol, 4e-2);
        assert!(!compare(&floats(&[1.0]), &floats(&[1.003]), &way[..1]).is_equal());
        assert!(!compare(&of(DType::Int, &[1.0]), &of(DType::Int, &[2.0]), &way).is_equal());
    }

    #[test]
    fn shapes_must_match() {
        let error =
            compare_tensors(&floats(&[1.0]), &floats(&[1.0, 1.0]), &[], GivenTolerances::default()).unwrap_err();
        assert_eq!(error.message, "its shape is [1], but the reference has [2]");
    }

    #[test]
    fn empty_tensors_are_equal() {
        assert!(default(&floats(&[]), &floats(&[])).is_equal());
    }

    #[test]
    fn both_parts_of_complex_numbers_count() {
        let make =
            |values: [f64; 4]| HostTensor::from_bytes(DType::ComplexDouble, &[2], bytemuck::bytes_of(&values)).unwrap();
        let result = default(&make([1.0, 2.0, 3.0, 4.0]), &make([1.0, 2.0, 3.0, 5.0]));
        assert_eq!((result.mismatches, result.worst.unwrap().index), (1, vec![1]));
    }
}
