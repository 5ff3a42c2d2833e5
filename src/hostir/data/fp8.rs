//! 8-bit and 4-bit floating point: the value of a code, and the code of a float.
//!
//! | type | sign, exponent, mantissa | largest | smallest | beyond the largest | specification |
//! |---|---|---|---|---|---|
//! | `__e4m3` | 1, 4 (bias 7), 3 | 448 | 2^-9 | NaN; there are no infinities | OCP OFP8 |
//! | `__e5m2` | 1, 5 (bias 15), 2 | 57344 | 2^-16 | infinity | OCP OFP8 |
//! | `__e8m0` | 0, 8 (bias 127), 0 | 2^127 | 2^-127 | NaN; there is no zero | OCP MX |
//! | `__e2m1` | 1, 2 (bias 1), 1 | 6 | 2^-1 | 6; there are no infinities and no NaN | OCP MX |
//!
//! Floats round to the nearest code, ties to the even one. 8-bit floats do not saturate: a float that rounds to the code after
//! the largest number becomes the value in the table, as `tensor.to(torch.float8_e4m3fn)` and CUDA's conversions with
//! `__NV_NOSAT` have it. `__e8m0` takes the exponent of the magnitude, rounded up from one and a half, as PyTorch's
//! `float8_e8m0fnu`. A NaN keeps its sign in the types that have one. `__e2m1` saturates, as CUDA's conversions to it
//! always do, and a NaN becomes 6 (PTX ISA, `cvt.rn.satfinite.e2m1x2.f32`). Its codes are the lower four bits of a byte;
//! of an `__e2m1_x2`, the first number is in the lower four bits.
//!
//! The crate `float8` saturates, so this is our own; `backend/cuda/compile/codegen` has the same in C++.

use crate::ir::DType;

/// The function from a type's code to its float; `None` for types that are not 8-bit or 4-bit floats.
pub fn decoder_for(dtype: DType) -> Option<fn(u8) -> f32> {
    match dtype {
        DType::Float8E4M3 => Some(from_e4m3),
        DType::Float8E5M2 => Some(from_e5m2),
        DType::Float8E8M0 => Some(from_e8m0),
        DType::Float4E2M1 => Some(from_e2m1),
        _ => None,
    }
}

/// The function from a float to a type's code; `None` for types that are not 8-bit or 4-bit floats.
pub fn encoder_for(dtype: DType) -> Option<fn(f32) -> u8> {
    match dtype {
        DType::Float8E4M3 => Some(|value| round_to_fp8(value, 3, 7, 0x7f)),
        DType::Float8E5M2 => Some(|value| round_to_fp8(value, 2, 15, 0x7c)),
        DType::Float8E8M0 => Some(to_e8m0),
        DType::Float4E2M1 => Some(to_e2m1),
        _ => None,
    }
}

/// The codes of the two numbers of an `__e2m1_x2`.
pub fn pair_codes(pair: u8) -> [u8; 2] {
    [pair & 0xf, pair >> 4]
}

/// The `__e2m1_x2` of the codes of two numbers.
pub fn packed_pair([first, second]: [u8; 2]) -> u8 {
    first & 0xf | second << 4
}

/// Bits of a float's mantissa.
const MANTISSA: u32 = 23;
/// Bias of a float's exponent.
const BIAS: u32 = 127;

fn from_e4m3(code: u8) -> f32 {
    let magnitude = match code & 0x7f {
        0x7f => f32::NAN,
        // Exponent and mantissa at the place of a float's, times 2^(127 - 7): subnormals are right, too.
        bits => f32::from_bits(u32::from(bits) << 20) * f32::from_bits((2 * BIAS - 7) << MANTISSA),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// `__e5m2` is the upper byte of a half.
fn from_e5m2(code: u8) -> f32 {
    half::f16::from_bits(u16::from(code) << 8).to_f32()
}

fn from_e8m0(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(1 << (MANTISSA - 1)),
        0xff => f32::NAN,
        exponent => f32::from_bits(u32::from(exponent) << MANTISSA),
    }
}

fn from_e2m1(code: u8) -> f32 {
    let magnitude = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)];
    if code & 8 == 0 { magnitude } else { -magnitude }
}

fn to_e2m1(value: f32) -> u8 {
    let magnitude = (round_to_fp8(value.abs(), 1, 1, 7) & 0x7f).min(7);
    let sign = u8::from(value.is_sign_negative() && !value.is_nan()) << 3;
    sign | magnitude
}

/// Rounds to `mantissa` bits and an exponent with a bias; `beyond` is the code after the largest number.
fn round_to_fp8(value: f32, mantissa: u32, bias: u32, beyond: u8) -> u8 {
    let sign = (value.to_bits() >> 24) as u8 & 0x80;
    let bits = value.to_bits() & 0x7fff_ffff;
    let dropped = MANTISSA - mantissa;
    let code = if bits < (BIAS + 1 - bias) << MANTISSA {
        // Subnormal: the last bit of this sum is the smallest number, and the sum rounds correctly.
        let unit = (BIAS + 1 + dropped - bias) << MANTISSA;
        (f32::from_bits(bits) + f32::from_bits(unit)).to_bits() - unit
    } else {
        let odd = bits >> dropped & 1;
        ((bits + (1 << (dropped - 1)) - 1 + odd) >> dropped) - ((BIAS - bias) << mantissa)
    };
    let most = if value.is_nan() { 0x7f } else { beyond };
    sign | code.min(u32::from(most)) as u8
}

fn to_e8m0(value: f32) -> u8 {
    let bits = value.to_bits();
    let (exponent, rest) = ((bits >> MANTISSA) as u8, bits & ((1 << MANTISSA) - 1));
    // Below 2^-126 floats have no leading one: 2^-127 itself is a tie there, and code 0.
    let above = rest + u32::from(exponent > 0) > 1 << (MANTISSA - 1);
    if exponent == 0xff { 0xff } else { exponent + u8::from(above) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code of a type by the definition of its format; NaN for codes that are no number.
    fn table(exponent_bits: i32, mantissa_bits: i32, bias: i32, numbers: usize) -> Vec<f64> {
        let value = |code: usize| {
            let (exponent, mantissa) = (code >> mantissa_bits, code & ((1 << mantissa_bits) - 1));
            let fraction = mantissa as f64 / 2f64.powi(mantissa_bits);
            match exponent {
                0 => fraction * 2f64.powi(1 - bias),
                exponent => (1.0 + fraction) * 2f64.powi(exponent as i32 - bias),
            }
        };
        assert!(numbers <= 1 << (exponent_bits + mantissa_bits));
        (0..numbers).map(value).collect()
    }

    /// The code of the nearest number by search, the even one of two; the number after the last one stands for all
    /// larger ones.
    fn nearest(table: &[f64], beyond: f64, value: f64) -> usize {
        let mut best = 0;
        let all: Vec<f64> = table.iter().copied().chain([beyond]).collect();
        for (code, number) in all.iter().enumerate() {
            let (near, old) = ((number - value).abs(), (all[best] - value).abs());
            if near < old || (near == old && code % 2 == 0) {
                best = code;
            }
        }
        best
    }

    /// Floats near all codes, between them, and over the whole range.
    fn samples(table: &[f64]) -> Vec<f32> {
        let mut all = vec![0.0, f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1), 1e-30, 1e30];
        for pair in table.windows(2) {
            for at in [0.0, 0.25, 0.5, 0.75, 1.0] {
                let value = (pair[0] + (pair[1] - pair[0]) * at) as f32;
                all.extend([value, f32::from_bits(value.to_bits() + 1)]);
                all.push(f32::from_bits(value.to_bits().saturating_sub(1)));
            }
        }
        all.extend((0..20_000u32).map(|index| f32::from_bits(index.wrapping_mul(0x1_0451) >> 1)));
        all.retain(|value| value.is_finite());
        all
    }

    #[test]
    fn codes_mean_what_the_formats_say() {
        for (dtype, table, top) in
            [(DType::Float8E4M3, table(4, 3, 7, 0x7f), 0x7f), (DType::Float8E5M2, table(5, 2, 15, 0x7c), 0x7c)]
        {
            let decode = decoder_for(dtype).unwrap();
            for (code, &value) in table.iter().enumerate() {
                assert_eq!(f64::from(decode(code as u8)), value, "{dtype:?} {code:#x}");
                let negative = decode(code as u8 | 0x80);
                assert_eq!(f64::from(negative), -value, "{dtype:?} -{code:#x}");
                assert!(negative.is_sign_negative());
            }
            assert_eq!(table.len(), top);
        }
        let decode = decoder_for(DType::Float8E5M2).unwrap();
        assert_eq!((decode(0x7c), decode(0xfc)), (f32::INFINITY, f32::NEG_INFINITY));
        assert!((0x7d..=0x7f).all(|code| decode(code).is_nan() && decode(code | 0x80).is_nan()));
        let decode = decoder_for(DType::Float8E4M3).unwrap();
        assert!(decode(0x7f).is_nan() && decode(0xff).is_nan());
        let decode = decoder_for(DType::Float8E8M0).unwrap();
        for code in 0..=254 {
            assert_eq!(f64::from(decode(code)), 2f64.powi(i32::from(code) - 127));
        }
        assert!(decode(0xff).is_nan());
    }

    #[test]
    fn floats_round_to_the_nearest_even_code() {
        for (dtype, table, beyond) in
            [(DType::Float8E4M3, table(4, 3, 7, 0x7f), 480.0), (DType::Float8E5M2, table(5, 2, 15, 0x7c), 65536.0)]
        {
            let encode = encoder_for(dtype).unwrap();
            for value in samples(&table) {
                let code = nearest(&table, beyond, f64::from(value.abs()).min(beyond)) as u8;
                let sign = if value.is_sign_negative() { 0x80 } else { 0 };
                assert_eq!(encode(value), code | sign, "{dtype:?} of {value:e}");
                assert_eq!(encode(-value), code | (sign ^ 0x80), "{dtype:?} of -{value:e}");
            }
            let (infinity, none) = (encode(f32::INFINITY), encode(f32::NAN));
            assert_eq!((infinity, none), (table.len() as u8, 0x7f));
        }
    }

    #[test]
    fn four_bits_round_to_the_nearest_even_code() {
        let numbers = table(2, 1, 1, 8);
        let (decode, encode) = (decoder_for(DType::Float4E2M1).unwrap(), encoder_for(DType::Float4E2M1).unwrap());
        for (code, &number) in numbers.iter().enumerate() {
            assert_eq!([decode(code as u8), decode(code as u8 | 8)].map(f64::from), [number, -number]);
        }
        for value in samples(&numbers) {
            let code = nearest(&numbers, f64::INFINITY, f64::from(value.abs()).min(6.0)) as u8;
            assert_eq!(encode(value), code | u8::from(value.is_sign_negative()) << 3, "{value:e}");
        }
        assert_eq!(pair_codes(packed_pair([3, 12])), [3, 12]);
    }

    #[test]
    fn the_largest_numbers_and_what_is_beyond() {
        let e4m3 = encoder_for(DType::Float8E4M3).unwrap();
        for (value, code) in [(448.0, 0x7e), (449.0, 0x7e), (464.0, 0x7e), (464.1, 0x7f), (480.0, 0x7f)] {
            assert_eq!(e4m3(value), code, "{value}");
        }
        assert_eq!((e4m3(-0.0), e4m3(0.0), e4m3(-1e9)), (0x80, 0, 0xff));
        // The smallest number is 2^-9; half of it is a tie with zero.
        assert_eq!((e4m3(0.001_953_125), e4m3(0.000_976_562_5), e4m3(0.001)), (1, 0, 1));
        let e5m2 = encoder_for(DType::Float8E5M2).unwrap();
        assert_eq!((e5m2(57344.0), e5m2(61439.0), e5m2(61440.0)), (0x7b, 0x7b, 0x7c));
        let e2m1 = encoder_for(DType::Float4E2M1).unwrap();
        assert_eq!([7.0, f32::INFINITY, f32::NAN, -9.0, f32::NEG_INFINITY].map(e2m1), [7, 7, 7, 15, 15]);
        let e8m0 = encoder_for(DType::Float8E8M0).unwrap();
        for (value, code) in [
            (1.0, 127),
            (1.4, 127),
            (1.5, 128),
            (-2.0, 128),
            (0.0, 0),
            (2f32.powi(-127), 0),
            (2f32.powi(-126), 1),
            (2f32.powi(127), 254),
            (f32::MAX, 255),
            (f32::INFINITY, 255),
        ] {
            assert_eq!(e8m0(value), code, "{value}");
        }
    }
}
