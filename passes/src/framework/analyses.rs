//! Analyses that passes share: a pass that changes nothing leaves them to the next one.

use hostir::analysis::is_resharding;
use hostir::ir::edit::Edit;
use hostir::ir::{IdVec, OpId, Program};
use std::rc::Rc;

/// The analyses of a program as it is; the manager drops them when a pass has changed it.
#[derive(Clone, Default, Debug)]
pub(crate) struct KnownAnalyses {
    resharding: Option<Rc<ReshardingOps>>,
}

impl KnownAnalyses {
    /// The ops that move data between devices. They are found anew if the edit has begun to change the program.
    pub(crate) fn resharding_ops(&mut self, edit: &Edit<'_>) -> Rc<ReshardingOps> {
        if !edit.is_untouched() {
            return Rc::new(ReshardingOps::of_program(edit.program()));
        }
        let known = self.resharding.get_or_insert_with(|| Rc::new(ReshardingOps::of_program(edit.program())));
        Rc::clone(known)
    }
}

/// The ops of a host program, without its units, that move data between devices ([`is_resharding`]).
#[derive(Debug)]
pub struct ReshardingOps {
    /// By op.
    flags: IdVec<OpId, bool>,
}

impl ReshardingOps {
    /// Those of a program.
    fn of_program(program: &Program) -> Self {
        let mut flags = IdVec::filled(false, program.ops().len());
        program.walk(program.body(), &mut |op| flags[op] = is_resharding(program, op));
        Self { flags }
    }
    /// Returns true if an op is one of them.
    pub fn contains(&self, op: OpId) -> bool {
        self.flags.get(op) == Some(&true)
    }
}
