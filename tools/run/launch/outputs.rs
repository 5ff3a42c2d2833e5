//! A rank's outputs as one message, and back.

use super::payload::{Decoder, Encoder, NUMBER_BYTES};
use hostir::backend::control_plane::ControlPlaneError;
use hostir::data::HostTensor;
use hostir::lower::{IoTensor, PreparedProgram};

/// Most axes of a tensor in a message.
const MOST_AXES: usize = 64;

/// The maximum number of bytes of a rank's outputs as a message: those of whole tensors, and the numbers before them.
pub(super) fn most_bytes(prepared: &PreparedProgram) -> usize {
    prepared.outputs.iter().map(max_tensor_bytes).fold(0, usize::saturating_add)
}

fn max_tensor_bytes(io_tensor: &IoTensor) -> usize {
    let shape = io_tensor.whole_shape();
    let bytes = shape.iter().fold(io_tensor.dtype.byte_size(), |bytes, extent| bytes.saturating_mul(*extent));
    bytes.saturating_add(NUMBER_BYTES * (shape.len() + 3))
}

/// Encodes for each output nothing, or the number of its axes, its extents and its bytes.
pub(super) fn pack_outputs(outputs: &[Option<HostTensor>]) -> Vec<u8> {
    let mut encoder = Encoder::default();
    for output in outputs {
        encoder.push(&output.as_ref().map(|tensor| tensor.shape().len()));
        let Some(tensor) = output else { continue };
        tensor.shape().iter().for_each(|extent| encoder.push(extent));
        encoder.push_bytes(tensor.bytes());
    }
    encoder.into_bytes()
}

/// The outputs of `rank`.
///
/// # Errors
/// A message that is not of this program.
pub(super) fn unpack_outputs(
    prepared: &PreparedProgram,
    rank: usize,
    message: &[u8],
) -> Result<Vec<Option<HostTensor>>, ControlPlaneError> {
    let mut decoder = Decoder::new(message);
    let outputs = prepared.outputs.iter().map(|io_tensor| take_output(&mut decoder, io_tensor));
    let outputs: Option<Vec<_>> = outputs.collect();
    outputs.filter(|_| decoder.is_finished()).ok_or_else(|| ControlPlaneError::Broken {
        why: format!("rank {rank} sent outputs that do not match this program"),
    })
}

fn take_output(decoder: &mut Decoder<'_>, io_tensor: &IoTensor) -> Option<Option<HostTensor>> {
    let Some(axes) = decoder.take::<Option<usize>>()? else { return Some(None) };
    if axes > MOST_AXES {
        return None;
    }
    let shape: Vec<usize> = (0..axes).map(|_| decoder.take()).collect::<Option<_>>()?;
    let bytes: &[u8] = decoder.take()?;
    let size = shape.iter().try_fold(io_tensor.dtype.byte_size(), |size, extent| size.checked_mul(*extent));
    if size != Some(bytes.len()) {
        return None;
    }
    HostTensor::from_bytes(io_tensor.dtype, &shape, bytes).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::ir::DType;
    use hostir::lower::{SizeSettings, prepare_program};

    #[test]
    fn outputs_come_back() {
        let text =
            "%HostIrContainer { (T0_g_float[iS0{2}, iS1{3}]) -> (T0_g_float[iS0{2}, iS1{3}], T1_g___half[iS2{4}]) :
  T1 = ALLOCATE(buffer=T1, mem_type=global, size=4, zero_init=true, resets_to_zero=false)
} // %HostIrContainer
";
        let (programs, _) = hostir::load(text);
        let prepared = prepare_program(&programs[0], &SizeSettings::default()).unwrap();
        let mut tensor = HostTensor::zeros(DType::Float, &[2, 3]);
        (0..6).for_each(|index| tensor.set_f64(index, index as f64 - 2.5));
        let outputs = vec![Some(tensor), None];
        let message = pack_outputs(&outputs);
        assert!(message.len() <= most_bytes(&prepared));
        let both = [outputs[0].clone(), Some(HostTensor::zeros(DType::Half, &[4]))];
        assert!(pack_outputs(&both).len() <= most_bytes(&prepared));
        assert_eq!(unpack_outputs(&prepared, 1, &message), Ok(outputs));
        for end in 0..message.len() {
            assert!(unpack_outputs(&prepared, 1, &message[..end]).is_err(), "{end}");
        }
        // Neither the number of axes nor an extent nor the number of bytes may differ.
        for at in 0..5 {
            let mut wrong = message.clone();
            wrong[at] = 0x7e;
            assert!(unpack_outputs(&prepared, 1, &wrong).is_err(), "{at}");
        }
    }
}
