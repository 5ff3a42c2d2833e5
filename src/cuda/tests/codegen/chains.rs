//! Random chains of local ops, as programs.

/// One axis: extent, and whether it is a broadcast.
type Axis = (usize, bool);

/// A generator of programs.
pub(crate) struct Chains {
    seed: u64,
    /// Axes of each tensor.
    tensors: Vec<Vec<Axis>>,
    /// Printed domains of each tensor.
    domains: Vec<String>,
    /// The expression of each tensor that is no input.
    values: Vec<String>,
    numbers: usize,
}

/// Tensors that are inputs.
const INPUTS: usize = 2;

impl Chains {
    fn below(&mut self, limit: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) as usize % limit.max(1)
    }

    /// The program of a seed.
    pub(crate) fn program(seed: u64) -> String {
        let mut chains = Chains {
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            tensors: Vec::new(),
            domains: Vec::new(),
            values: Vec::new(),
            numbers: 0,
        };
        for _ in 0..INPUTS {
            chains.declare(&[(4, false), (6, false)], &[]);
        }
        for _ in 0..4 + chains.below(10) {
            chains.grow();
        }
        chains.text()
    }

    /// A new tensor; `reduced` axes are printed but not stored.
    fn declare(&mut self, axes: &[Axis], reduced: &[usize]) {
        let mut printed = Vec::new();
        for (place, (extent, broadcast)) in axes.iter().enumerate() {
            let kind = match (reduced.contains(&place), broadcast) {
                (true, _) => 'r',
                (false, true) => 'b',
                (false, false) => 'i',
            };
            printed.push(format!("{kind}S{}{{{extent}}}", self.numbers));
            self.numbers += 1;
        }
        let stored = (0..axes.len()).filter(|place| !reduced.contains(place));
        self.tensors.push(stored.map(|place| axes[place]).collect());
        self.domains.push(printed.join(", "));
    }

    fn add(&mut self, value: String, axes: &[Axis], reduced: &[usize]) {
        self.values.push(value);
        self.declare(axes, reduced);
    }

    /// Adds a statement. Recent tensors are likelier operands.
    fn grow(&mut self) {
        let recent = self.below(4).min(self.tensors.len() - 1);
        let a = self.tensors.len() - 1 - recent;
        let axes = self.tensors[a].clone();
        match self.below(9) {
            0 => {
                let function = ["sinf", "relu", "tanhf", "sigmoid"][self.below(4)];
                self.add(format!("{function}(T{a});"), &axes, &[]);
            }
            1 => self.add(format!("T{a}\n     * 2;"), &axes, &[]),
            2 | 3 => self.binary(a, &axes),
            4 if !axes.is_empty() => {
                let axis = self.below(axes.len());
                let sum = "op = add, initial value = float(0), allreduce = false";
                self.add(format!("reduction( T{a}, {sum} )"), &axes, &[axis]);
            }
            5 if axes.len() < 4 => {
                let at = self.below(axes.len() + 1);
                let flags: Vec<&str> = (0..=axes.len()).map(|i| if i == at { "true" } else { "false" }).collect();
                let mut axes = axes;
                axes.insert(at, (1, true));
                let value = format!("broadcast( T{a}, flags = {{{}}} )", flags.join(", "));
                self.add(value, &axes, &[]);
            }
            6 => self.permute(a, &axes),
            7 => self.slice(a, &axes),
            _ => self.view(a, &axes),
        }
    }

    fn binary(&mut self, a: usize, axes: &[Axis]) {
        let fits = |other: &Vec<Axis>| {
            other.len() == axes.len() && other.iter().zip(axes).all(|(x, y)| x.0 == y.0 || x.1 || y.1)
        };
        let all: Vec<usize> = (0..self.tensors.len()).filter(|&other| fits(&self.tensors[other])).collect();
        let b = all[self.below(all.len())];
        let axes: Vec<Axis> = axes.iter().zip(&self.tensors[b]).map(|(x, y)| (x.0.max(y.0), x.1 && y.1)).collect();
        let sign = ["+", "-", "*"][self.below(3)];
        self.add(format!("T{a}\n     {sign} T{b};"), &axes, &[]);
    }

    fn permute(&mut self, a: usize, axes: &[Axis]) {
        let turn = self.below(axes.len().max(1));
        self.values.push(format!("Set.Permute( T{a}, cache_op=Streaming )"));
        let first = self.numbers;
        self.declare(axes, &[]);
        let place = self.domains.len() - 1;
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.rotate_left(turn);
        let printed: Vec<String> = order
            .iter()
            .map(|&axis| {
                let (extent, broadcast) = axes[axis];
                format!("{}S{}{{{extent}}}", if broadcast { 'b' } else { 'i' }, first + axis)
            })
            .collect();
        self.domains[place] = printed.join(", ");
        self.tensors[place] = order.iter().map(|&axis| axes[axis]).collect();
    }

    fn slice(&mut self, a: usize, axes: &[Axis]) {
        let mut ranges = Vec::new();
        let mut kept = axes.to_vec();
        for (axis, &(extent, broadcast)) in axes.iter().enumerate() {
            let from = if broadcast { 0 } else { self.below(extent.min(2)) };
            kept[axis].0 = extent - from;
            ranges.push(format!("{{{from}, {extent}, 1}}"));
        }
        self.add(format!("slice( T{a}, {{ {} }} )", ranges.join(" ")), &kept, &[]);
    }

    fn view(&mut self, a: usize, axes: &[Axis]) {
        let count: usize = axes.iter().map(|axis| axis.0).product();
        let mut shape = vec![(count, false)];
        if count.is_multiple_of(2) && self.below(2) == 0 {
            shape = vec![(2, false), (count / 2, false)];
        }
        self.add(format!("view( T{a} )"), &shape, &[]);
    }

    /// The program: the last tensor and another one are outputs.
    fn text(mut self) -> String {
        let last = self.tensors.len() - 1;
        let other = INPUTS + self.below(last + 1 - INPUTS);
        let mut outputs = vec![last];
        outputs.extend((other != last).then_some(other));
        let port = |tensor: &usize| format!("T{tensor}_g_float[{}]", self.domains[*tensor]);
        let list = |tensors: &[usize]| tensors.iter().map(port).collect::<Vec<_>>().join(", ");
        let inputs: Vec<usize> = (0..INPUTS).collect();
        let mut text = format!("%HostIrContainer {{ ({}) -> ({}) :\n", list(&inputs), list(&outputs));
        for (place, value) in self.values.iter().enumerate() {
            let tensor = INPUTS + place;
            let name = match outputs.contains(&tensor) {
                true => format!("T{tensor}"),
                false => format!("T{tensor}_l_float[{}]", self.domains[tensor]),
            };
            text += &format!("  {name}\n     = {value}\n");
        }
        text + "} // %HostIrContainer\n"
    }
}
