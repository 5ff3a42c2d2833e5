//! The communicators of NCCL's stand-in: their members, and the calls that these have come to.

use crate::abi::{Handle, put_value};
use crate::mail::{MemberMail, TeamSeat};
use crate::member_call::{CallKind, MemberCall, deliver_part, joined_contributions, member_contribution};
use crate::memory::DeviceMemory;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::PathBuf;

/// `ncclInvalidArgument`.
pub(crate) const INVALID: c_int = 4;

/// A call that a member has come to, of its turn.
#[derive(Clone, Copy, Debug)]
struct PendingCall {
    member: u64,
    rank: usize,
    turn: u64,
    call: MemberCall,
}

/// The members of a communicator and what they have come to.
#[derive(Default, Debug)]
pub(crate) struct MemberTeam {
    pub(crate) size: usize,
    joined: usize,
    messages: Vec<PendingCall>,
    /// By number: the collectives that not all members have come to.
    collectives: BTreeMap<u64, Vec<PendingCall>>,
    /// By number: what each member asks for in a split that not all have come to.
    splits: BTreeMap<u64, Vec<SplitWish>>,
}

#[derive(Clone, Copy, Debug)]
struct SplitWish {
    member: u64,
    color: c_int,
    key: c_int,
    place: usize,
}

/// One rank's side of a communicator.
#[derive(Default, Debug)]
pub(crate) struct TeamMember {
    pub(crate) team: u64,
    pub(crate) rank: usize,
    pub(crate) blocking: bool,
    /// Turns that were issued, collectives that were come to, splits that were asked for and made.
    turns: u64,
    collectives: u64,
    splits: u64,
    split: u64,
    /// By turn that was come to: how many calls are open.
    open: BTreeMap<u64, usize>,
}

/// All communicators.
#[derive(Default)]
pub(crate) struct CommunicatorTable {
    pub(crate) teams: BTreeMap<u64, MemberTeam>,
    pub(crate) members: BTreeMap<u64, TeamMember>,
    next: u64,
    /// The messages of members that are processes.
    mail: Option<MemberMail>,
}

impl CommunicatorTable {
    /// Those of this process's threads, or with a folder of processes that share it.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { mail: folder.map(MemberMail::new), ..Self::default() }
    }

    /// A number that no other team or communicator has.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 16;
        // Other processes make some too.
        self.next | u64::from(std::process::id()) << 32
    }

    pub(crate) fn join(&mut self, team: u64, size: usize, rank: usize, blocking: bool) -> u64 {
        let handle = self.number();
        if let Some(mail) = &mut self.mail {
            mail.join(handle, TeamSeat { team, size, rank });
        }
        let of = self.teams.entry(team).or_default();
        of.size = size;
        of.joined += 1;
        self.members.insert(handle, TeamMember { team, rank, blocking, ..TeamMember::default() });
        handle
    }

    /// Whether nothing that makes a communicator is under way; `None` of one that there is not.
    pub(crate) fn is_ready(&mut self, comm: u64) -> Option<bool> {
        if let Some(mail) = &mut self.mail {
            let seats = mail.split_seats(comm);
            let ready = mail.is_ready(comm);
            for (place, seat) in seats {
                let handle = self.join(seat.team, seat.size, seat.rank, true);
                put_value(place as *mut Handle, handle as Handle);
            }
            return self.members.contains_key(&comm).then_some(ready);
        }
        let member = self.members.get(&comm)?;
        let team = self.teams.get(&member.team)?;
        Some(team.joined >= team.size && member.split == member.splits)
    }

    /// The number of a member's next calls, or of its last ones.
    pub(crate) fn turn(&mut self, comm: u64, next: bool) -> u64 {
        let Some(member) = self.members.get_mut(&comm) else { return 0 };
        member.turns += u64::from(next);
        member.turns
    }

    /// Whether calls have been carried out, or never will be.
    pub(crate) fn is_over(&mut self, memory: &mut DeviceMemory, comm: u64, turn: u64) -> Result<bool, String> {
        let Some(member) = self.members.get(&comm) else { return Ok(true) };
        match &mut self.mail {
            Some(mail) => mail.is_over(memory, comm, turn),
            None => Ok(member.open.get(&turn) == Some(&0)),
        }
    }

    /// A member comes to calls: what everybody else has come to is carried out.
    pub(crate) fn arrive(
        &mut self,
        memory: &mut DeviceMemory,
        comm: u64,
        calls: &[MemberCall],
        turn: u64,
    ) -> Result<(), String> {
        let Some(member) = self.members.get_mut(&comm) else { return Ok(()) };
        if let Some(mail) = &mut self.mail {
            return mail.arrive(memory, comm, calls, turn);
        }
        member.open.insert(turn, calls.len());
        let (rank, id) = (member.rank, member.team);
        let mut ready = Vec::new();
        for &call in calls {
            let Some(member) = self.members.get_mut(&comm) else { continue };
            let Some(team) = self.teams.get_mut(&id) else { continue };
            let pending = PendingCall { member: comm, rank, turn, call };
            if matches!(call.kind, CallKind::Send(_) | CallKind::Recv(_)) {
                ready.extend(team.message(pending)?);
                continue;
            }
            let sides = team.collectives.entry(member.collectives).or_default();
            sides.push(pending);
            if sides.len() == team.size {
                ready.push(team.collectives.remove(&member.collectives).unwrap_or_default());
            }
            member.collectives += 1;
        }
        for mut sides in ready {
            sides.sort_by_key(|side| side.rank);
            carry_out(memory, &sides)?;
            for side in sides {
                let open = self.members.get_mut(&side.member).and_then(|member| member.open.get_mut(&side.turn));
                if let Some(open) = open {
                    *open -= 1;
                }
            }
        }
        Ok(())
    }

    /// Takes a member away; what others wait for with it never ends.
    pub(crate) fn remove_member(&mut self, comm: u64) -> bool {
        if let Some(mail) = &mut self.mail {
            mail.remove(comm);
        }
        self.members.remove(&comm).is_some()
    }

    /// A member asks for a split; the last one makes it.
    pub(crate) fn split(&mut self, comm: u64, color: c_int, key: c_int, place: usize, blocking: bool) -> c_int {
        if let Some(mail) = &mut self.mail {
            mail.split(comm, color, key, place);
            return 0;
        }
        let Some(member) = self.members.get_mut(&comm) else { return INVALID };
        let number = member.splits;
        member.splits += 1;
        let Some(team) = self.teams.get_mut(&member.team) else { return INVALID };
        let asked = team.splits.entry(number).or_default();
        asked.push(SplitWish { member: comm, color, key, place });
        if asked.len() < team.size {
            return 0;
        }
        let mut asked = team.splits.remove(&number).unwrap_or_default();
        asked.sort_by_key(|one| (one.color, one.key));
        for one in &asked {
            if let Some(member) = self.members.get_mut(&one.member) {
                member.split += 1;
            }
        }
        for group in asked.chunk_by(|a, b| a.color == b.color).filter(|group| group[0].color >= 0) {
            let team = self.number();
            for (rank, one) in group.iter().enumerate() {
                let handle = self.join(team, group.len(), rank, blocking);
                put_value(one.place as *mut Handle, handle as Handle);
            }
        }
        0
    }
}

impl MemberTeam {
    /// A message whose other side is there, or nothing: then it waits for that.
    fn message(&mut self, new: PendingCall) -> Result<Option<Vec<PendingCall>>, String> {
        let fits = |old: &PendingCall| match (new.call.kind, old.call.kind) {
            (CallKind::Send(to), CallKind::Recv(from)) | (CallKind::Recv(to), CallKind::Send(from)) => {
                to == old.rank && from == new.rank
            }
            _ => false,
        };
        let Some(at) = self.messages.iter().position(fits) else {
            self.messages.push(new);
            return Ok(None);
        };
        let old = self.messages.remove(at);
        match new.call.bytes() == old.call.bytes() {
            true => Ok(Some(vec![old, new])),
            false => Err(format!("a message is sent and received alike: {old:?} and {new:?}")),
        }
    }
}

/// Moves the data of a message, or of a collective whose members are in order.
fn carry_out(memory: &mut DeviceMemory, sides: &[PendingCall]) -> Result<(), String> {
    let Some(first) = sides.first().map(|side| side.call) else { return Ok(()) };
    if matches!(first.kind, CallKind::Send(_) | CallKind::Recv(_)) {
        let side = |sends: bool| sides.iter().find(|side| matches!(side.call.kind, CallKind::Send(_)) == sends);
        let (Some(from), Some(to)) = (side(true), side(false)) else { return Ok(()) };
        let content = memory.read_bytes(from.call.send, from.call.bytes())?;
        return memory.write_bytes(to.call.recv, &content);
    }
    if !sides.iter().all(|side| side.call.is_alike(&first)) {
        return Err(format!("members of a collective call it in other ways: {sides:?}"));
    }
    let mut all = Vec::new();
    for side in sides {
        all.push(member_contribution(memory, &side.call, side.rank, sides.len())?);
    }
    let joined = joined_contributions(&first, &all)?;
    sides.iter().try_for_each(|side| deliver_part(memory, &side.call, side.rank, &joined))
}
