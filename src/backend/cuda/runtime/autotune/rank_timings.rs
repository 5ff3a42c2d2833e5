//! A rank's products: which of the library's algorithms is the fastest.
#![allow(unsafe_code, reason = "only the rank knows that its addresses are right")]

use crate::runtime::rank::RankRuntime;
use crate::sys::Error;
use hostir_gpu::gemm_shape::GemmShape;

/// The number of timed runs of each algorithm.
const TRIALS: usize = 3;

impl RankRuntime<'_> {
    /// Each product, and how many algorithms there are for it.
    pub(crate) fn gemm_candidates(&self) -> impl Iterator<Item = (&GemmShape, usize)> {
        self.commands.schedule.shapes.iter().zip(self.kernels.products.iter().map(|product| product.algorithm_count()))
    }

    /// Times the algorithms of a product; the fastest.
    pub(crate) fn fastest_algorithm(&mut self, product: usize) -> Result<usize, Error> {
        let mut best = (f64::INFINITY, 0);
        for choice in 0..self.kernels.products[product].algorithm_count() {
            self.kernels.products[product].chosen = choice;
            let least = self.time_gemm(product)?;
            if least < best.0 {
                best = (least, choice);
            }
        }
        Ok(best.1)
    }

    /// Milliseconds of a product with the chosen algorithm, the least of several trials behind one that
    /// may have to load it.
    fn time_gemm(&self, product: usize) -> Result<f64, Error> {
        let mut least = f64::INFINITY;
        let Some(operands) = self.commands.first_operands(product) else { return Ok(least) };
        let (stream, timers) = (self.streams.main(), &self.streams.timers);
        for _ in 0..=TRIALS {
            stream.record(&timers[0])?;
            // SAFETY: the rank's promise: nothing else is under way before the first run.
            unsafe { self.kernels.run_gemm(product, &operands, stream) }?;
            stream.record(&timers[1])?;
            stream.synchronize()?;
            least = least.min(timers[1].elapsed_since(&timers[0])?);
        }
        Ok(least)
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
                // SAFETY: as in `time_gemm`.
                unsafe { self.kernels.run_gemm(number, &operands, stream) }?;
            }
        }
        stream.synchronize()
    }
}
