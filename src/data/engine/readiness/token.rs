//! Token: the source of an event, in the 64 bits of user data in epoll and kqueue.

use super::SlotId;

#[derive(Clone, Copy)]
pub(super) enum Token {
    Slot(SlotId),
    Listener(usize),
    Mailbox,
}

impl Token {
    pub(super) fn bits(self) -> u64 {
        match self {
            Token::Slot(SlotId { index, generation }) => (generation as u64) << 32 | index as u64,
            Token::Listener(number) => LISTENER | number as u64,
            Token::Mailbox => MAILBOX,
        }
    }

    #[inline]
    pub(super) fn of(bits: u64) -> Token {
        match bits as u32 {
            index if index < SLOT_COUNT_MAX => Token::Slot(SlotId { index, generation: (bits >> 32) as u32 }),
            _ if bits == MAILBOX => Token::Mailbox,
            number => Token::Listener((number - SLOT_COUNT_MAX) as usize),
        }
    }
}

/// Upper limit of slot numbers; a process cannot have as many descriptors.
const SLOT_COUNT_MAX: u32 = 1 << 31;
const LISTENER: u64 = SLOT_COUNT_MAX as u64;
const MAILBOX: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_round_trip() {
        let slot = |index, generation| Token::Slot(SlotId { index, generation });
        let cases = [
            Token::Mailbox,
            Token::Listener(0),
            Token::Listener(1_000),
            slot(0, 0),
            slot(7, 1),
            slot(SLOT_COUNT_MAX - 1, u32::MAX),
        ];
        for (number, token) in cases.into_iter().enumerate() {
            let is_same = match (token, Token::of(token.bits())) {
                (Token::Mailbox, Token::Mailbox) => true,
                (Token::Listener(before), Token::Listener(after)) => before == after,
                (Token::Slot(before), Token::Slot(after)) => {
                    (before.index, before.generation) == (after.index, after.generation)
                }
                _ => false,
            };
            assert!(is_same, "{number}");
        }
    }
}
