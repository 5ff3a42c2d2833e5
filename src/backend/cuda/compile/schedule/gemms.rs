//! Matrix products: calls of cuBLASLt, with kernels of ours around them where they are needed.

use crate::codegen;
use crate::gemm_lowering;
use crate::gemm_lowering::fp8;
use crate::operand::SymbolicAddress;
use crate::schedule::{Builder, StreamCommand};
use crate::unsupported::Unsupported;
use hostir::plan::{BufferView, GemmInst};

impl Builder<'_> {
    /// A product by the library if it takes it, else by a kernel of ours.
    pub(super) fn schedule_gemm(&mut self, gemm: &GemmInst, stream: usize) -> Result<(), Unsupported> {
        if gemm.a.dtype.is_fp8_factor() && gemm.b.dtype.is_fp8_factor() {
            return match fp8::expand_gemm(gemm, self.settings.fp8) {
                Some(expanded) => self.schedule_expanded(expanded, stream),
                None => self.schedule_job(codegen::generate_gemm(gemm)?, stream),
            };
        }
        let Some(products) = gemm_lowering::gemm_calls(gemm, self.settings.tf32) else {
            return self.schedule_job(codegen::generate_gemm(gemm)?, stream);
        };
        products.into_iter().for_each(|product| self.push_gemm_call(product, &SymbolicAddress::View, stream));
        Ok(())
    }

    fn schedule_expanded(&mut self, mut all: fp8::ExpandedGemm, stream: usize) -> Result<(), Unsupported> {
        self.schedule.scratch[stream] = self.schedule.scratch[stream].max(all.scratch);
        for job in std::mem::take(&mut all.before) {
            self.schedule_job(all.bind_scratch(job), stream)?;
        }
        for product in std::mem::take(&mut all.products) {
            self.push_gemm_call(product, &|view| all.resolve_operand(view), stream);
        }
        match all.after.take() {
            Some(job) => self.schedule_job(all.bind_scratch(job), stream),
            None => Ok(()),
        }
    }

    fn push_gemm_call(
        &mut self,
        product: gemm_lowering::GemmCall,
        place: &dyn Fn(BufferView) -> SymbolicAddress,
        stream: usize,
    ) {
        let known = self.schedule.shapes.iter().position(|shape| *shape == product.shape);
        let shape = known.unwrap_or_else(|| {
            self.schedule.shapes.push(product.shape);
            self.schedule.shapes.len() - 1
        });
        let operands = product.operands.map(|view| view.map(place));
        self.push(StreamCommand::Product { shape, operands: Box::new(operands) }, stream);
    }
}
