//! The known name that an unknown one was probably meant to be.

/// `: did you mean ..?` for the known name nearest to `name`, or nothing if none is near.
pub(crate) fn did_you_mean<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    let near = known.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known)).min();
    let near = near.filter(|(distance, known)| *distance <= known.len().max(3) / 3);
    near.map(|(_, known)| format!(": did you mean `{known}`?")).unwrap_or_default()
}
