//! The messages of members of a communicator that are processes: files in a folder that all have.
//!
//! A team has a folder of its own there, with a file `join.RANK` of each member that has joined. Its collectives are
//! numbered; `all.NUMBER.RANK` is what a member puts in. It is there until the member comes to the next but one: then
//! all have come to the next one, and so have read it. `FROM.TO.NUMBER` is a message, which its receiver takes away. `split.NUMBER.RANK` is what a
//! member asks for in a split. Files come whole, under other names first.

use crate::member_call::{CallKind, MemberCall, deliver_part, joined_contributions, member_contribution};
use crate::memory::DeviceMemory;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// A member's place in a team.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TeamSeat {
    pub(crate) team: u64,
    pub(crate) size: usize,
    pub(crate) rank: usize,
}

/// A call that a member has come to.
struct PostedCall {
    turn: u64,
    call: MemberCall,
    /// The number of the collective, or of the message between the two.
    number: u64,
}

/// A split that a member has asked for.
struct AskedSplit {
    number: u64,
    color: i32,
    /// The place that the new communicator's handle goes to.
    place: usize,
}

struct MailMember {
    seat: TeamSeat,
    posted: Vec<PostedCall>,
    collectives: u64,
    /// The number of messages that went to, and came from, each other member.
    messages: BTreeMap<(bool, usize), u64>,
    splits: u64,
    asked: Vec<AskedSplit>,
}

/// The communicators of this process.
pub(crate) struct MemberMail {
    folder: PathBuf,
    members: BTreeMap<u64, MailMember>,
}

fn text(error: io::Error) -> String {
    format!("the members' folder: {error}")
}

/// Writes a file as a whole.
fn post(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    std::fs::write(&unfinished, bytes)?;
    std::fs::rename(unfinished, path)
}

impl MemberMail {
    /// In a folder that the processes share.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, members: BTreeMap::new() }
    }

    fn team(&self, team: u64) -> PathBuf {
        self.folder.join(format!("{team:x}"))
    }

    /// Joins a team; what cannot be written is missed by all.
    pub(crate) fn join(&mut self, comm: u64, seat: TeamSeat) {
        let folder = self.team(seat.team);
        let _ = std::fs::create_dir_all(&folder);
        let _ = post(&folder.join(format!("join.{}", seat.rank)), b"");
        let member = MailMember {
            seat,
            posted: Vec::new(),
            collectives: 0,
            messages: BTreeMap::new(),
            splits: 0,
            asked: Vec::new(),
        };
        self.members.insert(comm, member);
    }

    /// Takes a member away.
    pub(crate) fn remove(&mut self, comm: u64) {
        self.members.remove(&comm);
    }

    /// Whether all have joined, and nothing that was asked for is missing.
    pub(crate) fn is_ready(&self, comm: u64) -> bool {
        let Some(MailMember { seat, asked, .. }) = self.members.get(&comm) else { return false };
        let folder = self.team(seat.team);
        asked.is_empty() && (0..seat.size).all(|rank| folder.join(format!("join.{rank}")).exists())
    }

    /// Asks for a split.
    pub(crate) fn split(&mut self, comm: u64, color: i32, key: i32, place: usize) {
        let Some(member) = self.members.get_mut(&comm) else { return };
        let number = member.splits;
        member.splits += 1;
        member.asked.push(AskedSplit { number, color, place });
        let seat = member.seat;
        let file = self.team(seat.team).join(format!("split.{number}.{}", seat.rank));
        let _ = post(&file, format!("{color} {key}").as_bytes());
    }

    /// The places in new teams, of splits that all members have asked for.
    pub(crate) fn split_seats(&mut self, comm: u64) -> Vec<(usize, TeamSeat)> {
        let Some(member) = self.members.get(&comm) else { return Vec::new() };
        let (seat, folder) = (member.seat, self.team(member.seat.team));
        let mut seats = Vec::new();
        let mut left = Vec::new();
        for asked in self.members.get_mut(&comm).map(|own| std::mem::take(&mut own.asked)).unwrap_or_default() {
            let all = (0..seat.size).map(|rank| wish(&folder, asked.number, rank));
            let Some(all) = all.collect::<Option<Vec<_>>>() else {
                left.push(asked);
                continue;
            };
            let mut group: Vec<(i32, usize)> = all
                .iter()
                .enumerate()
                .filter(|(_, wish)| wish.0 == asked.color)
                .map(|(rank, wish)| (wish.1, rank))
                .collect();
            group.sort_unstable();
            let rank = group.iter().position(|(_, rank)| *rank == seat.rank);
            if let (Some(rank), 0..) = (rank, asked.color) {
                // Members find the same number.
                let mixed = seat.team ^ (asked.number + 1) << 8 ^ (asked.color as u64 + 1) << 20;
                let team = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                seats.push((asked.place, TeamSeat { team, size: group.len(), rank }));
            }
        }
        if let Some(own) = self.members.get_mut(&comm) {
            own.asked = left;
        }
        seats
    }

    /// A member comes to calls.
    pub(crate) fn arrive(
        &mut self,
        memory: &mut DeviceMemory,
        comm: u64,
        calls: &[MemberCall],
        turn: u64,
    ) -> Result<(), String> {
        for &call in calls {
            let Some(member) = self.members.get_mut(&comm) else { continue };
            let TeamSeat { team, size, rank } = member.seat;
            let number = match call.kind {
                CallKind::Send(peer) | CallKind::Recv(peer) => {
                    let sends = matches!(call.kind, CallKind::Send(_));
                    let count = member.messages.entry((sends, peer)).or_default();
                    *count += 1;
                    *count
                }
                _ => {
                    member.collectives += 1;
                    member.collectives
                }
            };
            member.posted.push(PostedCall { turn, call, number });
            let folder = self.team(team);
            let file = match call.kind {
                CallKind::Recv(_) => continue,
                CallKind::Send(to) => folder.join(format!("{rank}.{to}.{number}")),
                _ => {
                    let before = folder.join(format!("all.{}.{rank}", number.saturating_sub(2)));
                    let _ = std::fs::remove_file(before);
                    folder.join(format!("all.{number}.{rank}"))
                }
            };
            post(&file, &member_contribution(memory, &call, rank, size)?).map_err(text)?;
        }
        Ok(())
    }

    /// Whether a turn's calls are over; carries out what it can of them.
    pub(crate) fn is_over(&mut self, memory: &mut DeviceMemory, comm: u64, turn: u64) -> Result<bool, String> {
        let Some(member) = self.members.get_mut(&comm) else { return Ok(true) };
        let (seat, posted) = (member.seat, std::mem::take(&mut member.posted));
        let folder = self.team(seat.team);
        let mut left = Vec::new();
        for one in posted {
            if !end(memory, &folder, seat, &one)? {
                left.push(one);
            }
        }
        let over = left.iter().all(|one| one.turn != turn);
        if let Some(member) = self.members.get_mut(&comm) {
            member.posted = left;
        }
        Ok(over)
    }
}

/// The color and the key that a member asks for.
fn wish(folder: &Path, number: u64, rank: usize) -> Option<(i32, i32)> {
    let text = std::fs::read_to_string(folder.join(format!("split.{number}.{rank}"))).ok()?;
    let (color, key) = text.split_once(' ')?;
    Some((color.parse().ok()?, key.parse().ok()?))
}

/// Ends a call if the others have come to it; whether it is over.
fn end(memory: &mut DeviceMemory, folder: &Path, seat: TeamSeat, one: &PostedCall) -> Result<bool, String> {
    let PostedCall { call, number, .. } = one;
    match call.kind {
        CallKind::Send(to) => Ok(!folder.join(format!("{}.{to}.{number}", seat.rank)).exists()),
        CallKind::Recv(from) => {
            let file = folder.join(format!("{from}.{}.{number}", seat.rank));
            let Ok(content) = std::fs::read(&file) else { return Ok(false) };
            if content.len() != call.bytes() {
                return Err(format!("{} bytes were sent for {call:?}", content.len()));
            }
            deliver_part(memory, call, seat.rank, &content)?;
            std::fs::remove_file(file).map_err(text)?;
            Ok(true)
        }
        _ => {
            let read = |rank: usize| std::fs::read(folder.join(format!("all.{number}.{rank}"))).ok();
            let Some(all) = (0..seat.size).map(read).collect::<Option<Vec<_>>>() else {
                return Ok(false);
            };
            deliver_part(memory, call, seat.rank, &joined_contributions(call, &all)?)?;
            Ok(true)
        }
    }
}
