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
    /// The program of which `text` is the plain math, where it is another one.
    pub(crate) lowers: Option<String>,
    /// Whether extents have names that only ops tie to those of the inputs.
    pub(crate) own_names: bool,
    /// Name and extent of the mesh, if it has one axis.
    pub(crate) mesh: Option<(String, usize)>,
}

/// An axis of a tensor.
#[derive(Clone, Copy, PartialEq)]
struct Axis {
    /// Its number among the extents, and after them the products; `None` is a broadcast.
    extent: Option<usize>,
    reduced: bool,
}

/// A tensor that ops can read.
#[derive(Clone)]
struct Tensor {
    number: usize,
    axes: Vec<Axis>,
}

/// Device types from the inside of a mesh.
const DEVICES: [&str; 2] = ["deviceIdx.x", "deviceIdx.y"];

struct Generator<'r> {
    rng: &'r mut Rng,
    /// The mesh of most tensors, from device 0 on, and another one of its shape.
    meshes: [String; 2],
    /// Value of each extent; the last ones are the mesh's: `deviceIdx.y` if it has two axes, `deviceIdx.x`.
    extents: Vec<usize>,
    /// Pairs of extents: axes that views make of two, or split into them.
    products: Vec<[usize; 2]>,
    /// The number of extents that are the mesh's.
    mesh_axes: usize,
    symbolic: bool,
    /// Where extents are names: whether each axis of a result has one of its own, which only the ops tie to
    /// the others.
    own_names: bool,
    next_name: usize,
    tensors: Vec<Tensor>,
    inputs: Vec<String>,
    body: String,
    next_tensor: usize,
    next_domain: usize,
    /// The axes that those of the next tensor come from, if their numbers are to say so.
    order: Option<Vec<usize>>,
    /// The last result in full.
    last: String,
    /// Whether an op has used the scalar input.
    scaled: bool,
}

/// The scalar input and its value, which every factor of `chunk` divides.
const SCALAR: (&str, i64) = ("d0", 6);

/// One program: up to six ops on up to six devices.
pub(crate) fn program(rng: &mut Rng) -> Generated {
    let shape = match rng.usize(..4) {
        0 => vec![rng.usize(1..=3), 2],
        _ => vec![rng.usize(1..=5)],
    };
    let mut extents: Vec<usize> = (0..3).map(|_| rng.usize(1..=4)).collect();
    extents.extend(&shape);
    let symbolic = rng.bool();
    let own_names = symbolic && rng.bool();
    let (first, step) = [(1, 1), (0, 2), (2, 1), (shape.iter().product::<usize>() - 1, 0)][rng.usize(..4)];
    let meshes = [mesh(&shape, 0, 1), mesh(&shape, first, step)];
    let generator = Generator {
        rng,
        meshes,
        extents,
        products: Vec::new(),
        mesh_axes: shape.len(),
        symbolic,
        own_names,
        next_name: 0,
        tensors: Vec::new(),
        inputs: Vec::new(),
        body: String::new(),
        next_tensor: 0,
        next_domain: 0,
        order: None,
        last: String::new(),
        scaled: false,
    };
    generator.run()
}

/// `{0 1 2}` or `{{0 1}{2 3}}`, from device `first` on, each `step` after the one before; downwards if
/// `step` is 0.
fn mesh(shape: &[usize], first: usize, step: usize) -> String {
    let device = |k: usize| if step == 0 { first - k } else { first + k * step };
    let row = |from: usize, length: usize| {
        let devices: Vec<String> = (from..from + length).map(|k| device(k).to_string()).collect();
        format!("{{{}}}", devices.join(" "))
    };
    match *shape {
        [rows, columns] => {
            let rows: String = (0..rows).map(|k| row(k * columns, columns)).collect();
            format!("{{{rows}}}")
        }
        _ => row(0, shape[0]),
    }
}

impl Generator<'_> {
    fn run(mut self) -> Generated {
        let most = if self.rng.usize(..8) == 0 { 5 } else { 3 };
        let rank = self.rng.usize(1..=most);
        let mut axes: Vec<Axis> = (0..rank).map(|_| self.any_axis()).collect();
        if self.rng.usize(..5) == 0 {
            let pair = [self.any_axis(), self.any_axis()];
            let at = self.rng.usize(..axes.len());
            axes[at] = self.product(pair[0], pair[1]).unwrap_or(axes[at]);
        }
        self.input(axes);
        for _ in 0..self.rng.usize(1..=6) {
            self.op();
        }
        if self.scaled {
            self.inputs.push(SCALAR.0.to_owned());
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
            // Alone or in a product.
            set.retain(|name, _| text.contains(&format!("{{{name}}}")) || text.contains(&format!(" {name} ")));
        }
        set.extend(self.scaled.then(|| (SCALAR.0.to_owned(), SCALAR.1)));
        let last = self.extents.len() - 1;
        let mesh = (self.mesh_axes == 1).then(|| (format!("i{last}"), self.extents[last]));
        Generated { text, set, lowers: None, own_names: self.own_names, mesh }
    }

    fn any_axis(&mut self) -> Axis {
        // The mesh's extents are the interesting ones.
        let first = if self.rng.bool() { self.extents.len() - self.mesh_axes } else { 0 };
        let extent = self.rng.usize(first..self.extents.len());
        Axis { extent: Some(extent), reduced: false }
    }

    fn extent(&self, axis: Axis) -> String {
        match axis.extent {
            None => "1".to_owned(),
            Some(extent) if extent >= self.extents.len() => {
                let [a, b] = self.products[extent - self.extents.len()];
                match self.symbolic {
                    true => format!("( i{a} * i{b} )"),
                    false => (self.extents[a] * self.extents[b]).to_string(),
                }
            }
            Some(extent) if self.symbolic => format!("i{extent}"),
            Some(extent) => self.extents[extent].to_string(),
        }
    }

    /// An axis as long as two together.
    fn product(&mut self, a: Axis, b: Axis) -> Option<Axis> {
        let pair = [a.extent?, b.extent?];
        if pair.iter().any(|&extent| extent >= self.extents.len()) {
            return None;
        }
        let at = self.products.iter().position(|known| *known == pair);
        let at = at.unwrap_or_else(|| {
            self.products.push(pair);
            self.products.len() - 1
        });
        Some(Axis { extent: Some(self.extents.len() + at), reduced: false })
    }

    /// The full text of a new tensor, randomly spread over devices and streams. `named`: its extents may have
    /// names of their own.
    fn declare(&mut self, axes: Vec<Axis>, streams: bool, named: bool) -> (Tensor, String) {
        let types: Vec<(usize, &str)> = (0..self.mesh_axes).map(|k| (self.extents.len() - 1 - k, DEVICES[k])).collect();
        let mut places: Vec<(usize, &str)> = Vec::new();
        for (extent, device) in types {
            let free = |axis: &Axis| axis.extent == Some(extent) && !axis.reduced;
            places.extend(self.pick(&axes, 5, free).map(|k| (k, device)));
        }
        let spread = |axis: &Axis| !axis.reduced && axis.extent.is_some();
        let streamed = if streams { self.pick(&axes, 6, spread) } else { None };
        let parallel: Vec<&str> = (0..axes.len())
            .map(|k| match places.iter().find(|(place, _)| *place == k) {
                Some((_, device)) => device,
                None if streamed == Some(k) => "StreamIdx",
                None => "S",
            })
            .collect();
        let mesh = usize::from(self.rng.usize(..12) == 0);
        self.spell(axes, &parallel, mesh, named)
    }

    /// The full text of a new tensor that is spread as told.
    fn spell(&mut self, axes: Vec<Axis>, parallel: &[&str], mesh: usize, named: bool) -> (Tensor, String) {
        let number = self.next_tensor;
        self.next_tensor += 1;
        let mut parts = Vec::new();
        for (k, (&axis, parallel)) in axes.iter().zip(parallel).enumerate() {
            let letter = match axis {
                Axis { reduced: true, .. } => "r",
                Axis { extent: None, .. } => "b",
                _ => "i",
            };
            let place = self.order.as_ref().map_or(k, |order| order[k]);
            let domain = self.next_domain + place;
            let extent = match axis.extent {
                Some(extent) if self.own_names && named && extent < self.extents.len() => {
                    self.next_name += 1;
                    format!("i{}", 100 + self.next_name)
                }
                _ => self.extent(axis),
            };
            parts.push(format!("{letter}{parallel}{domain}{{{extent}}}"));
        }
        self.next_domain += axes.len();
        let mesh = &self.meshes[mesh];
        let text = format!("T{number}_g_float[{}] (DeviceMesh{mesh})", parts.join(", "));
        let stored = axes.into_iter().filter(|axis| !axis.reduced).collect();
        (Tensor { number, axes: stored }, text)
    }

    /// One of the axes that fit, in `chance` of ten cases.
    fn pick(&mut self, axes: &[Axis], chance: usize, fits: impl Fn(&Axis) -> bool) -> Option<usize> {
        let places: Vec<usize> = (0..axes.len()).filter(|&k| fits(&axes[k])).collect();
        if places.is_empty() || self.rng.usize(..10) >= chance {
            return None;
        }
        Some(places[self.rng.usize(..places.len())])
    }

    fn input(&mut self, axes: Vec<Axis>) -> Tensor {
        let (tensor, text) = self.declare(axes, false, false);
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
        let (tensor, text) = self.declare(axes, true, true);
        self.write(tensor, text, op);
    }

    /// A result that is spread as told.
    fn result_as(&mut self, axes: Vec<Axis>, parallel: &[&str], op: &str) -> Tensor {
        let (tensor, text) = self.spell(axes, parallel, 0, true);
        self.write(tensor.clone(), text, op);
        tensor
    }

    fn write(&mut self, tensor: Tensor, text: String, op: &str) {
        let _ = writeln!(self.body, "  {text}\n     = {op}");
        self.last = text;
        self.tensors.push(tensor);
    }

    fn op(&mut self) {
        let operand = self.any();
        let name = format!("T{}", operand.number);
        match self.rng.usize(..17) {
            16 if !self.scaled => self.scale(&operand),
            0..=3 => self.result(operand.axes, &format!("Set( {name}, cache_op=Streaming )")),
            4 | 5 => self.add(&operand),
            6 | 7 => self.reduce(&operand),
            8 => self.matmul(&operand),
            9 => self.broadcast(&operand),
            13 => self.permute(&operand),
            14 | 15 => self.view(&operand),
            10 | 11 if self.mesh_axes == 1 => self.scattered_product(),
            _ => self.result(operand.axes, &format!("abs({name});")),
        }
    }

    /// With the scalar input, as an op of the host's or of a HostUnit's. Once only: values stay small.
    fn scale(&mut self, a: &Tensor) {
        self.scaled = true;
        let (number, scalar) = (a.number, SCALAR.0);
        let op = match self.rng.bool() {
            true => format!("T{number}\n     * {scalar};"),
            false => format!("fmin(T{number}\n  , {scalar});"),
        };
        self.result(a.axes.clone(), &op);
    }

    fn add(&mut self, a: &Tensor) {
        let same = |tensor: &&Tensor| tensor.axes == a.axes;
        let all: Vec<usize> = self.tensors.iter().filter(same).map(|tensor| tensor.number).collect();
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
        let op = format!("reduction( T{}, op = add, initial value = float(0), allreduce = false )", a.number);
        self.result(axes, &op);
    }

    fn broadcast(&mut self, a: &Tensor) {
        let at = self.rng.usize(..=a.axes.len());
        let mut axes = a.axes.clone();
        axes.insert(at, Axis { extent: None, reduced: false });
        let flags: Vec<&str> = (0..axes.len()).map(|k| if k == at { "true" } else { "false" }).collect();
        let op = format!("broadcast( T{}, flags = {{{}}} )", a.number, flags.join(", "));
        self.result(axes, &op);
    }

    /// With `perm=`, or with numbers that say where the axes come from.
    fn permute(&mut self, a: &Tensor) {
        let mut order: Vec<usize> = (0..a.axes.len()).collect();
        self.rng.shuffle(&mut order);
        let axes = order.iter().map(|&k| a.axes[k]).collect();
        let op = format!("Set.Permute( T{}, cache_op=Streaming", a.number);
        if self.rng.bool() {
            let perm: Vec<String> = order.iter().map(ToString::to_string).collect();
            return self.result(axes, &format!("{op}, perm={{{}}} )", perm.join(", ")));
        }
        self.order = Some(order);
        self.result(axes, &format!("{op} )"));
        self.order = None;
    }

    /// Splits an axis that is a product into its factors, in either order, or merges two neighbours.
    fn view(&mut self, a: &Tensor) {
        let mut axes = a.axes.clone();
        let op = format!("view( T{} )", a.number);
        let first = self.extents.len();
        let splits: Vec<usize> = (0..axes.len()).filter(|&k| axes[k].extent.is_some_and(|e| e >= first)).collect();
        if !splits.is_empty() && self.rng.usize(..4) > 0 {
            let at = splits[self.rng.usize(..splits.len())];
            let [a, b] = self.products[axes[at].extent.unwrap_or(first) - first];
            let parts = if self.rng.usize(..4) == 0 { [b, a] } else { [a, b] };
            axes.splice(at..=at, parts.map(|part| Axis { extent: Some(part), reduced: false }));
            return self.viewed(axes, &op);
        }
        let at = self.rng.usize(..axes.len());
        match axes.get(at + 1).copied().and_then(|next| self.product(axes[at], next)) {
            Some(merged) => {
                axes.splice(at..at + 2, [merged]);
                self.viewed(axes, &op);
            }
            None => self.add(a),
        }
    }

    /// A view runs in a HostUnit only, and so rarely lies on streams.
    fn viewed(&mut self, axes: Vec<Axis>, op: &str) {
        let streams = self.rng.usize(..6) == 0;
        let (tensor, text) = self.declare(axes, streams, false);
        self.write(tensor, text, op);
    }

    fn matmul(&mut self, a: &Tensor) {
        let Some((&k, rest)) = a.axes.split_last().filter(|(_, rest)| !rest.is_empty()) else {
            return self.add(a);
        };
        let n = self.any_axis();
        let mut axes = rest.to_vec();
        let mut right = vec![k, n];
        if self.rng.usize(..4) == 0 {
            // A matrix for each batch, of which there may be more than the left side has.
            let batch = if rest.len() > 1 { rest[rest.len() - 2] } else { self.any_axis() };
            right.insert(0, batch);
            if rest.len() == 1 {
                axes.insert(0, batch);
            }
        }
        let b = self.input(right);
        axes.extend([n, Axis { reduced: true, ..k }]);
        self.result(axes, &format!("matmul(T{},\n              T{})", a.number, b.number));
    }

    /// Partial products that are added up and scattered, now and then with one tensor spread otherwise.
    fn scattered_product(&mut self) {
        let device = Axis { extent: Some(self.extents.len() - 1), reduced: false };
        let (rows, inner) = (self.any_axis(), self.any_axis());
        let spread = |device: &'static str, part: &'static str| vec![device, part, "S", "S", "S"];
        let streamed = if self.rng.bool() { "StreamIdx" } else { "S" };
        let a = self.input_as(vec![device, device, rows, inner], &spread("deviceIdx.x", streamed));
        let one = Axis { extent: None, reduced: false };
        let b = self.input_as(vec![device, one, inner, rows], &spread("deviceIdx.x", "S"));
        let mut axes = vec![device, device, rows, rows, Axis { reduced: true, ..inner }];
        let mut parallel = spread("deviceIdx.x", "StreamIdx");
        if self.rng.usize(..6) == 0 {
            parallel = spread("S", "StreamIdx");
        }
        let op = format!("matmul(T{},\n              T{})", a.number, b.number);
        let mut partial = self.result_as(axes.clone(), &parallel, &op);
        axes.pop();
        let mut left = "StreamIdx";
        if self.rng.bool() {
            let op = format!("Set( T{}, cache_op=Streaming )", partial.number);
            partial = self.result_as(axes.clone(), &spread("StreamIdx", "deviceIdx.x"), &op);
            left = "S";
        }
        axes[0].reduced = true;
        let kept = if self.rng.usize(..6) == 0 { "S" } else { "deviceIdx.x" };
        let op = format!("reduction( T{}, op = add, initial value = float(0), allreduce = false )", partial.number);
        self.result_as(axes, &spread(left, kept), &op);
    }

    fn input_as(&mut self, axes: Vec<Axis>, parallel: &[&str]) -> Tensor {
        let (tensor, text) = self.spell(axes, parallel, 0, false);
        self.inputs.push(text);
        self.tensors.push(tensor.clone());
        tensor
    }
}
