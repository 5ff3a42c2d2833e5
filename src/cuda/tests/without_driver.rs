//! Sessions on a machine without NVIDIA's driver: sound programs with sizes that follow from tensors come as far as
//! the devices.
#![allow(clippy::panic, reason = "failures panic")]
#![allow(unsafe_code, reason = "a builder takes tensors")]

#[path = "../../../test/library/common/needs.rs"]
mod needs;
#[path = "common/sessions.rs"]
mod sessions;

use hostir::ir::DType;
use hostir_cuda::session::{DeviceTensor, Options, Session};
use sessions::{GATHER, RELU};

fn main() -> std::process::ExitCode {
    let missing = hostir_cuda::has_driver().then_some("needs a machine without NVIDIA's driver");
    needs::run(needs::tests![missing; sessions_come_as_far_as_the_devices])
}

fn sessions_come_as_far_as_the_devices() {
    let tensor = |shape: &[usize]| DeviceTensor::contiguous(0x1000, DType::Float, shape);
    let sessions = [
        // SAFETY: without a driver no session is built. So it is for the others.
        unsafe { Session::builder(RELU).input("T0", &tensor(&[4, 8])) },
        // SAFETY: as above.
        unsafe { Session::builder(RELU).input(0, &tensor(&[4, 8])) },
        Session::builder(RELU).shape("T0", &[4, 8]),
        Session::builder(RELU).set("i0", 4).set("i1", 8).options(Options::default()),
        // SAFETY: as above.
        unsafe { Session::builder(GATHER).input_on(1, "T0", &tensor(&[1, 8])) },
    ];
    for session in sessions {
        let Err(error) = session.build() else { panic!("the session cannot be built") };
        let text = error.to_string();
        assert!(error.code() == "H0520" && text.contains("libcuda.so"), "{text}");
    }
}
