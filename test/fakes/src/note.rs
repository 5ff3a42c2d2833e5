//! Reads the notes in generated kernels: `src/cuda/codegen/note.rs` of the library says how they look.

use hostir::ir::DType;
use hostir::plan::{
    AccumulateInst, BufferId, BufferView, Function, GemmInst, InstKind, KernelStep, PointwiseKernel, RedOp, ReduceInst,
    ReductionFold, ScalarValue, StepOperand, TakeInst, ViewDim,
};
use std::str::FromStr;

/// The meaning of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum KernelMeaning {
    /// Instructions of a plan, one after the other. Buffers are numbers of parameters, and from
    /// [`TEMPORARY`] on what only exists meanwhile.
    Instructions(Vec<InstKind>),
    /// The elementwise combination of several views.
    Members { op: RedOp, inputs: Vec<BufferView>, output: BufferView },
    /// Attention.
    Attention(Box<AttentionMeaning>),
}

/// Attention without a bias.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AttentionMeaning {
    /// Queries, keys, values, result and logarithms of sums.
    pub(crate) views: [BufferView; 5],
    /// True if a row sees only the keys up to its own place.
    pub(crate) is_causal: bool,
    /// The factor of the scores.
    pub(crate) scale: f64,
}

/// The buffer of a view without a parameter.
pub(crate) const TEMPORARY: BufferId = BufferId(u32::MAX);

/// A launch of a job.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LaunchPart {
    /// Its number.
    pub(crate) number: usize,
    /// Of how many.
    pub(crate) count: usize,
    /// The number of its first parameter among those of all.
    pub(crate) first: usize,
    /// The meaning of all of them together.
    pub(crate) meaning: KernelMeaning,
}

/// Reads the note of a kernel's text.
pub(crate) fn read(text: &str) -> Result<LaunchPart, String> {
    let line = text.lines().next().and_then(|line| line.strip_prefix("// hostir: "));
    let Some(line) = line else { return Err("a kernel without a note".to_owned()) };
    let mut words = NoteWords { rest: line };
    let (number, count, first) = (words.number()?, words.number()?, words.number()?);
    let meaning = words.meaning()?;
    match words.rest {
        "" => Ok(LaunchPart { number, count, first, meaning }),
        rest => Err(format!("`{rest}` is left of the note `{line}`")),
    }
}

struct NoteWords<'t> {
    rest: &'t str,
}

impl<'t> NoteWords<'t> {
    fn next(&mut self) -> &'t str {
        let (word, rest) = self.rest.split_once(' ').unwrap_or((self.rest, ""));
        self.rest = rest;
        word
    }

    fn number<T: FromStr>(&mut self) -> Result<T, String> {
        let word = self.next();
        word.parse().map_err(|_| format!("`{word}` is not a number"))
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let count: usize = self.number()?;
        (0..count).map(|_| one(self)).collect()
    }

    fn meaning(&mut self) -> Result<KernelMeaning, String> {
        let one = match self.next() {
            "copy" => InstKind::Copy { src: Box::new(self.view()?), dst: Box::new(self.view()?) },
            "fill" => {
                let dst = self.view()?;
                let value = self.constant()?.ok_or("a fill without a value")?;
                InstKind::Fill { dst: Box::new(dst), value }
            }
            "kernel" => InstKind::Kernel(Box::new(self.kernel()?)),
            "fold" => {
                let (op, axes) = self.fold()?;
                InstKind::Reduce(Box::new(ReduceInst {
                    op,
                    axes: axes.into(),
                    input: self.view()?,
                    output: self.view()?,
                }))
            }
            "fold-kernel" => return self.fold_kernel(),
            "gemm" => InstKind::Gemm(Box::new(self.gemm()?)),
            "take" => {
                let (input, index) = (self.view()?, self.view()?);
                let (axis, output) = (self.number()?, self.view()?);
                InstKind::Take(Box::new(TakeInst { input, index, axis, output }))
            }
            "accumulate" => {
                let (base, index) = (self.view()?, self.view()?);
                let (value, output) = (self.view()?, self.view()?);
                let (axis, combine) = (self.number()?, self.combination()?);
                InstKind::Accumulate(Box::new(AccumulateInst { base, index, value, axis, combine, output }))
            }
            "members" => {
                let op = self.operation()?;
                let (inputs, output) = (self.list(Self::view)?, self.view()?);
                return Ok(KernelMeaning::Members { op, inputs, output });
            }
            "attention" => return self.attention(),
            other => return Err(format!("a note of the unknown form `{other}`")),
        };
        Ok(KernelMeaning::Instructions(vec![one]))
    }

    fn attention(&mut self) -> Result<KernelMeaning, String> {
        let views = [self.view()?, self.view()?, self.view()?, self.view()?, self.view()?];
        let is_causal = self.next() == "1";
        let scale = self.constant()?.ok_or("attention without a scale")?.as_f64();
        Ok(KernelMeaning::Attention(Box::new(AttentionMeaning { views, is_causal, scale })))
    }

    fn view(&mut self) -> Result<BufferView, String> {
        let buffer = match self.next() {
            "-" => TEMPORARY,
            word => BufferId(word.parse().map_err(|_| format!("`{word}` is no parameter"))?),
        };
        let dtype = self.dtype()?;
        let dims = self.list(|own| Ok(ViewDim { extent: own.number()?, stride: own.number()? }))?;
        Ok(BufferView { buffer, offset: 0, dims: dims.into(), dtype })
    }

    fn dtype(&mut self) -> Result<DType, String> {
        let word = self.next();
        DType::parse(word).ok_or_else(|| format!("`{word}` is no type"))
    }

    fn combination(&mut self) -> Result<Option<RedOp>, String> {
        let mut rest = NoteWords { rest: self.rest };
        if rest.next() == "-" {
            self.next();
            return Ok(None);
        }
        self.operation().map(Some)
    }

    fn operation(&mut self) -> Result<RedOp, String> {
        let word = self.next();
        RedOp::parse(word).ok_or_else(|| format!("`{word}` is no reduction"))
    }

    fn constant(&mut self) -> Result<Option<ScalarValue>, String> {
        Ok(match self.next() {
            "-" => None,
            "i" => Some(ScalarValue::Int(self.number()?)),
            "f" => Some(ScalarValue::Float(self.double()?)),
            "c" => Some(ScalarValue::Complex(self.double()?, self.double()?)),
            "u" => Some(ScalarValue::Unsigned(self.number()?)),
            "b" => Some(ScalarValue::Bool(self.number::<u8>()? != 0)),
            other => return Err(format!("`{other}` is no constant")),
        })
    }

    fn double(&mut self) -> Result<f64, String> {
        let bits = u64::from_str_radix(self.next(), 16).map_err(|error| error.to_string())?;
        Ok(f64::from_bits(bits))
    }

    fn fold(&mut self) -> Result<(ReductionFold, Vec<usize>), String> {
        let op = self.operation()?;
        let initial = self.constant()?;
        Ok((ReductionFold { op, initial }, self.list(Self::number)?))
    }

    fn kernel(&mut self) -> Result<PointwiseKernel, String> {
        let inputs = self.list(Self::view)?.into();
        let output = self.view()?;
        Ok(PointwiseKernel { inputs, output, steps: self.list(Self::step)? })
    }

    fn step(&mut self) -> Result<KernelStep, String> {
        let word = self.next();
        let known = Function::ALL.iter().find(|function| format!("{function:?}") == word);
        let function = *known.ok_or_else(|| format!("`{word}` is no function"))?;
        let (compute, result) = (self.dtype()?, self.dtype()?);
        let args = self.list(|own| {
            Ok(match own.next() {
                "in" => StepOperand::Input(own.number()?),
                "step" => StepOperand::Step(own.number()?),
                "index" => StepOperand::Index(own.number()?),
                "const" => StepOperand::Const(own.constant()?.ok_or("a step without a constant")?),
                other => return Err(format!("`{other}` is no operand")),
            })
        })?;
        Ok(KernelStep { function, args: args.into(), compute, result })
    }

    /// A kernel into memory of its own, which is then reduced.
    fn fold_kernel(&mut self) -> Result<KernelMeaning, String> {
        let mut kernel = self.kernel()?;
        let dims = hostir::plan::row_major(&kernel.output.shape());
        let between = BufferView { buffer: TEMPORARY, offset: 0, dims, dtype: kernel.output.dtype };
        kernel.output = between.clone();
        let (op, axes) = self.fold()?;
        let output = self.view()?;
        let fold = InstKind::Reduce(Box::new(ReduceInst { op, axes: axes.into(), input: between, output }));
        Ok(KernelMeaning::Instructions(vec![InstKind::Kernel(Box::new(kernel)), fold]))
    }

    fn gemm(&mut self) -> Result<GemmInst, String> {
        let (a, b) = (self.view()?, self.view()?);
        let bias = self.list(Self::view)?.pop();
        let scales = <[BufferView; 2]>::try_from(self.list(Self::view)?).ok().map(Box::new);
        Ok(GemmInst { a, b, bias, scales, out: self.view()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostir::plan::row_major;
    use hostir_gpu::codegen::{self, KernelJob};

    fn view(buffer: u32, shape: &[usize], dtype: DType) -> BufferView {
        BufferView { buffer: BufferId(buffer), offset: 3, dims: row_major(shape), dtype }
    }

    /// The meaning of a job's note.
    fn meaning_of(job: Result<KernelJob, hostir_gpu::unsupported::Unsupported>) -> KernelMeaning {
        let note = job.unwrap().note;
        read(&format!("// hostir: 0 1 0 {note}\nextern")).unwrap().meaning
    }

    /// Views as a note has them: by parameters, which start at the first element.
    fn placed(param: u32, view: &BufferView) -> BufferView {
        BufferView { buffer: BufferId(param), offset: 0, ..view.clone() }
    }

    #[test]
    fn notes_of_kernels_are_read() {
        let (a, b) = (view(7, &[4, 6], DType::Half), view(9, &[4, 6], DType::Float));
        let step = |function, args: &[StepOperand], result| KernelStep {
            function,
            args: args.to_vec().into(),
            compute: DType::Float,
            result,
        };
        let steps = vec![
            step(Function::Add, &[StepOperand::Input(0), StepOperand::Const(ScalarValue::Float(-0.5))], DType::Half),
            step(Function::Mul, &[StepOperand::Step(0), StepOperand::Index(1)], DType::Float),
        ];
        let kernel = PointwiseKernel { inputs: vec![a.clone()].into(), output: b.clone(), steps };
        let expected = PointwiseKernel { inputs: vec![placed(0, &a)].into(), output: placed(1, &b), ..kernel.clone() };
        let expected = InstKind::Kernel(Box::new(expected));
        let found = meaning_of(codegen::generate_pointwise(&kernel));
        assert_eq!(found, KernelMeaning::Instructions(vec![expected]));
        let sums = view(11, &[6], DType::Float);
        let found = meaning_of(codegen::generate_fused_reduction(&kernel, RedOp::Sum, &[0], &sums, 132));
        let KernelMeaning::Instructions(kinds) = found else { unreachable!("instructions") };
        let [InstKind::Kernel(first), InstKind::Reduce(fold)] = &kinds[..] else {
            unreachable!("a kernel and a reduction")
        };
        assert_eq!((&first.output, fold.axes.as_slice()), (&fold.input, &[0][..]));
    }

    #[test]
    fn notes_of_other_jobs_are_read() {
        let (a, b) = (view(1, &[4, 6], DType::Float), view(2, &[4, 6], DType::Float));
        let mut turned = a.clone();
        turned.dims.swap(0, 1);
        let (src, dst) = (turned, view(3, &[6, 4], DType::Float));
        let found = meaning_of(codegen::generate_copy(&src, &dst));
        let expected = InstKind::Copy { src: Box::new(placed(0, &src)), dst: Box::new(placed(1, &dst)) };
        assert_eq!(found, KernelMeaning::Instructions(vec![expected]));
        let found = meaning_of(codegen::generate_fill(&a, ScalarValue::Bool(true)));
        let expected = InstKind::Fill { dst: Box::new(placed(0, &a)), value: ScalarValue::Bool(true) };
        assert_eq!(found, KernelMeaning::Instructions(vec![expected]));
        let all = [a.clone(), b.clone()];
        let found = meaning_of(codegen::generate_member_fold(RedOp::Avg, &all, &view(3, &[4, 6], DType::Float)));
        let KernelMeaning::Members { op, inputs, .. } = found else { unreachable!("members") };
        assert_eq!((op, inputs), (RedOp::Avg, vec![placed(0, &a), placed(1, &b)]));
    }

    #[test]
    fn what_is_no_note_is_refused() {
        for text in ["", "extern", "// hostir: 0 1 0 dance", "// hostir: 0 1 0 fill 0 float 0 - 1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
