// SPDX-License-Identifier: GPL-2.0

//! Hooks for the tests, and the text that the kernel would write for them.

use std::fmt::Write;

use proptest::prelude::*;
use proptest::sample::select;

use super::model::Access;
use super::model::Conditions;
use super::model::Context;
use super::model::Exit;
use super::model::Hook;
use super::model::Name;
use super::model::Priority;

/// Two hooks, one with two exits.
pub const TEXT: &str = "\
hook=int3 module=- context=atomic access=ro params=regs sites=1 active=0 hits=0 exits=0
hook=cpu_prepare module=- context=sleep access=ro_ret params=cpu sites=1 active=1 hits=3 exits=2
  exit=rust_relay order=1 priority=first conditions=none params=1 armed=1 hits=3 stops=0 module=rust_relay
  exit=mine order=2 priority=unspecified conditions=irqs_off params=1 armed=0 hits=0 stops=0 module=mymod
";

fn or_dash(value: &Option<impl ToString>) -> String {
    value
        .as_ref()
        .map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// The text of `gkhi/hooks`.
pub fn text(hooks: &[Hook]) -> String {
    let mut out = String::new();
    for hook in hooks {
        let params: Vec<_> = hook.params.iter().map(Name::as_str).collect();
        let params = params.join(",");
        writeln!(
            out,
            "hook={} module={} context={} access={} params={} sites={} active={} hits={} exits={}",
            hook.name,
            or_dash(&hook.module),
            hook.context.word(),
            hook.access.word(),
            if params.is_empty() { "-" } else { &params },
            or_dash(&hook.sites),
            u8::from(hook.active),
            hook.hits,
            hook.exits.len()
        )
        .unwrap();
        for exit in &hook.exits {
            writeln!(
                out,
                "  exit={} order={} priority={} conditions={} params={} armed={} hits={} stops={} module={}",
                exit.name,
                exit.order,
                exit.priority.word(),
                exit.conditions.word(),
                exit.params,
                u8::from(exit.armed),
                exit.hits,
                exit.stops,
                or_dash(&exit.module)
            )
            .unwrap();
        }
    }
    out
}

/// A name; not `-`, which stands for none.
fn name() -> impl Strategy<Value = Name> {
    "[A-Za-z0-9_.-]{1,63}"
        .prop_filter("none", |text| text != "-")
        .prop_map(|text| text.parse().unwrap())
}

fn exit() -> impl Strategy<Value = Exit> {
    (
        (name(), prop::option::of(name()), any::<bool>()),
        (select(Priority::ALL), select(Conditions::ALL)),
        (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()),
    )
        .prop_map(
            |((name, module, armed), (priority, conditions), (order, params, hits, stops))| Exit {
                name,
                order,
                priority,
                conditions,
                params,
                armed,
                hits,
                stops,
                module,
            },
        )
}

fn hook() -> impl Strategy<Value = Hook> {
    (
        (name(), prop::option::of(name()), any::<bool>()),
        (select(Context::ALL), select(Access::ALL)),
        prop::collection::vec(name(), 0..6),
        (prop::option::of(any::<u64>()), any::<u64>()),
        prop::collection::vec(exit(), 0..4),
    )
        .prop_map(
            |((name, module, active), (context, access), params, (sites, hits), exits)| Hook {
                name,
                module,
                context,
                access,
                params,
                sites,
                active,
                hits,
                exits,
            },
        )
}

/// Any hooks.
pub fn hooks() -> impl Strategy<Value = Vec<Hook>> {
    prop::collection::vec(hook(), 0..5)
}
