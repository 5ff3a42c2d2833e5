//! The patterns of uninitialised memory (`--poison`): NaN for floats, the byte 0xa5 for all else.

use crate::ir::DType;

/// Fills words with the pattern of a type.
pub(super) fn poison_words(words: &mut [u64], dtype: DType) {
    words.fill(poison_word(dtype));
}

/// Eight bytes of a type's pattern.
fn poison_word(dtype: DType) -> u64 {
    match dtype {
        DType::Double | DType::ComplexDouble => 0x7ff8_a5a5_a5a5_a5a5,
        DType::Float | DType::ComplexFloat => 0x7fc0_a5a5_7fc0_a5a5,
        DType::Half => 0x7ea5_7ea5_7ea5_7ea5,
        DType::BFloat16 => 0x7fe5_7fe5_7fe5_7fe5,
        DType::Float8E4M3 | DType::Float8E5M2 => 0x7f7f_7f7f_7f7f_7f7f,
        DType::Float8E8M0 => u64::MAX,
        _ => 0xa5a5_a5a5_a5a5_a5a5,
    }
}

#[cfg(test)]
mod tests {
    use super::poison_word;
    use crate::data::HostTensor;
    use crate::ir::DType;

    #[test]
    fn floats_are_not_numbers() {
        let floats = [
            DType::Double,
            DType::Float,
            DType::Half,
            DType::BFloat16,
            DType::Float8E4M3,
            DType::Float8E5M2,
            DType::Float8E8M0,
        ];
        for dtype in floats {
            let bytes = &poison_word(dtype).to_ne_bytes()[..];
            let tensor = HostTensor::from_bytes(dtype, &[8 / dtype.byte_size()], bytes);
            assert!(tensor.is_some_and(|tensor| tensor.get_f64(0).is_nan()), "{}", dtype.name());
        }
        assert_eq!(poison_word(DType::Int32), 0xa5a5_a5a5_a5a5_a5a5);
    }
}
