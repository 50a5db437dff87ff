// SPDX-License-Identifier: GPL-2.0

//! Publishes a staged change at the sites of its hooks, in one step.
//!
//! A change of one hook is a single store. A change of several hooks takes three rounds. First each
//! hook gets a chain that calls the old exits until a shared switch is thrown. Then the switch is
//! thrown. Last each hook gets its final target. So no dispatch, not even in an NMI, sees a part of
//! the change.
//!
//! Contexts: process; sleeps, with the registry locked.
#![deny(unsafe_code)]

use ferro_gkhi_core::State;
use ferro_sys::hook::Chain;
use ferro_sys::hook::Context;
use ferro_sys::hook::Exit;
use ferro_sys::hook::RetireList;
use ferro_sys::hook::Switch;
use ferro_sys::hook::Target;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::error::Error;
use crate::kvec_lists::Hook;
use crate::kvec_lists::Hooks;

/// The new target of one hook.
struct Change {
    hook: usize,
    /// Chain with the switch, used until the last round if other hooks change, too.
    staged: Option<Target>,
    end: Target,
    /// New nodes for exits that have disarmed themselves and are armed again, by exit number.
    new_nodes: KVec<(usize, Arc<Exit>)>,
}

/// Applies the staged change. An error leaves everything unchanged. Returns the replaced targets in
/// a retire list, which has room for the readers of `more` additional hooks.
pub(crate) fn apply(table: &mut Hooks, more: usize) -> Result<RetireList, Error> {
    let count = table.hooks().iter().filter(|h| h.is_staged()).count();
    let visible = table.hooks().iter().filter(|h| h.is_visible()).count();
    let switch = match visible {
        0 | 1 => None,
        _ => Some(Arc::new(Switch::new(), GFP_KERNEL)?),
    };
    let mut changes = KVec::with_capacity(count, GFP_KERNEL)?;
    for hook in table.hooks().iter().filter(|h| h.is_staged()) {
        changes.push(plan(hook, switch.as_ref())?, GFP_KERNEL)?;
    }
    // Two targets a hook: the present one and the intermediate one.
    let mut retire_list = RetireList::new(2 * count, count + more).map_err(|_| Error::NoMemory)?;

    // Nothing fails below: the retire list has room. Mark exits armed before they can be called, as
    // an exit may ask for its own state.
    for change in &changes {
        arm_nodes(table, change.hook, &change.new_nodes);
    }
    let mut publish = |table: &mut Hooks, id: usize, target: Target| {
        let mut hooks = table.hooks_mut().iter_mut();
        if let Some(hook) = hooks.find(|h| h.id == id) {
            let _ = hook.body.publisher.publish(target, &mut retire_list);
        }
    };
    for change in changes.iter_mut() {
        if let Some(staged) = change.staged.take() {
            publish(table, change.hook, staged);
        }
    }
    if let Some(switch) = switch {
        switch.throw();
    }
    for change in changes {
        publish(table, change.hook, change.end);
    }
    Ok(retire_list)
}

/// Prepares the new target of a hook, and allocates all that it needs.
fn plan(hook: &Hook, switch: Option<&Arc<Switch>>) -> Result<Change, Error> {
    let hook_ref = hook.body.publisher.hook();
    let mut new_nodes = KVec::new();
    let (mut now, mut later) = (KVec::new(), KVec::new());
    for exit in hook.exits() {
        if exit.state() == State::Armed {
            now.push(exit.body.node.clone(), GFP_KERNEL)?;
        }
        if exit.next() == State::Armed {
            let mut node = exit.body.node.clone();
            if exit.state() != State::Armed && node.is_self_disarmed() {
                node = Arc::new(exit.body.new_node(hook_ref), GFP_KERNEL)?;
                new_nodes.push((exit.id, node.clone()), GFP_KERNEL)?;
            }
            later.push(node, GFP_KERNEL)?;
        }
    }
    let end = target(hook, &later)?;
    let staged = match switch {
        None => None,
        Some(switch) => Some(chain(hook, now, Some((switch.clone(), later)))?),
    };
    Ok(Change {
        hook: hook.id,
        staged,
        end,
        new_nodes,
    })
}

/// Builds the target that calls these exits. A hook that may sleep always gets a chain, because the
/// chain takes the lock that sleeping needs.
fn target(hook: &Hook, exits: &[Arc<Exit>]) -> Result<Target, Error> {
    let hook_ref = hook.body.publisher.hook();
    match exits {
        [] => Ok(Target::Idle),
        [exit] if hook_ref.context() != Context::Sleep => Ok(Target::Exit(exit.clone())),
        exits => {
            let mut list = KVec::with_capacity(exits.len(), GFP_KERNEL)?;
            for exit in exits {
                list.push(exit.clone(), GFP_KERNEL)?;
            }
            chain(hook, list, None)
        }
    }
}

/// Makes a chain that calls the exits of `now`, and the exits of `later` once the switch is thrown.
fn chain(
    hook: &Hook,
    now: KVec<Arc<Exit>>,
    later: Option<(Arc<Switch>, KVec<Arc<Exit>>)>,
) -> Result<Target, Error> {
    let (publisher, hits) = (&hook.body.publisher, hook.body.dispatches.clone());
    let chain = Chain::new(
        publisher.hook(),
        publisher.readers().clone(),
        now,
        later,
        hits,
    );
    let chain = chain.map_err(|_| Error::NoMemory)?;
    Ok(Target::Chain(Arc::new(chain, GFP_KERNEL)?))
}

/// Marks the exits armed that the change arms at a hook. Gives them their new nodes.
fn arm_nodes(table: &mut Hooks, hook: usize, new_nodes: &[(usize, Arc<Exit>)]) {
    let mut hooks = table.hooks_mut().iter_mut();
    let Some(hook) = hooks.find(|h| h.id == hook) else {
        return;
    };
    for exit in hook.exits_mut() {
        if exit.next() != State::Armed || exit.state() == State::Armed {
            continue;
        }
        let node = new_nodes.iter().find(|(id, _)| *id == exit.id);
        exit.body.arm(node.map(|(_, node)| node.clone()));
        exit.body.counters.set_armed(true);
    }
}
