//! Synthetic data.
//!
//! The value of an element depends on the seed, the tensor's position among the inputs and the element's index in the
//! *whole* tensor, and on nothing else: a program sees the same numbers however it shards a tensor, on any number of
//! devices. Each value is therefore the hash of a counter (splitmix64's finaliser,
//! <https://prng.di.unimi.it/splitmix64.c>), not by stepping a generator.

use super::HostTensor;
use crate::ir::DType;
use rayon::prelude::*;

/// A generator of elements.
///
/// `randn`, `uniform` give integers as evenly distributed whole numbers (signed -8..8, unsigned 0..8)
/// and booleans as coin flips; `iota` wraps at the range of small integer types and gives booleans by
/// parity. The numbers of packed pairs follow each other, and so do the parts of complex numbers that are drawn; ones and
/// indices are real.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TensorGenerator {
    /// Normally distributed with mean 0 and standard deviation 1: unlike zeros or ones it tells a sum
    /// from a copy and one index from another. The default.
    #[default]
    Randn,
    /// Evenly distributed in 0..1.
    Uniform,
    /// All 1.
    Ones,
    /// All 0.
    Zeros,
    /// The row-major index.
    Iota,
}

impl TensorGenerator {
    /// All generators with the words that name them.
    pub const ALL: &'static [(TensorGenerator, &'static str)] = &[
        (TensorGenerator::Randn, "randn"),
        (TensorGenerator::Uniform, "uniform"),
        (TensorGenerator::Ones, "ones"),
        (TensorGenerator::Zeros, "zeros"),
        (TensorGenerator::Iota, "iota"),
    ];
    /// The generator of a word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == word).map(|(generator, _)| *generator)
    }
    /// The word.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(generator, _)| *generator == self).map_or("", |(_, name)| name)
    }
}

/// A whole tensor: the `position`-th input's.
pub fn generate_tensor(
    generator: TensorGenerator,
    dtype: DType,
    shape: &[usize],
    seed: u64,
    position: usize,
) -> HostTensor {
    let mut tensor = HostTensor::zeros(dtype, shape);
    if generator == TensorGenerator::Zeros {
        return tensor;
    }
    let key = tensor_key(seed, position);
    let parts = tensor.bytes_mut().par_chunks_mut(PART * dtype.byte_size().max(1));
    parts.enumerate().for_each(|(number, bytes)| {
        let mut part = HostTensor::zeros(dtype, &[bytes.len() / dtype.byte_size().max(1)]);
        let draws = matches!(generator, TensorGenerator::Randn | TensorGenerator::Uniform);
        // Ones and indices are real numbers.
        let step = if dtype.is_complex() && !draws { 2 } else { 1 };
        let parts = part.parts_per_element() / step;
        for index in 0..part.len() * parts {
            let value = element_value(generator, dtype, key, (number * PART * parts + index) as u64);
            part.set_part(index * step, value);
        }
        bytes.copy_from_slice(part.bytes());
    });
    tensor
}

/// Elements that one thread makes at a time.
const PART: usize = 1 << 14;

/// The seed of the hashes for the elements of one tensor.
fn tensor_key(seed: u64, position: usize) -> u64 {
    mix_bits(mix_bits(seed) ^ (position as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Element `index` of the whole tensor.
fn element_value(generator: TensorGenerator, dtype: DType, key: u64, index: u64) -> f64 {
    match generator {
        TensorGenerator::Zeros => 0.0,
        TensorGenerator::Ones => 1.0,
        TensorGenerator::Iota => iota_value(dtype, index),
        TensorGenerator::Randn | TensorGenerator::Uniform if !is_real(dtype) => {
            whole_number(dtype, draw_bits(key, 2 * index))
        }
        TensorGenerator::Randn => normal_sample(key, index),
        TensorGenerator::Uniform => unit_fraction(draw_bits(key, 2 * index)),
    }
}

fn is_real(dtype: DType) -> bool {
    !dtype.is_integer() && dtype != DType::Bool
}

fn iota_value(dtype: DType, index: u64) -> f64 {
    if dtype == DType::Bool {
        return (index % 2) as f64;
    }
    // Half of the range fits signed and unsigned types alike.
    let bits = if dtype.is_integer() { 8 * dtype.byte_size() as u32 - 1 } else { 63 };
    (index & ((1 << bits) - 1)) as f64
}

fn whole_number(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::Bool => (bits >> 63) as f64,
        DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 => (bits >> 61) as f64,
        _ => (bits >> 60) as f64 - 8.0,
    }
}

/// Box and Muller's transform of the draws 2i and 2i + 1.
fn normal_sample(key: u64, index: u64) -> f64 {
    // 1 - u is in (0, 1]: its logarithm is finite.
    let radius = (-2.0 * (1.0 - unit_fraction(draw_bits(key, 2 * index))).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit_fraction(draw_bits(key, 2 * index + 1))).cos()
}

/// 53 random bits as a number in 0..1.
fn unit_fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

fn draw_bits(key: u64, counter: u64) -> u64 {
    mix_bits(key.wrapping_add(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// splitmix64's finaliser.
fn mix_bits(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_is_splitmix64() {
        // The first outputs of splitmix64 seeded with 0 and with 1234567 (Vigna's reference code).
        assert_eq!(mix_bits(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix_bits(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn the_seed_and_the_position_matter_and_repeat() {
        let make = |seed, position| generate_tensor(TensorGenerator::Randn, DType::Float, &[4, 8], seed, position);
        assert_eq!(make(0, 0), make(0, 0));
        assert_ne!(make(0, 0), make(1, 0));
        assert_ne!(make(0, 0), make(0, 1));
    }

    #[test]
    fn a_value_depends_on_the_global_index_only() {
        let flat = generate_tensor(TensorGenerator::Randn, DType::Double, &[64], 3, 2);
        let cube = generate_tensor(TensorGenerator::Randn, DType::Double, &[4, 4, 4], 3, 2);
        assert_eq!(flat.bytes(), cube.bytes());
        let longer = generate_tensor(TensorGenerator::Randn, DType::Double, &[128], 3, 2);
        assert_eq!(flat.bytes(), &longer.bytes()[..flat.bytes().len()]);
    }

    #[test]
    fn randn_has_mean_0_and_deviation_1() {
        let tensor = generate_tensor(TensorGenerator::Randn, DType::Double, &[100_000], 0, 0);
        let data = tensor.as_slice::<f64>();
        let n = data.len() as f64;
        let mean = data.iter().sum::<f64>() / n;
        let variance = data.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let kurtosis = data.iter().map(|x| (x - mean).powi(4)).sum::<f64>() / n / variance.powi(2);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03 && (kurtosis - 3.0).abs() < 0.1);
    }

    #[test]
    fn integers_are_small_and_booleans_mixed() {
        for dtype in [DType::Int, DType::Int32, DType::Int8] {
            let tensor = generate_tensor(TensorGenerator::Randn, dtype, &[1000], 0, 0);
            let values: std::collections::BTreeSet<i64> = (0..1000).map(|i| tensor.get_f64(i) as i64).collect();
            assert_eq!(values, (-8..8).collect());
        }
        let coins = generate_tensor(TensorGenerator::Randn, DType::Bool, &[1000], 0, 0);
        let heads = coins.bytes().iter().filter(|byte| **byte == 1).count();
        assert!((400..600).contains(&heads) && coins.bytes().iter().all(|byte| *byte < 2));
    }

    #[test]
    fn iota_counts_and_wraps() {
        assert_eq!(generate_tensor(TensorGenerator::Iota, DType::Int, &[2, 2], 9, 9).as_slice::<i64>(), [0, 1, 2, 3]);
        assert_eq!(
            generate_tensor(TensorGenerator::Iota, DType::Int8, &[130], 0, 0).as_slice::<i8>()[126..],
            [126, 127, 0, 1]
        );
        assert_eq!(generate_tensor(TensorGenerator::Iota, DType::Bool, &[3], 0, 0).bytes(), [0, 1, 0]);
    }
}
