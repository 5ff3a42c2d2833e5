//! Values of the options about communications that several passes have.

use crate::framework::options::Options;
use hostir::ir::CommBackend;

/// The backend of the communications that a pass inserts: the value of its option `communicator_backend`.
pub(crate) fn communicator_backend(options: &Options) -> CommBackend {
    CommBackend::parse(options.word_value("communicator_backend")).unwrap_or_default()
}
