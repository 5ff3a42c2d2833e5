//! A text of many programs is read in time that is proportional to its length.

use std::time::Instant;

/// The time that this thread has run, in nanoseconds; where the system does not tell, the time that has passed.
fn thread_time(start: Instant) -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let run = stat.and_then(|stat| stat.split_whitespace().next()?.parse().ok());
    run.unwrap_or_else(|| start.elapsed().as_nanos() as u64)
}

/// The least time of several that reading all programs of a text takes, without parsing it.
fn reading_time(text: &str) -> u64 {
    let start = Instant::now();
    let (file, diags) = hostir::ParsedFile::parse(text);
    assert!(!diags.has_errors(), "{diags:?}");
    (0..3)
        .map(|_| {
            let before = thread_time(start);
            let (mut reader, mut diags) = (file.reader(text), hostir::diag::Diags::default());
            for number in 0..file.program_count() {
                assert_eq!(reader.read_program(number, &mut diags).inputs().len(), 1);
            }
            assert!(diags.is_empty(), "{diags:?}");
            thread_time(start) - before
        })
        .min()
        .unwrap_or(0)
}

/// Asserts that eight times the programs take less than 24 times the time: it would be 64 times if each took time for all.
fn assert_linear(text: fn(usize) -> String) {
    let (few, many) = (2_000, 16_000);
    let [short, long] = [few, many].map(|count| reading_time(&text(count)));
    assert!(long < 24 * short, "{few} programs take {} us, {many} take {} us", short / 1000, long / 1000);
}

#[test]
fn printed_programs() {
    assert_linear(|count| {
        let program = |number: usize| {
            format!(
                "// {number}\n%HostIrContainer {{ (T0_g_float[iS0{{i{number}}}]) -> (T1_g_float[iS1{{i{number}}}]) :\n  \
                 T1\n     = relu(T0); // {number}\n}} // %HostIrContainer\n"
            )
        };
        (0..count).map(program).collect()
    });
}

#[test]
fn programs_of_hir2() {
    assert_linear(|count| {
        let program = |number: usize| {
            format!(
                "// {number}\np{number}(A: f32[x:2, m{number}]) -> (B: f32[x:2, m{number}]) on d:\n  B = relu(A)\n\n"
            )
        };
        "hir 2\nmesh e = 0..3\nmesh d = 0..2\n\n".to_owned() + &(0..count).map(program).collect::<String>()
    });
}
