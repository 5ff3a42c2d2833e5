//! Calls of an op by prepared sessions: one call from Python finds the tensors' key, their addresses and the current
//! stream, allocates the results and enqueues the run.
//!
//! A call bypasses torch's dispatcher only if that would do nothing but call this ([`Dispatcher::call`] has the
//! conditions). Python handles calls that are not prepared, or whose tensors are not plain.

use crate::exchange_api::{FoundTensor, TensorKey, TensorReader, is_plain_value, read_by_attributes, read_dtype};
use crate::session::DeviceSession;
use crate::symmetric::TensorPlace;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple, PyType};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The functions of torch that a dispatcher calls.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TorchFunctions {
    /// The types of plain tensors: objects of other types, subclasses too, go through torch's dispatcher.
    tensors: Vec<Py<PyType>>,
    /// `torch.empty_strided`.
    empty_strided: Py<PyAny>,
    /// `torch.is_grad_enabled`.
    is_grad_enabled: Py<PyAny>,
    /// The number of a device's current stream, where tensors have no exchange API.
    current_stream: Py<PyAny>,
    /// `torch.autograd.graph.increment_version`.
    increment_version: Py<PyAny>,
    /// Functions without arguments, with their results while no dispatch mode, trace or profile is active.
    inactive: Vec<(Py<PyAny>, Py<PyAny>)>,
}

/// A result: its layout, and the arguments of the function that makes one.
struct ResultRecipe {
    key: TensorKey,
    arguments: Py<PyTuple>,
    options: Py<PyDict>,
}

/// A session prepared for calls with tensors of one layout.
struct PreparedCall {
    inputs: Vec<TensorKey>,
    others: Vec<Py<PyAny>>,
    /// The strings among the others, of which one names the group, if the op has one.
    groups: Vec<String>,
    results: Vec<ResultRecipe>,
    /// Of the inputs, then of the results.
    places: Vec<TensorPlace>,
    /// Python's object for it, with an attribute `session`.
    prepared: Py<PyAny>,
    session: Py<PyAny>,
}

/// The tensors of a call, in the order of the program's inputs, and its other arguments.
struct ReadCall<'py> {
    inputs: SmallVec<[FoundTensor; 6]>,
    others: SmallVec<[Bound<'py, PyAny>; 4]>,
    /// The tensors to which the results are written, if the caller has any.
    out: Option<SmallVec<[FoundTensor; 2]>>,
}

/// The prepared calls of an op, the last used one first.
#[pyclass(frozen, name = "Dispatcher", module = "hostir._native")]
pub(crate) struct Dispatcher {
    torch: TorchFunctions,
    readers: Vec<TensorReader>,
    /// For each input of the program the position of its argument.
    places: Vec<usize>,
    calls: Mutex<Vec<Arc<PreparedCall>>>,
}

#[pymethods]
impl Dispatcher {
    /// A dispatcher without prepared calls.
    #[new]
    fn new(py: Python<'_>, torch: TorchFunctions, places: Vec<usize>) -> Self {
        let readers = torch.tensors.iter().map(|class| TensorReader::new(class.bind(py))).collect();
        Self { torch, readers, places, calls: Mutex::default() }
    }

    /// Whether tensors are read by DLPack's exchange API.
    #[getter]
    fn has_exchange_api(&self) -> bool {
        self.readers.first().is_some_and(TensorReader::has_api)
    }

    /// The result of a call of the op, or a tuple of the results; None if it has to go through torch's dispatcher.
    ///
    /// It bypasses the dispatcher if it is prepared, all tensors are plain ones, autograd does not follow it, and no
    /// dispatch mode, transform, trace or profile is active. torch's dispatcher would then only find the op's kernel for
    /// GPUs, which does the same.
    fn call<'py>(&self, py: Python<'py>, values: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((prepared, call)) = self.find_direct(py, values, None)? else { return Ok(None) };
        let results = self.run_prepared(py, &prepared, &call, None)?;
        results_of(py, results).map(Some)
    }

    /// As `call`, with the results in `out`, a tensor or a tuple; gives `out`.
    fn call_into<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyTuple>,
        out: Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let written: Vec<Bound<'py, PyAny>> = match out.cast::<PyTuple>() {
            Ok(several) => several.iter().collect(),
            Err(_) => vec![out.clone()],
        };
        let Some((prepared, call)) = self.find_direct(py, values, Some(&written))? else { return Ok(None) };
        let Some(addresses) = fitting_addresses(&prepared, &call) else { return Ok(None) };
        self.run_prepared(py, &prepared, &call, Some(&addresses))?;
        self.note_written(py, &written)?;
        Ok(Some(out))
    }

    /// The results for tensors in the order of the program's inputs, as a list; None if the call is not prepared.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Bound<'py, PyAny>>,
        others: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let call = self.read_call(&inputs, others, None)?;
        let Some(prepared) = self.find(&call)? else { return Ok(None) };
        self.run_prepared(py, &prepared, &call, None).map(Some)
    }

    /// As `run`, with the results in `out`. False if the call is not prepared, or a program cannot write there at once.
    fn run_into<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Bound<'py, PyAny>>,
        others: Vec<Bound<'py, PyAny>>,
        out: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let call = self.read_call(&inputs, others, Some(&out))?;
        let Some(prepared) = self.find(&call)? else { return Ok(false) };
        let Some(addresses) = fitting_addresses(&prepared, &call) else { return Ok(false) };
        self.run_prepared(py, &prepared, &call, Some(&addresses))?;
        self.note_written(py, &out)?;
        Ok(true)
    }

    /// Adds what was prepared for such a call: `prepared` has an attribute `session`, and each result is a shape,
    /// strides and an element type of torch's. Inputs and results are counted together: those in `fixed` have to be at
    /// this address. Of the others, those that are in symmetric memory of the call's group now, among the inputs and
    /// `out`, may be anywhere, and the rest anywhere else: a call with one of them there may have a session of its own.
    #[pyo3(signature = (inputs, others, prepared, results, fixed=None, out=None))]
    fn insert(
        &self,
        inputs: Vec<Bound<'_, PyAny>>,
        others: Vec<Py<PyAny>>,
        prepared: Bound<'_, PyAny>,
        results: Vec<(Vec<i64>, Vec<i64>, Bound<'_, PyAny>)>,
        fixed: Option<HashMap<usize, u64>>,
        out: Option<Vec<Bound<'_, PyAny>>>,
    ) -> PyResult<()> {
        let py = prepared.py();
        let found: Vec<_> = inputs.iter().map(|tensor| self.read_tensor(tensor)).collect::<PyResult<_>>()?;
        let read: Vec<_> = found.iter().map(|tensor| tensor.key.clone()).collect();
        let device = match inputs.first() {
            Some(tensor) => tensor.getattr(intern!(py, "device"))?,
            None => py.None().into_bound(py),
        };
        let recipes = results.iter().map(|(shape, strides, dtype)| {
            let options = PyDict::new(py);
            options.set_item("dtype", dtype)?;
            options.set_item("device", &device)?;
            let arguments = (shape.clone(), strides.clone());
            let arguments =
                (PyTuple::new(py, arguments.0)?, PyTuple::new(py, arguments.1)?).into_pyobject(py)?.unbind();
            let beside =
                read.first().ok_or_else(|| pyo3::exceptions::PyValueError::new_err("a call without tensors"))?;
            let key = beside.beside(read_dtype(dtype)?, shape, strides);
            Ok(ResultRecipe { key, arguments, options: options.unbind() })
        });
        let session = prepared.getattr(intern!(py, "session"))?.unbind();
        let results = recipes.collect::<PyResult<Vec<_>>>()?;
        let written = out.and_then(|out| self.read_results(&out)).unwrap_or_default();
        let groups: Vec<String> = others.iter().filter_map(|other| other.extract(py).ok()).collect();
        let addresses = found.iter().chain(&written).map(|one| one.address);
        let mut places: Vec<_> = addresses.map(|address| TensorPlace::now_of(address, &groups)).collect();
        places.resize(read.len() + results.len(), TensorPlace::Ordinary);
        for (at, address) in fixed.into_iter().flatten() {
            if let Some(place) = places.get_mut(at) {
                *place = TensorPlace::At(address);
            }
        }
        let made = PreparedCall { inputs: read, others, groups, results, places, prepared: prepared.unbind(), session };
        self.lock_calls().insert(0, Arc::new(made));
        Ok(())
    }

    /// All that was inserted, the least recently used first.
    fn prepared(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        self.lock_calls().iter().rev().map(|call| call.prepared.clone_ref(py)).collect()
    }

    /// Takes something out that was inserted.
    fn remove(&self, prepared: &Bound<'_, PyAny>) {
        // Dropped values may run Python code, so they are dropped after the lock is released.
        let _dropped: Vec<_> = self.lock_calls().extract_if(.., |call| call.prepared.is(prepared)).collect();
    }
}

impl Dispatcher {
    fn lock_calls(&self) -> std::sync::MutexGuard<'_, Vec<Arc<PreparedCall>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The preparation for a call of the op that may bypass torch's dispatcher; `out` are tensors to write to.
    fn find_direct<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyTuple>,
        out: Option<&[Bound<'py, PyAny>]>,
    ) -> PyResult<Option<(Arc<PreparedCall>, ReadCall<'py>)>> {
        if self.lock_calls().is_empty() || !self.is_inactive(py)? {
            return Ok(None);
        }
        let followed = self.torch.is_grad_enabled.bind(py).call0()?.is(&*PyBool::new(py, true));
        let mut found: SmallVec<[Option<FoundTensor>; 8]> = SmallVec::new();
        let mut others = SmallVec::new();
        for value in values.iter() {
            let Some(reader) = self.readers.iter().find(|reader| reader.reads(&value)) else {
                if !is_plain_value(&value) {
                    return Ok(None);
                }
                others.push(value);
                found.push(None);
                continue;
            };
            let Some(tensor) = reader.read_tensor(&value) else { return Ok(None) };
            if !is_plain_tensor(&value, &tensor.key, followed)? {
                return Ok(None);
            }
            found.push(Some(tensor));
        }
        for tensor in out.unwrap_or_default() {
            if !self.readers.iter().any(|reader| reader.reads(tensor)) || (followed && requires_grad(tensor)?) {
                return Ok(None);
            }
        }
        let inputs: Option<SmallVec<_>> = self.places.iter().map(|place| found.get_mut(*place)?.take()).collect();
        let Some(inputs) = inputs else { return Ok(None) };
        let call = ReadCall { inputs, others, out: out.and_then(|out| self.read_results(out)) };
        Ok(self.find(&call)?.map(|prepared| (prepared, call)))
    }

    /// Tells autograd that tensors were written to. Tensors of the inference mode have no version.
    fn note_written(&self, py: Python<'_>, written: &[Bound<'_, PyAny>]) -> PyResult<()> {
        for tensor in written {
            if !tensor.call_method0(intern!(py, "is_inference"))?.is_truthy()? {
                self.torch.increment_version.bind(py).call1((tensor,))?;
            }
        }
        Ok(())
    }

    /// Whether nobody wants to see ops.
    fn is_inactive(&self, py: Python<'_>) -> PyResult<bool> {
        for (ask, inactive) in &self.torch.inactive {
            if !ask.bind(py).call0()?.is(inactive) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_call<'py>(
        &self,
        inputs: &[Bound<'py, PyAny>],
        others: Vec<Bound<'py, PyAny>>,
        out: Option<&[Bound<'py, PyAny>]>,
    ) -> PyResult<ReadCall<'py>> {
        let inputs = inputs.iter().map(|tensor| self.read_tensor(tensor)).collect::<PyResult<_>>()?;
        Ok(ReadCall { inputs, others: others.into(), out: out.and_then(|out| self.read_results(out)) })
    }

    /// Tensors to write to; `None` if one of them cannot be read.
    fn read_results(&self, out: &[Bound<'_, PyAny>]) -> Option<SmallVec<[FoundTensor; 2]>> {
        out.iter().map(|tensor| self.read_tensor(tensor).ok()).collect()
    }

    fn read_tensor(&self, tensor: &Bound<'_, PyAny>) -> PyResult<FoundTensor> {
        let reader = self.readers.iter().find(|reader| reader.reads(tensor));
        match reader.and_then(|reader| reader.read_tensor(tensor)) {
            Some(found) => Ok(found),
            None => read_by_attributes(tensor),
        }
    }

    /// The preparation for a call; it becomes the last used one. Values are compared without the lock, because a
    /// comparison may run Python code.
    fn find(&self, call: &ReadCall<'_>) -> PyResult<Option<Arc<PreparedCall>>> {
        let candidates: SmallVec<[_; 2]> =
            self.lock_calls().iter().filter(|one| one.has_tensors(call)).cloned().collect();
        for one in candidates {
            if one.has_others(call)? {
                let mut calls = self.lock_calls();
                if let Some(at) = calls.iter().position(|other| Arc::ptr_eq(other, &one)) {
                    calls[..=at].rotate_right(1);
                }
                return Ok(Some(one));
            }
        }
        Ok(None)
    }

    /// Enqueues a run, and returns new results, unless `out` gives their places.
    fn run_prepared<'py>(
        &self,
        py: Python<'py>,
        prepared: &PreparedCall,
        call: &ReadCall<'py>,
        out: Option<&[u64]>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut addresses: SmallVec<[u64; 8]> = call.inputs.iter().map(|tensor| tensor.address).collect();
        let mut results = Vec::new();
        match out {
            Some(out) => addresses.extend_from_slice(out),
            None => {
                for recipe in &prepared.results {
                    let make = self.torch.empty_strided.bind(py);
                    let made = make.call(recipe.arguments.bind(py), Some(recipe.options.bind(py)))?;
                    addresses.push(self.read_tensor(&made)?.address);
                    results.push(made);
                }
            }
        }
        let stream = self.current_stream(py, &call.inputs)?;
        match prepared.session.bind(py).cast::<DeviceSession>() {
            Ok(session) => session.get().run_on(py, stream, &addresses)?,
            // A session of another kind, such as a test's.
            Err(_) => {
                let session = prepared.session.bind(py);
                session.call_method1(intern!(py, "run"), (stream, addresses.to_vec()))?;
            }
        }
        Ok(results)
    }

    fn current_stream(&self, py: Python<'_>, inputs: &[FoundTensor]) -> PyResult<usize> {
        let Some(first) = inputs.first() else { return Ok(0) };
        let known = self.readers.first().and_then(|reader| reader.current_stream(py, &first.key));
        match known {
            Some(stream) => Ok(stream),
            None => self.torch.current_stream.bind(py).call1((first.key.device_number(),))?.extract(),
        }
    }
}

impl PreparedCall {
    fn has_tensors(&self, call: &ReadCall<'_>) -> bool {
        self.inputs.len() == call.inputs.len()
            && self.inputs.iter().zip(&call.inputs).all(|(key, found)| *key == found.key)
            && self.places.iter().zip(&call.inputs).all(|(place, found)| place.holds(found.address, &self.groups))
            && self.has_results(call.out.as_deref())
    }

    /// Returns true if the results may be at the caller's addresses, or in new memory.
    fn has_results(&self, out: Option<&[FoundTensor]>) -> bool {
        let mut places = self.places[self.inputs.len()..].iter();
        match out {
            Some(out) => places.zip(out).all(|(place, found)| place.holds(found.address, &self.groups)),
            None => places.all(|place| place.holds_new()),
        }
    }

    /// Returns true if the other arguments are of the same types and equal.
    fn has_others(&self, call: &ReadCall<'_>) -> PyResult<bool> {
        if self.others.len() != call.others.len() {
            return Ok(false);
        }
        for (own, other) in self.others.iter().zip(&call.others) {
            let own = own.bind(other.py());
            let same = own.is(other) || (own.get_type_ptr() == other.get_type_ptr() && own.eq(other)?);
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The addresses of tensors to which the program writes its results; `None` if they have another layout.
fn fitting_addresses(prepared: &PreparedCall, call: &ReadCall<'_>) -> Option<SmallVec<[u64; 4]>> {
    let out = call.out.as_ref().filter(|out| out.len() == prepared.results.len())?;
    let fitting = out.iter().zip(&prepared.results);
    fitting.map(|(found, recipe)| (found.key == recipe.key).then_some(found.address)).collect()
}

/// Returns true if the elements of a tensor are those in its memory: autograd does not follow it, and no sign is
/// pending.
fn is_plain_tensor(tensor: &Bound<'_, PyAny>, key: &TensorKey, followed: bool) -> PyResult<bool> {
    let py = tensor.py();
    let (conjugate, negative) = key.may_be_lazy();
    let more = (followed && requires_grad(tensor)?)
        || (negative && tensor.call_method0(intern!(py, "is_neg"))?.is_truthy()?)
        || (conjugate && tensor.call_method0(intern!(py, "is_conj"))?.is_truthy()?);
    Ok(!more)
}

fn requires_grad(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "requires_grad"))?.is_truthy()
}

/// The only result, or a tuple of all.
fn results_of<'py>(py: Python<'py>, mut results: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    match results.len() {
        1 => Ok(results.remove(0)),
        _ => Ok(PyTuple::new(py, results)?.into_any()),
    }
}
