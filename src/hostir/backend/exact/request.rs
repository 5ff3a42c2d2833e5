//! Requests for proofs of equality, and their results.

use crate::data::HostTensor;
use crate::diag::Diag;
use crate::lower::PreparedProgram;

/// Two programs, whose inputs and outputs are matched by position.
#[derive(Clone, Copy, Debug)]
pub struct ExactRequest<'p> {
    /// The program.
    pub program: &'p PreparedProgram,
    /// The program that it is compared with.
    pub reference: &'p PreparedProgram,
    /// The reference in messages.
    pub name: &'p str,
    /// By input: the values of integers.
    pub given: &'p [Option<HostTensor>],
    /// Chooses the random inputs.
    pub seed: u64,
}

/// One of the two programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExactSide {
    /// The program.
    Program,
    /// The reference.
    Reference,
}

/// A run that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideFailure {
    /// The program that it is a run of.
    pub side: ExactSide,
    /// Errors about its text.
    pub diags: Vec<Diag>,
}

/// A proof that two programs are equal.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExactProof {
    /// The number of runs of each program.
    pub seeds: u32,
    /// A bound on the probability that the programs differ nevertheless.
    pub error: f64,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct ExactReport {
    /// The proof, if there is one; otherwise `program` has an error.
    pub proof: Option<ExactProof>,
    /// Errors and warnings about the program's text.
    pub program: Vec<Diag>,
    /// Warnings about the reference's text.
    pub reference: Vec<Diag>,
}
