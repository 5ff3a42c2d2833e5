//! Random annotated programs.

use fastrand::Rng;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A program with what a run of it needs.
pub(crate) struct Generated {
    /// The text.
    pub(crate) text: String,
    /// Values of its extents; empty where they are written out.
    pub(crate) set: BTreeMap<String, i64>,
}

/// An axis of a tensor.
#[derive(Clone, Copy, PartialEq)]
struct Axis {
    /// Which of the extents; `None` is a broadcast.
    extent: Option<usize>,
    reduced: bool,
}

/// A tensor that ops can read.
#[derive(Clone)]
struct Tensor {
    number: usize,
    axes: Vec<Axis>,
}

struct Generator<'r> {
    rng: &'r mut Rng,
    devices: usize,
    /// Value of each extent; the last one is the number of devices.
    extents: Vec<usize>,
    symbolic: bool,
    tensors: Vec<Tensor>,
    inputs: Vec<String>,
    body: String,
    next_tensor: usize,
    next_domain: usize,
    /// The last result in full.
    last: String,
}

/// One program: up to six ops on up to five devices.
pub(crate) fn program(rng: &mut Rng) -> Generated {
    let devices = rng.usize(1..=5);
    let mut extents: Vec<usize> = (0..3).map(|_| rng.usize(1..=4)).collect();
    extents.push(devices);
    let symbolic = rng.bool();
    let generator = Generator {
        rng,
        devices,
        extents,
        symbolic,
        tensors: Vec::new(),
        inputs: Vec::new(),
        body: String::new(),
        next_tensor: 0,
        next_domain: 0,
        last: String::new(),
    };
    generator.run()
}

impl Generator<'_> {
    fn run(mut self) -> Generated {
        let rank = self.rng.usize(1..=3);
        let axes = (0..rank).map(|_| self.any_axis()).collect();
        self.input(axes);
        for _ in 0..self.rng.usize(1..=6) {
            self.op();
        }
        let text = format!(
            "%HostIrContainer {{ ({}) -> ({}) :\n{}}} // %HostIrContainer\n",
            self.inputs.join(", "),
            self.last,
            self.body
        );
        let mut set = BTreeMap::new();
        if self.symbolic {
            let named = self.extents.iter().enumerate();
            set = named.map(|(k, &value)| (format!("i{k}"), value as i64)).collect();
            set.retain(|name, _| text.contains(&format!("{{{name}}}")));
        }
        Generated { text, set }
    }

    fn any_axis(&mut self) -> Axis {
        // The extent that equals the number of devices is the interesting one.
        let extent = if self.rng.bool() {
            self.extents.len() - 1
        } else {
            self.rng.usize(..self.extents.len())
        };
        Axis { extent: Some(extent), reduced: false }
    }

    fn extent(&self, axis: Axis) -> String {
        match axis.extent {
            None => "1".to_owned(),
            Some(extent) if self.symbolic => format!("i{extent}"),
            Some(extent) => self.extents[extent].to_string(),
        }
    }

    /// The full text of a new tensor, randomly spread over devices and streams.
    fn declare(&mut self, axes: Vec<Axis>, streams: bool) -> (Tensor, String) {
        let number = self.next_tensor;
        self.next_tensor += 1;
        let device_extent = self.extents.len() - 1;
        let can_shard = |axis: &Axis| axis.extent == Some(device_extent) && !axis.reduced;
        let sharded = self.pick(&axes, 5, can_shard);
        let streamed = if streams {
            self.pick(&axes, 6, |axis| !axis.reduced && axis.extent.is_some())
        } else {
            None
        };
        let mut parts = Vec::new();
        for (k, &axis) in axes.iter().enumerate() {
            let letter = match axis {
                Axis { reduced: true, .. } => "r",
                Axis { extent: None, .. } => "b",
                _ => "i",
            };
            let parallel = match k {
                _ if sharded == Some(k) => "deviceIdx.x",
                _ if streamed == Some(k) => "StreamIdx",
                _ => "S",
            };
            parts.push(format!("{letter}{parallel}{}{{{}}}", self.next_domain, self.extent(axis)));
            self.next_domain += 1;
        }
        let devices: Vec<String> = (0..self.devices).map(|device| device.to_string()).collect();
        let text = format!(
            "T{number}_g_float[{}] (DeviceMesh{{{}}})",
            parts.join(", "),
            devices.join(" ")
        );
        let stored = axes.into_iter().filter(|axis| !axis.reduced).collect();
        (Tensor { number, axes: stored }, text)
    }

    /// One of the axes that fit, in `chance` of ten cases.
    fn pick(
        &mut self,
        axes: &[Axis],
        chance: usize,
        fits: impl Fn(&Axis) -> bool,
    ) -> Option<usize> {
        let places: Vec<usize> = (0..axes.len()).filter(|&k| fits(&axes[k])).collect();
        if places.is_empty() || self.rng.usize(..10) >= chance {
            return None;
        }
        Some(places[self.rng.usize(..places.len())])
    }

    fn input(&mut self, axes: Vec<Axis>) -> Tensor {
        let (tensor, text) = self.declare(axes, false);
        self.inputs.push(text);
        self.tensors.push(tensor.clone());
        tensor
    }

    fn any(&mut self) -> Tensor {
        // Recent results more often, so that ops follow each other.
        let last = self.tensors.len() - 1;
        let at = if self.rng.bool() { last } else { self.rng.usize(..=last) };
        self.tensors[at].clone()
    }

    fn result(&mut self, axes: Vec<Axis>, op: &str) {
        let (tensor, text) = self.declare(axes, true);
        let _ = writeln!(self.body, "  {text}\n     = {op}");
        self.last = text;
        self.tensors.push(tensor);
    }

    fn op(&mut self) {
        let operand = self.any();
        let name = format!("T{}", operand.number);
        match self.rng.usize(..10) {
            0..=3 => self.result(operand.axes, &format!("Set( {name}, cache_op=Streaming )")),
            4 | 5 => self.add(&operand),
            6 | 7 => self.reduce(&operand),
            8 => self.matmul(&operand),
            _ => self.result(operand.axes, &format!("abs({name});")),
        }
    }

    fn add(&mut self, a: &Tensor) {
        let same = |tensor: &&Tensor| tensor.axes == a.axes;
        let all: Vec<usize> =
            self.tensors.iter().filter(same).map(|tensor| tensor.number).collect();
        let b = all[self.rng.usize(..all.len())];
        self.result(a.axes.clone(), &format!("T{}\n     + T{b};", a.number));
    }

    fn reduce(&mut self, a: &Tensor) {
        if a.axes.len() < 2 {
            return self.add(a);
        }
        let mut axes = a.axes.clone();
        let at = self.rng.usize(..axes.len());
        axes[at].reduced = true;
        let op = format!(
            "reduction( T{}, op = add, initial value = float(0), allreduce = false )",
            a.number
        );
        self.result(axes, &op);
    }

    fn matmul(&mut self, a: &Tensor) {
        let Some((&k, rest)) = a.axes.split_last().filter(|(_, rest)| !rest.is_empty()) else {
            return self.add(a);
        };
        let n = self.any_axis();
        let b = self.input(vec![k, n]);
        let mut axes = rest.to_vec();
        axes.extend([n, Axis { reduced: true, ..k }]);
        self.result(axes, &format!("matmul(T{},\n              T{})", a.number, b.number));
    }
}
