//! Matrix products: calls of cuBLASLt, with kernels of ours around them where they are needed.

use crate::codegen;
use crate::gemm_lowering;
use crate::gemm_lowering::fp8;
use crate::operand::Place;
use crate::schedule::{Builder, Call};
use crate::unsupported::Unsupported;
use hostir::plan::{Gemm, View};

impl Builder<'_> {
    /// A product by the library if it takes it, else by a kernel of ours.
    pub(super) fn gemm(&mut self, gemm: &Gemm, stream: usize) -> Result<(), Unsupported> {
        if gemm.a.dtype.is_fp8_factor() && gemm.b.dtype.is_fp8_factor() {
            return match fp8::expand(gemm, self.settings.fp8) {
                Some(expanded) => self.expanded(expanded, stream),
                None => self.job(codegen::gemm(gemm)?, stream),
            };
        }
        let Some(products) = gemm_lowering::products(gemm, self.settings.tf32) else {
            return self.job(codegen::gemm(gemm)?, stream);
        };
        products.into_iter().for_each(|product| self.product(product, &Place::View, stream));
        Ok(())
    }

    fn expanded(&mut self, mut all: fp8::Expanded, stream: usize) -> Result<(), Unsupported> {
        self.schedule.scratch[stream] = self.schedule.scratch[stream].max(all.scratch);
        for job in std::mem::take(&mut all.before) {
            self.job(all.placed(job), stream)?;
        }
        for product in std::mem::take(&mut all.products) {
            self.product(product, &|view| all.place(view), stream);
        }
        match all.after.take() {
            Some(job) => self.job(all.placed(job), stream),
            None => Ok(()),
        }
    }

    fn product(
        &mut self,
        product: gemm_lowering::Product,
        place: &dyn Fn(View) -> Place,
        stream: usize,
    ) {
        let known = self.schedule.shapes.iter().position(|shape| *shape == product.shape);
        let shape = known.unwrap_or_else(|| {
            self.schedule.shapes.push(product.shape);
            self.schedule.shapes.len() - 1
        });
        let operands = product.operands.map(|view| view.map(place));
        self.push(Call::Product { shape, operands: Box::new(operands) }, stream);
    }
}
