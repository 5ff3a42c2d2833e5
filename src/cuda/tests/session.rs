//! Sessions as far as they come without a GPU: what a builder is given wrong is an error before a device is
//! looked for.
#![allow(unsafe_code, reason = "a builder takes tensors")]

#[path = "common/sessions.rs"]
mod sessions;

use hostir::ir::DType;
use hostir::lower::{PreparedProgram, SizeSettings, prepare_program};
use hostir::plan::BufferView;
use hostir_cuda::CudaRuntime;
use hostir_cuda::session::{Builder, DeviceTensor, Error, IoKey, Session};
use sessions::{GATHER, RELU};

fn tensor(shape: &[usize]) -> DeviceTensor {
    DeviceTensor::contiguous(0x1000, DType::Float, shape)
}

/// The error of a session that cannot be built, as it is displayed.
#[track_caller]
fn fails(session: Result<Session, Error>, code: &str, parts: &[&str]) {
    let error = session.expect_err("the session cannot be built");
    let text = error.to_string();
    assert_eq!(error.code(), code, "{text}");
    for part in parts {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn errors_quote_the_text() {
    let wrong = RELU.replace("relu", "relo");
    let session = Session::builder(&wrong).name("net.hir").build();
    fails(session, "H0101", &["net.hir:3:8", "`relo`", "did you mean `relu`?"]);
    let undefined = RELU.replace("(T0_g_float[iS0{i0}, iS1{i1}]) ->", "() ->");
    fails(Session::builder(&undefined).build(), "H0211", &["program:2:", "T0"]);
}

#[test]
fn one_program_of_a_text() {
    let both = format!("{RELU}\n{GATHER}");
    fails(Session::builder(&both).build(), "H0528", &["`program` contains 2 programs", "from 1 to 2"]);
    let third = Session::builder(&both).container(3).build();
    fails(third, "H0528", &["contains 2 programs, so there is no number 3"]);
    fails(Session::builder("").build(), "H0008", &["contains no program"]);
}

#[test]
fn sizes_follow_from_tensors() {
    fails(Session::builder(RELU).build(), "H0401", &["i0", "i1"]);
    let given = |builder: Builder, key: IoKey<'_>, shape: &[usize]| {
        // SAFETY: none of these sessions can be built.
        unsafe { builder.input(key, &tensor(shape)) }.build()
    };
    let twice = given(Session::builder(RELU).set("i0", 3), "T0".into(), &[4, 8]);
    fails(twice, "H0402", &["3", "4"]);
    let other = given(Session::builder(RELU), "T2".into(), &[4, 8]);
    fails(other, "H0528", &["the program has no input `T2`", "its inputs are T0"]);
    let second = given(Session::builder(RELU), 1.into(), &[4, 8]);
    fails(second, "H0528", &["the program has no input number 1", "its inputs are T0"]);
    // A rank's part has extent 1 along the axis that is sharded over devices.
    let half = Session::builder(GATHER).set("i0", 9);
    // SAFETY: as above.
    let half = unsafe { half.input_on(0, "T0", &tensor(&[1, 8])) }.build();
    fails(half, "H0402", &["9", "8"]);
}

#[test]
fn programs_without_a_text() {
    let (mut programs, diags) = hostir::load(RELU);
    assert!(diags.is_empty());
    let session = Session::builder("").program(programs.remove(0)).build();
    let error = session.expect_err("sizes are open").to_string();
    assert!(error.starts_with("error[H0401]"), "{error}");
}

/// Sessions may move between threads; errors go where `?` takes them.
#[test]
fn what_sessions_can_do() {
    fn copies<T: Send>() {}
    fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
    copies::<Session>();
    is_error::<Error>();
}

/// A program of one rank and one instruction, of four elements.
fn prepared_copy() -> PreparedProgram {
    let text = "%HostIrContainer { (T0_g_float[iS0{4}]) -> (T1_g_float[iS1{4}]) :
  T1_g_float[iS1{4}] = Set( T0_g_float[iS0{4}], cache_op=Streaming )
} // %HostIrContainer
";
    let (programs, diags) = hostir::load(text);
    assert!(diags.is_empty());
    prepare_program(&programs[0], &SizeSettings::default()).expect("all sizes are known")
}

#[test]
fn a_plan_that_was_changed_is_refused_before_there_is_a_device() {
    let changes: [fn(&mut BufferView); 5] = [
        |view| view.offset = 1,
        |view| view.offset = usize::MAX,
        |view| view.dims[0].stride = 2,
        |view| view.dims[0].extent = usize::MAX,
        |view| view.buffer.0 = 77,
    ];
    for change in changes {
        let mut prepared = prepared_copy();
        prepared.plans[0].inputs[0].iter_mut().for_each(change);
        let diags = CudaRuntime::default().load(&prepared).err().expect("the plan is refused");
        assert_eq!(diags[0].code, "H0535");
        assert_eq!(diags[0].message, "the plan of rank 0 accesses memory beyond the end of a buffer");
    }
}

/// Without a GPU, a program is refused before any other work.
#[test]
fn a_plan_needs_a_driver() {
    if hostir_cuda::has_driver() {
        return;
    }
    let diags = CudaRuntime::default().load(&prepared_copy()).err().expect("there is no device");
    assert_eq!(diags[0].code, "H0520");
    assert!(diags[0].message.contains("libcuda.so"), "{}", diags[0].message);
}
