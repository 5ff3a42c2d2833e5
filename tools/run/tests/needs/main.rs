//! Tests of the programs that need something of the machine, a browser, a C compiler or a user without processes: where it is
//! missing, they are reported as ignored.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "the process that has the driver reports to the test")]

mod limits;
#[path = "../../../../test/library/common/needs.rs"]
mod needs;
mod pages;
#[path = "../programs/signals.rs"]
mod signals;
#[path = "../programs/site.rs"]
mod site;
mod stand_in;
mod stuck;
#[cfg(feature = "cuda")]
mod teardown;
#[cfg(feature = "cuda")]
mod user_kernels;

use libtest_mimic::Arguments;

fn main() -> std::process::ExitCode {
    let mut tests = limits::tests();
    tests.extend(pages::tests());
    tests.extend(stuck::tests());
    #[cfg(feature = "cuda")]
    {
        if teardown::carry_out_task() {
            return std::process::ExitCode::SUCCESS;
        }
        tests.extend(teardown::tests());
        tests.extend(user_kernels::tests());
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(thread_count);
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Three tests for each processor: most of a test's time is a deadline that has to pass.
fn thread_count() -> usize {
    3 * std::thread::available_parallelism().map_or(1, usize::from)
}
