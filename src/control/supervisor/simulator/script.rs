//! What happens to a world: from its seed, a time of faults and orders, a quiet time, and a signal to stop.

use super::{
    super::{
        draining::OVERDUE,
        event::{ProcessStart, SupervisorEvent, SupervisorSignal},
    },
    random::SimRandom,
    world::{Faults, SimProcess, World, WorldHistory},
};
use crate::control::admin::Order;

/// Runs the world of a seed.
pub(super) fn run(seed: u64, is_verbose: bool) -> WorldHistory {
    let mut world = World::new(seed, is_verbose);
    let mut random = SimRandom::new(!seed);
    // Half of the worlds start without faults, so that most of these serve.
    world.faults = if random.percent(50) { Faults::default() } else { faults(&mut random) };
    for _ in 0..random.within(5..40) {
        let end = world.now.after(random.within(1..8_000 / world.speed.isqrt()));
        world.run_until(end);
        if world.exit.is_some() {
            world.check_end();
            return world.history;
        }
        incident(&mut world, &mut random);
    }
    world.recover();
    if world.exit.is_none() {
        stop(&mut world, &mut random);
    }
    world.check_end();
    world.history
}

fn faults(random: &mut SimRandom) -> Faults {
    let mut rare = |percent_max| if random.percent(50) { 0 } else { random.within(0..percent_max) };
    Faults {
        start_fails: rare(60),
        crash: rare(20),
        garbage: rare(5),
        lost: rare(20),
        hang: rare(5),
        unprepared: rare(30),
        log_fails: rare(50),
    }
}

/// Something happens.
fn incident(world: &mut World, random: &mut SimRandom) {
    match random.within(0..100) {
        0..15 => world.handle(SupervisorEvent::Signal(SupervisorSignal::Reload)),
        15..20 => world.handle(SupervisorEvent::Signal(SupervisorSignal::ReopenLogs)),
        20..21 => world.handle(SupervisorEvent::Signal(SupervisorSignal::Upgrade)),
        21..40 => order(world, random, 1),
        40..45 => order(world, random, 200),
        45..70 => {
            let living = world.living(|_| true);
            if let Some(&process) = random.pick(&living) {
                world.kill(process);
            }
        }
        70..90 => world.faults = faults(random),
        90..99 => world.faults = Faults::default(),
        _ if world.has_predecessor() && !world.has_served => {
            world.handle(SupervisorEvent::PredecessorGone);
        }
        _ => {}
    }
}

/// Administrators give the same order, through any server.
fn order(world: &mut World, random: &mut SimRandom, count: usize) {
    let is_server = |sim: &SimProcess| matches!(sim.start, ProcessStart::Server { .. });
    let order = if random.percent(95) { Order::Reload } else { Order::Upgrade };
    for _ in 0..count {
        let servers = world.living(is_server);
        let Some(&server) = random.pick(&servers) else { return };
        world.order(server, order);
    }
}

/// A signal stops the service in time, whatever else happens.
fn stop(world: &mut World, random: &mut SimRandom) {
    if random.percent(50) {
        world.faults = faults(random);
    }
    world.may_exit = true;
    world.handle(SupervisorEvent::Signal(SupervisorSignal::Stop(15)));
    if random.percent(20) {
        let end = world.now.after(random.within(0..5_000));
        world.run_until(end);
        world.handle(SupervisorEvent::Signal(SupervisorSignal::Stop(15)));
    }
    let slack = 1_000;
    let end = world.now.after((world.grace + OVERDUE).as_millis() as u64 + slack);
    world.run_until(end);
    assert!(world.exit.is_some(), "SIGTERM does not end the program within {:?}", world.grace);
}
