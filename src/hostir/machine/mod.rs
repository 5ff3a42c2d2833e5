//! Machines: the rates of GPUs, links and hosts, which the cost model (`plan::cost`) turns into times.
//!
//! A machine is a value that a command line names: one of the built-in files (`builtin/`), or a file of the user's in
//! the same form, which `hir-run --calibrate` writes. docs/machines.md describes the form. Rates are in the units of
//! the files: TFLOP/s, GB/s, and microseconds.

mod builtin;
mod quantities;
mod read;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

pub use builtin::{BUILTIN_NAMES, DEFAULT_NAME};
pub use quantities::{Count, Micros, Quantity, Share};

/// The number of hexadecimal digits of [`Machine::short_hash`].
const HASH_DIGITS: usize = 12;

/// A machine: GPUs of one kind, and what connects them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name in outputs that used the model.
    pub name: String,
    /// The number of GPUs for which the rates of communication hold.
    pub devices: Count,
    /// Matrix products.
    pub gemm: GemmRates,
    /// Everything else that a GPU does by itself.
    pub device: DeviceRates,
    /// The host's time for issuing work.
    pub host: HostTimes,
    /// Communications over NCCL.
    pub nccl: NcclRates,
    /// Messages by copy engines.
    pub copies: CopyRates,
    /// Messages that kernels store in the memory of the receiver.
    pub stores: StoreRates,
    /// Flags in memory that ranks wait for.
    pub semaphores: SemaphoreTimes,
    /// Several hosts; without it, all GPUs belong to one host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostLinks>,
}

/// The rates of large matrix products in TFLOP/s, by the size of an operand's element.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GemmRates {
    /// 8-bit operands.
    pub bits8_tflops: Quantity,
    /// 16-bit operands.
    pub bits16_tflops: Quantity,
    /// 32-bit operands.
    pub bits32_tflops: Quantity,
    /// 64-bit operands.
    pub bits64_tflops: Quantity,
    /// The rows of the result that a multiprocessor computes at a time.
    pub tile_rows: Count,
    /// The columns of the result that a multiprocessor computes at a time.
    pub tile_columns: Count,
    /// The time of a product that no operation explains: its first loads and its last stores.
    pub start_us: Micros,
}

/// The rates of one GPU.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRates {
    /// The multiprocessors.
    pub processors: Count,
    /// Bytes that local work reads and writes.
    pub memory_gb_s: Quantity,
    /// The same of reductions.
    pub reduction_gb_s: Quantity,
    /// The time between the end of a kernel and the start of the next one of its stream.
    pub launch_us: Micros,
}

/// The host's time for issuing work call by call. A graph is issued as a whole, and takes none.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostTimes {
    /// A kernel, a copy or a message of copy engines.
    pub call_us: Micros,
    /// An event, or a wait for one.
    pub event_us: Micros,
    /// A collective, a message or a group of messages over NCCL.
    pub communication_us: Micros,
}

/// Communications over NCCL, whose kernels take multiprocessors of the GPU.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NcclRates {
    /// The start of a collective.
    pub collective_us: Micros,
    /// The bytes of an allgather, and of other collectives that move data, that cross a GPU's link.
    pub allgather_gb_s: Quantity,
    /// Those of a reduce-scatter or a reduce.
    pub reduce_scatter_gb_s: Quantity,
    /// Those of an all-reduce, which is a reduce-scatter and an allgather.
    pub allreduce_gb_s: Quantity,
    /// The start of a message or a group of messages.
    pub message_us: Micros,
    /// The bytes of a message.
    pub message_gb_s: Quantity,
    /// The same beside a product.
    pub message_beside_gb_s: Quantity,
    /// The share of the multiprocessors that a collective takes.
    pub collective_share: Share,
    /// The share of the multiprocessors that messages take: half of it a send, half of it a receive.
    pub message_share: Share,
}

/// Messages by copy engines, which take nothing of the GPU's arithmetic.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyRates {
    /// The start of a copy.
    pub start_us: Micros,
    /// The bytes of a copy.
    pub copy_gb_s: Quantity,
}

/// Messages that the kernel which computes them stores in the receiver's memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreRates {
    /// The bytes that a kernel stores over the link: a product with few operations a byte takes as long as its bytes,
    /// and its last tiles come after everything is computed.
    pub store_gb_s: Quantity,
}

/// Flags in memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SemaphoreTimes {
    /// The time from one rank's write to the end of another rank's wait.
    pub signal_us: Micros,
}

/// Several hosts of one kind, and the network between them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostLinks {
    /// The GPUs of a host: ranks are numbered host by host.
    pub devices: Count,
    /// The bytes that one GPU sends or receives over the network.
    pub network_gb_s: Quantity,
    /// The start of a communication over the network.
    pub network_us: Micros,
}

impl Machine {
    /// The text of a file with this machine.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a machine has strings and numbers only")
    }

    /// The first digits of a hash of the machine's values: machines of equal values have equal ones, whatever the
    /// comments and the layout of their files.
    pub fn short_hash(&self) -> String {
        let mut text = String::new();
        for byte in Sha256::digest(self.to_toml().as_bytes()) {
            let _ = write!(text, "{byte:02x}");
        }
        text.truncate(HASH_DIGITS);
        text
    }
}
