//! A rank's outputs as one message, and back.

use super::wire::{Put, Take};
use hostir::backend::exchange::ExchangeError;
use hostir::data::HostTensor;
use hostir::plan::Prepared;

/// Most bytes of a rank's outputs as a message: those of whole tensors, and the numbers before them.
pub(super) fn most(prepared: &Prepared) -> usize {
    prepared
        .outputs
        .iter()
        .map(|port: &hostir::plan::Port| {
            let shape = port.shape();
            let size = port.dtype.size();
            let bytes = shape.iter().fold(size, |bytes, extent| bytes.saturating_mul(*extent));
            bytes.saturating_add(8 * (shape.len() + 3))
        })
        .fold(0, usize::saturating_add)
}

/// For each output: 0, or 1 and its extents and bytes.
pub(super) fn pack(outputs: &[Option<HostTensor>]) -> Vec<u8> {
    outputs
        .iter()
        .fold(Put::default(), |put: Put, output: &Option<HostTensor>| match output {
            None => put.number(0),
            Some(tensor) => {
                let put = put.number(1).number(tensor.shape().len() as u64);
                let put = tensor.shape().iter().fold(put, |put, extent| put.number(*extent as u64));
                put.bytes(tensor.bytes())
            }
        })
        .0
}

/// The outputs of `rank`.
///
/// # Errors
/// A message that is not of this program.
pub(super) fn unpack(
    prepared: &Prepared,
    rank: usize,
    message: &[u8],
) -> Result<Vec<Option<HostTensor>>, ExchangeError> {
    let mut take = Take(message);
    let outputs = prepared.outputs.iter().map(|port| output(&mut take, port));
    let outputs: Option<Vec<_>> = outputs.collect();
    outputs.filter(|_| take.0.is_empty()).ok_or_else(|| ExchangeError::Broken {
        why: format!("rank {rank} sent outputs that are none of this program"),
    })
}

fn output(take: &mut Take<'_>, port: &hostir::plan::Port) -> Option<Option<HostTensor>> {
    if take.number()? == 0 {
        return Some(None);
    }
    let axes = take.number()?.min(64);
    let shape: Vec<usize> =
        (0..axes).map(|_| usize::try_from(take.number()?).ok()).collect::<Option<_>>()?;
    let bytes = take.bytes()?;
    let size = shape.iter().try_fold(port.dtype.size(), |size, extent| size.checked_mul(*extent));
    (size == Some(bytes.len())).then(|| HostTensor::from_bytes(port.dtype, &shape, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::ir::DType;
    use hostir::plan::{Sizes, prepare};

    #[test]
    fn outputs_come_back() {
        let text = "%HostIrContainer { (T0_g_float[iS0{2}, iS1{3}]) -> (T0_g_float[iS0{2}, iS1{3}], T1_g___half[iS2{4}]) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=4, zero_init=true, resets_to_zero=false)
} // %HostIrContainer
";
        let (programs, _) = hostir::load(text);
        let prepared = prepare(&programs[0], &Sizes::default()).unwrap();
        let mut tensor = HostTensor::zeros(DType::Float, &[2, 3]);
        (0..6).for_each(|index| tensor.set_f64(index, index as f64 - 2.5));
        let outputs = vec![Some(tensor), None];
        let message = pack(&outputs);
        assert!(message.len() <= most(&prepared));
        // 2 x 3 elements of 4 bytes and 4 of 2; each output has three numbers of 8 bytes and one an axis.
        assert_eq!(most(&prepared), (24 + 5 * 8) + (8 + 4 * 8));
        let both = [outputs[0].clone(), Some(HostTensor::zeros(DType::Half, &[4]))];
        assert_eq!(pack(&both).len(), most(&prepared));
        assert_eq!(unpack(&prepared, 1, &message), Ok(outputs));
        for end in 0..message.len() {
            assert!(unpack(&prepared, 1, &message[..end]).is_err(), "{end}");
        }
        let mut huge = message;
        huge[16..24].fill(0xff);
        assert!(unpack(&prepared, 1, &huge).is_err());
    }
}
