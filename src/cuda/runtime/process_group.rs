//! The process group: coordinates several processes, one for each rank, in the prepare phase.
//!
//! Without a control plane one process has all ranks and everything here is a no-op. With one, every process
//! plans all ranks (that is cheap, and has the same result everywhere), but opens, tunes, joins, warms up and runs only
//! its own rank. Each step ends on all processes by [`ProcessGroup::finish_step`].

use crate::runtime::failure;
use crate::runtime::gemm_choice::GemmChoice;
use crate::runtime::library_access::LibraryAccess;
use crate::runtime::options::{GemmTuning, Options};
use crate::runtime::sm_budget::BlockBudget;
use crate::sys::driver::CudaDevice;
use crate::sys::{Error, blas};
use hostir::backend::clocks;
use hostir::backend::clocks::ClockOffset;
use hostir::backend::control_plane;
use hostir::backend::control_plane::{ControlPlane, ControlPlaneError};
use hostir::diag::message;
use hostir::diag::{Diag, codes};
use hostir::lower::PreparedProgram;
use hostir_gpu::gemm_lowering::fp8::Fp8Support;
use hostir_gpu::gemm_shape::GemmShape;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// This process as a member of the process group.
#[derive(Clone)]
pub(crate) struct ProcessGroup {
    control_plane: Option<Arc<dyn ControlPlane>>,
    device: Option<usize>,
    /// True once the other processes have received a report of this process's failure.
    reported: Arc<AtomicBool>,
}

/// The device of this process, on which all processes agreed.
pub(crate) struct AssignedDevice {
    pub(crate) device: Arc<CudaDevice>,
    /// Its number among the process's devices.
    pub(crate) ordinal: usize,
    /// The SMs of rank 0's device: ranks that compute the same GEMM have to divide the work alike.
    pub(crate) sms: u32,
    /// True if no two processes share a device.
    pub(crate) one_rank_per_device: bool,
    /// True if the devices of all ranks multiply 8-bit floats.
    pub(crate) fp8: Fp8Support,
    /// The budget of this process's device for blocks that wait for other ranks.
    pub(crate) waiting: BlockBudget,
    /// The smallest such budget of all processes, in blocks.
    pub(crate) room: usize,
}

impl ProcessGroup {
    /// Makes the group of the processes in these options. Their number must be the program's number of ranks.
    pub(crate) fn new(prepared: &PreparedProgram, options: &Options) -> Result<Self, Vec<Diag>> {
        let (control_plane, device) = (options.control_plane.clone(), options.device);
        let process_group = Self { control_plane, device, reported: Arc::default() };
        control_plane::check_process_count(prepared, process_group.control_plane.as_deref())?;
        Ok(process_group)
    }

    /// Whether the ranks are processes.
    pub(crate) fn is_multi_process(&self) -> bool {
        self.control_plane.is_some()
    }

    /// Returns true if a rank belongs to this process.
    pub(crate) fn owns_rank(&self, rank: u32) -> bool {
        self.control_plane.as_ref().is_none_or(|control_plane| control_plane.rank() == rank)
    }

    /// The control plane, which ranks poll while their device works.
    pub(crate) fn control_plane(&self) -> Option<Arc<dyn ControlPlane>> {
        self.control_plane.clone()
    }

    /// Completes a step on all processes.
    pub(crate) fn finish_step<T>(&self, what: &str, result: Result<T, Vec<Diag>>) -> Result<T, Vec<Diag>> {
        match &result {
            Err(diags) => {
                self.report_failure(diags);
                result
            }
            Ok(_) => {
                let Some(control_plane) = self.control_plane.as_deref() else { return result };
                LibraryAccess::suspend(|| control_plane::agree_on_step(Some(control_plane), what, result))
                    .map_err(note_waiting)
            }
        }
    }

    /// Reports once to the other processes that this one gives up, and why. Failures that came from another process are
    /// already known to all.
    pub(crate) fn report_failure(&self, diags: &[Diag]) {
        let ours = diags.first().is_some_and(|diag| !control_plane::is_known_to_all(diag));
        let Some(control_plane) = self.control_plane.as_ref().filter(|_| ours) else { return };
        if !self.reported.swap(true, Ordering::AcqRel) {
            control_plane.report_failure(&control_plane::failure_report(diags));
        }
    }

    /// All-gathers a message in rank order; without a control plane, returns the process's own.
    pub(crate) fn all_gather(&self, what: &str, message: &[u8]) -> Result<Vec<Vec<u8>>, Vec<Diag>> {
        match &self.control_plane {
            None => Ok(vec![message.to_vec()]),
            Some(control_plane) => {
                let gathered = LibraryAccess::suspend(|| control_plane.all_gather(what, message));
                gathered.map_err(|error| note_waiting(vec![error.diag()]))
            }
        }
    }

    /// Waits at a barrier for all processes.
    pub(crate) fn wait_for_all(&self) -> Result<(), ControlPlaneError> {
        let Some(control_plane) = &self.control_plane else { return Ok(()) };
        LibraryAccess::suspend(|| control_plane.all_gather("meet", &[])).map(|_| ())
    }

    /// Returns the offsets of the processes' clocks from rank 0's, by rank; empty if there is only one process.
    pub(crate) fn clock_offsets(&self) -> Result<Vec<ClockOffset>, Vec<Diag>> {
        let Some(control_plane) = &self.control_plane else { return Ok(Vec::new()) };
        LibraryAccess::suspend(|| clocks::compare_clocks(control_plane.as_ref(), &clocks::monotonic_ns))
            .map_err(|error| vec![error.diag()])
    }

    /// Opens the device of this process: the requested one, else the one whose number is this process's index among
    /// those of its host. Ranks that `talk` over NCCL need a device each.
    pub(crate) fn open_device(&self, found: usize, talk: bool, beside: bool) -> Result<AssignedDevice, Vec<Diag>> {
        // All processes ask, whether they need the answer or not: the steps are the same for all.
        let on_host = self.local_rank()?;
        let ordinal = self.device.unwrap_or(on_host);
        // A launcher may show each process only its own device.
        let ordinal = if found == 1 { 0 } else { ordinal };
        if ordinal >= found {
            let message = message!("this process is assigned to GPU {}, but sees {}", ordinal, found);
            return Err(vec![Diag::global_error(codes::DEVICE, message).with_note(
                "start at most as many processes on a host as it has GPUs; `CUDA_VISIBLE_DEVICES` may hide some",
            )]);
        }
        let opened = CudaDevice::open(ordinal)
            .and_then(|device| Ok((device.uuid()?, device.sm_count()?, fp8_support(&device)?, device)));
        let (uuid, own, fp8, device) = opened.map_err(|error| vec![failure::global_diag(&error)])?;
        let mut message = uuid.to_vec();
        message.extend(own.to_le_bytes());
        message.push(fp8 as u8);
        let waiting = BlockBudget::new(ordinal, own, beside);
        message.extend((waiting.block_count() as u32).to_le_bytes());
        let all = self.all_gather("devices", &message)?;
        let shared = check_device_sharing(&all);
        let one_rank_per_device = shared.is_ok();
        if talk {
            shared.map_err(|diag| vec![diag])?;
        }
        let sms = all.first().and_then(|first| u32_at(first, 16)).unwrap_or(own);
        let fp8 = Fp8Support::common(all.iter().map(|one| fp8_support_at(one, 20)));
        let room = all.iter().filter_map(|one| u32_at(one, 21)).min().unwrap_or(0) as usize;
        Ok(AssignedDevice { device, ordinal, sms, fp8, one_rank_per_device, waiting, room })
    }

    /// The host name of this process; empty if there is only one process.
    pub(crate) fn host_name(&self) -> String {
        self.control_plane.as_ref().map_or_else(String::new, |control_plane| control_plane.host_name().to_owned())
    }

    /// Counts the processes of lower rank on the same host.
    fn local_rank(&self) -> Result<usize, Vec<Diag>> {
        let Some(control_plane) = &self.control_plane else { return Ok(0) };
        let host = control_plane.host_name();
        let hosts = self.all_gather("hosts", host.as_bytes())?;
        let before = hosts.iter().take(control_plane.rank() as usize);
        Ok(before.filter(|other| other.as_slice() == host.as_bytes()).count())
    }

    /// Broadcasts bytes from rank 0.
    pub(crate) fn broadcast_from_rank_0(
        &self,
        what: &str,
        make: impl FnOnce() -> Result<Vec<u8>, Vec<Diag>>,
    ) -> Result<Vec<u8>, Vec<Diag>> {
        let own = if self.owns_rank(0) { make()? } else { Vec::new() };
        self.all_gather(what, &own)?.into_iter().next().ok_or_else(|| vec![malformed_message(what)])
    }

    /// Agrees on GEMM algorithms: for each GEMM, that of the lowest rank that timed it.
    pub(crate) fn agree_on_algorithms(&self, own: Vec<GemmChoice>) -> Result<Vec<GemmChoice>, Vec<Diag>> {
        if self.control_plane.is_none() {
            return Ok(own);
        }
        let lines: String = own.iter().map(choice_line).collect();
        let all = self.all_gather("choices", lines.as_bytes())?;
        let all: Vec<String> = all.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect();
        Ok(own.into_iter().map(|choice| first_reported_choice(&all, &choice.shape).unwrap_or(choice)).collect())
    }

    /// Computes the element-wise maximum over all processes.
    pub(crate) fn all_reduce_max(&self, figures: Vec<f64>) -> Result<Vec<f64>, Vec<Diag>> {
        let own: Vec<u8> = figures.iter().flat_map(|figure| figure.to_le_bytes()).collect();
        let all = self.all_gather("figures", &own)?;
        let figures = figures.into_iter().enumerate();
        let most = figures.map(|(k, own)| all.iter().filter_map(|message| f64_at(message, 8 * k)).fold(own, f64::max));
        Ok(most.collect())
    }
}

/// The number at an offset of a message, if the message is that long.
fn f64_at(message: &[u8], place: usize) -> Option<f64> {
    message.get(place..)?.first_chunk().map(|bytes| f64::from_le_bytes(*bytes))
}

/// A choice as a line of a message.
fn choice_line(choice: &GemmChoice) -> String {
    let GemmChoice { shape, algorithm, effort, kind } = choice;
    format!("{algorithm}\t{effort:?}\t{kind}\t{shape:?}\n")
}

/// The choice for a shape of the first process that reported one.
fn first_reported_choice(all: &[String], shape: &GemmShape) -> Option<GemmChoice> {
    let name = format!("{shape:?}");
    let mut lines = all.iter().flat_map(|text| text.lines());
    lines.find_map(|line| {
        let mut parts = line.splitn(4, '\t');
        let (algorithm, effort, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?.to_owned());
        let effort = if effort == "Sustained" { GemmTuning::Sustained } else { GemmTuning::Quick };
        (parts.next()? == name).then(|| GemmChoice { shape: shape.clone(), algorithm, effort, kind })
    })
}

/// The operations of a device and cuBLASLt on 8-bit floats: GEMMs from compute capability 8.9 on, and scales of rows
/// and columns of a GEMM on 9.0, from cuBLASLt 12.9 on.
pub(crate) fn fp8_support(device: &CudaDevice) -> Result<Fp8Support, Error> {
    Ok(match device.architecture()? {
        90 if blas::version() >= (12, 9, 0) => Fp8Support::Vectors,
        89.. => Fp8Support::Factors,
        _ => Fp8Support::Absent,
    })
}

/// The support of a device for 8-bit floats, at an offset of a message; none if the message is shorter.
fn fp8_support_at(message: &[u8], place: usize) -> Fp8Support {
    let known = [Fp8Support::Factors, Fp8Support::Vectors];
    let found = message.get(place).and_then(|&byte| known.into_iter().find(|&support| support as u8 == byte));
    found.unwrap_or(Fp8Support::Absent)
}

/// The integer at an offset of a message, if the message is that long.
fn u32_at(message: &[u8], place: usize) -> Option<u32> {
    message.get(place..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Adds the location of this process to errors of others.
fn note_waiting(mut diags: Vec<Diag>) -> Vec<Diag> {
    if let Some(first) = diags.first_mut().filter(|first| control_plane::is_known_to_all(first)) {
        let note = "this process had finished its share of the step and waited for the others";
        first.notes.push(note.to_owned().into());
    }
    diags
}

/// Refuses two ranks with the same device (messages start with its UUID).
fn check_device_sharing(all: &[Vec<u8>]) -> Result<(), Diag> {
    for (rank, message) in all.iter().enumerate() {
        let uuid = message.get(..16);
        let Some(other) = all[..rank].iter().position(|other| other.get(..16) == uuid) else {
            continue;
        };
        let message = message!("ranks {} and {} are on the same GPU ({})", other, rank, uuid_text(uuid));
        return Err(Diag::global_error(codes::SHARED_DEVICE, message).with_note(
            "NCCL needs one GPU per rank: start as many processes as there are GPUs, and check `CUDA_VISIBLE_DEVICES` and the local ranks",
        ));
    }
    Ok(())
}

/// A device's UUID as `nvidia-smi` writes it.
fn uuid_text(bytes: Option<&[u8]>) -> String {
    let bytes = bytes.unwrap_or_default().iter().enumerate();
    let digits = bytes.map(|(place, byte)| match place {
        4 | 6 | 8 | 10 => format!("-{byte:02x}"),
        _ => format!("{byte:02x}"),
    });
    format!("GPU-{}", digits.collect::<String>())
}

/// The error for a malformed message.
pub(crate) fn malformed_message(what: &str) -> Diag {
    Diag::global_error(codes::EXCHANGE, message!("the step `{}` lacks the message of rank 0", what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::backend::control_plane::ThreadControlPlane;
    use std::time::Duration;

    /// Runs `work` in `world` simulated processes and returns their results.
    fn on_all<T: Send>(world: u32, work: impl Fn(&ProcessGroup) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let start = |control_plane: ThreadControlPlane| {
                let control_plane: Option<Arc<dyn ControlPlane>> = Some(Arc::new(control_plane));
                let process_group = ProcessGroup { control_plane, device: None, reported: Arc::default() };
                let work = &work;
                scope.spawn(move || work(&process_group))
            };
            let ranks = ThreadControlPlane::new(world, Duration::from_secs(30));
            let threads: Vec<_> = ranks.into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn what_ranks_agree_on() {
        let found = on_all(3, |process_group| {
            let rank = process_group.control_plane.as_ref().unwrap().rank();
            let id = process_group.broadcast_from_rank_0("id", || Ok(vec![rank as u8 + 5])).unwrap();
            let most = process_group.all_reduce_max(vec![f64::from(rank), -f64::from(rank)]).unwrap();
            (
                process_group.owns_rank(rank),
                process_group.owns_rank(rank + 1),
                process_group.local_rank().unwrap(),
                id,
                most,
            )
        });
        for (rank, found) in found.into_iter().enumerate() {
            assert_eq!(found, (true, false, rank, vec![5], vec![2.0, 0.0]));
        }
    }

    #[test]
    fn ranks_on_one_device_are_named() {
        let message = |uuid: u8| [vec![uuid; 16], vec![132, 0, 0, 0]].concat();
        assert_eq!(check_device_sharing(&[message(1), message(2)]), Ok(()));
        let diag = check_device_sharing(&[message(1), message(2), message(1)]).unwrap_err();
        assert_eq!(diag.code, "H0534");
        let expected = "ranks 0 and 2 are on the same GPU (GPU-01010101-0101-0101-0101-010101010101)";
        assert_eq!(diag.message, expected);
    }

    #[test]
    fn as_many_processes_as_ranks() {
        let (programs, _) =
            hostir::load("%HostIrContainer { (T0_g_float[iS0{4}]) -> (T0_g_float[iS0{4}]) :\n} // %HostIrContainer\n");
        let prepared = hostir::lower::prepare_program(&programs[0], &hostir::lower::SizeSettings::default()).unwrap();
        let control_plane = ThreadControlPlane::new(2, Duration::from_secs(1)).remove(0);
        let options = Options { control_plane: Some(Arc::new(control_plane)), ..Options::default() };
        let diags = ProcessGroup::new(&prepared, &options).err().unwrap();
        assert_eq!(diags[0].code, "H0533");
        assert_eq!(diags[0].message, "2 processes were started, but the program has 1 rank");
    }
}
