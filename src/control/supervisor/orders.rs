//! Orders that wait while another one runs: a reload or an upgrade. Orders of a kind are one, so a flood of them costs one reload.

use super::event::{Action, CallerId, OrderOutcome};
use crate::control::admin::Order;

/// The waiting orders, and the callers that wait for the replies.
#[derive(Debug, Default)]
pub(super) struct PendingOrders {
    /// In the order of arrival, each kind once.
    orders: Vec<(Order, Vec<CallerId>)>,
}

/// Callers that wait, at most, for one order: each has a descriptor.
pub(super) const CALLER_COUNT_MAX: usize = 32;

impl PendingOrders {
    /// Adds an order. Refuses the caller if too many wait.
    pub(super) fn add(&mut self, order: Order, caller: Option<CallerId>, actions: &mut Vec<Action>) {
        let place = match self.orders.iter().position(|(known, _)| *known == order) {
            Some(place) => place,
            None => {
                self.orders.push((order, Vec::new()));
                self.orders.len() - 1
            }
        };
        let callers = &mut self.orders[place].1;
        match caller {
            Some(caller) if callers.len() == CALLER_COUNT_MAX => {
                actions.push(Action::Reply(caller, OrderOutcome::Refused("too many orders wait; try again")));
            }
            caller => callers.extend(caller),
        }
    }

    /// Takes the order that has waited longest.
    pub(super) fn next(&mut self) -> Option<(Order, Vec<CallerId>)> {
        (!self.orders.is_empty()).then(|| self.orders.remove(0))
    }

    /// Refuses all orders.
    pub(super) fn refuse(&mut self, why: &'static str, actions: &mut Vec<Action>) {
        let callers = self.orders.drain(..).flat_map(|(_, callers)| callers);
        actions.extend(callers.map(|caller| Action::Reply(caller, OrderOutcome::Refused(why))));
    }
}
