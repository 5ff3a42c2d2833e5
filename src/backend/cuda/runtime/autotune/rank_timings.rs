//! A rank's products: which of the library's algorithms is the fastest.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use super::trial_operands::TrialOperands;
use crate::runtime::rank::RankRuntime;
use crate::sys::Error;
use crate::sys::blas::GemmOperands;
use hostir_gpu::gemm_shape::GemmShape;

/// The number of timed runs of each algorithm.
const TRIALS: usize = 3;

impl RankRuntime<'_> {
    /// Each product, and how many algorithms there are for it.
    pub(crate) fn gemm_candidates(&self) -> impl Iterator<Item = (&GemmShape, usize)> {
        self.commands.schedule.shapes.iter().zip(self.kernels.products.iter().map(|product| product.algorithm_count()))
    }

    /// Times the algorithms of a product in turn, on random operands; the fastest. Where there is no memory for these, the
    /// library's first proposal, which is seldom far from it.
    pub(crate) fn fastest_algorithm(&mut self, product: usize) -> Result<usize, Error> {
        let Some(actual) = self.commands.first_operands(product) else { return Ok(0) };
        let shape = &self.commands.schedule.shapes[product];
        let (pool, stream) = (&self.memory.pool, self.streams.main());
        let Some(trial) = TrialOperands::new(shape, &actual, &self.device, pool, stream)? else { return Ok(0) };
        let mut least = vec![f64::INFINITY; self.kernels.products[product].algorithm_count()];
        // The first of them may have to load the algorithm.
        for _ in 0..=TRIALS {
            for (choice, least) in least.iter_mut().enumerate() {
                self.kernels.products[product].chosen = choice;
                *least = least.min(self.time_gemm(product, &trial.operands)?);
            }
        }
        let fastest = least.iter().enumerate().min_by(|(_, one), (_, other)| one.total_cmp(other));
        Ok(fastest.map_or(0, |(choice, _)| choice))
    }

    /// Milliseconds of a product with the chosen algorithm.
    fn time_gemm(&self, product: usize, operands: &GemmOperands) -> Result<f64, Error> {
        let (stream, timers) = (self.streams.main(), &self.streams.timers);
        stream.record(&timers[0])?;
        // SAFETY: the rank's promise: nothing else is under way before the first run; the operands were made for this shape.
        unsafe { self.kernels.run_gemm(product, operands, stream) }?;
        stream.record(&timers[1])?;
        stream.synchronize()?;
        timers[1].elapsed_since(&timers[0])
    }

    /// Takes these algorithms, and carries out each product once: the library loads an algorithm when it
    /// is first used, which must not happen beside communications of the run.
    pub(crate) fn apply_algorithms(&mut self, choices: &[usize]) -> Result<(), Error> {
        for (product, choice) in self.kernels.products.iter_mut().zip(choices) {
            product.chosen = (*choice).min(product.algorithm_count() - 1);
        }
        if self.kernels.products.is_empty() {
            return Ok(());
        }
        let stream = self.streams.main();
        for number in 0..self.kernels.products.len() {
            if let Some(operands) = self.commands.first_operands(number) {
                // SAFETY: the rank's promise, as in `time_gemm`.
                unsafe { self.kernels.run_gemm(number, &operands, stream) }?;
            }
        }
        stream.synchronize()
    }
}
