//! The launch of a kernel of the user.

use super::inst::InstKind;
use super::view::BufferView;
use crate::ir::DType;
use crate::ir::functions::ScalarValue;
use std::sync::Arc;

/// A kernel of the user.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UserKernel {
    /// Its file, relative to the folder of the program.
    pub file: Arc<str>,
    /// Its name in the file.
    pub entry: Arc<str>,
}

/// The value of a kernel's parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum LaunchArgument {
    /// The address of a view's first element.
    Address(BufferView),
    /// A number.
    Scalar {
        /// The type that it is passed in.
        dtype: DType,
        /// The number.
        value: ScalarValue,
    },
}

impl LaunchArgument {
    /// The view whose address it is; `None` for a number.
    pub fn as_view(&self) -> Option<&BufferView> {
        match self {
            LaunchArgument::Address(view) => Some(view),
            LaunchArgument::Scalar { .. } => None,
        }
    }

    /// The bytes that a parameter for it has.
    pub fn byte_size(&self) -> usize {
        match self {
            LaunchArgument::Address(_) => size_of::<u64>(),
            LaunchArgument::Scalar { dtype, .. } => dtype.byte_size(),
        }
    }

    /// The bytes of a number as the kernel gets it; `None` for an address.
    pub fn scalar_bytes(&self) -> Option<Vec<u8>> {
        let LaunchArgument::Scalar { dtype, value } = self else { return None };
        Some(match dtype {
            DType::Float => (value.as_f64() as f32).to_ne_bytes().to_vec(),
            DType::Double => value.as_f64().to_ne_bytes().to_vec(),
            DType::Bool => vec![u8::from(value.as_bool())],
            _ => value.as_i64().to_ne_bytes()[..dtype.byte_size().min(8)].to_vec(),
        })
    }
}

/// The launch of a kernel of the user: what it accesses is what the program declares.
#[derive(Clone, PartialEq, Debug)]
pub struct LaunchInst {
    /// The kernel.
    pub kernel: UserKernel,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of shared memory that the launch adds to those of the kernel.
    pub shared: u32,
    /// The values of its parameters, in order.
    pub arguments: Vec<LaunchArgument>,
    /// The views that it is declared to read.
    pub reads: Vec<BufferView>,
    /// The views that it is declared to write, each element of them.
    pub writes: Vec<BufferView>,
    /// Instructions of memory and of one stream that do the same; `None` if the program has no reference.
    pub reference: Option<Vec<InstKind>>,
}

impl LaunchInst {
    /// All views, to be changed.
    pub(super) fn views_mut(&mut self) -> impl Iterator<Item = &mut BufferView> {
        let addresses = self.arguments.iter_mut().filter_map(|argument| match argument {
            LaunchArgument::Address(view) => Some(view),
            LaunchArgument::Scalar { .. } => None,
        });
        self.reads.iter_mut().chain(&mut self.writes).chain(addresses)
    }

    /// The views whose addresses its parameters get.
    pub fn address_views(&self) -> impl Iterator<Item = &BufferView> {
        self.arguments.iter().filter_map(LaunchArgument::as_view)
    }

    /// The bytes of its lists.
    pub(super) fn list_bytes(&self) -> usize {
        let views = (self.reads.capacity() + self.writes.capacity()) * size_of::<BufferView>();
        let reference: usize =
            self.reference.iter().flatten().map(|kind| size_of::<InstKind>() + kind.heap_bytes()).sum();
        self.arguments.capacity() * size_of::<LaunchArgument>() + views + reference
    }
}
