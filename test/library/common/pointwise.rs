//! The table of expected results of pointwise functions, `test/library/pointwise/table.txt`; `make.py` beside it makes it
//! and says what its lines mean. `integers.txt` has the same for 8 and 16 bits and for integers without a sign.
#![allow(dead_code, clippy::panic, clippy::unwrap_used, reason = "each test uses a part; failures panic")]

use hostir::data::HostTensor;
use hostir::ir::DType;

/// Operands and what expressions of them give.
pub(crate) struct Group {
    /// `float-2`
    pub(crate) name: String,
    /// The operands.
    pub(crate) operands: Vec<HostTensor>,
    /// The expressions.
    pub(crate) rows: Vec<Row>,
}

/// The result of an expression.
pub(crate) struct Row {
    /// `{0}+{1}`
    pub(crate) text: String,
    /// Type of the result.
    pub(crate) dtype: DType,
    /// The units of the last place that a result of the CPU may be off.
    pub(crate) ulps: u64,
    /// The elements.
    pub(crate) expected: Vec<Expected>,
}

/// The demand on an element.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// These bits.
    Bits(u64),
    /// Not a number.
    Nan,
    /// Zero of either sign.
    Zero,
    /// Anything.
    Any,
}

/// The whole table.
pub(crate) fn groups() -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let lines = [include_str!("../pointwise/table.txt"), include_str!("../pointwise/integers.txt")];
    let lines = lines.into_iter().flat_map(str::lines);
    for line in lines.filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["in", name, _, dtype, bits @ ..] = words.as_slice() {
            let dtype = DType::parse(dtype).unwrap();
            let operand = tensor(dtype, bits);
            match groups.iter_mut().find(|group| group.name == *name) {
                Some(group) => group.operands.push(operand),
                None => groups.push(Group { name: (*name).to_owned(), operands: vec![operand], rows: Vec::new() }),
            }
            continue;
        }
        let [text, dtype, limit, name, bits @ ..] = words.as_slice() else { panic!("{line}") };
        let group = groups.iter_mut().find(|group| group.name == *name).unwrap();
        let ulps = limit.split('/').next().unwrap().parse().unwrap_or(0);
        let dtype = DType::parse(dtype).unwrap();
        let expected = bits.iter().map(|word| expected(word)).collect();
        group.rows.push(Row { text: (*text).to_owned(), dtype, ulps, expected });
    }
    groups
}

fn expected(word: &str) -> Expected {
    match word {
        "nan" => Expected::Nan,
        "zero" => Expected::Zero,
        "*" => Expected::Any,
        bits => Expected::Bits(u64::from_str_radix(bits, 16).unwrap()),
    }
}

fn tensor(dtype: DType, words: &[&str]) -> HostTensor {
    let nan: u64 = match dtype {
        DType::Double => 0x7ff8 << 48,
        DType::Float => 0x7fc0 << 16,
        DType::Half => 0x7e00,
        DType::BFloat16 => 0x7fc0,
        DType::Float8E8M0 => 0xff,
        _ => 0x7f,
    };
    let mut bytes = Vec::new();
    for word in words {
        let bits = if *word == "nan" { nan } else { u64::from_str_radix(word, 16).unwrap() };
        bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.byte_size()]);
    }
    HostTensor::from_bytes(dtype, &[words.len()], &bytes).unwrap()
}

impl Group {
    /// A program whose outputs are the rows.
    pub(crate) fn program(&self) -> String {
        let count = self.operands[0].len();
        let tensor = |number: usize, dtype: DType| format!("T{number}_g_{}[iS{number}{{{count}}}]", dtype.name());
        let first = self.operands.len();
        let inputs: Vec<String> =
            self.operands.iter().enumerate().map(|(k, operand)| tensor(k, operand.dtype())).collect();
        let outputs: Vec<String> = self.rows.iter().zip(first..).map(|(row, k)| tensor(k, row.dtype)).collect();
        let (inputs, outputs) = (inputs.join(", "), outputs.join(", "));
        let mut text = format!("%HostIrContainer {{ ({inputs}) -> ({outputs}) :\n");
        for (row, number) in self.rows.iter().zip(first..) {
            let mut right = row.text.clone();
            for place in 0..first {
                right = right.replace(&format!("{{{place}}}"), &format!("T{place}"));
            }
            text += &format!("  T{number}\n     = {right};\n");
        }
        text + "} // %HostIrContainer\n"
    }
}

impl Row {
    /// The elements that differ from what is expected, in words.
    pub(crate) fn differences(&self, group: &Group, got: &HostTensor) -> Vec<String> {
        let size = self.dtype.byte_size();
        let elements = got.bytes().chunks_exact(size).zip(&self.expected).enumerate();
        let wrong = elements.filter_map(|(index, (bytes, expected))| {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(bytes);
            let bits = u64::from_le_bytes(wide);
            if self.fits(*expected, bits, got.get_f64(index)) {
                return None;
            }
            let operands: Vec<f64> = group.operands.iter().map(|operand| operand.get_f64(index)).collect();
            let (name, text, value) = (&group.name, &self.text, got.get_f64(index));
            Some(format!("{name} {text} of {operands:?}: {value:e} ({bits:x}), not {expected:x?}"))
        });
        wrong.collect()
    }

    fn fits(&self, expected: Expected, bits: u64, value: f64) -> bool {
        match expected {
            Expected::Any => true,
            Expected::Nan => value.is_nan(),
            Expected::Zero => value == 0.0,
            Expected::Bits(wanted) if self.ulps == 0 => bits == wanted,
            Expected::Bits(wanted) => {
                !value.is_nan() && self.place(bits).abs_diff(self.place(wanted)) <= self.ulps.into()
            }
        }
    }

    /// The place of a float among all of its type, from the smallest to the largest; zeros have one.
    fn place(&self, bits: u64) -> i128 {
        let sign = 1u64 << (8 * self.dtype.byte_size() - 1);
        let magnitude = i128::from(bits & (sign - 1));
        if bits & sign == 0 { magnitude } else { -magnitude }
    }
}
