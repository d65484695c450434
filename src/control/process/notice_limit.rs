//! Bounds the notices that a child can cause: a child that floods its parent must not fill the log.

use super::{super::supervisor::Role, clock::after};
use std::time::Duration;
use tarpon_conn::Tick;

/// How many notices the children of each role have caused lately.
#[derive(Debug, Default)]
pub(crate) struct NoticeLimit {
    roles: Vec<RoleNotices>,
}

#[derive(Debug)]
struct RoleNotices {
    role: Role,
    /// The start of the interval that counts.
    since: Tick,
    emitted: u32,
    suppressed: u64,
}

/// Notices of a role in one interval: as many sites may fail at once. The next interval begins with the number of all others.
const NOTICES_MAX: u32 = 8;

/// The length of an interval.
const INTERVAL: Duration = Duration::from_secs(1);

impl NoticeLimit {
    /// Counts a notice that a child of this role has caused. Returns whether to emit it.
    pub(crate) fn admit(&mut self, now: Tick, role: Role) -> bool {
        let place = self.roles.iter().position(|known| known.role == role).unwrap_or_else(|| {
            self.roles.push(RoleNotices { role, since: now, emitted: 0, suppressed: 0 });
            self.roles.len() - 1
        });
        let notices = &mut self.roles[place];
        if notices.end() <= now {
            (notices.since, notices.emitted) = (now, 0);
        }
        let is_admitted = notices.emitted < NOTICES_MAX;
        match is_admitted {
            true => notices.emitted += 1,
            false => notices.suppressed += 1,
        }
        is_admitted
    }

    /// Returns a role some of whose notices were suppressed in an interval that has ended, and their number.
    pub(crate) fn take_suppressed(&mut self, now: Tick) -> Option<(Role, u64)> {
        let notices = self.roles.iter_mut().find(|notices| notices.suppressed > 0 && notices.end() <= now)?;
        Some((notices.role, std::mem::take(&mut notices.suppressed)))
    }

    /// Returns when [`take_suppressed`](NoticeLimit::take_suppressed) returns the next number.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        self.roles.iter().filter(|notices| notices.suppressed > 0).map(RoleNotices::end).min()
    }
}

impl RoleNotices {
    fn end(&self) -> Tick {
        after(self.since, INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_of_a_child_costs_few_lines_a_second() {
        let mut limit = NoticeLimit::default();
        let (mut lines, mut suppressed) = (0, 0);
        // A notice each millisecond, for ten seconds.
        for ms in 0..10_000 {
            while let Some((role, count)) = limit.take_suppressed(Tick(ms)) {
                assert_eq!(role, Role::Server);
                lines += 1;
                suppressed += count;
            }
            lines += u64::from(limit.admit(Tick(ms), Role::Server));
        }
        assert_eq!(limit.deadline(), Some(Tick(10_000)));
        let (_, last) = limit.take_suppressed(Tick(10_000)).expect("the end of the last interval");
        assert_eq!(lines, 10 * u64::from(NOTICES_MAX) + 9);
        assert_eq!(suppressed + last + 10 * u64::from(NOTICES_MAX), 10_000, "every notice counts");
        assert_eq!((limit.deadline(), limit.take_suppressed(Tick(20_000))), (None, None));
    }

    #[test]
    fn each_role_has_a_limit_of_its_own() {
        let mut limit = NoticeLimit::default();
        let admitted = (0..100).filter(|_| limit.admit(Tick(5), Role::Builder)).count();
        assert_eq!(admitted, NOTICES_MAX as usize);
        assert!(limit.admit(Tick(5), Role::Worker));
        assert!(!limit.admit(Tick(1_004), Role::Builder));
        assert!(limit.admit(Tick(1_005), Role::Builder));
    }
}
