//! Attention: the CPU backend runs a program of one `sdpa`.

use crate::elements::{gathered_bytes, scattered_bytes};
use crate::note::AttentionMeaning;
use hostir::backend::cpu;
use hostir::data::HostTensor;
use hostir::diag::Diag;
use hostir::ir::DType;
use hostir::lower::{SizeSettings, prepare_program};
use hostir::plan::BufferView;

/// Carries out attention on the bytes of the views' ranges: queries, keys, values, result, logarithms of sums. Returns
/// the new bytes of the results.
pub(crate) fn carry_out(meaning: &AttentionMeaning, contents: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let [.., result, logsumexp] = &meaning.views;
    let mut inputs = Vec::new();
    for (view, bytes) in meaning.views[..3].iter().zip(contents) {
        let tensor = HostTensor::from_bytes(view.dtype, &view.shape(), &gathered_bytes(view, bytes));
        inputs.push(tensor.ok_or("a factor's bytes are no tensor")?);
    }
    let (programs, _) = hostir::load(&program_text(meaning));
    let program = programs.first().ok_or("the program of an sdpa is refused")?;
    let prepared = prepare_program(program, &SizeSettings::default()).map_err(|diags| joined_messages(&diags.items))?;
    let outputs = cpu::run_plans(&prepared, vec![inputs]).map_err(|diags| joined_messages(&diags))?.outputs;
    let outputs: Vec<HostTensor> = outputs.into_iter().flatten().flatten().collect();
    let ([out, sums], [.., old, old_sums]) = (&outputs[..], contents) else {
        return Err("attention has three factors and two results".to_owned());
    };
    Ok(vec![
        scattered_bytes(result, old.clone(), out.bytes()),
        scattered_bytes(logsumexp, old_sums.clone(), sums.bytes()),
    ])
}

fn joined_messages(diags: &[Diag]) -> String {
    diags.iter().map(|diag| diag.message.to_string()).collect::<Vec<_>>().join("; ")
}

fn program_text(meaning: &AttentionMeaning) -> String {
    let [query, key, value, result, logsumexp] = meaning.views.each_ref().map(type_text);
    let AttentionMeaning { is_causal, scale, .. } = meaning;
    format!(
        "hir 2\n\nattention(Q: {query}, K: {key}, V: {value}) -> (A: {result}, L: {logsumexp}):\n  \
         A, L, S: i64[2], O: i64[] = sdpa(Q, K, V, is_causal={is_causal}, scale={scale:?})\n"
    )
}

fn type_text(view: &BufferView) -> String {
    let dtype = match view.dtype {
        DType::BFloat16 => "bf16",
        DType::Half => "f16",
        _ => "f32",
    };
    format!("{dtype}{:?}", view.shape())
}
