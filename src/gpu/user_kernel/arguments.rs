//! Compares the arguments of a launch with the parameters of its kernel: their number, and their types as far as the file
//! tells them.

use super::entry::KernelEntry;
use super::parameter::{KernelParameter, NumberType, ParameterType};
use hostir::diag::{Message, count_text, message};
use hostir::ir::{DType, quoted_type};
use hostir::plan::{LaunchArgument, ScalarValue};

/// A difference between a launch and its kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgumentFault {
    /// Both sides, in a sentence.
    pub message: Message,
    /// The repair.
    pub note: Message,
}

/// The differences between the parameters of a kernel of `file` and the arguments of a launch, whose names are given.
pub fn argument_faults(
    file: &str,
    entry: &KernelEntry,
    arguments: &[LaunchArgument],
    names: &[Message],
) -> Vec<ArgumentFault> {
    let parameters = &entry.parameters;
    // Compilers may describe parameters in another way than the one that is read here.
    if entry.line.is_none() && parameters.is_empty() {
        return Vec::new();
    }
    if parameters.len() != arguments.len() {
        let message = message!(
            "the kernel `{}` of `{}` has {}, but the launch passes {}",
            entry.name,
            file,
            count_text(parameters.len(), "parameter"),
            count_text(arguments.len(), "argument")
        );
        return vec![ArgumentFault { message, note: declaration(file, entry) }];
    }
    let pairs = parameters.iter().zip(arguments).zip(names).enumerate();
    let wrong = pairs.filter(|(_, ((parameter, argument), _))| !fits(parameter, argument));
    wrong.map(|(at, ((parameter, argument), name))| argument_fault(at, entry, parameter, argument, name)).collect()
}

/// `axpy(const float* A, int n)` and the place where it is declared, or the sizes of its parameters.
fn declaration(file: &str, entry: &KernelEntry) -> Message {
    let list: Vec<String> = entry.parameters.iter().map(parameter_text).collect();
    let list = list.join(", ");
    match entry.line {
        Some(line) => message!("line {} of `{}` declares it as `{}({})`", line, file, entry.name, list),
        None => message!("its parameters are ({})", list),
    }
}

/// `int n`, or `8 bytes` in machine code.
fn parameter_text(parameter: &KernelParameter) -> String {
    match parameter.ty {
        ParameterType::Bytes(bytes) if parameter.text.is_empty() => count_text(bytes, "byte").into(),
        _ => parameter.text.clone(),
    }
}

fn argument_fault(
    at: usize,
    entry: &KernelEntry,
    parameter: &KernelParameter,
    argument: &LaunchArgument,
    name: &Message,
) -> ArgumentFault {
    let text = match (parameter.ty, parameter.text.as_str()) {
        (ParameterType::Bytes(bytes), "") => count_text(bytes, "byte"),
        (_, text) => message!("`{}`", text),
    };
    let passed = match argument {
        LaunchArgument::Address(view) => {
            message!("the address of `{}`, of elements `{}`", name, quoted_type(view.dtype))
        }
        LaunchArgument::Scalar { dtype, .. } => {
            let size = count_text(dtype.byte_size(), "byte");
            message!("`{}`, a number of type `{}` of {}", name, quoted_type(*dtype), size)
        }
    };
    let message =
        message!("parameter {} of the kernel `{}` is {}, but the launch passes {}", at + 1, entry.name, text, passed);
    ArgumentFault { message, note: repair(parameter.ty, argument, name) }
}

fn repair(ty: ParameterType, argument: &LaunchArgument, name: &Message) -> Message {
    match (ty, argument) {
        (ParameterType::Pointer(_), LaunchArgument::Scalar { .. }) => {
            "pass a tensor or a slice, whose address the kernel gets, or 0 for no address".into()
        }
        (ParameterType::Number(_), LaunchArgument::Address(_)) => "pass a number, such as an extent".into(),
        (_, LaunchArgument::Address(_)) => {
            "the types of the program's tensor and of the file's pointer have to agree".into()
        }
        (ty, LaunchArgument::Scalar { dtype, .. }) => match cast_for(ty, *dtype) {
            Some(cast) if is_plain(name) => message!("write `{}({})`", quoted_type(cast), name),
            Some(cast) => message!("cast it to `{}`", quoted_type(cast)),
            None => "write a cast to the parameter's type around it, such as `i32(..)`".into(),
        },
    }
}

/// Returns true for a name or a number, which a cast can enclose.
fn is_plain(name: &Message) -> bool {
    name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// The type that a number has to be cast to.
fn cast_for(ty: ParameterType, given: DType) -> Option<DType> {
    let is_float = matches!(given, DType::Float | DType::Double);
    Some(match ty {
        ParameterType::Number(NumberType::Float(4)) => DType::Float,
        ParameterType::Number(NumberType::Float(8)) => DType::Double,
        ParameterType::Number(NumberType::Bool) => DType::Bool,
        ParameterType::Bytes(4) if is_float => DType::Float,
        ParameterType::Bytes(8) if is_float => DType::Double,
        ParameterType::Number(NumberType::Int(bytes)) | ParameterType::Bytes(bytes) => match bytes {
            8 => DType::Int,
            4 => DType::Int32,
            2 => DType::Int16,
            1 => DType::Int8,
            _ => return None,
        },
        _ => return None,
    })
}

/// Returns true if an argument may be passed for a parameter, as far as its type is known.
fn fits(parameter: &KernelParameter, argument: &LaunchArgument) -> bool {
    match (parameter.ty, argument) {
        (ParameterType::Unknown, _) | (ParameterType::Pointer(None), LaunchArgument::Address(_)) => true,
        (ParameterType::Pointer(Some(pointee)), LaunchArgument::Address(view)) => pointee.takes_elements(view.dtype),
        (ParameterType::Pointer(_), LaunchArgument::Scalar { dtype, value }) => {
            dtype.byte_size() == ADDRESS && *value == ScalarValue::Int(0)
        }
        (ParameterType::Number(number), LaunchArgument::Scalar { dtype, .. }) => number.takes_number(*dtype),
        (ParameterType::Number(_), LaunchArgument::Address(_)) => false,
        (ParameterType::Bytes(bytes), LaunchArgument::Address(_)) => bytes == ADDRESS,
        (ParameterType::Bytes(bytes), LaunchArgument::Scalar { dtype, .. }) => bytes == dtype.byte_size(),
    }
}

/// The bytes of an address.
const ADDRESS: usize = 8;
